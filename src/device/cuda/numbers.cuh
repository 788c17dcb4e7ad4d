/* What the kernels share: activations of either type read as float, loads of several numbers, and sums in a fixed order. */
#ifndef LS_DEVICE_CUDA_NUMBERS_CUH
#define LS_DEVICE_CUDA_NUMBERS_CUH

#include <cuda_bf16.h>

#include "device/cuda/geometry.h"
#include "device/cuda/kernels.h"

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

/* i % channels; most maps are small enough for the quicker division. */
__device__ inline unsigned ls_channel(size_t i, unsigned channels)
{
    return i <= 0xffffffffu ? (unsigned)i % channels : (unsigned)(i % channels);
}

/* (NaN and -0 pass through.) */
__device__ inline float ls_relu_of(float x)
{
    return x < 0 ? 0 : x;
}

/* The sum over a block's threads, known to thread 0: a tree over the thread's number. blockDim.x is a power of two, at most 1024. */
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

/* Calls a launch function template for the activations' type. */
#define LS_BY_TYPE(half, function, ...)                                                                                \
    do {                                                                                                               \
        if (half)                                                                                                      \
            function<ls_half>(__VA_ARGS__);                                                                            \
        else                                                                                                           \
            function<float>(__VA_ARGS__);                                                                              \
    } while (0)

#endif
