/* How a step's work lies on ranks: contiguous runs of shards, the tree's nodes that they consist of, and a piece of each bucket
 * whose sum and update are one rank's. One rank has one run, one node and all of every bucket. */
#ifndef LS_COMM_RUNS_H
#define LS_COMM_RUNS_H

#include "comm/tree.h"
#include "tensor/flat.h"

typedef struct ls_runs {
    int ranks, leaves;
    int *begin;      /* [ranks + 1] the first shard of each rank */
    int *nodes;      /* the topmost nodes of every run, from left to right */
    int *first_node; /* [ranks + 1] of each rank, in `nodes` */
    int capacity;    /* of `nodes` */
} ls_runs;

ls_status ls_runs_reserve(ls_runs *runs, ls_context *context, int ranks, int leaves);
void ls_runs_destroy(ls_runs *runs, ls_context *context);

/* No run is longer than the shards divided by the ranks, rounded up; within that, runs end where the tree's largest nodes do, so
 * that few sums have to travel. */
void ls_runs_cut(ls_runs *runs, int leaves);

/* The rank whose run a shard is in. */
int ls_runs_owner(const ls_runs *runs, int leaf);

/* What of a bucket is summed and updated by one of so many ranks: whole blocks of 16, or nothing. */
static inline ls_bucket ls_piece_of(const ls_bucket *bucket, int rank, int ranks)
{
    size_t blocks = (bucket->end - bucket->begin) / 16, r = (size_t)rank, n = (size_t)ranks;
    return (ls_bucket){bucket->begin + 16 * (blocks * r / n), bucket->begin + 16 * (blocks * (r + 1) / n)};
}

/* rows[leaves][n], of which this rank's are there, become sums in the tree's order. First each rank sums its nodes, each into its
 * first row; once these rows were exchanged, what lies across ranks goes into row 0. */
void ls_runs_sum_own(const ls_runs *runs, int rank, float *rows, size_t n, ls_add_kernel *add);
void ls_runs_sum_across(const ls_runs *runs, float *rows, size_t n, ls_add_kernel *add);

#endif
