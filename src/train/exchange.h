/* What a step does among ranks. Each bucket goes through stages: its gradients fill; then it is all-reduced
 * (comm/allreduce.h), in stages of sums that workers make (local, group, last) and of transfers (scattered and
 * gathered, in the group and across groups), of which each has a stage before it begins and one while it is under way.
 * At the step's end the ranks exchange metrics, statistics and whether all went well, so that all of them take the same
 * decision: in a group by way of its first member, across groups among these. Where each rank is a group of its own a
 * bucket goes from filling to the group's sum, and from the gathering across groups to moved; with one rank from
 * filling to the last sum, and is done.
 *
 * Where the ranks' cards are connected (comm/link.h) the buckets go the same way from card to card, all together
 * once the last is filled, and only the step's end goes by the hosts. */
#pragma once

#include "train/job.h"

/* Steps of two networks would meet on the wire: the others' are waited for, on all ranks at the same place. */
void ls_exchange_take_wire(struct ls_trainer *trainer);

/* Cuts the step's shards and makes room for its transfers. */
ls_status ls_exchange_reserve(ls_step_job *step);
void ls_exchange_forget(struct ls_trainer *trainer); /* which is idle and ends */

void ls_exchange_begin(ls_step_job *step); /* after the tree was reset */

/* Of connected cards: hands the whole way of all buckets in, sums and transfers, which the card then does in that
 * order and the host does not wait for. By a worker with the master copy's turn. */
void ls_exchange_pass(ls_step_job *step, void (*sum)(ls_step_job *step, ls_stage stage, ls_worker *worker),
                      ls_worker *worker);

/* The others cannot be reached: the step never ends, so it is given up. */
void ls_exchange_give_up(ls_step_job *step);

/* All of this rank's shards and pieces are done. True where there is no other rank, and nothing to move. */
bool ls_exchange_end(ls_step_job *step);

typedef enum ls_advance { LS_STILL, LS_MOVING, LS_ALL_MOVED } ls_advance;
/* Starts what can be sent and looks at what is under way; returns whether anything went on, and once, to one caller,
 * that all is where it belongs. Any worker may call it at any time. */
ls_advance ls_exchange_advance(ls_step_job *step);
/* A moment, in which other ranks may go on; `idle`: this one has nothing to do meanwhile. */
void ls_exchange_await(const ls_step_job *step, bool idle);
/* Gives the step up where its end cannot come, because a transfer between connected cards has failed. By a worker with
 * the master copy's turn. */
void ls_exchange_look(ls_step_job *step);
bool ls_exchange_under_way(const ls_step_job *step); /* looking again is worth the while */

/* The moments live in pieces with their owners: bytes [begin[r], end[r]) of each are rank r's, within a bucket. */
ls_status ls_exchange_pieces(struct ls_trainer *trainer, int bucket, size_t begin[], size_t end[]);
