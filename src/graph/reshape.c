/* Reshaping where it has to move numbers. In the lanes an image's numbers are in C order, and a flattened map is the
 * map; where channels lie innermost it is a copy, made once in front of whoever first reads it. */
#include <string.h>

#include "graph/graph.h"

/* Whether the numbers lie in C order all the same: one place, or one channel. */
static bool is_in_order(const ls_value *value)
{
    return value->h * value->w == 1 || value->c == 1;
}

static bool is_same(const ls_value *a, const ls_value *b)
{
    return (is_in_order(a) && is_in_order(b)) || (a->tokens == b->tokens && a->c == b->c && a->h == b->h);
}

static bool is_moved(const ls_value *value)
{
    return value && value->base && value->per_image && !is_same(value, value->base);
}

/* Puts a node that makes `value` from its base in front of node `at`. */
static ls_status insert(ls_graph *graph, int at, ls_value *value)
{
    const char *layer = graph->nodes[at].layer;
    if (!ls_graph_node(graph, LS_OP_RESHAPE, layer))
        return LS_OUT_OF_MEMORY;
    ls_node made = graph->nodes[graph->n_nodes - 1];
    made.in[0] = value->base;
    made.out[0] = value;
    memmove(&graph->nodes[at + 1], &graph->nodes[at], (size_t)(graph->n_nodes - 1 - at) * sizeof made);
    graph->nodes[at] = made;
    value->base = NULL;
    value->place = LS_IN_ARENA;
    return LS_OK;
}

ls_status ls_graph_reshape(ls_graph *graph)
{
    for (int i = 0; i < graph->n_nodes && graph->backend->reorders; i++)
        for (int k = 0; k < LS_MAX_IN; k++)
            if (is_moved(graph->nodes[i].in[k])) {
                if (insert(graph, i, graph->nodes[i].in[k]) != LS_OK)
                    return LS_OUT_OF_MEMORY;
                i++; /* the reader moved on by one */
            }
    return LS_OK;
}
