/* The one order in which anything is summed over shards: a binary tree over the shard's index. Node (level, i) is the
 * sum of nodes (level-1, 2i) and (level-1, 2i+1), in that order; where the second lies beyond the last shard it is the
 * first alone. Leaves and finished subtrees hold a buffer; a subtree can be folded into one buffer once all of it is
 * there. */
#pragma once

#include <stdatomic.h>

#include "device/executor.h"

enum { LS_TREE_LEVELS = 24, LS_TREE_ROW = 1 << 24, LS_TREE_FAR = 2 * LS_TREE_ROW };

typedef enum ls_node_state { LS_NODE_EMPTY, LS_NODE_RUNNING, LS_NODE_DONE, LS_NODE_FOLDING } ls_node_state;

/* Nodes in heap order: the root is 1, the children of h are 2h and 2h+1, leaf j is size + j. */
typedef struct ls_tree {
    int leaves, size, capacity; /* size: leaves rounded up to a power of two */
    atomic_int *buffer;         /* [2*size] the buffer a node holds, -1 without one */
    uint8_t *state;             /* [2*size] ls_node_state; guarded by the owner's lock, unlike `buffer` */
} ls_tree;

typedef void ls_add_kernel(float *out, const float *a, const float *b, size_t n);

int ls_tree_levels(int leaves); /* above the leaves: the binary logarithm of their number, rounded up */
ls_status ls_tree_reserve(ls_tree *tree, ls_context *context, int leaves);
void ls_tree_destroy(ls_tree *tree, ls_context *context);
void ls_tree_reset(ls_tree *tree, int leaves);

int ls_tree_first_leaf(const ls_tree *tree, int node); /* the number of the leftmost leaf below it */

/* The topmost node whose subtree is done and holds at least two buffers; 0 where there is none. */
int ls_tree_foldable(const ls_tree *tree);

/* Marks a foldable subtree as being folded; returns the buffer the sum belongs into. */
int ls_tree_begin_fold(ls_tree *tree, int node);
/* The node then holds that buffer; the others are handed to `freed`. */
void ls_tree_end_fold(ls_tree *tree, int node, int buffer, void (*freed)(void *user, int buffer), void *user);

/* Sums that came from other ranks. */
typedef struct ls_received {
    float *at;
    size_t stride;
} ls_received;

/* Where a tree's buffers are: buffer b is `buffers[b] + offset`. One numbered LS_TREE_ROW + i is row i of `rows[0]`,
 * and LS_TREE_FAR + i of `rows[1]`; a row begins with the run of floats being summed. */
typedef struct ls_partials {
    float *const *buffers;
    size_t offset;
    ls_received rows[2];
} ls_partials;

/* The sum over the subtree of `node` of n floats, as the executor that is to make it takes it. What lies too deep for
 * the list is summed by the executor at once, each subtree in its first buffer. */
ls_terms ls_tree_terms(const ls_tree *tree, int node, const ls_partials *from, size_t n, ls_executor *executor);
int ls_tree_first_buffer(const ls_tree *tree,
                         int node); /* of its leftmost leaf, or of the subtree that was folded there */

void ls_tree_sum_doubles(double *values, int leaves);
