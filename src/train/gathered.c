#include "train/gathered.h"

#include "cluster/cluster.h"
#include "train/exchange.h"

typedef ls_status move(ls_cluster *cluster, ls_context *context, void *data, const size_t begin[], const size_t end[]);

/* The first n moments of all ranks, to rank 0 or from it. */
static ls_status move_moments(struct ls_trainer *trainer, float *moments, int n, move *how)
{
    ls_cluster *cluster = trainer->session->options.cluster;
    ls_status status = LS_OK;
    if (ls_cluster_ranks(cluster) == 1)
        return LS_OK;
    const ls_flat *flat = &trainer->network->flat;
    for (int i = 0; i < n * flat->n_buckets && status == LS_OK; i++) {
        size_t *begin = cluster->places, *end = begin + cluster->ranks;
        float *moment = moments + (size_t)(i / flat->n_buckets) * flat->trainable;
        status = ls_exchange_pieces(trainer, i % flat->n_buckets, begin, end);
        if (status == LS_OK)
            status = how(cluster, &trainer->session->context, moment, begin, end);
    }
    return status;
}

ls_status ls_gathered_moments(struct ls_trainer *trainer, float *moments)
{
    return move_moments(trainer, moments, trainer->n_moments, ls_cluster_collect);
}

/* From rank 0 each part goes out once, and whoever got it sends it to the others. */
static ls_status spread(ls_cluster *cluster, ls_context *context, float *values, ls_bucket run)
{
    size_t *begin = cluster->places, floats = run.end - run.begin, ranks = (size_t)cluster->ranks;
    for (size_t r = 0; r <= ranks; r++)
        begin[r] = (run.begin + floats * r / ranks) * sizeof *values;
    ls_status status = ls_cluster_deal(cluster, context, values, begin, begin + 1);
    return status == LS_OK ? ls_cluster_gather(cluster, context, values, begin) : status;
}

/* The first n moments of rank 0, whole to every rank. */
static ls_status spread_moments(struct ls_trainer *trainer, float *moments, int n)
{
    const ls_flat *flat = &trainer->network->flat;
    ls_cluster *cluster = trainer->session->options.cluster;
    ls_status status = LS_OK;
    for (int i = 0; i < n * flat->n_buckets && status == LS_OK; i++)
        status = spread(cluster, &trainer->session->context, moments + (size_t)(i / flat->n_buckets) * flat->trainable,
                        flat->buckets[i % flat->n_buckets]);
    return status;
}

ls_status ls_gathered_average(struct ls_trainer *trainer, float *average)
{
    if (ls_clips(trainer) || ls_cluster_ranks(trainer->session->options.cluster) == 1)
        return LS_OK;
    const ls_status status = move_moments(trainer, average, 1, ls_cluster_collect);
    return status == LS_OK ? spread_moments(trainer, average, 1) : status;
}

ls_status ls_gathered_scatter(struct ls_trainer *trainer, float *moments)
{
    ls_network *network = trainer->network;
    ls_context *context = &trainer->session->context;
    ls_cluster *cluster = trainer->session->options.cluster;
    if (ls_cluster_ranks(cluster) == 1)
        return LS_OK;
    int current = atomic_load(&network->current), copy = cluster->rank == 0 ? current : 1 - current;
    ls_status status = spread(cluster, context, network->state[copy], (ls_bucket){0, network->flat.state});
    for (int b = 0; b < network->flat.n_buckets && status == LS_OK; b++)
        status = spread(cluster, context, network->weights[copy], network->flat.buckets[b]);
    if (status == LS_OK)
        status = spread(cluster, context, network->weights[copy],
                        (ls_bucket){network->flat.trainable, network->flat.parameters});
    if (status == LS_OK && moments) /* every rank that clips updates all weights, and needs all of them */
        status = ls_clips(trainer) ? spread_moments(trainer, moments, trainer->n_moments)
                                   : move_moments(trainer, moments, trainer->n_moments, ls_cluster_deal);
    if (status == LS_OK) {
        atomic_store(&network->current, copy);
        ls_network_changed(network);
    }
    return status;
}
