/* The largest over channels, rows or columns. A thread has a number of y, and what that is the largest of. */
#include "device/cuda/lanes/numbers.cuh"

namespace
{

/* Calls number(at) for each of x's that belong to number i of y, in C order. */
template <typename Number> __device__ void each_of(ls_map x, ls_map y, size_t i, Number number)
{
    const ls_spot s = ls_spot_of(y, i / LS_QUAD);
    const int channels = y.c == 1 ? x.c : 1, rows = y.h == 1 ? x.h : 1, columns = y.w == 1 ? x.w : 1;
    for (int c = 0; c < channels; c++)
        for (int row = 0; row < rows; row++)
            for (int column = 0; column < columns; column++)
                number(ls_map_at(x, s.group, s.channel + c, s.row + row, s.column + column) + s.lane + i % LS_QUAD);
}

__device__ inline bool is_image(ls_map y, size_t i, const ls_cuda_shards *shards)
{
    const size_t group = i / LS_LANES / (y.c * ls_map_places(y));
    return (int)(i % LS_LANES) < ls_cuda_lanes_in(shards, (int)group);
}

__global__ void max_over(ls_map y, ls_map x, size_t numbers, ls_cuda_shards shards)
{
    LS_EACH_PIECE(i, numbers)
    {
        float most = 0;
        bool any = false;
        each_of(x, y, i, [&](size_t at) {
            const float number = x.data[at];
            most = any && (number <= most || most != most) ? most : number;
            any = true;
        });
        y.data[i] = is_image(y, i, &shards) ? most : 0;
    }
}

__global__ void max_over_backward(float *dx, const float *dy, ls_map x, ls_map y, size_t numbers, ls_cuda_shards shards)
{
    LS_EACH_PIECE(i, numbers)
    {
        const float most = y.data[i];
        float left = is_image(y, i, &shards) ? dy[i] : 0;
        each_of(x, y, i, [&](size_t at) {
            const float number = x.data[at];
            const bool same = number == most || (number != number && most != most);
            dx[at] = same ? left : 0;
            left = same ? 0 : left;
        });
    }
}

} // namespace

void ls_cuda_lanes_max_over(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map y = ls_map_of(&call->out[0]);
    const size_t n = ls_map_pieces(y, shards) * LS_QUAD;
    max_over<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(y, ls_map_of(&call->in[0]), n, *shards);
}

void ls_cuda_lanes_max_over_backward(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map y = ls_map_of(&call->in[2]);
    const size_t n = ls_map_pieces(y, shards) * LS_QUAD;
    max_over_backward<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(call->out[0].data, call->in[0].data,
                                                                         ls_map_of(&call->in[1]), y, n, *shards);
}
