/* The sums of a step's buckets, in slices that any worker takes, or of several cards those of the one that has the
 * master copy: those on a bucket's way (comm/allreduce.h), and the last one, of this rank's piece, with the update of
 * its weights. Connected cards are handed the whole way of all buckets at once. */
#pragma once

#include "train/job.h"

/* Sums what can be summed; true when there was something. Adds to *finished how many parts that was of those that
 * ls_slices_to_finish counts. By the worker whose turn its core is. */
bool ls_slices_take(ls_step_job *step, ls_worker *worker, int *finished);
bool ls_slices_left(const ls_step_job *step, const ls_worker *worker); /* there is something, for this one */

/* The parts of this rank's to finish: the slices of its pieces, or of connected cards one for the whole way. */
int ls_slices_to_finish(const ls_step_job *step);
