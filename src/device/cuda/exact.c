/* The card's operations in float32: op.h's, addition by addition, in the layout of the lanes. They have a core's bits.
 */
#include "device/cuda/card.h"
#include "device/cuda/lanes/lanes.h"

static ls_cuda_shards shards_of(const ls_op_call *call)
{
    const ls_card *card = (const ls_card *)call->executor;
    return (ls_cuda_shards){.shards = 1,
                            .images = call->samples->count,
                            .last = call->samples->count,
                            .shared = card->shared,
                            .one = &card->now->one,
                            .step = &card->now->step};
}

static void in_lanes(const ls_op_call *call)
{
    const ls_card *card = (const ls_card *)call->executor;
    const ls_cuda_shards shards = shards_of(call);
    ls_cuda_lanes[call->attributes->op](call, &shards, card->stream);
}

/* The user's own operation, between rows and lanes. */
static void from_lanes(const ls_op_call *call, const ls_operand *x, float *rows)
{
    const ls_attributes how = {.op = LS_OP_ROWS};
    ls_op_call turn = *call;
    turn.attributes = &how;
    turn.in[0] = *x;
    turn.out[0] = (ls_operand){.data = rows};
    in_lanes(&turn);
}

static void to_lanes(const ls_op_call *call, const float *rows, const ls_operand *x)
{
    const ls_card *card = (const ls_card *)call->executor;
    const ls_cuda_shards shards = shards_of(call);
    ls_cuda_lanes_from_rows(x, rows, &shards, card->stream);
}

static void own(const ls_op_call *call)
{
    static const ls_card_rows rows = {from_lanes, to_lanes};
    ls_card_own(call, &rows);
}

/* Enough for any card: with shared memory for all tiles most of their edges are filled up. */
static size_t scratch(const ls_op_call *call)
{
    if (call->attributes->op == LS_OP_CUSTOM || call->attributes->op == LS_OP_CUSTOM_BACKWARD)
        return ls_card_own_scratch(call);
    const ls_cuda_shards shards = {
        .shards = 1, .images = call->samples->count, .last = call->samples->count, .shared = SIZE_MAX};
    return ls_cuda_lanes_scratch(call, &shards);
}

#define ENTRY(op, function) [LS_OP_##op] = in_lanes,
const ls_backend *ls_card_exact_backend(void)
{
    static const ls_backend exact = {
        .name = "cuda f32",
        .group = LS_LANES,
        .place = LS_CUDA_ALIGNMENT / sizeof(float),
        .scratch = scratch,
        .exact = 1,
        .launches = 1,
        .kernel = {LS_CUDA_LANES(ENTRY)[LS_OP_CUSTOM] = own, [LS_OP_CUSTOM_BACKWARD] = own}};
    return &exact;
}
