#include "train/slices.h"

#include "device/gpu_trace.h"
#include "train/exchange.h"
#include "train/updates.h"

/* A slice is as long as one thread of an executor is to be given at once. */
static size_t slice_floats(const ls_step_job *step)
{
    return step->trainer->network->master->slice;
}

static int slices_of(const ls_step_job *step, ls_bucket run)
{
    return (int)((run.end - run.begin + slice_floats(step) - 1) / slice_floats(step));
}

static ls_bucket slice_of(const ls_step_job *step, ls_bucket run, int slice)
{
    size_t floats = slice_floats(step), begin = run.begin + (size_t)slice * floats;
    return (ls_bucket){begin, begin + floats < run.end ? begin + floats : run.end};
}

int ls_slices_to_finish(const ls_step_job *step)
{
    const ls_network *network = step->trainer->network;
    int slices = 0;
    for (int b = 0; b < network->flat.n_buckets && !network->connected; b++)
        slices += slices_of(step, step->exchange.allreduces[b].piece);
    return network->connected ? 1 : slices;
}

/* Sums numbers [at, end) of this rank's piece over all shards, and updates them where there is a rule. */
static void reduce(ls_step_job *step, int bucket, size_t at, size_t end, const ls_update *how, ls_executor *executor)
{
    struct ls_trainer *trainer = step->trainer;
    ls_network *network = trainer->network;
    const float *weights = network->master_weights[atomic_load(&network->current)] + at;
    float *target = ls_step_target(step) + at;
    ls_partials from = ls_allreduce_partials(&step->exchange.allreduces[bucket], at);
    ls_terms terms = ls_tree_terms(&step->gradients.tree, 1, &from, end - at, executor);
    if (!how)
        executor->type->compute.sum(executor, &terms, target, end - at);
    else if (!executor->type->compute.update(executor, &terms, target, weights,
                                             trainer->moments ? trainer->moments + at : NULL, end - at, how))
        atomic_store(&step->ending.broken, 1);
}

/* One slice of this rank's piece: its sum, or its new weights. */
static void reduce_slice(ls_step_job *step, int bucket, ls_bucket slice, ls_executor *executor)
{
    if (step->update && atomic_load(&step->ending.overflowed))
        return; /* no number is written over the values that the last loss was finite with */
    if (!step->update || ls_clips(step->trainer)) {
        reduce(step, bucket, slice.begin, slice.end, NULL, executor);
        return;
    }
    for (size_t at = slice.begin, end; at < slice.end; at = end) {
        const ls_update *how = ls_updates_at(step, at, slice.end, &end);
        reduce(step, bucket, at, end, how, executor);
    }
}

/* What of a bucket is to be summed at its stage, and the slices that are taken of it; NULL where nothing is. */
static ls_slices *summed(const ls_step_job *step, int bucket, int stage, ls_bucket *run)
{
    const ls_allreduce *allreduce = &step->exchange.allreduces[bucket];
    switch (stage) {
    case LS_LOCAL_SUM:
        *run = allreduce->bucket;
        return &step->sums.local[bucket];
    case LS_GROUP_SUM:
        *run = allreduce->stripe;
        return &step->sums.group[bucket];
    case LS_LAST_SUM:
        *run = allreduce->piece;
        return &step->sums.last[bucket];
    default:
        return NULL;
    }
}

static void sum_slice(ls_step_job *step, int bucket, int stage, ls_bucket slice, ls_executor *executor)
{
    const ls_allreduce *allreduce = &step->exchange.allreduces[bucket];
    if (stage == LS_LOCAL_SUM)
        ls_allreduce_local_sum(allreduce, slice, executor);
    else if (stage == LS_GROUP_SUM)
        ls_allreduce_group_sum(allreduce, slice, executor);
    else
        reduce_slice(step, bucket, slice, executor);
}

/* Takes slices at a bucket's stage until none is left; returns how many, and whether the last one was among them. */
static int take_slices(ls_step_job *step, int bucket, int stage, ls_worker *worker, bool *last)
{
    ls_bucket run;
    ls_slices *slices = summed(step, bucket, stage, &run);
    int n = slices ? slices_of(step, run) : 0, taken = 0;
    ls_executor *adder = ls_network_adder(step->trainer->network, worker->turn);
    *last = false;
    while (n && atomic_load(&slices->next) < n && ls_step_goes_on(step, worker)) {
        int slice = atomic_fetch_add(&slices->next, 1);
        if (slice >= n)
            break;
        ls_meter_go(&worker->meter, stage == LS_LAST_SUM ? LS_SPAN_REDUCE : LS_SPAN_GIVE, bucket);
        int mark = ls_gpu_trace_mark(adder);
        sum_slice(step, bucket, stage, slice_of(step, run, slice), adder);
        ls_gpu_trace_note(adder, mark, LS_SPAN_CARD_SUM, bucket, NULL);
        taken++;
        *last |= atomic_fetch_add(&slices->done, 1) == n - 1;
    }
    return taken;
}

/* Whether the worker is to sum: where cards bring their gradients to one of them, that one's workers do. */
static bool sums(const ls_step_job *step, const ls_worker *worker)
{
    const ls_network *network = step->trainer->network;
    return !ls_network_gathers(network) || worker->turn->executor == network->master;
}

static void sum_all(ls_step_job *step, ls_stage stage, ls_worker *worker)
{
    bool last;
    for (int b = 0; b < step->trainer->network->flat.n_buckets; b++)
        take_slices(step, b, stage, worker, &last);
}

static bool may_pass(const ls_step_job *step)
{
    bool all = !atomic_load(&step->sums.passed);
    for (int b = 0; b < step->trainer->network->flat.n_buckets && all; b++)
        all = atomic_load(&step->sums.stage[b]) == LS_PASSING;
    return all;
}

static bool pass(ls_step_job *step, ls_worker *worker, int *finished)
{
    if (!may_pass(step) || atomic_exchange(&step->sums.passed, true))
        return false;
    /* A rank that has dropped the step, or never will begin it, hands in none of its transfers: nor may the others. */
    if (!ls_step_goes_on(step, worker))
        return true;
    ls_meter_go(&worker->meter, LS_SPAN_REDUCE, -1);
    ls_exchange_pass(step, sum_all, worker);
    ++*finished;
    return true;
}

bool ls_slices_take(ls_step_job *step, ls_worker *worker, int *finished)
{
    const ls_flat *flat = &step->trainer->network->flat;
    bool any = false;
    if (!sums(step, worker))
        return false;
    if (step->trainer->network->connected)
        return pass(step, worker, finished);
    for (int b = 0; b < flat->n_buckets; b++) {
        bool last;
        int stage = atomic_load(&step->sums.stage[b]), taken = take_slices(step, b, stage, worker, &last);
        if (last && step->partition.parts > 1) {
            atomic_store(&step->sums.stage[b], stage + 1); /* to be sent */
            ls_step_wake(step); /* an idle worker may look after it while this one goes on computing */
        }
        *finished += stage == LS_LAST_SUM ? taken : 0;
        any |= taken > 0;
    }
    return any;
}

bool ls_slices_left(const ls_step_job *step, const ls_worker *worker)
{
    if (!sums(step, worker))
        return false;
    if (step->trainer->network->connected)
        return may_pass(step);
    for (int b = 0; b < step->trainer->network->flat.n_buckets; b++) {
        ls_bucket run;
        const ls_slices *slices = summed(step, b, atomic_load(&step->sums.stage[b]), &run);
        if (slices && atomic_load(&slices->next) < slices_of(step, run))
            return true;
    }
    return false;
}
