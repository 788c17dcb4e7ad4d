/* Kernels that treat every number alone. */
#include <math.h>

#include "base/philox.h"
#include "device/cuda/lanes/numbers.cuh"

namespace
{

__device__ float apply(ls_op op, float a, float b, float factor)
{
    switch (op) {
    case LS_OP_ADD:
        return a + b;
    case LS_OP_SUBTRACT:
        return a - b;
    case LS_OP_MULTIPLY:
        return a * b;
    case LS_OP_DIVIDE:
        return a / b;
    case LS_OP_SCALE:
        return a * factor;
    case LS_OP_RELU:
        return ls_relu(a);
    case LS_OP_RELU_BACKWARD:
        return b > 0 ? a : 0;
    case LS_OP_TANH_BACKWARD:
        return a * fmaf(-b, b, 1.0f);
    case LS_OP_SIGMOID_BACKWARD:
        return a * (b * (1.0f - b));
    default:
        return a;
    }
}

/* Lanes without an image get 0 where `clears`. */
__global__ void each(ls_op op, float *out, const float *a, const float *b, size_t pieces, size_t group_pieces,
                     float factor, bool clears, ls_cuda_shards shards)
{
    LS_EACH_PIECE(i, pieces)
    {
        const int lanes = clears ? ls_cuda_lanes_in(&shards, (int)(i / group_pieces)) : LS_LANES;
        const int first = (int)(i % LS_QUADS) * LS_QUAD;
        ls_quad x = ls_quad_load(a + i * LS_QUAD), z = b ? ls_quad_load(b + i * LS_QUAD) : x;
        for (int k = 0; k < LS_QUAD; k++)
            x.at[k] = first + k < lanes ? apply(op, x.at[k], z.at[k], factor) : 0;
        ls_quad_store(out + i * LS_QUAD, x);
    }
}

__global__ void add_bias(ls_map out, const float *x, const float *bias, size_t pieces)
{
    LS_EACH_PIECE(i, pieces)
    {
        const float b = bias[i / LS_QUADS / ls_map_places(out) % out.c];
        ls_quad y = ls_quad_load(x + i * LS_QUAD);
        for (int k = 0; k < LS_QUAD; k++)
            y.at[k] = y.at[k] + b;
        ls_quad_store(out.data + i * LS_QUAD, y);
    }
}

/* Of each shard its own. */
__global__ void add_scaled(ls_operand out, float factor, const float *a, const float *b, ls_cuda_shards shards)
{
    const size_t shard = blockIdx.y, step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < (size_t)out.c; i += step)
        out.data[shard * shards.out_step[0] + i] =
            fmaf(factor, a[shard * shards.in_step[0] + i], b[shard * shards.in_step[1] + i]);
}

/* A thread has a lane, and every so many of its image's numbers; it derives the image's stream once. A number is
 * dropped where its 53 bits are below `least`. */
__global__ void drop(ls_map out, const float *x, const uint32_t *index, uint64_t seed, uint64_t key, uint64_t least,
                     float scale, ls_cuda_shards shards)
{
    const size_t numbers = out.c * ls_map_places(out);
    const int group = (int)blockIdx.y, lane = (int)threadIdx.x % LS_LANES;
    const bool image = lane < ls_cuda_lanes_in(&shards, group);
    const uint64_t sample = image ? index[ls_cuda_first_image(&shards, group) + lane] : 0;
    const ls_random_stream stream = {seed, LS_FOR_DROPOUT, key ^ sample, *shards.step};
    const ls_derived from = ls_random_derive(&stream);
    const size_t side_by_side = blockDim.x / LS_LANES;
    for (size_t i = blockIdx.x * side_by_side + threadIdx.x / LS_LANES; i < numbers; i += gridDim.x * side_by_side) {
        const size_t at = (group * numbers + i) * LS_LANES + lane;
        const bool kept = image && ls_derived_bits(&from, i) >> 11 >= least;
        out.data[at] = kept ? x[at] * scale : 0;
    }
}

__global__ void copy(float *to, const float *from, size_t pieces)
{
    LS_EACH_PIECE(i, pieces)
    {
        ls_quad_store(to + i * LS_QUAD, ls_quad_load(from + i * LS_QUAD));
    }
}

bool clears_of(ls_op op)
{
    return op != LS_OP_ADD && op != LS_OP_RELU && op != LS_OP_RELU_BACKWARD;
}

} // namespace

void ls_cuda_lanes_each(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map out = ls_map_of(&call->out[0]);
    const size_t n = ls_map_pieces(out, shards), group = out.c * ls_map_places(out) * LS_QUADS;
    const ls_op op = call->attributes->op;
    each<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(op, out.data, call->in[0].data, call->in[1].data, n, group,
                                                            call->attributes->factor, clears_of(op), *shards);
}

void ls_cuda_lanes_add_bias(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map out = ls_map_of(&call->out[0]);
    const size_t n = ls_map_pieces(out, shards);
    add_bias<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(out, call->in[0].data, call->in[1].data, n);
}

void ls_cuda_lanes_add_scaled(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const dim3 blocks(ls_card_blocks((size_t)call->out[0].c), shards->shards);
    add_scaled<<<blocks, LS_CARD_THREADS, 0, stream>>>(call->out[0], call->attributes->factor, call->in[0].data,
                                                       call->in[1].data, *shards);
}

void ls_cuda_lanes_dropout(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    enum { NUMBERS = 4 }; /* of a thread */
    const ls_map out = ls_map_of(&call->out[0]);
    const float rate = call->attributes->factor;
    /* u < rate, with u = bits / 2^53 */
    const uint64_t least = (uint64_t)ceil((double)rate * 0x1p53);
    const size_t numbers = out.c * ls_map_places(out);
    const dim3 grid(ls_card_blocks((numbers + NUMBERS - 1) / NUMBERS * LS_LANES), ls_cuda_all_groups(shards));
    drop<<<grid, LS_CARD_THREADS, 0, stream>>>(out, call->in[0].data, call->samples->index, call->samples->seed,
                                               call->attributes->key, least, 1.0f / (1.0f - rate), *shards);
}

void ls_cuda_lanes_reshape(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const size_t n = ls_map_pieces(ls_map_of(&call->out[0]), shards);
    copy<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(call->out[0].data, call->in[0].data, n);
}
