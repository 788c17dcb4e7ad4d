/* Pools: a thread for some neighbouring channels of a place of the result, which takes its terms in the order of
 * op.h. */
#include "device/cuda/kernels/numbers.cuh"

namespace
{

/* Where piece i of an activation is, of V channels each. */
struct place {
    size_t image;
    int row, column, c;
};

template <int V> __device__ place place_of(size_t i, ls_cuda_shape s)
{
    unsigned group, column, row;
    const size_t image = ls_split(ls_split(ls_split(i, s.c / V, &group), s.w, &column), s.h, &row);
    return {image, (int)row, (int)column, (int)group * V};
}

template <typename T, int V>
__device__ const ls_some<T, V> &some_at(const T *x, ls_cuda_shape s, size_t image, int row, int column, int c)
{
    return *(const ls_some<T, V> *)(x + ((image * s.h + row) * s.w + column) * s.c + c);
}

__device__ bool inside(ls_cuda_shape s, int row, int column)
{
    return row >= 0 && row < s.h && column >= 0 && column < s.w;
}

/* The largest of a window's taps in each of V channels, and which it is: the first of equals, a NaN before all. */
template <typename T, int V>
__device__ void largest(float *best, int *chosen, const T *x, ls_cuda_shape in, ls_cuda_window v, size_t image, int top,
                        int left, int c)
{
    for (int k = 0; k < V; k++) {
        best[k] = 0;
        chosen[k] = -1;
    }
    for (int i = 0; i < v.kernel; i++)
        for (int j = 0; j < v.kernel; j++) {
            if (!inside(in, top + i, left + j))
                continue;
            const ls_some<T, V> taps = some_at<T, V>(x, in, image, top + i, left + j, c);
            for (int k = 0; k < V; k++) {
                const float tap = ls_load(&taps.at[k]);
                if (chosen[k] < 0 || (!(tap <= best[k]) && best[k] == best[k])) {
                    best[k] = tap;
                    chosen[k] = i * v.kernel + j;
                }
            }
        }
}

/* K: windows of K by K side by side; 0: any. */
template <typename T, int V, int K>
__global__ void pool(T *y, const T *x, ls_cuda_shape in, ls_cuda_shape out, ls_cuda_window any, int max)
{
    const ls_cuda_window v = K ? ls_cuda_window{K, K, 0} : any;
    for (size_t i = ls_thread(); i < ls_cuda_numbers(out) / V; i += ls_threads()) {
        const place p = place_of<V>(i, out);
        const int top = p.row * v.stride - v.padding, left = p.column * v.stride - v.padding;
        float sum[V] = {0};
        int chosen[V];
        if (max)
            largest<T, V>(sum, chosen, x, in, v, p.image, top, left, p.c);
        for (int tap = 0; !max && tap < v.kernel * v.kernel; tap++) {
            const int row = top + tap / v.kernel, column = left + tap % v.kernel;
            if (!inside(in, row, column))
                continue;
            const ls_some<T, V> taps = some_at<T, V>(x, in, p.image, row, column, p.c);
            for (int k = 0; k < V; k++)
                sum[k] += ls_load(&taps.at[k]);
        }
        ls_some<T, V> result;
        for (int k = 0; k < V; k++)
            ls_store(&result.at[k], max ? sum[k] : sum[k] * (1.0f / (v.kernel * v.kernel)));
        ((ls_some<T, V> *)y)[i] = result;
    }
}

/* The first window that holds a place, along one axis. */
__device__ int first_window(int place, ls_cuda_window v)
{
    const int reach = place + v.padding - v.kernel + 1;
    return reach <= 0 ? 0 : (reach + v.stride - 1) / v.stride;
}

template <typename T, int V, int K>
__global__ void pool_backward(T *dx, const T *dy, const T *x, ls_cuda_shape in, ls_cuda_shape out, ls_cuda_window any,
                              int max, int relu)
{
    const ls_cuda_window v = K ? ls_cuda_window{K, K, 0} : any;
    for (size_t i = ls_thread(); i < ls_cuda_numbers(in) / V; i += ls_threads()) {
        const place p = place_of<V>(i, in);
        float sum[V] = {0};
        for (int r = first_window(p.row, v); r < out.h && r * v.stride - v.padding <= p.row; r++)
            for (int c = first_window(p.column, v); c < out.w && c * v.stride - v.padding <= p.column; c++) {
                const int top = r * v.stride - v.padding, left = c * v.stride - v.padding;
                const int here = (p.row - top) * v.kernel + p.column - left;
                const ls_some<T, V> slope = some_at<T, V>(dy, out, p.image, r, c, p.c);
                float best[V];
                int chosen[V];
                if (max)
                    largest<T, V>(best, chosen, x, in, v, p.image, top, left, p.c);
                for (int k = 0; k < V; k++)
                    if (!max || chosen[k] == here)
                        sum[k] += ls_load(&slope.at[k]);
            }
        ls_some<T, V> was, result;
        if (relu)
            was = ((const ls_some<T, V> *)x)[i];
        for (int k = 0; k < V; k++) {
            const float slope = max ? sum[k] : sum[k] * (1.0f / (v.kernel * v.kernel));
            ls_store(&result.at[k], !relu || ls_load(&was.at[k]) > 0 ? slope : 0);
        }
        ((ls_some<T, V> *)dx)[i] = result;
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

template <typename T, int V> __global__ void global_pool_backward(T *dx, const T *dy, ls_cuda_shape in)
{
    const size_t places = (size_t)in.h * in.w;
    for (size_t i = ls_thread(); i < ls_cuda_numbers(in) / V; i += ls_threads()) {
        const place p = place_of<V>(i, in);
        ls_some<T, V> slope = *(const ls_some<T, V> *)(dy + p.image * in.c + p.c);
        for (int k = 0; k < V; k++)
            ls_store(&slope.at[k], ls_load(&slope.at[k]) / (float)places);
        ((ls_some<T, V> *)dx)[i] = slope;
    }
}

/* The book's windows. */
bool is_two_by_two(ls_cuda_window v)
{
    return v.kernel == 2 && v.stride == 2 && v.padding == 0;
}

template <typename T, int V>
void launch_pool(cudaStream_t stream, void *y, const void *x, ls_cuda_shape in, ls_cuda_shape out, ls_cuda_window v,
                 int max)
{
    const unsigned blocks = ls_cuda_blocks(ls_cuda_numbers(out) / V);
    if (is_two_by_two(v))
        pool<T, V, 2><<<blocks, LS_CUDA_THREADS, 0, stream>>>((T *)y, (const T *)x, in, out, v, max);
    else
        pool<T, V, 0><<<blocks, LS_CUDA_THREADS, 0, stream>>>((T *)y, (const T *)x, in, out, v, max);
}

template <typename T, int V>
void launch_backward(cudaStream_t stream, void *dx, const void *dy, const void *x, ls_cuda_shape in, ls_cuda_shape out,
                     ls_cuda_window v, int max, int relu)
{
    const unsigned blocks = ls_cuda_blocks(ls_cuda_numbers(in) / V);
    if (is_two_by_two(v))
        pool_backward<T, V, 2>
            <<<blocks, LS_CUDA_THREADS, 0, stream>>>((T *)dx, (const T *)dy, (const T *)x, in, out, v, max, relu);
    else
        pool_backward<T, V, 0>
            <<<blocks, LS_CUDA_THREADS, 0, stream>>>((T *)dx, (const T *)dy, (const T *)x, in, out, v, max, relu);
}

} // namespace

void ls_cuda_pool(cudaStream_t stream, int half, int max, void *y, const void *x, ls_cuda_shape in, ls_cuda_shape out,
                  ls_cuda_window window)
{
    LS_BY_TYPE(half, LS_BY_VECTOR(T, in.c, launch_pool<T, V>(stream, y, x, in, out, window, max)));
}

void ls_cuda_pool_backward(cudaStream_t stream, int half, int max, int relu, void *dx, const void *dy, const void *x,
                           ls_cuda_shape in, ls_cuda_shape out, ls_cuda_window window)
{
    LS_BY_TYPE(half, LS_BY_VECTOR(T, in.c, launch_backward<T, V>(stream, dx, dy, x, in, out, window, max, relu)));
}

void ls_cuda_global_pool(cudaStream_t stream, int half, void *y, const void *x, ls_cuda_shape in)
{
    const size_t n = (size_t)in.images * in.c;
    LS_BY_TYPE(half, global_pool<T><<<ls_cuda_blocks(n), LS_CUDA_THREADS, 0, stream>>>((T *)y, (const T *)x, in));
}

void ls_cuda_global_pool_backward(cudaStream_t stream, int half, void *dx, const void *dy, ls_cuda_shape in)
{
    const size_t n = ls_cuda_numbers(in);
    LS_BY_TYPE(half, LS_BY_VECTOR(T, in.c,
                                  global_pool_backward<T, V>
                                  <<<ls_cuda_blocks(n / V), LS_CUDA_THREADS, 0, stream>>>((T *)dx, (const T *)dy, in)));
}
