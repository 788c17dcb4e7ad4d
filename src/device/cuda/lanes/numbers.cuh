/* What the kernels in the lanes' layout share. */
#pragma once

#include "device/cuda/lanes/lanes.h"

enum { LS_CARD_THREADS = 256 };

/* Blocks for n pieces of work; a loop takes what they leave. */
static inline unsigned ls_card_blocks(size_t n)
{
    const size_t blocks = (n + LS_CARD_THREADS - 1) / LS_CARD_THREADS, most = 1 << 20;
    return (unsigned)(blocks < 1 ? 1 : blocks > most ? most : blocks);
}

/* Of kernels whose lines, such as channels, go along y: n pieces of a line along x, by so many threads each. */
enum { LS_LINE_THREADS = 128 };
static inline dim3 ls_line_blocks(size_t n, int lines, int more)
{
    return dim3((unsigned)((n + LS_LINE_THREADS - 1) / LS_LINE_THREADS), (unsigned)lines, (unsigned)more);
}

/* The piece of a thread there; beyond the last one it has nothing to do. */
__device__ inline size_t ls_line_piece(void)
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

#define LS_EACH_PIECE(i, n)                                                                                            \
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (size_t)gridDim.x * blockDim.x)

/* Most threads have four of a place's lanes, which one load brings. */
enum { LS_QUAD = 4, LS_QUADS = LS_LANES / LS_QUAD };
struct alignas(16) ls_quad {
    float at[LS_QUAD];
};

__device__ inline ls_quad ls_quad_load(const float *x)
{
    return *(const ls_quad *)x;
}

__device__ inline void ls_quad_store(float *to, ls_quad x)
{
    *(ls_quad *)to = x;
}

__device__ inline ls_quad ls_quad_set(float x)
{
    return {{x, x, x, x}};
}

/* Channels, rows and columns of an operand, and the floats of a map and of a group. */
typedef struct ls_map {
    float *data;
    int c, h, w;
} ls_map;

static inline ls_map ls_map_of(const ls_operand *t)
{
    return {t->data, t->c, t->h, t->w};
}

LS_EVERYWHERE size_t ls_map_places(ls_map m)
{
    return (size_t)m.h * m.w;
}

LS_EVERYWHERE size_t ls_map_at(ls_map m, int group, int channel, int row, int column)
{
    return ((((size_t)group * m.c + channel) * m.h + row) * m.w + column) * LS_LANES;
}

/* Piece i of a map's places and quads of lanes. */
typedef struct ls_spot {
    int group, channel, row, column, lane; /* the first of four */
} ls_spot;

__device__ inline ls_spot ls_spot_of(ls_map m, size_t i)
{
    const size_t place = i / LS_QUADS, row = place / m.w, map = row / m.h;
    return {(int)(map / m.c), (int)(map % m.c), (int)(row % m.h), (int)(place % m.w), (int)(i % LS_QUADS) * LS_QUAD};
}

static inline size_t ls_map_pieces(ls_map m, const ls_cuda_shards *s)
{
    return (size_t)ls_cuda_all_groups(s) * m.c * ls_map_places(m) * LS_QUADS;
}

/* NaN and -0 pass through. */
__device__ inline float ls_relu(float x)
{
    return x < 0 ? 0 : x;
}

/* lanes(a) of op.h, of 16 threads side by side in a warp; right in the first of them. */
__device__ inline float ls_lanes_sum(float a)
{
    for (unsigned half = LS_LANES / 2; half > 0; half /= 2)
        a = a + __shfl_down_sync(~0u, a, half, LS_LANES);
    return a;
}
