/* The reference's backward operations against finite differences of its forward ones.
 *
 * f(input) = sum of r * y with random r, added in double. For each input a random direction of +-1 is drawn until the
 * gradient's product with it is a good part of its length: then a wrong sign or factor cannot hide behind the
 * tolerance. The steps that the float inputs really take are used, so that linear operations are exact to rounding. */
#include "gradient_chain.h"

#include <lockstep.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The chains ---- */

static void prepare_add_bias(chain *t)
{
    add_activation(t);
    add_vector(t, t->c);
    set_output(t, t->c, t->h, t->w);
}

static void forward_add_bias(chain *t)
{
    run(t, LS_OP_ADD_BIAS, IN(t->in[0], t->in[1]), OUT(t->y));
}

static void backward_add_bias(chain *t)
{
    memcpy(t->gradient[0].data, t->dy.data, test_lane_numbers(&t->dy, t->count) * sizeof(float));
    run(t, LS_OP_CHANNEL_SUM, IN(t->dy), OUT(t->gradient[1]));
}

static void forward_relu(chain *t)
{
    run(t, LS_OP_RELU, IN(t->in[0]), OUT(t->y));
}

static void backward_relu(chain *t)
{
    run(t, LS_OP_RELU_BACKWARD, IN(t->dy, t->y), OUT(t->gradient[0]));
}

static void prepare_global_avg_pool(chain *t)
{
    add_activation(t);
    set_output(t, t->c, 1, 1);
}

static void forward_global_avg_pool(chain *t)
{
    run(t, LS_OP_GLOBAL_AVG_POOL, IN(t->in[0]), OUT(t->y));
}

static void backward_global_avg_pool(chain *t)
{
    run(t, LS_OP_GLOBAL_AVG_POOL_BACKWARD, IN(t->dy), OUT(t->gradient[0]));
}

static void prepare_batch_norm(chain *t)
{
    add_activation(t);
    add_vector(t, t->c);
    add_vector(t, t->c);
    if (t->how.fused_add) {
        add_activation(t);
    }
    set_output(t, t->c, t->h, t->w);
    t->saved = test_vector(&t->random, 2 * (size_t)t->c);
    t->statistics = test_vector(&t->random, 2 * (size_t)t->c);
}

static void forward_batch_norm(chain *t)
{
    run(t, LS_OP_BATCH_NORM, IN(t->in[0], t->in[1], t->in[2], t->in[3]), OUT(t->y, t->saved, t->statistics));
}

static void backward_batch_norm(chain *t)
{
    run(t, LS_OP_BATCH_NORM_BACKWARD, IN(t->dy, t->in[0], t->in[1], t->saved, t->y),
        OUT(t->gradient[0], t->statistics, t->gradient[3]));
    memcpy(t->gradient[1].data, t->statistics.data, t->c * sizeof(float));
    memcpy(t->gradient[2].data, t->statistics.data + t->c, t->c * sizeof(float));
}

/* `saved` has the running statistics. */
static void prepare_frozen_norm(chain *t)
{
    prepare_batch_norm(t);
    for (int c = t->c; c < 2 * t->c; c++)
        t->saved.data[c] = 0.5f + fabsf(t->saved.data[c]);
}

static void forward_frozen_norm(chain *t)
{
    run(t, LS_OP_BATCH_NORM_INFER, IN(t->in[0], t->in[1], t->in[2], {0}, t->saved), OUT(t->y));
}

static void backward_frozen_norm(chain *t)
{
    run(t, LS_OP_BATCH_NORM_FROZEN_BACKWARD, IN(t->dy, t->in[0], t->in[1], t->saved),
        OUT(t->gradient[0], t->statistics));
    memcpy(t->gradient[1].data, t->statistics.data, t->c * sizeof(float));
    memcpy(t->gradient[2].data, t->statistics.data + t->c, t->c * sizeof(float));
}

static void forward_dropout(chain *t)
{
    run(t, LS_OP_DROPOUT, IN(t->in[0]), OUT(t->y));
}

static void backward_dropout(chain *t)
{
    run(t, LS_OP_DROPOUT, IN(t->dy), OUT(t->gradient[0]));
}

/* `o` says what it is told besides: 1 weights of classes, 2 targets for labels, 4 labels that are ignored. These are no
 * inputs that are stepped. */
static void prepare_cross_entropy(chain *t)
{
    add_activation(t);
    set_output(t, 1, t->h, t->w);
    t->middle = like(t, &t->in[0], 1);
    test_batch_label(&t->batch, t->h * t->w, t->c, t->o & 4);
    if (t->o & 1)
        t->saved = test_vector(&t->random, (size_t)t->c);
    if (t->o & 2)
        t->statistics = test_activation(&t->random, t->c, t->h, t->w, t->count);
}

static void forward_cross_entropy(chain *t)
{
    run(t, LS_OP_CROSS_ENTROPY, IN(t->in[0], {NULL, 0, 0, 0}, t->saved, t->statistics), OUT(t->y, t->middle));
}

static void backward_cross_entropy(chain *t)
{
    run(t, LS_OP_CROSS_ENTROPY_BACKWARD, IN(t->dy, t->middle, t->saved, t->statistics), OUT(t->gradient[0]));
}

/* Any operation of one input that keeps its shape, and one whose backward reads y. */
static void forward_own(chain *t)
{
    run(t, t->how.op, IN(t->in[0]), OUT(t->y));
}

static void backward_tanh(chain *t)
{
    run(t, LS_OP_TANH_BACKWARD, IN(t->dy, t->y), OUT(t->gradient[0]));
}

static void backward_sigmoid(chain *t)
{
    run(t, LS_OP_SIGMOID_BACKWARD, IN(t->dy, t->y), OUT(t->gradient[0]));
}

static void backward_softmax(chain *t)
{
    run(t, LS_OP_SOFTMAX_BACKWARD, IN(t->dy, t->y), OUT(t->gradient[0]));
}

static void backward_scale(chain *t)
{
    run(t, LS_OP_SCALE, IN(t->dy), OUT(t->gradient[0]));
}

/* A function of one number whose backward operation reads x. */
static void backward_function(chain *t)
{
    static const ls_op backward[LS_OP_COUNT] = {
        [LS_OP_LOG] = LS_OP_DIVIDE,
        [LS_OP_LOG_SIGMOID] = LS_OP_LOG_SIGMOID_BACKWARD,
        [LS_OP_ABS] = LS_OP_ABS_BACKWARD,
        [LS_OP_POWER] = LS_OP_POWER_BACKWARD,
        [LS_OP_CLAMP] = LS_OP_CLAMP_BACKWARD,
        [LS_OP_LEAKY_RELU] = LS_OP_LEAKY_RELU_BACKWARD,
        [LS_OP_SILU] = LS_OP_SILU_BACKWARD,
        [LS_OP_GELU] = LS_OP_GELU_BACKWARD,
        [LS_OP_GELU_TANH] = LS_OP_GELU_TANH_BACKWARD,
    };
    run(t, backward[t->how.op], IN(t->dy, t->in[0]), OUT(t->gradient[0]));
}

static void backward_exp(chain *t)
{
    run(t, LS_OP_MULTIPLY, IN(t->dy, t->y), OUT(t->gradient[0]));
}

static void backward_sqrt(chain *t)
{
    run(t, LS_OP_SQRT_BACKWARD, IN(t->dy, t->y), OUT(t->gradient[0]));
}

static void make_positive(chain *t, ls_operand *x)
{
    for (size_t i = 0; i < test_lane_numbers(x, t->count); i++) {
        x->data[i] = 0.5f + fabsf(x->data[i]);
    }
}

static void prepare_positive(chain *t)
{
    prepare_same(t);
    make_positive(t, &t->in[0]);
}

/* No step goes over a corner: 0, and the bounds of CLAMP where these are whole hundredths. */
static void prepare_spread(chain *t)
{
    prepare_same(t);
    spread(t, &t->in[0]);
}

static void prepare_pair(chain *t)
{
    add_activation(t);
    add_activation(t);
    set_output(t, t->c, t->h, t->w);
}

static void prepare_fraction(chain *t)
{
    prepare_pair(t);
    make_positive(t, &t->in[1]);
    t->middle = like(t, &t->y, 1);
    t->dmiddle = like(t, &t->y, 1);
}

static void backward_divide(chain *t)
{
    run(t, LS_OP_DIVIDE, IN(t->dy, t->in[1]), OUT(t->gradient[0]));
    run(t, LS_OP_DIVIDE, IN(t->y, t->in[1]), OUT(t->middle));
    run(t, LS_OP_MULTIPLY, IN(t->dy, t->middle), OUT(t->dmiddle));
    t->how.factor = -1;
    run(t, LS_OP_SCALE, IN(t->dmiddle), OUT(t->gradient[1]));
}

static void forward_pair(chain *t)
{
    run(t, t->how.op, IN(t->in[0], t->in[1]), OUT(t->y));
}

static void backward_multiply(chain *t)
{
    run(t, LS_OP_MULTIPLY, IN(t->dy, t->in[1]), OUT(t->gradient[0]));
    run(t, LS_OP_MULTIPLY, IN(t->dy, t->in[0]), OUT(t->gradient[1]));
}

static void backward_subtract(chain *t)
{
    memcpy(t->gradient[0].data, t->dy.data, test_lane_numbers(&t->dy, t->count) * sizeof(float));
    t->how.factor = -1;
    run(t, LS_OP_SCALE, IN(t->dy), OUT(t->gradient[1]));
}

static void prepare_sum(chain *t)
{
    add_activation(t);
    set_output(t, 1, 1, 1);
}

static void backward_sum(chain *t)
{
    run(t, LS_OP_SUM_BACKWARD, IN(t->dy), OUT(t->gradient[0]));
}

static void prepare_squared_error(chain *t)
{
    add_activation(t);
    add_activation(t);
    set_output(t, 1, 1, 1);
}

static void backward_squared_error(chain *t)
{
    run(t, LS_OP_SQUARED_ERROR_BACKWARD, IN(t->dy, t->in[0], t->in[1]), OUT(t->gradient[0]));
    run(t, LS_OP_SQUARED_ERROR_BACKWARD, IN(t->dy, t->in[1], t->in[0]), OUT(t->gradient[1]));
}

/* A user's operation: y = x * w, w being a parameter of one image's size. */
static void weigh(const ls_custom_call *call, const float *const in[], float *out)
{
    for (int i = 0; i < call->rows * call->in[1][0]; i++) {
        out[i] = in[0][i] * in[1][i % call->in[1][0]];
    }
}

static void weigh_backward(const ls_custom_call *call, const float *const in[], const float *out, const float *dout,
                           float *const din[])
{
    (void)out;
    for (int i = 0; i < call->rows * call->in[1][0]; i++) {
        if (din[0]) {
            din[0][i] = dout[i] * in[1][i % call->in[1][0]];
        }
        din[1][i % call->in[1][0]] += dout[i] * in[0][i];
    }
}

static const ls_custom weighing = {.name = "weigh", .inputs = 2, .forward = weigh, .backward = weigh_backward};

static void prepare_custom(chain *t)
{
    t->how.custom = &weighing;
    t->how.parameters = 1u << 1;
    add_activation(t);
    add_vector(t, t->c * t->h * t->w);
    set_output(t, t->c, t->h, t->w);
}

static void backward_custom(chain *t)
{
    ls_operand nowhere = {NULL, 0, 0, 0}; /* an input's gradient may be absent */
    run(t, LS_OP_CUSTOM_BACKWARD, IN(t->in[0], t->in[1], nowhere, t->y, t->dy), OUT(nowhere, t->gradient[1]));
    run(t, LS_OP_CUSTOM_BACKWARD, IN(t->in[0], t->in[1], nowhere, t->y, t->dy), OUT(t->gradient[0], t->gradient[1]));
}

/* c, h, w, o and the images; kernel, stride and padding. */
#define SHAPE(...)       __VA_ARGS__
#define WINDOW(k, s, p)  .how.kernel = k, .how.stride = s, .how.padding = p
#define STEPS(what, how) .prepare = prepare_##what, .forward = forward_##how, .backward = backward_##how
#define OWN(name, what, with, back)                                                                                    \
    .how.op = LS_OP_##name, .prepare = prepare_##what, .forward = forward_##with, .backward = backward_##back
#define LINEAR .step = 0.25, .tolerance = 1e-4
#define SMOOTH .step = 0.01, .tolerance = 2e-3
#define KINKED .step = 0.001, .tolerance = 4e-3, .corners = 1
#define SPREAD .step = 0.004, .tolerance = 1e-3
#define CONV   STEPS(conv, conv)
#define TRANS  STEPS(transposed, transposed)
#define WINO   STEPS(conv, winograd)
#define AVG    STEPS(pool, avg_pool)
#define MAX    STEPS(pool, max_pool)
#define NORM   STEPS(batch_norm, batch_norm)

/* clang-format off: one line a chain. */
static const chain chains[] = {
    {"conv 3x3", SHAPE(3, 5, 7, 4, 20), WINDOW(3, 1, 0), CONV, LINEAR},
    {"conv 3x3 stride 2", SHAPE(3, 6, 7, 4, 5), WINDOW(3, 2, 1), CONV, LINEAR},
    {"conv 1x1 stride 2", SHAPE(4, 6, 7, 3, 16), WINDOW(1, 2, 0), CONV, LINEAR},
    {"conv 5x5, relu", SHAPE(2, 6, 7, 3, 37), WINDOW(5, 1, 2), .how.fused_relu = 1, CONV, KINKED},
    {"conv 2x2 stride 3", SHAPE(2, 6, 7, 3, 5), WINDOW(2, 3, 1), CONV, LINEAR},
    {"linear", SHAPE(30, 1, 1, 7, 20), WINDOW(1, 1, 0), CONV, LINEAR},
    {"linear, in x out", SHAPE(30, 1, 1, 7, 20), WINDOW(1, 1, 0), .how.weight_in_out = 1, CONV, LINEAR},
    {"winograd", SHAPE(3, 6, 9, 4, 20), WINDOW(3, 1, 1), WINO, LINEAR},
    {"winograd, tiles of 7", SHAPE(3, 14, 7, 4, 20), WINDOW(3, 1, 1), WINO, LINEAR},
    {"winograd, stride 2", SHAPE(3, 9, 7, 4, 20), WINDOW(3, 2, 1), WINO, LINEAR},
    {"winograd, stride 2, tiles of 7", SHAPE(2, 13, 14, 3, 5), WINDOW(3, 2, 1), WINO, LINEAR},
    {"winograd, stride 2, relu", SHAPE(3, 7, 5, 4, 5), WINDOW(3, 2, 1), .how.fused_relu = 1, WINO, KINKED},
    {"winograd, relu", SHAPE(3, 7, 4, 4, 5), WINDOW(3, 1, 1), .how.fused_relu = 1, WINO, KINKED},
    {"winograd 5x5", SHAPE(3, 9, 7, 4, 20), WINDOW(5, 1, 0), WINO, LINEAR},
    {"winograd 5x5, padded, relu", SHAPE(2, 6, 9, 3, 5), WINDOW(5, 1, 2), .how.fused_relu = 1, WINO, KINKED},
    {"add bias", SHAPE(3, 4, 5, 0, 20), STEPS(add_bias, add_bias), LINEAR},
    {"relu", SHAPE(3, 4, 5, 0, 20), STEPS(same, relu), KINKED},
    {"average pool", SHAPE(3, 6, 7, 0, 20), WINDOW(2, 2, 0), AVG, SPREAD},
    {"average pool, overlapping", SHAPE(2, 6, 7, 0, 5), WINDOW(3, 2, 1), AVG, SPREAD},
    {"average pool, relu", SHAPE(3, 6, 7, 0, 5), WINDOW(2, 2, 0), .how.fused_relu = 1, AVG, SPREAD},
    {"max pool", SHAPE(3, 6, 7, 0, 20), WINDOW(2, 2, 0), MAX, SPREAD},
    {"max pool, overlapping", SHAPE(2, 6, 7, 0, 5), WINDOW(3, 2, 1), MAX, SPREAD},
    {"max pool, relu", SHAPE(3, 6, 7, 0, 5), WINDOW(3, 1, 0), .how.fused_relu = 1, MAX, SPREAD},
    {"global average pool", SHAPE(5, 4, 3, 0, 20), STEPS(global_avg_pool, global_avg_pool), LINEAR},
    {"batch norm", SHAPE(3, 4, 5, 0, 20), .how.eps = 1e-5f, NORM, SMOOTH},
    {"batch norm of features", SHAPE(3, 1, 1, 0, 37), .how.eps = 0.1f, NORM, SMOOTH},
    {"batch norm, relu", SHAPE(3, 4, 5, 0, 20), .how.eps = 1e-5f, .how.fused_relu = 1, NORM, KINKED},
    {"batch norm, add", SHAPE(3, 4, 5, 0, 5), .how.eps = 1e-5f, .how.fused_add = 1, NORM, SMOOTH},
    {"batch norm, add, relu", SHAPE(3, 4, 5, 0, 20), .how.eps = 1e-5f, .how.fused_relu = 1, .how.fused_add = 1, NORM,
     KINKED},
    {"dropout", SHAPE(3, 4, 5, 0, 20), .how.factor = 0.4f, .how.key = 77, STEPS(same, dropout), LINEAR},
    {"multiply", SHAPE(3, 4, 5, 0, 20), OWN(MULTIPLY, pair, pair, multiply), LINEAR},
    {"subtract", SHAPE(3, 4, 5, 0, 20), OWN(SUBTRACT, pair, pair, subtract), LINEAR},
    {"scale", SHAPE(3, 4, 5, 0, 20), .how.factor = -1.7f, OWN(SCALE, same, own, scale), LINEAR},
    {"tanh", SHAPE(3, 4, 5, 0, 20), OWN(TANH, same, own, tanh), SMOOTH},
    {"sigmoid", SHAPE(3, 4, 5, 0, 20), OWN(SIGMOID, same, own, sigmoid), SMOOTH},
    {"divide", SHAPE(3, 4, 5, 0, 20), OWN(DIVIDE, fraction, pair, divide), SMOOTH},
    {"exp", SHAPE(3, 4, 5, 0, 20), OWN(EXP, same, own, exp), SMOOTH},
    {"log", SHAPE(3, 4, 5, 0, 20), OWN(LOG, positive, own, function), SMOOTH},
    {"log sigmoid", SHAPE(3, 4, 5, 0, 20), OWN(LOG_SIGMOID, same, own, function), SMOOTH},
    {"sqrt", SHAPE(3, 4, 5, 0, 20), OWN(SQRT, positive, own, sqrt), SMOOTH},
    {"abs", SHAPE(3, 4, 5, 0, 20), OWN(ABS, spread, own, function), SPREAD},
    {"power 3", SHAPE(3, 4, 5, 0, 20), .how.factor = 3, OWN(POWER, same, own, function), SMOOTH},
    {"power -1.5", SHAPE(3, 4, 5, 0, 20), .how.factor = -1.5f, OWN(POWER, positive, own, function), SMOOTH},
    {"clamp", SHAPE(3, 4, 5, 0, 20), .how.low = -1, .how.high = 2, OWN(CLAMP, spread, own, function), SPREAD},
    {"leaky relu", SHAPE(3, 4, 5, 0, 20), .how.factor = 0.1f, OWN(LEAKY_RELU, spread, own, function), SPREAD},
    {"silu", SHAPE(3, 4, 5, 0, 20), OWN(SILU, same, own, function), SMOOTH},
    {"gelu", SHAPE(3, 4, 5, 0, 20), OWN(GELU, same, own, function), SMOOTH},
    {"gelu, tanh form", SHAPE(3, 4, 5, 0, 20), OWN(GELU_TANH, same, own, function), SMOOTH},
    {"expand", SHAPE(3, 4, 5, 0, 20), OWN(EXPAND, expand, own, expand), LINEAR},
    {"expand a parameter", SHAPE(3, 4, 5, 0, 20), OWN(EXPAND_WEIGHT, expand_weight, own, expand_weight), LINEAR},
    {"softmax", SHAPE(7, 1, 1, 0, 20), OWN(SOFTMAX, same, own, softmax), SMOOTH},
    {"concat", SHAPE(3, 4, 5, 0, 20), STEPS(concat, concat), LINEAR},
    {"view", SHAPE(3, 4, 5, 0, 20), STEPS(view, view), LINEAR},
    {"sum over", SHAPE(3, 4, 5, 0, 20), OWN(EXPAND_BACKWARD, over, own, shape), LINEAR},
    {"max over", SHAPE(3, 4, 5, 0, 20), OWN(MAX_OVER, over, own, shape), SPREAD},
    {"set norm", SHAPE(2, 37, 3, 0, 20), .how.eps = 1e-5f, OWN(SET_NORM, set_norm, set_norm, shape), SMOOTH},
    {"rms norm", SHAPE(3, 6, 1, 0, 5), .how.eps = 0.1f, OWN(RMS_NORM, set_norm, set_norm, shape), SMOOTH},
    {"adaptive pool", SHAPE(3, 5, 7, 0, 20), WINDOW(3, 2, 0), OWN(ADAPTIVE_POOL, resize, own, shape), LINEAR},
    {"adaptive pool, larger", SHAPE(2, 3, 4, 0, 5), WINDOW(5, 9, 0), OWN(ADAPTIVE_POOL, resize, own, shape), LINEAR},
    {"bilinear", SHAPE(3, 3, 4, 0, 20), WINDOW(6, 8, 0), OWN(BILINEAR, resize, own, shape), LINEAR},
    {"bilinear, by 3", SHAPE(2, 1, 5, 0, 5), WINDOW(3, 15, 0), OWN(BILINEAR, resize, own, shape), LINEAR},
    {"batch norm, frozen", SHAPE(3, 4, 5, 0, 20), .how.eps = 1e-5f, STEPS(frozen_norm, frozen_norm), SMOOTH},
    {"sum", SHAPE(3, 4, 5, 0, 20), .how.factor = 1, OWN(SUM, sum, own, sum), LINEAR},
    {"mean", SHAPE(3, 4, 5, 0, 5), .how.factor = 1.0f / 60, OWN(SUM, sum, own, sum), LINEAR},
    {"squared error", SHAPE(30, 1, 1, 0, 20), .how.factor = 1.0f / 30,
     OWN(SQUARED_ERROR, squared_error, pair, squared_error), SMOOTH},
    {"batch matmul", SHAPE(2, 5, 7, 3, 20), OWN(BATCH_MATMUL, batch_matmul, pair, batch_matmul), LINEAR},
    {"batch matmul, a transposed", SHAPE(1, 4, 3, 6, 5), .how.transposed = {1},
     OWN(BATCH_MATMUL, batch_matmul, pair, batch_matmul), LINEAR},
    {"batch matmul, b transposed", SHAPE(3, 4, 3, 6, 5), .how.transposed = {0, 1},
     OWN(BATCH_MATMUL, batch_matmul, pair, batch_matmul), LINEAR},
    {"batch matmul, both transposed", SHAPE(1, 5, 4, 3, 5), .how.transposed = {1, 1},
     OWN(BATCH_MATMUL, batch_matmul, pair, batch_matmul), LINEAR},
    {"embedding", SHAPE(6, 5, 1, 7, 20), STEPS(embedding, embedding), LINEAR},
    {"lstm", SHAPE(4, 3, 1, 0, 20), .how.stride = 1, STEPS(lstm, lstm), SMOOTH},
    {"lstm, reverse, of lengths", SHAPE(5, 4, 1, 1, 5), .how.stride = -1, STEPS(lstm, lstm), SMOOTH},
    {"gru", SHAPE(4, 3, 1, 0, 20), .how.stride = 1, STEPS(gru, gru), SMOOTH},
    {"gru, reverse, of lengths", SHAPE(5, 4, 1, 1, 5), .how.stride = -1, STEPS(gru, gru), SMOOTH},
    {"last token", SHAPE(5, 4, 1, 1, 20), STEPS(last_token, last_token), LINEAR},
    {"attention", SHAPE(2, 5, 7, 6, 20), WINDOW(2, 3, 0), .how.factor = 0.4f, STEPS(attention, attention), SMOOTH},
    {"attention, causal", SHAPE(4, 9, 3, 9, 5), WINDOW(2, 3, 0), .how.factor = 0.6f, .how.causal = 1,
     STEPS(attention, attention), SMOOTH},
    {"attention, lengths", SHAPE(2, 35, 3, 35, 20), WINDOW(1, 4, 1), .how.factor = 0.6f, STEPS(attention, attention),
     SMOOTH},
    {"attention, dropout", SHAPE(3, 4, 5, 40, 20), WINDOW(1, 2, 1), .how.factor = 0.5f, .how.rate = 0.3f, .how.key = 77,
     STEPS(attention, attention), SMOOTH},
    {"custom", SHAPE(3, 4, 5, 0, 20), OWN(CUSTOM, custom, pair, custom), LINEAR},
    {"cross-entropy", SHAPE(10, 1, 1, 0, 20), STEPS(cross_entropy, cross_entropy), SMOOTH},
    {"conv, two groups", SHAPE(4, 5, 7, 6, 20), WINDOW(3, 1, 1), .how.groups = 2, CONV, LINEAR},
    {"conv, depthwise", SHAPE(4, 5, 7, 4, 20), WINDOW(3, 2, 1), .how.groups = 4, CONV, LINEAR},
    {"conv, dilated", SHAPE(2, 9, 8, 3, 5), WINDOW(3, 2, 2), .how.dilation = 3, CONV, LINEAR},
    {"conv, oblong", SHAPE(2, 6, 9, 3, 5), WINDOW(2, 2, 1), .how.kernel_w = 4, .how.stride_w = 3, .how.padding_w = -1,
     CONV, LINEAR},
    {"transposed", SHAPE(3, 4, 5, 2, 20), WINDOW(3, 2, 1), TRANS, LINEAR},
    {"transposed, groups, dilated", SHAPE(4, 4, 5, 6, 5), WINDOW(2, 3, 1), .how.groups = 2, .how.dilation_w = 2, TRANS,
     LINEAR},
    {"cross-entropy, smooth", SHAPE(10, 1, 1, 0, 20), .how.smoothing = 0.2f, STEPS(cross_entropy, cross_entropy),
     SMOOTH},
    {"cross-entropy of places", SHAPE(5, 3, 4, 4, 20), STEPS(cross_entropy, cross_entropy), SMOOTH},
    {"cross-entropy, weights", SHAPE(5, 3, 4, 1 | 4, 20), STEPS(cross_entropy, cross_entropy), SMOOTH},
    {"cross-entropy, weights, smooth", SHAPE(5, 1, 1, 1 | 4, 37), .how.smoothing = 0.2f,
     STEPS(cross_entropy, cross_entropy), SMOOTH},
    {"cross-entropy, targets", SHAPE(5, 3, 4, 2, 20), STEPS(cross_entropy, cross_entropy), SMOOTH},
    {"cross-entropy, targets, all", SHAPE(5, 3, 4, 2 | 1, 20), .how.smoothing = 0.2f,
     STEPS(cross_entropy, cross_entropy), SMOOTH},
};
/* clang-format on */

/* ---- The check ---- */

/* Only images count: lanes without one must not be stepped. */
static int is_image(const chain *t, int i, size_t at)
{
    size_t group = at / LS_LANES / test_numbers(&t->in[i]);
    return !t->by_image[i] || (int)(group * LS_LANES + at % LS_LANES) < t->count;
}

static double projection(chain *t)
{
    double sum = 0;
    t->forward(t);
    for (size_t i = 0; i < test_lane_numbers(&t->y, t->count); i++) {
        sum += t->dy.data[i] != 0 ? (double)t->dy.data[i] * t->y.data[i] : 0;
    }
    return sum;
}

/* The gradient's product with a new random direction; its length times sqrt(n) would be the largest. */
static double draw_direction(chain *t, int i, float *direction, size_t n)
{
    double product = 0;
    for (size_t at = 0; at < n; at++) {
        direction[at] = is_image(t, i, at) ? (test_u64(&t->random) >> 40 & 1 ? 1.0f : -1.0f) : 0;
        product += (double)direction[at] * t->gradient[i].data[at];
    }
    return product;
}

/* Numbers of the result that a step takes over a relu's corner no longer count; whether there are such. */
static int leave_out_corners(chain *t, const float *before)
{
    int any = 0;
    for (size_t i = 0; t->corners && i < test_lane_numbers(&t->y, t->count); i++) {
        if (t->dy.data[i] != 0 && (t->y.data[i] > 0) != (before[i] > 0)) {
            t->dy.data[i] = 0;
            any = 1;
        }
    }
    return any;
}

static double length_of(const float *x, size_t n)
{
    double squares = 0;
    for (size_t at = 0; at < n; at++)
        squares += (double)x[at] * x[at];
    return sqrt(squares);
}

static double check_input(chain *t, int i)
{
    const size_t n = t->by_image[i] ? test_lane_numbers(&t->in[i], t->count) : test_numbers(&t->in[i]);
    const size_t numbers = test_lane_numbers(&t->y, t->count);
    float *x = t->in[i].data, *direction = test_floats(n), *kept = test_floats(n), *ahead = test_floats(n),
          *before = test_floats(numbers);
    double length, expected, difference;
    memcpy(kept, x, n * sizeof(float));
    for (int corners = 1; corners;) {
        t->forward(t);
        t->backward(t);
        memcpy(before, t->y.data, numbers * sizeof(float));
        length = length_of(t->gradient[i].data, n);
        assert_true(length > 0);
        while (fabs(draw_direction(t, i, direction, n)) < 0.5 * length) {
        }
        for (size_t at = 0; at < n; at++) {
            x[at] = ahead[at] = (float)(kept[at] + t->step * direction[at]);
        }
        difference = projection(t);
        corners = leave_out_corners(t, before);
        expected = 0;
        for (size_t at = 0; at < n; at++) {
            x[at] = (float)(kept[at] - t->step * direction[at]);
            expected += ((double)ahead[at] - x[at]) * t->gradient[i].data[at];
        }
        difference -= projection(t);
        corners |= leave_out_corners(t, before);
        memcpy(x, kept, n * sizeof(float));
    }
    double error = fabs(difference - expected) / (2 * t->step * length);
    if (!(error <= t->tolerance)) {
        fail_msg("%s, input %d: f differs by %g, the gradient says %g", t->name, i, difference, expected);
    }
    free(direction);
    free(kept);
    free(ahead);
    free(before);
    return error;
}

static void release(chain *t)
{
    for (int i = 0; i < MAX_INPUTS; i++) {
        free(t->in[i].data);
        free(t->gradient[i].data);
    }
    free(t->y.data);
    free(t->dy.data);
    free(t->middle.data);
    free(t->dmiddle.data);
    free(t->saved.data);
    free(t->statistics.data);
    test_batch_free(&t->batch);
}

static void test_chains(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof chains / sizeof *chains; k++) {
        chain t = chains[k];
        t.random.state = 100 + k;
        t.batch = test_batch_new(t.count, 1, t.c);
        t.prepare(&t);
        for (int i = 0; i < t.inputs; i++) {
            double worst = 0;
            for (int draw = 0; draw < 3; draw++) {
                worst = fmax(worst, check_input(&t, i));
            }
            print_message("%-27s input %d: off by at most %.1e of the gradient's length, %.1e allowed\n", t.name, i,
                          worst, t.tolerance);
        }
        release(&t);
    }
}

/* ONES is the gradient of SUM_IMAGES: the sum of ones is the number of images. */
static void test_count(void **state)
{
    (void)state;
    for (int count = 1; count <= 40; count++) {
        float ones[3 * LS_LANES], sum = 0;
        chain t = {.count = count, .batch = test_batch_new(count, 1, 1)};
        ls_operand x = {ones, 1, 1, 1}, y = {&sum, 1, 1, 1};
        run(&t, LS_OP_ONES, IN({0}), OUT(x));
        run(&t, LS_OP_SUM_IMAGES, IN(x), OUT(y));
        assert_true(sum == (float)count);
        test_batch_free(&t.batch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
