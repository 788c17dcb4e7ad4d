/* Values that are chosen by name, such as those of --schedule. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct choice {
    const char *name;
    int value;
} choice;

/* Lists, ended by a name of NULL. Values are the library's or those of settings.h; 0 where the name itself counts. */
extern const choice model_choices[], dataset_choices[], optimizer_choices[], schedule_choices[], conv_choices[],
    dtype_choices[], isa_choices[], last_batch_choices[], keep_choices[], bn_choices[], check_choices[];

/* The name that a value has; "?" where it has none. */
const char *choice_name(const choice *choices, int value);
/* The number, or its name where it has one; choices may be NULL. */
const char *choice_or_count(const choice *choices, int64_t value, char *text, size_t size);
