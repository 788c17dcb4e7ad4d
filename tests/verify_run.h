/* A small run whose devices, or ranks, are compared. Of what a device computes for that, one number may be made
 * wrong. */
#ifndef TEST_VERIFY_RUN_H
#define TEST_VERIFY_RUN_H

#include <lockstep.h>
#include <lockstep_profile.h>

/* All that is compared, one member a tensor or metric, and how ls_trainer_verify calls it. */
enum { VERIFY_MEMBERS = 10, VERIFY_TENSORS = 8 };
typedef struct verify_member {
    const char *tensor; /* NULL of the last ones, which are metrics */
    int metric;
    const char *words;
} verify_member;
extern const verify_member verify_members[VERIFY_MEMBERS];

/* Asked at each shard that is computed to be compared, on the thread that computes it: which member comes out wrong;
 * -1: none. */
typedef int verify_wrong(int rank, void *user);
/* For the runs that are begun after it; NULL: nothing is wrong. */
void verify_make_wrong(verify_wrong *wrong, void *user);

typedef struct verify_run {
    ls_session *s;
    ls_data *data; /* an epoch of 24 images, in batches of ten */
    ls_module *net;
    ls_trainer *trainer;
} verify_run;

verify_run verify_begin(const char *devices, ls_cluster *cluster);

/* Another value of the same sign and nearly the same size, as a fault of the memory would have it: one bit is
 * flipped. */
void verify_flip(float *value);

#endif
