/* The end of a step: of this rank's part, once its shards and slices are handed in and known; among the ranks; and of
 * the whole, when every rank takes the same decision: the new weights become the network's, or the old ones stay. */
#ifndef LS_TRAIN_ENDING_H
#define LS_TRAIN_ENDING_H

#include "train/job.h"

/* One shard or slice was handed in; the last one ends this rank's part of the step. By the worker whose turn its core
 * is. */
void ls_step_finish_part(ls_step_job *step, ls_worker *worker);

/* All of this rank's part is done. */
void ls_step_end(ls_step_job *step);

/* As ls_exchange_advance, and ends the step where all was moved. Returns whether anything went on. Any worker may call
 * it at any time. */
bool ls_step_advance(ls_step_job *step);

/* For the step's job, see engine.h. */
bool ls_step_wait(ls_job *job, ls_worker *worker);
bool ls_step_is_ready(ls_job *job, ls_worker *worker);

#endif
