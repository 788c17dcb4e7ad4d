/* Maps of another size: averages over windows that divide a map evenly, and bilinear interpolation. */
#include "device/cuda/lanes/numbers.cuh"
#include "device/resize.h"

namespace
{

__device__ inline void add_weighted(ls_quad *acc, float weight, const float *x)
{
    const ls_quad number = ls_quad_load(x);
    for (int l = 0; l < LS_QUAD; l++)
        acc->at[l] = fmaf(weight, number.at[l], acc->at[l]);
}

__device__ inline void put(float *to, ls_quad acc, int lanes)
{
    for (int l = 0; l < LS_QUAD; l++)
        acc.at[l] = l < lanes ? acc.at[l] : 0;
    ls_quad_store(to, acc);
}

__global__ void resize(int bilinear, ls_map y, ls_map x, size_t pieces, ls_cuda_shards shards)
{
    LS_EACH_PIECE(i, pieces)
    {
        const ls_spot s = ls_spot_of(y, i);
        const ls_taps rows = ls_taps_of(bilinear, s.row, x.h, y.h), columns = ls_taps_of(bilinear, s.column, x.w, y.w);
        ls_quad acc = ls_quad_set(0);
        for (int row = rows.first; row < rows.first + rows.count; row++)
            for (int column = columns.first; column < columns.first + columns.count; column++)
                add_weighted(&acc, ls_tap_weight(&rows, row) * ls_tap_weight(&columns, column),
                             x.data + ls_map_at(x, s.group, s.channel, row, column) + s.lane);
        put(y.data + i * LS_QUAD, acc, ls_cuda_lanes_in(&shards, s.group) - s.lane);
    }
}

__global__ void resize_backward(int bilinear, ls_map dx, ls_map dy, size_t pieces, ls_cuda_shards shards)
{
    LS_EACH_PIECE(i, pieces)
    {
        const ls_spot s = ls_spot_of(dx, i);
        const int end = ls_taps_end(bilinear, s.row, dx.h, dy.h);
        const int first = ls_taps_first(bilinear, s.column, dx.w, dy.w);
        const int last = ls_taps_end(bilinear, s.column, dx.w, dy.w);
        ls_quad acc = ls_quad_set(0);
        for (int row = ls_taps_first(bilinear, s.row, dx.h, dy.h); row < end; row++) {
            const ls_taps rows = ls_taps_of(bilinear, row, dx.h, dy.h);
            for (int column = first; column < last; column++) {
                const ls_taps columns = ls_taps_of(bilinear, column, dx.w, dy.w);
                add_weighted(&acc, ls_tap_weight(&rows, s.row) * ls_tap_weight(&columns, s.column),
                             dy.data + ls_map_at(dy, s.group, s.channel, row, column) + s.lane);
            }
        }
        put(dx.data + i * LS_QUAD, acc, ls_cuda_lanes_in(&shards, s.group) - s.lane);
    }
}

} // namespace

void ls_cuda_lanes_resize(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map y = ls_map_of(&call->out[0]);
    const size_t n = ls_map_pieces(y, shards);
    const int bilinear = call->attributes->op == LS_OP_BILINEAR;
    resize<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(bilinear, y, ls_map_of(&call->in[0]), n, *shards);
}

void ls_cuda_lanes_resize_backward(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map dx = ls_map_of(&call->out[0]);
    const size_t n = ls_map_pieces(dx, shards);
    const int bilinear = call->attributes->op == LS_OP_BILINEAR_BACKWARD;
    resize_backward<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(bilinear, dx, ls_map_of(&call->in[0]), n,
                                                                       *shards);
}
