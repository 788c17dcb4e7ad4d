/* Shards whose BatchNorm statistics are taken together: cohorts. A shard of a cohort runs to a meeting of its plan
 * (graph/plan.h), leaves its sums and is put aside; when the sums of all shards of the cohort are there, they are added
 * up along a binary tree over the cohort's shards, and each of them goes on with the totals. So the totals, like all
 * sums over shards, do not depend on who computes.
 *
 * A shard that is put aside keeps a room, with all that it reads later, and its gradient's buffer; any core goes on
 * with it. Cohorts begin in the order of their shards, and a shard begins where there are a room and a buffer for it.
 * There are rooms enough for the largest cohort: so the oldest cohort that is under way comes to its end whatever the
 * others hold, and nothing waits for itself.
 *
 * A cohort may lie on several ranks. Each of these sends the sums of its shards to all others, and each adds up all of
 * them. A rank's shards are one run, so that at most two of its cohorts are other ranks' too: the first and the last.
 */
#ifndef LS_TRAIN_COHORT_H
#define LS_TRAIN_COHORT_H

#include "train/job.h"

/* Before a step, when this rank's shards are known: makes its cohorts, and rooms. None where no plan meets. */
ls_status ls_cohorts_reserve(ls_step_job *step);
/* Shards that are under way at a time, of so many of a rank's; 0: their plan does not meet. */
int ls_cohorts_rooms(const struct ls_trainer *trainer, const ls_plan *plan, int shards, int mine);

void ls_cohorts_begin(ls_step_job *step); /* before it is handed in */

/* With the step's lock held: */

/* A shard that this worker can go on with, or begin; -1: none now. */
int ls_cohorts_choose(const ls_step_job *step, const ls_worker *worker);
/* Whether it has lost what it had computed: it goes through the meetings behind it once more, without waiting. */
static inline bool ls_cohorts_begins_anew(const ls_step_job *step, int shard)
{
    return step->cohorts.shards[shard].state == LS_SHARD_ASIDE && step->cohorts.shards[shard].room < 0;
}
/* It is computed from here on, in the room that comes back, until it arrives or is done. */
int ls_cohorts_take(ls_step_job *step, const ls_worker *worker, int shard);
/* The attempt that is the first one there has brought its shard to the end, or to its next meeting, where it leaves its
 * sums. The last of this rank's shards adds them up, or has them sent; the lock is let go meanwhile. */
void ls_cohorts_finish(ls_step_job *step, const ls_attempt *t);
/* The attempt's device has failed: it holds nothing more, and shards whose rooms are in that memory are begun anew by
 * others (ls_cohorts_begins_anew). */
void ls_cohorts_lose(ls_step_job *step, const ls_worker *worker, ls_attempt *t);
void ls_cohorts_arrive(ls_step_job *step, const ls_attempt *t);

/* Without it: */

/* How the attempt is to be run by a plan for this executor: up to its shard's next meeting, or its end. */
void ls_cohorts_bind(const ls_step_job *step, const ls_attempt *t, const ls_plan *plan, ls_executor *executor,
                     ls_bindings *bindings);
/* Of a room in a card's memory: what the run has left there comes to the host, which waits for it. At the shard's end
 * so many floats of its row, else, with 0, its sums. */
void ls_cohorts_bring(const ls_step_job *step, const ls_attempt *t, ls_executor *executor, size_t row);

static inline bool ls_cohorts_are_on(const ls_step_job *step)
{
    return step->cohorts.n > 0;
}
static inline bool ls_cohorts_ready(const ls_step_job *step) /* some shard can go on; without the lock */
{
    return !step->pulls.placed && atomic_load(&step->cohorts.ready) > 0;
}

/* ---- Among ranks; the cluster's lock is held ---- */

int ls_cohorts_slots(const ls_step_job *step); /* of the wire */
/* Sends, and looks for what comes: 1 where anything went on, 0, or -1 after a failure. */
int ls_cohorts_advance(ls_step_job *step, const ls_wire *wire, int first_slot);
bool ls_cohorts_under_way(const ls_step_job *step); /* without the lock */

#endif
