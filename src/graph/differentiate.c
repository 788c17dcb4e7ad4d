/* The backward pass, one rule for each operation: from the gradients of a node's outputs to those of its inputs. */
#include "graph/graph.h"

typedef struct tape {
    ls_graph *graph;
    ls_tensor **gradient; /* [value id], NULL where none has arrived */
    int n;                /* forward values: gradients have none of their own */
    bool failed;
} tape;

static ls_node *emit(tape *t, ls_op op, const ls_node *forward)
{
    ls_node *node = t->failed ? NULL : ls_graph_node(t->graph, op, forward->layer);
    if (!node) {
        t->failed = true;
        return NULL;
    }
    node->attributes = forward->attributes;
    node->attributes.op = op;
    return node;
}

static ls_tensor *like(tape *t, const ls_tensor *value)
{
    ls_tensor *made = t->failed ? NULL : ls_graph_like(t->graph, value);
    if (!made)
        t->failed = true;
    return made;
}

/* Emits y = op(a, b, c), y shaped like `shape`. The forward node is passed by value: emitting may move the list. */
static ls_tensor *apply(tape *t, ls_op op, ls_node forward, ls_tensor *a, ls_tensor *b, const ls_tensor *shape)
{
    ls_tensor *y = like(t, shape);
    ls_node *node = y ? emit(t, op, &forward) : NULL;
    if (!node)
        return NULL;
    node->in[0] = a;
    node->in[1] = b;
    node->out[0] = y;
    return y;
}

/* Adds a contribution to a value's gradient. */
static void contribute(tape *t, const ls_tensor *value, ls_tensor *gradient, ls_node forward)
{
    if (t->failed || !gradient || !value->needs_gradient)
        return;
    if (value->base) { /* a flattened value: its gradient belongs to the value itself, under that shape */
        value = value->base;
        gradient = ls_graph_reshaped(t->graph, gradient, value->c, value->h, value->w);
        t->failed = !gradient;
        if (t->failed)
            return;
    }
    ls_tensor **held = &t->gradient[value->id];
    forward.attributes = (ls_attributes){.op = LS_OP_ADD};
    *held = *held ? apply(t, LS_OP_ADD, forward, *held, gradient, value) : gradient;
}

/* Where the gradient of a parameter goes: its own place in the shard's partial gradient. */
static ls_tensor *gradient_of(tape *t, const ls_tensor *parameter, int numbers)
{
    if (t->failed)
        return NULL;
    if (t->gradient[parameter->id]) {
        ls_raise(&t->graph->session->context, LS_UNSUPPORTED, "parameter %s is used by two operations of one network",
                 t->graph->flat->views[parameter->view].name);
        t->failed = true;
        return NULL;
    }
    ls_tensor *value = ls_graph_value(t->graph, LS_IN_GRADIENTS, numbers, 1, 1, false);
    if (!value) {
        t->failed = true;
        return NULL;
    }
    value->offset = parameter->offset;
    t->gradient[parameter->id] = value;
    return value;
}

/* Whether the convolution's output goes straight into a BatchNorm of this shard and nowhere else: a constant added to a
 * channel then has no effect, and its gradient is zero by definition. The partial gradient holds zeros there. */
static bool feeds_only_a_norm(const ls_graph *graph, const ls_tensor *y)
{
    bool norm = false;
    for (int i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].attributes.op == LS_OP_BATCH_NORM && graph->nodes[i].in[0] == y)
            norm = true;
    return norm && ls_graph_uses(graph, y) == 1;
}

/* The gradient in front of a fused ReLU. A pool's backward that reads the same value masks on its way. */
static ls_tensor *through_relu(tape *t, ls_node node, ls_tensor *dy)
{
    if (!node.attributes.fused_relu || t->failed)
        return dy;
    int producer = ls_graph_producer(t->graph, dy);
    ls_node *pool = producer < 0 ? NULL : &t->graph->nodes[producer];
    ls_op op = pool ? pool->attributes.op : LS_OP_COUNT;
    if ((op == LS_OP_AVG_POOL_BACKWARD || op == LS_OP_MAX_POOL_BACKWARD) && ls_graph_uses(t->graph, dy) == 0) {
        pool->attributes.fused_relu = 1;
        pool->in[1] = node.out[0];
        return dy;
    }
    return apply(t, LS_OP_RELU_BACKWARD, node, dy, node.out[0], node.out[0]);
}

static void derive_conv(tape *t, ls_node node, ls_tensor *dy)
{
    bool zero_bias = node.in[2] && !node.attributes.fused_relu && feeds_only_a_norm(t->graph, node.out[0]);
    dy = through_relu(t, node, dy);
    bool winograd = node.attributes.op == LS_OP_WINOGRAD;
    ls_op data = winograd ? LS_OP_WINOGRAD_DATA : LS_OP_CONV_DATA;
    node.attributes.fused_relu = 0;
    ls_tensor *x = node.in[0], *w = node.in[1], *b = node.in[2];
    ls_tensor *dw = gradient_of(t, w, w->c);
    ls_node *weight = dw ? emit(t, winograd ? LS_OP_WINOGRAD_WEIGHT : LS_OP_CONV_WEIGHT, &node) : NULL;
    if (!weight)
        return;
    weight->in[0] = x;
    weight->in[1] = dy;
    weight->out[0] = dw;
    ls_tensor *db = b && !zero_bias ? gradient_of(t, b, b->c) : NULL;
    ls_node *bias = db ? emit(t, LS_OP_CHANNEL_SUM, &node) : NULL;
    if (bias) {
        bias->in[0] = dy;
        bias->out[0] = db;
    }
    if (x->needs_gradient)
        contribute(t, x, apply(t, data, node, dy, w, x), node);
}

static void derive_batch_norm(tape *t, ls_node node, ls_tensor *dy)
{
    ls_tensor *x = node.in[0], *gamma = node.in[1], *beta = node.in[2], *residual = node.in[3];
    ls_tensor *dgb = gradient_of(t, gamma, 2 * gamma->c);
    if (dgb)
        t->gradient[beta->id] = dgb;
    ls_tensor *dx = like(t, x), *dresidual = node.attributes.fused_add ? like(t, residual) : NULL;
    ls_node *backward = emit(t, LS_OP_BATCH_NORM_BACKWARD, &node);
    if (!backward)
        return;
    backward->in[0] = dy;
    backward->in[1] = x;
    backward->in[2] = gamma;
    backward->in[3] = node.out[1];
    backward->in[4] = node.attributes.fused_relu ? node.out[0] : NULL;
    backward->out[0] = dx;
    backward->out[1] = dgb;
    backward->out[2] = dresidual;
    if (residual)
        contribute(t, residual, dresidual, node);
    contribute(t, x, dx, node);
}

static void derive_add(tape *t, ls_node node, ls_tensor *dy)
{
    contribute(t, node.in[0], dy, node);
    contribute(t, node.in[1], dy, node);
}

static void derive_add_bias(tape *t, ls_node node, ls_tensor *dy)
{
    ls_tensor *db = gradient_of(t, node.in[1], node.in[1]->c);
    ls_node *sum = db ? emit(t, LS_OP_CHANNEL_SUM, &node) : NULL;
    if (!sum)
        return;
    sum->in[0] = dy;
    sum->out[0] = db;
    contribute(t, node.in[0], dy, node);
}

static void derive_relu(tape *t, ls_node node, ls_tensor *dy)
{
    contribute(t, node.in[0], apply(t, LS_OP_RELU_BACKWARD, node, dy, node.out[0], node.in[0]), node);
}

static void derive_pool(tape *t, ls_node node, ls_tensor *dy)
{
    static const ls_op backward[LS_OP_COUNT] = {[LS_OP_AVG_POOL] = LS_OP_AVG_POOL_BACKWARD,
                                                [LS_OP_MAX_POOL] = LS_OP_MAX_POOL_BACKWARD,
                                                [LS_OP_GLOBAL_AVG_POOL] = LS_OP_GLOBAL_AVG_POOL_BACKWARD};
    ls_op op = backward[node.attributes.op];
    ls_tensor *x = node.in[0];
    contribute(t, x, apply(t, op, node, dy, op == LS_OP_MAX_POOL_BACKWARD ? x : NULL, x), node);
}

static void derive_dropout(tape *t, ls_node node, ls_tensor *dy)
{
    contribute(t, node.in[0], apply(t, LS_OP_DROPOUT, node, dy, NULL, node.in[0]), node);
}

static void derive_cross_entropy(tape *t, ls_node node, ls_tensor *dloss)
{
    contribute(t, node.in[0], apply(t, LS_OP_CROSS_ENTROPY_BACKWARD, node, dloss, node.out[1], node.in[0]), node);
}

typedef void rule(tape *t, ls_node node, ls_tensor *dy);
static rule *const rules[LS_OP_COUNT] = {
    [LS_OP_CONV] = derive_conv,
    [LS_OP_WINOGRAD] = derive_conv,
    [LS_OP_BATCH_NORM] = derive_batch_norm,
    [LS_OP_ADD] = derive_add,
    [LS_OP_ADD_BIAS] = derive_add_bias,
    [LS_OP_RELU] = derive_relu,
    [LS_OP_AVG_POOL] = derive_pool,
    [LS_OP_MAX_POOL] = derive_pool,
    [LS_OP_GLOBAL_AVG_POOL] = derive_pool,
    [LS_OP_DROPOUT] = derive_dropout,
    [LS_OP_CROSS_ENTROPY] = derive_cross_entropy,
};

ls_status ls_graph_differentiate(ls_graph *graph, ls_tensor *loss)
{
    ls_context *context = &graph->session->context;
    tape t = {.graph = graph, .n = graph->n_values};
    t.gradient = ls_alloc(context, (size_t)t.n, sizeof *t.gradient, "the backward pass");
    if (!t.gradient)
        return LS_OUT_OF_MEMORY;
    int forward = graph->n_nodes;
    ls_node start = {.layer = "loss"};
    ls_tensor *ones = apply(&t, LS_OP_ONES, start, NULL, NULL, loss);
    t.gradient[loss->id] = ones;
    for (int i = forward - 1; i >= 0 && !t.failed; i--) {
        ls_node node = graph->nodes[i];
        ls_tensor *dy = node.out[0] && node.out[0]->id < t.n ? t.gradient[node.out[0]->id] : NULL;
        rule *derive = rules[node.attributes.op];
        if (!dy || !node.out[0]->needs_gradient)
            continue;
        if (derive)
            derive(&t, node, dy);
        else
            t.failed =
                ls_raise(context, LS_UNSUPPORTED, "%s has no backward pass", ls_op_name(node.attributes.op)) != LS_OK;
    }
    ls_release(context, t.gradient);
    return t.failed ? ls_context_status(context) : LS_OK;
}
