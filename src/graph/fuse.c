/* Joins neighbours of a recorded graph. What is joined computes what the parts computed, number by number; the one
 * exception is a bias added directly to a product, which becomes the start of the product's sums. */
#include "device/winograd.h"
#include "graph/graph.h"

enum {
    WINOGRAD_MIN_CHANNELS = 16,
    CONV_POOL_MAX_CHANNELS = 15 /* of more, multiplying takes so long that a map less no longer shows */
};

/* The node that makes `value` when it is one of `ops`, nobody else reads the value, and the node ends there. */
static ls_node *sole_producer(ls_graph *graph, const ls_value *value, ls_op op)
{
    int i = ls_graph_producer(graph, value);
    if (i < 0 || ls_graph_uses(graph, value) != 1)
        return NULL;
    ls_node *node = &graph->nodes[i];
    const ls_attributes *a = &node->attributes;
    return a->op == op && node->out[0] == value && !a->fused_relu && !a->fused_clamp ? node : NULL;
}

static bool fuse_bias(ls_graph *graph, int i)
{
    ls_node *add = &graph->nodes[i];
    if (add->attributes.op != LS_OP_ADD_BIAS)
        return false;
    ls_node *product = sole_producer(graph, add->in[0], LS_OP_CONV);
    if (!product || product->in[2])
        return false;
    product->in[2] = add->in[1];
    product->out[0] = add->out[0];
    return true;
}

static ls_op norm_op(const ls_graph *graph)
{
    return graph->training ? LS_OP_BATCH_NORM : LS_OP_BATCH_NORM_INFER;
}

/* The same of a BatchNorm, which may be frozen in training. */
static ls_node *sole_norm(ls_graph *graph, const ls_value *value)
{
    ls_node *norm = sole_producer(graph, value, LS_OP_BATCH_NORM);
    return norm ? norm : sole_producer(graph, value, LS_OP_BATCH_NORM_INFER);
}

/* y = bn(x) + r: the BatchNorm moves down to the addition, where r is there too. */
static bool fuse_add(ls_graph *graph, int i)
{
    ls_node *add = &graph->nodes[i];
    if (add->attributes.op != LS_OP_ADD)
        return false;
    for (int side = 0; side < 2; side++) {
        ls_node *norm = sole_norm(graph, add->in[side]);
        if (!norm || norm->attributes.fused_add || add->in[0] == add->in[1])
            continue;
        ls_node joined = *norm;
        joined.attributes.fused_add = 1;
        joined.in[3] = add->in[1 - side];
        joined.out[0] = add->out[0];
        *add = joined;
        ls_graph_remove(graph, (int)(norm - graph->nodes));
        return true;
    }
    return false;
}

static bool fuse_relu(ls_graph *graph, int i)
{
    ls_node *relu = &graph->nodes[i];
    if (relu->attributes.op != LS_OP_RELU)
        return false;
    ls_node *before = sole_producer(graph, relu->in[0], LS_OP_CONV);
    if (!before)
        before = sole_norm(graph, relu->in[0]);
    if (!before)
        return false;
    before->attributes.fused_relu = 1;
    before->out[0] = relu->out[0];
    return true;
}

/* The backward pass finds where a clamp let pass from the BatchNorm's input: for that it must have the statistics,
 * which are constants of a frozen one and come late where shards meet, and there must be nothing added. */
static bool fuse_clamp(ls_graph *graph, int i)
{
    ls_node *clamp = &graph->nodes[i];
    if (clamp->attributes.op != LS_OP_CLAMP || !graph->backend->clamps)
        return false;
    ls_node *norm = sole_producer(graph, clamp->in[0], norm_op(graph));
    if (!norm || norm->attributes.fused_add || (graph->training && ls_statistics_meet(graph->session)))
        return false;
    norm->attributes.fused_clamp = 1;
    norm->attributes.low = clamp->attributes.low;
    norm->attributes.high = clamp->attributes.high;
    norm->out[0] = clamp->out[0];
    return true;
}

/* The bias of a convolution that goes into a BatchNorm and nowhere else changes the running mean alone. */
static void shift(ls_graph *graph, ls_node *norm)
{
    if (norm->attributes.op != norm_op(graph))
        return;
    ls_node *product = sole_producer(graph, norm->in[0], LS_OP_CONV);
    if (!product || !product->in[2])
        return;
    norm->in[5] = product->in[2];
    product->in[2] = NULL;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* The direct convolution whose output goes into this pool and nowhere else. */
static ls_node *pooled_product(const ls_graph *graph, const ls_node *pool)
{
    const int producer = ls_graph_producer(graph, pool->in[0]);
    if (producer < 0 || graph->nodes[producer].attributes.op != LS_OP_CONV || ls_graph_uses(graph, pool->in[0]) != 1)
        return NULL;
    return &graph->nodes[producer];
}

/* Rows and columns of a convolution's output that no window of the pool behind it reads, as the last of 9 behind a pool
 * of 2 x 2, need no numbers: nothing depends on them, and their gradients are zero. */
static void crop(const ls_graph *graph, const ls_node *pool)
{
    const ls_attributes *a = &pool->attributes;
    if (a->op != LS_OP_AVG_POOL && a->op != LS_OP_MAX_POOL)
        return;
    if (!pooled_product(graph, pool))
        return;
    ls_value *y = pool->in[0];
    y->h = least(y->h, (pool->out[0]->h - 1) * a->stride - a->padding + a->kernel);
    y->w = least(y->w, (pool->out[0]->w - 1) * a->stride - a->padding + a->kernel);
}

/* A first layer's convolution, relu and average of 2 x 2: of what lies between, nobody needs more than the signs. */
static bool fuse_pool(ls_graph *graph, int i)
{
    const ls_node *pool = &graph->nodes[i];
    const ls_attributes *p = &pool->attributes;
    if (p->op != LS_OP_AVG_POOL || p->kernel != 2 || p->stride != 2 || p->padding != 0)
        return false;
    ls_node *product = pooled_product(graph, pool);
    const ls_attributes *a = product ? &product->attributes : NULL;
    if (!a || !a->fused_relu || !ls_windows_plain(a) || a->kernel != 3 || a->stride != 1 || a->padding != 0 ||
        product->in[0]->needs_gradient || product->in[0]->c > CONV_POOL_MAX_CHANNELS)
        return false;
    product->attributes.op = LS_OP_CONV_POOL;
    product->attributes.fused_relu = 0;
    product->out[0] = pool->out[0];
    return true;
}

/* By shape alone, so that no machine decides differently. Few channels do not pay for the transforms, nor do maps that
 * fill little of their tiles: Winograd makes at most three fifths of the products. */
static void choose_winograd(ls_node *node)
{
    const ls_attributes *a = &node->attributes;
    if (a->op != LS_OP_CONV || a->weight_in_out || !ls_windows_plain(a) ||
        !ls_winograd_defined(a->kernel, a->stride, a->padding) || node->in[0]->c < WINOGRAD_MIN_CHANNELS ||
        node->out[0]->c < WINOGRAD_MIN_CHANNELS)
        return;
    const ls_value *y = node->out[0];
    const int tile = ls_winograd_tile(a->kernel, a->stride, y->h, y->w);
    const long tiles = (long)((y->h + tile - 1) / tile) * ((y->w + tile - 1) / tile);
    if (5 * tiles * ls_winograd_products(a->kernel, a->stride, tile) <= 3L * y->h * y->w * a->kernel * a->kernel)
        node->attributes.op = LS_OP_WINOGRAD;
}

void ls_graph_fuse(ls_graph *graph)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        if (fuse_bias(graph, i) || fuse_relu(graph, i) || fuse_clamp(graph, i))
            ls_graph_remove(graph, i--);
        else if (fuse_add(graph, i))
            i--;
    }
    for (int i = 0; i < graph->n_nodes && graph->backend->shifts; i++)
        shift(graph, &graph->nodes[i]);
    for (int i = 0; i < graph->n_nodes; i++)
        crop(graph, &graph->nodes[i]);
    for (int i = 0; i < graph->n_nodes && graph->backend->kernel[LS_OP_CONV_POOL]; i++)
        if (fuse_pool(graph, i))
            ls_graph_remove(graph, i--);
    if (graph->session->options.conv == LS_CONV_AUTO && graph->backend->kernel[LS_OP_WINOGRAD])
        for (int i = 0; i < graph->n_nodes; i++)
            choose_winograd(&graph->nodes[i]);
}

/* dx = conv_data(dy, w) + g: the convolution moves down to the addition, where g is there too. */
static bool accumulate(ls_graph *graph, int i)
{
    ls_node *add = &graph->nodes[i];
    if (add->attributes.op != LS_OP_ADD || add->in[0] == add->in[1])
        return false;
    for (int side = 0; side < 2; side++) {
        ls_node *data = sole_producer(graph, add->in[side], LS_OP_CONV_DATA);
        if (!data || data->in[2])
            continue;
        ls_node joined = *data;
        joined.in[2] = add->in[1 - side];
        joined.out[0] = add->out[0];
        *add = joined;
        ls_graph_remove(graph, (int)(data - graph->nodes));
        return true;
    }
    return false;
}

void ls_graph_accumulate(ls_graph *graph)
{
    for (int i = 0; i < graph->n_nodes && graph->backend->accumulates; i++)
        if (accumulate(graph, i))
            i--;
}
