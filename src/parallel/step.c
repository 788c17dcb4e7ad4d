#include "parallel/step.h"

#include <math.h>
#include <string.h>

#include "parallel/profile.h"
#include "parallel/stream.h"

static int slices_of(const ls_bucket *bucket)
{
    return (int)((bucket->end - bucket->begin + LS_SLICE - 1) / LS_SLICE);
}

ls_status ls_step_init(ls_step_job *step, struct ls_trainer *trainer)
{
    ls_network *network = trainer->network;
    ls_context *context = &network->session->context;
    size_t buckets = (size_t)network->flat.n_buckets + 1;
    atomic_int *owed = ls_alloc(context, buckets, sizeof *owed, "a step");
    atomic_int *slice = owed ? ls_alloc(context, buckets, sizeof *slice, "a step") : NULL;
    if (!slice) {
        ls_release(context, owed);
        return LS_OUT_OF_MEMORY;
    }
    step->trainer = trainer;
    step->owed = owed;
    step->slice = slice;
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
    ls_release(context, step->slice);
    ls_release(context, step->statistics);
    ls_release(context, step->metrics);
    ls_release(context, step->losses);
    ls_tree_destroy(&step->tree, context);
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

static void wake(ls_step_job *step)
{
    pthread_mutex_lock(&step->lock);
    pthread_cond_broadcast(&step->changed);
    pthread_mutex_unlock(&step->lock);
}

/* ---- The end of a step ---- */

/* r = 0.9*r + 0.1 * (the shards' statistics, weighted by their images) */
static void move_statistics(ls_step_job *step)
{
    ls_network *network = step->trainer->network;
    size_t n = network->flat.state;
    int current = atomic_load(&network->current);
    for (int j = 0; j < step->shards; j++) {
        int local;
        const ls_share *part = ls_step_share(step, j, &local);
        int images = ls_feed_count(part->feed, local);
        float *row = step->statistics + (size_t)j * n;
        for (size_t i = 0; i < n; i++)
            row[i] = (float)images * row[i];
    }
    ls_tree_sum_rows(step->statistics, step->shards, n, network->backend->add);
    const float *was = network->state[current];
    float *is = network->state[1 - current];
    for (size_t i = 0; i < n; i++)
        is[i] = fmaf(0.1f, step->statistics[i] / (float)step->rows, 0.9f * was[i]);
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
    for (int j = 0; j < step->shards; j++)
        if (!isfinite(step->metrics[(size_t)j * LS_METRICS + LS_METRIC_LOSS])) {
            ls_raise(context, LS_NOT_FINITE,
                     "step %lld: the loss of shard %d is not finite; the weights of step %lld are kept; a lower "
                     "learning rate may help",
                     (long long)step->number + 1, j, (long long)step->number);
            return;
        }
    const float *next = network->weights[1 - atomic_load(&network->current)];
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

static void finish(ls_step_job *step)
{
    struct ls_trainer *trainer = step->trainer;
    ls_network *network = trainer->network;
    if (step->update && !atomic_load(&step->broken)) {
        move_statistics(step);
        if (!all_finite(network->state[1 - atomic_load(&network->current)], network->flat.state))
            atomic_store(&step->broken, 1);
    }
    if (atomic_load(&step->broken)) {
        if (step->update)
            atomic_store(&trainer->upset, 1);
        raise_broken(step);
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
    wake(step);
}

/* One shard or slice is done; the last one ends the step. */
static void finish_part(ls_step_job *step)
{
    if (atomic_fetch_sub(&step->left, 1) == 1)
        finish(step);
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
static void fold(ls_step_job *step, int node, ls_core *core)
{
    struct ls_trainer *trainer = step->trainer;
    ls_network *network = trainer->network;
    int into = ls_tree_begin_fold(&step->tree, node);
    pthread_mutex_unlock(&step->lock);
    for (size_t at = 0; at < network->flat.trainable; at += LS_TREE_BLOCK) {
        size_t n = network->flat.trainable - at < LS_TREE_BLOCK ? network->flat.trainable - at : LS_TREE_BLOCK;
        ls_tree_sum(&step->tree, node, trainer->pool, at, n, trainer->pool[into] + at, core->sums,
                    network->backend->add);
    }
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
            fold(step, node, worker->core);
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

/* Sums one slice of a whole bucket over all shards and updates its weights. */
static void reduce_slice(ls_step_job *step, int bucket, int slice, ls_core *core)
{
    struct ls_trainer *trainer = step->trainer;
    ls_network *network = trainer->network;
    int current = atomic_load(&network->current);
    const ls_bucket *range = &network->flat.buckets[bucket];
    size_t begin = range->begin + (size_t)slice * LS_SLICE,
           end = begin + LS_SLICE < range->end ? begin + LS_SLICE : range->end;
    for (size_t at = begin; at < end; at += LS_TREE_BLOCK) {
        size_t n = end - at < LS_TREE_BLOCK ? end - at : LS_TREE_BLOCK;
        const float *sum = ls_tree_sum(&step->tree, 1, trainer->pool, at, n, NULL, core->sums, network->backend->add);
        if (!step->update)
            memcpy(trainer->gradient + at, sum, n * sizeof *sum);
        else if (!network->backend->sgd(network->weights[1 - current] + at, network->weights[current] + at,
                                        trainer->velocity ? trainer->velocity + at : NULL, sum, n, &step->how))
            atomic_store(&step->broken, 1);
    }
}

/* Takes slices of whole buckets until none is left; true when there was one. */
static bool reduce(ls_step_job *step, const ls_worker *worker)
{
    const ls_flat *flat = &step->trainer->network->flat;
    ls_core_times *times = times_of(step, worker);
    ls_aside begin = ls_times_aside(times);
    bool any = false;
    for (int b = 0; b < flat->n_buckets; b++) {
        int slices = slices_of(&flat->buckets[b]);
        if (atomic_load(&step->owed[b]) > 0)
            continue;
        while (atomic_load(&step->slice[b]) < slices) {
            int slice = atomic_fetch_add(&step->slice[b], 1);
            if (slice >= slices)
                break;
            reduce_slice(step, b, slice, worker->core);
            finish_part(step);
            any = true;
        }
    }
    if (times && any)
        ls_times_reduced(times, begin);
    return any;
}

static bool reducible(ls_step_job *step)
{
    const ls_flat *flat = &step->trainer->network->flat;
    for (int b = 0; b < flat->n_buckets; b++)
        if (atomic_load(&step->owed[b]) <= 0 && atomic_load(&step->slice[b]) < slices_of(&flat->buckets[b]))
            return true;
    return false;
}

/* ---- Shards ---- */

typedef struct running {
    ls_step_job *step;
    const ls_worker *worker;
} running;

static void bucket_is_whole(void *user, int bucket)
{
    running *r = user;
    if (atomic_fetch_sub(&r->step->owed[bucket], 1) == 1)
        wake(r->step);
    if (atomic_load(&r->step->next) >= r->step->shards)
        reduce(r->step, r->worker);
}

/* A clock that stands still while its core reduces or waits. */
static double computing_seconds(const ls_core_times *times)
{
    return ls_seconds() - times->aside;
}

static void run_shard(ls_step_job *step, int j, const ls_worker *worker)
{
    ls_network *network = step->trainer->network;
    ls_core_times *times = times_of(step, worker);
    double begin = times ? computing_seconds(times) : 0;
    int local;
    const ls_share *part = ls_step_share(step, j, &local);
    float *metrics = step->metrics + (size_t)j * LS_METRICS;
    ls_bindings bindings = {
        .base = {[LS_IN_METRICS] = metrics, [LS_IN_STATISTICS] = step->statistics + (size_t)j * network->flat.state}};
    ls_network_bind(network, &bindings);
    if (times)
        bindings.tally = ls_profile_tally(step->profile, part->feed->plan, worker->place);
    bindings.base[LS_IN_GRADIENTS] = take_buffer(step, j, worker);
    running r = {step, worker};
    ls_feed_run(part->feed, local, worker->core, &bindings, (uint64_t)step->number, bucket_is_whole, &r);
    if (!isfinite(metrics[LS_METRIC_LOSS]))
        atomic_store(&step->broken, 1);
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
    if (atomic_load(&step->next) >= step->shards)
        return -1;
    if (!step->placed) {
        int place = atomic_fetch_add(&step->next, 1);
        return place < step->shards ? step->order[place] : -1;
    }
    for (int i = 0; i < step->shards; i++) {
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

static void work(ls_job *job, ls_worker *worker)
{
    ls_step_job *step = (ls_step_job *)job;
    ls_core_times *times = times_of(step, worker);
    begin(step);
    while (!atomic_load(&step->complete)) {
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
            worked = reduce(step, worker);
        if (times)
            ls_times_end_turn(times);
        ls_core_leave(worker->core);
        if (worked || ls_spin(worker->engine, &step->complete))
            continue;
        pthread_mutex_lock(&step->lock);
        while (!atomic_load(&step->complete) && !reducible(step))
            pthread_cond_wait(&step->changed, &step->lock);
        pthread_mutex_unlock(&step->lock);
    }
}

void ls_step_submit(ls_step_job *step)
{
    const ls_flat *flat = &step->trainer->network->flat;
    int parts = step->shards;
    for (int b = 0; b < flat->n_buckets; b++) {
        atomic_store(&step->owed[b], step->shards);
        atomic_store(&step->slice[b], 0);
        parts += slices_of(&flat->buckets[b]);
    }
    ls_tree_reset(&step->tree, step->shards);
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
    ls_engine_submit(step->trainer->network->engine, &step->job);
}
