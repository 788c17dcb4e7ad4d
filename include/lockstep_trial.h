/* Knobs for tests and trials of the library itself. They are no part of what a program may rely on: each release may
 * change or drop them.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef LOCKSTEP_TRIAL_H
#define LOCKSTEP_TRIAL_H

#include <lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* None of them changes a bit of the results. Zeros change nothing at all. */
typedef struct ls_trial {
    int host_ranks;         /* reduces as if so many ranks shared each host; 1: in one level */
    uint64_t shuffle_pulls; /* hands shards out in an order drawn from it, in place of index order */
    int slow_cpu;           /* this device of a network waits */
    double slow_seconds;    /* so many seconds before each shard */
} ls_trial;

#ifdef __cplusplus
}
#endif
#endif
