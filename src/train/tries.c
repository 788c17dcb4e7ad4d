#include "train/tries.h"

#include <math.h>
#include <string.h>

#include "base/timer.h"
#include "cluster/cluster.h"

enum { METRICS_ROOM = 16 /* floats: a cache line */, FAR_LONGER = 10 };
static const double forgets = 0.99; /* a hiccup, after some hundred shards */

ls_status ls_tries_init(struct ls_trainer *trainer)
{
    ls_context *context = &trainer->session->context;
    ls_tries *tries = &trainer->tries;
    size_t n = (size_t)trainer->network->engine->n_workers, row = trainer->network->flat.state + METRICS_ROOM;
    if (tries->spares)
        return LS_OK;
    if (!tries->at)
        tries->at = ls_alloc(context, n, sizeof *tries->at, "the workers' tries");
    if (tries->at && !tries->rows)
        tries->rows = ls_alloc(context, n * row, sizeof *tries->rows, "the workers' statistics");
    if (tries->rows)
        tries->spares = ls_alloc(context, n, sizeof *tries->spares, "the workers' tries");
    if (!tries->spares)
        return LS_OUT_OF_MEMORY;
    tries->n = (int)n;
    for (size_t i = 0; i < n; i++) {
        tries->at[i].row = tries->rows + i * row;
        tries->spares[i] = -1;
    }
    return LS_OK;
}

void ls_tries_destroy(struct ls_trainer *trainer)
{
    ls_context *context = &trainer->session->context;
    ls_release(context, trainer->tries.at);
    ls_release(context, trainer->tries.rows);
    ls_release(context, trainer->tries.spares);
}

/* ---- Buffers ---- */

static bool held(const ls_tries *tries, int buffer)
{
    for (int i = 0; i < tries->n; i++)
        if (atomic_load(&tries->at[i].step) && tries->at[i].buffer == buffer)
            return true;
    return false;
}

/* A buffer that the step has not used yet; -1 without memory. There are as many as can be held by workers that are
 * late. */
static int take_spare(ls_step_job *step)
{
    struct ls_trainer *trainer = step->trainer;
    ls_tries *tries = &trainer->tries;
    int i = 0;
    while (i < tries->n && (tries->spares[i] == step->turn || held(tries, trainer->pool_capacity + i)))
        i++;
    if (i == tries->n)
        return -1;
    float **spare = &trainer->pool[trainer->pool_capacity + i];
    if (!*spare)
        *spare = ls_unit_alloc(trainer->network->master, trainer->network->flat.trainable, sizeof **spare,
                               "a partial gradient");
    if (!*spare)
        return -1;
    tries->spares[i] = step->turn;
    return trainer->pool_capacity + i;
}

bool ls_tries_free_buffers(ls_step_job *step, void (*freed)(void *user, int buffer), void *user)
{
    struct ls_trainer *trainer = step->trainer;
    bool all = true;
    for (int i = 0; i < trainer->n_pool; i++) {
        int buffer = held(&trainer->tries, i) ? take_spare(step) : i;
        all &= buffer >= 0;
        if (buffer >= 0)
            freed(user, buffer);
    }
    return all;
}

/* ---- Tries ---- */

void ls_try_begin(ls_step_job *step, ls_try *t, int shard, int buffer)
{
    t->shard = shard;
    t->buffer = buffer;
    t->began = ls_seconds();
    atomic_store(&t->over, false);
    atomic_store(&t->step, step);
}

/* A shard's, of the step. */
static ls_try_rows rows_of(const ls_step_job *step, int shard)
{
    return (ls_try_rows){step->statistics + (size_t)shard * step->trainer->network->flat.state,
                         step->metrics + (size_t)shard * LS_METRICS};
}

ls_try_rows ls_try_rows_of(const ls_step_job *step, const ls_try *t)
{
    const ls_network *network = step->trainer->network;
    if (ls_network_apart(network) && !ls_network_gathers(network))
        return rows_of(step, t->shard);
    return (ls_try_rows){t->row, t->row + network->flat.state};
}

static bool unfinished(const ls_step_job *step, const ls_try *t)
{
    return atomic_load(&t->step) == step && step->tree.state[step->tree.size + t->shard] == LS_NODE_RUNNING;
}

ls_try *ls_try_late(const ls_step_job *step)
{
    ls_tries *tries = &step->trainer->tries;
    double patience = fmax(step->trainer->session->patience, FAR_LONGER * atomic_load(&tries->longest)),
           now = ls_seconds();
    bool alone = ls_cluster_ranks(step->trainer->session->options.cluster) == 1;
    for (ls_try *t = tries->at; t < tries->at + tries->n; t++)
        if (unfinished(step, t) && now - t->began > patience && (alone || step->filled[t->shard] == 0))
            return t;
    return NULL;
}

bool ls_try_stand_in(ls_step_job *step, ls_try *own, const ls_try *late)
{
    ls_tries *tries = &step->trainer->tries;
    int buffer = take_spare(step);
    for (ls_try *t = tries->at; t < tries->at + tries->n; t++)
        if (unfinished(step, t) && t->shard == late->shard)
            t->began = ls_seconds(); /* nobody else for now; and this one may be late in its turn */
    if (buffer >= 0)
        ls_try_begin(step, own, late->shard, buffer);
    return buffer >= 0;
}

bool ls_try_fills(ls_step_job *step, const ls_try *t)
{
    if (atomic_load(&t->over) || step->tree.buffer[step->tree.size + t->shard] != t->buffer)
        return false;
    step->filled[t->shard]++;
    return true;
}

void ls_try_lose(ls_step_job *step, ls_try *t)
{
    t->lost = true;
    t->began = -INFINITY;
    if (!unfinished(step, t))
        atomic_store(&t->step, NULL);
}

bool ls_try_finish(ls_step_job *step, ls_try *t, int *bucket)
{
    ls_tries *tries = &step->trainer->tries;
    int leaf = step->tree.size + t->shard;
    size_t state = step->trainer->network->flat.state;
    bool first = unfinished(step, t);
    if (first) {
        ls_try_rows from = ls_try_rows_of(step, t), to = rows_of(step, t->shard);
        if (from.statistics != to.statistics) {
            memcpy(to.statistics, from.statistics, state * sizeof(float));
            memcpy(to.metrics, from.metrics, LS_METRICS * sizeof(float));
        }
        step->tree.buffer[leaf] = t->buffer;
        step->tree.state[leaf] = LS_NODE_DONE;
        *bucket = step->filled[t->shard];
        atomic_store(&tries->longest, fmax(forgets * atomic_load(&tries->longest), ls_seconds() - t->began));
        for (ls_try *other = tries->at; other < tries->at + tries->n; other++)
            if (other != t && atomic_load(&other->step) == step && other->shard == t->shard) {
                atomic_store(&other->over, true);
                if (other->lost)
                    atomic_store(&other->step, NULL);
            }
    }
    atomic_store(&t->step, NULL);
    return first;
}
