/* The sums of a step's buckets, in slices that any worker takes, or of several cards those of the one that is home: those on a
 * bucket's route (comm/route.h), and the last one, of this rank's piece, with the update of its weights. */
#ifndef LS_PARALLEL_SLICES_H
#define LS_PARALLEL_SLICES_H

#include "parallel/step.h"

/* Sums what can be summed; true when there was something. By the worker whose turn its core is. */
bool ls_slices_take(ls_step_job *step, ls_worker *worker);
bool ls_slices_left(const ls_step_job *step, const ls_worker *worker); /* there is something, for this one */

int ls_slices_to_reduce(const ls_step_job *step, int bucket); /* how many this rank's piece has */

#endif
