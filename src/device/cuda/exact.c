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

#define ENTRY(op, function) [LS_OP_##op] = in_lanes,
const ls_backend *ls_card_exact_backend(void)
{
    static const ls_backend exact = {.name = "cuda f32",
                                     .group = LS_LANES,
                                     .place = LS_CUDA_ALIGNMENT / sizeof(float),
                                     .scratch = scratch,
                                     .exact = 1,
                                     .kernel = {LS_CUDA_LANES(ENTRY)}};
    return &exact;
}
