#include "comm/tree.h"

#include <string.h>

int ls_tree_levels(int leaves)
{
    int levels = 0;
    while (1 << levels < leaves)
        levels++;
    return levels;
}

ls_status ls_tree_reserve(ls_tree *tree, ls_context *context, int leaves)
{
    int size = 1 << ls_tree_levels(leaves);
    if (size <= tree->capacity)
        return LS_OK;
    ls_tree_destroy(tree, context);
    tree->buffer = ls_alloc(context, 2 * (size_t)size, sizeof *tree->buffer, "the shard tree");
    tree->state = ls_alloc(context, 2 * (size_t)size, 1, "the shard tree");
    if (!tree->buffer || !tree->state)
        return LS_OUT_OF_MEMORY;
    tree->capacity = size;
    return LS_OK;
}

void ls_tree_destroy(ls_tree *tree, ls_context *context)
{
    ls_release(context, tree->buffer);
    ls_release(context, tree->state);
    *tree = (ls_tree){.buffer = NULL};
}

void ls_tree_reset(ls_tree *tree, int leaves)
{
    tree->leaves = leaves;
    tree->size = 1 << ls_tree_levels(leaves);
    for (int i = 0; i < 2 * tree->size; i++) {
        tree->buffer[i] = -1;
        tree->state[i] = LS_NODE_EMPTY;
    }
}

int ls_tree_first_leaf(const ls_tree *tree, int node)
{
    while (node < tree->size)
        node *= 2;
    return node - tree->size;
}

/* How many buffers a subtree holds when all of it is done, -1 otherwise. */
static int done_buffers(const ls_tree *tree, int node)
{
    if (ls_tree_first_leaf(tree, node) >= tree->leaves)
        return 0;
    if (tree->state[node] != LS_NODE_EMPTY)
        return tree->state[node] == LS_NODE_DONE ? 1 : -1;
    if (node >= tree->size)
        return -1;
    int left = done_buffers(tree, 2 * node), right = left < 0 ? -1 : done_buffers(tree, 2 * node + 1);
    return right < 0 ? -1 : left + right;
}

static int foldable_below(const ls_tree *tree, int node)
{
    if (node >= 2 * tree->size || tree->state[node] != LS_NODE_EMPTY)
        return 0;
    int buffers = done_buffers(tree, node);
    if (buffers >= 2)
        return node;
    if (buffers >= 0 || node >= tree->size)
        return 0;
    int left = foldable_below(tree, 2 * node);
    return left ? left : foldable_below(tree, 2 * node + 1);
}

int ls_tree_foldable(const ls_tree *tree)
{
    return foldable_below(tree, 1);
}

static int mark(ls_tree *tree, int node)
{
    if (tree->buffer[node] >= 0) {
        tree->state[node] = LS_NODE_FOLDING;
        return tree->buffer[node];
    }
    if (node >= tree->size)
        return -1;
    int left = mark(tree, 2 * node), right = mark(tree, 2 * node + 1);
    return left >= 0 ? left : right;
}

int ls_tree_begin_fold(ls_tree *tree, int node)
{
    return mark(tree, node);
}

static void clear(ls_tree *tree, int node, int kept, void (*freed)(void *user, int buffer), void *user)
{
    if (tree->buffer[node] >= 0) {
        if (tree->buffer[node] != kept)
            freed(user, tree->buffer[node]);
        tree->buffer[node] = -1;
        tree->state[node] = LS_NODE_EMPTY;
    } else if (node < tree->size) {
        clear(tree, 2 * node, kept, freed, user);
        clear(tree, 2 * node + 1, kept, freed, user);
    }
}

void ls_tree_end_fold(ls_tree *tree, int node, int buffer, void (*freed)(void *user, int buffer), void *user)
{
    clear(tree, node, buffer, freed, user);
    tree->buffer[node] = buffer;
    tree->state[node] = LS_NODE_DONE;
}

/* A list has as many terms as this many levels can have leaves. */
enum { LISTED = 6 };
_Static_assert(1 << LISTED <= (int)LS_MOST_TERMS && LISTED + 2 <= (int)LS_TERMS_DEPTH, "a list has room for its terms");

typedef struct summing {
    const ls_tree *tree;
    const ls_partials *from;
    size_t n;
    ls_executor *executor;
} summing;

static float *place_of(const ls_partials *from, int buffer)
{
    if (buffer < LS_TREE_ROW)
        return from->buffers[buffer] + from->offset;
    const ls_received *rows = &from->rows[buffer >= LS_TREE_FAR];
    return rows->at + (size_t)(buffer % LS_TREE_ROW) * rows->stride;
}

/* Appends the sum below a node. What is deeper than `levels` is summed first, in its first buffer; which that is is
 * asked once, as a leaf may get another meanwhile, with the same numbers. */
static void list(const summing *s, int node, int levels, ls_terms *terms)
{
    const ls_tree *tree = s->tree;
    const bool whole = tree->buffer[node] >= 0;
    if (whole || levels == 0) {
        float *place = place_of(s->from, ls_tree_first_buffer(tree, node));
        if (!whole) {
            ls_terms below = ls_tree_terms(tree, node, s->from, s->n, s->executor);
            s->executor->type->compute.sum(s->executor, &below, place, s->n);
        }
        terms->at[terms->n++] = place;
        return;
    }
    list(s, 2 * node, levels - 1, terms);
    if (ls_tree_first_leaf(tree, 2 * node + 1) >= tree->leaves)
        return;
    list(s, 2 * node + 1, levels - 1, terms);
    terms->at[terms->n++] = NULL;
}

ls_terms ls_tree_terms(const ls_tree *tree, int node, const ls_partials *from, size_t n, ls_executor *executor)
{
    const summing s = {tree, from, n, executor};
    ls_terms terms = {.n = 0};
    list(&s, node, LISTED, &terms);
    return terms;
}

int ls_tree_first_buffer(const ls_tree *tree, int node)
{
    while (tree->buffer[node] < 0 && node < tree->size)
        node *= 2;
    return tree->buffer[node];
}

void ls_tree_sum_doubles(double *values, int leaves)
{
    for (int gap = 1; gap < leaves; gap *= 2)
        for (int i = 0; i + gap < leaves; i += 2 * gap)
            values[i] += values[i + gap];
}
