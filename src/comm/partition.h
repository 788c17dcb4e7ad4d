/* How a step's shards lie on ranks, or on groups of them: contiguous runs, and the tree's nodes that they consist of.
 * One rank has one run and one node. */
#pragma once

#include "comm/tree.h"

typedef struct ls_partition {
    int parts, leaves;
    int *begin;        /* [parts + 1] the first shard of each part */
    int *nodes;        /* the topmost nodes of every run, from left to right */
    int *first_node;   /* [parts + 1] of each part, in `nodes` */
    int *most, *least; /* [parts] shards that a part may have */
    int capacity;      /* of `nodes` */
} ls_partition;

/* What a rank has computed: shards, by so many cores side by side, and the seconds that these took together. */
typedef struct ls_throughput {
    double seconds;
    int32_t shards, at_once;
} ls_throughput;

ls_status ls_partition_reserve(ls_partition *partition, ls_context *context, int parts, int leaves);
void ls_partition_destroy(ls_partition *partition, ls_context *context);

/* No run is longer than the shards divided by the parts, rounded up; within that, runs end where the tree's largest
 * nodes do, so that few sums have to travel. */
void ls_partition_cut(ls_partition *partition, int leaves);

/* The same for ranks in groups, whose run is that of their members: group g has the places from first[g] to first[g +
 * 1]. With `throughputs` of the places a rank gets no more shards than it computes in the time that they need all
 * together; one that has computed none is taken for an average one. */
void ls_partition_cut_groups(ls_partition *ranks, ls_partition *groups, const int first[],
                             const ls_throughput *throughputs, int leaves);

/* The part whose run a shard is in. */
int ls_partition_owner(const ls_partition *partition, int leaf);

static inline int ls_partition_nodes(const ls_partition *partition, int part)
{
    return partition->first_node[part + 1] - partition->first_node[part];
}

/* Rows [leaves][n] become sums in the tree's order, each node's in its first shard's row: the additions that lie within
 * shards [begin, end) and not within a single part of `done`, where they were made before; NULL: none was. */
void ls_partition_sum(int begin, int end, int leaves, const ls_partition *done, float *rows, size_t n,
                      ls_add_kernel *add);
