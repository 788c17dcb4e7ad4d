/* Weights between PyTorch's order and cuDNN's. */
#include "device/cuda/numbers.cuh"

namespace
{

/* packed[o][tap][i] from w[o][i][tap], or the other way. */
template <typename T, bool packing> __global__ void turn(T *packed, float *w, int out, unsigned in, unsigned taps)
{
    const unsigned row = in * taps;
    for (unsigned o = blockIdx.y; o < (unsigned)out; o += gridDim.y)
        for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < row; i += gridDim.x * blockDim.x) {
            float *at = w + (size_t)o * row + i % in * taps + i / in;
            T *there = packed + (size_t)o * row + i;
            if (packing)
                ls_store(there, *at);
            else
                *at = ls_load(there);
        }
}

__global__ void to_half(ls_half *to, const float *x, size_t n)
{
    for (size_t i = ls_thread(); i < n; i += ls_threads())
        ls_store(to + i, x[i]);
}

template <typename T, bool packing>
void launch_turn(cudaStream_t stream, void *packed, float *w, int out, int in, int kernel)
{
    const unsigned taps = (unsigned)(kernel * kernel);
    const dim3 blocks(ls_cuda_blocks((size_t)in * taps), (unsigned)(out < 65535 ? out : 65535));
    turn<T, packing><<<blocks, LS_CUDA_THREADS, 0, stream>>>((T *)packed, w, out, (unsigned)in, taps);
}

} // namespace

void ls_cuda_pack(cudaStream_t stream, int half, void *packed, const float *w, int out, int in, int kernel)
{
    if (half)
        launch_turn<ls_half, true>(stream, packed, (float *)w, out, in, kernel);
    else
        launch_turn<float, true>(stream, packed, (float *)w, out, in, kernel);
}

void ls_cuda_unpack(cudaStream_t stream, int half, float *w, const void *packed, int out, int in, int kernel)
{
    if (half)
        launch_turn<ls_half, false>(stream, (void *)packed, w, out, in, kernel);
    else
        launch_turn<float, false>(stream, (void *)packed, w, out, in, kernel);
}

void ls_cuda_round(cudaStream_t stream, void *half, const float *x, size_t n)
{
    to_half<<<ls_cuda_blocks(n), LS_CUDA_THREADS, 0, stream>>>((ls_half *)half, x, n);
}
