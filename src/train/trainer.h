/* What the rest of the room needs of a trainer. */
#pragma once

#include "model/network.h"

/* The plan that the batches of a data set would be trained by in shards of so many images: a trace over its first ones,
 * and nothing run. NULL after a failure. */
const struct ls_plan *ls_trainer_plan(struct ls_trainer *trainer, const ls_data *data, int rows);

/* As many partial gradients as can be of use: one for each core at work, or where shards meet for each room
 * (cohort.h), and the unfinished edges of the tree. */
int ls_trainer_pool(const struct ls_trainer *trainer, int shards, int mine, int rooms, bool any_order);

/* Waits; then the pending microbatches can be run by the caller's own job, with the trainer's pool of gradients. */
ls_status ls_trainer_idle(struct ls_trainer *trainer, const char *function);

/* Waits; then the network's values and the moments are those of the last update. LS_STALE with gradients that none has
 * used. */
ls_status ls_trainer_wait(struct ls_trainer *trainer, const char *function);
/* The optimizer's moments on the host, each laid out like the weights, one after another, the average behind them; and
 * how many updates the moments and the average hold. NULL where the next update begins all of them anew. */
float *ls_trainer_moments(struct ls_trainer *trainer, int64_t *age, int64_t *averaged);
float *ls_trainer_see_moments(
    struct ls_trainer *trainer); /* whatever they are; NULL where none are kept, or after a failure */
/* Goes on after `step` updates, with such moments, or the trainer's own; of age 0, or NULL: the next update begins them
 * anew. And with the rate that was set; negative: the options'. */
ls_status ls_trainer_restore(struct ls_trainer *trainer, int64_t step, const float *moments, int64_t age,
                             int64_t averaged, double lr);
/* Whether the average holds any update; else it is the values. The trainer waits. */
bool ls_trainer_has_average(const struct ls_trainer *trainer);
