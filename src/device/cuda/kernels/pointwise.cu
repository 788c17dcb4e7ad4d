/* Kernels that treat every number alone. */
#include <math.h>

#include "base/philox.h"
#include "device/cuda/kernels/numbers.cuh"

namespace
{

__device__ float apply(ls_cuda_pointwise what, float a, float b, float factor)
{
    switch (what) {
    case LS_CUDA_ADD:
        return a + b;
    case LS_CUDA_SUBTRACT:
        return a - b;
    case LS_CUDA_MULTIPLY:
        return a * b;
    case LS_CUDA_DIVIDE:
        return a / b;
    case LS_CUDA_SCALE:
        return a * factor;
    case LS_CUDA_RELU:
        return ls_relu_of(a);
    case LS_CUDA_RELU_BACKWARD:
        return b > 0 ? a : 0;
    case LS_CUDA_TANH:
        return tanhf(a);
    case LS_CUDA_TANH_BACKWARD:
        return a * fmaf(-b, b, 1.0f);
    case LS_CUDA_SIGMOID:
        return 1.0f / (1.0f + expf(-a));
    case LS_CUDA_SIGMOID_BACKWARD:
        return a * (b * (1.0f - b));
    }
    return 0;
}

template <typename T, int V>
__global__ void each(ls_cuda_pointwise what, T *out, const T *a, const T *b, size_t n, float factor)
{
    for (size_t i = ls_thread(); i < n; i += ls_threads()) {
        ls_some<T, V> x = ((const ls_some<T, V> *)a)[i], z = x;
        if (b)
            z = ((const ls_some<T, V> *)b)[i];
        for (int k = 0; k < V; k++)
            ls_store(&x.at[k], apply(what, ls_load(&x.at[k]), ls_load(&z.at[k]), factor));
        ((ls_some<T, V> *)out)[i] = x;
    }
}

template <typename T>
void launch_each(cudaStream_t stream, ls_cuda_pointwise what, void *out, const void *a, const void *b, size_t n,
                 float factor)
{
    const int most = 16 / sizeof(T);
    if (n % most == 0)
        each<T, most><<<ls_cuda_blocks(n / most), LS_CUDA_THREADS, 0, stream>>>(what, (T *)out, (const T *)a,
                                                                                (const T *)b, n / most, factor);
    else
        each<T, 1>
            <<<ls_cuda_blocks(n), LS_CUDA_THREADS, 0, stream>>>(what, (T *)out, (const T *)a, (const T *)b, n, factor);
}

template <typename T, int V>
__global__ void add_bias(T *out, const T *x, unsigned x_c, const float *bias, size_t n, unsigned channels, int relu)
{
    for (size_t i = ls_thread(); i < n; i += ls_threads()) {
        unsigned group;
        const size_t row = ls_split(i, channels / V, &group);
        ls_some<T, V> y = ((const ls_some<T, V> *)x)[row * (x_c / V) + group];
        for (int k = 0; k < V; k++) {
            const float sum = ls_load(&y.at[k]) + bias[group * V + k];
            ls_store(&y.at[k], relu ? ls_relu_of(sum) : sum);
        }
        ((ls_some<T, V> *)out)[i] = y;
    }
}

/* A block at a time treats one image, whose stream it derives once. A number is dropped where its 53 bits are below
 * `least`. */
template <typename T>
__global__ void drop(T *y, const T *x, ls_cuda_drawn drawn, ls_cuda_shape s, uint64_t least, float scale)
{
    const size_t places = (size_t)s.h * s.w, numbers = places * s.c;
    for (size_t image = blockIdx.x; image < (size_t)s.images; image += gridDim.x) {
        const ls_random_stream stream = {drawn.seed, LS_FOR_DROPOUT, drawn.key ^ drawn.index[image], *drawn.step};
        const ls_derived from = ls_random_derive(&stream);
        for (size_t i = threadIdx.x; i < numbers; i += blockDim.x) {
            const uint64_t bits = ls_derived_bits(&from, i % s.c * places + i / s.c);
            ls_store(y + image * numbers + i, bits >> 11 < least ? 0.0f : ls_load(x + image * numbers + i) * scale);
        }
    }
}

} // namespace

void ls_cuda_dropout(cudaStream_t stream, int half, void *y, const void *x, const ls_cuda_drawn *drawn,
                     ls_cuda_shape shape)
{
    const size_t images = shape.images;
    const unsigned blocks = (unsigned)(images < LS_CUDA_MOST_BLOCKS ? images : LS_CUDA_MOST_BLOCKS);
    /* u < rate, with u = bits / 2^53 */
    const uint64_t least = (uint64_t)ceil((double)drawn->rate * 0x1p53);
    const float scale = 1.0f / (1.0f - drawn->rate);
    LS_BY_TYPE(half,
               drop<T><<<blocks, LS_CUDA_THREADS, 0, stream>>>((T *)y, (const T *)x, *drawn, shape, least, scale));
}

void ls_cuda_each(cudaStream_t stream, int half, ls_cuda_pointwise what, void *out, const void *a, const void *b,
                  size_t n, float factor)
{
    LS_BY_TYPE(half, launch_each<T>(stream, what, out, a, b, n, factor));
}

void ls_cuda_bias(cudaStream_t stream, int half, void *out, const void *x, int x_c, const float *bias,
                  ls_cuda_shape shape, int relu)
{
    const size_t n = ls_cuda_numbers(shape);
    LS_BY_TYPE(half, LS_BY_VECTOR(T, shape.c | x_c, /* what divides both */
                                  add_bias<T, V><<<ls_cuda_blocks(n / V), LS_CUDA_THREADS, 0, stream>>>(
                                      (T *)out, (const T *)x, (unsigned)x_c, bias, n / V, (unsigned)shape.c, relu)));
}
