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
    [LS_OP_ADD] = "add",
    [LS_OP_ADD_BIAS] = "add_bias",
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
    [LS_OP_DROPOUT] = "dropout",
    [LS_OP_CROSS_ENTROPY] = "cross_entropy",
    [LS_OP_CROSS_ENTROPY_BACKWARD] = "cross_entropy_backward",
    [LS_OP_ONES] = "ones",
    [LS_OP_SUM_IMAGES] = "sum_images",
    [LS_OP_COUNT_CORRECT] = "count_correct",
    [LS_OP_ROWS] = "rows",
};

const char *ls_op_name(ls_op op)
{
    unsigned at = (unsigned)op;
    return at < LS_OP_COUNT ? names[at] : "unknown";
}
