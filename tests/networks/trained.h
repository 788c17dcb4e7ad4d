/* A network of a recipe in training, and what is left of it. */
#ifndef TEST_NETWORKS_TRAINED_H
#define TEST_NETWORKS_TRAINED_H

#include "networks/recipe.h"

#include <lockstep_cluster.h>

typedef struct way {
    ls_isa isa;
    int devices;
    bool card;           /* the first card, and the devices' cores beside it where they are more than one */
    ls_cluster *cluster; /* NULL: this process alone */
    uint64_t pulls;      /* not 0: shards are handed out in an order drawn from it */
    int stops;           /* after so many steps it ends and goes on from a checkpoint, with other devices; 0: never */
    const char *folder;  /* of the checkpoint */
} way;

/* Everything that must be equal to the bit. To be emptied. */
typedef struct outcome {
    ls_status status;
    char message[400];
    char isa[16];
    char fingerprint[65], average[65]; /* average: "" without one */
    ls_report reports[TRAINED];
    int n_reports;
    int parameters;
    ls_parameter_info *about;
    char (*names)[64];
    float **values;
    /* Behind the training, in inference. */
    ls_metrics metrics; /* of the loss, over all data */
    double mean;        /* a metric: of an image's outputs */
    float *outputs;     /* of a batch, and where they are classes of all images */
    int64_t n_outputs;
} outcome;

void outcome_free(outcome *o);
/* False, with the first difference in words. */
bool outcome_same(const outcome *a, const outcome *b, char *why, int size);

void train_recipe(const recipe *r, const way *w, outcome *o);

/* ---- A network before its first step ---- */

typedef struct begun {
    ls_session *s;
    ls_data *data;
    ls_module *net;
    ls_trainer *trainer;
} begun;

void recipe_begin(const recipe *r, const way *w, begun *b);
bool recipe_next(const recipe *r, const begun *b, ls_batch *batch); /* of the data set, or copied to arrays */
ls_tensor *recipe_losses(const recipe *r, const begun *b, const ls_batch *batch);

ls_module *recipe_network(ls_session *s, const recipe *r);
ls_data *recipe_data(ls_session *s, const recipe *r);

#endif
