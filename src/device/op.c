#include "device/op.h"

static const char *const names[LS_OP_COUNT] = {
    [LS_OP_IMAGES] = "images",
    [LS_OP_CONV] = "conv",
    [LS_OP_CONV_DATA] = "conv_data",
    [LS_OP_CONV_WEIGHT] = "conv_weight",
    [LS_OP_WINOGRAD] = "winograd",
    [LS_OP_WINOGRAD_DATA] = "winograd_data",
    [LS_OP_WINOGRAD_WEIGHT] = "winograd_weight",
    [LS_OP_CHANNEL_SUM] = "channel_sum",
    [LS_OP_CONV_POOL] = "conv_pool",
    [LS_OP_CONV_POOL_WEIGHT] = "conv_pool_weight",
    [LS_OP_ADD] = "add",
    [LS_OP_ADD_BIAS] = "add_bias",
    [LS_OP_ADD_SCALED] = "add_scaled",
    [LS_OP_RELU] = "relu",
    [LS_OP_RELU_BACKWARD] = "relu_backward",
    [LS_OP_AVG_POOL] = "avg_pool",
    [LS_OP_AVG_POOL_BACKWARD] = "avg_pool_backward",
    [LS_OP_MAX_POOL] = "max_pool",
    [LS_OP_MAX_POOL_BACKWARD] = "max_pool_backward",
    [LS_OP_GLOBAL_AVG_POOL] = "global_avg_pool",
    [LS_OP_GLOBAL_AVG_POOL_BACKWARD] = "global_avg_pool_backward",
    [LS_OP_BATCH_NORM] = "batch_norm",
    [LS_OP_BATCH_NORM_INFER] = "batch_norm_infer",
    [LS_OP_BATCH_NORM_BACKWARD] = "batch_norm_backward",
    [LS_OP_NORM_SUMS] = "norm_sums",
    [LS_OP_NORM_APPLY] = "norm_apply",
    [LS_OP_NORM_SLOPES] = "norm_slopes",
    [LS_OP_NORM_DATA] = "norm_data",
    [LS_OP_BATCH_NORM_FROZEN_BACKWARD] = "batch_norm_frozen_backward",
    [LS_OP_DROPOUT] = "dropout",
    [LS_OP_CROSS_ENTROPY] = "cross_entropy",
    [LS_OP_CROSS_ENTROPY_BACKWARD] = "cross_entropy_backward",
    [LS_OP_ONES] = "ones",
    [LS_OP_INPUT] = "input",
    [LS_OP_SUM_IMAGES] = "sum_images",
    [LS_OP_COUNT_CORRECT] = "count_correct",
    [LS_OP_ROWS] = "rows",
    [LS_OP_MULTIPLY] = "multiply",
    [LS_OP_SUBTRACT] = "subtract",
    [LS_OP_DIVIDE] = "divide",
    [LS_OP_SCALE] = "scale",
    [LS_OP_TANH] = "tanh",
    [LS_OP_TANH_BACKWARD] = "tanh_backward",
    [LS_OP_SIGMOID] = "sigmoid",
    [LS_OP_SIGMOID_BACKWARD] = "sigmoid_backward",
    [LS_OP_EXP] = "exp",
    [LS_OP_LOG] = "log",
    [LS_OP_LOG_SIGMOID] = "log_sigmoid",
    [LS_OP_SQRT] = "sqrt",
    [LS_OP_ABS] = "abs",
    [LS_OP_POWER] = "power",
    [LS_OP_CLAMP] = "clamp",
    [LS_OP_LEAKY_RELU] = "leaky_relu",
    [LS_OP_SILU] = "silu",
    [LS_OP_GELU] = "gelu",
    [LS_OP_GELU_TANH] = "gelu_tanh",
    [LS_OP_SQRT_BACKWARD] = "sqrt_backward",
    [LS_OP_ABS_BACKWARD] = "abs_backward",
    [LS_OP_POWER_BACKWARD] = "power_backward",
    [LS_OP_CLAMP_BACKWARD] = "clamp_backward",
    [LS_OP_LEAKY_RELU_BACKWARD] = "leaky_relu_backward",
    [LS_OP_LOG_SIGMOID_BACKWARD] = "log_sigmoid_backward",
    [LS_OP_SILU_BACKWARD] = "silu_backward",
    [LS_OP_GELU_BACKWARD] = "gelu_backward",
    [LS_OP_GELU_TANH_BACKWARD] = "gelu_tanh_backward",
    [LS_OP_EXPAND] = "expand",
    [LS_OP_EXPAND_BACKWARD] = "expand_backward",
    [LS_OP_EXPAND_WEIGHT] = "expand_weight",
    [LS_OP_EXPAND_WEIGHT_BACKWARD] = "expand_weight_backward",
    [LS_OP_SET_NORM] = "set_norm",
    [LS_OP_SET_NORM_BACKWARD] = "set_norm_backward",
    [LS_OP_RMS_NORM] = "rms_norm",
    [LS_OP_RMS_NORM_BACKWARD] = "rms_norm_backward",
    [LS_OP_MAX_OVER] = "max_over",
    [LS_OP_MAX_OVER_BACKWARD] = "max_over_backward",
    [LS_OP_ADAPTIVE_POOL] = "adaptive_pool",
    [LS_OP_ADAPTIVE_POOL_BACKWARD] = "adaptive_pool_backward",
    [LS_OP_BILINEAR] = "bilinear",
    [LS_OP_BILINEAR_BACKWARD] = "bilinear_backward",
    [LS_OP_SOFTMAX] = "softmax",
    [LS_OP_SOFTMAX_BACKWARD] = "softmax_backward",
    [LS_OP_CONCAT] = "concat",
    [LS_OP_VIEW] = "view",
    [LS_OP_BATCH_MATMUL] = "batch_matmul",
    [LS_OP_EMBEDDING] = "embedding",
    [LS_OP_EMBEDDING_BACKWARD] = "embedding_backward",
    [LS_OP_LSTM] = "lstm",
    [LS_OP_GRU] = "gru",
    [LS_OP_LSTM_BACKWARD] = "lstm_backward",
    [LS_OP_GRU_BACKWARD] = "gru_backward",
    [LS_OP_LAST_TOKEN] = "last_token",
    [LS_OP_LAST_TOKEN_BACKWARD] = "last_token_backward",
    [LS_OP_ATTENTION] = "attention",
    [LS_OP_ATTENTION_BACKWARD] = "attention_backward",
    [LS_OP_SUM] = "sum",
    [LS_OP_SUM_BACKWARD] = "sum_backward",
    [LS_OP_SQUARED_ERROR] = "squared_error",
    [LS_OP_SQUARED_ERROR_BACKWARD] = "squared_error_backward",
    [LS_OP_CUSTOM] = "custom",
    [LS_OP_CUSTOM_BACKWARD] = "custom_backward",
    [LS_OP_RESHAPE] = "reshape",
};

const char *ls_op_name(ls_op op)
{
    unsigned at = (unsigned)op;
    return at < LS_OP_COUNT ? names[at] : "unknown";
}

unsigned ls_op_overwrites(ls_op op)
{
    static const unsigned char operands[LS_OP_COUNT] = {
        [LS_OP_ADD] = 3,
        [LS_OP_CONV_DATA] = 4,
        [LS_OP_ADD_BIAS] = 1,
        [LS_OP_RELU] = 1,
        [LS_OP_RELU_BACKWARD] = 3,
        [LS_OP_MULTIPLY] = 3,
        [LS_OP_SUBTRACT] = 3,
        [LS_OP_DIVIDE] = 3,
        [LS_OP_SCALE] = 1,
        [LS_OP_TANH_BACKWARD] = 3,
        [LS_OP_SIGMOID_BACKWARD] = 3,
        [LS_OP_AVG_POOL_BACKWARD] = 2,
        [LS_OP_BATCH_NORM_INFER] = 9,
        [LS_OP_BATCH_NORM_BACKWARD] = 19,
        [LS_OP_NORM_DATA] = 19,
        [LS_OP_BATCH_NORM_FROZEN_BACKWARD] = 3,
        [LS_OP_SET_NORM] = 1,
        [LS_OP_SET_NORM_BACKWARD] = 3,
        [LS_OP_RMS_NORM] = 1,
        [LS_OP_RMS_NORM_BACKWARD] = 3,
    };
    if (ls_op_is_function(op) || ls_op_is_function_backward(op))
        return ls_op_is_function(op) ? 1 : 3;
    unsigned at = (unsigned)op;
    return at < LS_OP_COUNT ? operands[at] : 0;
}

/* Of so many products for each pair of a row and a key; half of them where rows see none behind their own place. */
static double attention_flops(const ls_op_call *call, const ls_operand *q, const ls_operand *k, int products)
{
    return (call->attributes->causal ? 1.0 : 2.0) * q->c * q->h * k->h * products;
}

double ls_op_flops(const ls_op_call *call)
{
    const ls_operand *x, *y;
    int windows = 1; /* of a pool behind it, in places */
    switch (call->attributes->op) {
    case LS_OP_CONV:
    case LS_OP_WINOGRAD:
        x = &call->in[0], y = &call->out[0];
        break;
    case LS_OP_CONV_DATA:
    case LS_OP_WINOGRAD_DATA:
        x = &call->out[0], y = &call->in[0];
        break;
    case LS_OP_CONV_WEIGHT:
    case LS_OP_WINOGRAD_WEIGHT:
        x = &call->in[0], y = &call->in[1];
        break;
    case LS_OP_CONV_POOL:
        x = &call->in[0], y = &call->out[0], windows = 4;
        break;
    case LS_OP_CONV_POOL_WEIGHT:
        x = &call->in[0], y = &call->in[1], windows = 4;
        break;
    case LS_OP_BATCH_MATMUL:
        x = &call->in[0], y = &call->out[0];
        return 2.0 * y->c * y->h * y->w * (call->attributes->transposed[0] ? x->h : x->w);
    case LS_OP_LSTM:
    case LS_OP_GRU: /* a product with the weights for each token */
        return 2.0 * call->out[0].c * call->in[1].c;
    case LS_OP_LSTM_BACKWARD:
    case LS_OP_GRU_BACKWARD:
        return 2.0 * call->in[0].c * call->in[2].c;
    case LS_OP_ATTENTION:
        x = &call->in[0], y = &call->out[0];
        return attention_flops(call, x, &call->in[1], x->w + y->w);
    case LS_OP_ATTENTION_BACKWARD:
        x = &call->in[1], y = &call->in[4];
        return attention_flops(call, x, &call->in[2], 3 * x->w + 2 * y->w);
    default:
        return 0.0;
    }
    const ls_windows w = ls_windows_of(call->attributes);
    return 2.0 * y->c * y->h * y->w * windows * ((double)x->c / w.groups) * w.rows.kernel * w.columns.kernel;
}
