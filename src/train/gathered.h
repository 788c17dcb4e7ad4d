/* What ranks have in pieces, whole on rank 0, and the way back. */
#pragma once

#include "train/job.h"

/* The moments live in pieces with their owners: makes them whole on rank 0, in the host's copy or what is no copy.
 * Every rank comes here, its trainer idle. */
ls_status ls_gathered_moments(struct ls_trainer *trainer, float *moments);

/* The averages of all ranks' pieces, laid out like the weights, become every rank's. Every rank comes here. */
ls_status ls_gathered_average(struct ls_trainer *trainer, float *average);

/* Rank 0's weights and statistics become every rank's, and of its whole moments each rank gets its pieces, or all where
 * the gradient is clipped; NULL: there are none. */
ls_status ls_gathered_scatter(struct ls_trainer *trainer, float *moments);
