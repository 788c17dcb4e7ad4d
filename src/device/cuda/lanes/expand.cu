/* Repeating numbers along channels, rows and columns, and the sums that are its gradient. */
#include "device/cuda/lanes/numbers.cuh"

namespace
{

/* x has 1 along what is repeated; a parameter is one number for all lanes and groups. */
template <bool WEIGHT> __global__ void expand(ls_map y, ls_map x, size_t pieces, ls_cuda_shards shards)
{
    LS_EACH_PIECE(i, pieces)
    {
        const ls_spot s = ls_spot_of(y, i);
        const int lanes = ls_cuda_lanes_in(&shards, s.group);
        const size_t at =
            ls_map_at(x, WEIGHT ? 0 : s.group, x.c == 1 ? 0 : s.channel, x.h == 1 ? 0 : s.row, x.w == 1 ? 0 : s.column);
        ls_quad number = WEIGHT ? ls_quad_set(x.data[at / LS_LANES]) : ls_quad_load(x.data + at + s.lane);
        for (int l = 0; l < LS_QUAD; l++)
            number.at[l] = s.lane + l < lanes ? number.at[l] : 0;
        ls_quad_store(y.data + i * LS_QUAD, number);
    }
}

/* Number i of dx, in one lane. */
__device__ inline ls_spot number_of(ls_map dx, size_t i)
{
    ls_spot s = ls_spot_of(dx, i / LS_QUAD);
    s.lane += (int)(i % LS_QUAD);
    return s;
}

/* `total` and the numbers of dy, in the same group and lane, that the number of dx was repeated in. */
__device__ float add_repeated(float total, ls_map dy, ls_map dx, const ls_spot &s)
{
    const int channels = dx.c == 1 ? dy.c : 1, rows = dx.h == 1 ? dy.h : 1, columns = dx.w == 1 ? dy.w : 1;
    for (int c = s.channel; c < s.channel + channels; c++)
        for (int row = s.row; row < s.row + rows; row++) {
            const float *const from = dy.data + ls_map_at(dy, s.group, c, row, s.column) + s.lane;
            float r = 0;
            for (int column = 0; column < columns; column++)
                r = r + from[(size_t)column * LS_LANES];
            total = total + r;
        }
    return total;
}

__global__ void expand_backward(ls_map dx, ls_map dy, size_t numbers, ls_cuda_shards shards)
{
    LS_EACH_PIECE(i, numbers)
    {
        const ls_spot s = number_of(dx, i);
        dx.data[i] = s.lane < ls_cuda_lanes_in(&shards, s.group) ? add_repeated(0, dy, dx, s) : 0;
    }
}

/* Sixteen threads have a number of dw, of the shard that is the block's row; all of a warp are there for its sum. */
__global__ void expand_weight_backward(ls_map dw, size_t step, ls_map dy, size_t pieces, ls_cuda_shards shards)
{
    const size_t i = ls_line_piece();
    const int shard = (int)blockIdx.y, before = shard * ls_cuda_groups_of(shards.images);
    const int groups = i < pieces ? ls_cuda_groups_of(ls_cuda_images_in(&shards, shard)) : 0;
    ls_spot s = number_of(dw, i);
    float total = 0;
    for (s.group = before; s.group < before + groups; s.group++)
        if (s.lane < ls_cuda_lanes_in(&shards, s.group))
            total = add_repeated(total, dy, dw, s);
    total = ls_lanes_sum(total);
    if (i < pieces && s.lane == 0)
        dw.data[shard * step + i / LS_LANES] = total;
}

} // namespace

void ls_cuda_lanes_expand(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map y = ls_map_of(&call->out[0]), x = ls_map_of(&call->in[0]);
    const size_t n = ls_map_pieces(y, shards);
    if (call->attributes->op == LS_OP_EXPAND_WEIGHT)
        expand<true><<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(y, x, n, *shards);
    else
        expand<false><<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(y, x, n, *shards);
}

void ls_cuda_lanes_expand_backward(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map dx = ls_map_of(&call->out[0]);
    const size_t n = ls_map_pieces(dx, shards) * LS_QUAD;
    expand_backward<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(dx, ls_map_of(&call->in[0]), n, *shards);
}

void ls_cuda_lanes_expand_weight_backward(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map dw = ls_map_of(&call->out[0]);
    const size_t n = dw.c * ls_map_places(dw) * LS_LANES;
    const dim3 grid = ls_line_blocks(n, shards->shards, 1);
    expand_weight_backward<<<grid, LS_LINE_THREADS, 0, stream>>>(dw, shards->out_step[0], ls_map_of(&call->in[0]), n,
                                                                 *shards);
}
