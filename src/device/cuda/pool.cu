/* Pools: a thread for each number of the result, which takes its terms in the order of op.h. */
#include "device/cuda/numbers.cuh"

namespace
{

/* Where number i of an activation is. */
struct place {
    size_t image;
    int row, column, c;
};

template <typename N> __device__ place split(N i, ls_cuda_shape s)
{
    place p;
    p.c = (int)(i % (N)s.c);
    i /= (N)s.c;
    p.column = (int)(i % (N)s.w);
    i /= (N)s.w;
    p.row = (int)(i % (N)s.h);
    p.image = i / (N)s.h;
    return p;
}

/* Divisions of 32 bits are several times as quick, and mostly do. */
__device__ place place_of(size_t i, ls_cuda_shape s)
{
    return i <= 0xffffffffu ? split((unsigned)i, s) : split(i, s);
}

__device__ size_t at(ls_cuda_shape s, size_t image, int row, int column, int c)
{
    return ((image * s.h + row) * s.w + column) * s.c + c;
}

__device__ bool inside(ls_cuda_shape s, int row, int column)
{
    return row >= 0 && row < s.h && column >= 0 && column < s.w;
}

/* The largest of a window's taps, and which it is: the first of equals, a NaN before all. */
template <typename T>
__device__ float largest(const T *x, ls_cuda_shape in, ls_cuda_window v, size_t image, int top, int left, int c,
                         int *chosen)
{
    float best = 0;
    *chosen = -1;
    for (int i = 0; i < v.kernel; i++)
        for (int j = 0; j < v.kernel; j++) {
            if (!inside(in, top + i, left + j))
                continue;
            const float tap = ls_load(x + at(in, image, top + i, left + j, c));
            if (*chosen < 0 || (!(tap <= best) && best == best)) {
                best = tap;
                *chosen = i * v.kernel + j;
            }
        }
    return best;
}

template <typename T>
__global__ void pool(T *y, const T *x, ls_cuda_shape in, ls_cuda_shape out, ls_cuda_window v, int max)
{
    for (size_t i = ls_thread(); i < ls_cuda_numbers(out); i += ls_threads()) {
        const place p = place_of(i, out);
        const int top = p.row * v.stride - v.padding, left = p.column * v.stride - v.padding;
        int chosen;
        if (max) {
            ls_store(y + i, largest(x, in, v, p.image, top, left, p.c, &chosen));
            continue;
        }
        float sum = 0;
        for (int k = 0; k < v.kernel * v.kernel; k++) {
            const int row = top + k / v.kernel, column = left + k % v.kernel;
            const float tap = inside(in, row, column) ? ls_load(x + at(in, p.image, row, column, p.c)) : 0;
            sum = k ? sum + tap : tap;
        }
        ls_store(y + i, sum * (1.0f / (v.kernel * v.kernel)));
    }
}

/* The first window that holds a place, along one axis. */
__device__ int first_window(int place, ls_cuda_window v)
{
    const int reach = place + v.padding - v.kernel + 1;
    return reach <= 0 ? 0 : (reach + v.stride - 1) / v.stride;
}

template <typename T>
__global__ void pool_backward(T *dx, const T *dy, const T *x, ls_cuda_shape in, ls_cuda_shape out, ls_cuda_window v,
                              int max, int relu)
{
    for (size_t i = ls_thread(); i < ls_cuda_numbers(in); i += ls_threads()) {
        const place p = place_of(i, in);
        float sum = 0;
        for (int r = first_window(p.row, v); r < out.h && r * v.stride - v.padding <= p.row; r++)
            for (int c = first_window(p.column, v); c < out.w && c * v.stride - v.padding <= p.column; c++) {
                const int top = r * v.stride - v.padding, left = c * v.stride - v.padding;
                int chosen = (p.row - top) * v.kernel + p.column - left;
                const int here = chosen;
                if (max)
                    largest(x, in, v, p.image, top, left, p.c, &chosen);
                if (chosen == here)
                    sum += ls_load(dy + at(out, p.image, r, c, p.c));
            }
        if (!max)
            sum *= 1.0f / (v.kernel * v.kernel);
        ls_store(dx + i, !relu || ls_load(x + i) > 0 ? sum : 0);
    }
}

template <typename T> __global__ void global_pool(T *y, const T *x, ls_cuda_shape in)
{
    const size_t places = (size_t)in.h * in.w;
    for (size_t i = ls_thread(); i < (size_t)in.images * in.c; i += ls_threads()) {
        const T *image = x + i / in.c * places * in.c + i % in.c;
        float total = 0;
        for (int row = 0; row < in.h; row++) {
            float r = 0;
            for (int column = 0; column < in.w; column++, image += in.c)
                r += ls_load(image);
            total += r;
        }
        ls_store(y + i, total / (float)places);
    }
}

template <typename T> __global__ void global_pool_backward(T *dx, const T *dy, ls_cuda_shape in)
{
    const size_t places = (size_t)in.h * in.w;
    for (size_t i = ls_thread(); i < ls_cuda_numbers(in); i += ls_threads()) {
        const place p = place_of(i, in);
        ls_store(dx + i, ls_load(dy + p.image * in.c + p.c) / (float)places);
    }
}

template <typename T>
void launch_pool(cudaStream_t stream, void *y, const void *x, ls_cuda_shape in, ls_cuda_shape out, ls_cuda_window v,
                 int max)
{
    pool<T>
        <<<ls_cuda_blocks(ls_cuda_numbers(out)), LS_CUDA_THREADS, 0, stream>>>((T *)y, (const T *)x, in, out, v, max);
}

template <typename T>
void launch_backward(cudaStream_t stream, void *dx, const void *dy, const void *x, ls_cuda_shape in, ls_cuda_shape out,
                     ls_cuda_window v, int max, int relu)
{
    pool_backward<T><<<ls_cuda_blocks(ls_cuda_numbers(in)), LS_CUDA_THREADS, 0, stream>>>(
        (T *)dx, (const T *)dy, (const T *)x, in, out, v, max, relu);
}

template <typename T> void launch_global(cudaStream_t stream, void *y, const void *x, ls_cuda_shape in)
{
    global_pool<T><<<ls_cuda_blocks((size_t)in.images * in.c), LS_CUDA_THREADS, 0, stream>>>((T *)y, (const T *)x, in);
}

template <typename T> void launch_global_backward(cudaStream_t stream, void *dx, const void *dy, ls_cuda_shape in)
{
    global_pool_backward<T>
        <<<ls_cuda_blocks(ls_cuda_numbers(in)), LS_CUDA_THREADS, 0, stream>>>((T *)dx, (const T *)dy, in);
}

} // namespace

void ls_cuda_pool(cudaStream_t stream, int half, int max, void *y, const void *x, ls_cuda_shape in, ls_cuda_shape out,
                  ls_cuda_window window)
{
    LS_BY_TYPE(half, launch_pool, stream, y, x, in, out, window, max);
}

void ls_cuda_pool_backward(cudaStream_t stream, int half, int max, int relu, void *dx, const void *dy, const void *x,
                           ls_cuda_shape in, ls_cuda_shape out, ls_cuda_window window)
{
    LS_BY_TYPE(half, launch_backward, stream, dx, dy, x, in, out, window, max, relu);
}

void ls_cuda_global_pool(cudaStream_t stream, int half, void *y, const void *x, ls_cuda_shape in)
{
    LS_BY_TYPE(half, launch_global, stream, y, x, in);
}

void ls_cuda_global_pool_backward(cudaStream_t stream, int half, void *dx, const void *dy, ls_cuda_shape in)
{
    LS_BY_TYPE(half, launch_global_backward, stream, dx, dy, in);
}
