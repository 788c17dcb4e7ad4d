/* A small run with checkpoints in the test's folder: a convolution, BatchNorm, shuffled batches, a schedule. */
#ifndef TEST_CHECKPOINT_RUN_H
#define TEST_CHECKPOINT_RUN_H

#include "files.h"

#include <string.h>
#include <lockstep_checkpoint.h>

#include "training.h"

enum { STEPS = 12, SET = 4 }; /* of the whole run; an epoch has five batches, the last of two images */

typedef struct run {
    ls_session *s;
    ls_data *data;
    ls_module *net;
    ls_trainer *trainer;
    ls_checkpoints *kept;
    int steps; /* done */
    bool writes;
    double set;
    char told[4096];
    int lines;
} run;

typedef struct how {
    const char *devices;
    ls_isa isa;
    ls_optimizer optimizer;
    double momentum, lr, clip, set; /* set: the rate from step SET on; 0: it stays */
    uint64_t seed;
    int keep, batch;
    const char *const *allow_changed;
    const ls_note *own;
    const ls_allocator *allocator;
    int outputs; /* of the convolution */
    const char *frozen,
        *freed;   /* patterns; NULL: all trains. The frozen bias has values that only a checkpoint knows */
    bool grouped; /* twice the rate for the last layer, and no decay for what has one dimension */
    ls_cluster *cluster;
    const char *folder; /* in the test's; NULL: kept */
} how;

extern const how usual; /* with momentum */

ls_status begin(run *r, const how *h);
ls_status train(run *r, int steps); /* until so many are done */
ls_status end(run *r);
bool load(run *r);
void assert_ok(const run *r);
void assert_fails(run *r, ls_status status, const char *words); /* and ends it */

void save_at(const how *h, int first, int second); /* a run with a checkpoint after each of these steps; 0: none */

enum { RULES = 6 };
/* SGD without and with momentum, and Adam: none, one and two moments; clipped; with a rate that is set; and with a
 * frozen part, and groups. */
extern const how rules[RULES];
const char *reference(const how *h); /* the fingerprint of a whole run without a break, by one of these rules */
/* Loads what is there and goes on to the end: the reference's bits. Returns the step it went on from. */
int assert_goes_on(const how *h);

/* The newest of two has been damaged: that is told in these words, and the one before is taken. */
void assert_passed_over(const char *words);

void empty_folder(void);

#endif
