/* An ONNX graph under construction: nodes, and the numbers that they read. Whatever is made here lives until
 * ls_onnx_graph_free. After a failure, which is the context's, functions give NULL and take it. */
#pragma once

#include "io/safetensors.h"
#include "onnx.pb-c.h"

typedef Ls__NodeProto ls_onnx_node;

typedef struct ls_onnx_graph {
    Ls__GraphProto message;
    ls_context *context;
    const ls_named_array *parameters;
    int n_parameters;
    bool *placed; /* [n_parameters] those that are in the graph already */
    int node_capacity, initializer_capacity;
    struct ls_onnx_room *rooms;
} ls_onnx_graph;

ls_status ls_onnx_graph_init(ls_onnx_graph *graph, ls_context *context, const ls_named_array *parameters,
                             int n_parameters);
void ls_onnx_graph_free(ls_onnx_graph *graph);

/* Zeroed bytes. */
void *ls_onnx_room(ls_onnx_graph *graph, size_t bytes);

/* A value's name as formatted, or where a parameter is called so with `_` behind it. */
char *ls_onnx_name(ls_onnx_graph *graph, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The next node: one output, named by the layer that it is part of, the operator and its number. */
ls_onnx_node *ls_onnx_add(ls_onnx_graph *graph, const char *layer, const char *op_type, char *const in[], int n);
char *ls_onnx_output(const ls_onnx_node *node);

void ls_onnx_int(ls_onnx_graph *graph, ls_onnx_node *node, const char *name, int64_t value);
void ls_onnx_float(ls_onnx_graph *graph, ls_onnx_node *node, const char *name, float value);
void ls_onnx_string(ls_onnx_graph *graph, ls_onnx_node *node, const char *name, const char *value); /* a literal */
void ls_onnx_ints(ls_onnx_graph *graph, ls_onnx_node *node, const char *name, const int64_t values[], int n);

/* The names of numbers in the graph, which get there at the first call for a parameter. Floats stay where they are
 * until the graph was written; integers are copied. */
char *ls_onnx_parameter(ls_onnx_graph *graph, int view);
char *ls_onnx_floats(ls_onnx_graph *graph, char *name, const float *values, const int64_t dims[], int rank);
char *ls_onnx_integers(ls_onnx_graph *graph, char *name, const int64_t values[], int n);
