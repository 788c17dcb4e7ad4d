/* Pooling: average, largest, and the average of a whole map. A thread has four lanes of a place. */
#include "device/cuda/lanes/numbers.cuh"

namespace
{

typedef struct window {
    int kernel, stride, padding;
} window;

__device__ inline bool inside(ls_map m, int row, int column)
{
    return row >= 0 && row < m.h && column >= 0 && column < m.w;
}

__device__ inline ls_quad tap(ls_map x, const ls_spot &s, int row, int column)
{
    if (!inside(x, row, column))
        return ls_quad_set(0);
    return ls_quad_load(x.data + ls_map_at(x, s.group, s.channel, row, column) + s.lane);
}

__global__ void average(ls_map y, ls_map x, window w, float share, size_t pieces)
{
    LS_EACH_PIECE(i, pieces)
    {
        const ls_spot s = ls_spot_of(y, i);
        const int top = s.row * w.stride - w.padding, left = s.column * w.stride - w.padding;
        ls_quad acc = tap(x, s, top, left);
        for (int k = 1; k < w.kernel * w.kernel; k++) {
            const ls_quad at = tap(x, s, top + k / w.kernel, left + k % w.kernel);
            for (int l = 0; l < LS_QUAD; l++)
                acc.at[l] = acc.at[l] + at.at[l];
        }
        for (int l = 0; l < LS_QUAD; l++)
            acc.at[l] = acc.at[l] * share;
        ls_quad_store(y.data + i * LS_QUAD, acc);
    }
}

/* Which tap of a window each lane chooses, and what it is. */
typedef struct chosen {
    ls_quad value;
    int tap[LS_QUAD]; /* row of the map * its columns + column */
} chosen;

__device__ inline chosen choose(ls_map x, window w, const ls_spot &s, int row, int column)
{
    const int top = row * w.stride - w.padding, left = column * w.stride - w.padding;
    chosen best = {};
    bool found = false;
    for (int k = 0; k < w.kernel * w.kernel; k++) {
        const int r = top + k / w.kernel, c = left + k % w.kernel;
        if (!inside(x, r, c))
            continue;
        const ls_quad at = tap(x, s, r, c);
        for (int l = 0; l < LS_QUAD; l++) {
            const float so_far = best.value.at[l];
            if (!found || (so_far == so_far && !(at.at[l] <= so_far))) {
                best.value.at[l] = at.at[l];
                best.tap[l] = r * x.w + c;
            }
        }
        found = true;
    }
    return best;
}

__global__ void largest(ls_map y, ls_map x, window w, size_t pieces)
{
    LS_EACH_PIECE(i, pieces)
    {
        const ls_spot s = ls_spot_of(y, i);
        ls_quad_store(y.data + i * LS_QUAD, choose(x, w, s, s.row, s.column).value);
    }
}

/* The windows of one row (or column) of windows that hold a place: first to last, none where last < first. */
typedef struct span {
    int first, last;
} span;

__device__ inline span windows_of(window w, int place, int windows)
{
    const int begins = place + w.padding - w.kernel + 1, last = (place + w.padding) / w.stride;
    return {begins <= 0 ? 0 : (begins + w.stride - 1) / w.stride, last < windows ? last : windows - 1};
}

template <bool MAX>
__global__ void backward(ls_map dx, ls_map dy, ls_map x, window w, float share, int relu, size_t pieces)
{
    LS_EACH_PIECE(i, pieces)
    {
        const ls_spot s = ls_spot_of(dx, i);
        const span rows = windows_of(w, s.row, dy.h), columns = windows_of(w, s.column, dy.w);
        ls_quad acc = ls_quad_set(0);
        for (int r = rows.first; r <= rows.last; r++)
            for (int c = columns.first; c <= columns.last; c++) {
                const ls_quad slope = ls_quad_load(dy.data + ls_map_at(dy, s.group, s.channel, r, c) + s.lane);
                chosen best;
                if (MAX)
                    best = choose(x, w, s, r, c);
                for (int l = 0; l < LS_QUAD; l++)
                    if (!MAX || best.tap[l] == s.row * dx.w + s.column)
                        acc.at[l] = acc.at[l] + slope.at[l];
            }
        for (int l = 0; l < LS_QUAD; l++) {
            acc.at[l] = MAX ? acc.at[l] : acc.at[l] * share;
            if (relu && !(x.data[i * LS_QUAD + l] > 0))
                acc.at[l] = 0;
        }
        ls_quad_store(dx.data + i * LS_QUAD, acc);
    }
}

__global__ void whole_map(ls_map y, ls_map x, size_t pieces)
{
    LS_EACH_PIECE(i, pieces)
    {
        const ls_spot s = ls_spot_of(y, i);
        ls_quad total = ls_quad_set(0);
        for (int r = 0; r < x.h; r++) {
            ls_quad sum = ls_quad_set(0);
            for (int c = 0; c < x.w; c++) {
                const ls_quad at = tap(x, s, r, c);
                for (int l = 0; l < LS_QUAD; l++)
                    sum.at[l] = sum.at[l] + at.at[l];
            }
            for (int l = 0; l < LS_QUAD; l++)
                total.at[l] = total.at[l] + sum.at[l];
        }
        for (int l = 0; l < LS_QUAD; l++)
            total.at[l] = total.at[l] / (float)(x.h * x.w);
        ls_quad_store(y.data + i * LS_QUAD, total);
    }
}

__global__ void whole_map_backward(ls_map dx, ls_map dy, size_t pieces)
{
    LS_EACH_PIECE(i, pieces)
    {
        const ls_spot s = ls_spot_of(dx, i);
        ls_quad slope = tap(dy, s, 0, 0);
        for (int l = 0; l < LS_QUAD; l++)
            slope.at[l] = slope.at[l] / (float)(dx.h * dx.w);
        ls_quad_store(dx.data + i * LS_QUAD, slope);
    }
}

window window_of(const ls_attributes *how)
{
    return {how->kernel, how->stride, how->padding};
}

} // namespace

void ls_cuda_lanes_pool(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map y = ls_map_of(&call->out[0]), x = ls_map_of(&call->in[0]);
    const window w = window_of(call->attributes);
    const size_t n = ls_map_pieces(y, shards);
    if (call->attributes->op == LS_OP_MAX_POOL)
        largest<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(y, x, w, n);
    else
        average<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(y, x, w, 1.0f / (float)(w.kernel * w.kernel), n);
}

void ls_cuda_lanes_pool_backward(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map dx = ls_map_of(&call->out[0]), dy = ls_map_of(&call->in[0]), x = ls_map_of(&call->in[1]);
    const window w = window_of(call->attributes);
    const int relu = call->attributes->fused_relu;
    const float share = 1.0f / (float)(w.kernel * w.kernel);
    const size_t n = ls_map_pieces(dx, shards);
    if (call->attributes->op == LS_OP_MAX_POOL_BACKWARD)
        backward<true><<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(dx, dy, x, w, share, relu, n);
    else
        backward<false><<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(dx, dy, x, w, share, relu, n);
}

void ls_cuda_lanes_global_pool(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map y = ls_map_of(&call->out[0]);
    const size_t n = ls_map_pieces(y, shards);
    whole_map<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(y, ls_map_of(&call->in[0]), n);
}

void ls_cuda_lanes_global_pool_backward(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map dx = ls_map_of(&call->out[0]);
    const size_t n = ls_map_pieces(dx, shards);
    whole_map_backward<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(dx, ls_map_of(&call->in[0]), n);
}
