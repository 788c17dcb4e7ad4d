/* A random network as it was drawn: its inputs, steps, loss and training, as numbers and names alone. Who records,
 * prints or trains it reads them here. */
#ifndef TEST_NETWORKS_RECIPE_H
#define TEST_NETWORKS_RECIPE_H

#include <lockstep.h>
#include <lockstep_nn.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    MOST_STEPS = 64,
    MOST_FROM = 4,
    MOST_DETAILS = 12,
    MOST_PARAMETERS = 64,
    MOST_ROWS = 44,
    MOST_NUMBERS = 600, /* of a value, for each image */
    MOST_CLASSES = 8,
    VOCABULARY = 9, /* ids are below */
    TRAINED = 5     /* steps of a training */
};

/* Sizes behind the images. */
typedef struct sizes {
    int rank, at[3];
} sizes;

typedef struct detail {
    const char *name;
    double value;
} detail;

typedef struct operation operation;
typedef struct recipe recipe;

/* One operation or layer of the network; its result is the value with the number inputs + place. */
typedef struct step {
    const operation *op;
    int from[MOST_FROM], n_from; /* values */
    int lengths;                 /* the input that says them; -1: none */
    int layer;                   /* whose module, by the place of its first step; -1: no layer */
    int parameters[MOST_FROM], n_parameters;
    detail details[MOST_DETAILS];
    int n_details;
    sizes to;
    double large; /* about how large its numbers are */
} step;

typedef enum input_kind { BYTES, MAP, FEATURES, SEQUENCE, IDS, LENGTHS } input_kind;

/* Its numbers are a function of the recipe's seed and the input's place. */
typedef struct input {
    input_kind kind;
    sizes to;
    int tokens; /* LENGTHS: of which sequences */
} input;

typedef struct loss_kind loss_kind;

typedef struct training {
    int rows, batch, shard;
    bool shuffle, direct; /* convolutions without Winograd */
    bool arrays, source;  /* the program's arrays in place of a data set's; a function that makes the data */
    bool names_labels;    /* ls_data_set_labels */
    ls_augment augment;
    ls_init init;
    const char *optimizer;
    ls_optimizer kind;
    ls_optim options;
    int passes;       /* backward passes of a step */
    double later_lr;  /* from the step in the middle on; 0: it stays */
    char frozen[24];  /* pattern; "": all trains */
    char grouped[24]; /* likewise: has a group of its own */
    bool vectors;     /* and what has one dimension has no decay */
} training;

struct recipe {
    uint64_t seed, number;
    bool still; /* nothing is random in a step: dropout has the rate 0 */
    uint64_t state;
    input inputs[LS_MAX_INPUTS];
    int n_inputs;
    step steps[MOST_STEPS];
    int n_steps;
    ls_shape parameters[MOST_PARAMETERS];
    int n_parameters;
    const loss_kind *loss;
    int classes;
    sizes outputs, y;
    ls_loss options;
    double class_weights[MOST_CLASSES], positive_weights[MOST_CLASSES];
    training training;
};

/* The network with this number among those of the seed. */
void recipe_draw(recipe *r, uint64_t seed, uint64_t number, bool still);

/* ---- While it is drawn ---- */

uint64_t recipe_random(recipe *r);
int recipe_between(recipe *r, int low, int high); /* both may come */
bool recipe_chance(recipe *r, double share);
double recipe_one_of(recipe *r, const double *values, int n);
#define ONE_OF(r, ...)                                                                                                 \
    recipe_one_of(r, (const double[]){__VA_ARGS__}, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)))

void recipe_say(step *p, const char *name, double value);
double recipe_told(const step *p, const char *name); /* 0 where nothing was said */
int recipe_int(const step *p, const char *name);
bool recipe_says(const step *p, const char *name);

int recipe_values(const recipe *r);
const sizes *recipe_sizes(const recipe *r, int value);
double recipe_large(const recipe *r, int value);
bool recipe_is_number(const recipe *r, int value); /* no ids and no lengths */
int recipe_numbers(const sizes *s);

/* Adds a step of the operation on the value, or of the layer in front where `as` is one; the number of its result, -1
 * where it does not fit. `as` may also say details in advance. */
int recipe_add(recipe *r, const char *op, int value, const step *as);
/* The value, brought to so many sizes behind the images by steps that are added. */
int recipe_as_rank(recipe *r, int value, int rank);
int recipe_tame(recipe *r, int value, double most); /* as large as that at most */
int recipe_shrunk(recipe *r, int value, int numbers);
/* Another value than `other` that has these sizes, often the newest; -1: none was found. */
int recipe_like(recipe *r, const sizes *s, int other);
int recipe_parameter(recipe *r, ls_shape shape); /* an earlier one of this shape, or a new one */
int recipe_lengths(recipe *r, int tokens);       /* an input that says the lengths of so many tokens; -1 */

/* ---- Losses ---- */

struct loss_kind {
    const char *name;
    int rank; /* of the outputs; 0: any */
    char y;   /* 'l' labels of images, 'p' of places, 't' targets of the outputs' sizes from 0 to 1, 'n' numbers */
    bool smooth, weighs, ignores, positive;
};
extern const loss_kind loss_kinds[];
extern const int n_loss_kinds;
ls_tensor *loss_record(const recipe *r, ls_tensor *outputs, ls_tensor *y);

extern const char *const input_kinds[]; /* by which networks begin */
extern const int n_input_kinds;
const char *recipe_input_kind(const recipe *r);
extern const char *const optimizer_kinds[], *const schedule_kinds[];
extern const int n_optimizer_kinds, n_schedule_kinds;

#endif
