#include "train/ending.h"

#include <math.h>

#include "cluster/cluster.h"
#include "train/clip.h"
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

void ls_step_sum_results(ls_step_job *step, bool finite)
{
    for (int j = step->first; j < step->first + step->mine; j++)
        finite &= isfinite(step->results.metrics[(size_t)j * LS_METRICS + LS_METRIC_LOSS]) != 0;
    if (!finite || atomic_load(&step->trainer->session->broken))
        atomic_store(&step->ending.broken, 1);
    sum_statistics(step);
}

/* r = (1 - momentum)^uses * r + momentum * (the shards' statistics, weighted by their images) */
static void move_statistics(ls_step_job *step)
{
    ls_network *network = step->trainer->network;
    int current = atomic_load(&network->current);
    const float *was = network->state[current];
    float *is = network->state[1 - current];
    for (int k = 0; k < network->flat.n_views; k++) {
        const ls_view *view = &network->flat.views[k];
        const float by = (float)view->momentum;
        double kept_by_all = 1;
        for (int use = 0; use < view->uses; use++)
            kept_by_all *= 1 - view->momentum;
        const float kept = (float)kept_by_all;
        const bool moves = view->momentum > 0 && !view->frozen;
        for (size_t i = view->offset; i < view->offset + view->numbers && !view->trainable; i++)
            is[i] = moves ? fmaf(by, step->results.statistics[i] / (float)step->rows, kept * was[i]) : was[i];
    }
    ls_network_state_moved(network, 1 - current);
}

/* The average of the statistics that have become current, as update.h has that of the weights. */
static void average_statistics(ls_step_job *step)
{
    const ls_network *network = step->trainer->network;
    const float *is = network->state[atomic_load(&network->current)];
    const ls_averaging how = step->how[0].averaging;
    float *average = step->trainer->average_state;
    for (size_t i = 0; average && i < network->flat.state; i++)
        average[i] = how.first ? is[i] : fmaf(how.share, is[i] - average[i], average[i]);
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
    /* Of a last, partial batch full_batch makes the step smaller, not the mean that tells how good the weights are. */
    const double full = (double)step->trainer->options.full_batch;
    report.loss = step->results.losses[0] / (full > 0 && full < step->counted ? full : step->counted);
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
    if (trainer->reported - trainer->taken > LS_REPORTS) {
        trainer->taken++;
        trainer->lost++;
    }
    pthread_mutex_unlock(&trainer->lock);
}

static bool all_finite(const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return false;
    return true;
}

/* Whether a place updates its part of the weights otherwise than the first one. */
static bool other_rule(const ls_step_job *step, int place)
{
    return step->update && step->exchange.statuses[place].rule != step->exchange.statuses[0].rule;
}

/* Names the rank that failed, or that is not as the first; false where none is such. */
static bool raise_rank(const ls_step_job *step)
{
    ls_session *session = step->trainer->session;
    const long long number = step->number + 1;
    for (int p = 0; p < step->partition.parts; p++) {
        const int rank = step->trainer->groups.rank[p];
        const char *host = ls_cluster_host(session->options.cluster, rank);
        if (step->exchange.statuses[p].flags & LS_FLAG_FAILED)
            ls_raise(&session->context, LS_IO, "step %lld: rank %d on host %s failed; see its own message", number,
                     rank, host);
        else if (other_rule(step, p))
            ls_raise(&session->context, LS_DIFFERS,
                     "step %lld: rank %d on host %s has another learning rate or other options of the trainer than "
                     "rank %d; give all ranks the same",
                     number, rank, host, step->trainer->groups.rank[0]);
        else
            continue;
        return true;
    }
    return false;
}

/* The first of the parameters that train, or of the statistics, that has a value which is not finite; NULL: none. */
static const char *not_finite(const ls_network *network, bool statistics, const float *values)
{
    for (int i = 0; i < network->flat.n_views; i++) {
        const ls_view *view = &network->flat.views[i];
        if ((statistics ? !view->trainable : ls_is_trained(view)) && !all_finite(values + view->offset, view->numbers))
            return view->name;
    }
    return NULL;
}

/* Names that, or what is not finite: the loss of a shard, or else what `not_finite` does. */
static void raise_broken(ls_step_job *step)
{
    ls_network *network = step->trainer->network;
    ls_context *context = &network->session->context;
    if (raise_rank(step))
        return;
    for (int j = 0; j < step->shards; j++)
        if (!isfinite(step->results.metrics[(size_t)j * LS_METRICS + LS_METRIC_LOSS])) {
            ls_raise(context, LS_NOT_FINITE,
                     "step %lld: the loss of shard %d is not finite; a lower learning rate may help",
                     (long long)step->number + 1, j);
            return;
        }
    const int other = 1 - atomic_load(&network->current);
    float *next = network->weights[other];
    const char *name = NULL;
    if (step->update) {
        network->master->type->memory.get(network->master, next, network->master_weights[other],
                                          network->flat.trainable * sizeof *next);
        name = not_finite(network, false, next);
        if (!name)
            name = not_finite(network, true, network->state[other]);
        atomic_store(&network->sound, LS_SOUND_CURRENT);
    }
    ls_raise(context, LS_NOT_FINITE, "step %lld: the update of %s is not finite; a lower learning rate may help",
             (long long)step->number + 1, name ? name : "the gradient");
}

void ls_step_decide(ls_step_job *step)
{
    struct ls_trainer *trainer = step->trainer;
    ls_network *network = trainer->network;
    ls_step_unrecord(step);
    step->ending.asked = 0;
    for (int p = 0; p < step->partition.parts; p++) {
        int asked = (int)(step->exchange.statuses[p].flags / LS_FLAG_ASKED);
        step->ending.asked = asked > step->ending.asked ? asked : step->ending.asked;
        if (step->exchange.statuses[p].flags % LS_FLAG_ASKED || other_rule(step, p))
            atomic_store(&step->ending.broken, 1);
    }
    if (step->update && !atomic_load(&step->ending.broken))
        atomic_store(&network->sound, LS_SOUND_NONE);
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
            average_statistics(step);
            atomic_fetch_add(&network->changes, 1);
            atomic_store(&network->sound, LS_SOUND_BEFORE);
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
