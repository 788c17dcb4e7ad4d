#include "graph/graph.h"

#include <string.h>

enum { LEAST_ROOM = 64 };

ls_graph *ls_graph_new(ls_session *session, const ls_backend *backend, ls_flat *flat, bool training)
{
    ls_graph *graph = ls_alloc(&session->context, 1, sizeof *graph, "a graph");
    if (graph)
        *graph = (ls_graph){.session = session, .backend = backend, .flat = flat, .training = training};
    return graph;
}

void ls_graph_free(ls_graph *graph)
{
    if (!graph)
        return;
    ls_context *context = &graph->session->context;
    for (int i = 0; i < graph->n_values; i++)
        ls_release(context, graph->values[i]);
    ls_release(context, graph->values);
    ls_release(context, graph->nodes);
    ls_release(context, graph);
}

ls_value *ls_graph_value(ls_graph *graph, ls_place place, int c, int h, int w, bool per_image)
{
    ls_context *context = &graph->session->context;
    ls_value **values =
        ls_grow(context, graph->values, graph->n_values, &graph->value_capacity, LEAST_ROOM, sizeof *values, "a graph");
    if (!values)
        return NULL;
    graph->values = values;
    ls_value *value = ls_alloc(context, 1, sizeof *value, "a value of a graph");
    if (!value)
        return NULL;
    *value = (ls_value){.graph = graph,
                        .id = graph->n_values,
                        .place = place,
                        .c = c,
                        .h = h,
                        .w = w,
                        .tokens = 1,
                        .per_image = per_image,
                        .view = -1};
    graph->values[graph->n_values++] = value;
    return value;
}

ls_value *ls_graph_like(ls_graph *graph, const ls_value *value)
{
    ls_value *made = ls_graph_value(graph, LS_IN_ARENA, value->c, value->h, value->w, value->per_image);
    if (made)
        made->tokens = value->tokens;
    return made;
}

ls_value *ls_graph_reshaped(ls_graph *graph, ls_value *value, int tokens, int c, int h, int w)
{
    ls_value *same = ls_graph_value(graph, value->place, c, h, w, value->per_image);
    if (!same)
        return NULL;
    same->tokens = tokens;
    same->base = value->base ? value->base : value;
    same->needs_gradient = value->needs_gradient;
    return same;
}

const ls_value *ls_graph_root(const ls_value *value)
{
    return value->base ? value->base : value;
}

ls_value *ls_graph_view(ls_graph *graph, int number)
{
    const ls_view *view = &graph->flat->views[number];
    for (int i = 0; i < graph->n_values; i++)
        if (graph->values[i]->view == number)
            return graph->values[i];
    ls_place place = view->trainable ? LS_IN_WEIGHTS : LS_IN_STATE;
    ls_value *value = ls_graph_value(graph, place, (int)view->numbers, 1, 1, false);
    if (!value)
        return NULL;
    value->offset = view->offset;
    value->view = number;
    value->needs_gradient = ls_is_trained(view);
    return value;
}

ls_node *ls_graph_node(ls_graph *graph, ls_op op, const char *layer)
{
    ls_node *nodes = ls_grow(&graph->session->context, graph->nodes, graph->n_nodes, &graph->node_capacity, LEAST_ROOM,
                             sizeof *nodes, "a graph");
    if (!nodes)
        return NULL;
    graph->nodes = nodes;
    ls_node *node = &graph->nodes[graph->n_nodes++];
    *node = (ls_node){.attributes = {.op = op}, .layer = layer};
    return node;
}

int ls_graph_producer(const ls_graph *graph, const ls_value *value)
{
    for (int i = 0; i < graph->n_nodes; i++)
        for (int k = 0; k < LS_MAX_OUT; k++)
            if (graph->nodes[i].out[k] == value)
                return i;
    return -1;
}

int ls_graph_uses(const ls_graph *graph, const ls_value *value)
{
    const ls_value *root = ls_graph_root(value);
    int uses = 0;
    for (int i = 0; i < graph->n_nodes; i++)
        for (int k = 0; k < LS_MAX_IN; k++)
            uses += graph->nodes[i].in[k] && ls_graph_root(graph->nodes[i].in[k]) == root;
    return uses;
}

void ls_graph_remove(ls_graph *graph, int node)
{
    memmove(&graph->nodes[node], &graph->nodes[node + 1], (size_t)(graph->n_nodes - node - 1) * sizeof *graph->nodes);
    graph->n_nodes--;
}
