#include "parallel/step.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/timer.h"
#include "cluster/cluster.h"
#include "device/devices.h"
#include "parallel/clip.h"
#include "parallel/exchange.h"
#include "parallel/mirror.h"
#include "parallel/profile.h"
#include "parallel/pull.h"
#include "parallel/slices.h"
#include "parallel/stream.h"

ls_status ls_step_init(ls_step_job *step, struct ls_trainer *trainer)
{
    ls_network *network = trainer->network;
    ls_context *context = &network->session->context;
    size_t buckets = (size_t)network->flat.n_buckets + 1;
    atomic_int *owed = ls_alloc(context, 2 * buckets, sizeof *owed, "a step");
    ls_slices *slices = owed ? ls_alloc(context, 3 * buckets, sizeof *slices, "a step") : NULL;
    if (!slices) {
        ls_release(context, owed);
        return LS_OUT_OF_MEMORY;
    }
    step->trainer = trainer;
    step->owed = owed;
    step->stage = owed + buckets;
    step->given = slices;
    step->combined = slices + buckets;
    step->reduced = slices + 2 * buckets;
    pthread_mutex_init(&step->lock, NULL);
    ls_timed_cond_init(&step->changed);
    return LS_OK;
}

void ls_step_destroy(ls_step_job *step)
{
    if (!step->trainer)
        return;
    ls_context *context = &step->trainer->network->session->context;
    for (int i = 0; i < step->n_parts; i++)
        ls_share_drop(&step->parts[i]);
    ls_release(context, step->parts);
    ls_release(context, step->order);
    ls_release(context, step->pulled);
    ls_release(context, step->filled);
    ls_release(context, step->owed);
    ls_release(context, step->given);
    ls_release(context, step->statistics);
    ls_release(context, step->metrics);
    ls_release(context, step->losses);
    ls_tree_destroy(&step->tree, context);
    ls_exchange_destroy(step);
    pthread_cond_destroy(&step->changed);
    pthread_mutex_destroy(&step->lock);
}

ls_status ls_step_reserve(ls_step_job *step, int shards)
{
    ls_network *network = step->trainer->network;
    ls_context *context = &network->session->context;
    size_t n = (size_t)shards;
    if (shards > step->shards_capacity) {
        ls_release(context, step->order);
        ls_release(context, step->pulled);
        ls_release(context, step->filled);
        ls_release(context, step->statistics);
        ls_release(context, step->metrics);
        ls_release(context, step->losses);
        step->order = ls_alloc(context, n, sizeof *step->order, "a step's shards");
        step->pulled = ls_alloc(context, n, sizeof *step->pulled, "a step's shards");
        step->filled = ls_alloc(context, n, sizeof *step->filled, "a step's shards");
        step->statistics = ls_alloc(context, n * network->flat.state, sizeof(float), "the shards' statistics");
        step->metrics = ls_alloc(context, n * LS_METRICS, sizeof(float), "the shards' metrics");
        step->losses = ls_alloc(context, n, sizeof *step->losses, "the shards' losses");
        bool good = step->order && step->pulled && step->filled && step->statistics && step->metrics && step->losses;
        step->shards_capacity = good ? shards : 0;
    }
    return step->shards_capacity < shards ? LS_OUT_OF_MEMORY : ls_tree_reserve(&step->tree, context, shards);
}

ls_share *ls_step_share(const ls_step_job *step, int j, int *local)
{
    ls_share *part = step->parts;
    while (j >= part->feed->shards)
        j -= part++->feed->shards;
    *local = j;
    return part;
}

void ls_step_wake(ls_step_job *step)
{
    pthread_mutex_lock(&step->lock);
    pthread_cond_broadcast(&step->changed);
    pthread_mutex_unlock(&step->lock);
}

float *ls_step_target(const ls_step_job *step)
{
    const ls_network *network = step->trainer->network;
    bool updates = step->update && !ls_clips(step->trainer);
    return updates ? network->home_weights[1 - atomic_load(&network->current)] : step->trainer->gradient;
}

/* ---- The end of a step ---- */

/* This rank's nodes of the statistics, weighted by their images. */
static void sum_statistics(ls_step_job *step)
{
    ls_network *network = step->trainer->network;
    size_t n = network->flat.state;
    for (int j = step->first; j < step->first + step->mine; j++) {
        int local;
        const ls_share *part = ls_step_share(step, j, &local);
        int images = ls_feed_count(part->feed, local);
        float *row = step->statistics + (size_t)j * n;
        for (size_t i = 0; i < n; i++)
            row[i] = (float)images * row[i];
    }
    ls_runs_sum(step->first, step->first + step->mine, step->shards, NULL, step->statistics, n, ls_backend_ref()->add);
}

/* r = 0.9*r + 0.1 * (the shards' statistics, weighted by their images) */
static void move_statistics(ls_step_job *step)
{
    ls_network *network = step->trainer->network;
    size_t n = network->flat.state;
    int current = atomic_load(&network->current);
    const float *was = network->state[current];
    float *is = network->state[1 - current];
    for (size_t i = 0; i < n; i++)
        is[i] = fmaf(0.1f, step->statistics[i] / (float)step->rows, 0.9f * was[i]);
    ls_network_state_moved(network, 1 - current);
}

static ls_report report_of(const ls_step_job *step)
{
    ls_report report = {.step = step->number + 1, .rows = (int)step->rows, .norm = step->norm};
    for (int j = 0; j < step->shards; j++) {
        const float *metrics = step->metrics + (size_t)j * LS_METRICS;
        step->losses[j] = metrics[LS_METRIC_LOSS];
        report.correct += (int64_t)metrics[LS_METRIC_CORRECT];
    }
    ls_tree_sum_doubles(step->losses, step->shards);
    report.loss = step->losses[0] / (double)step->rows;
    return report;
}

/* What the loss tensors of the parts will show. */
static void put_summaries(const ls_step_job *step)
{
    int first = 0;
    for (int i = 0; i < step->n_parts; i++) {
        const ls_share *part = &step->parts[i];
        int n = part->feed->shards;
        double correct = 0;
        for (int j = 0; j < n; j++) {
            step->losses[j] = step->metrics[(size_t)(first + j) * LS_METRICS + LS_METRIC_LOSS];
            correct += step->metrics[(size_t)(first + j) * LS_METRICS + LS_METRIC_CORRECT];
        }
        ls_tree_sum_doubles(step->losses, n);
        part->summary->data[0] = (float)step->losses[0];
        part->summary->data[1] = (float)correct;
        first += n;
    }
}

/* Nobody may take for a loss what a step that failed should have written. */
static void lose_summaries(const ls_step_job *step)
{
    for (int i = 0; i < step->n_parts; i++)
        atomic_store(&step->parts[i].summary->lost, true);
}

static void put_report(struct ls_trainer *trainer, ls_report report)
{
    pthread_mutex_lock(&trainer->lock);
    trainer->reports[trainer->reported++ % LS_REPORTS] = report;
    if (trainer->reported - trainer->taken > LS_REPORTS)
        trainer->taken = trainer->reported - LS_REPORTS;
    pthread_mutex_unlock(&trainer->lock);
}

static bool all_finite(const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return false;
    return true;
}

/* Names what is not finite: the loss of a shard, or the first parameter whose new value is not. */
static void raise_broken(ls_step_job *step)
{
    ls_network *network = step->trainer->network;
    ls_context *context = &network->session->context;
    for (int p = 0; p < step->runs.parts; p++)
        if (step->told[p].flags & LS_FLAG_FAILED) {
            int rank = step->trainer->groups.rank[p];
            ls_raise(context, LS_IO, "step %lld: rank %d on host %s failed; see its own message",
                     (long long)step->number + 1, rank, ls_cluster_host(network->session->options.cluster, rank));
            return;
        }
    for (int j = 0; j < step->shards; j++)
        if (!isfinite(step->metrics[(size_t)j * LS_METRICS + LS_METRIC_LOSS])) {
            ls_raise(context, LS_NOT_FINITE,
                     "step %lld: the loss of shard %d is not finite; the weights of step %lld are kept; a lower "
                     "learning rate may help",
                     (long long)step->number + 1, j, (long long)step->number);
            return;
        }
    const int other = 1 - atomic_load(&network->current);
    float *next = network->weights[other];
    if (step->update)
        network->home->type->get(network->home, next, network->home_weights[other],
                                 network->flat.trainable * sizeof *next);
    const char *name = "the gradient";
    for (int i = network->flat.n_views - 1; i >= 0 && step->update; i--) {
        const ls_view *view = &network->flat.views[i];
        if (view->trainable && !all_finite(next + view->offset, view->numbers))
            name = view->name;
    }
    ls_raise(context, LS_NOT_FINITE,
             "step %lld: the update of %s is not finite; the weights of step %lld are kept; a lower learning "
             "rate may help",
             (long long)step->number + 1, name, (long long)step->number);
}

/* Every rank comes here with the same numbers, and decides alike. */
void ls_step_finish(ls_step_job *step)
{
    struct ls_trainer *trainer = step->trainer;
    ls_network *network = trainer->network;
    ls_step_unseal(step);
    step->asked = 0;
    for (int p = 0; p < step->runs.parts; p++) {
        int asked = (int)(step->told[p].flags / LS_FLAG_ASKED);
        step->asked = asked > step->asked ? asked : step->asked;
        if (step->told[p].flags % LS_FLAG_ASKED)
            atomic_store(&step->broken, 1);
    }
    ls_exchange_learn(step);
    if (step->update && ls_clips(trainer) && !atomic_load(&step->broken) && !ls_clip_update(step))
        atomic_store(&step->broken, 1);
    if (step->update && !atomic_load(&step->broken)) {
        move_statistics(step);
        if (!all_finite(network->state[1 - atomic_load(&network->current)], network->flat.state))
            atomic_store(&step->broken, 1);
    }
    if (atomic_load(&step->broken)) {
        if (step->update)
            atomic_store(&trainer->upset, 1);
        raise_broken(step);
        /* A rank that failed by itself is the only one to know why, and has to say it. */
        atomic_store(&network->session->together, !(step->told[trainer->groups.place].flags & LS_FLAG_FAILED));
        lose_summaries(step);
        atomic_store(&network->session->broken, true);
    } else {
        if (step->update) {
            atomic_store(&network->current, 1 - atomic_load(&network->current));
            atomic_fetch_add(&network->changes, 1);
        }
        if (step->update)
            put_report(trainer, report_of(step));
        put_summaries(step);
    }
    if (step->profile)
        ls_profile_end_step(step->profile, step->number + 1, step->rows);
    atomic_store(&step->complete, 1);
    ls_step_wake(step);
}

/* The end of this rank's part, once what was handed in to units is known. */
static void end_part(ls_step_job *step, ls_status status, bool finite)
{
    ls_session *session = step->trainer->session;
    if (status != LS_OK && step->trainer->network->joined) {
        ls_exchange_give_up(step); /* the others' cards wait for this one's numbers */
        return;
    }
    if (status != LS_OK)
        atomic_store(&session->broken, true);
    for (int j = step->first; j < step->first + step->mine; j++)
        finite &= isfinite(step->metrics[(size_t)j * LS_METRICS + LS_METRIC_LOSS]) != 0;
    if (!finite || atomic_load(&session->broken))
        atomic_store(&step->broken, 1);
    sum_statistics(step);
    ls_exchange_end(step);
}

/* A moment, in which other ranks may go on; `idle`: this one has nothing to do meanwhile. */
static void await_ranks(const ls_worker *worker, bool idle)
{
    const struct timespec moment = {0, 20000};
    atomic_store(&worker->engine->session->options.cluster->waiting, idle);
    nanosleep(&moment, NULL);
}

/* Where all that a step needs is one unit that is far from done when everything is handed in, the next step's shards
 * are handed in behind it before anybody looks at what came of it, so that the unit never waits for the host. They read
 * the new weights, and write nothing that is still wanted if those turn out to be none: then the next step is dropped.
 * Only a step that is measured, and one that clips, which the host decides on halfway, end by themselves. Joined cards
 * do the same: a rank hears what the others say of a step when it settles it, while its card is at the next one. */
static bool goes_ahead(const ls_step_job *step)
{
    const struct ls_trainer *trainer = step->trainer;
    const ls_network *network = trainer->network;
    return ls_network_goes_ahead(network) && step->update && !ls_clips(trainer) && !step->profile &&
           !network->home->watch && !ls_exchange_measures(step);
}

void ls_step_unseal(const ls_step_job *step)
{
    ls_network *network = step->trainer->network;
    if (step->sealed)
        atomic_store(&network->current, 1 - atomic_load(&network->current));
}

static void seal(ls_step_job *step, ls_worker *worker)
{
    ls_network *network = step->trainer->network;
    network->home->type->seal(network->home, &step->finite);
    atomic_store(&network->current, 1 - atomic_load(&network->current));
    step->sealed = true;
    worker->open = &step->job;
}

/* This rank's part of it, once the unit is done. */
static void settle_part(ls_step_job *step)
{
    ls_network *network = step->trainer->network;
    if (step->settled)
        return;
    step->settled = true;
    network->home->type->settle(network->home);
    end_part(step, ls_unit_check(network->home), step->finite);
}

static bool settle(ls_job *job, ls_worker *worker)
{
    ls_step_job *step = (ls_step_job *)job;
    settle_part(step);
    while (!atomic_load(&step->complete)) {
        if (!ls_exchange_advance(step))
            await_ranks(worker, true);
        ls_exchange_look(step);
    }
    return !atomic_load(&step->broken);
}

static bool is_settled(ls_job *job, ls_worker *worker)
{
    ls_step_job *step = (ls_step_job *)job;
    ls_unit *unit = worker->core->unit;
    if (!step->settled && !unit->type->is_done(unit))
        return false;
    settle_part(step);
    ls_exchange_advance(step);
    if (!atomic_load(&step->complete))
        ls_exchange_look(step);
    return atomic_load(&step->complete);
}

/* What came before the step has failed. */
static void drop(ls_step_job *step)
{
    step->dropped = true;
    if (step->update)
        atomic_store(&step->trainer->upset, 1);
    lose_summaries(step);
    atomic_store(&step->complete, 1);
}

bool ls_step_goes_on(ls_step_job *step, ls_worker *worker)
{
    if (!step->dropped && !ls_engine_settle(worker)) {
        ls_unit_finish(step->trainer->network->home, NULL); /* its results have nowhere to go later */
        drop(step);
    }
    return !step->dropped;
}

void ls_step_finish_part(ls_step_job *step, ls_worker *worker)
{
    ls_count_work(&step->trainer->session->context);
    if (atomic_fetch_sub(&step->left, 1) > 1 || !ls_step_goes_on(step, worker))
        return;
    ls_meter_go(&worker->meter, LS_SPAN_REDUCE, -1);
    if (goes_ahead(step)) {
        seal(step, worker);
        return;
    }
    bool finite = true;
    const ls_status status = ls_unit_finish(step->trainer->network->home, &finite);
    end_part(step, status, finite);
}

/* ---- Buffers for partial gradients ---- */

static void free_buffer(void *user, int buffer)
{
    struct ls_trainer *trainer = user;
    trainer->free_buffers[trainer->n_free++] = buffer;
}

/* Sums a finished subtree into its first buffer, with the lock released meanwhile. */
static void fold(ls_step_job *step, int node, ls_unit *unit)
{
    struct ls_trainer *trainer = step->trainer;
    const size_t n = trainer->network->flat.trainable;
    int into = ls_tree_begin_fold(&step->tree, node);
    pthread_mutex_unlock(&step->lock);
    ls_partials from = {.buffers = trainer->pool};
    ls_terms terms = ls_tree_terms(&step->tree, node, &from, n, unit);
    int mark = ls_watch_mark(unit);
    unit->type->sum(unit, &terms, trainer->pool[into], n);
    ls_watch_note(unit, mark, LS_SPAN_CARD_SUM, -1, NULL);
    pthread_mutex_lock(&step->lock);
    ls_tree_end_fold(&step->tree, node, into, free_buffer, trainer);
    pthread_cond_broadcast(&step->changed);
}

/* For something to change, with the lock held; whether a device is late changes by itself. */
static void wait_a_little(ls_step_job *step)
{
    ls_timed_cond_wait(&step->changed, &step->lock, 0.1);
}

static bool stand_in(ls_step_job *step, ls_worker *worker);
static void give_up(ls_step_job *step, int shard, ls_device device);

/* Begins a try at shard j, with a buffer for its gradient. Pulling pauses here while too many partial gradients are
 * alive. False where that came to nothing: the step was given up, or the device failed meanwhile, standing in for
 * another. */
static bool begin_try(ls_step_job *step, int j, ls_worker *worker, ls_try *t)
{
    struct ls_trainer *trainer = step->trainer;
    pthread_mutex_lock(&step->lock);
    while (trainer->n_free == 0) {
        int node = ls_tree_foldable(&step->tree);
        ls_meter_go(&worker->meter, node ? LS_SPAN_FOLD : LS_SPAN_WAIT_BUFFER, -1);
        if (node) { /* where shards happen beside one another, all of it, so that many of them can */
            do
                fold(step, node, ls_network_adder(trainer->network, worker->core));
            while (worker->core->strands > 1 && !trainer->network->n_mirrors && (node = ls_tree_foldable(&step->tree)));
        } else if (!stand_in(step, worker))
            wait_a_little(step);
        bool lost = atomic_load(&worker->lost);
        if (lost || atomic_load(&step->complete)) {
            pthread_mutex_unlock(&step->lock);
            if (lost)
                give_up(step, j, worker->device);
            return false;
        }
    }
    ls_meter_go(&worker->meter, LS_SPAN_SHARD, j);
    int buffer = trainer->free_buffers[--trainer->n_free];
    step->tree.buffer[step->tree.size + j] = buffer;
    step->tree.state[step->tree.size + j] = LS_NODE_RUNNING;
    ls_try_begin(step, t, j, buffer);
    pthread_mutex_unlock(&step->lock);
    return true;
}

/* ---- Shards ---- */

typedef struct running {
    ls_step_job *step;
    ls_worker *worker;
    ls_try *t;
    bool failed; /* the device */
} running;

/* One shard more has filled a bucket. The lock is held. */
static void fill(ls_step_job *step, int bucket)
{
    if (atomic_fetch_sub(&step->owed[bucket], 1) == 1) {
        atomic_store(&step->stage[bucket], ls_exchange_filled(step));
        pthread_cond_broadcast(&step->changed);
    }
}

static void bucket_is_whole(void *user, int bucket)
{
    running *r = user;
    pthread_mutex_lock(&r->step->lock);
    bool counts = ls_try_fills(r->step, r->t);
    if (counts)
        fill(r->step, bucket);
    pthread_mutex_unlock(&r->step->lock);
    if (!counts)
        return;
    if (atomic_load(&r->step->next) >= r->step->mine)
        ls_slices_take(r->step, r->worker);
    if (!r->step->trainer->network->joined) /* there only the step's end remains */
        ls_exchange_advance(r->step);
    ls_meter_go(&r->worker->meter, LS_SPAN_SHARD, r->t->shard);
}

static bool goes_on(void *user, int operation)
{
    running *r = user;
    const ls_session *session = r->step->trainer->session;
    r->failed = session->fault && session->fault(session->fault_user, r->worker->device, r->t->shard, operation);
    return !r->failed && !atomic_load(&r->t->over);
}

/* What a card is handed it computes: nothing ends a run there halfway, so that all its operations are asked for
 * before. */
static bool may_hand_in(running *r, const ls_plan *plan)
{
    bool may = true;
    for (int i = 0; i < plan->n_steps && may; i++)
        may = goes_on(r, i);
    return may;
}

/* No device can go on with a shard that this one was at. Results of other shards may still be on their way to the
 * step. */
static void give_up(ls_step_job *step, int shard, ls_device device)
{
    struct ls_trainer *trainer = step->trainer;
    ls_session *session = trainer->session;
    char name[32];
    ls_device_write(name, sizeof name, device);
    ls_raise(&session->context, LS_NO_DEVICE, "step %lld: %s failed in shard %d, and no other can go on with it",
             (long long)step->number + 1, name, shard);
    if (!ls_network_gathers(trainer->network)) /* there every worker has waited for its own */
        ls_unit_finish(trainer->network->home, NULL);
    if (step->update)
        atomic_store(&trainer->upset, 1);
    lose_summaries(step);
    atomic_store(&session->broken, true);
    atomic_store(&step->complete, 1);
    ls_step_wake(step);
}

static void lose_device(ls_step_job *step, ls_try *t, const ls_worker *worker)
{
    ls_engine *engine = worker->engine;
    bool alone = ls_cluster_ranks(step->trainer->session->options.cluster) == 1;
    pthread_mutex_lock(&step->lock);
    ls_try_lose(step, t);
    int left = ls_engine_lose(engine, (int)(worker - engine->workers));
    bool stuck = left == 0 || (atomic_load(&t->step) && !alone && step->filled[t->shard] > 0);
    pthread_cond_broadcast(&step->changed);
    pthread_mutex_unlock(&step->lock);
    if (stuck)
        give_up(step, t->shard, worker->device);
}

/* Runs the shard of a try that has begun, and takes what it computed as the shard's unless another was there first. */
static void run_try(ls_step_job *step, ls_worker *worker, ls_try *t)
{
    ls_network *network = step->trainer->network;
    int local, bucket;
    const ls_share *part = ls_step_share(step, t->shard, &local);
    const ls_plan *plan = ls_feed_plan(part->feed, worker->core);
    running r = {step, worker, t, false};
    const bool whole = worker->core->unit->memory != 0;
    /* Where a shard may be in several memories, or have other bits at another try, its buckets count when all of it is
     * at home. */
    const bool at_once = network->n_mirrors > 0 || (network->joined && ls_exchange_measures(step));
    const ls_mirror *mirror = ls_mirror_of(network, worker->core);
    if (!whole || may_hand_in(&r, plan)) {
        ls_try_rows rows = ls_try_rows_of(step, t);
        ls_unit *unit = worker->core->unit;
        if (!at_once) /* else it is waited for; by its buffer, so that what is kept of runs has few forms */
            unit->strand = ls_core_strand(worker->core, plan, t->buffer, step->mine);
        float *gradient = step->trainer->pool[t->buffer];
        ls_bindings bindings = {
            .base = {[LS_IN_METRICS] = unit->type->lend(unit, rows.metrics, LS_METRICS),
                     [LS_IN_STATISTICS] = unit->type->lend(unit, rows.statistics, network->flat.state),
                     [LS_IN_GRADIENTS] = mirror ? mirror->gradient : gradient},
            .goes_on = whole ? NULL : goes_on};
        if (step->profile)
            ls_profile_bind(step->profile, plan, worker, &bindings.gauge);
        ls_network_bind_training(network, worker->core, &bindings);
        bindings.helpers = ls_offer_begin(&worker->offer, step->profile);
        ls_feed_run(part->feed, local, worker->core, &bindings, (uint64_t)step->number,
                    at_once ? NULL : bucket_is_whole, &r);
        ls_offer_end(&worker->offer);
        bool finite = true;
        if (at_once &&
            (mirror ? ls_mirror_bring_home(mirror, network, gradient) : ls_unit_finish(unit, &finite)) != LS_OK)
            atomic_store(&network->session->broken, true);
        if (!finite)
            atomic_store(&step->broken, 1);
    }
    ls_meter_end_shard(&worker->meter, LS_SPAN_SHARD, t->shard, r.failed ? 0 : ls_feed_count(part->feed, local),
                       t->measured);
    if (r.failed) {
        ls_engine_settle(worker);
        lose_device(step, t, worker);
        return;
    }
    const double taken = ls_seconds() - t->measured;
    ls_pull_note(worker, ls_feed_count(part->feed, local), taken);
    if (step->trainer->paces)
        atomic_fetch_add(&step->computing, (long long)(taken * 1e9));
    pthread_mutex_lock(&step->lock);
    bool first = ls_try_finish(step, t, &bucket);
    if (first) {
        for (; bucket < network->flat.n_buckets; bucket++)
            fill(step, plan->whole[bucket]);
        pthread_cond_broadcast(&step->changed);
    }
    pthread_mutex_unlock(&step->lock);
    if (!first)
        return;
    const bool elsewhere = mirror && ls_network_apart(network); /* the last one waits for the home, and in its turn */
    if (elsewhere)
        ls_network_enter(network);
    ls_step_finish_part(step, worker);
    if (elsewhere)
        ls_network_leave(network);
}

static ls_try *try_of(const ls_step_job *step, const ls_worker *worker)
{
    return &step->trainer->tries.at[worker - worker->engine->workers];
}

/* Computes the shard of a device that has failed or is late, where there is one. The lock is held, and let go
 * meanwhile. */
static bool stand_in(ls_step_job *step, ls_worker *worker)
{
    ls_try *late = ls_try_late(step), *own = try_of(step, worker);
    if (!late)
        return false;
    bool begun = ls_try_stand_in(step, own, late), lost = late->lost;
    pthread_mutex_unlock(&step->lock);
    if (begun) {
        const double pulled = own->measured; /* of a shard that this one waits for a buffer for */
        own->measured = ls_meter_begin_shard(&worker->meter, LS_SPAN_SHARD, own->shard);
        run_try(step, worker, own);
        own->measured = pulled;
    } else if (lost)
        give_up(step, late->shard, worker->engine->workers[late - step->trainer->tries.at].device);
    pthread_mutex_lock(&step->lock);
    return begun;
}

/* The same for a worker that helps, which it does not while it has a shard. */
static bool look_for_late(ls_step_job *step, ls_worker *worker)
{
    bool worked = false;
    pthread_mutex_lock(&step->lock);
    if (ls_try_late(step)) {
        ls_offer_leave(&worker->offer);
        worked = stand_in(step, worker);
        ls_offer_enter(&worker->offer);
    }
    pthread_mutex_unlock(&step->lock);
    return worked;
}

/* The first worker to come sets the step up, or drops it when what came before it has failed. */
static void begin(ls_step_job *step)
{
    struct ls_trainer *trainer = step->trainer;
    pthread_mutex_lock(&step->lock);
    if (!step->begun) {
        step->begun = true;
        if (step->profile)
            ls_profile_begin_step(step->profile);
        trainer->n_free = 0;
        if (!ls_tries_free_buffers(step, free_buffer, trainer)) /* with fewer it might never end */
            atomic_store(&trainer->network->session->broken, true);
        if (atomic_load(&trainer->network->session->broken))
            drop(step);
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
    return atomic_load(&w->step->complete) || ls_slices_left(w->step, w->worker);
}

/* Until there may be something to do: a moment, where other ranks are waited for. */
static void rest(ls_step_job *step, ls_worker *worker)
{
    bool exchanging = ls_exchange_under_way(step);
    ls_meter_go(&worker->meter, exchanging ? LS_SPAN_WAIT_RANKS : LS_SPAN_WAIT, -1);
    if (exchanging) {
        await_ranks(worker, atomic_load(&step->busy) == 0);
        ls_network_enter(step->trainer->network);
        ls_exchange_look(step);
        ls_network_leave(step->trainer->network);
        return;
    }
    waiting w = {step, worker};
    if (ls_offer_await(&worker->offer, LS_MOMENT, changed, &w))
        return;
    ls_offer_leave(&worker->offer);
    pthread_mutex_lock(&step->lock);
    while (!changed(&w) && !ls_exchange_under_way(step) && !ls_try_late(step) && !ls_pull_again(step, worker))
        wait_a_little(step);
    pthread_mutex_unlock(&step->lock);
    ls_offer_enter(&worker->offer);
}

/* What a worker without a shard can do: sums, a part of what another is at, or a shard in place of one that is late. */
static bool help(ls_step_job *step, ls_worker *worker, bool *helps)
{
    if (!*helps)
        ls_offer_enter(&worker->offer);
    *helps = true;
    if (ls_slices_take(step, worker))
        return true;
    if (ls_offer_open(&worker->offer)) {
        ls_meter_go(&worker->meter, LS_SPAN_HELP, -1);
        if (ls_offer_take(&worker->offer))
            return true;
    }
    return look_for_late(step, worker);
}

static void work(ls_job *job, ls_worker *worker)
{
    ls_step_job *step = (ls_step_job *)job;
    bool helps = false;
    begin(step);
    ls_meter_enter(&worker->meter, step->number + 1);
    while (!atomic_load(&step->complete) && !step->sealed && !atomic_load(&worker->lost)) {
        atomic_fetch_add(&step->busy, 1);
        if (ls_core_taken(worker->core)) {
            ls_meter_go(&worker->meter, LS_SPAN_WAIT_CORE, -1);
            if (helps)
                ls_offer_leave(&worker->offer);
            helps = false;
        }
        ls_core_enter(worker->core);
        int j = ls_pull(step, worker);
        bool worked = j >= 0;
        if (worked) {
            ls_try *t = try_of(step, worker);
            t->measured = ls_meter_begin_shard(&worker->meter, LS_SPAN_SHARD, j);
            ls_slow_down(worker);
            if (begin_try(step, j, worker, t))
                run_try(step, worker, t);
        } else {
            worked = help(step, worker, &helps);
        }
        ls_core_leave(worker->core);
        worked |= ls_exchange_advance(step);
        atomic_fetch_sub(&step->busy, 1);
        if (!worked)
            rest(step, worker);
    }
    if (helps)
        ls_offer_leave(&worker->offer);
    ls_meter_leave(&worker->meter);
}

void ls_step_submit(ls_step_job *step)
{
    const ls_flat *flat = &step->trainer->network->flat;
    const int parts = step->mine + ls_slices_to_finish(step);
    for (int b = 0; b < flat->n_buckets; b++) {
        atomic_store(&step->owed[b], step->mine);
        atomic_store(&step->stage[b], step->mine ? LS_FILLING : ls_exchange_filled(step));
        step->given[b] = step->combined[b] = step->reduced[b] = (ls_slices){0};
    }
    atomic_store(&step->passed, false);
    ls_tree_reset(&step->tree, step->shards);
    ls_exchange_begin(step);
    for (int j = 0; j < step->shards; j++) {
        atomic_store(&step->pulled[j], 0);
        step->filled[j] = 0;
    }
    for (int i = 0; i < step->n_parts; i++) {
        ls_feed_locate(step->parts[i].feed);
    }
    atomic_store(&step->next, 0);
    atomic_store(&step->left, parts);
    atomic_store(&step->complete, 0);
    atomic_store(&step->broken, 0);
    step->begun = step->dropped = step->sealed = step->settled = false;
    step->job.work = work;
    step->job.settle = settle;
    step->job.is_settled = is_settled;
    step->job.follows = true;
    if (parts == 0) /* more ranks than shards and pieces: this one only listens */
        ls_exchange_end(step);
    ls_engine_submit(step->trainer->network->engine, &step->job);
}
