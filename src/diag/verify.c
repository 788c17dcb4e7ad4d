/* Whether the devices agree: one shard computed by each of them, those of all ranks, and compared; and before that
 * whether the ranks' replicas of the values are the same. All ranks judge from the same sums. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/environment.h"
#include "cluster/cluster.h"
#include "device/devices.h"
#include "model/replica.h"
#include "train/job.h"
#include "train/trainer.h"

enum { METRICS = 16 }; /* floats in front of what follows the metrics */

typedef struct verifying {
    ls_job job;
    struct ls_trainer *trainer;
    const ls_feed *feed;
    int shard;      /* of the feed */
    int rounds;     /* a single device computes twice */
    size_t row;     /* floats of one device's statistics and metrics, and its gradient where that is not the host's */
    float *rows;    /* [workers][row] */
    size_t width;   /* sums of one run: of each tensor, and of the loss */
    uint64_t *sums; /* [runs][width], rank after rank; in each [workers][rounds] */
    ls_devices *devices;  /* [ranks] */
    size_t *begin;        /* [ranks + 1] of their sums, in bytes */
    pthread_mutex_t lock; /* guards the trainer's free buffers */
    pthread_cond_t changed;
} verifying;

/* Each number changes the sum to another whatever it was, so that sums of two runs which differ in one number
 * differ. */
static uint64_t sum_of(const float *values, size_t n)
{
    uint64_t sum = 0xcbf29ce484222325;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        sum = (sum ^ bits) * 0x100000001b3;
        sum ^= sum >> 29;
    }
    return sum;
}

static int take_buffer(verifying *v)
{
    struct ls_trainer *trainer = v->trainer;
    pthread_mutex_lock(&v->lock);
    while (trainer->n_free == 0)
        pthread_cond_wait(&v->changed, &v->lock);
    int buffer = trainer->free_buffers[--trainer->n_free];
    pthread_mutex_unlock(&v->lock);
    return buffer;
}

static void give_buffer(verifying *v, int buffer)
{
    pthread_mutex_lock(&v->lock);
    v->trainer->free_buffers[v->trainer->n_free++] = buffer;
    pthread_cond_signal(&v->changed);
    pthread_mutex_unlock(&v->lock);
}

/* The shard is by itself where it would meet others: its sums are the totals. Returns its room, which NULL is where it
 * needs none. */
static float *bind_room(ls_executor *executor, const ls_plan *plan, ls_bindings *bindings)
{
    float *room = !plan->n_meetings ? NULL
                                    : ls_executor_alloc(executor, plan->room_floats + plan->sums_floats, sizeof *room,
                                                        "a shard's room");
    bindings->base[LS_IN_ROOM] = room;
    bindings->base[LS_IN_SUMS] = bindings->base[LS_IN_TOTALS] = room ? room + plan->room_floats : NULL;
    return room;
}

static void run_once(verifying *v, ls_worker *worker, float *row, uint64_t *sums)
{
    ls_network *network = v->trainer->network;
    ls_turn *turn = worker->turn;
    const ls_flat *flat = &network->flat;
    ls_executor *executor = turn->executor;
    const ls_replica *replica = ls_replica_of(network, turn);
    int buffer = take_buffer(v);
    float *computed = replica ? replica->gradient : v->trainer->pool[buffer];
    float *gradient = executor->memory ? row + flat->state + METRICS : computed;
    float *metrics = NULL; /* one that begins from a gradient makes none */
    if (!v->feed->program->has_dy)
        metrics = executor->type->compute.stage_result(executor, row + flat->state, LS_METRICS);
    ls_bindings bindings = {
        .base = {[LS_IN_METRICS] = metrics,
                 [LS_IN_STATISTICS] = executor->type->compute.stage_result(executor, row, flat->state),
                 [LS_IN_GRADIENTS] = computed}};
    ls_replica_bind(network, turn, &bindings);
    float *room = bind_room(executor, ls_feed_plan(v->feed, turn), &bindings);
    ls_feed_run(v->feed, v->shard, turn, &bindings, (uint64_t)v->trainer->network->updates, NULL, NULL);
    executor->type->memory.get(executor, gradient, computed, flat->trainable * sizeof *gradient);
    const bool good = ls_executor_await(executor, NULL);
    ls_executor_release(executor, room);
    if (!good && !ls_network_loses(network, worker))
        ls_network_fail(network, executor);
    ls_count_work(&network->session->context);
    for (int i = 0; good && i < flat->n_views; i++) {
        const ls_view *view = &flat->views[i];
        sums[i] = view->frozen ? 0 : sum_of((view->trainable ? gradient : row) + view->offset, view->numbers);
    }
    if (good)
        sums[flat->n_views] = sum_of(row + flat->state, LS_METRICS);
    give_buffer(v, buffer);
}

static void work(ls_job *job, ls_worker *worker)
{
    verifying *v = (verifying *)job;
    size_t i = (size_t)(worker - worker->engine->workers);
    int rank = ls_cluster_rank(v->trainer->session->options.cluster);
    uint64_t *mine = v->sums + v->begin[rank] / sizeof *v->sums;
    ls_turn_enter(worker->turn);
    for (int round = 0; round < v->rounds; round++)
        run_once(v, worker, v->rows + i * v->row, mine + (i * (size_t)v->rounds + (size_t)round) * v->width);
    ls_turn_leave(worker->turn);
}

/* ---- The verdict ---- */

/* Sums of n runs or replicas, and what most of them say. */
typedef struct vote {
    const uint64_t *sums; /* [n][width] */
    int n;
    size_t width;
    int best, agreeing; /* one of the majority; how many they are */
    int other;          /* the first that is not among them; -1: none */
    size_t at;          /* where its sums differ first */
} vote;

/* A device that has failed computes nothing, and its sums stay zero. */
static bool computed(const vote *v, int i)
{
    bool any = false;
    for (size_t at = 0; at < v->width; at++)
        any |= v->sums[(size_t)i * v->width + at] != 0;
    return any;
}

static bool alike(const vote *v, int i, int k)
{
    return memcmp(v->sums + (size_t)i * v->width, v->sums + (size_t)k * v->width, v->width * sizeof *v->sums) == 0;
}

static vote count(const uint64_t *sums, int n, size_t width)
{
    vote v = {.sums = sums, .n = n, .width = width, .other = -1};
    for (int i = 0; i < n; i++) {
        int agree = 0;
        for (int k = 0; k < n && computed(&v, i); k++)
            agree += alike(&v, i, k);
        if (agree > v.agreeing) {
            v.agreeing = agree;
            v.best = i;
        }
    }
    for (int i = 0; i < n && v.other < 0; i++)
        if (computed(&v, i) && !alike(&v, v.best, i))
            v.other = i;
    while (v.other >= 0 && sums[(size_t)v.best * width + v.at] == sums[(size_t)v.other * width + v.at])
        v.at++;
    return v;
}

/* Found by all ranks alike. */
static ls_status raise_together(struct ls_trainer *trainer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static ls_status raise_together(struct ls_trainer *trainer, const char *format, ...)
{
    char text[768];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    ls_raise(&trainer->session->context, LS_DIFFERS, "ls_trainer_verify: step %lld%s",
             (long long)trainer->network->updates + 1, text);
    atomic_store(&trainer->session->together, ls_cluster_ranks(trainer->session->options.cluster) > 1);
    return ls_status_of(trainer->session);
}

/* "cpu(1)"; of several ranks "rank 2 on host b, cpu(1)". */
static void name_run(const verifying *v, int run, char *name, size_t size)
{
    const ls_cluster *cluster = v->trainer->session->options.cluster;
    int rank = 0, device = run / v->rounds;
    while (device >= v->devices[rank].n)
        device -= v->devices[rank++].n;
    int length = 0;
    if (ls_cluster_ranks(cluster) > 1)
        length = snprintf(name, size, "rank %d on host %s, ", rank, ls_cluster_host(cluster, rank));
    ls_device_write(name + length, size - (size_t)length, v->devices[rank].at[device]);
}

static ls_status judge(const verifying *v, int shard)
{
    const ls_network *network = v->trainer->network;
    int ranks = ls_cluster_ranks(v->trainer->session->options.cluster);
    vote of = count(v->sums, (int)(v->begin[ranks] / sizeof *v->sums / v->width), v->width);
    if (of.other < 0)
        return LS_OK;
    bool loss = of.at + 1 == v->width, trainable = !loss && network->flat.views[of.at].trainable;
    const char *kind = loss        ? "the loss"
                       : trainable ? "the gradient of "
                                   : "the statistics ",
               *name = loss ? "" : network->flat.views[of.at].name;
    char one[128], other[128], who[384];
    name_run(v, of.best, one, sizeof one);
    name_run(v, of.other, other, sizeof other);
    if (v->rounds > 1)
        snprintf(who, sizeof who, "%s computes other bits the second time", other);
    else if (2 * of.agreeing > of.n)
        snprintf(who, sizeof who, "%s computes other bits than %d of the %d devices", other, of.agreeing, of.n);
    else
        snprintf(who, sizeof who, "%s and %s compute different bits", one, other);
    return raise_together(v->trainer, ", shard %d: %s, first in %s%s; leave it out, and have the machine looked at",
                          shard, who, kind, name);
}

/* ---- Replicas ---- */

static ls_status judge_replicas(struct ls_trainer *trainer, const uint64_t *sums)
{
    const ls_network *network = trainer->network;
    const ls_cluster *cluster = trainer->session->options.cluster;
    vote of = count(sums, cluster->ranks, (size_t)network->flat.n_views);
    if (of.other < 0)
        return LS_OK;
    const char *name = network->flat.views[of.at].name;
    if (2 * of.agreeing > of.n)
        return raise_together(
            trainer,
            ": rank %d on host %s has other values than %d of the %d ranks, first in %s; its memory is "
            "not to be trusted: go on without it, from a checkpoint",
            of.other, ls_cluster_host(cluster, of.other), of.agreeing, of.n, name);
    return raise_together(
        trainer,
        ": rank %d on host %s and rank %d on host %s have different values, first in %s; the memory of "
        "one is not to be trusted: go on without it, from a checkpoint",
        of.best, ls_cluster_host(cluster, of.best), of.other, ls_cluster_host(cluster, of.other), name);
}

/* Weights and statistics, which every rank has a copy of. */
static ls_status compare_replicas(struct ls_trainer *trainer)
{
    ls_network *network = trainer->network;
    ls_cluster *cluster = trainer->session->options.cluster;
    size_t views = (size_t)network->flat.n_views;
    if (ls_cluster_ranks(cluster) == 1)
        return LS_OK;
    uint64_t *sums =
        ls_alloc(&trainer->session->context, (size_t)cluster->ranks * views, sizeof *sums, "sums of the weights");
    if (ls_cluster_agree_error(trainer->session) == LS_OK) {
        for (size_t i = 0; i < views; i++) {
            const ls_view *view = &network->flat.views[i];
            sums[(size_t)cluster->rank * views + i] = sum_of(ls_network_values(network, view), view->numbers);
        }
        if (ls_cluster_gather_each(cluster, &trainer->session->context, sums, views * sizeof *sums) == LS_OK)
            judge_replicas(trainer, sums);
    }
    ls_release(&trainer->session->context, sums);
    return ls_status_of(trainer->session);
}

/* ---- The shard ---- */

/* The pending shard of that number, over all parts. */
static void choose(verifying *v, const ls_network *network, int *shard)
{
    int shards = 0;
    for (int i = 0; i < network->n_pending; i++)
        shards += network->pending[i].feed->shards;
    *shard = (int)(v->trainer->verified++ % shards);
    int left = *shard;
    const ls_microbatch *part = network->pending;
    while (left >= part->feed->shards)
        left -= part++->feed->shards;
    ls_feed_locate(part->feed);
    v->feed = part->feed;
    v->shard = left;
}

/* Room for all ranks' sums, once it is known which devices they have. */
static ls_status reserve(verifying *v)
{
    ls_network *network = v->trainer->network;
    ls_context *context = &network->session->context;
    size_t ranks = (size_t)ls_cluster_ranks(network->session->options.cluster);
    v->devices = ls_alloc(context, ranks, sizeof *v->devices, "the ranks' devices");
    v->begin = ls_alloc(context, ranks + 1, sizeof *v->begin, "the ranks' devices");
    v->rows = ls_alloc(context, (size_t)network->devices.n * v->row, sizeof *v->rows, "what devices compute");
    if (ls_cluster_agree_error(network->session) != LS_OK ||
        ls_cluster_devices(network->session, &network->devices, v->devices) != LS_OK)
        return ls_status_of(network->session);
    for (size_t r = 0; r < ranks; r++)
        v->begin[r + 1] = v->begin[r] + (size_t)(v->devices[r].n * v->rounds) * v->width * sizeof *v->sums;
    v->sums = ls_alloc(context, v->begin[ranks], 1, "what devices compute");
    return ls_cluster_agree_error(network->session);
}

static void run_on_all(verifying *v)
{
    struct ls_trainer *trainer = v->trainer;
    for (trainer->n_free = 0; trainer->n_free < trainer->n_pool; trainer->n_free++)
        trainer->free_buffers[trainer->n_free] = trainer->n_free;
    pthread_mutex_init(&v->lock, NULL);
    pthread_cond_init(&v->changed, NULL);
    ls_engine_submit(trainer->network->engine, &v->job);
    ls_engine_wait_job(trainer->network->engine, &v->job);
    pthread_cond_destroy(&v->changed);
    pthread_mutex_destroy(&v->lock);
}

ls_status ls_trainer_verify(ls_trainer *trainer)
{
    LS_OWN_ENVIRONMENT;
    if (!trainer || ls_failed(trainer->session))
        return trainer ? ls_status_of(trainer->session) : LS_BAD_ARGUMENT;
    ls_network *network = trainer->network;
    ls_session *session = network->session;
    ls_cluster *cluster = session->options.cluster;
    if (ls_trainer_idle(trainer, "ls_trainer_verify") != LS_OK || compare_replicas(trainer) != LS_OK)
        return ls_status_of(session);
    verifying v = {.job = {.work = work},
                   .trainer = trainer,
                   .rounds = network->devices.n == 1 && ls_cluster_ranks(cluster) == 1 ? 2 : 1,
                   .row = network->flat.state + METRICS + (ls_network_on_cards(network) ? network->flat.trainable : 0),
                   .width = (size_t)network->flat.n_views + 1};
    int shard;
    choose(&v, network, &shard);
    if (reserve(&v) == LS_OK) {
        ls_network_publish(network);
        run_on_all(&v);
        if (!cluster || ls_cluster_gather(cluster, &session->context, v.sums, v.begin) == LS_OK)
            judge(&v, shard);
    }
    ls_release(&session->context, v.devices);
    ls_release(&session->context, v.begin);
    ls_release(&session->context, v.rows);
    ls_release(&session->context, v.sums);
    return ls_status_of(session);
}
