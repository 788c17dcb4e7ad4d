/* The card's operations in float32: op.h's, addition by addition, in the layout of the lanes. They have a core's bits.
 */
#include "device/cuda/card.h"
#include "device/cuda/lanes/lanes.h"

static void in_lanes(const ls_op_call *call)
{
    const ls_card *card = (const ls_card *)call->executor;
    const ls_cuda_shards shards = {.shards = 1,
                                   .images = call->samples->count,
                                   .last = call->samples->count,
                                   .shared = card->shared,
                                   .one = &card->now->one,
                                   .step = &card->now->step};
    ls_cuda_lanes[call->attributes->op](call, &shards, card->stream);
}

/* Enough for any card: with shared memory for all tiles most of their edges are filled up. */
static size_t scratch(const ls_op_call *call)
{
    const ls_cuda_shards shards = {
        .shards = 1, .images = call->samples->count, .last = call->samples->count, .shared = SIZE_MAX};
    return ls_cuda_lanes_scratch(call, &shards);
}

const ls_backend *ls_card_exact_backend(void)
{
    static const ls_backend exact = {.name = "cuda f32",
                                     .group = LS_LANES,
                                     .place = LS_CUDA_ALIGNMENT / sizeof(float),
                                     .scratch = scratch,
                                     .exact = 1,
                                     .kernel = {
                                         [LS_OP_IMAGES] = in_lanes,
                                         [LS_OP_CONV] = in_lanes,
                                         [LS_OP_CONV_DATA] = in_lanes,
                                         [LS_OP_CONV_WEIGHT] = in_lanes,
                                         [LS_OP_WINOGRAD] = in_lanes,
                                         [LS_OP_WINOGRAD_DATA] = in_lanes,
                                         [LS_OP_WINOGRAD_WEIGHT] = in_lanes,
                                         [LS_OP_CHANNEL_SUM] = in_lanes,
                                         [LS_OP_ADD] = in_lanes,
                                         [LS_OP_ADD_BIAS] = in_lanes,
                                         [LS_OP_RELU] = in_lanes,
                                         [LS_OP_RELU_BACKWARD] = in_lanes,
                                         [LS_OP_AVG_POOL] = in_lanes,
                                         [LS_OP_AVG_POOL_BACKWARD] = in_lanes,
                                         [LS_OP_MAX_POOL] = in_lanes,
                                         [LS_OP_MAX_POOL_BACKWARD] = in_lanes,
                                         [LS_OP_GLOBAL_AVG_POOL] = in_lanes,
                                         [LS_OP_GLOBAL_AVG_POOL_BACKWARD] = in_lanes,
                                         [LS_OP_BATCH_NORM] = in_lanes,
                                         [LS_OP_BATCH_NORM_INFER] = in_lanes,
                                         [LS_OP_BATCH_NORM_BACKWARD] = in_lanes,
                                         [LS_OP_DROPOUT] = in_lanes,
                                         [LS_OP_CROSS_ENTROPY] = in_lanes,
                                         [LS_OP_CROSS_ENTROPY_BACKWARD] = in_lanes,
                                         [LS_OP_ONES] = in_lanes,
                                         [LS_OP_SUM_IMAGES] = in_lanes,
                                         [LS_OP_COUNT_CORRECT] = in_lanes,
                                         [LS_OP_ROWS] = in_lanes,
                                         [LS_OP_INPUT] = in_lanes,
                                         [LS_OP_MULTIPLY] = in_lanes,
                                         [LS_OP_SUBTRACT] = in_lanes,
                                         [LS_OP_SCALE] = in_lanes,
                                         [LS_OP_TANH] = in_lanes,
                                         [LS_OP_TANH_BACKWARD] = in_lanes,
                                         [LS_OP_SIGMOID] = in_lanes,
                                         [LS_OP_SIGMOID_BACKWARD] = in_lanes,
                                         [LS_OP_SOFTMAX] = in_lanes,
                                         [LS_OP_SOFTMAX_BACKWARD] = in_lanes,
                                         [LS_OP_CONCAT] = in_lanes,
                                         [LS_OP_SLICE] = in_lanes,
                                         [LS_OP_SUM] = in_lanes,
                                         [LS_OP_SUM_BACKWARD] = in_lanes,
                                         [LS_OP_SQUARED_ERROR] = in_lanes,
                                         [LS_OP_SQUARED_ERROR_BACKWARD] = in_lanes,
                                         [LS_OP_RESHAPE] = in_lanes,
                                     }};
    return &exact;
}
