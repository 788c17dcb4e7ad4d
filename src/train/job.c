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
    step->trainer = trainer;
    step->shards_pending = shards_pending;
    step->stage = shards_pending + buckets;
    step->local = slices;
    step->group = slices + buckets;
    step->last = slices + 2 * buckets;
    pthread_mutex_init(&step->lock, NULL);
    ls_timed_cond_init(&step->changed);
    return LS_OK;
}

void ls_step_destroy(ls_step_job *step)
{
    if (!step->trainer)
        return;
    ls_context *context = &step->trainer->network->session->context;
    for (int i = 0; i < step->n_microbatches; i++)
        ls_microbatch_drop(&step->microbatches[i]);
    ls_release(context, step->microbatches);
    ls_release(context, step->order);
    ls_release(context, step->pulled);
    ls_release(context, step->filled);
    ls_release(context, step->shards_pending);
    ls_release(context, step->local);
    ls_release(context, step->statistics);
    ls_release(context, step->metrics);
    ls_release(context, step->losses);
    ls_tree_destroy(&step->tree, context);
    ls_partition_destroy(&step->partition, context);
    ls_partition_destroy(&step->hosts, context);
    ls_release(context, step->statuses);
    ls_release(context, step->allreduces);
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
    const ls_network *network = step->trainer->network;
    bool updates = step->update && !ls_clips(step->trainer);
    return updates ? network->master_weights[1 - atomic_load(&network->current)] : step->trainer->gradient;
}

void ls_step_unrecord(const ls_step_job *step)
{
    ls_network *network = step->trainer->network;
    if (step->recorded)
        atomic_store(&network->current, 1 - atomic_load(&network->current));
}

void ls_step_lose_summaries(const ls_step_job *step)
{
    for (int i = 0; i < step->n_microbatches; i++)
        atomic_store(&step->microbatches[i].summary->lost, true);
}

void ls_step_drop(ls_step_job *step)
{
    step->dropped = true;
    if (step->update)
        atomic_store(&step->trainer->upset, 1);
    ls_step_lose_summaries(step);
    atomic_store(&step->complete, 1);
}

bool ls_step_goes_on(ls_step_job *step, ls_worker *worker)
{
    if (!step->dropped && !ls_engine_wait_recorded(worker)) {
        ls_executor_finish(step->trainer->network->master, NULL); /* its results have nowhere to go later */
        ls_step_drop(step);
    }
    return !step->dropped;
}
