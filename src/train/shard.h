/* One shard of a step, from a buffer for its gradient to the gradient in it; also in place of a device that has failed
 * at it, or does not come back (attempts.h). Buckets that all shards have filled are summed and exchanged
 * meanwhile. */
#pragma once

#include "train/job.h"

/* By the worker that has pulled the shard, and whose turn its core is. Adds to *finished how many shards it has
 * finished: this one, and any that it stood in for. */
void ls_shard_compute(ls_step_job *step, int shard, ls_worker *worker, int *finished);

/* Of a step with cohorts (cohort.h): computes a shard up to its next meeting or its end. False where there is none to
 * be computed now. The second, with the step's lock held: whether there is. */
bool ls_shard_go_on(ls_step_job *step, ls_worker *worker, int *finished);
bool ls_shard_could_go_on(const ls_step_job *step, const ls_worker *worker);

/* Computes the shard of a device that has failed or is late, where there is one; by a worker that helps, which it does
 * not while it has a shard. */
bool ls_shard_stand_in(ls_step_job *step, ls_worker *worker, int *finished);

/* For something to change, with the step's lock held; whether a device is late changes by itself. */
void ls_shard_wait(ls_step_job *step);
