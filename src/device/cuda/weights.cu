/* Weights between PyTorch's order and cuDNN's. */
#include "device/cuda/numbers.cuh"

namespace
{

/* packed[o][tap][i] from w[o][i][tap], or the other way, by way of shared memory, so that neighbouring threads read and write neighbouring
 * numbers on both sides. A block has `each` input channels at a time, of which one's taps fit. */
template <typename T, bool packing>
__global__ void turn(T *packed, float *w, int out, unsigned in, unsigned taps, unsigned each)
{
    __shared__ float tile[LS_CUDA_TILE]; /* [i][tap] */
    for (unsigned o = blockIdx.y; o < (unsigned)out; o += gridDim.y)
        for (unsigned first = blockIdx.x * each; first < in; first += gridDim.x * each) {
            const unsigned n = in - first < each ? in - first : each;
            float *from = w + ((size_t)o * in + first) * taps;
            T *to = packed + (size_t)o * in * taps + first;
            for (unsigned k = threadIdx.x; k < n * taps; k += blockDim.x)
                if (packing)
                    tile[k] = from[k];
                else
                    tile[k % n * taps + k / n] = ls_load(to + k / n * in + k % n);
            __syncthreads();
            for (unsigned k = threadIdx.x; k < n * taps; k += blockDim.x)
                if (packing)
                    ls_store(to + k / n * in + k % n, tile[k % n * taps + k / n]);
                else
                    from[k] = tile[k];
            __syncthreads();
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
    const unsigned taps = (unsigned)(kernel * kernel), each = LS_CUDA_TILE / taps;
    const dim3 blocks(((unsigned)in + each - 1) / each, (unsigned)(out < 65535 ? out : 65535));
    turn<T, packing><<<blocks, LS_CUDA_THREADS, 0, stream>>>((T *)packed, w, out, (unsigned)in, taps, each);
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
