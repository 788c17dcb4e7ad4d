/* Products of matrices, one for each channel of an image. A thread has four lanes of TILE x TILE places of y, so that
 * each load serves TILE products. */
#include "device/cuda/lanes/numbers.cuh"

namespace
{

enum { TILE = 4 };

/* A factor: the next of y's rows or columns, and the next of what is summed over, so many places on. */
struct factor {
    const float *data;
    int lines, step, inner;
    size_t places; /* of a channel */
};

factor factor_of(const ls_operand *x, int turned, int lines)
{
    return {x->data, lines, turned ? 1 : x->w, turned ? x->w : 1, (size_t)x->h * x->w};
}

/* Of the lines from one on; there is always one to load. */
__device__ inline void load(ls_quad to[TILE], const factor &f, const float *from, int line, int k)
{
    for (int i = 0; i < TILE; i++) {
        const int there = line + i < f.lines ? line + i : f.lines - 1;
        to[i] = ls_quad_load(from + ((size_t)there * f.step + (size_t)k * f.inner) * LS_LANES);
    }
}

__global__ void batch_matmul(ls_map y, factor rows, factor columns, int inner, size_t pieces, ls_cuda_shards shards)
{
    const int across = (y.w + TILE - 1) / TILE, down = (y.h + TILE - 1) / TILE;
    LS_EACH_PIECE(i, pieces)
    {
        const int lane = (int)(i % LS_QUADS) * LS_QUAD, column = (int)(i / LS_QUADS % across) * TILE;
        const size_t map = i / LS_QUADS / across / down;
        const int row = (int)(i / LS_QUADS / across % down) * TILE;
        const float *const a = rows.data + map * rows.places * LS_LANES + lane;
        const float *const b = columns.data + map * columns.places * LS_LANES + lane;
        ls_quad acc[TILE][TILE];
        for (int r = 0; r < TILE; r++)
            for (int c = 0; c < TILE; c++)
                acc[r][c] = ls_quad_set(0);
        for (int k = 0; k < inner; k++) {
            ls_quad left[TILE], right[TILE];
            load(left, rows, a, row, k);
            load(right, columns, b, column, k);
            for (int r = 0; r < TILE; r++)
                for (int c = 0; c < TILE; c++)
                    for (int l = 0; l < LS_QUAD; l++)
                        acc[r][c].at[l] = fmaf(left[r].at[l], right[c].at[l], acc[r][c].at[l]);
        }
        const int lanes = ls_cuda_lanes_in(&shards, (int)(map / y.c)) - lane;
        for (int r = 0; r < TILE && row + r < y.h; r++)
            for (int c = 0; c < TILE && column + c < y.w; c++) {
                for (int l = 0; l < LS_QUAD; l++)
                    acc[r][c].at[l] = l < lanes ? acc[r][c].at[l] : 0;
                ls_quad_store(y.data + ((map * y.h + row + r) * y.w + column + c) * LS_LANES + lane, acc[r][c]);
            }
    }
}

} // namespace

void ls_cuda_lanes_batch_matmul(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_operand *a = &call->in[0], *b = &call->in[1];
    const int *turned = call->attributes->transposed;
    const ls_map y = ls_map_of(&call->out[0]);
    const size_t tiles = (size_t)((y.h + TILE - 1) / TILE) * ((y.w + TILE - 1) / TILE);
    const size_t n = (size_t)ls_cuda_all_groups(shards) * y.c * tiles * LS_QUADS;
    batch_matmul<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(
        y, factor_of(a, turned[0], y.h), factor_of(b, !turned[1], y.w), turned[0] ? a->h : a->w, n, *shards);
}
