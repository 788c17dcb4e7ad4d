#include "op_table.h"

#include <lockstep.h>
#include <math.h>

#include "device/winograd.h"

const op_operands operands_of[LS_OP_COUNT] = {
    [LS_OP_IMAGES] = {{NONE}, {X_SLOPE}},
    [LS_OP_CONV] = {{X, WEIGHTS, BIAS}, {Y}},
    [LS_OP_CONV_DATA] = {{Y_SLOPE, WEIGHTS}, {X_SLOPE}},
    [LS_OP_CONV_WEIGHT] = {{X, Y_SLOPE}, {WEIGHTS}},
    [LS_OP_WINOGRAD] = {{X, WEIGHTS, BIAS}, {Y}},
    [LS_OP_WINOGRAD_DATA] = {{Y_SLOPE, WEIGHTS}, {X_SLOPE}},
    [LS_OP_WINOGRAD_WEIGHT] = {{X, Y_SLOPE}, {WEIGHTS}},
    [LS_OP_CONV_POOL] = {{X, WEIGHTS, BIAS}, {HALVES, SIGNS}},
    [LS_OP_CONV_POOL_WEIGHT] = {{X, HALVES_SLOPE, SIGNS}, {WEIGHTS, BIAS}},
    [LS_OP_CHANNEL_SUM] = {{X_SLOPE}, {CHANNEL}},
    [LS_OP_ADD] = {{X, X}, {X}},
    [LS_OP_ADD_BIAS] = {{X, CHANNEL}, {X}},
    [LS_OP_ADD_SCALED] = {{CHANNEL, CHANNEL}, {CHANNEL}},
    [LS_OP_RELU] = {{X}, {X}},
    [LS_OP_RELU_BACKWARD] = {{X_SLOPE, X}, {X_SLOPE}},
    [LS_OP_AVG_POOL] = {{X}, {Y}},
    [LS_OP_AVG_POOL_BACKWARD] = {{Y_SLOPE, X}, {X_SLOPE}},
    [LS_OP_MAX_POOL] = {{X}, {Y}},
    [LS_OP_MAX_POOL_BACKWARD] = {{Y_SLOPE, X}, {X_SLOPE}},
    [LS_OP_GLOBAL_AVG_POOL] = {{X}, {FEATURES}},
    [LS_OP_GLOBAL_AVG_POOL_BACKWARD] = {{FEATURES_SLOPE}, {X_SLOPE}},
    [LS_OP_BATCH_NORM] = {{X, CHANNEL, CHANNEL, X, NONE, CHANNEL}, {X, STATISTICS, STATISTICS}},
    [LS_OP_BATCH_NORM_INFER] = {{X, CHANNEL, CHANNEL, X, STATISTICS, CHANNEL}, {X}},
    [LS_OP_BATCH_NORM_BACKWARD] = {{X_SLOPE, X, CHANNEL, STATISTICS, X}, {X_SLOPE, STATISTICS, X_SLOPE}},
    [LS_OP_BATCH_NORM_FROZEN_BACKWARD] = {{X_SLOPE, X, CHANNEL, STATISTICS}, {X_SLOPE, STATISTICS}},
    [LS_OP_NORM_SUMS] = {{X}, {NORM_SUMS}},
    [LS_OP_NORM_APPLY] = {{X, CHANNEL, CHANNEL, X, NORM_SUMS, CHANNEL}, {X, STATISTICS, STATISTICS}},
    [LS_OP_NORM_SLOPES] = {{X_SLOPE, X, STATISTICS, X}, {NORM_SUMS, STATISTICS}},
    [LS_OP_NORM_DATA] = {{X_SLOPE, X, CHANNEL, STATISTICS, X, NORM_SUMS}, {X_SLOPE, X_SLOPE}},
    [LS_OP_DROPOUT] = {{X}, {X_SLOPE}},
    [LS_OP_CROSS_ENTROPY] = {{X, NONE, CHANNEL, X}, {PLACES_SLOPE, X_SLOPE}},
    [LS_OP_CROSS_ENTROPY_BACKWARD] = {{PLACES_SLOPE, X_SLOPE, CHANNEL, X}, {X_SLOPE}},
    [LS_OP_ONES] = {{NONE}, {ONE_SLOPE}},
    [LS_OP_SUM_IMAGES] = {{FEATURES}, {NUMBER}},
    [LS_OP_COUNT_CORRECT] = {{X}, {NUMBER}},
    [LS_OP_ROWS] = {{X}, {ROWS}},
    [LS_OP_INPUT] = {{NONE}, {X_SLOPE}},
    [LS_OP_MULTIPLY] = {{X, X}, {X_SLOPE}},
    [LS_OP_SUBTRACT] = {{X, X}, {X_SLOPE}},
    [LS_OP_DIVIDE] = {{X, X}, {X_SLOPE}},
    [LS_OP_SCALE] = {{X}, {X_SLOPE}},
    [LS_OP_TANH] = {{X}, {X_SLOPE}},
    [LS_OP_TANH_BACKWARD] = {{X_SLOPE, X}, {X_SLOPE}},
    [LS_OP_SIGMOID] = {{X}, {X_SLOPE}},
    [LS_OP_SIGMOID_BACKWARD] = {{X_SLOPE, X}, {X_SLOPE}},
    [LS_OP_EXP] = {{X}, {X_SLOPE}},
    [LS_OP_LOG] = {{X}, {X_SLOPE}},
    [LS_OP_LOG_SIGMOID] = {{X}, {X_SLOPE}},
    [LS_OP_SQRT] = {{X}, {X_SLOPE}},
    [LS_OP_ABS] = {{X}, {X_SLOPE}},
    [LS_OP_POWER] = {{X}, {X_SLOPE}},
    [LS_OP_CLAMP] = {{X}, {X_SLOPE}},
    [LS_OP_LEAKY_RELU] = {{X}, {X_SLOPE}},
    [LS_OP_SILU] = {{X}, {X_SLOPE}},
    [LS_OP_GELU] = {{X}, {X_SLOPE}},
    [LS_OP_GELU_TANH] = {{X}, {X_SLOPE}},
    [LS_OP_SQRT_BACKWARD] = {{X_SLOPE, X}, {X_SLOPE}},
    [LS_OP_ABS_BACKWARD] = {{X_SLOPE, X}, {X_SLOPE}},
    [LS_OP_POWER_BACKWARD] = {{X_SLOPE, X}, {X_SLOPE}},
    [LS_OP_CLAMP_BACKWARD] = {{X_SLOPE, X}, {X_SLOPE}},
    [LS_OP_LEAKY_RELU_BACKWARD] = {{X_SLOPE, X}, {X_SLOPE}},
    [LS_OP_LOG_SIGMOID_BACKWARD] = {{X_SLOPE, X}, {X_SLOPE}},
    [LS_OP_SILU_BACKWARD] = {{X_SLOPE, X}, {X_SLOPE}},
    [LS_OP_GELU_BACKWARD] = {{X_SLOPE, X}, {X_SLOPE}},
    [LS_OP_GELU_TANH_BACKWARD] = {{X_SLOPE, X}, {X_SLOPE}},
    [LS_OP_EXPAND] = {{THIN}, {X_SLOPE}},
    [LS_OP_EXPAND_BACKWARD] = {{X_SLOPE}, {THIN_SLOPE}},
    [LS_OP_EXPAND_WEIGHT] = {{THIN_WEIGHTS}, {X_SLOPE}},
    [LS_OP_EXPAND_WEIGHT_BACKWARD] = {{X_SLOPE}, {THIN_WEIGHTS}},
    [LS_OP_SOFTMAX] = {{X}, {X_SLOPE}},
    [LS_OP_SOFTMAX_BACKWARD] = {{X_SLOPE, X}, {X_SLOPE}},
    [LS_OP_CONCAT] = {{X, PART, X, PART, X, PART}, {WHOLE}},
    [LS_OP_VIEW] = {{X_SLOPE}, {VIEWED_SLOPE}},
    [LS_OP_MAX_OVER] = {{X}, {THIN_SLOPE}},
    [LS_OP_MAX_OVER_BACKWARD] = {{THIN_SLOPE, X, THIN}, {X_SLOPE}},
    [LS_OP_SET_NORM] = {{X}, {X_SLOPE, SAVED_SLOPE}},
    [LS_OP_SET_NORM_BACKWARD] = {{X_SLOPE, X, SAVED_SLOPE}, {X_SLOPE}},
    [LS_OP_RMS_NORM] = {{X}, {X_SLOPE, SAVED_SLOPE}},
    [LS_OP_RMS_NORM_BACKWARD] = {{X_SLOPE, X, SAVED_SLOPE}, {X_SLOPE}},
    [LS_OP_ADAPTIVE_POOL] = {{X}, {RESIZED_SLOPE}},
    [LS_OP_ADAPTIVE_POOL_BACKWARD] = {{RESIZED_SLOPE}, {X_SLOPE}},
    [LS_OP_BILINEAR] = {{X}, {RESIZED_SLOPE}},
    [LS_OP_BILINEAR_BACKWARD] = {{RESIZED_SLOPE}, {X_SLOPE}},
    [LS_OP_BATCH_MATMUL] = {{LEFT, RIGHT}, {PRODUCT_SLOPE}},
    [LS_OP_EMBEDDING] = {{IDS, TABLE}, {X_SLOPE}},
    [LS_OP_EMBEDDING_BACKWARD] = {{X_SLOPE, IDS}, {TABLE}},
    [LS_OP_LSTM] = {{FOUR, FOUR_SQUARES, FOUR_TIMES, LENGTHS}, {X_SLOPE, FIVE_SLOPE}},
    [LS_OP_LSTM_BACKWARD] = {{X_SLOPE, FIVE_SLOPE, FOUR_SQUARES, LENGTHS}, {FOUR_SLOPE}},
    [LS_OP_GRU] = {{THREE, THREE_SQUARES, THREE_TIMES, LENGTHS}, {X_SLOPE, FOUR_SLOPE}},
    [LS_OP_GRU_BACKWARD] = {{X_SLOPE, FOUR_SLOPE, THREE_SQUARES, LENGTHS, X}, {THREE_SLOPE, THREE_SLOPE}},
    [LS_OP_LAST_TOKEN] = {{X, LENGTHS}, {TOKEN_SLOPE}},
    [LS_OP_LAST_TOKEN_BACKWARD] = {{TOKEN_SLOPE, LENGTHS}, {X_SLOPE}},
    [LS_OP_ATTENTION] = {{X, KEYS, VALUED, LENGTHS}, {ATTENDED_SLOPE, ROW_STATE_SLOPE}},
    [LS_OP_ATTENTION_BACKWARD] = {{ATTENDED_SLOPE, X, KEYS, VALUED, ATTENDED, ROW_STATE},
                                  {X_SLOPE, KEYS_SLOPE, VALUED_SLOPE}},
    [LS_OP_SUM] = {{X}, {ONE_SLOPE}},
    [LS_OP_SUM_BACKWARD] = {{ONE_SLOPE}, {X_SLOPE}},
    [LS_OP_SQUARED_ERROR] = {{X, X}, {ONE_SLOPE}},
    [LS_OP_SQUARED_ERROR_BACKWARD] = {{ONE_SLOPE, X, X}, {X_SLOPE}},
    [LS_OP_CUSTOM] = {{X, CHANNEL, X}, {X_SLOPE}},
    [LS_OP_RESHAPE] = {{X}, {FLAT}},
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

/* What the windows of GENERAL have besides; `cropped`: the last ones of each row and column are left out. */
typedef struct more_windows {
    ls_attributes how;
    int cropped;
} more_windows;
static const more_windows more_of[] = {
    [HALVED] = {.how.groups = 2},
    [DEPTHWISE_3] = {.how.groups = 3},
    [DEPTHWISE_5] = {.how.groups = 5},
    [DEPTHWISE_17] = {.how.groups = 17},
    [DILATED] = {.how.dilation = 2},
    [WIDE] = {.how.kernel_w = 5, .how.padding_w = 2},
    [TALL] = {.how.kernel_w = 1, .how.padding_w = -1},
    [OBLONG] = {.how.kernel_w = 2, .how.stride_w = 3, .how.padding_w = -1},
    [STRIDED_APART] = {.how.stride_w = 1, .how.dilation = 3, .how.dilation_w = 2},
    [FOUR_GROUPS] = {.how.groups = 4},
    [FOUR_WIDE] = {.how = {.groups = 4, .kernel_w = 2, .stride_w = 2, .dilation_w = 2}},
    [DEPTHWISE_APART] = {.how = {.groups = 3, .kernel_w = 4, .stride_w = 2, .dilation = 2, .dilation_w = 3}},
    [CROPPED_GROUPS] = {.how = {.groups = 2, .dilation = 2}, .cropped = 1},
    [CROPPED_DEPTHWISE] = {.how.groups = 3, .cropped = 1},
};

static const char *const values_name[VALUES] = {"ordinary", "salted", "tiny", "faint"};

/* What VIEWS do: y's size along d is x's along axes[d], and so many more. */
static const struct {
    int axes[3], shift[3], more[3];
} views[] = {
    {{0, 1, 2}, {0, -1, -2}, {0, -1, -3}},                                      /* parts */
    {{0, 1, 2}, {0, 2, 1}, {0, 3, 4}},                                          /* borders */
    {{2, 1, 0}, {0, 0, 0}, {0, 0, 0}},     {{1, 2, 0}, {0, 0, 0}, {0, 0, 0}},   /* turned */
    {{0, 2, 1}, {0, 0, 0}, {0, 0, 0}},     {{1, 0, 2}, {1, -2, 0}, {2, -2, 1}}, /* all of it */
    {{0, 1, 2}, {-1, 0, 0}, {-2, 0, 0}},   {{2, 0, 1}, {9, -1, 1}, {6, 0, 3}},  /* nothing of x */
};

static const float factors[] = {0.7f, 3, -2, -1.5f, 0, 0x1p25f};

static ls_attributes attributes_of(const row *r)
{
    ls_attributes made = r->family == GENERAL ? more_of[r->in_out].how : (ls_attributes){.weight_in_out = r->in_out};
    made.kernel = r->kernel;
    made.stride = r->stride;
    made.padding = r->padding;
    return made;
}

ls_windows row_windows(const row *r)
{
    const ls_attributes how = attributes_of(r);
    return ls_windows_of(&how);
}

static int is_cropped(const row *r)
{
    return r->family == CROPPED || (r->family == GENERAL && more_of[r->in_out].cropped);
}

test_case case_of(const row *r, ls_op op, int relu, int add, int bias, int values)
{
    test_case one = {.row = r, .bias = bias, .values = values, .attributes = attributes_of(r)};
    one.attributes.op = op;
    one.attributes.fused_relu = relu;
    one.attributes.fused_add = add;
    one.attributes.eps = 1e-5f;
    one.attributes.key = 0x123456789abcdefu;
    one.attributes.factor = factors[r->family == FUNCTIONS ? r->o : 0];
    one.attributes.low = -0.6f;
    one.attributes.high = 1.1f;
    one.attributes.smoothing = r->in_out ? 0.1f : 0;
    one.attributes.axis = r->family == CONCATS ? r->padding : 0;
    for (int k = 0; k < 2 && r->family == PRODUCTS; k++) {
        one.attributes.weight_in_out = 0;
        one.attributes.transposed[k] = r->in_out >> k & 1;
    }
    one.attributes.causal = r->family == ATTENTIONS && r->in_out & CAUSAL;
    one.attributes.rate = r->family == ATTENTIONS && r->in_out & DROPPING ? 0.3f : 0;
    for (int d = 0; d < 3 && r->family == VIEWS; d++) {
        one.attributes.axes[d] = views[r->o].axes[d];
        one.attributes.shift[d] = views[r->o].shift[d];
    }
    one.attributes.input = 2;
    one.attributes.custom = &weighted;
    one.attributes.parameters = 1u << 1;
    return one;
}

void describe_row(const row *r, ls_op op, char *text, size_t size)
{
    const ls_windows w = row_windows(r);
    int at = snprintf(text, size, "%s of %d images %dx%dx%d to %d, kernel %d stride %d padding %d", ls_op_name(op),
                      r->count, r->c, r->h, r->w, r->o, r->kernel, r->stride, r->padding);
    if (r->family == GENERAL)
        snprintf(text + at, size - (size_t)at, ", groups %d, dilation %d, across %d %d %d %d", w.groups,
                 w.rows.dilation, w.columns.kernel, w.columns.stride, w.columns.padding, w.columns.dilation);
}

void describe(const test_case *one, char *text, size_t size)
{
    const ls_attributes *how = &one->attributes;
    char row_text[224];
    describe_row(one->row, how->op, row_text, sizeof row_text);
    snprintf(text, size, "%s%s%s%s%s, %s numbers", row_text, how->fused_relu ? ", relu" : "",
             how->fused_add ? ", add" : "", how->weight_in_out ? ", in_out" : "", one->bias ? ", bias" : "",
             values_name[one->values]);
}

int by_image(kind what)
{
    return what >= X && what <= ONE_SLOPE;
}

int is_slope(kind what)
{
    return by_image(what) && what != X && what != Y && what != FEATURES && what != FLAT && what != PART &&
           what != THIN && what != WHOLE && what != HALVES && what != LEFT && what != RIGHT && what != IDS &&
           what != KEYS && what != VALUED && what != ATTENDED && what != ROW_STATE && what != LENGTHS &&
           what != THREE && what != FOUR;
}

/* X, and with it a number of parts, one after another along the row's axis. */
static ls_operand joined(const row *r, int x, int parts)
{
    int sizes[3] = {r->c, r->h, r->w};
    sizes[r->padding] = x * sizes[r->padding] + parts * r->o;
    return (ls_operand){NULL, sizes[0], sizes[1], sizes[2]};
}

static ls_operand viewed(const row *r)
{
    const int sizes[3] = {r->c, r->h, r->w}, *axes = views[r->o].axes, *more = views[r->o].more;
    return (ls_operand){NULL, sizes[axes[0]] + more[0], sizes[axes[1]] + more[1], sizes[axes[2]] + more[2]};
}

/* A matrix of each channel, of the rows and columns that it has when it is read. */
static ls_operand matrix(const row *r, int rows, int columns, int transposed)
{
    return (ls_operand){NULL, r->c, transposed ? columns : rows, transposed ? rows : columns};
}

ls_operand shape_of(const row *r, kind what)
{
    const ls_windows of = row_windows(r);
    int windows = r->family <= POOLS, parts = r->kernel;
    int y_h = windows ? (int)ls_windows_along(&of.rows, r->h) - is_cropped(r) : 0;
    int y_w = windows ? (int)ls_windows_along(&of.columns, r->w) - is_cropped(r) : 0;
    switch (what) {
    case X:
    case X_SLOPE:
        return (ls_operand){NULL, r->c, r->h, r->w};
    case Y:
    case Y_SLOPE:
        return (ls_operand){NULL, r->o, y_h, y_w};
    case HALVES:
    case HALVES_SLOPE:
        return (ls_operand){NULL, r->o, y_h / 2, y_w / 2};
    case SIGNS:
        return (ls_operand){NULL, test_groups(r->count) * r->o * LS_LANES * ls_op_sign_places(y_h / 2 * 2, y_w / 2 * 2),
                            1, 1};
    case FLAT:
        return (ls_operand){NULL, r->c * r->h * r->w, 1, 1};
    case TABLE:
        return (ls_operand){NULL, r->o * r->h, 1, 1};
    case IDS:
    case FEATURES:
    case FEATURES_SLOPE:
    case CHANNEL:
        return (ls_operand){NULL, r->c, 1, 1};
    case PART:
        return joined(r, 0, 1);
    case WHOLE:
        return joined(r, (parts + 1) / 2, parts / 2);
    case VIEWED_SLOPE:
        return viewed(r);
    case RESIZED_SLOPE:
        return (ls_operand){NULL, r->c, r->kernel, r->stride};
    case LEFT:
        return matrix(r, r->h, r->w, r->in_out & 1);
    case RIGHT:
        return matrix(r, r->w, r->o, r->in_out >> 1);
    case PRODUCT_SLOPE:
        return matrix(r, r->h, r->o, 0);
    case THREE:
    case THREE_SLOPE:
        return (ls_operand){NULL, r->c, 3 * r->h, 1};
    case FOUR:
    case FOUR_SLOPE:
        return (ls_operand){NULL, r->c, 4 * r->h, 1};
    case FIVE_SLOPE:
        return (ls_operand){NULL, r->c, 5 * r->h, 1};
    case TOKEN_SLOPE:
        return (ls_operand){NULL, r->h, 1, 1};
    case THREE_TIMES:
        return (ls_operand){NULL, 3 * r->h, 1, 1};
    case FOUR_TIMES:
        return (ls_operand){NULL, 4 * r->h, 1, 1};
    case THREE_SQUARES:
        return (ls_operand){NULL, 3 * r->h * r->h, 1, 1};
    case FOUR_SQUARES:
        return (ls_operand){NULL, 4 * r->h * r->h, 1, 1};
    case KEYS:
    case KEYS_SLOPE:
        return (ls_operand){NULL, r->kernel, r->o, r->w};
    case VALUED:
    case VALUED_SLOPE:
        return (ls_operand){NULL, r->kernel, r->o, r->stride};
    case ATTENDED:
    case ATTENDED_SLOPE:
        return (ls_operand){NULL, r->c, r->h, r->stride};
    case ROW_STATE:
    case ROW_STATE_SLOPE:
        return (ls_operand){NULL, 3 * r->c, r->h, 1};
    case SAVED_SLOPE:
        return (ls_operand){NULL, 2 * r->c, 1, r->w};
    case THIN:
    case THIN_SLOPE:
    case THIN_WEIGHTS:
        return (ls_operand){NULL, r->kernel & 1 ? 1 : r->c, r->kernel & 2 ? 1 : r->h, r->kernel & 4 ? 1 : r->w};
    case PLACES_SLOPE:
        return (ls_operand){NULL, 1, r->h, r->w};
    case ONE_SLOPE:
    case LENGTHS:
    case NUMBER:
        return (ls_operand){NULL, 1, 1, 1};
    case WEIGHTS:
        return (ls_operand){NULL, r->o * (r->c / of.groups) * of.rows.kernel * of.columns.kernel, 1, 1};
    case BIAS:
        return (ls_operand){NULL, r->o, 1, 1};
    case STATISTICS:
        return (ls_operand){NULL, 2 * r->c, 1, 1};
    case NORM_SUMS:
        return (ls_operand){NULL, 2 + 2 * r->c, 1, 1};
    case ROWS:
        return (ls_operand){NULL, r->count * r->c * r->h * r->w, 1, 1};
    case NONE:
        break;
    }
    return (ls_operand){NULL, 0, 0, 0};
}

size_t size_of(const row *r, kind what)
{
    ls_operand shape = shape_of(r, what);
    return by_image(what) ? test_lane_numbers(&shape, r->count) : test_numbers(&shape);
}

float operand_number(const test_case *one, kind what, float x)
{
    const ls_op op = one->attributes.op;
    const float large = floorf(fabsf(x) * 1000);
    const int most = what == IDS || one->row->family == ATTENTIONS ? one->row->o - (what == IDS) : one->row->c;
    if (what == IDS || what == LENGTHS) /* some just outside, and some no whole numbers */
        return fmodf(large, (float)most + 3) - 1 + (fmodf(large, 17) == 0 ? 0.5f : 0);
    if (what == ROW_STATE)
        return fmodf(fabsf(x) * 1000, (float)one->row->o + 3) / 2;
    return op == LS_OP_MAX_OVER || op == LS_OP_MAX_OVER_BACKWARD ? roundf(x) : x;
}

float counted_number(kind what, float x, size_t i, size_t n)
{
    if (what == NORM_SUMS && i < 2)
        return i ? 35 : 77;
    return (what == STATISTICS || what == NORM_SUMS) && i >= n / 2 ? 0.5f + fabsf(x) : x;
}

int present(const test_case *one, kind what, int i)
{
    const ls_attributes *how = &one->attributes;
    switch (how->op) {
    case LS_OP_CONV:
    case LS_OP_WINOGRAD:
    case LS_OP_CONV_POOL:
        return what != BIAS || one->bias;
    case LS_OP_AVG_POOL_BACKWARD:
        return i != 1 || how->fused_relu;
    case LS_OP_BATCH_NORM:
    case LS_OP_BATCH_NORM_INFER:
    case LS_OP_NORM_APPLY:
        return i == 3 ? how->fused_add : i != 5 || one->bias;
    case LS_OP_BATCH_NORM_BACKWARD:
    case LS_OP_NORM_DATA:
        return i != 4 || how->fused_relu;
    case LS_OP_NORM_SLOPES:
        return i != 3 || how->fused_relu;
    case LS_OP_CROSS_ENTROPY:
    case LS_OP_CROSS_ENTROPY_BACKWARD:
        return i < 2 || one->row->o & (i == 2 ? WEIGHED : TARGETS);
    case LS_OP_ATTENTION:
        return i != 3 || one->row->in_out & MEASURED;
    case LS_OP_CONCAT:
        return i < one->row->kernel;
    case LS_OP_LSTM:
    case LS_OP_GRU:
        return i == 2 ? one->bias : what != LENGTHS || one->row->o;
    case LS_OP_LSTM_BACKWARD:
    case LS_OP_GRU_BACKWARD:
        return what != LENGTHS || one->row->o;
    default:
        return 1;
    }
}

test_batch batch_of(const test_case *one)
{
    const row *r = one->row;
    const size_t image = (size_t)r->c * r->h * r->w;
    test_batch batch = test_batch_new(r->count, image, r->c);
    batch.samples.image_bytes = (size_t)r->count * image;
    if (one->attributes.op == LS_OP_IMAGES && one->attributes.fused_add)
        test_batch_take_floats(&batch, image);
    if (one->attributes.op == LS_OP_IMAGES && one->attributes.fused_relu)
        test_batch_change(&batch, r->h, r->w);
    if (one->attributes.op == LS_OP_CROSS_ENTROPY || one->attributes.op == LS_OP_CROSS_ENTROPY_BACKWARD)
        test_batch_label(&batch, r->h * r->w, r->c, r->o & IGNORING);
    return batch;
}

int takes_relu(ls_op op)
{
    return op == LS_OP_CONV || op == LS_OP_WINOGRAD || op == LS_OP_AVG_POOL_BACKWARD || op == LS_OP_MAX_POOL_BACKWARD ||
           op == LS_OP_BATCH_NORM || op == LS_OP_BATCH_NORM_INFER || op == LS_OP_BATCH_NORM_BACKWARD ||
           op == LS_OP_NORM_APPLY || op == LS_OP_NORM_SLOPES || op == LS_OP_NORM_DATA || op == LS_OP_IMAGES;
}

int takes_add(ls_op op)
{
    return op == LS_OP_IMAGES || op == LS_OP_BATCH_NORM || op == LS_OP_BATCH_NORM_INFER ||
           op == LS_OP_BATCH_NORM_BACKWARD || op == LS_OP_NORM_APPLY || op == LS_OP_NORM_DATA;
}

int makes_output(const test_case *one, int k)
{
    const ls_op op = one->attributes.op;
    const int dresidual = op == LS_OP_BATCH_NORM_BACKWARD ? 2 : op == LS_OP_NORM_DATA ? 1 : LS_MAX_OUT;
    return operands_of[op].out[k] != NONE && (k != dresidual || one->attributes.fused_add);
}

int takes_bias(ls_op op)
{
    return op == LS_OP_CONV || op == LS_OP_CONV_POOL || op == LS_OP_WINOGRAD || op == LS_OP_BATCH_NORM ||
           op == LS_OP_BATCH_NORM_INFER || op == LS_OP_NORM_APPLY || op == LS_OP_LSTM || op == LS_OP_GRU;
}

int suits(const row *r, ls_op op)
{
    int winograd = op == LS_OP_WINOGRAD || op == LS_OP_WINOGRAD_DATA || op == LS_OP_WINOGRAD_WEIGHT;
    if (op == LS_OP_COUNT_CORRECT || op == LS_OP_SOFTMAX || op == LS_OP_SOFTMAX_BACKWARD)
        return r->h * r->w == 1;
    return !winograd || (ls_winograd_defined(r->kernel, r->stride, r->padding) && !r->in_out);
}

double work_of(const row *r)
{
    const ls_windows of = row_windows(r);
    double places = r->family <= POOLS
                        ? (double)ls_windows_along(&of.rows, r->h) * (double)ls_windows_along(&of.columns, r->w)
                        : (double)r->h * r->w;
    const int pairs = r->family == PRODUCTS || r->family == ATTENTIONS;
    double taps = pairs                    ? (double)r->o
                  : r->family == RECURRENT ? 4.0 * r->h
                  : r->family <= POOLED    ? (double)r->o / of.groups * of.rows.kernel * of.columns.kernel
                                           : 1;
    return places * taps * r->c * r->count;
}
