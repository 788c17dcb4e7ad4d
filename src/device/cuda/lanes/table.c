/* The table of the card's operations in the lanes' layout. */
#include "device/cuda/lanes/lanes.h"

ls_cuda_operation *const ls_cuda_lanes[LS_OP_COUNT] = {
    [LS_OP_IMAGES] = ls_cuda_lanes_images,
    [LS_OP_CONV] = ls_cuda_lanes_conv,
    [LS_OP_CONV_DATA] = ls_cuda_lanes_conv_data,
    [LS_OP_CONV_WEIGHT] = ls_cuda_lanes_conv_weight,
    [LS_OP_WINOGRAD] = ls_cuda_lanes_winograd,
    [LS_OP_WINOGRAD_DATA] = ls_cuda_lanes_winograd,
    [LS_OP_WINOGRAD_WEIGHT] = ls_cuda_lanes_winograd_weight,
    [LS_OP_CHANNEL_SUM] = ls_cuda_lanes_channel_sum,
    [LS_OP_ADD] = ls_cuda_lanes_each,
    [LS_OP_ADD_BIAS] = ls_cuda_lanes_add_bias,
    [LS_OP_RELU] = ls_cuda_lanes_each,
    [LS_OP_RELU_BACKWARD] = ls_cuda_lanes_each,
    [LS_OP_AVG_POOL] = ls_cuda_lanes_pool,
    [LS_OP_AVG_POOL_BACKWARD] = ls_cuda_lanes_pool_backward,
    [LS_OP_MAX_POOL] = ls_cuda_lanes_pool,
    [LS_OP_MAX_POOL_BACKWARD] = ls_cuda_lanes_pool_backward,
    [LS_OP_GLOBAL_AVG_POOL] = ls_cuda_lanes_global_pool,
    [LS_OP_GLOBAL_AVG_POOL_BACKWARD] = ls_cuda_lanes_global_pool_backward,
    [LS_OP_BATCH_NORM] = ls_cuda_lanes_batch_norm,
    [LS_OP_BATCH_NORM_INFER] = ls_cuda_lanes_batch_norm_infer,
    [LS_OP_BATCH_NORM_BACKWARD] = ls_cuda_lanes_batch_norm_backward,
    [LS_OP_DROPOUT] = ls_cuda_lanes_dropout,
    [LS_OP_CROSS_ENTROPY] = ls_cuda_lanes_cross_entropy,
    [LS_OP_CROSS_ENTROPY_BACKWARD] = ls_cuda_lanes_cross_entropy_backward,
    [LS_OP_ONES] = ls_cuda_lanes_ones,
    [LS_OP_SUM_IMAGES] = ls_cuda_lanes_sum_images,
    [LS_OP_COUNT_CORRECT] = ls_cuda_lanes_count_correct,
    [LS_OP_ROWS] = ls_cuda_lanes_rows,
    [LS_OP_INPUT] = ls_cuda_lanes_input,
    [LS_OP_MULTIPLY] = ls_cuda_lanes_each,
    [LS_OP_SUBTRACT] = ls_cuda_lanes_each,
    [LS_OP_SCALE] = ls_cuda_lanes_each,
    [LS_OP_TANH] = ls_cuda_lanes_each,
    [LS_OP_TANH_BACKWARD] = ls_cuda_lanes_each,
    [LS_OP_SIGMOID] = ls_cuda_lanes_each,
    [LS_OP_SIGMOID_BACKWARD] = ls_cuda_lanes_each,
    [LS_OP_SOFTMAX] = ls_cuda_lanes_softmax,
    [LS_OP_SOFTMAX_BACKWARD] = ls_cuda_lanes_softmax_backward,
    [LS_OP_CONCAT] = ls_cuda_lanes_concat,
    [LS_OP_SLICE] = ls_cuda_lanes_slice,
    [LS_OP_SUM] = ls_cuda_lanes_sum,
    [LS_OP_SUM_BACKWARD] = ls_cuda_lanes_sum_backward,
    [LS_OP_SQUARED_ERROR] = ls_cuda_lanes_sum,
    [LS_OP_SQUARED_ERROR_BACKWARD] = ls_cuda_lanes_sum_backward,
    [LS_OP_RESHAPE] = ls_cuda_lanes_reshape,
};

size_t ls_cuda_lanes_scratch(const ls_op_call *call, const ls_cuda_shards *shards)
{
    const ls_operand *out = &call->out[0];
    const size_t images = (size_t)(shards->shards - 1) * shards->images + shards->last;
    switch (call->attributes->op) {
    case LS_OP_INPUT: /* the rows, before they are turned */
        return images * out->c * out->h * out->w * sizeof(float);
    case LS_OP_CONV:
    case LS_OP_CONV_DATA:
    case LS_OP_CONV_WEIGHT:
        return ls_cuda_lanes_conv_scratch(call, shards);
    case LS_OP_CHANNEL_SUM:
    case LS_OP_BATCH_NORM:
    case LS_OP_BATCH_NORM_BACKWARD:
        return ls_cuda_lanes_norm_scratch(call, shards);
    case LS_OP_WINOGRAD:
    case LS_OP_WINOGRAD_DATA:
    case LS_OP_WINOGRAD_WEIGHT:
        return ls_cuda_lanes_winograd_scratch(call, shards);
    default:
        return 0;
    }
}
