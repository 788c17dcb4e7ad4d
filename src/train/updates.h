/* How each parameter is updated: the trainable numbers in runs, each by one rule. Without groups of parameters
 * (optim/groups.h) there is one run. */
#pragma once

#include "train/job.h"

/* Makes the runs, once the parameters' shapes are known; no group can be set any more. LS_BAD_ARGUMENT names a pattern
 * that fits nothing. */
ls_status ls_updates_init(struct ls_trainer *trainer);
void ls_updates_destroy(struct ls_trainer *trainer);

/* The rules of a step, by the rate `lr`, with moments of that age and an average of so many updates. */
void ls_updates_begin(ls_step_job *step, double lr, int64_t age, int64_t averaged);
uint32_t ls_updates_hash(const ls_step_job *step); /* equal for equal rules */

/* The rule of number `at`, and where its run ends, which is at most `last`. */
const ls_update *ls_updates_at(const ls_step_job *step, size_t at, size_t last, size_t *end);

/* Over ranks, once before anything is exchanged: whether all have frozen the same and set the same groups. LS_DIFFERS
 * says what differs. */
ls_status ls_updates_agree(struct ls_trainer *trainer);
