#include "train/ending.h"

#include <math.h>

#include "cluster/cluster.h"
#include "train/clip.h"
#include "train/exchange.h"
#include "train/measure.h"

/* This rank's nodes of the statistics, weighted by their images. */
static void sum_statistics(ls_step_job *step)
{
    ls_network *network = step->trainer->network;
    size_t n = network->flat.state;
    for (int j = step->first; j < step->first + step->mine; j++) {
        int local;
        const ls_microbatch *microbatch = ls_step_microbatch(step, j, &local);
        int images = ls_feed_count(microbatch->feed, local);
        float *row = step->results.statistics + (size_t)j * n;
        for (size_t i = 0; i < n; i++)
            row[i] = (float)images * row[i];
    }
    ls_partition_sum(step->first, step->first + step->mine, step->shards, NULL, step->results.statistics, n,
                     ls_backend_ref()->add);
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
        is[i] = fmaf(0.1f, step->results.statistics[i] / (float)step->rows, 0.9f * was[i]);
    ls_network_state_moved(network, 1 - current);
}

static ls_report report_of(const ls_step_job *step)
{
    ls_report report = {.step = step->number + 1, .rows = (int)step->rows, .norm = step->ending.norm};
    for (int j = 0; j < step->shards; j++) {
        const float *metrics = step->results.metrics + (size_t)j * LS_METRICS;
        step->results.losses[j] = metrics[LS_METRIC_LOSS];
        report.correct += (int64_t)metrics[LS_METRIC_CORRECT];
    }
    ls_tree_sum_doubles(step->results.losses, step->shards);
    report.loss = step->results.losses[0] / (double)step->rows;
    return report;
}

/* What the loss tensors of the microbatches will show. */
static void put_summaries(const ls_step_job *step)
{
    int first = 0;
    for (int i = 0; i < step->n_microbatches; i++) {
        const ls_microbatch *microbatch = &step->microbatches[i];
        int n = microbatch->feed->shards;
        double correct = 0;
        for (int j = 0; j < n; j++) {
            step->results.losses[j] = step->results.metrics[(size_t)(first + j) * LS_METRICS + LS_METRIC_LOSS];
            correct += step->results.metrics[(size_t)(first + j) * LS_METRICS + LS_METRIC_CORRECT];
        }
        ls_tree_sum_doubles(step->results.losses, n);
        microbatch->summary->data[0] = (float)step->results.losses[0];
        microbatch->summary->data[1] = (float)correct;
        first += n;
    }
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
    for (int p = 0; p < step->partition.parts; p++)
        if (step->exchange.statuses[p].flags & LS_FLAG_FAILED) {
            int rank = step->trainer->groups.rank[p];
            ls_raise(context, LS_IO, "step %lld: rank %d on host %s failed; see its own message",
                     (long long)step->number + 1, rank, ls_cluster_host(network->session->options.cluster, rank));
            return;
        }
    for (int j = 0; j < step->shards; j++)
        if (!isfinite(step->results.metrics[(size_t)j * LS_METRICS + LS_METRIC_LOSS])) {
            ls_raise(context, LS_NOT_FINITE,
                     "step %lld: the loss of shard %d is not finite; the weights of step %lld are kept; a lower "
                     "learning rate may help",
                     (long long)step->number + 1, j, (long long)step->number);
            return;
        }
    const int other = 1 - atomic_load(&network->current);
    float *next = network->weights[other];
    if (step->update)
        network->master->type->memory.get(network->master, next, network->master_weights[other],
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

/* All is summed, on all ranks. Every rank comes here with the same numbers, and decides alike. */
static void decide(ls_step_job *step)
{
    struct ls_trainer *trainer = step->trainer;
    ls_network *network = trainer->network;
    ls_step_unrecord(step);
    step->ending.asked = 0;
    for (int p = 0; p < step->partition.parts; p++) {
        int asked = (int)(step->exchange.statuses[p].flags / LS_FLAG_ASKED);
        step->ending.asked = asked > step->ending.asked ? asked : step->ending.asked;
        if (step->exchange.statuses[p].flags % LS_FLAG_ASKED)
            atomic_store(&step->ending.broken, 1);
    }
    ls_exchange_learn(step);
    if (step->update && ls_clips(trainer) && !atomic_load(&step->ending.broken) && !ls_clip_update(step))
        atomic_store(&step->ending.broken, 1);
    if (step->update && !atomic_load(&step->ending.broken)) {
        move_statistics(step);
        if (!all_finite(network->state[1 - atomic_load(&network->current)], network->flat.state))
            atomic_store(&step->ending.broken, 1);
    }
    if (atomic_load(&step->ending.broken)) {
        if (step->update)
            atomic_store(&trainer->upset, 1);
        raise_broken(step);
        /* A rank that failed by itself is the only one to know why, and has to say it. */
        atomic_store(&network->session->together,
                     !(step->exchange.statuses[trainer->groups.place].flags & LS_FLAG_FAILED));
        ls_step_lose_summaries(step);
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
        ls_measure_end_step(step->profile, step->number + 1, step->rows);
    atomic_store(&step->ending.complete, 1);
    ls_step_wake(step);
}

void ls_step_end(ls_step_job *step)
{
    if (ls_exchange_end(step))
        decide(step);
}

/* Who waits for a recorded step has the turn. */
static void decide_in_turn(ls_step_job *step)
{
    const ls_network *network = step->trainer->network;
    if (!step->ending.recorded)
        ls_network_enter(network);
    decide(step);
    if (!step->ending.recorded)
        ls_network_leave(network);
}

bool ls_step_advance(ls_step_job *step)
{
    const ls_advance advance = ls_exchange_advance(step);
    if (advance == LS_ALL_MOVED)
        decide_in_turn(step);
    return advance != LS_STILL;
}

/* The end of this rank's part, once what was handed in to executors is known. */
static void end_part(ls_step_job *step, ls_status status, bool finite)
{
    ls_session *session = step->trainer->session;
    if (status != LS_OK && step->trainer->network->connected) {
        ls_exchange_give_up(step); /* the others' cards wait for this one's numbers */
        return;
    }
    if (status != LS_OK)
        atomic_store(&session->broken, true);
    for (int j = step->first; j < step->first + step->mine; j++)
        finite &= isfinite(step->results.metrics[(size_t)j * LS_METRICS + LS_METRIC_LOSS]) != 0;
    if (!finite || atomic_load(&session->broken))
        atomic_store(&step->ending.broken, 1);
    sum_statistics(step);
    ls_step_end(step);
}

/* Where all that a step needs is one executor that is far from done when everything is handed in, the next step's
 * shards are handed in behind it before anybody looks at what came of it, so that the executor never waits for the
 * host. They read the new weights, and write nothing that is still wanted if those turn out to be none: then the next
 * step is dropped. Only a step that is measured, and one that clips, which the host decides on halfway, end by
 * themselves. Connected cards do the same: a rank hears what the others say of a step when it waits for it, while its
 * card is at the next one. */
static bool goes_ahead(const ls_step_job *step)
{
    const struct ls_trainer *trainer = step->trainer;
    const ls_network *network = trainer->network;
    return ls_network_goes_ahead(network) && step->update && !ls_clips(trainer) && !step->profile &&
           !network->master->gpu_trace && !ls_exchange_measures(step);
}

static void record(ls_step_job *step, ls_worker *worker)
{
    ls_network *network = step->trainer->network;
    network->master->type->completion.record(network->master, &step->ending.finite);
    atomic_store(&network->current, 1 - atomic_load(&network->current));
    step->ending.recorded = true;
    worker->open = &step->job;
}

/* This rank's part of it, once the executor is done. */
static void wait_part(ls_step_job *step)
{
    ls_network *network = step->trainer->network;
    if (step->ending.waited)
        return;
    step->ending.waited = true;
    network->master->type->completion.wait(network->master);
    end_part(step, ls_executor_check(network->master), step->ending.finite);
}

bool ls_step_wait(ls_job *job, ls_worker *worker)
{
    ls_step_job *step = (ls_step_job *)job;
    (void)worker;
    wait_part(step);
    while (!atomic_load(&step->ending.complete)) {
        if (!ls_step_advance(step))
            ls_exchange_await(step, true);
        ls_exchange_look(step);
    }
    return !atomic_load(&step->ending.broken);
}

bool ls_step_is_ready(ls_job *job, ls_worker *worker)
{
    ls_step_job *step = (ls_step_job *)job;
    ls_executor *executor = worker->turn->executor;
    if (!step->ending.waited && !executor->type->completion.is_done(executor))
        return false;
    wait_part(step);
    ls_step_advance(step);
    if (!atomic_load(&step->ending.complete))
        ls_exchange_look(step);
    return atomic_load(&step->ending.complete);
}

void ls_step_finish_part(ls_step_job *step, ls_worker *worker)
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
