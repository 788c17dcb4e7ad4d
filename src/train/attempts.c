#include "train/attempts.h"

#include <math.h>
#include <string.h>

#include "base/timer.h"
#include "cluster/cluster.h"
#include "train/cohort.h"

enum { METRICS_ROOM = 16 /* floats: a cache line */, FAR_LONGER = 10 };
static const double forgets = 0.99; /* a hiccup, after some hundred shards */

ls_status ls_attempts_init(struct ls_trainer *trainer)
{
    ls_context *context = &trainer->session->context;
    ls_attempts *attempts = &trainer->attempts;
    size_t n = (size_t)trainer->network->engine->n_workers, row = trainer->network->flat.state + METRICS_ROOM;
    if (attempts->spares)
        return LS_OK;
    if (!attempts->at)
        attempts->at = ls_alloc(context, n, sizeof *attempts->at, "the workers' attempts");
    if (attempts->at && !attempts->rows)
        attempts->rows = ls_alloc(context, n * row, sizeof *attempts->rows, "the workers' statistics");
    if (attempts->rows)
        attempts->spares = ls_alloc(context, n, sizeof *attempts->spares, "the workers' attempts");
    if (!attempts->spares)
        return LS_OUT_OF_MEMORY;
    attempts->n = (int)n;
    for (size_t i = 0; i < n; i++) {
        attempts->at[i].row = attempts->rows + i * row;
        attempts->spares[i] = -1;
    }
    return LS_OK;
}

void ls_attempts_destroy(struct ls_trainer *trainer)
{
    ls_context *context = &trainer->session->context;
    ls_release(context, trainer->attempts.at);
    ls_release(context, trainer->attempts.rows);
    ls_release(context, trainer->attempts.spares);
}

/* ---- Buffers ---- */

static bool held(const ls_attempts *attempts, int buffer)
{
    for (int i = 0; i < attempts->n; i++)
        if (atomic_load(&attempts->at[i].step) && attempts->at[i].buffer == buffer)
            return true;
    return false;
}

/* A buffer that the step has not used yet; -1 without memory. There are as many as can be held by workers that are
 * late. */
static int take_spare(ls_step_job *step)
{
    struct ls_trainer *trainer = step->trainer;
    ls_attempts *attempts = &trainer->attempts;
    int i = 0;
    while (i < attempts->n && (attempts->spares[i] == step->before || held(attempts, trainer->pool_capacity + i)))
        i++;
    if (i == attempts->n)
        return -1;
    float **spare = &trainer->pool[trainer->pool_capacity + i];
    if (!*spare)
        *spare = ls_executor_alloc(trainer->network->master, trainer->network->flat.trainable, sizeof **spare,
                                   "a partial gradient");
    if (!*spare)
        return -1;
    attempts->spares[i] = step->before;
    return trainer->pool_capacity + i;
}

bool ls_attempts_free_buffers(ls_step_job *step, void (*freed)(void *user, int buffer), void *user)
{
    struct ls_trainer *trainer = step->trainer;
    bool all = true;
    for (int i = 0; i < trainer->n_pool; i++) {
        int buffer = held(&trainer->attempts, i) ? take_spare(step) : i;
        all &= buffer >= 0;
        if (buffer >= 0)
            freed(user, buffer);
    }
    return all;
}

/* ---- Attempts ---- */

void ls_attempt_begin(ls_step_job *step, ls_attempt *t, int shard, int buffer)
{
    t->shard = shard;
    t->buffer = buffer;
    t->began = ls_seconds();
    atomic_store(&t->over, false);
    atomic_store(&t->step, step);
}

/* A shard's, of the step. */
static ls_attempt_rows rows_of(const ls_step_job *step, int shard)
{
    return (ls_attempt_rows){step->results.statistics + (size_t)shard * step->trainer->network->flat.state,
                             step->results.metrics + (size_t)shard * LS_METRICS};
}

ls_attempt_rows ls_attempt_rows_of(const ls_step_job *step, const ls_attempt *t)
{
    const ls_network *network = step->trainer->network;
    if (ls_cohorts_are_on(step) || (ls_network_master_on_card(network) && !ls_network_gathers(network)))
        return rows_of(step, t->shard);
    return (ls_attempt_rows){t->row, t->row + network->flat.state};
}

static bool unfinished(const ls_step_job *step, const ls_attempt *t)
{
    return atomic_load(&t->step) == step &&
           step->gradients.tree.state[step->gradients.tree.size + t->shard] == LS_NODE_RUNNING;
}

ls_attempt *ls_attempt_late(const ls_step_job *step)
{
    ls_attempts *attempts = &step->trainer->attempts;
    double patience = fmax(step->trainer->session->patience, FAR_LONGER * atomic_load(&attempts->longest)),
           now = ls_seconds();
    bool alone = ls_cluster_ranks(step->trainer->session->options.cluster) == 1;
    if (ls_cohorts_are_on(step)) /* the others of a shard's cohort wait for it */
        return NULL;
    for (ls_attempt *t = attempts->at; t < attempts->at + attempts->n; t++)
        if (unfinished(step, t) && now - t->began > patience && (alone || step->gradients.filled[t->shard] == 0))
            return t;
    return NULL;
}

bool ls_attempt_stand_in(ls_step_job *step, ls_attempt *own, ls_attempt *late)
{
    ls_attempts *attempts = &step->trainer->attempts;
    const bool lost = isinf(late->began);
    const int buffer = lost ? late->buffer : take_spare(step);
    for (ls_attempt *t = attempts->at; t < attempts->at + attempts->n; t++)
        if (unfinished(step, t) && t->shard == late->shard)
            t->began = ls_seconds(); /* nobody else for now; and this one may be late in its turn */
    if (lost)
        atomic_store(&late->step, NULL);
    if (buffer >= 0)
        ls_attempt_begin(step, own, late->shard, buffer);
    return buffer >= 0;
}

bool ls_attempt_fills(ls_step_job *step, const ls_attempt *t)
{
    if (atomic_load(&t->over) || step->gradients.tree.buffer[step->gradients.tree.size + t->shard] != t->buffer)
        return false;
    step->gradients.filled[t->shard]++;
    return true;
}

void ls_attempt_put_aside(ls_attempt *t)
{
    atomic_store(&t->step, NULL);
}

void ls_attempt_lose(ls_step_job *step, ls_attempt *t)
{
    const ls_attempts *attempts = &step->trainer->attempts;
    bool needed = unfinished(step, t);
    for (const ls_attempt *other = attempts->at; other < attempts->at + attempts->n; other++)
        needed &= other == t || !unfinished(step, other) || other->shard != t->shard;
    t->began = -INFINITY;
    if (!needed)
        atomic_store(&t->step, NULL);
}

bool ls_attempt_finish(ls_step_job *step, ls_attempt *t, int *bucket)
{
    ls_attempts *attempts = &step->trainer->attempts;
    int leaf = step->gradients.tree.size + t->shard;
    size_t state = step->trainer->network->flat.state;
    bool first = unfinished(step, t);
    if (first) {
        ls_attempt_rows from = ls_attempt_rows_of(step, t), to = rows_of(step, t->shard);
        if (from.statistics != to.statistics) {
            memcpy(to.statistics, from.statistics, state * sizeof(float));
            memcpy(to.metrics, from.metrics, LS_METRICS * sizeof(float));
        }
        step->gradients.tree.buffer[leaf] = t->buffer;
        step->gradients.tree.state[leaf] = LS_NODE_DONE;
        *bucket = step->gradients.filled[t->shard];
        atomic_store(&attempts->longest, fmax(forgets * atomic_load(&attempts->longest), ls_seconds() - t->began));
        for (ls_attempt *other = attempts->at; other < attempts->at + attempts->n; other++)
            if (other != t && atomic_load(&other->step) == step && other->shard == t->shard)
                atomic_store(&other->over, true);
    }
    atomic_store(&t->step, NULL);
    return first;
}
