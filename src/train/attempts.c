#include "train/attempts.h"

#include <math.h>
#include <string.h>

#include "base/timer.h"
#include "cluster/cluster.h"
#include "model/replica.h"

enum { METRICS_ROOM = 16 /* floats: a cache line */, FAR_LONGER = 10 };
static const double forgets = 0.99; /* a hiccup, after some hundred shards */

size_t ls_attempt_row_floats(const ls_network *network)
{
    return network->flat.state + METRICS_ROOM;
}

ls_status ls_attempts_init(struct ls_trainer *trainer)
{
    ls_context *context = &trainer->session->context;
    ls_attempts *attempts = &trainer->attempts;
    const size_t n = (size_t)trainer->network->engine->n_workers, row = ls_attempt_row_floats(trainer->network);
    if (attempts->spare_rooms)
        return LS_OK;
    if (!attempts->at)
        attempts->at = ls_alloc(context, n, sizeof *attempts->at, "the workers' attempts");
    if (attempts->at && !attempts->rows)
        attempts->rows = ls_alloc(context, n * row, sizeof *attempts->rows, "the workers' statistics");
    if (attempts->rows && !attempts->spares)
        attempts->spares = ls_alloc(context, n, sizeof *attempts->spares, "the workers' attempts");
    if (attempts->spares)
        attempts->spare_rooms = ls_alloc(context, n, sizeof *attempts->spare_rooms, "the workers' attempts");
    if (!attempts->spare_rooms)
        return LS_OUT_OF_MEMORY;
    attempts->n = (int)n;
    for (size_t i = 0; i < n; i++) {
        attempts->at[i].row = attempts->rows + i * row;
        attempts->spares[i] = attempts->spare_rooms[i] = -1;
    }
    return LS_OK;
}

void ls_attempts_destroy(struct ls_trainer *trainer)
{
    ls_context *context = &trainer->session->context;
    ls_release(context, trainer->attempts.at);
    ls_release(context, trainer->attempts.rows);
    ls_release(context, trainer->attempts.spares);
    ls_release(context, trainer->attempts.spare_rooms);
}

/* ---- Buffers and rooms ---- */

typedef enum kept { BUFFER, ROOM } kept;

static bool held(const ls_attempts *attempts, kept what, int number)
{
    for (const ls_attempt *t = attempts->at; t < attempts->at + attempts->n; t++)
        if (atomic_load(&t->step) && (what == ROOM ? t->room : t->buffer) == number)
            return true;
    return false;
}

/* The copy of the network in whose memory a room is; NULL: the master copy. */
static const ls_replica *copy_of(const struct ls_trainer *trainer, int room)
{
    const int memory = ls_memory_of_room(&trainer->rooms, room);
    return memory ? &trainer->network->replicas[memory - 1] : NULL;
}

static ls_executor *executor_of(const struct ls_trainer *trainer, int room)
{
    const ls_replica *copy = copy_of(trainer, room);
    return copy ? copy->turn->executor : trainer->network->master;
}

static bool furnish(float **at, ls_executor *executor, size_t floats)
{
    if (!*at)
        *at = ls_executor_alloc(executor, floats + 1, sizeof(float), "a shard's room");
    return *at != NULL;
}

/* Gives a room memory where it has none yet; the lock is held, or no step is under way. */
static bool furnish_room(struct ls_trainer *trainer, int room)
{
    const ls_shard_rooms *rooms = &trainer->rooms;
    ls_executor *executor = executor_of(trainer, room);
    ls_context *context = &trainer->session->context;
    const size_t row = ls_attempt_row_floats(trainer->network);
    ls_shard_room *r = &rooms->at[room];
    if (!furnish(&r->arena, executor, rooms->floats) || !furnish(&r->sums, executor, rooms->sums_floats))
        return false;
    if (!r->row)
        r->row = ls_alloc(context, row, sizeof(float), "a shard's room");
    if (!r->row || !executor->memory)
        return r->row != NULL;
    if (!r->sums_here)
        r->sums_here = ls_alloc(context, rooms->sums_floats, sizeof(float), "a shard's room");
    return r->sums_here && furnish(&r->totals, executor, rooms->sums_floats) && furnish(&r->row_there, executor, row) &&
           (!copy_of(trainer, room) || furnish(&r->gradient, executor, trainer->network->flat.trainable));
}

static void clear_room(struct ls_trainer *trainer, int room)
{
    ls_executor *executor = executor_of(trainer, room);
    ls_context *context = &trainer->session->context;
    ls_shard_room *r = &trainer->rooms.at[room];
    ls_executor_release(executor, r->arena);
    ls_executor_release(executor, r->sums);
    ls_executor_release(executor, r->totals);
    ls_executor_release(executor, r->row_there);
    ls_executor_release(executor, r->gradient);
    ls_release(context, r->row);
    ls_release(context, r->sums_here);
}

/* Whether the device with that memory has failed, so that it has no rooms. */
static bool memory_is_lost(const struct ls_trainer *trainer, int room)
{
    const ls_engine *engine = trainer->network->engine;
    const ls_replica *copy = copy_of(trainer, room);
    bool lost = false;
    for (const ls_worker *worker = engine->workers; copy && worker < engine->workers + engine->n_workers; worker++)
        lost |= worker->turn == copy->turn && atomic_load(&worker->lost);
    return lost;
}

void ls_attempts_release_rooms(struct ls_trainer *trainer)
{
    ls_shard_rooms *rooms = &trainer->rooms;
    for (int i = 0; rooms->n && i < rooms->n + trainer->attempts.n; i++)
        clear_room(trainer, i);
    ls_release(&trainer->session->context, rooms->at);
    ls_release(&trainer->session->context, rooms->free);
    *rooms = (ls_shard_rooms){.n = 0};
}

ls_status ls_attempts_make_rooms(struct ls_trainer *trainer, const ls_shard_rooms *needed)
{
    ls_context *context = &trainer->session->context;
    const size_t n = (size_t)needed->n;
    ls_attempts_release_rooms(trainer);
    ls_shard_room *at = ls_alloc(context, n + (size_t)trainer->attempts.n, sizeof *at, "the shards' rooms");
    int *list = at ? ls_alloc(context, n, sizeof *list, "the shards' rooms") : NULL;
    if (!list) {
        ls_release(context, at);
        return ls_status_of(trainer->session);
    }
    trainer->rooms = *needed;
    trainer->rooms.at = at;
    trainer->rooms.free = list;
    for (int i = 0; i < needed->n; i++)
        if (!memory_is_lost(trainer, i) && !furnish_room(trainer, i)) {
            ls_attempts_release_rooms(trainer);
            return ls_status_of(trainer->session);
        }
    return LS_OK;
}

static bool has_memory(struct ls_trainer *trainer, kept what, int number)
{
    if (what == ROOM)
        return furnish_room(trainer, number);
    if (!trainer->pool[number])
        trainer->pool[number] = ls_executor_alloc(trainer->network->master, trainer->network->flat.trainable,
                                                  sizeof(float), "a partial gradient");
    return trainer->pool[number] != NULL;
}

/* One that the step has not used yet; -1 without memory. There are as many as can be held by workers that are late. */
static int take_spare(ls_step_job *step, kept what)
{
    struct ls_trainer *trainer = step->trainer;
    ls_attempts *attempts = &trainer->attempts;
    int64_t *used = what == ROOM ? attempts->spare_rooms : attempts->spares;
    const int first = what == ROOM ? trainer->rooms.n : trainer->pool_capacity;
    int i = 0;
    while (i < attempts->n && (used[i] == step->before || held(attempts, what, first + i)))
        i++;
    if (i == attempts->n || !has_memory(trainer, what, first + i))
        return -1;
    used[i] = step->before;
    return first + i;
}

/* Those from the first on, so many, but in place of one that is held another. */
static bool list_free(ls_step_job *step, kept what, int first, int n, int *list, int *listed)
{
    *listed = 0;
    for (int i = first; i < first + n; i++) {
        const int number = held(&step->trainer->attempts, what, i) ? take_spare(step, what) : i;
        if (number >= 0)
            list[(*listed)++] = number;
    }
    return *listed == n;
}

bool ls_attempts_free_all(ls_step_job *step)
{
    struct ls_trainer *trainer = step->trainer;
    ls_shard_rooms *rooms = &trainer->rooms;
    bool all = list_free(step, BUFFER, 0, trainer->n_pool, trainer->free_buffers, &trainer->n_free);
    for (int first = 0, memory = 0; step->cohorts.n && first < rooms->n; first += rooms->each, memory++)
        all &= list_free(step, ROOM, first, memory_is_lost(trainer, first) ? 0 : rooms->each, rooms->free + first,
                         &rooms->n_free[memory]);
    return all;
}

/* ---- Attempts ---- */

void ls_attempt_begin(ls_step_job *step, ls_attempt *t, int shard, int buffer, int room)
{
    t->shard = shard;
    t->buffer = buffer;
    t->room = room;
    t->passed = room < 0 ? 0 : step->cohorts.shards[shard].passed;
    t->anew = t->contested = false;
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
    if (t->room < 0 && ls_network_master_on_card(network) && !ls_network_gathers(network))
        return rows_of(step, t->shard);
    float *row = t->room < 0 ? t->row : step->trainer->rooms.at[t->room].row;
    return (ls_attempt_rows){row, row + network->flat.state};
}

static bool unfinished(const ls_step_job *step, const ls_attempt *t)
{
    return atomic_load(&t->step) == step && !atomic_load(&t->over) &&
           step->gradients.tree.state[step->gradients.tree.size + t->shard] == LS_NODE_RUNNING;
}

/* How often it goes from a meeting to the next one. */
static int stretches(const ls_attempt *t)
{
    return t->anew ? t->passed + 1 : 1;
}

/* No other rank trains with this one. */
static bool is_alone(const ls_step_job *step)
{
    return ls_cluster_ranks(step->trainer->session->options.cluster) == 1;
}

ls_attempt *ls_attempt_late(const ls_step_job *step)
{
    ls_attempts *attempts = &step->trainer->attempts;
    const double patience = step->trainer->session->patience, longer = FAR_LONGER * atomic_load(&attempts->longest),
                 now = ls_seconds();
    const bool alone = is_alone(step), on_cards = ls_network_on_cards(step->trainer->network);
    for (ls_attempt *t = attempts->at; t < attempts->at + attempts->n; t++)
        if (unfinished(step, t) && !(t->room >= 0 && on_cards) &&
            now - t->began > fmax(patience, longer * stretches(t)) && (alone || step->gradients.filled[t->shard] == 0))
            return t;
    return NULL;
}

bool ls_attempt_stand_in(ls_step_job *step, ls_attempt *own)
{
    ls_attempts *attempts = &step->trainer->attempts;
    ls_attempt *late = ls_attempt_late(step);
    if (!late)
        return false;
    const bool lost = isinf(late->began);
    const int buffer = lost ? late->buffer : take_spare(step, BUFFER),
              room = lost || late->room < 0 ? late->room : take_spare(step, ROOM);
    const bool begins = buffer >= 0 && (room >= 0 || late->room < 0);
    for (ls_attempt *t = attempts->at; t < attempts->at + attempts->n; t++)
        if (unfinished(step, t) && t->shard == late->shard) {
            t->began = ls_seconds(); /* nobody else for now; and this one may be late in its turn */
            t->contested = true;
        }
    if (lost)
        atomic_store(&late->step, NULL);
    if (begins) {
        ls_attempt_begin(step, own, late->shard, buffer, room);
        own->anew = own->contested = true;
    }
    return begins;
}

bool ls_attempt_fills(ls_step_job *step, const ls_attempt *t)
{
    if (t->contested && !is_alone(step)) /* all count when the first of them comes to its end */
        return false;
    if (atomic_load(&t->over) || step->gradients.tree.buffer[step->gradients.tree.size + t->shard] != t->buffer)
        return false;
    step->gradients.filled[t->shard]++;
    return true;
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

/* Whether it comes first where all attempts at the shard end; then its buffer is the shard's. */
static bool comes_first(ls_step_job *step, const ls_attempt *t)
{
    ls_attempts *attempts = &step->trainer->attempts;
    if (!unfinished(step, t))
        return false;
    step->gradients.tree.buffer[step->gradients.tree.size + t->shard] = t->buffer;
    atomic_store(&attempts->longest,
                 fmax(forgets * atomic_load(&attempts->longest), (ls_seconds() - t->began) / stretches(t)));
    for (ls_attempt *other = attempts->at; other < attempts->at + attempts->n; other++)
        if (other != t && atomic_load(&other->step) == step && other->shard == t->shard)
            atomic_store(&other->over, true);
    return true;
}

bool ls_attempt_put_aside(ls_step_job *step, ls_attempt *t)
{
    const bool first = comes_first(step, t);
    atomic_store(&t->step, NULL);
    return first;
}

bool ls_attempt_finish(ls_step_job *step, ls_attempt *t)
{
    const size_t state = step->trainer->network->flat.state;
    const bool first = comes_first(step, t);
    if (first) {
        ls_attempt_rows from = ls_attempt_rows_of(step, t), to = rows_of(step, t->shard);
        if (from.statistics != to.statistics) {
            memcpy(to.statistics, from.statistics, state * sizeof(float));
            memcpy(to.metrics, from.metrics, LS_METRICS * sizeof(float));
        }
        step->gradients.tree.state[step->gradients.tree.size + t->shard] = LS_NODE_DONE;
    }
    atomic_store(&t->step, NULL);
    return first;
}
