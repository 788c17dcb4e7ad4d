/* What the kernels share: activations of either type read as float, loads of several numbers, and sums in a fixed
 * order. */
#pragma once

#include <cuda_bf16.h>

#include "device/cuda/kernels/geometry.h"
#include "device/cuda/kernels/kernels.h"

typedef __nv_bfloat16 ls_half;

__device__ inline float ls_load(const float *x)
{
    return *x;
}

__device__ inline float ls_load(const ls_half *x)
{
    return __bfloat162float(*x);
}

__device__ inline void ls_store(float *to, float x)
{
    *to = x;
}

__device__ inline void ls_store(ls_half *to, float x)
{
    *to = __float2bfloat16_rn(x);
}

/* V numbers that one load brings. */
template <typename T, int V> struct alignas(sizeof(T) * V) ls_some {
    T at[V];
};

__device__ inline size_t ls_thread(void)
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ inline size_t ls_threads(void)
{
    return (size_t)gridDim.x * blockDim.x;
}

/* i / by and i % by; most maps are small enough for the quicker division. */
__device__ inline size_t ls_split(size_t i, unsigned by, unsigned *rest)
{
    const size_t whole = i <= 0xffffffffu ? (unsigned)i / by : i / by;
    *rest = (unsigned)(i - whole * by);
    return whole;
}

__device__ inline unsigned ls_channel(size_t i, unsigned channels)
{
    unsigned c;
    ls_split(i, channels, &c);
    return c;
}

struct ls_place {
    size_t image;
    unsigned c, row, column;
};

/* Number i of an activation: [image][row][column][channel]. */
__device__ inline ls_place ls_place_of(size_t i, ls_cuda_shape s)
{
    ls_place at;
    at.image = ls_split(ls_split(ls_split(i, s.c, &at.c), s.w, &at.column), s.h, &at.row);
    return at;
}

/* (NaN and -0 pass through.) */
__device__ inline float ls_relu_of(float x)
{
    return x < 0 ? 0 : x;
}

/* The sum over a block's threads, known to thread 0: a tree over the thread's number. blockDim.x is a power of two, at
 * most 1024. */
__device__ inline float ls_block_sum(float x)
{
    __shared__ float of[1024];
    __syncthreads(); /* an earlier sum may still be read */
    of[threadIdx.x] = x;
    for (unsigned gap = blockDim.x / 2; gap > 0; gap /= 2) {
        __syncthreads();
        if (threadIdx.x < gap)
            of[threadIdx.x] += of[threadIdx.x + gap];
    }
    __syncthreads();
    return of[0];
}

/* The sum of a column's chunks, each a term(chunk), for thread (x, 0) of a block of LS_CUDA_COLUMN by LS_CUDA_FINISH;
 * threads without a column have no chunks. */
template <typename Term> __device__ float ls_sum_of(int chunks, Term term)
{
    __shared__ float of[LS_CUDA_FINISH][LS_CUDA_COLUMN];
    float total = 0;
    for (int k = threadIdx.y; k < chunks; k += LS_CUDA_FINISH)
        total += term(k);
    __syncthreads(); /* an earlier sum may still be read */
    of[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    total = 0;
    for (int k = 0; threadIdx.y == 0 && k < LS_CUDA_FINISH; k++)
        total += of[k][threadIdx.x];
    return total;
}

/* Blocks of the kernels that add chunks, and their threads. */
inline unsigned ls_columns_of(size_t columns)
{
    return (unsigned)((columns + LS_CUDA_COLUMN - 1) / LS_CUDA_COLUMN);
}

#define LS_FINISHING dim3(LS_CUDA_COLUMN, LS_CUDA_FINISH)

/* Carries out statements with V for how many neighbouring channels a thread loads at once: 16 bytes of them, or 4, or
 * 2, or 1. */
#define LS_BY_VECTOR(T, channels, ...)                                                                                 \
    do {                                                                                                               \
        if ((channels) % (16 / (int)sizeof(T)) == 0) {                                                                 \
            constexpr int V = 16 / (int)sizeof(T);                                                                     \
            __VA_ARGS__;                                                                                               \
        } else if ((channels) % 4 == 0) {                                                                              \
            constexpr int V = 4;                                                                                       \
            __VA_ARGS__;                                                                                               \
        } else if ((channels) % 2 == 0) {                                                                              \
            constexpr int V = 2;                                                                                       \
            __VA_ARGS__;                                                                                               \
        } else {                                                                                                       \
            constexpr int V = 1;                                                                                       \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
    } while (0)

/* Carries out statements with T for the activations' type. */
#define LS_BY_TYPE(half, ...)                                                                                          \
    do {                                                                                                               \
        if (half) {                                                                                                    \
            typedef ls_half T;                                                                                         \
            __VA_ARGS__;                                                                                               \
        } else {                                                                                                       \
            typedef float T;                                                                                           \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
    } while (0)
