/* Whether the devices agree: one shard computed by each of them, and compared. */
#include <stdio.h>
#include <string.h>

#include "parallel/step.h"
#include "parallel/trainer.h"

typedef struct verifying {
    ls_job job;
    struct ls_trainer *trainer;
    const ls_feed *feed;
    int shard;            /* of the feed */
    int rounds;           /* a single device computes twice */
    size_t row;           /* floats of one device's statistics and metrics */
    float *rows;          /* [workers][row] */
    uint64_t *sums;       /* [workers][rounds][views + 1]: of each tensor, and of the loss */
    pthread_mutex_t lock; /* guards the trainer's free buffers */
    pthread_cond_t changed;
} verifying;

/* Each number changes the sum to another whatever it was, so that sums of two runs which differ in one number differ. */
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

static void run_once(verifying *v, ls_core *core, float *row, uint64_t *sums)
{
    const ls_network *network = v->trainer->network;
    const ls_flat *flat = &network->flat;
    int buffer = take_buffer(v);
    const float *gradient = v->trainer->pool[buffer];
    ls_bindings bindings = {.base = {[LS_IN_METRICS] = row + flat->state,
                                     [LS_IN_STATISTICS] = row,
                                     [LS_IN_GRADIENTS] = v->trainer->pool[buffer]}};
    ls_network_bind(network, &bindings);
    ls_feed_run(v->feed, v->shard, core, &bindings, (uint64_t)v->trainer->updates, NULL, NULL);
    for (int i = 0; i < flat->n_views; i++) {
        const ls_view *view = &flat->views[i];
        sums[i] = sum_of((view->trainable ? gradient : row) + view->offset, view->numbers);
    }
    sums[flat->n_views] = sum_of(row + flat->state, LS_METRICS);
    give_buffer(v, buffer);
}

static void work(ls_job *job, ls_worker *worker)
{
    verifying *v = (verifying *)job;
    size_t i = (size_t)(worker - worker->engine->workers), views = (size_t)v->trainer->network->flat.n_views + 1;
    ls_core_enter(worker->core);
    for (int round = 0; round < v->rounds; round++)
        run_once(v, worker->core, v->rows + i * v->row, v->sums + (i * (size_t)v->rounds + (size_t)round) * views);
    ls_core_leave(worker->core);
}

/* ---- The verdict ---- */

/* A device that has failed computed nothing. */
static bool computed(const verifying *v, int i)
{
    return !atomic_load(&v->trainer->network->engine->workers[i / v->rounds].lost);
}

/* How many of the n runs have the sums of run i. */
static int agreeing(const uint64_t *sums, int n, size_t views, int i)
{
    int agree = 0;
    for (int k = 0; k < n; k++)
        agree += memcmp(sums + (size_t)k * views, sums + (size_t)i * views, views * sizeof *sums) == 0;
    return agree;
}

static ls_status raise_difference(const verifying *v, int shard, int best, int other, int agree)
{
    const ls_network *network = v->trainer->network;
    size_t views = (size_t)network->flat.n_views + 1, at = 0;
    const uint64_t *a = v->sums + (size_t)best * views, *b = v->sums + (size_t)other * views;
    while (a[at] == b[at])
        at++;
    bool loss = at + 1 == views, trainable = !loss && network->flat.views[at].trainable;
    const char *kind = loss        ? "the loss"
                       : trainable ? "the gradient of "
                                   : "the statistics ",
               *name = loss ? "" : network->flat.views[at].name;
    char who[256];
    const ls_device *devices = network->devices.at;
    int n = network->devices.n;
    if (n == 1)
        snprintf(who, sizeof who, "cpu(%d) computes other bits the second time", devices[0].index);
    else if (2 * agree > n)
        snprintf(who, sizeof who, "cpu(%d) computes other bits than %d of the %d devices", devices[other].index, agree,
                 n);
    else
        snprintf(who, sizeof who, "cpu(%d) and cpu(%d) compute different bits", devices[best].index,
                 devices[other].index);
    return ls_raise(&network->session->context, LS_DIFFERS,
                    "ls_verify: step %lld, shard %d: %s, first in %s%s; leave it out, and have the machine looked at",
                    (long long)v->trainer->updates + 1, shard, who, kind, name);
}

static ls_status judge(const verifying *v, int shard)
{
    int n = v->trainer->network->devices.n * v->rounds, best = -1, most = 0;
    size_t views = (size_t)v->trainer->network->flat.n_views + 1;
    for (int i = 0; i < n; i++) {
        int agree = computed(v, i) ? agreeing(v->sums, n, views, i) : 0;
        if (agree > most) {
            most = agree;
            best = i;
        }
    }
    for (int i = 0; i < n; i++)
        if (computed(v, i) &&
            memcmp(v->sums + (size_t)i * views, v->sums + (size_t)best * views, views * sizeof *v->sums) != 0)
            return raise_difference(v, shard, best, i, most);
    return LS_OK;
}

/* The pending shard of that number, over all parts. */
static void choose(verifying *v, const ls_network *network, int *shard)
{
    int shards = 0;
    for (int i = 0; i < network->n_pending; i++)
        shards += network->pending[i].feed->shards;
    *shard = (int)(v->trainer->verified++ % shards);
    int left = *shard;
    const ls_share *part = network->pending;
    while (left >= part->feed->shards)
        left -= part++->feed->shards;
    ls_feed_locate(part->feed);
    v->feed = part->feed;
    v->shard = left;
}

ls_status ls_verify(ls_trainer *trainer)
{
    if (!trainer || ls_failed(trainer->session))
        return trainer ? ls_status_of(trainer->session) : LS_BAD_ARGUMENT;
    ls_network *network = trainer->network;
    ls_context *context = &network->session->context;
    if (ls_trainer_idle(trainer, "ls_verify") != LS_OK)
        return ls_status_of(network->session);
    size_t workers = (size_t)network->devices.n;
    verifying v = {
        .job = {.work = work}, .trainer = trainer, .rounds = workers == 1 ? 2 : 1, .row = network->flat.state + 16};
    int shard;
    choose(&v, network, &shard);
    v.rows = ls_alloc(context, workers * v.row, sizeof *v.rows, "what devices compute");
    v.sums = ls_alloc(context, workers * (size_t)v.rounds * ((size_t)network->flat.n_views + 1), sizeof *v.sums,
                      "what devices compute");
    if (v.rows && v.sums) {
        trainer->n_free = 0;
        while (trainer->n_free < trainer->n_pool) {
            trainer->free_buffers[trainer->n_free] = trainer->n_free;
            trainer->n_free++;
        }
        pthread_mutex_init(&v.lock, NULL);
        pthread_cond_init(&v.changed, NULL);
        ls_engine_submit(network->engine, &v.job);
        ls_engine_wait_job(network->engine, &v.job);
        pthread_cond_destroy(&v.changed);
        pthread_mutex_destroy(&v.lock);
        judge(&v, shard);
    }
    ls_release(context, v.rows);
    ls_release(context, v.sums);
    return ls_status_of(network->session);
}
