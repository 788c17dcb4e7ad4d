#include "parallel/step.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "cluster/cluster.h"
#include "parallel/exchange.h"
#include "parallel/profile.h"
#include "parallel/stream.h"

static int slices_of(const ls_step_job *step, ls_bucket run)
{
    size_t slice = step->trainer->network->unit->slice;
    return (int)((run.end - run.begin + slice - 1) / slice);
}

/* This rank's piece of a bucket. */
static ls_bucket own_piece(const ls_step_job *step, int bucket)
{
    return ls_piece_of(&step->trainer->network->flat.buckets[bucket], step->rank, step->runs.ranks);
}

ls_status ls_step_init(ls_step_job *step, struct ls_trainer *trainer)
{
    ls_network *network = trainer->network;
    ls_context *context = &network->session->context;
    size_t buckets = (size_t)network->flat.n_buckets + 1;
    atomic_int *owed = ls_alloc(context, 2 * buckets, sizeof *owed, "a step");
    ls_slices *slices = owed ? ls_alloc(context, 2 * buckets, sizeof *slices, "a step") : NULL;
    if (!slices) {
        ls_release(context, owed);
        return LS_OUT_OF_MEMORY;
    }
    step->trainer = trainer;
    step->owed = owed;
    step->stage = owed + buckets;
    step->given = slices;
    step->reduced = slices + buckets;
    pthread_mutex_init(&step->lock, NULL);
    pthread_cond_init(&step->changed, NULL);
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
        ls_release(context, step->statistics);
        ls_release(context, step->metrics);
        ls_release(context, step->losses);
        step->order = ls_alloc(context, n, sizeof *step->order, "a step's shards");
        step->pulled = ls_alloc(context, n, sizeof *step->pulled, "a step's shards");
        step->statistics = ls_alloc(context, n * network->flat.state, sizeof(float), "the shards' statistics");
        step->metrics = ls_alloc(context, n * LS_METRICS, sizeof(float), "the shards' metrics");
        step->losses = ls_alloc(context, n, sizeof *step->losses, "the shards' losses");
        bool good = step->order && step->pulled && step->statistics && step->metrics && step->losses;
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
    ls_runs_sum_own(&step->runs, step->rank, step->statistics, n, ls_backend_ref()->add);
}

/* r = 0.9*r + 0.1 * (the shards' statistics, weighted by their images) */
static void move_statistics(ls_step_job *step)
{
    ls_network *network = step->trainer->network;
    size_t n = network->flat.state;
    int current = atomic_load(&network->current);
    ls_runs_sum_across(&step->runs, step->statistics, n, ls_backend_ref()->add);
    const float *was = network->state[current];
    float *is = network->state[1 - current];
    for (size_t i = 0; i < n; i++)
        is[i] = fmaf(0.1f, step->statistics[i] / (float)step->rows, 0.9f * was[i]);
    network->unit->type->put(network->unit, network->unit_state[1 - current], is, n * sizeof *is);
}

static ls_report report_of(const ls_step_job *step)
{
    ls_report report = {.step = step->number + 1, .rows = (int)step->rows};
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
    for (int r = 0; r < step->runs.ranks; r++)
        if (step->flags[r] & LS_FLAG_FAILED) {
            ls_raise(context, LS_IO, "step %lld: rank %d on host %s failed; see its own message",
                     (long long)step->number + 1, r, ls_cluster_host(network->session->options.cluster, r));
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
        network->unit->type->get(network->unit, next, network->unit_weights[other],
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
    step->asked = 0;
    for (int r = 0; r < step->runs.ranks; r++) {
        int asked = (int)(step->flags[r] / LS_FLAG_ASKED);
        step->asked = asked > step->asked ? asked : step->asked;
        if (step->flags[r] % LS_FLAG_ASKED)
            atomic_store(&step->broken, 1);
    }
    if (step->update && !atomic_load(&step->broken)) {
        move_statistics(step);
        if (!all_finite(network->state[1 - atomic_load(&network->current)], network->flat.state))
            atomic_store(&step->broken, 1);
    }
    if (atomic_load(&step->broken)) {
        if (step->update)
            atomic_store(&trainer->upset, 1);
        raise_broken(step);
        atomic_store(&network->session->together, true);
        lose_summaries(step);
        atomic_store(&network->session->broken, true);
    } else {
        if (step->update)
            atomic_store(&network->current, 1 - atomic_load(&network->current));
        if (step->update)
            put_report(trainer, report_of(step));
        put_summaries(step);
    }
    if (step->profile)
        ls_profile_end_step(step->profile, step->rows);
    atomic_store(&step->complete, 1);
    ls_step_wake(step);
}

/* Until all that was handed in is done; then the shards' numbers can be looked at. */
static void finish_units(ls_step_job *step)
{
    ls_network *network = step->trainer->network;
    bool finite = true;
    if (ls_unit_finish(network->unit, &finite) != LS_OK)
        atomic_store(&network->session->broken, true);
    for (int j = step->first; j < step->first + step->mine; j++)
        finite &= isfinite(step->metrics[(size_t)j * LS_METRICS + LS_METRIC_LOSS]) != 0;
    if (!finite || atomic_load(&network->session->broken))
        atomic_store(&step->broken, 1);
}

/* One shard or slice was handed in; the last one ends this rank's part of the step. */
static void finish_part(ls_step_job *step)
{
    atomic_fetch_add(&step->trainer->session->work, 1);
    if (atomic_fetch_sub(&step->left, 1) > 1)
        return;
    finish_units(step);
    sum_statistics(step);
    ls_exchange_end(step);
}

/* Of the worker's core; NULL where nobody measures. */
static ls_core_times *times_of(const ls_step_job *step, const ls_worker *worker)
{
    return step->profile ? ls_profile_core(step->profile, worker->place) : NULL;
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
    unit->type->sum(unit, &terms, trainer->pool[into], n);
    pthread_mutex_lock(&step->lock);
    ls_tree_end_fold(&step->tree, node, into, free_buffer, trainer);
    pthread_cond_broadcast(&step->changed);
}

/* A buffer for shard j's gradient. Pulling pauses here while too many partial gradients are alive. */
static float *take_buffer(ls_step_job *step, int j, const ls_worker *worker)
{
    struct ls_trainer *trainer = step->trainer;
    ls_core_times *times = times_of(step, worker);
    pthread_mutex_lock(&step->lock);
    while (trainer->n_free == 0) {
        ls_aside begin = ls_times_aside(times);
        int node = ls_tree_foldable(&step->tree);
        if (node)
            fold(step, node, worker->core->unit);
        else
            pthread_cond_wait(&step->changed, &step->lock);
        if (times && node)
            ls_times_reduced(times, begin);
        else if (times)
            ls_times_waited(times, begin);
    }
    int buffer = trainer->free_buffers[--trainer->n_free];
    step->tree.buffer[step->tree.size + j] = buffer;
    step->tree.state[step->tree.size + j] = LS_NODE_RUNNING;
    pthread_mutex_unlock(&step->lock);
    return trainer->pool[buffer];
}

/* ---- Reduction and update ---- */

float *ls_step_target(const ls_step_job *step)
{
    const ls_network *network = step->trainer->network;
    return step->update ? network->unit_weights[1 - atomic_load(&network->current)] : step->trainer->gradient;
}

static ls_bucket slice_of(const ls_step_job *step, ls_bucket run, int slice)
{
    size_t floats = step->trainer->network->unit->slice, begin = run.begin + (size_t)slice * floats;
    return (ls_bucket){begin, begin + floats < run.end ? begin + floats : run.end};
}

/* Sums one slice of this rank's piece over all shards and updates its weights. */
static void reduce_slice(ls_step_job *step, int bucket, ls_bucket slice, ls_unit *unit)
{
    struct ls_trainer *trainer = step->trainer;
    ls_network *network = trainer->network;
    const size_t at = slice.begin, n = slice.end - slice.begin;
    const float *weights = network->unit_weights[atomic_load(&network->current)] + at;
    float *target = ls_step_target(step) + at;
    ls_partials from = ls_exchange_partials(step, bucket, at);
    ls_terms terms = ls_tree_terms(&step->tree, 1, &from, n, unit);
    if (!step->update)
        unit->type->sum(unit, &terms, target, n);
    else if (!unit->type->update(unit, &terms, target, weights, trainer->velocity ? trainer->velocity + at : NULL, n,
                                 &step->how))
        atomic_store(&step->broken, 1);
}

/* Sums floats [begin, end) over one of this rank's nodes, in place. */
static void give_run(ls_step_job *step, int node, size_t begin, size_t end, ls_unit *unit)
{
    if (begin >= end)
        return;
    struct ls_trainer *trainer = step->trainer;
    ls_partials from = {.buffers = trainer->pool, .offset = begin};
    ls_terms terms = ls_tree_terms(&step->tree, node, &from, end - begin, unit);
    unit->type->sum(unit, &terms, trainer->pool[ls_tree_first_buffer(&step->tree, node)] + begin, end - begin);
}

/* One slice of a bucket over this rank's nodes, but for this rank's own piece: that takes in other ranks' nodes too. */
static void give_slice(ls_step_job *step, int bucket, ls_bucket slice, ls_unit *unit)
{
    ls_bucket mine = own_piece(step, bucket);
    for (int i = step->runs.first_node[step->rank]; i < step->runs.first_node[step->rank + 1]; i++) {
        int node = step->runs.nodes[i];
        give_run(step, node, slice.begin, mine.begin < slice.end ? mine.begin : slice.end, unit);
        give_run(step, node, mine.end > slice.begin ? mine.end : slice.begin, slice.end, unit);
    }
}

/* Takes the slices of one bucket's stage until none is left; returns how many, and whether the stage's last one was among them. */
static int take_slices(ls_step_job *step, int bucket, ls_bucket run, ls_slices *slices, bool reducing, ls_unit *unit,
                       bool *last)
{
    int n = slices_of(step, run), taken = 0;
    while (atomic_load(&slices->next) < n) {
        int slice = atomic_fetch_add(&slices->next, 1);
        if (slice >= n)
            break;
        (reducing ? reduce_slice : give_slice)(step, bucket, slice_of(step, run, slice), unit);
        taken++;
        *last |= atomic_fetch_add(&slices->done, 1) == n - 1;
    }
    return taken;
}

/* Works off what can be summed; true when there was something. */
static bool reduce(ls_step_job *step, const ls_worker *worker)
{
    const ls_flat *flat = &step->trainer->network->flat;
    ls_core_times *times = times_of(step, worker);
    ls_aside begin = ls_times_aside(times);
    bool any = false;
    for (int b = 0; b < flat->n_buckets; b++) {
        bool last = false;
        int stage = atomic_load(&step->stage[b]), taken = 0;
        if (stage == LS_GIVING)
            taken = take_slices(step, b, flat->buckets[b], &step->given[b], false, worker->core->unit, &last);
        else if (stage == LS_REDUCING)
            taken = take_slices(step, b, own_piece(step, b), &step->reduced[b], true, worker->core->unit, &last);
        if (last && step->runs.ranks > 1) {
            atomic_store(&step->stage[b], stage == LS_GIVING ? LS_TO_SEND : LS_TO_SPREAD);
            ls_step_wake(step); /* an idle worker may look after it while this one goes on computing */
        }
        for (int i = 0; stage == LS_REDUCING && i < taken; i++)
            finish_part(step);
        any |= taken > 0;
    }
    if (times && any)
        ls_times_reduced(times, begin);
    return any;
}

static bool reducible(ls_step_job *step)
{
    const ls_flat *flat = &step->trainer->network->flat;
    for (int b = 0; b < flat->n_buckets; b++) {
        int stage = atomic_load(&step->stage[b]);
        if (stage == LS_GIVING && atomic_load(&step->given[b].next) < slices_of(step, flat->buckets[b]))
            return true;
        if (stage == LS_REDUCING && atomic_load(&step->reduced[b].next) < slices_of(step, own_piece(step, b)))
            return true;
    }
    return false;
}

/* ---- Shards ---- */

typedef struct running {
    ls_step_job *step;
    ls_worker *worker;
} running;

static void bucket_is_whole(void *user, int bucket)
{
    running *r = user;
    if (atomic_fetch_sub(&r->step->owed[bucket], 1) == 1) {
        atomic_store(&r->step->stage[bucket], ls_exchange_filled(r->step));
        ls_step_wake(r->step);
    }
    if (atomic_load(&r->step->next) >= r->step->mine)
        reduce(r->step, r->worker);
    ls_exchange_advance(r->step);
}

/* A clock that stands still while its core reduces or waits. */
static double computing_seconds(const ls_core_times *times)
{
    return ls_seconds() - times->aside;
}

static void run_shard(ls_step_job *step, int j, ls_worker *worker)
{
    ls_network *network = step->trainer->network;
    ls_core_times *times = times_of(step, worker);
    double begin = times ? computing_seconds(times) : 0;
    int local;
    const ls_share *part = ls_step_share(step, j, &local);
    float *metrics = step->metrics + (size_t)j * LS_METRICS;
    float *statistics = step->statistics + (size_t)j * network->flat.state;
    ls_unit *unit = worker->core->unit;
    ls_bindings bindings = {.base = {[LS_IN_METRICS] = unit->type->lend(unit, metrics, LS_METRICS),
                                     [LS_IN_STATISTICS] = unit->type->lend(unit, statistics, network->flat.state)}};
    ls_network_bind(network, &bindings);
    if (times)
        bindings.tally = ls_profile_tally(step->profile, part->feed->plan, worker->place);
    bindings.base[LS_IN_GRADIENTS] = take_buffer(step, j, worker);
    running r = {step, worker};
    bindings.helpers = ls_offer_begin(worker, step->profile);
    ls_feed_run(part->feed, local, worker->core, &bindings, (uint64_t)step->number, bucket_is_whole, &r);
    ls_offer_end(worker);
    if (times)
        times->computed += computing_seconds(times) - begin;
    pthread_mutex_lock(&step->lock);
    step->tree.state[step->tree.size + j] = LS_NODE_DONE;
    pthread_cond_broadcast(&step->changed);
    pthread_mutex_unlock(&step->lock);
    finish_part(step);
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
        for (int i = 0; i < trainer->n_pool; i++)
            free_buffer(trainer, i);
        if (atomic_load(&trainer->network->session->broken)) {
            if (step->update)
                atomic_store(&trainer->upset, 1);
            lose_summaries(step);
            atomic_store(&step->complete, 1);
        }
    }
    pthread_mutex_unlock(&step->lock);
}

/* The next shard for a worker, -1 where there is none. */
static int pull(ls_step_job *step, const ls_worker *worker)
{
    if (atomic_load(&step->next) >= step->mine)
        return -1;
    if (!step->placed) {
        int place = atomic_fetch_add(&step->next, 1);
        return place < step->mine ? step->order[place] : -1;
    }
    for (int i = 0; i < step->mine; i++) {
        int j = step->order[i], local;
        ls_device device = ls_step_share(step, j, &local)->device;
        if (device.type != LS_HOST && !ls_same_device(device, worker->device))
            continue;
        if (atomic_exchange(&step->pulled[j], 1) == 0) {
            atomic_fetch_add(&step->next, 1);
            return j;
        }
    }
    return -1;
}

/* Until there may be something to do: a moment, where other ranks are waited for. */
static void rest(ls_step_job *step, ls_worker *worker)
{
    if (ls_exchange_under_way(step)) {
        atomic_store(&worker->engine->session->options.cluster->waiting, atomic_load(&step->busy) == 0);
        struct timespec moment = {0, 20000};
        nanosleep(&moment, NULL);
        return;
    }
    for (int i = ls_offer_patience(worker->engine); i > 0; i--) {
        if (atomic_load(&step->complete) || ls_offer_open(worker->engine) || reducible(step))
            return;
        ls_pause();
    }
    ls_offer_leave(worker);
    pthread_mutex_lock(&step->lock);
    while (!atomic_load(&step->complete) && !reducible(step) && !ls_exchange_under_way(step))
        pthread_cond_wait(&step->changed, &step->lock);
    pthread_mutex_unlock(&step->lock);
    ls_offer_enter(worker);
}

/* What a worker without a shard can do: sums, or a part of what another is at. */
static bool help(ls_step_job *step, ls_worker *worker, bool *helps)
{
    if (!*helps)
        ls_offer_enter(worker);
    *helps = true;
    return reduce(step, worker) || ls_offer_take(worker);
}

static void work(ls_job *job, ls_worker *worker)
{
    ls_step_job *step = (ls_step_job *)job;
    ls_core_times *times = times_of(step, worker);
    bool helps = false;
    begin(step);
    while (!atomic_load(&step->complete)) {
        atomic_fetch_add(&step->busy, 1);
        ls_core_enter(worker->core);
        int j = pull(step, worker);
        bool worked = j >= 0;
        if (worked)
            ls_slow_down(worker);
        if (times)
            ls_times_begin_turn(times);
        if (worked)
            run_shard(step, j, worker);
        else
            worked = help(step, worker, &helps);
        if (times)
            ls_times_end_turn(times);
        ls_core_leave(worker->core);
        worked |= ls_exchange_advance(step);
        atomic_fetch_sub(&step->busy, 1);
        if (!worked)
            rest(step, worker);
    }
    if (helps)
        ls_offer_leave(worker);
}

void ls_step_submit(ls_step_job *step)
{
    const ls_flat *flat = &step->trainer->network->flat;
    int parts = step->mine;
    for (int b = 0; b < flat->n_buckets; b++) {
        atomic_store(&step->owed[b], step->mine);
        atomic_store(&step->stage[b], step->mine ? LS_FILLING : ls_exchange_filled(step));
        step->given[b] = step->reduced[b] = (ls_slices){0};
        parts += slices_of(step, own_piece(step, b));
    }
    ls_tree_reset(&step->tree, step->shards);
    ls_exchange_begin(step);
    for (int j = 0; j < step->shards; j++)
        atomic_store(&step->pulled[j], 0);
    for (int i = 0; i < step->n_parts; i++) {
        ls_feed_locate(step->parts[i].feed);
    }
    atomic_store(&step->next, 0);
    atomic_store(&step->left, parts);
    atomic_store(&step->complete, 0);
    atomic_store(&step->broken, 0);
    step->begun = false;
    step->job.work = work;
    if (parts == 0) /* more ranks than shards and pieces: this one only listens */
        ls_exchange_end(step);
    ls_engine_submit(step->trainer->network->engine, &step->job);
}
