/* BatchNorms in pieces. A shard leaves its sums, meets the shards whose statistics are together with its own, and goes
 * on with the totals. */
#include "device/norm_sums.h"
#include "graph/graph.h"

static bool is_split(const ls_graph *graph, const ls_node *node)
{
    const ls_op op = node->attributes.op;
    if (op != LS_OP_BATCH_NORM && op != LS_OP_BATCH_NORM_BACKWARD)
        return false;
    const ls_value *gamma = node->in[op == LS_OP_BATCH_NORM ? 1 : 2];
    return !graph->flat->views[gamma->view].by_shard;
}

static ls_value *norm_sums_at(ls_graph *graph, ls_place place, size_t offset, size_t floats)
{
    ls_value *value = ls_graph_value(graph, place, (int)floats, 1, 1, false);
    if (value)
        value->offset = offset;
    return value;
}

static void split_forward(ls_node *first, ls_node *second, ls_value *sums, ls_value *totals)
{
    for (int k = 1; k < LS_MAX_IN; k++)
        first->in[k] = NULL;
    first->attributes = (ls_attributes){.op = LS_OP_NORM_SUMS};
    first->out[0] = sums;
    first->out[1] = first->out[2] = NULL;
    second->attributes.op = LS_OP_NORM_APPLY;
    second->in[4] = totals;
}

static void split_backward(ls_node *first, ls_node *second, ls_value *sums, ls_value *totals)
{
    first->attributes = (ls_attributes){.op = LS_OP_NORM_SLOPES, .fused_relu = second->attributes.fused_relu};
    first->in[2] = second->in[3];
    first->in[3] = second->in[4];
    first->in[4] = first->in[5] = NULL;
    first->out[0] = sums;
    first->out[2] = NULL;
    second->attributes.op = LS_OP_NORM_DATA;
    second->in[5] = totals;
    second->out[1] = second->out[2];
    second->out[2] = NULL;
}

static bool split(ls_graph *graph, ls_node *first, ls_node *second)
{
    const bool forward = first->attributes.op == LS_OP_BATCH_NORM;
    const size_t floats = ls_norm_sums_floats(first->in[forward ? 0 : 1]->c), at = graph->sums_floats;
    ls_value *sums = norm_sums_at(graph, LS_IN_SUMS, at, floats),
             *totals = sums ? norm_sums_at(graph, LS_IN_TOTALS, at, floats) : NULL;
    if (!totals)
        return false;
    graph->sums_floats += floats;
    if (forward)
        split_forward(first, second, sums, totals);
    else
        split_backward(first, second, sums, totals);
    return true;
}

ls_status ls_graph_split_norms(ls_graph *graph)
{
    const int n = graph->n_nodes;
    bool good = true;
    for (int i = 0; i < n && good; i++)
        if (is_split(graph, &graph->nodes[i]))
            good = ls_graph_node(graph, LS_OP_COUNT, "") != NULL;
    if (!good)
        return LS_OUT_OF_MEMORY;
    int to = graph->n_nodes;
    for (int i = n - 1; i >= 0 && to > i + 1 && good; i--) {
        const ls_node node = graph->nodes[i];
        graph->nodes[--to] = node;
        if (!is_split(graph, &node))
            continue;
        graph->nodes[--to] = node;
        good = split(graph, &graph->nodes[to], &graph->nodes[to + 1]);
    }
    return good ? LS_OK : LS_OUT_OF_MEMORY;
}
