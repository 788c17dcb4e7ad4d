/* Every operation of every backend against the reference, bit for bit, from one table of shapes. `test_ops N` is for a machine that is
 * emulated: of the largest rows each operation takes every Nth, beginning elsewhere than its neighbours; fewer rows run in every
 * variant; and what is left out is said. */
#include "support.h"

#include "device/winograd.h"

#include <lockstep.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The operations: what goes in, what comes out ---- */

/* Gradients, and what must be zero where there is no image, are slopes. Activations hold garbage there. */
typedef enum kind {
    NONE,
    X,        /* an activation of c x h x w */
    Y,        /* an activation of o channels, one number for each window */
    FEATURES, /* an activation of c x 1 x 1 */
    X_SLOPE,
    Y_SLOPE,
    FEATURES_SLOPE,
    PART,  /* an activation of o x h x w */
    WHOLE, /* X, PART, X, PART, as many as `kernel` says, one after another */
    PART_SLOPE,
    WHOLE_SLOPE,
    ONE_SLOPE,  /* one number an image */
    WEIGHTS,    /* o x c x kernel x kernel numbers */
    BIAS,       /* o */
    CHANNEL,    /* c */
    STATISTICS, /* 2 c, the second half positive */
    NUMBER,
    ROWS, /* c x h x w for each image, no padded lanes */
} kind;

static const struct {
    kind in[LS_MAX_IN], out[LS_MAX_OUT];
} operands_of[LS_OP_COUNT] = {
    [LS_OP_IMAGES] = {{NONE}, {X_SLOPE}},
    [LS_OP_CONV] = {{X, WEIGHTS, BIAS}, {Y}},
    [LS_OP_CONV_DATA] = {{Y_SLOPE, WEIGHTS}, {X_SLOPE}},
    [LS_OP_CONV_WEIGHT] = {{X, Y_SLOPE}, {WEIGHTS}},
    [LS_OP_WINOGRAD] = {{X, WEIGHTS, BIAS}, {Y}},
    [LS_OP_WINOGRAD_DATA] = {{Y_SLOPE, WEIGHTS}, {X_SLOPE}},
    [LS_OP_WINOGRAD_WEIGHT] = {{X, Y_SLOPE}, {WEIGHTS}},
    [LS_OP_CHANNEL_SUM] = {{X_SLOPE}, {CHANNEL}},
    [LS_OP_ADD] = {{X, X}, {X}},
    [LS_OP_ADD_BIAS] = {{X, CHANNEL}, {X}},
    [LS_OP_RELU] = {{X}, {X}},
    [LS_OP_RELU_BACKWARD] = {{X_SLOPE, X}, {X_SLOPE}},
    [LS_OP_AVG_POOL] = {{X}, {Y}},
    [LS_OP_AVG_POOL_BACKWARD] = {{Y_SLOPE, X}, {X_SLOPE}},
    [LS_OP_MAX_POOL] = {{X}, {Y}},
    [LS_OP_MAX_POOL_BACKWARD] = {{Y_SLOPE, X}, {X_SLOPE}},
    [LS_OP_GLOBAL_AVG_POOL] = {{X}, {FEATURES}},
    [LS_OP_GLOBAL_AVG_POOL_BACKWARD] = {{FEATURES_SLOPE}, {X_SLOPE}},
    [LS_OP_BATCH_NORM] = {{X, CHANNEL, CHANNEL, X}, {X, STATISTICS, STATISTICS}},
    [LS_OP_BATCH_NORM_INFER] = {{X, CHANNEL, CHANNEL, X, STATISTICS}, {X}},
    [LS_OP_BATCH_NORM_BACKWARD] = {{X_SLOPE, X, CHANNEL, STATISTICS, X}, {X_SLOPE, STATISTICS, X_SLOPE}},
    [LS_OP_DROPOUT] = {{X}, {X_SLOPE}},
    [LS_OP_CROSS_ENTROPY] = {{X}, {ONE_SLOPE, X_SLOPE}},
    [LS_OP_CROSS_ENTROPY_BACKWARD] = {{ONE_SLOPE, X_SLOPE}, {X_SLOPE}},
    [LS_OP_ONES] = {{NONE}, {ONE_SLOPE}},
    [LS_OP_SUM_IMAGES] = {{FEATURES}, {NUMBER}},
    [LS_OP_COUNT_CORRECT] = {{X}, {NUMBER}},
    [LS_OP_ROWS] = {{X}, {ROWS}},
    [LS_OP_INPUT] = {{NONE}, {X_SLOPE}},
    [LS_OP_MULTIPLY] = {{X, X}, {X_SLOPE}},
    [LS_OP_SUBTRACT] = {{X, X}, {X_SLOPE}},
    [LS_OP_SCALE] = {{X}, {X_SLOPE}},
    [LS_OP_TANH] = {{X}, {X_SLOPE}},
    [LS_OP_TANH_BACKWARD] = {{X_SLOPE, X}, {X_SLOPE}},
    [LS_OP_SIGMOID] = {{X}, {X_SLOPE}},
    [LS_OP_SIGMOID_BACKWARD] = {{X_SLOPE, X}, {X_SLOPE}},
    [LS_OP_SOFTMAX] = {{X}, {X_SLOPE}},
    [LS_OP_SOFTMAX_BACKWARD] = {{X_SLOPE, X}, {X_SLOPE}},
    [LS_OP_CONCAT] = {{X, PART, X, PART}, {WHOLE}},
    [LS_OP_SLICE] = {{WHOLE_SLOPE}, {PART_SLOPE}},
    [LS_OP_SUM] = {{X}, {ONE_SLOPE}},
    [LS_OP_SUM_BACKWARD] = {{ONE_SLOPE}, {X_SLOPE}},
    [LS_OP_SQUARED_ERROR] = {{X, X}, {ONE_SLOPE}},
    [LS_OP_SQUARED_ERROR_BACKWARD] = {{ONE_SLOPE, X, X}, {X_SLOPE}},
    [LS_OP_CUSTOM] = {{X, CHANNEL, X}, {X_SLOPE}},
    [LS_OP_CUSTOM_BACKWARD] = {{X, CHANNEL, X, X, X_SLOPE}, {X_SLOPE, CHANNEL, X_SLOPE}},
};

/* y = w of the channel * a * b, w being a parameter. */
static size_t channel_of(const ls_custom_call *call, size_t i)
{
    return i / ((size_t)call->out[1] * call->out[2]) % call->out[0];
}

static size_t numbers_in(const ls_custom_call *call)
{
    return (size_t)call->rows * call->out[0] * call->out[1] * call->out[2];
}

static void weighted_product(const ls_custom_call *call, const float *const in[], float *out)
{
    for (size_t i = 0; i < numbers_in(call); i++) {
        out[i] = in[1][channel_of(call, i)] * in[0][i] * in[2][i];
    }
}

static void weighted_product_backward(const ls_custom_call *call, const float *const in[], const float *out,
                                      const float *dout, float *const din[])
{
    (void)out;
    for (size_t i = 0; i < numbers_in(call); i++) {
        float w = in[1][channel_of(call, i)];
        din[0][i] = w * in[2][i] * dout[i];
        din[1][channel_of(call, i)] += in[0][i] * in[2][i] * dout[i];
        din[2][i] = w * in[0][i] * dout[i];
    }
}

static const ls_custom weighted = {
    .name = "weighted product", .inputs = 3, .forward = weighted_product, .backward = weighted_product_backward};

/* ---- The table ---- */

enum { CONVS, CROPPED, POOLS, MAPS, CLASSES, COUNTS, CONCATS, FAMILIES };

/* The last entry of each is LS_OP_COUNT. Winograd runs on the rows of CONVS that suit it. Of CROPPED, the last windows of
 * each row and column are left out. */
static const ls_op families[FAMILIES][32] = {
    [CONVS] = {LS_OP_CONV, LS_OP_CONV_DATA, LS_OP_CONV_WEIGHT, LS_OP_WINOGRAD, LS_OP_WINOGRAD_DATA,
               LS_OP_WINOGRAD_WEIGHT, LS_OP_COUNT},
    [CROPPED] = {LS_OP_CONV, LS_OP_CONV_DATA, LS_OP_CONV_WEIGHT, LS_OP_WINOGRAD, LS_OP_WINOGRAD_DATA,
                 LS_OP_WINOGRAD_WEIGHT, LS_OP_COUNT},
    [POOLS] = {LS_OP_AVG_POOL, LS_OP_AVG_POOL_BACKWARD, LS_OP_MAX_POOL, LS_OP_MAX_POOL_BACKWARD, LS_OP_COUNT},
    [MAPS] = {LS_OP_IMAGES,
              LS_OP_CHANNEL_SUM,
              LS_OP_ADD,
              LS_OP_ADD_BIAS,
              LS_OP_RELU,
              LS_OP_RELU_BACKWARD,
              LS_OP_GLOBAL_AVG_POOL,
              LS_OP_GLOBAL_AVG_POOL_BACKWARD,
              LS_OP_BATCH_NORM,
              LS_OP_BATCH_NORM_INFER,
              LS_OP_BATCH_NORM_BACKWARD,
              LS_OP_DROPOUT,
              LS_OP_ROWS,
              LS_OP_INPUT,
              LS_OP_MULTIPLY,
              LS_OP_SUBTRACT,
              LS_OP_SCALE,
              LS_OP_TANH,
              LS_OP_TANH_BACKWARD,
              LS_OP_SIGMOID,
              LS_OP_SIGMOID_BACKWARD,
              LS_OP_SUM,
              LS_OP_SUM_BACKWARD,
              LS_OP_SQUARED_ERROR,
              LS_OP_SQUARED_ERROR_BACKWARD,
              LS_OP_CUSTOM,
              LS_OP_CUSTOM_BACKWARD,
              LS_OP_COUNT},
    [CLASSES] = {LS_OP_CROSS_ENTROPY, LS_OP_CROSS_ENTROPY_BACKWARD, LS_OP_COUNT_CORRECT, LS_OP_ROWS, LS_OP_SOFTMAX,
                 LS_OP_SOFTMAX_BACKWARD, LS_OP_COUNT},
    [COUNTS] = {LS_OP_ONES, LS_OP_SUM_IMAGES, LS_OP_COUNT},
    [CONCATS] = {LS_OP_CONCAT, LS_OP_SLICE, LS_OP_COUNT},
};

/* Of CONCATS `kernel` is how many operands there are. */
typedef struct row {
    int family, count, c, h, w, o, kernel, stride, padding, in_out;
} row;

static const row table[] = {
    /* LeNet */
    {CONVS, 20, 1, 28, 28, 20, 3, 1, 0, 0},
    {CONVS, 5, 20, 13, 13, 50, 5, 1, 0, 0},
    {CONVS, 37, 800, 1, 1, 128, 1, 1, 0, 1},
    {CONVS, 37, 128, 1, 1, 10, 1, 1, 0, 1},
    {POOLS, 5, 20, 26, 26, 20, 2, 2, 0, 0},
    {POOLS, 20, 50, 9, 9, 50, 2, 2, 0, 0},
    /* ResNet-18 */
    {CONVS, 5, 1, 28, 28, 64, 3, 1, 1, 0},
    {CONVS, 20, 64, 28, 28, 64, 3, 1, 1, 0}, /* y goes around the caches */
    {CONVS, 2, 64, 28, 28, 128, 3, 2, 1, 0},
    {CONVS, 5, 64, 28, 28, 128, 1, 2, 0, 0},
    {CONVS, 1, 128, 14, 14, 128, 3, 1, 1, 0},
    {CONVS, 1, 128, 14, 14, 256, 3, 2, 1, 0},
    {CONVS, 1, 256, 7, 7, 256, 3, 1, 1, 0},
    {CONVS, 1, 256, 7, 7, 512, 3, 2, 1, 0},
    {CONVS, 5, 256, 7, 7, 512, 1, 2, 0, 0},
    {CONVS, 1, 512, 4, 4, 512, 3, 1, 1, 0},
    {CONVS, 37, 512, 1, 1, 10, 1, 1, 0, 0},
    {MAPS, 37, 64, 28, 28, 0, 0, 0, 0, 0}, /* so does this */
    {MAPS, 20, 512, 4, 4, 0, 0, 0, 0, 0},
    /* Odd ones: each kernel, stride and padding, with channels and maps that fill no block. */
    {CONVS, 1, 3, 5, 7, 17, 3, 1, 1, 0},
    {CONVS, 16, 3, 5, 7, 17, 3, 2, 1, 0},
    {CONVS, 37, 3, 5, 7, 4, 3, 3, 2, 0},
    {CONVS, 20, 17, 5, 7, 3, 3, 1, 1, 0},
    {CONVS, 5, 1, 1, 1, 1, 3, 1, 1, 0},
    {CONVS, 17, 1, 1, 1, 3, 1, 1, 0, 0},
    {CONVS, 5, 3, 1, 1, 17, 1, 1, 0, 1},
    {CONVS, 20, 3, 5, 7, 5, 1, 1, 0, 0},
    {CONVS, 5, 3, 5, 7, 5, 1, 2, 0, 0},
    {CONVS, 5, 3, 6, 7, 5, 1, 3, 1, 0},
    {CONVS, 16, 2, 5, 7, 9, 2, 1, 0, 0},
    {CONVS, 5, 2, 5, 7, 9, 2, 2, 1, 0},
    {CONVS, 5, 2, 5, 7, 9, 2, 3, 1, 0},
    {CONVS, 5, 3, 5, 7, 6, 5, 1, 2, 0},
    {CONVS, 20, 3, 6, 7, 6, 5, 2, 1, 0},
    {CONVS, 5, 3, 8, 7, 6, 5, 3, 0, 0},
    {CONVS, 37, 2, 4, 4, 3, 3, 1, 1, 0},
    {CONVS, 20, 5, 9, 11, 7, 3, 1, 1, 0},
    {CONVS, 5, 17, 2, 13, 18, 3, 1, 1, 0},
    {CONVS, 37, 70, 9, 6, 13, 3, 1, 1, 0},
    {CONVS, 20, 16, 10, 11, 67, 3, 1, 1, 0},
    {CONVS, 1, 3, 5, 6, 17, 5, 1, 0, 0},
    {CONVS, 37, 5, 8, 9, 3, 5, 1, 0, 0},
    {CONVS, 20, 17, 9, 8, 18, 5, 1, 1, 0},
    {CONVS, 1, 2, 1, 1, 3, 5, 1, 2, 0},
    {CONVS, 5, 4, 3, 13, 70, 5, 1, 3, 0},
    {CONVS, 37, 3, 1, 2, 5, 5, 1, 4, 0},
    {CONVS, 5, 37, 6, 5, 7, 5, 1, 4, 0},
    {CONVS, 1, 70, 14, 14, 40, 5, 1, 2, 0},
    {CROPPED, 20, 20, 13, 13, 50, 5, 1, 0, 0},
    {CROPPED, 5, 3, 6, 10, 7, 5, 1, 2, 0},
    {CROPPED, 37, 3, 9, 7, 5, 3, 1, 1, 0},
    {CROPPED, 5, 3, 9, 7, 5, 3, 2, 1, 0},
    {POOLS, 37, 3, 5, 7, 3, 2, 2, 0, 0},
    {POOLS, 20, 3, 5, 7, 3, 3, 2, 1, 0},
    {POOLS, 5, 17, 5, 7, 17, 3, 1, 1, 0},
    {POOLS, 16, 2, 5, 7, 2, 2, 3, 1, 0},
    {POOLS, 1, 1, 7, 5, 1, 5, 1, 2, 0},
    {POOLS, 5, 3, 1, 1, 3, 1, 1, 0, 0},
    {POOLS, 5, 3, 4, 4, 3, 1, 2, 0, 0},
    {POOLS, 5, 3, 1, 1, 3, 3, 1, 1, 0},
    {MAPS, 1, 3, 5, 7, 0, 0, 0, 0, 0},
    {MAPS, 5, 17, 1, 1, 0, 0, 0, 0, 0},
    {MAPS, 16, 1, 7, 5, 0, 0, 0, 0, 0},
    {MAPS, 20, 3, 5, 7, 0, 0, 0, 0, 0},
    {MAPS, 37, 17, 3, 2, 0, 0, 0, 0, 0},
    {MAPS, 1, 1, 1, 1, 0, 0, 0, 0, 0},
    {CLASSES, 1, 10, 1, 1, 0, 0, 0, 0, 0},
    {CLASSES, 16, 10, 1, 1, 0, 0, 0, 0, 0},
    {CLASSES, 37, 10, 1, 1, 0, 0, 0, 0, 0},
    {CLASSES, 5, 1, 1, 1, 0, 0, 0, 0, 0},
    {CLASSES, 20, 17, 1, 1, 0, 0, 0, 0, 0},
    {CLASSES, 37, 10, 1, 1, 0, 0, 0, 0, 1}, /* here with smooth labels */
    {CLASSES, 5, 1, 1, 1, 0, 0, 0, 0, 1},
    {COUNTS, 1, 1, 1, 1, 0, 0, 0, 0, 0},
    {COUNTS, 16, 1, 1, 1, 0, 0, 0, 0, 0},
    {COUNTS, 37, 1, 1, 1, 0, 0, 0, 0, 0},
    {CONCATS, 5, 3, 5, 7, 2, 2, 0, 0, 0},
    {CONCATS, 37, 1, 2, 3, 17, 3, 0, 0, 0},
    {CONCATS, 16, 4, 1, 1, 1, 4, 0, 0, 0},
};

/* ---- One case: a row's operation, with flags and a kind of numbers ---- */

enum { ORDINARY, SALTED, TINY, VALUES }; /* with zeros, denormals, NaN, infinities; all denormal */
static const char *const values_name[VALUES] = {"ordinary", "salted", "tiny"};

typedef struct test_case {
    const row *row;
    ls_attributes attributes;
    int bias, values, in_parts;
} test_case;

static void describe_row(const row *r, ls_op op, char *text, size_t size)
{
    snprintf(text, size, "%s of %d images %dx%dx%d to %d, kernel %d stride %d padding %d", ls_op_name(op), r->count,
             r->c, r->h, r->w, r->o, r->kernel, r->stride, r->padding);
}

static void describe(const test_case *one, char *text, size_t size)
{
    const ls_attributes *how = &one->attributes;
    char row_text[160];
    describe_row(one->row, how->op, row_text, sizeof row_text);
    snprintf(text, size, "%s%s%s%s%s, %s numbers", row_text, how->fused_relu ? ", relu" : "",
             how->fused_add ? ", add" : "", how->weight_in_out ? ", in_out" : "", one->bias ? ", bias" : "",
             values_name[one->values]);
}

static int by_image(kind what)
{
    return what >= X && what <= ONE_SLOPE;
}

static int is_slope(kind what)
{
    return by_image(what) && what != X && what != Y && what != FEATURES && what != PART && what != WHOLE;
}

static ls_operand shape_of(const row *r, kind what)
{
    int windows = r->kernel && r->stride, parts = r->kernel;
    int y_h = windows ? test_windows(r->h, r->kernel, r->stride, r->padding) - (r->family == CROPPED) : 0;
    int y_w = windows ? test_windows(r->w, r->kernel, r->stride, r->padding) - (r->family == CROPPED) : 0;
    switch (what) {
    case X:
    case X_SLOPE:
        return (ls_operand){NULL, r->c, r->h, r->w};
    case Y:
    case Y_SLOPE:
        return (ls_operand){NULL, r->o, y_h, y_w};
    case FEATURES:
    case FEATURES_SLOPE:
    case CHANNEL:
        return (ls_operand){NULL, r->c, 1, 1};
    case PART:
    case PART_SLOPE:
        return (ls_operand){NULL, r->o, r->h, r->w};
    case WHOLE:
    case WHOLE_SLOPE:
        return (ls_operand){NULL, (parts + 1) / 2 * r->c + parts / 2 * r->o, r->h, r->w};
    case ONE_SLOPE:
    case NUMBER:
        return (ls_operand){NULL, 1, 1, 1};
    case WEIGHTS:
        return (ls_operand){NULL, r->o * r->c * r->kernel * r->kernel, 1, 1};
    case BIAS:
        return (ls_operand){NULL, r->o, 1, 1};
    case STATISTICS:
        return (ls_operand){NULL, 2 * r->c, 1, 1};
    case ROWS:
        return (ls_operand){NULL, r->count * r->c * r->h * r->w, 1, 1};
    case NONE:
        break;
    }
    return (ls_operand){NULL, 0, 0, 0};
}

static size_t size_of(const row *r, kind what)
{
    ls_operand shape = shape_of(r, what);
    return by_image(what) ? test_lane_numbers(&shape, r->count) : test_numbers(&shape);
}

static int present(const test_case *one, kind what, int i)
{
    const ls_attributes *how = &one->attributes;
    switch (how->op) {
    case LS_OP_CONV:
    case LS_OP_WINOGRAD:
        return what != BIAS || one->bias;
    case LS_OP_AVG_POOL_BACKWARD:
        return i != 1 || how->fused_relu;
    case LS_OP_BATCH_NORM:
    case LS_OP_BATCH_NORM_INFER:
        return i != 3 || how->fused_add;
    case LS_OP_BATCH_NORM_BACKWARD:
        return i != 4 || how->fused_relu;
    case LS_OP_CONCAT:
        return i < one->row->kernel;
    default:
        return 1;
    }
}

/* ---- Numbers for the operands ---- */

static void fill(test_random *random, const test_case *one, kind what, float *x, size_t n)
{
    test_fill_normal(random, x, n);
    for (size_t i = 0; i < n; i++) {
        if (one->values == SALTED && what != STATISTICS) {
            x[i] = test_salt(random, x[i], !by_image(what));
        } else if (one->values == TINY && by_image(what)) {
            x[i] *= 1e-39f;
        }
        if (what == STATISTICS && i >= n / 2) {
            x[i] = 0.5f + fabsf(x[i]);
        }
    }
    if (by_image(what)) {
        ls_operand shape = shape_of(one->row, what);
        test_pad(x, &shape, one->row->count, is_slope(what) ? NULL : random);
    }
}

/* ---- Calls ---- */

/* Vectors and weights lie anywhere in the flat buckets, activations at multiples of 64 bytes: `shift` says which. What
 * follows a buffer must stay as it was. */
enum { GUARD = 16 };

typedef struct buffer {
    float *memory, *data;
    size_t n;
} buffer;

static buffer buffer_new(const row *r, kind what, unsigned char content)
{
    buffer made = {.n = size_of(r, what)};
    int shift = by_image(what) ? 0 : 1;
    made.memory = test_floats(made.n + GUARD + 1);
    memset(made.memory, content, (made.n + GUARD + 1) * sizeof(float));
    made.data = made.memory + shift;
    return made;
}

static int guard_intact(const buffer *b, unsigned char content)
{
    const unsigned char *after = (const unsigned char *)(b->data + b->n);
    for (size_t i = 0; i < (GUARD - 1) * sizeof(float); i++) {
        if (after[i] != content) {
            return 0;
        }
    }
    return 1;
}

typedef struct operands {
    buffer in[LS_MAX_IN], out[LS_MAX_OUT];
} operands;

static void free_all(buffer *buffers, int n)
{
    for (int i = 0; i < n; i++)
        free(buffers[i].memory);
}

static void make_inputs(const test_case *one, operands *all, test_random *random)
{
    for (int i = 0; i < LS_MAX_IN; i++) {
        kind what = operands_of[one->attributes.op].in[i];
        all->in[i] = (buffer){0};
        if (what != NONE && present(one, what, i)) {
            all->in[i] = buffer_new(one->row, what, 0);
            fill(random, one, what, all->in[i].data, all->in[i].n);
        }
    }
}

static void compute(const ls_backend *backend, const test_case *one, const test_batch *batch, operands *all, int parts,
                    unsigned char canary)
{
    ls_op op = one->attributes.op;
    ls_op_call call = {.attributes = &one->attributes, .samples = &batch->samples};
    for (int i = 0; i < LS_MAX_IN; i++) {
        call.in[i] = shape_of(one->row, operands_of[op].in[i]);
        call.in[i].data = all->in[i].data;
    }
    for (int i = 0; i < LS_MAX_OUT; i++) {
        kind what = operands_of[op].out[i];
        all->out[i] = what == NONE ? (buffer){0} : buffer_new(one->row, what, canary);
        call.out[i] = shape_of(one->row, what);
        call.out[i].data = all->out[i].data;
    }
    call.parts = parts;
    for (int i = 0; i < parts; i++) {
        call.part = (i + 1) % parts; /* in another order than the whole has */
        test_run(backend, &call);
    }
}

/* Garbage in the lanes without an image must not show: each backend gets its own. */
static void change_garbage(const test_case *one, operands *all, test_random *random)
{
    for (int i = 0; i < LS_MAX_IN; i++) {
        kind what = operands_of[one->attributes.op].in[i];
        if (all->in[i].data && by_image(what) && !is_slope(what)) {
            ls_operand shape = shape_of(one->row, what);
            test_pad(all->in[i].data, &shape, one->row->count, random);
        }
    }
}

/* ---- Comparison ---- */

static void compare_output(const ls_backend *backend, const test_case *one, int k, const buffer *want,
                           const buffer *got, unsigned char canary)
{
    char text[256];
    kind what = operands_of[one->attributes.op].out[k];
    int dresidual = one->attributes.op == LS_OP_BATCH_NORM_BACKWARD && k == 2;
    if (what == NONE || (dresidual && !one->attributes.fused_add)) {
        return;
    }
    ls_operand shape = shape_of(one->row, what);
    size_t numbers = test_numbers(&shape);
    describe(one, text, sizeof text);
    for (size_t i = 0; i < want->n; i++) {
        int image = by_image(what) ? (int)(i / LS_LANES / numbers * LS_LANES + i % LS_LANES) : 0;
        int real = image < one->row->count;
        if (real && !test_same_bits(want->data[i], got->data[i])) {
            fail_msg("%s: %s: out[%d] number %zu: %a, not %a", backend->name, text, k, i, (double)got->data[i],
                     (double)want->data[i]);
        }
        if (!real && is_slope(what) && got->data[i] != 0) {
            fail_msg("%s: %s: out[%d] number %zu of a lane without an image: %a, not 0", backend->name, text, k, i,
                     (double)got->data[i]);
        }
    }
    if (!guard_intact(got, canary)) {
        fail_msg("%s: %s: out[%d] is overrun", backend->name, text, k);
    }
}

static float *copy_of(const buffer *b)
{
    float *copy = test_floats(b->n);
    if (b->data)
        memcpy(copy, b->data, b->n * sizeof(float));
    return copy;
}

static void check_backend(const ls_backend *backend, const test_case *one, const test_batch *batch, operands *all,
                          int parts)
{
    operands own;
    float *before[LS_MAX_IN];
    memcpy(own.in, all->in, sizeof own.in);
    for (int i = 0; i < LS_MAX_IN; i++)
        before[i] = copy_of(&own.in[i]);
    compute(backend, one, batch, &own, parts, 0xa5);
    for (int i = 0; i < LS_MAX_OUT; i++)
        compare_output(backend, one, i, &all->out[i], &own.out[i], 0xa5);
    for (int i = 0; i < LS_MAX_IN; i++) {
        if (own.in[i].data)
            assert_memory_equal(before[i], own.in[i].data, own.in[i].n * sizeof(float));
        free(before[i]);
    }
    free_all(own.out, LS_MAX_OUT);
}

/* ---- Running the table ---- */

static const ls_backend *backends[8];
static int backend_count;
static long cases_run;
static int every = 1; /* 1: nothing is left out */

static void run_case(const test_case *one)
{
    const row *r = one->row;
    test_random random = {.state = (uint64_t)cases_run * 1000 + one->attributes.op};
    test_batch batch = test_batch_new(r->count, (size_t)r->c * r->h * r->w, r->c);
    operands all;
    float *rows = test_floats((size_t)r->count * r->c * r->h * r->w);
    test_fill_normal(&random, rows, (size_t)r->count * r->c * r->h * r->w);
    batch.samples.rows[one->attributes.input] = rows;
    make_inputs(one, &all, &random);
    compute(ls_backend_ref(), one, &batch, &all, 1, 0x5a);
    for (int i = 0; i < LS_MAX_OUT; i++) {
        /* Against itself: the zeros of the lanes without an image, and the guards. */
        compare_output(ls_backend_ref(), one, i, &all.out[i], &all.out[i], 0x5a);
    }
    for (int i = 0; i < backend_count; i++) {
        change_garbage(one, &all, &random);
        check_backend(backends[i], one, &batch, &all, 1);
        if (one->in_parts)
            check_backend(backends[i], one, &batch, &all, 3);
    }
    free_all(all.in, LS_MAX_IN);
    free_all(all.out, LS_MAX_OUT);
    free(rows);
    test_batch_free(&batch);
    cases_run++;
}

static int takes_relu(ls_op op)
{
    return op == LS_OP_CONV || op == LS_OP_WINOGRAD || op == LS_OP_AVG_POOL_BACKWARD || op == LS_OP_MAX_POOL_BACKWARD ||
           op == LS_OP_BATCH_NORM || op == LS_OP_BATCH_NORM_INFER || op == LS_OP_BATCH_NORM_BACKWARD;
}

static int takes_add(ls_op op)
{
    return op == LS_OP_BATCH_NORM || op == LS_OP_BATCH_NORM_INFER || op == LS_OP_BATCH_NORM_BACKWARD;
}

static int takes_bias(ls_op op)
{
    return op == LS_OP_CONV || op == LS_OP_WINOGRAD;
}

static int suits(const row *r, ls_op op)
{
    int winograd = op == LS_OP_WINOGRAD || op == LS_OP_WINOGRAD_DATA || op == LS_OP_WINOGRAD_WEIGHT;
    return !winograd || (ls_winograd_defined(r->kernel, r->stride, r->padding) && !r->in_out);
}

/* Of products of the row's convolution, or numbers of its map. */
enum { SMALL = 2000000, LARGE = 12000000 };

static double work_of(const row *r)
{
    double places = r->kernel && r->stride ? test_windows(r->h, r->kernel, r->stride, r->padding) *
                                                 (double)test_windows(r->w, r->kernel, r->stride, r->padding)
                                           : (double)r->h * r->w;
    double taps = r->family <= CROPPED ? (double)r->o * r->kernel * r->kernel : 1;
    return places * taps * r->c * r->count;
}

static void say_left_out(const row *r, ls_op op, const char *what)
{
    char text[160];
    describe_row(r, op, text, sizeof text);
    print_message("left out: %s of %s\n", what, text);
}

/* Whether it is the operation's turn to take this row. */
static int takes(const row *r, ls_op op)
{
    static int large[LS_OP_COUNT];
    if (work_of(r) < LARGE || (large[op]++ + (int)op) % every == 0)
        return 1;
    say_left_out(r, op, "all");
    return 0;
}

static void run_row(const row *r, ls_op op)
{
    const int all_variants = work_of(r) < SMALL / every;
    if (!all_variants && work_of(r) < SMALL)
        say_left_out(r, op, "all variants but one");
    for (int variant = 0; variant < 8 * VALUES; variant++) {
        int relu = variant & 1, add = variant >> 1 & 1, bias = variant >> 2 & 1, values = variant / 8;
        if ((relu && !takes_relu(op)) || (add && !takes_add(op)) || (bias && !takes_bias(op))) {
            continue;
        }
        int full = relu == takes_relu(op) && add == takes_add(op) && bias == takes_bias(op) && values == ORDINARY;
        if (!full && !all_variants) {
            continue;
        }
        test_case one = {.row = r, .bias = bias, .values = values, .in_parts = full};
        one.attributes = (ls_attributes){.op = op, .kernel = r->kernel, .stride = r->stride, .padding = r->padding};
        one.attributes.fused_relu = relu;
        one.attributes.fused_add = add;
        one.attributes.weight_in_out = r->in_out;
        one.attributes.eps = 1e-5f;
        one.attributes.rate = 0.3f;
        one.attributes.key = 0x123456789abcdefu;
        one.attributes.factor = 0.7f;
        one.attributes.smoothing = r->in_out ? 0.1f : 0;
        one.attributes.first = r->c;
        one.attributes.input = 2;
        one.attributes.custom = &weighted;
        one.attributes.parameters = 1u << 1;
        run_case(&one);
    }
}

static void run_family(int family)
{
    long before = cases_run;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        for (int j = 0; table[i].family == family && families[family][j] != LS_OP_COUNT; j++) {
            if (suits(&table[i], families[family][j]) && takes(&table[i], families[family][j])) {
                run_row(&table[i], families[family][j]);
            }
        }
    }
    print_message("%ld cases, each on %d backends\n", cases_run - before, backend_count);
    assert_true(cases_run > before);
}

static void test_families(void **state)
{
    for (const int *family = *state; *family < FAMILIES; family++)
        run_family(*family);
}

/* ---- The table of kernels ---- */

static void test_slots(void **state)
{
    (void)state;
    assert_true(backend_count > 0);
    for (int op = 0; op < LS_OP_COUNT; op++) {
        assert_non_null(ls_backend_ref()->kernel[op]);
        assert_string_not_equal(ls_op_name((ls_op)op), "unknown");
        for (int k = 0; k < backend_count; k++) {
            assert_non_null(backends[k]->kernel[op]);
            if (backends[k]->kernel[op] == ls_backend_ref()->kernel[op]) {
                print_message("%s: %s is the reference's\n", backends[k]->name, ls_op_name((ls_op)op));
            }
        }
    }
    assert_string_equal(ls_op_name(LS_OP_COUNT), "unknown");
}

int main(int argc, char **argv)
{
    if (argc > 1 && (every = atoi(argv[1])) < 1) {
        print_error("usage: test_ops [N], N at least 1\n");
        return 2;
    }
    backend_count = test_backends(backends);
    print_message("backends compared with the reference:");
    for (int i = 0; i < backend_count; i++) {
        print_message(" %s", backends[i]->name);
    }
    print_message("%s\n", backend_count ? "" : " none");
    int convolutions[] = {CONVS, CROPPED, FAMILIES}, pools[] = {POOLS, FAMILIES}, maps[] = {MAPS, FAMILIES};
    int classes[] = {CLASSES, COUNTS, CONCATS, FAMILIES};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots),
        {"convolutions", test_families, NULL, NULL, convolutions},
        {"pools", test_families, NULL, NULL, pools},
        {"maps", test_families, NULL, NULL, maps},
        {"classes", test_families, NULL, NULL, classes},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
