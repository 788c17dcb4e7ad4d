#include "train/job.h"

#include "base/timer.h"

ls_status ls_step_init(ls_step_job *step, struct ls_trainer *trainer)
{
    ls_network *network = trainer->network;
    ls_context *context = &network->session->context;
    size_t buckets = (size_t)network->flat.n_buckets + 1;
    atomic_int *shards_pending = ls_alloc(context, 2 * buckets, sizeof *shards_pending, "a step");
    ls_slices *slices = shards_pending ? ls_alloc(context, 3 * buckets, sizeof *slices, "a step") : NULL;
    if (!slices) {
        ls_release(context, shards_pending);
        return LS_OUT_OF_MEMORY;
    }
    step->how = ls_alloc(context, (size_t)trainer->updates.n_factors, sizeof *step->how, "a step");
    if (!step->how) {
        ls_release(context, shards_pending);
        ls_release(context, slices);
        return LS_OUT_OF_MEMORY;
    }
    step->trainer = trainer;
    step->sums.shards_pending = shards_pending;
    step->sums.stage = shards_pending + buckets;
    step->sums.local = slices;
    step->sums.group = slices + buckets;
    step->sums.last = slices + 2 * buckets;
    pthread_mutex_init(&step->lock, NULL);
    ls_timed_cond_init(&step->changed);
    return LS_OK;
}

static void release_rows(ls_step_job *step, ls_context *context)
{
    ls_release(context, step->pulls.order);
    ls_release(context, step->pulls.pulled);
    ls_release(context, step->gradients.filled);
    ls_release(context, step->results.statistics);
    ls_release(context, step->results.metrics);
    ls_release(context, step->results.losses);
}

void ls_step_destroy(ls_step_job *step)
{
    if (!step->trainer)
        return;
    ls_context *context = &step->trainer->network->session->context;
    for (int i = 0; i < step->n_microbatches; i++)
        ls_microbatch_drop(&step->microbatches[i]);
    ls_release(context, step->microbatches);
    release_rows(step, context);
    ls_release(context, step->sums.shards_pending);
    ls_release(context, step->sums.local);
    ls_release(context, step->how);
    ls_release(context, step->cohorts.at);
    ls_release(context, step->cohorts.shards);
    ls_release(context, step->cohorts.memory);
    ls_tree_destroy(&step->gradients.tree, context);
    ls_partition_destroy(&step->partition, context);
    ls_partition_destroy(&step->hosts, context);
    ls_release(context, step->exchange.statuses);
    ls_release(context, step->exchange.allreduces);
    pthread_cond_destroy(&step->changed);
    pthread_mutex_destroy(&step->lock);
}

ls_status ls_step_reserve(ls_step_job *step, int shards)
{
    ls_network *network = step->trainer->network;
    ls_context *context = &network->session->context;
    size_t n = (size_t)shards;
    if (shards > step->shards_capacity) {
        release_rows(step, context);
        step->pulls.order = ls_alloc(context, n, sizeof *step->pulls.order, "a step's shards");
        step->pulls.pulled = ls_alloc(context, n, sizeof *step->pulls.pulled, "a step's shards");
        step->gradients.filled = ls_alloc(context, n, sizeof *step->gradients.filled, "a step's shards");
        step->results.statistics = ls_alloc(context, n * network->flat.state, sizeof(float), "the shards' statistics");
        step->results.metrics = ls_alloc(context, n * LS_METRICS, sizeof(float), "the shards' metrics");
        step->results.losses = ls_alloc(context, n, sizeof *step->results.losses, "the shards' losses");
        if (!step->pulls.order || !step->pulls.pulled || !step->gradients.filled || !step->results.statistics ||
            !step->results.metrics || !step->results.losses) {
            step->shards_capacity = 0;
            return LS_OUT_OF_MEMORY;
        }
        step->shards_capacity = shards;
    }
    return ls_tree_reserve(&step->gradients.tree, context, shards);
}

static double counted(const ls_microbatch *microbatch, int j)
{
    const ls_feed *feed = microbatch->feed;
    return microbatch->given ? ls_given_counted(microbatch->given->data, feed->shards)[j] : ls_feed_counted(feed, j);
}

void ls_step_count(ls_step_job *step, int n)
{
    int shards = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < step->microbatches[i].feed->shards; j++)
            step->results.losses[shards++] = counted(&step->microbatches[i], j);
    ls_tree_sum_doubles(step->results.losses, shards);
    step->counted = step->results.losses[0];
}

ls_microbatch *ls_step_microbatch(const ls_step_job *step, int j, int *local)
{
    ls_microbatch *microbatch = step->microbatches;
    while (j >= microbatch->feed->shards)
        j -= microbatch++->feed->shards;
    *local = j;
    return microbatch;
}

void ls_step_wake(ls_step_job *step)
{
    pthread_mutex_lock(&step->lock);
    pthread_cond_broadcast(&step->changed);
    pthread_mutex_unlock(&step->lock);
}

float *ls_step_target(const ls_step_job *step)
{
    ls_network *network = step->trainer->network;
    bool updates = step->update && !ls_clips(step->trainer);
    if (updates)
        atomic_store(&network->sound, LS_SOUND_NONE);
    return updates ? network->master_weights[1 - atomic_load(&network->current)] : step->trainer->gradient;
}

void ls_step_unrecord(const ls_step_job *step)
{
    ls_network *network = step->trainer->network;
    if (step->ending.recorded)
        atomic_store(&network->current, 1 - atomic_load(&network->current));
}

void ls_step_lose_summaries(const ls_step_job *step)
{
    for (int i = 0; i < step->n_microbatches; i++)
        atomic_store(&step->microbatches[i].summary->lost, true);
}

void ls_step_drop(ls_step_job *step)
{
    step->ending.dropped = true;
    if (step->update)
        atomic_store(&step->trainer->upset, 1);
    ls_step_lose_summaries(step);
    atomic_store(&step->ending.complete, 1);
}

bool ls_step_goes_on(ls_step_job *step, ls_worker *worker)
{
    if (!step->ending.dropped && !ls_engine_wait_recorded(worker)) {
        ls_executor_finish(step->trainer->network->master, NULL); /* its results have nowhere to go later */
        ls_step_drop(step);
    }
    return !step->ending.dropped;
}
