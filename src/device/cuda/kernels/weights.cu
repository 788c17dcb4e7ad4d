/* Weights between PyTorch's order and cuDNN's, and activations of the shapes that it wants. */
#include "device/cuda/kernels/numbers.cuh"

namespace
{

/* packed[o][tap][i] from w[o][i][tap], or the other way, by way of shared memory, so that neighbouring threads read and
 * write neighbouring numbers on both sides. A block has `each` input channels at a time, of which one's taps fit. What
 * is packed has wide_out and wide_in channels; those that w has not are zero. */
template <typename T, bool packing>
__global__ void turn(T *packed, float *w, unsigned out, unsigned in, unsigned wide_out, unsigned wide_in, unsigned taps,
                     unsigned each)
{
    __shared__ float tile[LS_CUDA_TILE]; /* [i][tap] */
    const unsigned self = threadIdx.y * blockDim.x + threadIdx.x;
    const unsigned last_out = packing ? wide_out : out, last_in = packing ? wide_in : in;
    for (unsigned o = blockIdx.y; o < last_out; o += gridDim.y)
        for (unsigned first = blockIdx.x * each; first < last_in; first += gridDim.x * each) {
            const unsigned n = last_in - first < each ? last_in - first : each;
            const unsigned have = o >= out || first >= in ? 0 : in - first < n ? in - first : n;
            float *from = w + ((size_t)o * in + first) * taps;
            T *to = packed + (size_t)o * wide_in * taps + first;
            for (unsigned k = self; packing && k < n * taps; k += LS_CUDA_THREADS)
                tile[k] = k < have * taps ? from[k] : 0;
            for (unsigned tap = threadIdx.y; !packing && tap < taps; tap += blockDim.y)
                for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
                    tile[i * taps + tap] = ls_load(to + tap * wide_in + i);
            __syncthreads();
            for (unsigned tap = threadIdx.y; packing && tap < taps; tap += blockDim.y)
                for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
                    ls_store(to + tap * wide_in + i, tile[i * taps + tap]);
            for (unsigned k = self; !packing && k < n * taps; k += LS_CUDA_THREADS)
                from[k] = tile[k];
            __syncthreads();
        }
}

template <typename T, int V>
__global__ void fit(T *to, ls_cuda_shape is, const T *from, ls_cuda_shape was, const T *more)
{
    for (size_t i = ls_thread(); i < ls_cuda_numbers(is) / V; i += ls_threads()) {
        unsigned group, column, row;
        const size_t image = ls_split(ls_split(ls_split(i, is.c / V, &group), is.w, &column), is.h, &row);
        ls_some<T, V> some;
        if ((int)group * V < was.c && (int)column < was.w && (int)row < was.h)
            some = *(const ls_some<T, V> *)(from + ((image * was.h + row) * was.w + column) * was.c + group * V);
        else
            for (int k = 0; k < V; k++)
                ls_store(&some.at[k], 0);
        if (more) {
            const ls_some<T, V> other = ((const ls_some<T, V> *)more)[i];
            for (int k = 0; k < V; k++)
                ls_store(&some.at[k], ls_load(&some.at[k]) + ls_load(&other.at[k]));
        }
        ((ls_some<T, V> *)to)[i] = some;
    }
}

__global__ void to_half(ls_half *to, const float *x, size_t n)
{
    for (size_t i = ls_thread(); i < n; i += ls_threads())
        ls_store(to + i, x[i]);
}

template <typename T, bool packing>
void launch_turn(cudaStream_t stream, void *packed, float *w, const ls_cuda_conv *fit, const ls_cuda_conv *v)
{
    const unsigned taps = (unsigned)ls_cuda_taps(v), each = LS_CUDA_TILE / taps, groups = (unsigned)v->windows.groups;
    const unsigned out = (unsigned)v->y.c, wide_out = (unsigned)fit->y.c;
    const unsigned in = (unsigned)v->x.c / groups, wide_in = (unsigned)fit->x.c / groups;
    const dim3 blocks((wide_in + each - 1) / each, wide_out < 65535 ? wide_out : 65535);
    const dim3 threads(LS_CUDA_THREADS / 4, 4);
    turn<T, packing><<<blocks, threads, 0, stream>>>((T *)packed, w, out, in, wide_out, wide_in, taps, each);
}

} // namespace

void ls_cuda_pack(cudaStream_t stream, int half, void *packed, const float *w, const ls_cuda_conv *fit,
                  const ls_cuda_conv *conv)
{
    LS_BY_TYPE(half, launch_turn<T, true>(stream, packed, (float *)w, fit, conv));
}

void ls_cuda_unpack(cudaStream_t stream, int half, float *w, const void *packed, const ls_cuda_conv *fit,
                    const ls_cuda_conv *conv)
{
    LS_BY_TYPE(half, launch_turn<T, false>(stream, (void *)packed, w, fit, conv));
}

void ls_cuda_fit(cudaStream_t stream, int half, void *to, ls_cuda_shape is, const void *from, ls_cuda_shape was,
                 const void *more)
{
    const size_t n = ls_cuda_numbers(is);
    LS_BY_TYPE(half, LS_BY_VECTOR(T, is.c | was.c, /* what divides both */
                                  fit<T, V><<<ls_cuda_blocks(n / V), LS_CUDA_THREADS, 0, stream>>>(
                                      (T *)to, is, (const T *)from, was, (const T *)more)));
}

void ls_cuda_round(cudaStream_t stream, void *half, const float *x, size_t n)
{
    to_half<<<ls_cuda_blocks(n), LS_CUDA_THREADS, 0, stream>>>((ls_half *)half, x, n);
}
