/* A recorded computation on one shard: values, and nodes that make values from values, in an order that can be run. */
#ifndef LS_GRAPH_GRAPH_H
#define LS_GRAPH_GRAPH_H

#include "base/session.h"
#include "device/op.h"
#include "tensor/flat.h"

/* Where a value's numbers lie while a shard runs. */
typedef enum ls_place {
    LS_IN_ARENA,      /* the worker's arena; laid out by the plan */
    LS_IN_WEIGHTS,    /* the trainable vector */
    LS_IN_GRADIENTS,  /* the shard's partial gradient, laid out like the weights */
    LS_IN_STATE,      /* running statistics */
    LS_IN_STATISTICS, /* the shard's own statistics, laid out like the state */
    LS_IN_METRICS,    /* the shard's loss sum and count of correct images */
    LS_IN_ROWS,       /* the caller's rows of logits */
    LS_PLACES
} ls_place;

enum { LS_METRIC_LOSS = 0, LS_METRIC_CORRECT = 1, LS_METRICS = 2 };

struct ls_tensor {
    struct ls_graph *graph;
    int id;
    ls_place place;
    size_t offset;  /* within its place, in floats; of an arena value set by the plan */
    int c, h, w;    /* one image's shape; of what is not per image c numbers, h = w = 1 */
    bool per_image; /* an activation: groups * c*h*w * 16 floats */
    bool flat;      /* (images, features) rather than (images, channels, height, width) */
    bool needs_gradient;
    ls_tensor *base; /* the value whose numbers these are, read under another shape; NULL: its own */
    int view;        /* of a parameter: its number in the flat layout, else -1 */
    int rank;        /* of a parameter: as the view's */
};

typedef struct ls_node {
    ls_attributes attributes;
    ls_tensor *in[LS_MAX_IN], *out[LS_MAX_OUT];
    const char *layer; /* the recording module's path, for messages */
} ls_node;

typedef struct ls_graph {
    ls_session *session;
    ls_flat *flat;
    ls_node *nodes;
    int n_nodes, node_capacity;
    ls_tensor **values;
    int n_values, value_capacity;
    bool training;
} ls_graph;

ls_graph *ls_graph_new(ls_session *session, ls_flat *flat, bool training);
void ls_graph_free(ls_graph *graph);

/* NULL, with the session's sticky error, when memory runs out. */
ls_tensor *ls_graph_value(ls_graph *graph, ls_place place, int c, int h, int w, bool per_image);
ls_tensor *ls_graph_like(ls_graph *graph, const ls_tensor *value); /* an arena value of the same shape */
ls_tensor *ls_graph_reshaped(ls_graph *graph, ls_tensor *value, int c, int h, int w); /* the same numbers */
ls_tensor *ls_graph_view(ls_graph *graph, int view); /* a parameter or statistic of the flat layout */
ls_node *ls_graph_node(ls_graph *graph, ls_op op, const char *layer);

/* The value that owns the numbers. */
const ls_tensor *ls_graph_root(const ls_tensor *value);

/* The node that makes the value, -1 for a parameter; how many operands read its numbers, under whatever shape. */
int ls_graph_producer(const ls_graph *graph, const ls_tensor *value);
int ls_graph_uses(const ls_graph *graph, const ls_tensor *value);
void ls_graph_remove(ls_graph *graph, int node);

/* Rewrites a recorded forward graph: a bias added to a product becomes the product's start, ReLU and addition join the
 * operation in front of them, and convolutions that suit it become Winograd's (unless the session says direct). */
void ls_graph_fuse(ls_graph *graph);

/* Appends the backward pass of the sum over images of `loss`. Gradients of parameters land in LS_IN_GRADIENTS. */
ls_status ls_graph_differentiate(ls_graph *graph, ls_tensor *loss);

#endif
