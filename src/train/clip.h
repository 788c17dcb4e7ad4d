/* Clipping the gradient by its norm, which needs all of it: the buckets are summed as they become whole, every rank
 * gets all sums, and the update of all weights is the step's last act, on every rank alike. Overlap with the backward
 * pass is what it costs. */
#pragma once

#include "train/job.h"

ls_status ls_clip_init(struct ls_trainer *trainer); /* once the shapes are known; room for the norm */

/* Updates from the sums in the trainer's gradient. The norm is that of the gradient's mean over the images, its squares
 * added in double: number by number in blocks of 2048 of the flat vector, and the blocks in the tree's order. What is
 * longer than clip_norm is divided by (norm + 1e-6) / clip_norm, with the images in one division. Returns whether every
 * new number is finite. */
bool ls_clip_update(ls_step_job *step);
