/* What a step does among ranks. Each bucket goes through stages: its gradients fill; the sums over this rank's nodes of the tree
 * are made in place (giving) and sent to the ranks whose pieces they are of, while theirs for this rank's piece come in; the piece
 * is summed and updated (reducing); its new weights are sent to all (spreading). At the step's end the ranks exchange metrics,
 * statistics and whether all went well, so that all of them take the same decision. With one rank a bucket goes from filling
 * to reducing, and is done. */
#ifndef LS_PARALLEL_EXCHANGE_H
#define LS_PARALLEL_EXCHANGE_H

#include "parallel/step.h"

/* Cuts the step's shards and makes room for its transfers. */
ls_status ls_exchange_reserve(ls_step_job *step);
void ls_exchange_destroy(ls_step_job *step);
void ls_exchange_forget(struct ls_trainer *trainer); /* which is idle and ends */

void ls_exchange_begin(ls_step_job *step); /* after the tree was reset */

/* The stage of a bucket that all of this rank's shards have filled. */
ls_stage ls_exchange_filled(const ls_step_job *step);

/* Where the partial sums are for floats from `at` on, in this rank's piece of the bucket. */
ls_partials ls_exchange_partials(const ls_step_job *step, int bucket, size_t at);

/* All of this rank's shards and pieces are done. */
void ls_exchange_end(ls_step_job *step);

/* Starts what can be sent and looks at what is under way; returns whether anything went on. Any worker may call it at any time. */
bool ls_exchange_advance(ls_step_job *step);
bool ls_exchange_under_way(const ls_step_job *step); /* looking again is worth the while */

#endif
