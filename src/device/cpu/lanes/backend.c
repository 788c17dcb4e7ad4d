/* The table of one instruction set: the reference's kernels, and over them those of this folder. */
#include <pthread.h>
#include "device/cpu/lanes/table.h"

static ls_backend backend;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static size_t scratch(const ls_op_call *call)
{
    switch (call->attributes->op) {
    case LS_OP_IMAGES:
        return LANES(ls_lanes_images_scratch)(call);
    case LS_OP_CONV:
    case LS_OP_CONV_DATA:
        return LANES(ls_lanes_conv_scratch)(call);
    case LS_OP_CONV_WEIGHT:
        return LANES(ls_lanes_weight_scratch)(call);
    case LS_OP_CONV_POOL:
    case LS_OP_CONV_POOL_WEIGHT:
        return 0;
    case LS_OP_WINOGRAD:
    case LS_OP_WINOGRAD_DATA:
        return LANES(ls_lanes_winograd_scratch)(call);
    case LS_OP_WINOGRAD_WEIGHT:
        return LANES(ls_lanes_winograd_weight_scratch)(call);
    case LS_OP_LSTM:
    case LS_OP_GRU:
    case LS_OP_LSTM_BACKWARD:
    case LS_OP_GRU_BACKWARD:
        return LANES(ls_lanes_recurrent_scratch)(call);
    case LS_OP_ATTENTION:
    case LS_OP_ATTENTION_BACKWARD:
        return LANES(ls_lanes_attention_scratch)(call);
    default:
        return ls_backend_ref()->scratch ? ls_backend_ref()->scratch(call) : 0;
    }
}

static int units_of(const ls_op_call *call)
{
    const ls_op op = call->attributes->op;
    if (ls_op_is_function(op) || ls_op_is_function_backward(op))
        return call->groups * call->out[0].c;
    switch (op) {
    case LS_OP_CONV:
    case LS_OP_CONV_DATA:
        return LANES(ls_lanes_conv_units)(call);
    case LS_OP_CONV_WEIGHT:
        return LANES(ls_lanes_weight_units)(call);
    case LS_OP_CONV_POOL:
    case LS_OP_CONV_POOL_WEIGHT:
        return LANES(ls_lanes_conv_pool_units)(call);
    case LS_OP_WINOGRAD:
    case LS_OP_WINOGRAD_DATA:
        return LANES(ls_lanes_winograd_units)(call);
    case LS_OP_WINOGRAD_WEIGHT:
        return LANES(ls_lanes_winograd_weight_units)(call);
    case LS_OP_BATCH_MATMUL:
        return LANES(ls_lanes_batch_matmul_units)(call);
    case LS_OP_EMBEDDING:
    case LS_OP_EMBEDDING_BACKWARD:
        return LANES(ls_lanes_embedding_units)(call);
    case LS_OP_LSTM: /* tokens follow one another; groups of images do not */
    case LS_OP_GRU:
    case LS_OP_LSTM_BACKWARD:
    case LS_OP_GRU_BACKWARD:
        return call->groups;
    case LS_OP_ATTENTION:
    case LS_OP_ATTENTION_BACKWARD:
        return LANES(ls_lanes_attention_units)(call);
    case LS_OP_BATCH_NORM:
    case LS_OP_BATCH_NORM_INFER:
    case LS_OP_BATCH_NORM_BACKWARD:
    case LS_OP_BATCH_NORM_FROZEN_BACKWARD:
    case LS_OP_NORM_SUMS:
    case LS_OP_NORM_APPLY:
    case LS_OP_NORM_SLOPES:
    case LS_OP_NORM_DATA:
    case LS_OP_CHANNEL_SUM:
        return call->in[0].c;
    case LS_OP_ADD:
    case LS_OP_RELU:
    case LS_OP_RELU_BACKWARD:
    case LS_OP_AVG_POOL:
    case LS_OP_AVG_POOL_BACKWARD:
    case LS_OP_MAX_POOL:
    case LS_OP_MAX_POOL_BACKWARD:
    case LS_OP_GLOBAL_AVG_POOL:
    case LS_OP_GLOBAL_AVG_POOL_BACKWARD:
        return call->groups * call->out[0].c;
    case LS_OP_CROSS_ENTROPY:
    case LS_OP_CROSS_ENTROPY_BACKWARD:
        return call->groups * call->out[0].h * call->out[0].w;
    default:
        return 1;
    }
}

/* A part takes some ten microseconds at least, ten times what handing it to another core costs. */
static int parts(const ls_op_call *call)
{
    enum { FLOPS = 2 << 20, NUMBERS = 64 << 10 };
    double numbers = 0;
    for (int i = 0; i < LS_MAX_IN; i++)
        numbers += (double)call->in[i].c * call->in[i].h * call->in[i].w;
    const double flops = ls_op_flops(call) * call->samples->count;
    const double worth = flops > 0 ? flops / FLOPS : numbers * call->groups * LS_LANES / NUMBERS;
    const int most = units_of(call);
    return worth < most ? (int)worth : most;
}

static void fill(void)
{
    backend = *ls_backend_ref();
    backend.name = LANES_QUOTE(LANES_ISA);
    backend.scratch = scratch;
    backend.parts = parts;
    LANES(ls_lanes_add_conv)(&backend);
    LANES(ls_lanes_add_weight)(&backend);
    LANES(ls_lanes_add_conv_pool)(&backend);
    LANES(ls_lanes_add_winograd)(&backend);
    LANES(ls_lanes_add_winograd_weight)(&backend);
    LANES(ls_lanes_add_norm)(&backend);
    LANES(ls_lanes_add_pool)(&backend);
    LANES(ls_lanes_add_pointwise)(&backend);
    LANES(ls_lanes_add_elementwise)(&backend);
    LANES(ls_lanes_add_function)(&backend);
    LANES(ls_lanes_add_expand)(&backend);
    LANES(ls_lanes_add_view)(&backend);
    LANES(ls_lanes_add_set_norm)(&backend);
    LANES(ls_lanes_add_batch_matmul)(&backend);
    LANES(ls_lanes_add_embedding)(&backend);
    LANES(ls_lanes_add_recurrent)(&backend);
    LANES(ls_lanes_add_attention)(&backend);
    LANES(ls_lanes_add_features)(&backend);
    LANES(ls_lanes_add_dropout)(&backend);
    LANES(ls_lanes_add_loss)(&backend);
    LANES(ls_lanes_add_flat)(&backend);
    LANES(ls_lanes_add_peak)(&backend);
}

const ls_backend *LANES(ls_lanes)(void)
{
    pthread_once(&once, fill);
    return &backend;
}
