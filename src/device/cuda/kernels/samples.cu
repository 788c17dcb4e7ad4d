/* What comes from the host and goes there: images from bytes, rows of floats in C order; and reshaping by that
 * order. */
#include "device/cuda/kernels/numbers.cuh"

namespace
{

/* Where, in C order, number i of an activation is. */
__device__ size_t in_c_order(size_t i, ls_cuda_shape s)
{
    unsigned c, place;
    const size_t image = ls_split(ls_split(i, s.c, &c), s.h * s.w, &place);
    return (image * s.c + c) * s.h * s.w + place;
}

__device__ float number_of(const uint8_t *images, size_t i)
{
    return (float)images[i] / 255.0f;
}

__device__ float number_of(const float *images, size_t i)
{
    return images[i];
}

template <typename T, typename N>
__global__ void gather(T *x, const N *images, const uint32_t *index, const ls_change *changes, ls_cuda_shape s,
                       size_t n)
{
    const size_t numbers = (size_t)s.c * s.h * s.w, plane = (size_t)s.h * s.w;
    for (size_t i = ls_thread(); i < n; i += ls_threads()) {
        unsigned at, place;
        const size_t image = ls_split(in_c_order(i, s), (unsigned)numbers, &at);
        ls_split(at, (unsigned)plane, &place);
        long from = (long)place;
        if (changes)
            from = ls_change_source(&changes[image], s.h, s.w, (int)(place / s.w), (int)(place % s.w));
        ls_store(x + i, from < 0 ? 0.0f : number_of(images, index[image] * numbers + (at - place) + (size_t)from));
    }
}

template <typename T> __global__ void from_rows(T *x, const float *rows, ls_cuda_shape s, size_t n)
{
    for (size_t i = ls_thread(); i < n; i += ls_threads())
        ls_store(x + i, rows[in_c_order(i, s)]);
}

template <typename T> __global__ void to_rows(float *rows, const T *x, ls_cuda_shape s, size_t n)
{
    for (size_t i = ls_thread(); i < n; i += ls_threads())
        rows[in_c_order(i, s)] = ls_load(x + i);
}

/* Number i of the result is the number of x that has its place in C order. */
template <typename T> __global__ void reshape(T *to, const T *from, ls_cuda_shape is, ls_cuda_shape was, size_t n)
{
    const size_t places = (size_t)was.h * was.w, numbers = places * was.c;
    for (size_t i = ls_thread(); i < n; i += ls_threads()) {
        unsigned left, place;
        const size_t image = ls_split(in_c_order(i, is), (unsigned)numbers, &left),
                     c = ls_split(left, (unsigned)places, &place);
        to[i] = from[image * numbers + place * was.c + c];
    }
}

template <typename T> void launch_gather(cudaStream_t stream, void *x, const ls_cuda_samples *from, ls_cuda_shape s)
{
    const size_t n = ls_cuda_numbers(s);
    const uint32_t *index = from->index;
    const ls_change *changes = from->changes;
    if (from->floats) {
        const float *images = (const float *)from->images;
        gather<T, float><<<ls_cuda_blocks(n), LS_CUDA_THREADS, 0, stream>>>((T *)x, images, index, changes, s, n);
    } else {
        const uint8_t *images = (const uint8_t *)from->images;
        gather<T, uint8_t><<<ls_cuda_blocks(n), LS_CUDA_THREADS, 0, stream>>>((T *)x, images, index, changes, s, n);
    }
}

} // namespace

void ls_cuda_images(cudaStream_t stream, int half, void *x, const ls_cuda_samples *from, ls_cuda_shape shape)
{
    LS_BY_TYPE(half, launch_gather<T>(stream, x, from, shape));
}

void ls_cuda_from_rows(cudaStream_t stream, int half, void *x, const float *rows, ls_cuda_shape shape)
{
    const size_t n = ls_cuda_numbers(shape);
    LS_BY_TYPE(half, from_rows<T><<<ls_cuda_blocks(n), LS_CUDA_THREADS, 0, stream>>>((T *)x, rows, shape, n));
}

void ls_cuda_to_rows(cudaStream_t stream, int half, float *rows, const void *x, ls_cuda_shape shape)
{
    const size_t n = ls_cuda_numbers(shape);
    LS_BY_TYPE(half, to_rows<T><<<ls_cuda_blocks(n), LS_CUDA_THREADS, 0, stream>>>(rows, (const T *)x, shape, n));
}

void ls_cuda_reshape(cudaStream_t stream, int half, void *to, const void *from, ls_cuda_shape is, ls_cuda_shape was)
{
    const size_t n = ls_cuda_numbers(is);
    LS_BY_TYPE(half,
               reshape<T><<<ls_cuda_blocks(n), LS_CUDA_THREADS, 0, stream>>>((T *)to, (const T *)from, is, was, n));
}
