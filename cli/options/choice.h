/* Values that are chosen by name, such as those of --schedule. */
#ifndef CLI_OPTIONS_CHOICE_H
#define CLI_OPTIONS_CHOICE_H

typedef struct choice {
    const char *name;
    int value;
} choice;

/* Lists, ended by a name of NULL. Values are the library's or those of settings.h; 0 where the name itself counts. */
extern const choice model_choices[], dataset_choices[], optimizer_choices[], schedule_choices[], conv_choices[],
    dtype_choices[], isa_choices[], last_batch_choices[], keep_choices[], bn_choices[], check_choices[];

/* The name that a value has; "?" where it has none. */
const char *choice_name(const choice *choices, int value);
const char *bn_choice(int bn);
const char *last_batch_choice(int last_batch);
const char *keep_choice(int keep);
const char *dtype_choice(int dtype);
const char *isa_choice(int isa);
const char *optimizer_choice(int optimizer);
const char *schedule_choice(int schedule);
const char *conv_choice(int conv);

#endif
