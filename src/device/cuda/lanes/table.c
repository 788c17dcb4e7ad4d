/* The table of the card's operations in the lanes' layout. */
#include "device/cuda/lanes/lanes.h"

#define ENTRY(op, function) [LS_OP_##op] = ls_cuda_lanes_##function,
ls_cuda_operation *const ls_cuda_lanes[LS_OP_COUNT] = {LS_CUDA_LANES(ENTRY)};

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
    case LS_OP_BATCH_NORM_FROZEN_BACKWARD:
    case LS_OP_NORM_SUMS:
    case LS_OP_NORM_SLOPES:
        return ls_cuda_lanes_norm_scratch(call, shards);
    case LS_OP_ATTENTION_BACKWARD:
        return ls_cuda_lanes_attention_scratch(call, shards);
    case LS_OP_WINOGRAD:
    case LS_OP_WINOGRAD_DATA:
    case LS_OP_WINOGRAD_WEIGHT:
        return ls_cuda_lanes_winograd_scratch(call, shards);
    case LS_OP_LSTM_BACKWARD:
    case LS_OP_GRU_BACKWARD:
        return ls_cuda_lanes_recurrent_scratch(call, shards);
    default:
        return 0;
    }
}
