#include "device/ref/ref.h"

static size_t scratch(const ls_op_call *call)
{
    switch (call->attributes->op) {
    case LS_OP_CONV_POOL:
    case LS_OP_CONV_POOL_WEIGHT:
        return ls_ref_conv_pool_scratch(call);
    case LS_OP_WINOGRAD:
    case LS_OP_WINOGRAD_DATA:
        return ls_ref_winograd_scratch(call);
    case LS_OP_WINOGRAD_WEIGHT:
        return ls_ref_winograd_weight_scratch(call);
    case LS_OP_CUSTOM:
    case LS_OP_CUSTOM_BACKWARD:
        return ls_ref_custom_scratch(call);
    case LS_OP_LSTM_BACKWARD:
    case LS_OP_GRU_BACKWARD:
        return ls_ref_recurrent_scratch(call);
    default:
        return 0;
    }
}

static const ls_backend reference = {
    .name = "reference",
    .exact = 1,
    .group = LS_LANES,
    .place = LS_LANES,
    .clamps = 1,
    .kernel =
        {
            [LS_OP_IMAGES] = ls_ref_each_place,
            [LS_OP_CONV] = ls_ref_each_place,
            [LS_OP_CONV_DATA] = ls_ref_each_place,
            [LS_OP_CONV_WEIGHT] = ls_ref_conv_weight,
            [LS_OP_WINOGRAD] = ls_ref_winograd,
            [LS_OP_WINOGRAD_DATA] = ls_ref_winograd,
            [LS_OP_WINOGRAD_WEIGHT] = ls_ref_winograd_weight,
            [LS_OP_CHANNEL_SUM] = ls_ref_channel_sum,
            [LS_OP_CONV_POOL] = ls_ref_conv_pool,
            [LS_OP_CONV_POOL_WEIGHT] = ls_ref_conv_pool_weight,
            [LS_OP_ADD] = ls_ref_add,
            [LS_OP_ADD_BIAS] = ls_ref_each_place,
            [LS_OP_ADD_SCALED] = ls_ref_add_scaled,
            [LS_OP_RELU] = ls_ref_relu,
            [LS_OP_RELU_BACKWARD] = ls_ref_relu_backward,
            [LS_OP_AVG_POOL] = ls_ref_each_place,
            [LS_OP_AVG_POOL_BACKWARD] = ls_ref_each_place,
            [LS_OP_MAX_POOL] = ls_ref_each_place,
            [LS_OP_MAX_POOL_BACKWARD] = ls_ref_each_place,
            [LS_OP_GLOBAL_AVG_POOL] = ls_ref_each_place,
            [LS_OP_GLOBAL_AVG_POOL_BACKWARD] = ls_ref_each_place,
            [LS_OP_BATCH_NORM] = ls_ref_batch_norm,
            [LS_OP_BATCH_NORM_INFER] = ls_ref_batch_norm_infer,
            [LS_OP_BATCH_NORM_BACKWARD] = ls_ref_batch_norm_backward,
            [LS_OP_NORM_SUMS] = ls_ref_norm_sums,
            [LS_OP_NORM_APPLY] = ls_ref_norm_apply,
            [LS_OP_NORM_SLOPES] = ls_ref_norm_slopes,
            [LS_OP_NORM_DATA] = ls_ref_norm_data,
            [LS_OP_BATCH_NORM_FROZEN_BACKWARD] = ls_ref_batch_norm_frozen_backward,
            [LS_OP_DROPOUT] = ls_ref_dropout,
            [LS_OP_CROSS_ENTROPY] = ls_ref_cross_entropy,
            [LS_OP_CROSS_ENTROPY_BACKWARD] = ls_ref_cross_entropy_backward,
            [LS_OP_ONES] = ls_ref_ones,
            [LS_OP_INPUT] = ls_ref_input,
            [LS_OP_SUM_IMAGES] = ls_ref_sum_images,
            [LS_OP_COUNT_CORRECT] = ls_ref_count_correct,
            [LS_OP_ROWS] = ls_ref_rows,
            [LS_OP_MULTIPLY] = ls_ref_each_number,
            [LS_OP_SUBTRACT] = ls_ref_each_number,
            [LS_OP_DIVIDE] = ls_ref_each_number,
            [LS_OP_SCALE] = ls_ref_each_number,
            [LS_OP_TANH] = ls_ref_each_number,
            [LS_OP_TANH_BACKWARD] = ls_ref_each_number,
            [LS_OP_SIGMOID] = ls_ref_each_number,
            [LS_OP_SIGMOID_BACKWARD] = ls_ref_each_number,
            [LS_OP_EXP] = ls_ref_each_number,
            [LS_OP_LOG] = ls_ref_each_number,
            [LS_OP_LOG_SIGMOID] = ls_ref_each_number,
            [LS_OP_SQRT] = ls_ref_each_number,
            [LS_OP_ABS] = ls_ref_each_number,
            [LS_OP_POWER] = ls_ref_each_number,
            [LS_OP_CLAMP] = ls_ref_each_number,
            [LS_OP_LEAKY_RELU] = ls_ref_each_number,
            [LS_OP_SILU] = ls_ref_each_number,
            [LS_OP_GELU] = ls_ref_each_number,
            [LS_OP_GELU_TANH] = ls_ref_each_number,
            [LS_OP_SQRT_BACKWARD] = ls_ref_each_number,
            [LS_OP_ABS_BACKWARD] = ls_ref_each_number,
            [LS_OP_POWER_BACKWARD] = ls_ref_each_number,
            [LS_OP_CLAMP_BACKWARD] = ls_ref_each_number,
            [LS_OP_LEAKY_RELU_BACKWARD] = ls_ref_each_number,
            [LS_OP_LOG_SIGMOID_BACKWARD] = ls_ref_each_number,
            [LS_OP_SILU_BACKWARD] = ls_ref_each_number,
            [LS_OP_GELU_BACKWARD] = ls_ref_each_number,
            [LS_OP_GELU_TANH_BACKWARD] = ls_ref_each_number,
            [LS_OP_EXPAND] = ls_ref_each_place,
            [LS_OP_EXPAND_BACKWARD] = ls_ref_each_place,
            [LS_OP_EXPAND_WEIGHT] = ls_ref_each_place,
            [LS_OP_EXPAND_WEIGHT_BACKWARD] = ls_ref_expand_weight_backward,
            [LS_OP_SET_NORM] = ls_ref_set_norm,
            [LS_OP_SET_NORM_BACKWARD] = ls_ref_set_norm_backward,
            [LS_OP_RMS_NORM] = ls_ref_set_norm,
            [LS_OP_RMS_NORM_BACKWARD] = ls_ref_set_norm_backward,
            [LS_OP_MAX_OVER] = ls_ref_each_place,
            [LS_OP_MAX_OVER_BACKWARD] = ls_ref_each_place,
            [LS_OP_ADAPTIVE_POOL] = ls_ref_each_place,
            [LS_OP_ADAPTIVE_POOL_BACKWARD] = ls_ref_each_place,
            [LS_OP_BILINEAR] = ls_ref_each_place,
            [LS_OP_BILINEAR_BACKWARD] = ls_ref_each_place,
            [LS_OP_SOFTMAX] = ls_ref_each_image,
            [LS_OP_SOFTMAX_BACKWARD] = ls_ref_each_image,
            [LS_OP_CONCAT] = ls_ref_concat,
            [LS_OP_VIEW] = ls_ref_each_place,
            [LS_OP_BATCH_MATMUL] = ls_ref_each_place,
            [LS_OP_EMBEDDING] = ls_ref_each_place,
            [LS_OP_EMBEDDING_BACKWARD] = ls_ref_embedding_backward,
            [LS_OP_LSTM] = ls_ref_recurrent,
            [LS_OP_GRU] = ls_ref_recurrent,
            [LS_OP_LSTM_BACKWARD] = ls_ref_recurrent_backward,
            [LS_OP_GRU_BACKWARD] = ls_ref_recurrent_backward,
            [LS_OP_LAST_TOKEN] = ls_ref_each_place,
            [LS_OP_LAST_TOKEN_BACKWARD] = ls_ref_each_place,
            [LS_OP_ATTENTION] = ls_ref_attention,
            [LS_OP_ATTENTION_BACKWARD] = ls_ref_attention_backward,
            [LS_OP_SUM] = ls_ref_each_image,
            [LS_OP_SUM_BACKWARD] = ls_ref_each_image,
            [LS_OP_SQUARED_ERROR] = ls_ref_each_image,
            [LS_OP_SQUARED_ERROR_BACKWARD] = ls_ref_each_image,
            [LS_OP_CUSTOM] = ls_ref_custom,
            [LS_OP_CUSTOM_BACKWARD] = ls_ref_custom_backward,
            [LS_OP_RESHAPE] = ls_ref_reshape,
        },
    .scratch = scratch,
    .add = ls_ref_vector_add,
    .sgd = ls_ref_vector_sgd,
    .adam = ls_ref_vector_adam,
    .average = ls_ref_vector_average,
};

const ls_backend *ls_backend_ref(void)
{
    return &reference;
}
