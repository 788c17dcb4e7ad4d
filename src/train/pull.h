/* Which shard a worker takes next. Whoever is free takes the next one, so that fast devices take more. Where CPUs and
 * GPUs train a network together, a device that is many times slower than others would end the step with a shard that
 * they could have computed meanwhile: it leaves that one to them, for as long as it would have taken itself. */
#pragma once

#include "train/job.h"

/* -1 where there is none for it. */
int ls_pull(ls_step_job *step, ls_worker *worker);
/* Whether a shard that it has left to others is to be taken after all. */
bool ls_pull_again(const ls_step_job *step, ls_worker *worker);

/* The worker has computed so many images of a shard in so many seconds. */
void ls_pull_note(ls_worker *worker, int images, double seconds);
