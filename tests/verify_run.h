/* A small run whose devices, or ranks, are compared: one operation of its network passes on what it gets, but for the last bits where the
 * test has it compute wrongly. */
#ifndef TEST_VERIFY_RUN_H
#define TEST_VERIFY_RUN_H

#include <lockstep.h>

/* Asked at each call of the operation, on the thread that computes it. */
typedef bool verify_wrong(void *user);

typedef struct verify_run {
    ls_session *s;
    ls_data *data; /* an epoch of 24 images, in batches of ten */
    ls_module *net;
    ls_trainer *trainer;
} verify_run;

/* All of it is recorded by the thread that began it. */
verify_run verify_begin(const char *devices, ls_cluster *cluster, verify_wrong *wrong, void *user);

#endif
