/* Direct convolution in its general form, for every shape that conv_tiles.cu does not take. A linear layer is one with
 * a kernel of 1 on maps of 1 x 1. */
#include "device/cuda/lanes/numbers.cuh"

namespace
{

enum { OUTPUTS = 4 }; /* of a thread, at a place's four lanes; 1 where a group has fewer */

typedef struct shape {
    int out, in, each; /* w has out x in channels, or in x out; `each` outputs and `in` inputs are a group */
    ls_windows windows;
    int in_out;
} shape;

/* Input c of its group. */
__device__ inline size_t weight_at(const shape &s, int o, int c, int ky, int kx)
{
    const size_t pair = s.in_out ? (size_t)c * s.out + o : (size_t)o * s.in + c;
    return (pair * s.windows.rows.kernel + ky) * s.windows.columns.kernel + kx;
}

template <int N> __device__ inline void add_products(ls_quad acc[N], const float w[N], ls_quad x)
{
    for (int k = 0; k < N; k++)
        for (int l = 0; l < LS_QUAD; l++)
            acc[k].at[l] = fmaf(w[k], x.at[l], acc[k].at[l]);
}

/* Piece i of all places, quads of lanes, and N channels of a group of `each` at a time, of which the last may lack
 * some.
 */
template <int N> __device__ inline ls_spot outputs_of(ls_map y, int each, size_t i)
{
    const int parts = (each + N - 1) / N;
    ls_map some = y;
    some.c = y.c / each * parts;
    ls_spot s = ls_spot_of(some, i);
    s.channel = s.channel / parts * each + s.channel % parts * N;
    return s;
}

template <int N> size_t pieces_of(ls_map y, int each, const ls_cuda_shards *shards)
{
    y.c = y.c / each * ((each + N - 1) / N);
    return ls_map_pieces(y, shards);
}

/* Outputs that are not there compute what the last one does; `end` is their group's. */
__device__ inline int there(int channel, int end)
{
    return channel < end ? channel : end - 1;
}

template <int N>
__global__ void forward(ls_map y, ls_map x, const float *w, const float *bias, shape s, int relu, size_t pieces)
{
    const ls_windows_axis down = s.windows.rows, across = s.windows.columns;
    LS_EACH_PIECE(i, pieces)
    {
        const ls_spot at = outputs_of<N>(y, s.each, i);
        const int top = at.row * down.stride - down.padding, left = at.column * across.stride - across.padding;
        const int group = at.channel / s.each, first = group * s.in, end = (group + 1) * s.each;
        ls_quad acc[N];
        for (int k = 0; k < N; k++)
            acc[k] = ls_quad_set(bias ? bias[there(at.channel + k, end)] : 0);
        for (int c = 0; c < s.in; c++)
            for (int ky = 0; ky < down.kernel; ky++)
                for (int kx = 0; kx < across.kernel; kx++) {
                    const int row = top + ky * down.dilation, column = left + kx * across.dilation;
                    const bool inside = row >= 0 && row < x.h && column >= 0 && column < x.w;
                    ls_quad tap = ls_quad_set(0);
                    if (inside)
                        tap = ls_quad_load(x.data + ls_map_at(x, at.group, first + c, row, column) + at.lane);
                    float weights[N];
                    for (int k = 0; k < N; k++)
                        weights[k] = w[weight_at(s, there(at.channel + k, end), c, ky, kx)];
                    add_products<N>(acc, weights, tap);
                }
        for (int k = 0; k < N && at.channel + k < end; k++) {
            for (int l = 0; relu && l < LS_QUAD; l++)
                acc[k].at[l] = ls_relu(acc[k].at[l]);
            ls_quad_store(y.data + ls_map_at(y, at.group, at.channel + k, at.row, at.column) + at.lane, acc[k]);
        }
    }
}

/* N inputs of a group at a time. */
template <int N> __global__ void data(ls_map dx, ls_map dy, const float *w, shape s, size_t pieces)
{
    const ls_windows_axis high = s.windows.rows, wide = s.windows.columns;
    LS_EACH_PIECE(i, pieces)
    {
        const ls_spot at = outputs_of<N>(dx, s.in, i);
        const int group = at.channel / s.in, first = group * s.in, end = first + s.in;
        ls_quad acc[N];
        for (int k = 0; k < N; k++)
            acc[k] = ls_quad_set(0);
        for (int o = group * s.each; o < (group + 1) * s.each; o++)
            for (int ky = 0; ky < high.kernel; ky++)
                for (int kx = 0; kx < wide.kernel; kx++) {
                    const int down = at.row + high.padding - ky * high.dilation;
                    const int right = at.column + wide.padding - kx * wide.dilation;
                    const int row = down / high.stride, column = right / wide.stride;
                    if (down < 0 || right < 0 || down % high.stride || right % wide.stride || row >= dy.h ||
                        column >= dy.w)
                        continue;
                    float weights[N];
                    for (int k = 0; k < N; k++)
                        weights[k] = w[weight_at(s, o, there(at.channel + k, end) - first, ky, kx)];
                    add_products<N>(acc, weights,
                                    ls_quad_load(dy.data + ls_map_at(dy, at.group, o, row, column) + at.lane));
                }
        for (int k = 0; k < N && at.channel + k < end; k++) {
            for (int l = 0; l < LS_QUAD; l++)
                acc[k].at[l] = acc[k].at[l] + 0.0f; /* no -0 */
            ls_quad_store(dx.data + ls_map_at(dx, at.group, at.channel + k, at.row, at.column) + at.lane, acc[k]);
        }
    }
}

/* A thread has a lane of a weight of a shard. */
__global__ void weight(float *dw, size_t step, ls_map x, ls_map dy, shape s, size_t weights, ls_cuda_shards shards)
{
    const ls_windows_axis high = s.windows.rows, wide = s.windows.columns;
    const size_t i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / LS_LANES;
    const int lane = (int)threadIdx.x % LS_LANES, shard = (int)blockIdx.y, taps = high.kernel * wide.kernel;
    const size_t pair = (i < weights ? i : 0) / taps;
    const int tap = (int)((i < weights ? i : 0) % taps), ky = tap / wide.kernel, kx = tap % wide.kernel;
    const int o = (int)(s.in_out ? pair % s.out : pair / s.in), of_group = (int)(s.in_out ? pair / s.out : pair % s.in);
    const int c = o / s.each * s.in + of_group, first = shard * ls_cuda_groups_of(shards.images);
    const bool by_group = dy.h * dy.w >= LS_OWN_SUM_PLACES;
    float acc = 0;
    for (int group = first; group < first + ls_cuda_groups_of(ls_cuda_images_in(&shards, shard)); group++) {
        float r = by_group ? 0 : acc;
        for (int row = 0; row < dy.h; row++)
            for (int column = 0; column < dy.w; column++) {
                const int down = row * high.stride - high.padding + ky * high.dilation;
                const int right = column * wide.stride - wide.padding + kx * wide.dilation;
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
    const ls_windows w = ls_windows_of(how);
    return {out, in / w.groups, out / w.groups, w, how->weight_in_out};
}

template <int N> void launch_forward(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map y = ls_map_of(&call->out[0]), x = ls_map_of(&call->in[0]);
    const shape s = shape_of(call->attributes, y.c, x.c);
    const size_t n = pieces_of<N>(y, s.each, shards);
    forward<N><<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(y, x, call->in[1].data, call->in[2].data, s,
                                                                  call->attributes->fused_relu, n);
}

template <int N> void launch_data(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map dx = ls_map_of(&call->out[0]), dy = ls_map_of(&call->in[0]);
    const shape s = shape_of(call->attributes, dy.c, dx.c);
    const size_t n = pieces_of<N>(dx, s.in, shards);
    data<N><<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(dx, dy, call->in[1].data, s, n);
}

/* Whether a group of what is written has fewer channels than a thread would take. */
bool is_narrow(const ls_op_call *call)
{
    const int groups = ls_windows_of(call->attributes).groups;
    return groups > 1 && call->out[0].c / groups < OUTPUTS;
}

} // namespace

void ls_cuda_lanes_conv(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    if (ls_cuda_lanes_conv_by_tiles(call, shards, stream))
        return;
    if (is_narrow(call))
        launch_forward<1>(call, shards, stream);
    else
        launch_forward<OUTPUTS>(call, shards, stream);
}

void ls_cuda_lanes_conv_data(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    if (ls_cuda_lanes_conv_by_tiles(call, shards, stream))
        return;
    if (is_narrow(call))
        launch_data<1>(call, shards, stream);
    else
        launch_data<OUTPUTS>(call, shards, stream);
}

void ls_cuda_lanes_conv_weight(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    if (ls_cuda_lanes_conv_by_tiles(call, shards, stream))
        return;
    const ls_map x = ls_map_of(&call->in[0]), dy = ls_map_of(&call->in[1]);
    const shape s = shape_of(call->attributes, dy.c, x.c);
    const size_t weights = (size_t)s.out * s.in * s.windows.rows.kernel * s.windows.columns.kernel;
    const size_t blocks = (weights * LS_LANES + LS_CARD_THREADS - 1) / LS_CARD_THREADS;
    weight<<<dim3((unsigned)blocks, shards->shards), LS_CARD_THREADS, 0, stream>>>(
        call->out[0].data, shards->out_step[0], x, dy, s, weights, *shards);
}
