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

const ls_op families[FAMILIES][32] = {
    [CONVS] = {LS_OP_CONV, LS_OP_CONV_DATA, LS_OP_CONV_WEIGHT, LS_OP_WINOGRAD, LS_OP_WINOGRAD_DATA,
               LS_OP_WINOGRAD_WEIGHT, LS_OP_COUNT},
    [CROPPED] = {LS_OP_CONV, LS_OP_CONV_DATA, LS_OP_CONV_WEIGHT, LS_OP_WINOGRAD, LS_OP_WINOGRAD_DATA,
                 LS_OP_WINOGRAD_WEIGHT, LS_OP_COUNT},
    [GENERAL] = {LS_OP_CONV, LS_OP_CONV_DATA, LS_OP_CONV_WEIGHT, LS_OP_COUNT},
    [POOLED] = {LS_OP_CONV_POOL, LS_OP_CONV_POOL_WEIGHT, LS_OP_COUNT},
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
              LS_OP_BATCH_NORM_FROZEN_BACKWARD,
              LS_OP_DROPOUT,
              LS_OP_ROWS,
              LS_OP_INPUT,
              LS_OP_MULTIPLY,
              LS_OP_SUBTRACT,
              LS_OP_DIVIDE,
              LS_OP_SCALE,
              LS_OP_TANH_BACKWARD,
              LS_OP_SIGMOID_BACKWARD,
              LS_OP_SUM,
              LS_OP_SUM_BACKWARD,
              LS_OP_SQUARED_ERROR,
              LS_OP_SQUARED_ERROR_BACKWARD,
              LS_OP_CUSTOM,
              LS_OP_CUSTOM_BACKWARD,
              LS_OP_RESHAPE,
              LS_OP_COUNT},
    [CLASSES] = {LS_OP_CROSS_ENTROPY, LS_OP_CROSS_ENTROPY_BACKWARD, LS_OP_COUNT_CORRECT, LS_OP_ROWS, LS_OP_SOFTMAX,
                 LS_OP_SOFTMAX_BACKWARD, LS_OP_COUNT},
    [COUNTS] = {LS_OP_ONES, LS_OP_SUM_IMAGES, LS_OP_COUNT},
    [CONCATS] = {LS_OP_CONCAT, LS_OP_COUNT},
    [VIEWS] = {LS_OP_VIEW, LS_OP_COUNT},
    [SETS] = {LS_OP_SET_NORM, LS_OP_SET_NORM_BACKWARD, LS_OP_RMS_NORM, LS_OP_RMS_NORM_BACKWARD, LS_OP_COUNT},
    [RESIZES] = {LS_OP_ADAPTIVE_POOL, LS_OP_ADAPTIVE_POOL_BACKWARD, LS_OP_BILINEAR, LS_OP_BILINEAR_BACKWARD,
                 LS_OP_COUNT},
    [PRODUCTS] = {LS_OP_BATCH_MATMUL, LS_OP_COUNT},
    [EMBEDDINGS] = {LS_OP_EMBEDDING, LS_OP_EMBEDDING_BACKWARD, LS_OP_COUNT},
    [FUNCTIONS] = {LS_OP_TANH,
                   LS_OP_SIGMOID,
                   LS_OP_EXP,
                   LS_OP_LOG,
                   LS_OP_LOG_SIGMOID,
                   LS_OP_SQRT,
                   LS_OP_ABS,
                   LS_OP_POWER,
                   LS_OP_CLAMP,
                   LS_OP_LEAKY_RELU,
                   LS_OP_SILU,
                   LS_OP_GELU,
                   LS_OP_GELU_TANH,
                   LS_OP_SQRT_BACKWARD,
                   LS_OP_ABS_BACKWARD,
                   LS_OP_POWER_BACKWARD,
                   LS_OP_CLAMP_BACKWARD,
                   LS_OP_LEAKY_RELU_BACKWARD,
                   LS_OP_LOG_SIGMOID_BACKWARD,
                   LS_OP_SILU_BACKWARD,
                   LS_OP_GELU_BACKWARD,
                   LS_OP_GELU_TANH_BACKWARD,
                   LS_OP_COUNT},
    [EXPANDS] = {LS_OP_EXPAND, LS_OP_EXPAND_BACKWARD, LS_OP_EXPAND_WEIGHT, LS_OP_EXPAND_WEIGHT_BACKWARD, LS_OP_MAX_OVER,
                 LS_OP_MAX_OVER_BACKWARD, LS_OP_COUNT},
};

/* What the windows of GENERAL have besides; `cropped`: the last ones of each row and column are left out. */
typedef struct more_windows {
    ls_attributes how;
    int cropped;
} more_windows;
enum {
    HALVED,
    DEPTHWISE_3,
    DEPTHWISE_5,
    DEPTHWISE_17,
    DILATED,
    WIDE,
    TALL,
    OBLONG,
    STRIDED_APART,
    FOUR_GROUPS,
    FOUR_WIDE,
    DEPTHWISE_APART,
    CROPPED_GROUPS,
    CROPPED_DEPTHWISE,
};
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

const row op_table[] = {
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
    {CONVS, 5, 17, 5, 7, 18, 1, 1, 0, 0}, /* kernels of 1 with channels for a card's tiles */
    {CONVS, 37, 9, 4, 5, 17, 1, 3, 0, 0},
    {CONVS, 5, 17, 16, 17, 9, 1, 2, 0, 0},
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
    {CONVS, 5, 17, 11, 14, 33, 3, 1, 1, 0}, /* Winograd's tiles of 7, as 5 x 7 has too */
    {CONVS, 37, 3, 14, 6, 5, 3, 1, 1, 0},
    {CONVS, 5, 17, 14, 13, 33, 3, 2, 1, 0}, /* and its phases, where 5 x 7 has tiles of 4 */
    {CONVS, 37, 5, 27, 9, 7, 3, 2, 1, 0},
    {CONVS, 37, 8, 27, 41, 20, 3, 2, 1, 0}, /* of several runs of tiles */
    {CONVS, 5, 3, 1, 2, 4, 3, 2, 1, 0},     /* of whose phases some write nothing */
    {CONVS, 1, 8, 27, 69, 16, 3, 2, 1, 0},  /* of several runs of tiles */
    {CONVS, 1, 3, 5, 6, 17, 5, 1, 0, 0},
    {CONVS, 37, 5, 8, 9, 3, 5, 1, 0, 0},
    {CONVS, 20, 17, 9, 8, 18, 5, 1, 1, 0},
    {CONVS, 1, 2, 1, 1, 3, 5, 1, 2, 0},
    {CONVS, 5, 4, 3, 13, 70, 5, 1, 3, 0},
    {CONVS, 37, 3, 1, 2, 5, 5, 1, 4, 0},
    {CONVS, 5, 37, 6, 5, 7, 5, 1, 4, 0},
    {CONVS, 1, 70, 14, 14, 40, 5, 1, 2, 0},
    {CONVS, 5, 70, 3, 4, 5, 3, 1, 1, 0}, /* more channels than Winograd adds at once, both ways */
    {CONVS, 5, 5, 3, 4, 70, 3, 1, 1, 0},
    {CONVS, 1, 5, 4, 3, 70, 5, 1, 2, 0},
    {CONVS, 20, 2, 7, 9, 3, 3, 1, 1, 0}, /* the largest map on which groups are summed as one, */
    {CONVS, 37, 2, 8, 8, 3, 3, 1, 1, 0}, /* the smallest on which each is by itself, */
    {CONVS, 20, 3, 8, 8, 5, 1, 1, 0, 0},
    {CONVS, 37, 2, 13, 14, 3, 3, 1, 1, 0}, /* and one that no block holds */
    {CROPPED, 20, 20, 13, 13, 50, 5, 1, 0, 0},
    {CROPPED, 5, 3, 6, 10, 7, 5, 1, 2, 0},
    {CROPPED, 37, 3, 9, 7, 5, 3, 1, 1, 0},
    {CROPPED, 5, 3, 7, 8, 5, 3, 1, 1, 0},
    {CROPPED, 5, 3, 9, 7, 5, 3, 2, 1, 0},
    {GENERAL, 5, 6, 5, 7, 4, 3, 1, 1, HALVED},
    {GENERAL, 20, 36, 5, 7, 10, 3, 2, 1, HALVED},
    {GENERAL, 37, 6, 1, 1, 4, 1, 1, 0, HALVED}, /* one place, and yet no linear layer */
    {GENERAL, 5, 12, 9, 8, 20, 1, 1, 0, FOUR_GROUPS},
    {GENERAL, 16, 20, 5, 7, 36, 1, 2, 0, FOUR_GROUPS},
    {GENERAL, 20, 8, 9, 10, 24, 3, 1, 1, FOUR_GROUPS},
    {GENERAL, 5, 8, 7, 11, 12, 3, 1, 1, FOUR_WIDE},
    {GENERAL, 20, 17, 5, 7, 17, 3, 1, 1, DEPTHWISE_17},
    {GENERAL, 5, 17, 8, 9, 17, 3, 2, 1, DEPTHWISE_17},
    {GENERAL, 37, 5, 9, 13, 5, 3, 1, 1, DEPTHWISE_5},
    {GENERAL, 5, 5, 6, 21, 5, 3, 1, 1, DEPTHWISE_5},
    {GENERAL, 16, 5, 7, 7, 5, 5, 1, 2, DEPTHWISE_5}, /* of more taps than the lanes sum at once */
    {GENERAL, 5, 5, 9, 8, 5, 5, 2, 2, DEPTHWISE_5},
    {GENERAL, 5, 5, 4, 4, 5, 1, 2, 0, DEPTHWISE_5},
    {GENERAL, 20, 3, 6, 7, 6, 3, 1, 0, DEPTHWISE_3}, /* of several outputs a channel, */
    {GENERAL, 5, 3, 6, 7, 27, 3, 2, 1, DEPTHWISE_3}, /* and of many */
    {GENERAL, 5, 3, 1, 2, 6, 3, 1, 1, DEPTHWISE_3},
    {GENERAL, 37, 3, 11, 9, 6, 3, 3, 2, DEPTHWISE_APART},
    {GENERAL, 5, 3, 9, 8, 5, 3, 1, 2, DILATED},
    {GENERAL, 20, 17, 6, 7, 5, 3, 2, 2, DILATED}, /* where whole rows meet no window */
    {GENERAL, 5, 3, 12, 9, 18, 2, 3, 0, DILATED},
    {GENERAL, 5, 3, 7, 6, 5, 3, 1, 1, WIDE},
    {GENERAL, 20, 3, 7, 9, 5, 3, 2, 1, WIDE},
    {GENERAL, 37, 4, 5, 7, 5, 3, 1, 1, TALL},
    {GENERAL, 5, 18, 6, 7, 5, 3, 2, 1, TALL},
    {GENERAL, 5, 3, 9, 11, 5, 3, 2, 1, OBLONG},
    {GENERAL, 16, 3, 9, 10, 5, 3, 2, 3, STRIDED_APART},
    {GENERAL, 5, 6, 9, 11, 8, 3, 1, 2, CROPPED_GROUPS},
    {GENERAL, 20, 3, 9, 8, 3, 3, 2, 1, CROPPED_DEPTHWISE},
    {POOLED, 37, 1, 28, 28, 20, 3, 1, 0, 0},
    {POOLED, 5, 3, 9, 6, 7, 3, 1, 0, 0},
    {POOLED, 16, 2, 4, 5, 1, 3, 1, 0, 0},
    {POOLED, 20, 1, 7, 16, 6, 3, 1, 0, 0},
    {POOLED, 17, 4, 6, 12, 5, 3, 1, 0, 0},
    {POOLED, 37, 2, 10, 11, 3, 3, 1, 0, 0},
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
    {CLASSES, 37, 10, 1, 1, WEIGHED | IGNORING, 0, 0, 0, 0},
    {CLASSES, 20, 5, 1, 1, WEIGHED, 0, 0, 0, 1},
    {CLASSES, 16, 10, 1, 1, TARGETS, 0, 0, 0, 1},
    {CLASSES, 5, 3, 5, 7, 0, 0, 0, 0, 0}, /* labels of places */
    {CLASSES, 37, 3, 2, 5, IGNORING, 0, 0, 0, 1},
    {CLASSES, 20, 5, 3, 2, WEIGHED | IGNORING, 0, 0, 0, 1},
    {CLASSES, 17, 3, 1, 7, TARGETS, 0, 0, 0, 0},
    {CLASSES, 37, 5, 2, 3, WEIGHED | TARGETS, 0, 0, 0, 0},
    {COUNTS, 1, 1, 1, 1, 0, 0, 0, 0, 0},
    {COUNTS, 16, 1, 1, 1, 0, 0, 0, 0, 0},
    {COUNTS, 37, 1, 1, 1, 0, 0, 0, 0, 0},
    {CONCATS, 5, 3, 5, 7, 2, 2, 0, 0, 0},
    {CONCATS, 37, 1, 2, 3, 17, 3, 0, 0, 0},
    {CONCATS, 16, 4, 1, 1, 1, 4, 0, 0, 0},
    {CONCATS, 5, 3, 5, 7, 2, 3, 0, 1, 0},
    {CONCATS, 37, 3, 2, 4, 17, 6, 0, 1, 0},
    {CONCATS, 20, 3, 5, 7, 1, 2, 0, 2, 0},
    {CONCATS, 17, 2, 1, 3, 4, 5, 0, 2, 0},
    {VIEWS, 37, 3, 5, 7, 0, 0, 0, 0, 0},
    {VIEWS, 5, 3, 5, 7, 1, 0, 0, 0, 0},
    {VIEWS, 16, 3, 5, 7, 2, 0, 0, 0, 0},
    {VIEWS, 20, 3, 5, 7, 3, 0, 0, 0, 0},
    {VIEWS, 1, 17, 3, 4, 4, 0, 0, 0, 0},
    {VIEWS, 33, 4, 3, 6, 5, 0, 0, 0, 0},
    {VIEWS, 5, 5, 2, 4, 6, 0, 0, 0, 0},
    {VIEWS, 17, 3, 2, 4, 7, 0, 0, 0, 0},
    {SETS, 37, 1, 33, 1, 0, 0, 0, 0, 0},
    {SETS, 5, 7, 32, 1, 0, 0, 0, 0, 0},
    {SETS, 20, 3, 70, 2, 0, 0, 0, 0, 0},
    {SETS, 16, 1, 17, 5, 0, 0, 0, 0, 0},
    {SETS, 1, 2, 1, 3, 0, 0, 0, 0, 0},
    {RESIZES, 37, 3, 5, 7, 0, 2, 3, 0,
     0}, /* to as many rows as the kernel's column says, and columns as the stride's */
    {RESIZES, 5, 2, 4, 6, 0, 8, 12, 0, 0},
    {RESIZES, 20, 3, 3, 5, 0, 9, 15, 0, 0},
    {RESIZES, 1, 17, 7, 5, 0, 3, 1, 0, 0},
    {RESIZES, 16, 2, 1, 1, 0, 3, 2, 0, 0},
    {RESIZES, 33, 2, 2, 3, 0, 7, 2, 0, 0},
    {PRODUCTS, 37, 2, 5, 7, 3, 0, 0, 0, 0},
    {PRODUCTS, 5, 1, 9, 4, 13, 0, 0, 0, 1},
    {PRODUCTS, 20, 3, 4, 6, 6, 0, 0, 0, 2},
    {PRODUCTS, 16, 1, 11, 3, 8, 0, 0, 0, 3},
    {PRODUCTS, 1, 1, 1, 1, 1, 0, 0, 0, 0},
    {PRODUCTS, 33, 2, 3, 33, 1, 0, 0, 0, 0},
    {EMBEDDINGS, 37, 5, 7, 1, 3, 0, 0, 0, 0},
    {EMBEDDINGS, 5, 9, 37, 1, 11, 0, 0, 0, 0},
    {EMBEDDINGS, 16, 3, 64, 1, 40, 0, 0, 0, 0},
    {EMBEDDINGS, 1, 1, 1, 1, 1, 0, 0, 0, 0},
    {EMBEDDINGS, 20, 2, 300, 1, 5, 0, 0, 0, 0},
    {FUNCTIONS, 37, 17, 3, 2, 0, 0, 0, 0, 0},
    {FUNCTIONS, 5, 3, 5, 17, 1, 0, 0, 0, 0}, /* a map that the lanes treat in several blocks */
    {FUNCTIONS, 16, 9, 1, 1, 2, 0, 0, 0, 0},
    {FUNCTIONS, 1, 3, 5, 7, 3, 0, 0, 0, 0},
    {FUNCTIONS, 20, 3, 2, 7, 4, 0, 0, 0, 0},
    {FUNCTIONS, 17, 2, 3, 3, 5, 0, 0, 0, 0},
    {EXPANDS, 37, 3, 5, 7, 0, 0, 0, 0, 0},
    {EXPANDS, 20, 3, 5, 7, 0, 1, 0, 0, 0},
    {EXPANDS, 5, 3, 5, 7, 0, 2, 0, 0, 0},
    {EXPANDS, 16, 17, 3, 2, 0, 4, 0, 0, 0},
    {EXPANDS, 37, 3, 5, 7, 0, 5, 0, 0, 0},
    {EXPANDS, 1, 17, 5, 7, 0, 6, 0, 0, 0},
    {EXPANDS, 37, 17, 3, 7, 0, 7, 0, 0, 0},
    {EXPANDS, 33, 9, 1, 1, 0, 6, 0, 0, 0},
};

const size_t op_rows = sizeof op_table / sizeof *op_table;

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
           what != THIN && what != WHOLE && what != HALVES && what != LEFT && what != RIGHT && what != IDS;
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
    case SAVED_SLOPE:
        return (ls_operand){NULL, 2 * r->c, 1, r->w};
    case THIN:
    case THIN_SLOPE:
    case THIN_WEIGHTS:
        return (ls_operand){NULL, r->kernel & 1 ? 1 : r->c, r->kernel & 2 ? 1 : r->h, r->kernel & 4 ? 1 : r->w};
    case PLACES_SLOPE:
        return (ls_operand){NULL, 1, r->h, r->w};
    case ONE_SLOPE:
    case NUMBER:
        return (ls_operand){NULL, 1, 1, 1};
    case WEIGHTS:
        return (ls_operand){NULL, r->o * (r->c / of.groups) * of.rows.kernel * of.columns.kernel, 1, 1};
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

size_t size_of(const row *r, kind what)
{
    ls_operand shape = shape_of(r, what);
    return by_image(what) ? test_lane_numbers(&shape, r->count) : test_numbers(&shape);
}

float operand_number(const test_case *one, kind what, float x)
{
    const ls_op op = one->attributes.op;
    const float large = floorf(fabsf(x) * 1000);
    if (what == IDS) /* some just outside, and some no whole numbers */
        return fmodf(large, (float)one->row->o + 2) - 1 + (fmodf(large, 17) == 0 ? 0.5f : 0);
    return op == LS_OP_MAX_OVER || op == LS_OP_MAX_OVER_BACKWARD ? roundf(x) : x;
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
        return i == 3 ? how->fused_add : i != 5 || one->bias;
    case LS_OP_BATCH_NORM_BACKWARD:
        return i != 4 || how->fused_relu;
    case LS_OP_CROSS_ENTROPY:
    case LS_OP_CROSS_ENTROPY_BACKWARD:
        return i < 2 || one->row->o & (i == 2 ? WEIGHED : TARGETS);
    case LS_OP_CONCAT:
        return i < one->row->kernel;
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
           op == LS_OP_IMAGES;
}

int takes_add(ls_op op)
{
    return op == LS_OP_IMAGES || op == LS_OP_BATCH_NORM || op == LS_OP_BATCH_NORM_INFER ||
           op == LS_OP_BATCH_NORM_BACKWARD;
}

int takes_bias(ls_op op)
{
    return op == LS_OP_CONV || op == LS_OP_CONV_POOL || op == LS_OP_WINOGRAD || op == LS_OP_BATCH_NORM ||
           op == LS_OP_BATCH_NORM_INFER;
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
    double taps = r->family == PRODUCTS ? (double)r->o
                  : r->family <= POOLED ? (double)r->o / of.groups * of.rows.kernel * of.columns.kernel
                                        : 1;
    return places * taps * r->c * r->count;
}
