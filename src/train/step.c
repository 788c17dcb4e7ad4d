#include "train/step.h"

#include "train/ending.h"
#include "train/exchange.h"
#include "train/measure.h"
#include "train/pull.h"
#include "train/shard.h"
#include "train/slices.h"
#include "train/attempts.h"

/* The first worker to come sets the step up, or drops it when what came before it has failed. */
static void begin(ls_step_job *step)
{
    struct ls_trainer *trainer = step->trainer;
    pthread_mutex_lock(&step->lock);
    if (!step->begun) {
        step->begun = true;
        if (step->profile)
            ls_measure_begin_step(step->profile);
        if (!ls_shards_begin(step))
            atomic_store(&trainer->network->session->broken, true);
        if (atomic_load(&trainer->network->session->broken))
            ls_step_drop(step);
    }
    pthread_mutex_unlock(&step->lock);
}

typedef struct waiting {
    const ls_step_job *step;
    const ls_worker *worker;
} waiting;

static bool changed(void *user)
{
    const waiting *w = user;
    return atomic_load(&w->step->ending.complete) || ls_slices_left(w->step, w->worker);
}

/* Until there may be something to do: a moment, where other ranks are waited for. */
static void rest(ls_step_job *step, ls_worker *worker)
{
    bool exchanging = ls_exchange_under_way(step);
    ls_meter_go(&worker->meter, exchanging ? LS_SPAN_WAIT_RANKS : LS_SPAN_WAIT, -1);
    if (exchanging) {
        ls_exchange_await(step, atomic_load(&step->busy) == 0);
        ls_network_enter(step->trainer->network);
        ls_exchange_look(step);
        ls_network_leave(step->trainer->network);
        return;
    }
    waiting w = {step, worker};
    if (ls_sharing_await(&worker->sharing, LS_MOMENT, changed, &w))
        return;
    ls_sharing_leave(&worker->sharing);
    pthread_mutex_lock(&step->lock);
    while (!changed(&w) && !ls_exchange_under_way(step) && !ls_attempt_late(step) && !ls_pull_again(step, worker))
        ls_shard_wait(step);
    pthread_mutex_unlock(&step->lock);
    ls_sharing_enter(&worker->sharing);
}

/* What a worker without a shard can do: sums, a part of what another is at, or a shard in place of one that is late. */
static bool help(ls_step_job *step, ls_worker *worker, bool *helps)
{
    if (!*helps)
        ls_sharing_enter(&worker->sharing);
    *helps = true;
    if (ls_slices_take(step, worker))
        return true;
    if (ls_sharing_open(&worker->sharing)) {
        ls_meter_go(&worker->meter, LS_SPAN_HELP, -1);
        if (ls_sharing_take(&worker->sharing))
            return true;
    }
    return ls_shard_stand_in(step, worker);
}

static void work(ls_job *job, ls_worker *worker)
{
    ls_step_job *step = (ls_step_job *)job;
    bool helps = false;
    begin(step);
    ls_meter_enter(&worker->meter, step->number + 1);
    while (!atomic_load(&step->ending.complete) && !step->ending.recorded && !atomic_load(&worker->lost)) {
        atomic_fetch_add(&step->busy, 1);
        if (ls_turn_taken(worker->turn)) {
            ls_meter_go(&worker->meter, LS_SPAN_WAIT_CORE, -1);
            if (helps)
                ls_sharing_leave(&worker->sharing);
            helps = false;
        }
        ls_turn_enter(worker->turn);
        int j = ls_pull(step, worker);
        bool worked = j >= 0;
        if (worked)
            ls_shard_compute(step, j, worker);
        else
            worked = help(step, worker, &helps);
        ls_turn_leave(worker->turn);
        worked |= ls_step_advance(step);
        atomic_fetch_sub(&step->busy, 1);
        if (!worked)
            rest(step, worker);
    }
    if (helps)
        ls_sharing_leave(&worker->sharing);
    ls_meter_leave(&worker->meter);
}

void ls_step_submit(ls_step_job *step)
{
    const ls_flat *flat = &step->trainer->network->flat;
    const int parts = step->mine + ls_slices_to_finish(step);
    for (int b = 0; b < flat->n_buckets; b++) {
        atomic_store(&step->sums.shards_pending[b], step->mine);
        atomic_store(&step->sums.stage[b], step->mine ? LS_FILLING : ls_exchange_filled(step));
        step->sums.local[b] = step->sums.group[b] = step->sums.last[b] = (ls_slices){0};
    }
    atomic_store(&step->sums.passed, false);
    ls_tree_reset(&step->gradients.tree, step->shards);
    ls_exchange_begin(step);
    for (int j = 0; j < step->shards; j++) {
        atomic_store(&step->pulls.pulled[j], 0);
        step->gradients.filled[j] = 0;
    }
    for (int i = 0; i < step->n_microbatches; i++)
        ls_feed_locate(step->microbatches[i].feed);
    atomic_store(&step->pulls.next, 0);
    atomic_store(&step->ending.left, parts);
    atomic_store(&step->ending.complete, 0);
    atomic_store(&step->ending.broken, 0);
    step->begun = step->ending.dropped = step->ending.recorded = step->ending.waited = false;
    step->job.work = work;
    step->job.wait = ls_step_wait;
    step->job.is_ready = ls_step_is_ready;
    step->job.follows = true;
    if (parts == 0) /* more ranks than shards and pieces: this one only listens */
        ls_step_end(step);
    ls_engine_submit(step->trainer->network->engine, &step->job);
}
