#include "train/step.h"

#include "model/replica.h"
#include "train/ending.h"
#include "train/exchange.h"
#include "train/measure.h"
#include "train/shard.h"
#include "train/slices.h"
#include "train/attempts.h"
#include "train/cohort.h"

/* The first worker to come sets the step up, or drops it when what came before it has failed. */
static void begin(ls_step_job *step)
{
    struct ls_trainer *trainer = step->trainer;
    pthread_mutex_lock(&step->lock);
    if (!step->begun) {
        step->begun = true;
        if (step->profile)
            ls_measure_begin_step(step->profile);
        if (!ls_attempts_free_all(step))
            atomic_store(&trainer->network->session->broken, true);
        if (atomic_load(&trainer->network->session->broken))
            ls_step_drop(step);
    }
    pthread_mutex_unlock(&step->lock);
}

/* ---- The end of this rank's part, and of the step ---- */

static void end(ls_step_job *step)
{
    if (ls_exchange_end(step))
        ls_step_decide(step);
}

/* This rank's part, once what was handed in to executors is known. */
static void end_part(ls_step_job *step, ls_status status, bool finite)
{
    if (status != LS_OK && step->trainer->network->connected) {
        ls_exchange_give_up(step); /* the others' cards wait for this one's numbers */
        return;
    }
    if (status != LS_OK)
        atomic_store(&step->trainer->session->broken, true);
    ls_step_sum_results(step, finite);
    end(step);
}

/* Where all that a step needs is one executor that is far from done when everything is handed in, the next step's
 * shards are handed in behind it before anybody looks at what came of it, so that the executor never waits for the
 * host. They read the new weights, and write nothing that is still wanted if those turn out to be none: then the next
 * step is dropped. Only a step that is measured, one that clips, which the host decides on halfway, and one whose
 * shards meet, whose sums the host adds up, end by themselves. Connected cards do the same: a rank hears what the
 * others say of a step when it waits for it, while its card is at the next one. */
static bool goes_ahead(const ls_step_job *step)
{
    const struct ls_trainer *trainer = step->trainer;
    const ls_network *network = trainer->network;
    return ls_network_goes_ahead(network) && step->update && !ls_clips(trainer) && !step->profile &&
           !ls_cohorts_are_on(step) && !network->master->gpu_trace && !step->exchange.measured;
}

static void record(ls_step_job *step, ls_worker *worker)
{
    ls_network *network = step->trainer->network;
    network->master->type->completion.record(network->master, &step->ending.finite);
    atomic_store(&network->current, 1 - atomic_load(&network->current));
    step->ending.recorded = true;
    worker->open = &step->job;
}

static void finish_part(ls_step_job *step, ls_worker *worker)
{
    ls_count_work(&step->trainer->session->context);
    if (atomic_fetch_sub(&step->ending.left, 1) > 1 || !ls_step_goes_on(step, worker))
        return;
    ls_meter_go(&worker->meter, LS_SPAN_REDUCE, -1);
    if (goes_ahead(step)) {
        record(step, worker);
        return;
    }
    bool finite = true;
    const ls_status status = ls_executor_finish(step->trainer->network->master, &finite);
    end_part(step, status, finite);
}

/* So many shards and slices were handed in; the last one ends this rank's part of the step. It waits for the master
 * copy, and in its turn. */
static void finish_parts(ls_step_job *step, ls_worker *worker, int parts)
{
    const ls_network *network = step->trainer->network;
    const bool elsewhere = parts && ls_network_master_on_card(network) && ls_replica_of(network, worker->turn);
    if (elsewhere)
        ls_network_enter(network);
    while (parts-- > 0)
        finish_part(step, worker);
    if (elsewhere)
        ls_network_leave(network);
}

/* The master copy's turn, which who waits for a recorded step has already. */
static void enter(const ls_step_job *step)
{
    if (!step->ending.recorded)
        ls_network_enter(step->trainer->network);
}

static void leave(const ls_step_job *step)
{
    if (!step->ending.recorded)
        ls_network_leave(step->trainer->network);
}

/* Goes on with what moves between ranks, and ends the step where all was moved. Whether anything went on. */
static bool advance(ls_step_job *step)
{
    const ls_advance advanced = ls_exchange_advance(step);
    if (advanced == LS_ALL_MOVED) {
        enter(step);
        ls_step_decide(step);
        leave(step);
    }
    return advanced != LS_STILL;
}

static void look(ls_step_job *step)
{
    enter(step);
    ls_exchange_look(step);
    leave(step);
}

static void await_ranks(ls_step_job *step, bool idle)
{
    ls_exchange_await(step, idle);
    look(step);
}

/* This rank's part of a recorded step, once the executor is done. */
static void wait_part(ls_step_job *step)
{
    ls_network *network = step->trainer->network;
    if (step->ending.waited)
        return;
    step->ending.waited = true;
    network->master->type->completion.wait(network->master);
    end_part(step, ls_executor_check(network->master), step->ending.finite);
}

static bool await_end(ls_job *job, ls_worker *worker)
{
    ls_step_job *step = (ls_step_job *)job;
    (void)worker;
    wait_part(step);
    while (!atomic_load(&step->ending.complete))
        if (!advance(step))
            await_ranks(step, true);
    return !atomic_load(&step->ending.broken);
}

static bool is_ready(ls_job *job, ls_worker *worker)
{
    ls_step_job *step = (ls_step_job *)job;
    ls_executor *executor = worker->turn->executor;
    if (!step->ending.waited && !executor->type->completion.is_done(executor))
        return false;
    wait_part(step);
    advance(step);
    if (!atomic_load(&step->ending.complete))
        look(step);
    return atomic_load(&step->ending.complete);
}

/* ---- What a worker does meanwhile ---- */

/* Its shard has filled a bucket: other buckets may be whole, and transfers done. */
static void between(ls_step_job *step, ls_worker *worker)
{
    int finished = 0;
    if (atomic_load(&step->pulls.next) >= step->mine)
        ls_slices_take(step, worker, &finished);
    finish_parts(step, worker, finished);
    if (!step->trainer->network->connected) /* there only the step's end remains */
        advance(step);
}

typedef struct waiting {
    const ls_step_job *step;
    const ls_worker *worker;
} waiting;

static bool changed(void *user)
{
    const waiting *w = user;
    return atomic_load(&w->step->ending.complete) || ls_slices_left(w->step, w->worker) || ls_cohorts_ready(w->step);
}

/* Until there may be something to do: a moment, where other ranks are waited for. */
static void rest(ls_step_job *step, ls_worker *worker)
{
    bool exchanging = ls_exchange_under_way(step);
    ls_meter_go(&worker->meter, exchanging ? LS_SPAN_WAIT_RANKS : LS_SPAN_WAIT, -1);
    if (exchanging) {
        await_ranks(step, atomic_load(&step->busy) == 0);
        return;
    }
    waiting w = {step, worker};
    if (ls_sharing_await(&worker->sharing, LS_MOMENT, changed, &w))
        return;
    ls_sharing_leave(&worker->sharing);
    pthread_mutex_lock(&step->lock);
    while (!changed(&w) && !ls_exchange_under_way(step) && ls_shard_wait(step, worker))
        continue;
    pthread_mutex_unlock(&step->lock);
    ls_sharing_enter(&worker->sharing);
}

/* What a worker without a shard can do: sums, a part of what another is at, or a shard in place of one that is late. */
static bool help(ls_step_job *step, ls_worker *worker, bool *helps, int *finished)
{
    if (!*helps)
        ls_sharing_enter(&worker->sharing);
    *helps = true;
    if (ls_slices_take(step, worker, finished))
        return true;
    if (ls_sharing_open(&worker->sharing)) {
        ls_meter_go(&worker->meter, LS_SPAN_HELP, -1);
        if (ls_sharing_take(&worker->sharing))
            return true;
    }
    return ls_shard_stand_in(step, worker, finished);
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
        int finished = 0;
        bool worked = ls_shard_compute(step, worker, &finished);
        if (!worked)
            worked = help(step, worker, &helps, &finished);
        finish_parts(step, worker, finished);
        ls_turn_leave(worker->turn);
        worked |= advance(step);
        atomic_fetch_sub(&step->busy, 1);
        if (!worked)
            rest(step, worker);
    }
    if (helps)
        ls_sharing_leave(&worker->sharing);
    ls_meter_go(&worker->meter, LS_SPAN_IDLE, -1);
}

void ls_step_submit(ls_step_job *step)
{
    const ls_flat *flat = &step->trainer->network->flat;
    const int parts = step->mine + ls_slices_to_finish(step);
    ls_tree_reset(&step->gradients.tree, step->shards);
    ls_exchange_begin(step);
    for (int b = 0; b < flat->n_buckets; b++) {
        atomic_store(&step->sums.shards_pending[b], step->mine);
        atomic_store(&step->sums.stage[b], step->mine ? LS_FILLING : step->sums.filled);
        step->sums.local[b] = step->sums.group[b] = step->sums.last[b] = (ls_slices){0};
    }
    atomic_store(&step->sums.passed, false);
    for (int j = 0; j < step->shards; j++) {
        atomic_store(&step->pulls.pulled[j], 0);
        step->gradients.filled[j] = 0;
    }
    for (int i = 0; i < step->n_microbatches; i++)
        ls_feed_locate(step->microbatches[i].feed);
    ls_cohorts_begin(step);
    atomic_store(&step->pulls.next, 0);
    atomic_store(&step->ending.left, parts);
    atomic_store(&step->ending.complete, 0);
    atomic_store(&step->ending.broken, 0);
    atomic_store(&step->ending.overflowed, 0);
    step->begun = step->ending.dropped = step->ending.recorded = step->ending.waited = false;
    step->job.work = work;
    step->job.wait = await_end;
    step->job.is_ready = is_ready;
    step->job.follows = true;
    step->between = between;
    if (parts == 0) /* more ranks than shards and pieces: this one only listens */
        end(step);
    ls_engine_submit(step->trainer->network->engine, &step->job);
}
