/* The backward pass, one rule for each operation: from the gradients of a node's outputs to those of its inputs. */
#include "graph/graph.h"

typedef struct tape {
    ls_graph *graph;
    ls_value **gradient; /* [value id], NULL where none has arrived */
    int n;               /* forward values: gradients have none of their own */
    /* What the rule at work adds to gradients that are there already: of parameters that are used more than once. */
    struct {
        ls_value *to, *more;
    } again[LS_MAX_OUT];
    int n_again;
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
    node->backward = true;
    return node;
}

static ls_value *like(tape *t, const ls_value *value)
{
    ls_value *made = t->failed ? NULL : ls_graph_like(t->graph, value);
    if (!made)
        t->failed = true;
    return made;
}

/* Emits y = op(a, b, c), y shaped like `shape`. The forward node is passed by value: emitting may move the list. */
static ls_value *apply(tape *t, ls_op op, ls_node forward, ls_value *a, ls_value *b, const ls_value *shape)
{
    ls_value *y = like(t, shape);
    ls_node *node = y ? emit(t, op, &forward) : NULL;
    if (!node)
        return NULL;
    node->in[0] = a;
    node->in[1] = b;
    node->out[0] = y;
    return y;
}

/* Adds a contribution to a value's gradient. */
static void contribute(tape *t, const ls_value *value, ls_value *gradient, ls_node forward)
{
    if (t->failed || !gradient || !value->needs_gradient)
        return;
    if (value->base) { /* a flattened value: its gradient belongs to the value itself, under that shape */
        value = value->base;
        gradient = ls_graph_reshaped(t->graph, gradient, value->tokens, value->c, value->h, value->w);
        t->failed = !gradient;
        if (t->failed)
            return;
    }
    ls_value **held = &t->gradient[value->id];
    forward.attributes = (ls_attributes){.op = LS_OP_ADD};
    *held = *held ? apply(t, LS_OP_ADD, forward, *held, gradient, value) : gradient;
}

/* Where the gradient of a parameter goes: its own place in the shard's partial gradient. That of each further use,
 * which was recorded earlier, goes to the arena, and is added to what is there when the rule has written it. */
static ls_value *gradient_of(tape *t, const ls_value *parameter, int numbers)
{
    if (t->failed || !parameter->needs_gradient)
        return NULL;
    ls_value **held = &t->gradient[parameter->id];
    ls_value *value = ls_graph_value(t->graph, *held ? LS_IN_ARENA : LS_IN_GRADIENTS, numbers, 1, 1, false);
    if (!value) {
        t->failed = true;
        return NULL;
    }
    if (*held) {
        t->again[t->n_again].to = *held;
        t->again[t->n_again++].more = value;
        return value;
    }
    value->offset = t->graph->flat->views[parameter->view].offset;
    *held = value;
    return value;
}

static void add_again(tape *t, const ls_node *forward)
{
    for (int i = 0; i < t->n_again; i++) {
        ls_node *add = emit(t, LS_OP_ADD_SCALED, forward);
        if (!add)
            break;
        add->attributes = (ls_attributes){.op = LS_OP_ADD_SCALED, .factor = 1};
        add->in[0] = add->out[0] = t->again[i].to;
        add->in[1] = t->again[i].more;
    }
    t->n_again = 0;
}

/* Whether the convolution's output goes straight into a BatchNorm of this shard and nowhere else: a constant added to a
 * channel then has no effect, and its gradient is zero by definition. The partial gradient holds zeros there. */
static bool feeds_only_a_norm(const ls_graph *graph, const ls_value *y)
{
    int norms = 0; /* and their gradients, which are there already and read y again */
    for (int i = 0; i < graph->n_nodes; i++) {
        const ls_node *node = &graph->nodes[i];
        norms += (node->attributes.op == LS_OP_BATCH_NORM && node->in[0] == y) ||
                 (node->attributes.op == LS_OP_BATCH_NORM_BACKWARD && node->in[1] == y);
    }
    return norms > 0 && ls_graph_uses(graph, y) == norms;
}

/* Whether these numbers are one value's gradient and nobody else's: an addition hands its own on to both operands. */
static bool belongs_to_one(const tape *t, const ls_value *gradient)
{
    int values = 0;
    for (int i = 0; i < t->n; i++)
        values += t->gradient[i] == gradient;
    return values == 1 && ls_graph_uses(t->graph, gradient) == 0;
}

/* The gradient in front of a fused ReLU. The backward of a pool that reads the ReLU's output masks on its way. */
static ls_value *through_relu(tape *t, ls_node node, ls_value *dy)
{
    if (!node.attributes.fused_relu || t->failed)
        return dy;
    int producer = ls_graph_producer(t->graph, dy);
    ls_node *pool = producer < 0 ? NULL : &t->graph->nodes[producer];
    ls_op op = pool ? pool->attributes.op : LS_OP_COUNT;
    if ((op == LS_OP_AVG_POOL_BACKWARD || op == LS_OP_MAX_POOL_BACKWARD) && belongs_to_one(t, dy)) {
        pool->attributes.fused_relu = 1;
        pool->in[1] = node.out[0];
        return dy;
    }
    return apply(t, LS_OP_RELU_BACKWARD, node, dy, node.out[0], node.out[0]);
}

static void derive_conv(tape *t, ls_node node, ls_value *dy)
{
    bool zero_bias = node.in[2] && !node.attributes.fused_relu && feeds_only_a_norm(t->graph, node.out[0]);
    dy = through_relu(t, node, dy);
    bool winograd = node.attributes.op == LS_OP_WINOGRAD;
    ls_op data = winograd ? LS_OP_WINOGRAD_DATA : LS_OP_CONV_DATA;
    node.attributes.fused_relu = 0;
    ls_value *x = node.in[0], *w = node.in[1], *b = node.in[2];
    ls_value *dw = gradient_of(t, w, w->c);
    ls_node *weight = dw ? emit(t, winograd ? LS_OP_WINOGRAD_WEIGHT : LS_OP_CONV_WEIGHT, &node) : NULL;
    if (weight) {
        weight->in[0] = x;
        weight->in[1] = dy;
        weight->out[0] = dw;
    }
    ls_value *db = b && !zero_bias ? gradient_of(t, b, b->c) : NULL;
    ls_node *bias = db ? emit(t, LS_OP_CHANNEL_SUM, &node) : NULL;
    if (bias) {
        bias->in[0] = dy;
        bias->out[0] = db;
    }
    if (x->needs_gradient)
        contribute(t, x, apply(t, data, node, dy, w, x), node);
}

/* A transposed convolution: a convolution's x has its dy's shape, and dy its x's. */
static void derive_conv_transpose(tape *t, ls_node node, ls_value *dy)
{
    ls_value *x = node.in[0], *w = node.in[1], *dw = gradient_of(t, w, w->c);
    ls_node *weight = dw ? emit(t, LS_OP_CONV_WEIGHT, &node) : NULL;
    if (weight) {
        weight->in[0] = dy;
        weight->in[1] = x;
        weight->out[0] = dw;
    }
    if (x->needs_gradient)
        contribute(t, x, apply(t, LS_OP_CONV, node, dy, w, x), node);
}

/* The forward node, which `node` is a copy of, hands on its map's signs from now on. */
static ls_value *signs_of(tape *t, const ls_node *node)
{
    const ls_value *y = node->out[0];
    ls_value *signs =
        t->failed ? NULL : ls_graph_value(t->graph, LS_IN_ARENA, y->c, 1, ls_op_sign_places(2 * y->h, 2 * y->w), true);
    t->failed = !signs;
    if (signs)
        t->graph->nodes[ls_graph_producer(t->graph, y)].out[1] = signs;
    return signs;
}

static void derive_conv_pool(tape *t, ls_node node, ls_value *dy)
{
    ls_value *w = node.in[1], *b = node.in[2];
    ls_value *dw = gradient_of(t, w, w->c), *db = b ? gradient_of(t, b, b->c) : NULL;
    ls_value *signs = dw || db ? signs_of(t, &node) : NULL;
    ls_node *backward = signs ? emit(t, LS_OP_CONV_POOL_WEIGHT, &node) : NULL;
    if (!backward)
        return;
    backward->in[0] = node.in[0];
    backward->in[1] = dy;
    backward->in[2] = signs;
    backward->out[0] = dw;
    backward->out[1] = db;
}

/* Those of weight and bias, which lie together; of frozen ones nobody reads them. */
static ls_value *gradient_of_affine(tape *t, const ls_value *gamma, const ls_value *beta)
{
    ls_value *dgb = gradient_of(t, gamma, 2 * gamma->c);
    if (dgb && !t->gradient[beta->id])
        t->gradient[beta->id] = dgb;
    else if (!dgb && !t->failed)
        dgb = ls_graph_value(t->graph, LS_IN_ARENA, 2 * gamma->c, 1, 1, false);
    t->failed |= !dgb;
    return dgb;
}

static void derive_batch_norm(tape *t, ls_node node, ls_value *dy)
{
    ls_value *x = node.in[0], *gamma = node.in[1], *beta = node.in[2], *residual = node.in[3];
    ls_value *dgb = gradient_of_affine(t, gamma, beta), *dx = like(t, x),
             *dresidual = node.attributes.fused_add ? like(t, residual) : NULL;
    ls_node *backward = emit(t, LS_OP_BATCH_NORM_BACKWARD, &node);
    if (!backward)
        return;
    backward->in[0] = dy;
    backward->in[1] = x;
    backward->in[2] = gamma;
    backward->in[3] = node.out[1];
    backward->in[4] = node.attributes.fused_relu ? node.out[0] : NULL;
    backward->in[5] =
        (node.attributes.fused_relu || node.attributes.fused_clamp) && !node.attributes.fused_add ? beta : NULL;
    backward->out[0] = dx;
    backward->out[1] = dgb;
    backward->out[2] = dresidual;
    if (residual)
        contribute(t, residual, dresidual, node);
    contribute(t, x, dx, node);
}

/* Its statistics are constants. */
static void derive_frozen_norm(tape *t, ls_node node, ls_value *dy)
{
    ls_value *x = node.in[0], *gamma = node.in[1], *beta = node.in[2];
    if (node.in[5]) { /* a shift takes the bias of the convolution in front, whose gradient would be lost */
        ls_raise(&t->graph->session->context, LS_UNSUPPORTED, "%s: batch_norm_infer has no backward pass on %s",
                 node.layer, t->graph->backend->name);
        t->failed = true;
        return;
    }
    dy = through_relu(t, node, dy);
    node.attributes.fused_relu = 0;
    if (node.attributes.fused_add)
        contribute(t, node.in[3], dy, node);
    node.attributes.fused_add = 0;
    ls_value *dgb = gradient_of_affine(t, gamma, beta), *dx = like(t, x);
    ls_node *backward = emit(t, LS_OP_BATCH_NORM_FROZEN_BACKWARD, &node);
    if (!backward)
        return;
    backward->in[0] = dy;
    backward->in[1] = x;
    backward->in[2] = gamma;
    backward->in[3] = node.in[4];
    backward->out[0] = dx;
    backward->out[1] = dgb;
    contribute(t, x, dx, node);
}

static void derive_add(tape *t, ls_node node, ls_value *dy)
{
    contribute(t, node.in[0], dy, node);
    contribute(t, node.in[1], dy, node);
}

/* The bias of a transposed convolution stands by itself; in front of a BatchNorm it is like any convolution's. */
static void derive_add_bias(tape *t, ls_node node, ls_value *dy)
{
    const int producer = ls_graph_producer(t->graph, node.in[0]);
    const bool transposed = producer >= 0 && t->graph->nodes[producer].attributes.op == LS_OP_CONV_DATA;
    const bool zero = transposed && feeds_only_a_norm(t->graph, node.out[0]);
    ls_value *db = zero ? NULL : gradient_of(t, node.in[1], node.in[1]->c);
    ls_node *sum = db ? emit(t, LS_OP_CHANNEL_SUM, &node) : NULL;
    if (sum) {
        sum->in[0] = dy;
        sum->out[0] = db;
    }
    contribute(t, node.in[0], dy, node);
}

static void derive_relu(tape *t, ls_node node, ls_value *dy)
{
    contribute(t, node.in[0], apply(t, LS_OP_RELU_BACKWARD, node, dy, node.out[0], node.in[0]), node);
}

static void derive_pool(tape *t, ls_node node, ls_value *dy)
{
    static const ls_op backward[LS_OP_COUNT] = {[LS_OP_AVG_POOL] = LS_OP_AVG_POOL_BACKWARD,
                                                [LS_OP_MAX_POOL] = LS_OP_MAX_POOL_BACKWARD,
                                                [LS_OP_GLOBAL_AVG_POOL] = LS_OP_GLOBAL_AVG_POOL_BACKWARD,
                                                [LS_OP_ADAPTIVE_POOL] = LS_OP_ADAPTIVE_POOL_BACKWARD,
                                                [LS_OP_BILINEAR] = LS_OP_BILINEAR_BACKWARD};
    ls_op op = backward[node.attributes.op];
    ls_value *x = node.in[0];
    contribute(t, x, apply(t, op, node, dy, op == LS_OP_MAX_POOL_BACKWARD ? x : NULL, x), node);
}

static void derive_cross_entropy(tape *t, ls_node node, ls_value *dloss)
{
    ls_value *dlogits = like(t, node.in[0]);
    ls_node *backward = dlogits ? emit(t, LS_OP_CROSS_ENTROPY_BACKWARD, &node) : NULL;
    if (!backward)
        return;
    backward->in[0] = dloss;
    backward->in[1] = node.out[1];
    backward->in[2] = node.in[2];
    backward->in[3] = node.in[3];
    backward->out[0] = dlogits;
    contribute(t, node.in[0], dlogits, node);
}

static void derive_multiply(tape *t, ls_node node, ls_value *dy)
{
    for (int k = 0; k < 2; k++)
        if (node.in[k]->needs_gradient)
            contribute(t, node.in[k], apply(t, LS_OP_MULTIPLY, node, dy, node.in[1 - k], node.in[k]), node);
}

static void derive_subtract(tape *t, ls_node node, ls_value *dy)
{
    contribute(t, node.in[0], dy, node);
    node.attributes.factor = -1;
    if (node.in[1]->needs_gradient)
        contribute(t, node.in[1], apply(t, LS_OP_SCALE, node, dy, NULL, node.in[1]), node);
}

/* dx from dy alone. */
static void derive_linear(tape *t, ls_node node, ls_value *dy)
{
    ls_op op = node.attributes.op == LS_OP_SUM ? LS_OP_SUM_BACKWARD : node.attributes.op;
    contribute(t, node.in[0], apply(t, op, node, dy, NULL, node.in[0]), node);
}

/* dx from dy and x, or from dy and y. */
static void derive_function(tape *t, ls_node node, ls_value *dy)
{
    static const struct {
        ls_op backward;
        bool of_output;
    } functions[LS_OP_COUNT] = {
        [LS_OP_TANH] = {LS_OP_TANH_BACKWARD, true},
        [LS_OP_SIGMOID] = {LS_OP_SIGMOID_BACKWARD, true},
        [LS_OP_SOFTMAX] = {LS_OP_SOFTMAX_BACKWARD, true},
        [LS_OP_EXP] = {LS_OP_MULTIPLY, true},
        [LS_OP_LOG] = {LS_OP_DIVIDE, false},
        [LS_OP_LOG_SIGMOID] = {LS_OP_LOG_SIGMOID_BACKWARD, false},
        [LS_OP_SQRT] = {LS_OP_SQRT_BACKWARD, true},
        [LS_OP_ABS] = {LS_OP_ABS_BACKWARD, false},
        [LS_OP_POWER] = {LS_OP_POWER_BACKWARD, false},
        [LS_OP_CLAMP] = {LS_OP_CLAMP_BACKWARD, false},
        [LS_OP_LEAKY_RELU] = {LS_OP_LEAKY_RELU_BACKWARD, false},
        [LS_OP_SILU] = {LS_OP_SILU_BACKWARD, false},
        [LS_OP_GELU] = {LS_OP_GELU_BACKWARD, false},
        [LS_OP_GELU_TANH] = {LS_OP_GELU_TANH_BACKWARD, false},
    };
    const ls_op op = node.attributes.op, backward = functions[op].backward;
    ls_value *x = node.in[0];
    contribute(t, x, apply(t, backward, node, dy, functions[op].of_output ? node.out[0] : x, x), node);
}

/* da = dy / b, db = -(dy * ((a / b) / b)). */
static void derive_divide(tape *t, ls_node node, ls_value *dy)
{
    ls_value *a = node.in[0], *b = node.in[1];
    if (a->needs_gradient)
        contribute(t, a, apply(t, LS_OP_DIVIDE, node, dy, b, a), node);
    if (!b->needs_gradient)
        return;
    ls_value *slope = apply(t, LS_OP_DIVIDE, node, node.out[0], b, b);
    ls_value *product = apply(t, LS_OP_MULTIPLY, node, dy, slope, b);
    node.attributes.factor = -1;
    contribute(t, b, apply(t, LS_OP_SCALE, node, product, NULL, b), node);
}

static void derive_expand(tape *t, ls_node node, ls_value *dy)
{
    contribute(t, node.in[0], apply(t, LS_OP_EXPAND_BACKWARD, node, dy, NULL, node.in[0]), node);
}

/* Of a sum over what EXPAND would repeat. */
static void derive_sum_over(tape *t, ls_node node, ls_value *dy)
{
    contribute(t, node.in[0], apply(t, LS_OP_EXPAND, node, dy, NULL, node.in[0]), node);
}

static void derive_set_norm(tape *t, ls_node node, ls_value *dy)
{
    const ls_op op = node.attributes.op == LS_OP_SET_NORM ? LS_OP_SET_NORM_BACKWARD : LS_OP_RMS_NORM_BACKWARD;
    ls_value *x = node.in[0], *dx = apply(t, op, node, dy, x, x);
    if (dx)
        t->graph->nodes[t->graph->n_nodes - 1].in[2] = node.out[1];
    contribute(t, x, dx, node);
}

static void derive_max_over(tape *t, ls_node node, ls_value *dy)
{
    ls_value *x = node.in[0], *dx = apply(t, LS_OP_MAX_OVER_BACKWARD, node, dy, x, x);
    if (dx)
        t->graph->nodes[t->graph->n_nodes - 1].in[2] = node.out[0];
    contribute(t, x, dx, node);
}

/* One number a channel is a bias, in its gradient too. */
static void derive_expand_weight(tape *t, ls_node node, ls_value *dy)
{
    const ls_value *w = node.in[0];
    const bool channels = w->c == dy->c && w->h == 1 && w->w == 1;
    ls_value *dw = gradient_of(t, w->base, w->base->c);
    ls_value *shaped = dw ? ls_graph_reshaped(t->graph, dw, 1, w->c, w->h, w->w) : NULL;
    ls_node *sum = shaped ? emit(t, channels ? LS_OP_CHANNEL_SUM : LS_OP_EXPAND_WEIGHT_BACKWARD, &node) : NULL;
    t->failed |= dw && !sum;
    if (!sum)
        return;
    sum->in[0] = dy;
    sum->out[0] = shaped;
}

/* The operation that puts each number back. */
static void derive_view(tape *t, ls_node node, ls_value *dy)
{
    ls_attributes *back = &node.attributes;
    const ls_attributes there = *back;
    for (int d = 0; d < 3; d++) {
        back->axes[there.axes[d]] = d;
        back->shift[there.axes[d]] = -there.shift[d];
    }
    back->factor = 0;
    contribute(t, node.in[0], apply(t, LS_OP_VIEW, node, dy, NULL, node.in[0]), node);
}

static void derive_concat(tape *t, ls_node node, ls_value *dy)
{
    ls_attributes *part = &node.attributes;
    const int axis = part->axis;
    for (int d = 0; d < 3; d++)
        part->axes[d] = d;
    for (int k = 0; k < LS_MAX_IN && node.in[k]; k++) {
        const ls_value *x = node.in[k];
        if (x->needs_gradient)
            contribute(t, x, apply(t, LS_OP_VIEW, node, dy, NULL, x), node);
        part->shift[axis] -= axis == 0 ? x->c : axis == 1 ? x->h : x->w;
    }
}

/* With A and B as they are read: dA = dy B' and dB = A' dy, or what these are when they are transposed. */
static void derive_batch_matmul(tape *t, ls_node node, ls_value *dy)
{
    ls_value *a = node.in[0], *b = node.in[1];
    const int of_a = node.attributes.transposed[0], of_b = node.attributes.transposed[1];
    int *const transposed = node.attributes.transposed;
    if (a->needs_gradient) {
        transposed[0] = of_a ? of_b : 0;
        transposed[1] = of_a ? 1 : !of_b;
        contribute(t, a, apply(t, LS_OP_BATCH_MATMUL, node, of_a ? b : dy, of_a ? dy : b, a), node);
    }
    if (!b->needs_gradient)
        return;
    transposed[0] = of_b ? 1 : !of_a;
    transposed[1] = of_b ? of_a : 0;
    contribute(t, b, apply(t, LS_OP_BATCH_MATMUL, node, of_b ? dy : a, of_b ? a : dy, b), node);
}

static void derive_embedding(tape *t, ls_node node, ls_value *dy)
{
    const ls_value *table = node.in[1];
    ls_value *dtable = gradient_of(t, table, table->c);
    ls_node *backward = dtable ? emit(t, LS_OP_EMBEDDING_BACKWARD, &node) : NULL;
    if (!backward)
        return;
    backward->in[0] = dy;
    backward->in[1] = node.in[0];
    backward->out[0] = dtable;
}

/* The same numbers of each image as tokens, each an image of so many features. */
static ls_value *by_tokens(tape *t, ls_value *value)
{
    ls_value *made = t->failed || !value ? NULL : ls_graph_reshaped(t->graph, value, value->c, value->h, 1, 1);
    t->failed |= !made;
    return made;
}

/* The gradients of a recurrent layer's weights and bias are those of a linear layer over the tokens, from y at the
 * token before: no kernel is new, and all tokens are one product. */
static void derive_recurrent_weights(tape *t, ls_node node, ls_value *da)
{
    ls_value *w = node.in[1], *b = node.in[2], *y = node.out[0];
    const int stride = node.attributes.stride;
    ls_value *dw = gradient_of(t, w, w->c), *db = b ? gradient_of(t, b, b->c) : NULL;
    ls_value *slopes = dw || db ? by_tokens(t, da) : NULL;
    node.attributes = (ls_attributes){.axes = {0, 1, 2}, .shift = {stride, 0, 0}};
    ls_value *before = dw ? by_tokens(t, apply(t, LS_OP_VIEW, node, y, NULL, y)) : NULL;
    node.attributes = (ls_attributes){.kernel = 1, .stride = 1};
    ls_node *weight = before ? emit(t, LS_OP_CONV_WEIGHT, &node) : NULL;
    if (weight) {
        weight->in[0] = before;
        weight->in[1] = slopes;
        weight->out[0] = dw;
    }
    ls_node *bias = db ? emit(t, LS_OP_CHANNEL_SUM, &node) : NULL;
    if (bias) {
        bias->in[0] = slopes;
        bias->out[0] = db;
    }
}

static void derive_recurrent(tape *t, ls_node node, ls_value *dy)
{
    const bool lstm = node.attributes.op == LS_OP_LSTM;
    ls_value *p = node.in[0], *dp = like(t, p), *da = lstm ? dp : like(t, p);
    ls_node *backward = da ? emit(t, lstm ? LS_OP_LSTM_BACKWARD : LS_OP_GRU_BACKWARD, &node) : NULL;
    if (!backward)
        return;
    backward->in[0] = dy;
    backward->in[1] = node.out[1];
    backward->in[2] = node.in[1];
    backward->in[3] = node.in[3];
    backward->in[4] = lstm ? NULL : node.out[0];
    backward->out[0] = dp;
    backward->out[1] = lstm ? NULL : da;
    derive_recurrent_weights(t, node, da);
    contribute(t, p, dp, node);
}

static void derive_last_token(tape *t, ls_node node, ls_value *dy)
{
    contribute(t, node.in[0], apply(t, LS_OP_LAST_TOKEN_BACKWARD, node, dy, node.in[1], node.in[0]), node);
}

/* All three at once: they are made of the same pairs. */
static void derive_attention(tape *t, ls_node node, ls_value *dy)
{
    ls_value *slopes[3];
    for (int k = 0; k < 3; k++)
        slopes[k] = like(t, node.in[k]);
    ls_node *backward = emit(t, LS_OP_ATTENTION_BACKWARD, &node);
    if (!backward)
        return;
    backward->in[0] = dy;
    for (int k = 0; k < 3; k++) {
        backward->in[1 + k] = node.in[k];
        backward->out[k] = slopes[k];
    }
    backward->in[4] = node.out[0];
    backward->in[5] = node.out[1];
    for (int k = 0; k < 3; k++)
        contribute(t, node.in[k], slopes[k], node);
}

static void derive_squared_error(tape *t, ls_node node, ls_value *dy)
{
    for (int k = 0; k < 2; k++) {
        if (!node.in[k]->needs_gradient)
            continue;
        ls_value *d = like(t, node.in[k]);
        ls_node *backward = d ? emit(t, LS_OP_SQUARED_ERROR_BACKWARD, &node) : NULL;
        if (!backward)
            return;
        backward->in[0] = dy;
        backward->in[1] = node.in[k];
        backward->in[2] = node.in[1 - k];
        backward->out[0] = d;
        contribute(t, node.in[k], d, node);
    }
}

static void derive_custom(tape *t, ls_node node, ls_value *dy)
{
    const ls_custom *op = node.attributes.custom;
    ls_value *d[LS_CUSTOM_INPUTS] = {NULL};
    if (!op->backward) {
        ls_raise(&t->graph->session->context, LS_UNSUPPORTED, "%s has no backward pass", op->name);
        t->failed = true;
        return;
    }
    for (int k = 0; k < op->inputs; k++)
        if (node.in[k]->needs_gradient)
            d[k] = node.in[k]->per_image ? like(t, node.in[k]) : gradient_of(t, node.in[k], node.in[k]->c);
    ls_node *backward = emit(t, LS_OP_CUSTOM_BACKWARD, &node);
    if (!backward)
        return;
    for (int k = 0; k < op->inputs; k++) {
        backward->in[k] = node.in[k];
        backward->out[k] = d[k];
    }
    backward->in[LS_CUSTOM_INPUTS] = node.out[0];
    backward->in[LS_CUSTOM_INPUTS + 1] = dy;
    for (int k = 0; k < op->inputs; k++)
        if (node.in[k]->per_image)
            contribute(t, node.in[k], d[k], node);
}

typedef void rule(tape *t, ls_node node, ls_value *dy);
static rule *const rules[LS_OP_COUNT] = {
    [LS_OP_CONV] = derive_conv,
    [LS_OP_CONV_DATA] = derive_conv_transpose,
    [LS_OP_WINOGRAD] = derive_conv,
    [LS_OP_CONV_POOL] = derive_conv_pool,
    [LS_OP_BATCH_NORM] = derive_batch_norm,
    [LS_OP_BATCH_NORM_INFER] = derive_frozen_norm,
    [LS_OP_ADD] = derive_add,
    [LS_OP_ADD_BIAS] = derive_add_bias,
    [LS_OP_RELU] = derive_relu,
    [LS_OP_AVG_POOL] = derive_pool,
    [LS_OP_MAX_POOL] = derive_pool,
    [LS_OP_GLOBAL_AVG_POOL] = derive_pool,
    [LS_OP_DROPOUT] = derive_linear,
    [LS_OP_CROSS_ENTROPY] = derive_cross_entropy,
    [LS_OP_MULTIPLY] = derive_multiply,
    [LS_OP_SUBTRACT] = derive_subtract,
    [LS_OP_SCALE] = derive_linear,
    [LS_OP_DIVIDE] = derive_divide,
    [LS_OP_TANH] = derive_function,
    [LS_OP_SIGMOID] = derive_function,
    [LS_OP_EXP] = derive_function,
    [LS_OP_LOG] = derive_function,
    [LS_OP_LOG_SIGMOID] = derive_function,
    [LS_OP_SQRT] = derive_function,
    [LS_OP_ABS] = derive_function,
    [LS_OP_POWER] = derive_function,
    [LS_OP_CLAMP] = derive_function,
    [LS_OP_LEAKY_RELU] = derive_function,
    [LS_OP_SILU] = derive_function,
    [LS_OP_GELU] = derive_function,
    [LS_OP_GELU_TANH] = derive_function,
    [LS_OP_SOFTMAX] = derive_function,
    [LS_OP_EXPAND] = derive_expand,
    [LS_OP_EXPAND_WEIGHT] = derive_expand_weight,
    [LS_OP_EXPAND_BACKWARD] = derive_sum_over,
    [LS_OP_SET_NORM] = derive_set_norm,
    [LS_OP_RMS_NORM] = derive_set_norm,
    [LS_OP_MAX_OVER] = derive_max_over,
    [LS_OP_ADAPTIVE_POOL] = derive_pool,
    [LS_OP_BILINEAR] = derive_pool,
    [LS_OP_CONCAT] = derive_concat,
    [LS_OP_VIEW] = derive_view,
    [LS_OP_BATCH_MATMUL] = derive_batch_matmul,
    [LS_OP_ATTENTION] = derive_attention,
    [LS_OP_EMBEDDING] = derive_embedding,
    [LS_OP_LSTM] = derive_recurrent,
    [LS_OP_GRU] = derive_recurrent,
    [LS_OP_LAST_TOKEN] = derive_last_token,
    [LS_OP_SUM] = derive_linear,
    [LS_OP_SQUARED_ERROR] = derive_squared_error,
    [LS_OP_CUSTOM] = derive_custom,
};

/* The gradients that arrived at the inputs; all but parameters have them in the arena. */
static void collect(const tape *t, ls_value *const x[], ls_value *dx[], int n)
{
    for (int i = 0; i < n; i++)
        dx[i] = t->gradient[x[i]->id];
}

ls_status ls_graph_differentiate(ls_graph *graph, ls_value *y, ls_value *dy, ls_value *const x[], ls_value *dx[], int n)
{
    ls_context *context = &graph->session->context;
    tape t = {.graph = graph, .n = graph->n_values};
    t.gradient = ls_alloc(context, (size_t)t.n, sizeof *t.gradient, "the backward pass");
    if (!t.gradient)
        return LS_OUT_OF_MEMORY;
    int forward = graph->n_nodes;
    ls_node start = {.layer = "loss"};
    contribute(&t, y, dy ? dy : apply(&t, LS_OP_ONES, start, NULL, NULL, y), start);
    for (int i = forward - 1; i >= 0 && !t.failed; i--) {
        ls_node node = graph->nodes[i];
        ls_value *arrived = node.out[0] && node.out[0]->id < t.n ? t.gradient[node.out[0]->id] : NULL;
        rule *derive = rules[node.attributes.op];
        if (!arrived || !node.out[0]->needs_gradient || node.attributes.op == LS_OP_INPUT)
            continue; /* an input's gradient stays where it arrived, for `collect` */
        if (derive) {
            derive(&t, node, arrived);
            add_again(&t, &node);
        } else
            t.failed =
                ls_raise(context, LS_UNSUPPORTED, "%s has no backward pass", ls_op_name(node.attributes.op)) != LS_OK;
    }
    collect(&t, x, dx, n);
    ls_release(context, t.gradient);
    return t.failed ? ls_context_status(context) : LS_OK;
}
