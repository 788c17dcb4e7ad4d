/* What blocks make is computed again for their backward passes instead of being kept: gradient checkpointing, as in
 * Chen, Xu, Zhang, Guestrin 2016, "Training deep nets with sublinear memory cost". The same kernels get the same
 * operands, so that no bit changes. */
#include <string.h>

#include "graph/graph.h"

typedef struct block {
    ls_graph *graph;
    int number, n;    /* n: of the values that there were before */
    bool *own;        /* [value id] made in the block, and read outside by backward passes alone */
    bool *wanted;     /* [value id] of these what has to be there again */
    ls_value **again; /* [value id] in whose place: NULL, the value itself */
    int nodes;        /* that make what is wanted */
    int first;        /* node of the backward pass that reads it */
} block;

static bool *mark_of(bool *marks, const ls_value *value)
{
    return &marks[ls_graph_root(value)->id];
}

/* Small numbers, as a BatchNorm's statistics, stay. */
static void find_own(block *b)
{
    for (int i = 0; i < b->graph->n_nodes; i++) {
        const ls_node *node = &b->graph->nodes[i];
        for (int k = 0; k < LS_MAX_OUT && node->block == b->number && !node->backward; k++)
            if (node->out[k] && node->out[k]->place == LS_IN_ARENA && node->out[k]->per_image)
                *mark_of(b->own, node->out[k]) = true;
    }
    for (int i = 0; i < b->graph->n_nodes; i++) {
        const ls_node *node = &b->graph->nodes[i];
        for (int k = 0; k < LS_MAX_IN && node->block != b->number && !node->backward; k++)
            if (node->in[k])
                *mark_of(b->own, node->in[k]) = false;
    }
}

/* Marks those of a node's operands that are the block's own; true where there is one. */
static bool want_operands(block *b, const ls_node *node)
{
    bool any = false;
    for (int k = 0; k < LS_MAX_IN; k++)
        if (node->in[k] && *mark_of(b->own, node->in[k]))
            any = *mark_of(b->wanted, node->in[k]) = true;
    return any;
}

static bool makes_wanted(const block *b, const ls_node *node)
{
    bool any = false;
    for (int k = 0; k < LS_MAX_OUT && node->block == b->number && !node->backward; k++)
        any |= node->out[k] && *mark_of(b->wanted, node->out[k]);
    return any;
}

static void find_wanted(block *b)
{
    for (int i = b->graph->n_nodes - 1; i >= 0; i--) {
        const ls_node *node = &b->graph->nodes[i];
        if (node->backward && want_operands(b, node))
            b->first = i;
        if (makes_wanted(b, node)) { /* all of its readers stand behind it */
            want_operands(b, node);
            b->nodes++;
        }
    }
}

/* NULL when memory runs out. */
static ls_value *in_place_of(block *b, ls_value *value)
{
    ls_value *root = value->base ? value->base : value;
    if (value->id >= b->n || !b->again[root->id])
        return value;
    if (!b->again[value->id])
        b->again[value->id] =
            ls_graph_reshaped(b->graph, b->again[root->id], value->tokens, value->c, value->h, value->w);
    return b->again[value->id];
}

static bool take_again(block *b, ls_node *node)
{
    bool good = true;
    for (int k = 0; k < LS_MAX_IN && good; k++)
        if (node->in[k])
            good = (node->in[k] = in_place_of(b, node->in[k])) != NULL;
    return good;
}

/* A copy of a node that writes to values of its own. */
static bool repeat(block *b, const ls_node *node, ls_node *copy)
{
    *copy = *node;
    copy->backward = true;
    bool good = take_again(b, copy);
    for (int k = 0; k < LS_MAX_OUT && good; k++) {
        const ls_value *made = node->out[k];
        if (!made)
            continue;
        good = (copy->out[k] = ls_graph_like(b->graph, made)) != NULL;
        if (*mark_of(b->own, made))
            b->again[made->id] = copy->out[k];
    }
    return good;
}

/* The block's nodes once more, in front of its backward pass. */
static bool insert(block *b)
{
    ls_graph *graph = b->graph;
    const int behind = graph->n_nodes - b->first;
    for (int i = 0; i < b->nodes; i++)
        if (!ls_graph_node(graph, LS_OP_COUNT, ""))
            return false;
    ls_node *to = &graph->nodes[b->first];
    memmove(to + b->nodes, to, (size_t)behind * sizeof *to);
    for (int i = 0; i < b->first; i++)
        if (makes_wanted(b, &graph->nodes[i]) && !repeat(b, &graph->nodes[i], to++))
            return false;
    for (int i = 0; i < behind; i++)
        if (!take_again(b, to + i))
            return false;
    return true;
}

static ls_status recompute(ls_graph *graph, int number)
{
    ls_context *context = &graph->session->context;
    const size_t n = (size_t)graph->n_values;
    block b = {.graph = graph, .number = number, .n = graph->n_values};
    b.own = ls_alloc(context, n, sizeof *b.own, "the backward pass");
    b.wanted = b.own ? ls_alloc(context, n, sizeof *b.wanted, "the backward pass") : NULL;
    b.again = b.wanted ? ls_alloc(context, n, sizeof *b.again, "the backward pass") : NULL;
    if (b.again) {
        find_own(&b);
        find_wanted(&b);
        if (b.nodes)
            insert(&b);
    }
    ls_release(context, b.own);
    ls_release(context, b.wanted);
    ls_release(context, b.again);
    return ls_context_status(context);
}

ls_status ls_graph_recompute(ls_graph *graph)
{
    int blocks = 0;
    bool backward = false;
    for (int i = 0; i < graph->n_nodes; i++) {
        backward |= graph->nodes[i].backward;
        if (graph->nodes[i].block > blocks)
            blocks = graph->nodes[i].block;
    }
    for (int number = 1; backward && number <= blocks; number++)
        if (recompute(graph, number) != LS_OK)
            break;
    return ls_context_status(&graph->session->context);
}
