#include "parallel/exchange.h"

#include <string.h>

#include "cluster/cluster.h"

static ls_cluster *cluster_of(const ls_step_job *step)
{
    return step->trainer->session->options.cluster;
}

static int own_nodes(const ls_step_job *step)
{
    return step->runs.first_node[step->rank + 1] - step->runs.first_node[step->rank];
}

static int other_nodes(const ls_step_job *step)
{
    return step->runs.first_node[step->runs.ranks] - own_nodes(step);
}

static ls_bucket piece(const ls_step_job *step, int bucket, int rank)
{
    return ls_piece_of(&step->trainer->network->flat.buckets[bucket], rank, step->runs.ranks);
}

/* Floats of this rank's pieces in the buckets before. */
static size_t pieces_before(const ls_step_job *step, int bucket)
{
    size_t floats = 0;
    for (int b = 0; b < bucket; b++) {
        ls_bucket mine = piece(step, b, step->rank);
        floats += mine.end - mine.begin;
    }
    return floats;
}

/* Received sums lie bucket after bucket, in each the other ranks' nodes one after another, each as long as the piece. */
static float *rows_of(const ls_step_job *step, int bucket)
{
    return step->trainer->rows + (size_t)other_nodes(step) * pieces_before(step, bucket);
}

/* Transfers of one bucket, and those of the step's end: sums or statistics of nodes, and for each rank weights or two messages. */
static int slots_of(const ls_step_job *step)
{
    return own_nodes(step) * (step->runs.ranks - 1) + other_nodes(step) + 4 * step->runs.ranks;
}

/* Steps of two networks would meet on the wire: the others' are waited for, on all ranks at the same place. */
static void take_wire(ls_cluster *cluster, struct ls_trainer *trainer)
{
    if (cluster->stepping && cluster->stepping != trainer)
        ls_engine_wait(cluster->stepping->network->engine);
    cluster->stepping = trainer;
}

ls_status ls_exchange_reserve(ls_step_job *step)
{
    struct ls_trainer *trainer = step->trainer;
    ls_network *network = trainer->network;
    ls_context *context = &network->session->context;
    ls_cluster *cluster = cluster_of(step);
    step->rank = ls_cluster_rank(cluster);
    if (ls_runs_reserve(&step->runs, context, ls_cluster_ranks(cluster), step->shards) != LS_OK)
        return LS_OUT_OF_MEMORY;
    ls_runs_cut(&step->runs, step->shards);
    step->first = step->runs.begin[step->rank];
    step->mine = step->runs.begin[step->rank + 1] - step->first;
    if (!step->flags)
        step->flags = ls_alloc(context, (size_t)step->runs.ranks, sizeof *step->flags, "the ranks' flags");
    if (!step->flags || step->runs.ranks == 1)
        return ls_status_of(network->session);
    take_wire(cluster, trainer);
    size_t floats = (size_t)other_nodes(step) * pieces_before(step, network->flat.n_buckets);
    if (floats > trainer->rows_floats) {
        ls_engine_wait(network->engine);
        ls_release(context, trainer->rows);
        trainer->rows = ls_alloc(context, floats, sizeof *trainer->rows, "other ranks' partial gradients");
        trainer->rows_floats = trainer->rows ? floats : 0;
        if (!trainer->rows)
            return LS_OUT_OF_MEMORY;
    }
    step->slots = slots_of(step);
    return ls_cluster_reserve(cluster, context, step->slots * (network->flat.n_buckets + 1), &step->first_slot);
}

void ls_exchange_destroy(ls_step_job *step)
{
    ls_context *context = &step->trainer->network->session->context;
    ls_runs_destroy(&step->runs, context);
    ls_release(context, step->flags);
}

void ls_exchange_forget(struct ls_trainer *trainer)
{
    ls_cluster *cluster = trainer->session->options.cluster;
    if (cluster && cluster->stepping == trainer)
        cluster->stepping = NULL;
}

void ls_exchange_begin(ls_step_job *step)
{
    int others = 0;
    for (int r = 0; r < step->runs.ranks; r++)
        for (int i = step->runs.first_node[r]; r != step->rank && i < step->runs.first_node[r + 1]; i++)
            step->tree.buffer[step->runs.nodes[i]] = LS_TREE_ROW + others++;
    step->to_move = step->runs.ranks > 1 ? step->trainer->network->flat.n_buckets + 1 : 0;
    atomic_store(&step->end, LS_FILLING);
}

ls_stage ls_exchange_filled(const ls_step_job *step)
{
    return step->runs.ranks > 1 ? LS_GIVING : LS_REDUCING;
}

ls_partials ls_exchange_partials(const ls_step_job *step, int bucket, size_t at)
{
    ls_partials from = {.buffers = step->trainer->pool, .offset = at};
    if (step->runs.ranks > 1) {
        ls_bucket mine = piece(step, bucket, step->rank);
        from.rows = rows_of(step, bucket) + (at - mine.begin);
        from.stride = mine.end - mine.begin;
    }
    return from;
}

void ls_exchange_end(ls_step_job *step)
{
    step->flags[step->rank] = (atomic_load(&step->broken) ? LS_FLAG_BROKEN : 0u) |
                              (atomic_load(&step->trainer->session->broken) ? LS_FLAG_FAILED : 0u) |
                              LS_FLAG_ASKED * (uint32_t)atomic_load(&step->trainer->asked);
    if (step->runs.ranks == 1)
        ls_step_finish(step);
    else
        atomic_store(&step->end, LS_TO_SEND);
}

/* ---- Transfers; the caller holds the cluster's lock ---- */

/* One group of transfers, slot after slot. */
typedef struct group {
    const ls_wire *wire;
    int slot, tag;
    bool good;
} group;

static void give(group *g, int rank, void *data, size_t bytes)
{
    if (bytes && g->good)
        g->good = g->wire->send(g->wire->user, g->slot++, rank, g->tag, data, bytes);
}

static void take(group *g, int rank, void *data, size_t bytes)
{
    if (bytes && g->good)
        g->good = g->wire->receive(g->wire->user, g->slot++, rank, g->tag, data, bytes);
}

static group group_of(const ls_step_job *step, int number, int tag)
{
    return (group){&cluster_of(step)->wire, step->first_slot + number * step->slots, tag, true};
}

/* This rank's sums to the pieces' owners, theirs of this rank's piece into the rows. */
static bool send_sums(const ls_step_job *step, int bucket)
{
    group g = group_of(step, bucket, LS_TAG_STEP + 2 * bucket);
    ls_bucket mine = piece(step, bucket, step->rank);
    float *row = rows_of(step, bucket);
    for (int r = 0; r < step->runs.ranks; r++)
        for (int i = step->runs.first_node[r]; r != step->rank && i < step->runs.first_node[r + 1]; i++) {
            take(&g, r, row, (mine.end - mine.begin) * sizeof *row);
            row += mine.end - mine.begin;
        }
    for (int i = step->runs.first_node[step->rank]; i < step->runs.first_node[step->rank + 1]; i++) {
        float *sum = step->trainer->pool[ls_tree_first_buffer(&step->tree, step->runs.nodes[i])];
        for (int r = 0; r < step->runs.ranks; r++) {
            ls_bucket theirs = piece(step, bucket, r);
            if (r != step->rank)
                give(&g, r, sum + theirs.begin, (theirs.end - theirs.begin) * sizeof *sum);
        }
    }
    return g.good;
}

static bool spread(const ls_step_job *step, int bucket)
{
    group g = group_of(step, bucket, LS_TAG_STEP + 2 * bucket + 1);
    float *values = ls_step_target(step);
    ls_bucket mine = piece(step, bucket, step->rank);
    for (int r = 0; r < step->runs.ranks; r++) {
        ls_bucket theirs = piece(step, bucket, r);
        if (r == step->rank)
            continue;
        take(&g, r, values + theirs.begin, (theirs.end - theirs.begin) * sizeof *values);
        give(&g, r, values + mine.begin, (mine.end - mine.begin) * sizeof *values);
    }
    return g.good;
}

/* Of one rank: its flags, its shards' metrics and its nodes' statistics, each node's in its first shard's row. */
static void move_end(const ls_step_job *step, group *g, int owner, int peer, void (*move)(group *, int, void *, size_t))
{
    const size_t state = step->trainer->network->flat.state, first = (size_t)step->runs.begin[owner],
                 shards = (size_t)step->runs.begin[owner + 1] - first;
    move(g, peer, &step->flags[owner], sizeof *step->flags);
    move(g, peer, step->metrics + first * LS_METRICS, shards * LS_METRICS * sizeof(float));
    for (int i = step->runs.first_node[owner]; i < step->runs.first_node[owner + 1]; i++) {
        size_t row = (size_t)ls_tree_first_leaf(&step->tree, step->runs.nodes[i]);
        move(g, peer, step->statistics + row * state, state * sizeof(float));
    }
}

static bool send_end(const ls_step_job *step)
{
    group g = group_of(step, step->trainer->network->flat.n_buckets, LS_TAG_END);
    for (int r = 0; r < step->runs.ranks; r++) {
        if (r == step->rank)
            continue;
        move_end(step, &g, r, r, take);
        move_end(step, &g, step->rank, r, give);
    }
    return g.good;
}

/* ---- Stages ---- */

/* A group's transfers are begun, or done; 1 when that is so, 0 not yet, -1 after a failure. */
static int advance_group(ls_step_job *step, int number, atomic_int *stage)
{
    const int last = step->trainer->network->flat.n_buckets, was = atomic_load(stage);
    bool good;
    switch (was) {
    case LS_TO_SEND:
        good = number == last ? send_end(step) : send_sums(step, number);
        atomic_store(stage, LS_SENDING);
        return good ? 1 : -1;
    case LS_TO_SPREAD:
        good = spread(step, number);
        atomic_store(stage, LS_SPREADING);
        return good ? 1 : -1;
    case LS_SENDING:
    case LS_SPREADING:
        break;
    default:
        return 0;
    }
    const ls_wire *wire = &cluster_of(step)->wire;
    int done = wire->test(wire->user, step->first_slot + number * step->slots, step->slots);
    if (done <= 0)
        return done;
    if (was == LS_SENDING && number < last) {
        ls_bucket mine = piece(step, number, step->rank);
        atomic_store(stage, mine.end > mine.begin ? LS_REDUCING : LS_TO_SPREAD);
        ls_step_wake(step);
    } else {
        atomic_store(stage, LS_MOVED);
        step->to_move--;
    }
    return 1;
}

/* The others cannot be reached: the step never ends, so it is given up. */
static void give_up(ls_step_job *step)
{
    ls_session *session = step->trainer->session;
    ls_raise(&session->context, LS_IO, "rank %d: step %lld: a transfer between ranks failed", step->rank,
             (long long)step->number + 1);
    atomic_store(&session->broken, true);
    atomic_store(&step->complete, 1);
    ls_step_wake(step);
}

bool ls_exchange_advance(ls_step_job *step)
{
    ls_cluster *cluster = cluster_of(step);
    if (step->runs.ranks == 1 || pthread_mutex_trylock(&cluster->lock) != 0)
        return false;
    const int last = step->trainer->network->flat.n_buckets;
    bool moved = false, over = false, lost = false;
    for (int i = 0; i <= last && step->to_move > 0; i++) {
        int result = advance_group(step, i, i == last ? &step->end : &step->stage[i]);
        moved |= result > 0;
        lost |= result < 0;
        over |= result > 0 && step->to_move == 0;
    }
    if (lost)
        step->to_move = 0;
    if (moved) {
        atomic_store(&cluster->waiting, 0);
        atomic_fetch_add(&step->trainer->session->work, 1);
    }
    pthread_mutex_unlock(&cluster->lock);
    if (lost)
        give_up(step);
    else if (over)
        ls_step_finish(step);
    return moved;
}

static bool travels(int stage)
{
    return stage == LS_TO_SEND || stage == LS_SENDING || stage == LS_TO_SPREAD || stage == LS_SPREADING;
}

bool ls_exchange_under_way(const ls_step_job *step)
{
    bool any = step->runs.ranks > 1 && travels(atomic_load(&step->end));
    for (int b = 0; b < step->trainer->network->flat.n_buckets && !any; b++)
        any = travels(atomic_load(&step->stage[b]));
    return any;
}
