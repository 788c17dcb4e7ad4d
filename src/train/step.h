/* One training step as a job: shards are pulled, computed, folded; buckets of gradients are summed in tree order and
 * the weights updated, slice by slice, by whoever is free; at the end the new copy of the weights becomes the current
 * one.
 *
 * The life of a shard's gradient: a worker takes a free buffer from the trainer's pool (folding finished siblings into
 * one to get it, or waiting), the backward pass fills it bucket by bucket, and each bucket that all shards have filled
 * is reduced at once, in slices, while earlier layers still run backward. With several ranks a rank computes the shards
 * of its run and reduces its piece of each bucket; exchange.h has the rest. */
#ifndef LS_TRAIN_STEP_H
#define LS_TRAIN_STEP_H

#include "train/job.h"

void ls_step_submit(ls_step_job *step);

#endif
