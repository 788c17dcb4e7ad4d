/* What a step does among ranks. Each bucket goes through stages: its gradients fill; then it takes its route (comm/route.h), in which
 * stages of sums that workers make (giving, combining, reducing) and of transfers (to join and joining, to send and sending, to
 * spread and spreading, to share and sharing) take turns. At the step's end the ranks exchange metrics, statistics and whether
 * all went well, so that all of them take the same decision: in a group by way of its first member, across groups among these. Where
 * each rank is a group of its own a bucket goes from filling to combining, and from spreading to moved; with one rank from filling
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

/* All of this rank's shards and pieces are done. */
void ls_exchange_end(ls_step_job *step);

/* Every rank knows what all have told: takes note of their paces. */
void ls_exchange_learn(ls_step_job *step);

/* Starts what can be sent and looks at what is under way; returns whether anything went on. Any worker may call it at any time. */
bool ls_exchange_advance(ls_step_job *step);
bool ls_exchange_under_way(const ls_step_job *step); /* looking again is worth the while */

/* The moments live in pieces with their owners: bytes [begin[r], end[r]) of each are rank r's, within a bucket. */
ls_status ls_exchange_pieces(struct ls_trainer *trainer, int bucket, size_t begin[], size_t end[]);

#endif
