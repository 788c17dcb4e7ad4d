#include "comm/allreduce.h"

static size_t floats_of(ls_bucket run)
{
    return run.end - run.begin;
}

static size_t bytes_of(ls_bucket run)
{
    return floats_of(run) * sizeof(float);
}

static bool holds(ls_bucket run, size_t at)
{
    return at >= run.begin && at < run.end;
}

static int rank_of(const ls_groups *groups, int group, int member)
{
    return groups->rank[groups->first[group] + member];
}

void ls_post_send(ls_posting *posting, int rank, const void *data, size_t bytes)
{
    const ls_wire *wire = posting->wire;
    if (bytes && posting->executor)
        posting->executor->type->peers.send(posting->executor, rank, data, bytes);
    else if (bytes && posting->good)
        posting->good = wire->send(wire->user, posting->slot++, rank, posting->tag, data, bytes);
}

void ls_post_receive(ls_posting *posting, int rank, void *data, size_t bytes)
{
    const ls_wire *wire = posting->wire;
    if (bytes && posting->executor)
        posting->executor->type->peers.receive(posting->executor, rank, data, bytes);
    else if (bytes && posting->good)
        posting->good = wire->receive(wire->user, posting->slot++, rank, posting->tag, data, bytes);
}

/* ---- Rows ---- */

/* Nodes of the group's other members, and of the other groups. */
static int near_nodes(const ls_groups *groups, const ls_partition *ranks)
{
    int first = groups->first[groups->group], end = groups->first[groups->group + 1];
    return ranks->first_node[end] - ranks->first_node[first] - ls_partition_nodes(ranks, groups->place);
}

static int far_nodes(const ls_groups *groups, const ls_partition *hosts)
{
    return hosts->first_node[hosts->parts] - ls_partition_nodes(hosts, groups->group);
}

void ls_allreduce_hang(ls_tree *tree, const ls_groups *groups, const ls_partition *ranks, const ls_partition *hosts)
{
    int near = LS_TREE_ROW, far = LS_TREE_FAR;
    for (int p = groups->first[groups->group]; p < groups->first[groups->group + 1]; p++)
        for (int i = ranks->first_node[p]; p != groups->place && i < ranks->first_node[p + 1]; i++)
            tree->buffer[ranks->nodes[i]] = near++;
    for (int g = 0; g < groups->groups; g++)
        for (int i = hosts->first_node[g]; g != groups->group && i < hosts->first_node[g + 1]; i++)
            tree->buffer[hosts->nodes[i]] = far++;
}

size_t ls_allreduce_lay(ls_allreduce *allreduce, float *rows)
{
    const ls_groups *groups = allreduce->groups;
    allreduce->stripe = ls_groups_stripe(groups, &allreduce->bucket, groups->member);
    allreduce->piece = ls_groups_piece(groups, &allreduce->bucket, groups->group, groups->member);
    size_t near = (size_t)near_nodes(groups, allreduce->ranks) * floats_of(allreduce->stripe);
    size_t far = (size_t)far_nodes(groups, allreduce->hosts) * floats_of(allreduce->piece);
    allreduce->near = near ? rows : NULL;
    allreduce->far = far && rows ? rows + near : NULL;
    return near + far;
}

int ls_allreduce_slots(const ls_groups *groups, const ls_partition *ranks, const ls_partition *hosts)
{
    int join = near_nodes(groups, ranks) + ls_partition_nodes(ranks, groups->place) * groups->columns;
    int send = far_nodes(groups, hosts) + ls_partition_nodes(hosts, groups->group) * groups->groups;
    int gather = 2 * groups->groups + 2 * ls_groups_members(groups, groups->group);
    return join + send + gather;
}

/* The floats of a buffer of the tree from `at` on; a row's, in the stripe. */
static float *floats_at(const ls_allreduce *allreduce, int buffer, size_t at)
{
    if (buffer < LS_TREE_ROW)
        return allreduce->buffers[buffer] + at;
    return allreduce->near + (size_t)(buffer - LS_TREE_ROW) * floats_of(allreduce->stripe) +
           (at - allreduce->stripe.begin);
}

ls_partials ls_allreduce_partials(const ls_allreduce *allreduce, size_t at)
{
    ls_partials from = {.buffers = allreduce->buffers, .offset = at};
    if (allreduce->near && holds(allreduce->stripe, at))
        from.rows[0] = (ls_received){allreduce->near + (at - allreduce->stripe.begin), floats_of(allreduce->stripe)};
    if (allreduce->far && holds(allreduce->piece, at))
        from.rows[1] = (ls_received){allreduce->far + (at - allreduce->piece.begin), floats_of(allreduce->piece)};
    return from;
}

/* ---- Sums ---- */

/* Floats [begin, end) over a node, in place. */
static void sum_run(const ls_allreduce *allreduce, int node, size_t begin, size_t end, ls_executor *executor)
{
    if (begin >= end)
        return;
    float *into = floats_at(allreduce, ls_tree_first_buffer(allreduce->tree, node), begin);
    ls_partials from = ls_allreduce_partials(allreduce, begin);
    ls_terms terms = ls_tree_terms(allreduce->tree, node, &from, end - begin, executor);
    executor->type->compute.sum(executor, &terms, into, end - begin);
}

/* Over each node of a part, but for the run that a later sum takes in. */
static void sum_nodes(const ls_allreduce *allreduce, const ls_partition *partition, int part, ls_bucket slice,
                      ls_bucket later, ls_executor *executor)
{
    if (later.begin >= later.end || later.end <= slice.begin || later.begin >= slice.end)
        later = (ls_bucket){slice.end, slice.end}; /* not here */
    for (int i = partition->first_node[part]; i < partition->first_node[part + 1]; i++) {
        sum_run(allreduce, partition->nodes[i], slice.begin, later.begin, executor);
        sum_run(allreduce, partition->nodes[i], later.end, slice.end, executor);
    }
}

void ls_allreduce_local_sum(const ls_allreduce *allreduce, ls_bucket slice, ls_executor *executor)
{
    sum_nodes(allreduce, allreduce->ranks, allreduce->groups->place, slice, allreduce->stripe, executor);
}

void ls_allreduce_group_sum(const ls_allreduce *allreduce, ls_bucket slice, ls_executor *executor)
{
    sum_nodes(allreduce, allreduce->hosts, allreduce->groups->group, slice, allreduce->piece, executor);
}

/* ---- Transfers ---- */

bool ls_allreduce_scatter_locally(const ls_allreduce *allreduce, ls_posting posting)
{
    const ls_groups *groups = allreduce->groups;
    const ls_partition *ranks = allreduce->ranks;
    const int first = groups->first[groups->group], end = groups->first[groups->group + 1];
    float *row = allreduce->near;
    for (int p = first; row && p < end; p++)
        for (int i = 0; p != groups->place && i < ls_partition_nodes(ranks, p);
             i++, row += floats_of(allreduce->stripe))
            ls_post_receive(&posting, groups->rank[p], row, bytes_of(allreduce->stripe));
    for (int i = ranks->first_node[groups->place]; i < ranks->first_node[groups->place + 1]; i++) {
        const float *sum = allreduce->buffers[ls_tree_first_buffer(allreduce->tree, ranks->nodes[i])];
        for (int m = 0; m < groups->columns; m++) {
            ls_bucket theirs = ls_groups_stripe(groups, &allreduce->bucket, m);
            if (m != groups->member)
                ls_post_send(&posting, rank_of(groups, groups->group, m), sum + theirs.begin, bytes_of(theirs));
        }
    }
    return posting.good;
}

bool ls_allreduce_scatter(const ls_allreduce *allreduce, ls_posting posting)
{
    const ls_groups *groups = allreduce->groups;
    const ls_partition *hosts = allreduce->hosts;
    const int member = groups->member;
    float *row = allreduce->far;
    for (int g = 0; row && g < groups->groups; g++)
        for (int i = 0; g != groups->group && i < ls_partition_nodes(hosts, g); i++, row += floats_of(allreduce->piece))
            ls_post_receive(&posting, rank_of(groups, g, member), row, bytes_of(allreduce->piece));
    for (int i = hosts->first_node[groups->group]; i < hosts->first_node[groups->group + 1]; i++) {
        int buffer = ls_tree_first_buffer(allreduce->tree, hosts->nodes[i]);
        for (int g = 0; g < groups->groups; g++) {
            ls_bucket theirs = ls_groups_piece(groups, &allreduce->bucket, g, member);
            if (g != groups->group && bytes_of(theirs))
                ls_post_send(&posting, rank_of(groups, g, member), floats_at(allreduce, buffer, theirs.begin),
                             bytes_of(theirs));
        }
    }
    return posting.good;
}

bool ls_allreduce_gather(const ls_allreduce *allreduce, float *values, ls_posting posting)
{
    const ls_groups *groups = allreduce->groups;
    for (int g = 0; groups->member < groups->columns && g < groups->groups; g++) {
        ls_bucket theirs = ls_groups_piece(groups, &allreduce->bucket, g, groups->member);
        if (g == groups->group)
            continue;
        ls_post_receive(&posting, rank_of(groups, g, groups->member), values + theirs.begin, bytes_of(theirs));
        ls_post_send(&posting, rank_of(groups, g, groups->member), values + allreduce->piece.begin,
                     bytes_of(allreduce->piece));
    }
    return posting.good;
}

bool ls_allreduce_gather_locally(const ls_allreduce *allreduce, float *values, ls_posting posting)
{
    const ls_groups *groups = allreduce->groups;
    for (int m = 0; m < ls_groups_members(groups, groups->group); m++) {
        ls_bucket theirs = ls_groups_stripe(groups, &allreduce->bucket, m);
        if (m == groups->member)
            continue;
        ls_post_receive(&posting, rank_of(groups, groups->group, m), values + theirs.begin, bytes_of(theirs));
        ls_post_send(&posting, rank_of(groups, groups->group, m), values + allreduce->stripe.begin,
                     bytes_of(allreduce->stripe));
    }
    return posting.good;
}
