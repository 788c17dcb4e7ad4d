/* An ordered all-reduce of one bucket, as one rank sees it, stage by stage:
 *
 *     local_sum        sums over this rank's nodes of the tree, for the other members of its group
 *     scatter_locally  those go to the stripes' members, theirs of this rank's stripe     reduce-scatter in the group
 *                      come in
 *     group_sum        sums over the group's nodes, of this rank's stripe
 *     scatter          those go to the pieces' owners, theirs of this rank's piece        reduce-scatter across groups
 *                      come in
 *                      (the owner sums its piece over the whole tree, and makes new values of it)
 *     gather           the new values go to the other owners in the stripe                all-gather across groups
 *     gather_locally   the stripe goes to all members                                     all-gather in the group
 *
 * Sums are made in place, in the first of what is added, and in the tree's order. In a group of one rank the stripe is
 * the whole bucket, and the three stages in the group are nothing. */
#pragma once

#include "comm/groups.h"
#include "comm/partition.h"

#include <lockstep_cluster.h>

typedef struct ls_allreduce {
    const ls_groups *groups;
    const ls_partition *ranks, *hosts; /* the runs of places, and of groups */
    const ls_tree *tree;
    ls_bucket bucket, stripe, piece; /* the last two are this rank's, or empty */
    float *const *buffers;           /* sums over this rank's shards */
    float *near, *far;               /* what came: [other members' nodes][stripe], [other groups' nodes][piece] */
} ls_allreduce;

/* Transfers that are begun one after another: on the wire slot after slot, an empty one takes none; or in a group of a
 * connected executor's. */
typedef struct ls_posting {
    const ls_wire *wire;
    ls_executor *executor; /* NULL: on the wire */
    int slot, tag;
    bool good;
} ls_posting;

void ls_post_send(ls_posting *posting, int rank, const void *data, size_t bytes);
void ls_post_receive(ls_posting *posting, int rank, void *data, size_t bytes);

/* Tells the tree which nodes' sums come from other ranks, after it was reset. */
void ls_allreduce_hang(ls_tree *tree, const ls_groups *groups, const ls_partition *ranks, const ls_partition *hosts);

/* Sets stripe and piece, and near and far to `rows`, which may be NULL so far. Returns how many floats they need
 * there. */
size_t ls_allreduce_lay(ls_allreduce *allreduce, float *rows);

/* How many slots the transfers of any one stage of a bucket need. */
int ls_allreduce_slots(const ls_groups *groups, const ls_partition *ranks, const ls_partition *hosts);

/* Within a slice, one of the bucket and one of the stripe. */
void ls_allreduce_local_sum(const ls_allreduce *allreduce, ls_bucket slice, ls_executor *executor);
void ls_allreduce_group_sum(const ls_allreduce *allreduce, ls_bucket slice, ls_executor *executor);

/* Where the sums are for floats from `at` on, in stripe or piece. */
ls_partials ls_allreduce_partials(const ls_allreduce *allreduce, size_t at);

/* False when the wire failed. `values` is the vector that the pieces' new values are put together in. */
bool ls_allreduce_scatter_locally(const ls_allreduce *allreduce, ls_posting posting);
bool ls_allreduce_scatter(const ls_allreduce *allreduce, ls_posting posting);
bool ls_allreduce_gather(const ls_allreduce *allreduce, float *values, ls_posting posting);
bool ls_allreduce_gather_locally(const ls_allreduce *allreduce, float *values, ls_posting posting);
