/* One shard of a step, from a buffer for its gradient to the gradient in it; also in place of a device that has failed
 * at it, or does not come back (attempts.h). Buckets that all shards have filled are summed and exchanged
 * meanwhile. */
#pragma once

#include "train/job.h"

/* Takes a shard for the worker, whose turn its core is, and computes it; where shards meet (cohort.h), up to its next
 * meeting or its end. False where there is none for it now. Adds to *finished how many shards it has finished: this
 * one, and any that it stood in for. */
bool ls_shard_compute(ls_step_job *step, ls_worker *worker, int *finished);

/* Computes the shard of a device that has failed or is late, where there is one; by a worker that helps, which it does
 * not while it has a shard. */
bool ls_shard_stand_in(ls_step_job *step, ls_worker *worker, int *finished);

/* Waits a while for something to change, with the step's lock held. False where there is a shard for the worker. */
bool ls_shard_wait(ls_step_job *step, ls_worker *worker);
