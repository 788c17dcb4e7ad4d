/* A computation on one shard: values, and nodes that make values from values, in an order that can be run. */
#pragma once

#include "base/session.h"
#include "device/backend.h"
#include "tensor/flat.h"

/* Where a value's numbers lie while a shard runs. */
typedef enum ls_place {
    LS_IN_ARENA,      /* the worker's arena; laid out by the plan */
    LS_IN_WEIGHTS,    /* the vector of parameters */
    LS_IN_GRADIENTS,  /* the shard's partial gradient, laid out like the trainable weights */
    LS_IN_STATE,      /* running statistics */
    LS_IN_STATISTICS, /* the shard's own statistics, laid out like the state */
    LS_IN_METRICS,    /* the shard's loss sum and count of correct images */
    LS_IN_ROOM,       /* the shard's own memory, of a plan with meetings; laid out by the plan */
    LS_IN_SUMS,       /* of NORM_SUMS and NORM_SLOPES, the shard's, one behind the other */
    LS_IN_TOTALS,     /* the same of all shards whose statistics are together */
    LS_IN_ARRAYS,     /* a tensor of the program's: the offset is its number among the trace's arrays */
    LS_IN_OUTPUTS,    /* rows of the shard's images: the offset is the output's number */
    LS_PLACES
} ls_place;

enum { LS_METRIC_LOSS = 0, LS_METRIC_CORRECT = 1, LS_METRICS = 2 };

typedef struct ls_value {
    struct ls_graph *graph;
    int id;
    ls_place place;
    size_t offset;  /* within its place, in floats; of an arena value set by the plan */
    int c, h, w;    /* one image's shape; of what is not per image c numbers, h = w = 1 */
    int tokens;     /* an image is so many of these shapes, each an image of its own to whoever computes it; else 1 */
    bool per_image; /* an activation: groups * c*h*w * 16 floats */
    bool needs_gradient;
    struct ls_value *base; /* the value whose numbers these are, read under another shape; NULL: its own */
    int view;              /* of a parameter with a place in the flat layout: its number there, else -1 */
} ls_value;

typedef struct ls_node {
    ls_attributes attributes;
    ls_value *in[LS_MAX_IN], *out[LS_MAX_OUT];
    const char *layer; /* the recording module's path, for messages; interned */
    int block;         /* whose results the backward pass computes again: its number, 0: of none */
    bool backward;     /* of the backward pass */
} ls_node;

typedef struct ls_graph {
    ls_session *session;
    const ls_backend *backend; /* that is to compute it */
    ls_flat *flat;
    ls_node *nodes;
    int n_nodes, node_capacity;
    ls_value **values;
    int n_values, value_capacity;
    bool training;
    size_t sums_floats; /* of LS_IN_SUMS */
} ls_graph;

ls_graph *ls_graph_new(ls_session *session, const ls_backend *backend, ls_flat *flat, bool training);
void ls_graph_free(ls_graph *graph);

/* NULL, with the session's sticky error, when memory runs out. */
ls_value *ls_graph_value(ls_graph *graph, ls_place place, int c, int h, int w, bool per_image);
ls_value *ls_graph_like(ls_graph *graph, const ls_value *value); /* an arena value of the same shape */
/* The same numbers of each image, as so many tokens of that shape. */
ls_value *ls_graph_reshaped(ls_graph *graph, ls_value *value, int tokens, int c, int h, int w);
ls_value *ls_graph_view(ls_graph *graph, int view); /* a parameter or statistic of the flat layout */
ls_node *ls_graph_node(ls_graph *graph, ls_op op, const char *layer);

/* The value that owns the numbers. */
const ls_value *ls_graph_root(const ls_value *value);

/* The node that makes the value, -1 for a parameter; how many operands read its numbers, under whatever shape. */
int ls_graph_producer(const ls_graph *graph, const ls_value *value);
int ls_graph_uses(const ls_graph *graph, const ls_value *value);
void ls_graph_remove(ls_graph *graph, int node);

/* Where the backend's layout is not in C order: has values that are read under another shape made by an operation. */
ls_status ls_graph_reshape(ls_graph *graph);

/* Rewrites a recorded forward graph: a bias added to a product becomes the product's start, ReLU and addition join the
 * operation in front of them, convolutions leave out what the pool behind them never reads, a first layer's takes its
 * pool in, and those that suit it become Winograd's (unless the session says direct, or the backend has none). */
void ls_graph_fuse(ls_graph *graph);

/* Of a graph with its backward pass: gradients of convolutions' inputs are added to those that they are added to, where
 * the backend `accumulates`. */
void ls_graph_accumulate(ls_graph *graph);

/* Of a graph with its backward pass: each BatchNorm in pieces, for statistics over several shards, but for those whose
 * layer wants each shard's own. */
ls_status ls_graph_split_norms(ls_graph *graph);

/* Of a graph with its backward pass: what blocks make and only their own backward passes read later is not kept until
 * then. Right before a block's backward pass its nodes are there again. */
ls_status ls_graph_recompute(ls_graph *graph);

/* Appends the backward pass from `y`, whose gradient is `dy` (NULL: that of a sum over images). Gradients of parameters
 * land in LS_IN_GRADIENTS; those of the n inputs x are returned in dx, NULL where nothing flows there. */
ls_status ls_graph_differentiate(ls_graph *graph, ls_value *y, ls_value *dy, ls_value *const x[], ls_value *dx[],
                                 int n);
