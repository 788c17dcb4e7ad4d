/* Direct convolution in its general form, for every shape that conv_tiles.cu does not take. A linear layer is one with
 * a kernel of 1 on maps of 1 x 1. */
#include "device/cuda/lanes/numbers.cuh"

namespace
{

enum { OUTPUTS = 4 }; /* of a thread, at a place's four lanes */

typedef struct shape {
    int out, in, kernel, stride, padding, in_out; /* w has out x in channels, or in x out */
} shape;

__device__ inline size_t weight_at(const shape &s, int o, int c, int ky, int kx)
{
    const size_t pair = s.in_out ? (size_t)c * s.out + o : (size_t)o * s.in + c;
    return (pair * s.kernel + ky) * s.kernel + kx;
}

__device__ inline void add_products(ls_quad acc[OUTPUTS], const float w[OUTPUTS], ls_quad x)
{
    for (int k = 0; k < OUTPUTS; k++)
        for (int l = 0; l < LS_QUAD; l++)
            acc[k].at[l] = fmaf(w[k], x.at[l], acc[k].at[l]);
}

/* Piece i of all places, quads of lanes, and OUTPUTS channels at a time, of which the last may lack some. */
__device__ inline ls_spot outputs_of(ls_map y, size_t i)
{
    ls_map some = y;
    some.c = (y.c + OUTPUTS - 1) / OUTPUTS;
    ls_spot s = ls_spot_of(some, i);
    s.channel *= OUTPUTS;
    return s;
}

size_t pieces_of(ls_map y, const ls_cuda_shards *shards)
{
    y.c = (y.c + OUTPUTS - 1) / OUTPUTS;
    return ls_map_pieces(y, shards);
}

/* Outputs that are not there compute what the last one does. */
__device__ inline int there(int channel, int channels)
{
    return channel < channels ? channel : channels - 1;
}

__global__ void forward(ls_map y, ls_map x, const float *w, const float *bias, shape s, int relu, size_t pieces)
{
    LS_EACH_PIECE(i, pieces)
    {
        const ls_spot at = outputs_of(y, i);
        const int top = at.row * s.stride - s.padding, left = at.column * s.stride - s.padding;
        ls_quad acc[OUTPUTS];
        for (int k = 0; k < OUTPUTS; k++)
            acc[k] = ls_quad_set(bias ? bias[there(at.channel + k, y.c)] : 0);
        for (int c = 0; c < x.c; c++)
            for (int ky = 0; ky < s.kernel; ky++)
                for (int kx = 0; kx < s.kernel; kx++) {
                    const int row = top + ky, column = left + kx;
                    const bool inside = row >= 0 && row < x.h && column >= 0 && column < x.w;
                    ls_quad tap = ls_quad_set(0);
                    if (inside)
                        tap = ls_quad_load(x.data + ls_map_at(x, at.group, c, row, column) + at.lane);
                    float weights[OUTPUTS];
                    for (int k = 0; k < OUTPUTS; k++)
                        weights[k] = w[weight_at(s, there(at.channel + k, y.c), c, ky, kx)];
                    add_products(acc, weights, tap);
                }
        for (int k = 0; k < OUTPUTS && at.channel + k < y.c; k++) {
            for (int l = 0; relu && l < LS_QUAD; l++)
                acc[k].at[l] = ls_relu(acc[k].at[l]);
            ls_quad_store(y.data + ls_map_at(y, at.group, at.channel + k, at.row, at.column) + at.lane, acc[k]);
        }
    }
}

__global__ void data(ls_map dx, ls_map dy, const float *w, shape s, size_t pieces)
{
    LS_EACH_PIECE(i, pieces)
    {
        const ls_spot at = outputs_of(dx, i);
        ls_quad acc[OUTPUTS];
        for (int k = 0; k < OUTPUTS; k++)
            acc[k] = ls_quad_set(0);
        for (int o = 0; o < dy.c; o++)
            for (int ky = 0; ky < s.kernel; ky++)
                for (int kx = 0; kx < s.kernel; kx++) {
                    const int down = at.row + s.padding - ky, right = at.column + s.padding - kx;
                    const int row = down / s.stride, column = right / s.stride;
                    if (down < 0 || right < 0 || down % s.stride || right % s.stride || row >= dy.h || column >= dy.w)
                        continue;
                    float weights[OUTPUTS];
                    for (int k = 0; k < OUTPUTS; k++)
                        weights[k] = w[weight_at(s, o, there(at.channel + k, dx.c), ky, kx)];
                    add_products(acc, weights,
                                 ls_quad_load(dy.data + ls_map_at(dy, at.group, o, row, column) + at.lane));
                }
        for (int k = 0; k < OUTPUTS && at.channel + k < dx.c; k++) {
            for (int l = 0; l < LS_QUAD; l++)
                acc[k].at[l] = acc[k].at[l] + 0.0f; /* no -0 */
            ls_quad_store(dx.data + ls_map_at(dx, at.group, at.channel + k, at.row, at.column) + at.lane, acc[k]);
        }
    }
}

/* A thread has a lane of a weight of a shard. */
__global__ void weight(float *dw, size_t step, ls_map x, ls_map dy, shape s, size_t weights, ls_cuda_shards shards)
{
    const size_t i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / LS_LANES;
    const int lane = (int)threadIdx.x % LS_LANES, shard = (int)blockIdx.y, taps = s.kernel * s.kernel;
    const size_t pair = (i < weights ? i : 0) / taps;
    const int tap = (int)((i < weights ? i : 0) % taps), ky = tap / s.kernel, kx = tap % s.kernel;
    const int o = (int)(s.in_out ? pair % s.out : pair / s.in), c = (int)(s.in_out ? pair / s.out : pair % s.in);
    const int first = shard * ls_cuda_groups_of(shards.images);
    const bool by_group = dy.h * dy.w >= LS_OWN_SUM_PLACES;
    float acc = 0;
    for (int group = first; group < first + ls_cuda_groups_of(ls_cuda_images_in(&shards, shard)); group++) {
        float r = by_group ? 0 : acc;
        for (int row = 0; row < dy.h; row++)
            for (int column = 0; column < dy.w; column++) {
                const int down = row * s.stride - s.padding + ky, right = column * s.stride - s.padding + kx;
                const bool inside = down >= 0 && down < x.h && right >= 0 && right < x.w;
                const float at = inside ? x.data[ls_map_at(x, group, c, down, right) + lane] : 0;
                r = fmaf(dy.data[ls_map_at(dy, group, o, row, column) + lane], at, r);
            }
        acc = by_group ? acc + r : r;
    }
    acc = ls_lanes_sum(acc);
    if (lane == 0 && i < weights)
        dw[shard * step + i] = acc + 0.0f; /* no -0 */
}

shape shape_of(const ls_attributes *how, int out, int in)
{
    return {out, in, how->kernel, how->stride, how->padding, how->weight_in_out};
}

} // namespace

void ls_cuda_lanes_conv(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    if (ls_cuda_lanes_conv_by_tiles(call, shards, stream))
        return;
    const ls_map y = ls_map_of(&call->out[0]), x = ls_map_of(&call->in[0]);
    const size_t n = pieces_of(y, shards);
    forward<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(y, x, call->in[1].data, call->in[2].data,
                                                               shape_of(call->attributes, y.c, x.c),
                                                               call->attributes->fused_relu, n);
}

void ls_cuda_lanes_conv_data(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    if (ls_cuda_lanes_conv_by_tiles(call, shards, stream))
        return;
    const ls_map dx = ls_map_of(&call->out[0]), dy = ls_map_of(&call->in[0]);
    const size_t n = pieces_of(dx, shards);
    data<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(dx, dy, call->in[1].data,
                                                            shape_of(call->attributes, dy.c, dx.c), n);
}

void ls_cuda_lanes_conv_weight(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    if (ls_cuda_lanes_conv_by_tiles(call, shards, stream))
        return;
    const ls_map x = ls_map_of(&call->in[0]), dy = ls_map_of(&call->in[1]);
    const shape s = shape_of(call->attributes, dy.c, x.c);
    const size_t weights = (size_t)s.out * s.in * s.kernel * s.kernel;
    const size_t blocks = (weights * LS_LANES + LS_CARD_THREADS - 1) / LS_CARD_THREADS;
    weight<<<dim3((unsigned)blocks, shards->shards), LS_CARD_THREADS, 0, stream>>>(
        call->out[0].data, shards->out_step[0], x, dy, s, weights, *shards);
}
