#include "train/pull.h"

#include "base/timer.h"

/* What a worker that takes no shard of a step forgets of how slow it was: it may be faster by now. */
static const double forgets = 0.99;

/* Shards a second of the devices of another kind that are faster than this one; negative while they have not computed
 * any. */
static double faster(const ls_worker *worker)
{
    const ls_engine *engine = worker->engine;
    const double own = atomic_load(&worker->pace.seconds);
    bool counted[LS_MAX_DEVICES] = {false};
    double rate = 0;
    for (const ls_worker *other = engine->workers; other < engine->workers + engine->n_workers; other++) {
        const double seconds = atomic_load(&other->pace.seconds);
        if (other->turn->executor->backend == worker->turn->executor->backend || counted[other->place] ||
            atomic_load(&other->lost))
            continue;
        counted[other->place] = true;
        if (seconds == 0)
            return -1;
        if (seconds < own)
            rate += 1 / seconds;
    }
    return rate;
}

/* Whether others would compute all shards that are left before this worker were done with one. */
static bool leaves(const ls_step_job *step, ls_worker *worker)
{
    ls_device_pace *pace = &worker->pace;
    const double own = atomic_load(&pace->seconds);
    const int left = step->mine - atomic_load(&step->pulls.next);
    if (own == 0 || left <= 0 || (double)left >= own * faster(worker))
        return false;
    const double now = ls_seconds();
    if (pace->step != step->before) {
        pace->step = step->before;
        pace->since = now;
        if (!pace->took)
            atomic_store(&pace->seconds, forgets * own);
        pace->took = false;
    }
    return now - pace->since < own;
}

int ls_pull(ls_step_job *step, ls_worker *worker)
{
    if (atomic_load(&step->pulls.next) >= step->mine)
        return -1;
    if (!step->pulls.placed) {
        if (leaves(step, worker))
            return -1;
        int place = atomic_fetch_add(&step->pulls.next, 1);
        return place < step->mine ? step->pulls.order[place] : -1;
    }
    for (int i = 0; i < step->mine; i++) {
        int j = step->pulls.order[i], local;
        ls_device device = ls_step_microbatch(step, j, &local)->device;
        if (device.type != LS_HOST && !ls_same_device(device, worker->device) && !atomic_load(&worker->engine->n_lost))
            continue;
        if (atomic_exchange(&step->pulls.pulled[j], 1) == 0) {
            atomic_fetch_add(&step->pulls.next, 1);
            return j;
        }
    }
    return -1;
}

bool ls_pull_again(const ls_step_job *step, ls_worker *worker)
{
    return !step->pulls.placed && atomic_load(&step->pulls.next) < step->mine && !leaves(step, worker);
}

void ls_pull_note(ls_worker *worker, int images, double seconds)
{
    if (worker->engine->n_backends == 1)
        return; /* nobody leaves a shard to others */
    const double before = atomic_load(&worker->pace.seconds);
    const double whole = seconds * worker->engine->session->options.shard / images;
    worker->pace.took = true;
    atomic_store(&worker->pace.seconds, before > 0 ? (before + whole) / 2 : whole);
}
