/* Who is at which shard, so that another device can stand in for one that fails at it or does not come back. A shard
 * can be computed again at any time: its weights stay until the step is done, and the bits are the same. So the first
 * attempt that finishes a shard gives its gradient, statistics and metrics; whoever is at it still leaves at its next
 * operation.
 *
 * An attempt writes to a partial gradient and a row of its own; a card that trains alone, for which no other could
 * stand in, writes the step's rows. Of a shard at which a device has failed no bucket counts yet, and who stands in
 * takes its buffer over. Otherwise buckets that the first attempt has filled are counted as it goes, and may be summed
 * from its buffer; a stand-in's buffer takes that one's place when it has finished, and both hold the same numbers
 * there. With several ranks a node's sum is made in place, so only a shard that has filled no bucket yet can be taken
 * over, and from then on none counts before the first attempt comes to its end.
 *
 * Where shards meet (cohort.h), an attempt is at a shard up to the next meeting, and has a room too. A stand-in begins
 * the shard anew, in a buffer and a room of its own. It goes through the meetings that the shard has come to without
 * waiting: their totals are there until the step's end. The first attempt to come to the next one gives its sums, and
 * its buffer and room are the shard's from there on.
 *
 * What an attempt holds stays its own until its worker comes back, also beyond the step's end; the slot of its step is
 * not used again before. */
#ifndef LS_TRAIN_ATTEMPTS_H
#define LS_TRAIN_ATTEMPTS_H

#include "train/job.h"

/* Of a row for the statistics and metrics of one shard. */
size_t ls_attempt_row_floats(const ls_network *network);

/* Once the parameters' shapes are known. */
ls_status ls_attempts_init(struct ls_trainer *trainer);
void ls_attempts_destroy(struct ls_trainer *trainer);

/* Rooms as needed says (n, each, floats, sums_floats) in place of those that there are; no step is under way. */
ls_status ls_attempts_make_rooms(struct ls_trainer *trainer, const ls_shard_rooms *needed);
void ls_attempts_release_rooms(struct ls_trainer *trainer);

/* With the step's lock held: */

/* At a step's beginning: all buffers are free and, where shards meet, all rooms; in place of each that a late worker
 * holds still, another is. False where there is no memory for one of these: with fewer the step might never end. */
bool ls_attempts_free_all(ls_step_job *step);
/* room -1: its shard meets no others */
void ls_attempt_begin(ls_step_job *step, ls_attempt *t, int shard, int buffer, int room);
/* Where the attempt's statistics and metrics belong, from any thread: in its row, or at once in the step's, where they
 * are known when all that was handed in is done. There a shard is handed in once, as a whole, so that no two attempts
 * write them. */
typedef struct ls_attempt_rows {
    float *statistics, *metrics;
} ls_attempt_rows;
ls_attempt_rows ls_attempt_rows_of(const ls_step_job *step, const ls_attempt *t);
/* An attempt at a shard of the step whose device has failed, or that has taken far longer than any before; NULL where
 * there is none. */
ls_attempt *ls_attempt_late(const ls_step_job *step);
/* Begins `own` attempt at the shard of such a one, with its buffer where it is lost, or one beside the pool. False
 * where there is neither. */
bool ls_attempt_stand_in(ls_step_job *step, ls_attempt *own);
/* The shard is computed: true for the first attempt at it, whose numbers are now the shard's. The attempt then holds
 * nothing more. */
bool ls_attempt_finish(ls_step_job *step, ls_attempt *t);
/* The same for a shard that has come to its next meeting, from which any worker may go on with it. */
bool ls_attempt_put_aside(ls_step_job *step, ls_attempt *t);
/* The device has failed. */
void ls_attempt_lose(ls_step_job *step, ls_attempt *t);
/* Whether the bucket that the attempt has just filled counts. */
bool ls_attempt_fills(ls_step_job *step, const ls_attempt *t);

#endif
