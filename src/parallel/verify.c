/* Whether the devices agree: one shard computed by each of them, and compared. */
#include <stdio.h>
#include <string.h>

#include "parallel/step.h"
#include "parallel/trainer.h"

enum { METRICS = 16 }; /* floats in front of what follows the metrics */

typedef struct verifying {
    ls_job job;
    struct ls_trainer *trainer;
    const ls_feed *feed;
    int shard;      /* of the feed */
    int rounds;     /* a single device computes twice */
    size_t row;     /* floats of one device's statistics and metrics, and its gradient where that is not the host's */
    float *rows;    /* [workers][row] */
    uint64_t *sums; /* [workers][rounds][views + 1]: of each tensor, and of the loss */
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
    ls_unit *unit = core->unit;
    int buffer = take_buffer(v);
    float *computed = v->trainer->pool[buffer];
    float *gradient = ls_network_apart(network) ? row + flat->state + METRICS : computed;
    ls_bindings bindings = {.base = {[LS_IN_METRICS] = unit->type->lend(unit, row + flat->state, LS_METRICS),
                                     [LS_IN_STATISTICS] = unit->type->lend(unit, row, flat->state),
                                     [LS_IN_GRADIENTS] = computed}};
    ls_network_bind(network, &bindings);
    ls_feed_run(v->feed, v->shard, core, &bindings, (uint64_t)v->trainer->updates, NULL, NULL);
    unit->type->get(unit, gradient, computed, flat->trainable * sizeof *gradient);
    if (ls_unit_finish(unit, NULL) != LS_OK)
        atomic_store(&network->session->broken, true);
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

/* How many of the n runs have the sums of run i. */
static int agreeing(const uint64_t *sums, int n, size_t views, int i)
{
    int agree = 0;
    for (int k = 0; k < n; k++)
        agree += memcmp(sums + (size_t)k * views, sums + (size_t)i * views, views * sizeof *sums) == 0;
    return agree;
}

static const char *name_of(const ls_network *network, int device)
{
    return ls_device_str(network->session, network->devices.at[device]);
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
    int n = network->devices.n;
    if (n == 1)
        snprintf(who, sizeof who, "%s computes other bits the second time", name_of(network, 0));
    else if (2 * agree > n)
        snprintf(who, sizeof who, "%s computes other bits than %d of the %d devices", name_of(network, other), agree,
                 n);
    else
        snprintf(who, sizeof who, "%s and %s compute different bits", name_of(network, best), name_of(network, other));
    return ls_raise(&network->session->context, LS_DIFFERS,
                    "ls_verify: step %lld, shard %d: %s, first in %s%s; leave it out, and have the machine looked at",
                    (long long)v->trainer->updates + 1, shard, who, kind, name);
}

static ls_status judge(const verifying *v, int shard)
{
    int n = v->trainer->network->devices.n * v->rounds, best = 0, most = 0;
    size_t views = (size_t)v->trainer->network->flat.n_views + 1;
    for (int i = 0; i < n; i++) {
        int agree = agreeing(v->sums, n, views, i);
        if (agree > most) {
            most = agree;
            best = i;
        }
    }
    for (int i = 0; i < n; i++)
        if (memcmp(v->sums + (size_t)i * views, v->sums + (size_t)best * views, views * sizeof *v->sums) != 0)
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
    verifying v = {.job = {.work = work}, .trainer = trainer, .rounds = workers == 1 ? 2 : 1};
    v.row = network->flat.state + METRICS + (ls_network_apart(network) ? network->flat.trainable : 0);
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
        ls_network_publish(network);
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
