/* Numbers put elsewhere: operands one after another, and parts, borders and transpositions. */
#include "device/cuda/lanes/numbers.cuh"
#include "device/view.h"

namespace
{

/* `first`: where in `whole` the part begins. */
__global__ void place(ls_map whole, ls_map part, ls_spot first, size_t pieces)
{
    LS_EACH_PIECE(i, pieces)
    {
        const ls_spot s = ls_spot_of(part, i);
        const size_t at =
            ls_map_at(whole, s.group, first.channel + s.channel, first.row + s.row, first.column + s.column);
        ls_quad_store(whole.data + at + s.lane, ls_quad_load(part.data + i * LS_QUAD));
    }
}

__device__ inline bool holds(const ls_view_steps &steps, const ls_spot &s)
{
    return s.channel >= steps.low[0] && s.channel < steps.high[0] && s.row >= steps.low[1] && s.row < steps.high[1] &&
           s.column >= steps.low[2] && s.column < steps.high[2];
}

__global__ void view(ls_map y, ls_map x, ls_view_steps steps, float border, size_t pieces, ls_cuda_shards shards)
{
    const size_t group = x.c * ls_map_places(x);
    LS_EACH_PIECE(i, pieces)
    {
        const ls_spot s = ls_spot_of(y, i);
        ls_quad number = ls_quad_set(border);
        if (holds(steps, s)) {
            const ptrdiff_t from =
                steps.first + s.channel * steps.step[0] + s.row * steps.step[1] + s.column * steps.step[2];
            number = ls_quad_load(x.data + (s.group * group + (size_t)from) * LS_LANES + s.lane);
        } else {
            const int lanes = ls_cuda_lanes_in(&shards, s.group);
            for (int l = 0; l < LS_QUAD; l++)
                number.at[l] = s.lane + l < lanes ? border : 0;
        }
        ls_quad_store(y.data + i * LS_QUAD, number);
    }
}

} // namespace

void ls_cuda_lanes_concat(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const int axis = call->attributes->axis;
    ls_spot first = {0, 0, 0, 0, 0};
    for (int k = 0; k < LS_MAX_IN && call->in[k].data; k++) {
        const ls_map part = ls_map_of(&call->in[k]);
        const size_t n = ls_map_pieces(part, shards);
        place<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(ls_map_of(&call->out[0]), part, first, n);
        first.channel += axis == 0 ? part.c : 0;
        first.row += axis == 1 ? part.h : 0;
        first.column += axis == 2 ? part.w : 0;
    }
}

void ls_cuda_lanes_view(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map y = ls_map_of(&call->out[0]);
    const size_t n = ls_map_pieces(y, shards);
    view<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(y, ls_map_of(&call->in[0]), ls_view_steps_of(call),
                                                            call->attributes->factor, n, *shards);
}
