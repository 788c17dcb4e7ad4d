/* What the rest of the room needs of a trainer. */
#ifndef LS_PARALLEL_TRAINER_H
#define LS_PARALLEL_TRAINER_H

#include "parallel/network.h"

/* Computes the gradient of the pending parts without an update; NULL after a failure. */
const float *ls_trainer_gradient(struct ls_trainer *trainer, ls_network *network);

/* Updates handed in so far; 0 without a trainer. Chooses what dropout drops. */
uint64_t ls_network_step(const ls_network *network);

#endif
