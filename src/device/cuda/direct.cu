/* Convolutions as op.h writes them down: for what cuDNN has no deterministic engine for, and for few input channels. Plain, and slow
 * where channels are many. */
#include "device/cuda/numbers.cuh"

namespace
{

__device__ size_t weight_at(const ls_cuda_conv &v, int o, int c, int ky, int kx)
{
    const size_t pair = v.in_out ? (size_t)c * v.y.c + o : (size_t)o * v.x.c + c;
    return (pair * v.window.kernel + ky) * v.window.kernel + kx;
}

/* A thread has V neighbouring output channels of a place. Where the weights are few they lie in shared memory, [c][tap][o]; else V is 1.
 * K is the kernel's size, or 0: any. */
template <typename T, int V, int K>
__global__ void forward(T *y, const T *x, const float *w, const __grid_constant__ ls_cuda_conv v)
{
    __shared__ __align__(16) float near[LS_CUDA_TILE];
    const int kernel = K ? K : v.window.kernel, taps = kernel * kernel;
    const size_t weights = (size_t)taps * v.x.c * v.y.c, n = ls_cuda_numbers(v.y) / V;
    const bool few = V > 1 || weights <= LS_CUDA_TILE;
    for (int i = threadIdx.x; few && i < (int)weights; i += blockDim.x) {
        const int tap = i / v.y.c % taps;
        near[i] = w[weight_at(v, i % v.y.c, i / v.y.c / taps, tap / kernel, tap % kernel)];
    }
    __syncthreads();
    for (size_t i = ls_thread(); i < n; i += ls_threads()) {
        unsigned group, column, row;
        const size_t image = ls_divide(ls_divide(ls_divide(i, v.y.c / V, &group), v.y.w, &column), v.y.h, &row);
        const int top = (int)row * v.window.stride - v.window.padding, o = (int)group * V;
        const int left = (int)column * v.window.stride - v.window.padding;
        const T *from = x + image * v.x.h * v.x.w * v.x.c;
        float sum[V] = {0};
        for (int c = 0; c < v.x.c; c++)
            for (int ky = 0; ky < kernel; ky++)
                for (int kx = 0; kx < kernel; kx++) {
                    const int r = top + ky, q = left + kx;
                    if (r < 0 || r >= v.x.h || q < 0 || q >= v.x.w)
                        continue;
                    const float in = ls_load(from + (r * v.x.w + q) * v.x.c + c);
                    ls_some<float, V> near_by;
                    if (few)
                        near_by = *(const ls_some<float, V> *)(near + (c * taps + ky * kernel + kx) * v.y.c + o);
                    else
                        near_by.at[0] = w[weight_at(v, o, c, ky, kx)];
                    for (int k = 0; k < V; k++)
                        sum[k] = fmaf(near_by.at[k], in, sum[k]);
                }
        ls_some<T, V> out;
        for (int k = 0; k < V; k++)
            ls_store(&out.at[k], sum[k]);
        ((ls_some<T, V> *)y)[i] = out;
    }
}

template <typename T> __global__ void data(T *dx, const T *dy, const float *w, const __grid_constant__ ls_cuda_conv v)
{
    const int kernel = v.window.kernel, stride = v.window.stride;
    for (size_t i = ls_thread(); i < ls_cuda_numbers(v.x); i += ls_threads()) {
        const int c = (int)(i % v.x.c);
        const size_t row = i / v.x.c, image = row / ((size_t)v.x.h * v.x.w);
        const int r = (int)(row / v.x.w % v.x.h) + v.window.padding, q = (int)(row % v.x.w) + v.window.padding;
        const T *from = dy + image * v.y.h * v.y.w * v.y.c;
        float sum = 0;
        for (int o = 0; o < v.y.c; o++)
            for (int k = 0; k < kernel * kernel; k++) {
                const int down = r - k / kernel, right = q - k % kernel;
                if (down < 0 || right < 0 || down % stride || right % stride || down / stride >= v.y.h ||
                    right / stride >= v.y.w)
                    continue;
                sum = fmaf(w[weight_at(v, o, c, k / kernel, k % kernel)],
                           ls_load(from + ((size_t)(down / stride) * v.y.w + right / stride) * v.y.c + o), sum);
            }
        ls_store(dx + i, sum);
    }
}

/* sums[chunk][weight]: a block has one chunk of y's rows and LS_CUDA_THREADS weights. Neighbouring threads have neighbouring output
 * channels. */
template <typename T>
__global__ void weight_chunks(float *sums, const T *x, const T *dy, const __grid_constant__ ls_cuda_conv v)
{
    const int kernel = v.window.kernel, taps = kernel * kernel;
    const size_t weights = (size_t)v.y.c * v.x.c * taps, i = ls_thread();
    const size_t rows = ls_cuda_rows(v.y), chunk = (rows + gridDim.y - 1) / gridDim.y;
    const size_t begin = blockIdx.y * chunk, end = begin + chunk < rows ? begin + chunk : rows;
    if (i >= weights)
        return;
    const int o = (int)(i % v.y.c), tap = (int)(i / v.y.c % taps), c = (int)(i / v.y.c / taps);
    const int down = tap / kernel - v.window.padding, right = tap % kernel - v.window.padding;
    const size_t places = (size_t)v.y.h * v.y.w;
    const T *image = x + begin / places * v.x.h * v.x.w * v.x.c + c, *slope = dy + begin * v.y.c + o;
    int y_row = (int)(begin % places / v.y.w), y_column = (int)(begin % places % v.y.w);
    float sum = 0;
    for (size_t row = begin; row < end;) {
        enum { AT_ONCE = 4 /* rows, to wait less for memory */ };
        float a[AT_ONCE], b[AT_ONCE];
        bool inside[AT_ONCE];
        for (int k = 0; k < AT_ONCE; k++, row++, slope += v.y.c) {
            const int r = y_row * v.window.stride + down, q = y_column * v.window.stride + right;
            inside[k] = row < end && r >= 0 && r < v.x.h && q >= 0 && q < v.x.w;
            a[k] = inside[k] ? ls_load(slope) : 0;
            b[k] = inside[k] ? ls_load(image + (r * v.x.w + q) * v.x.c) : 0;
            if (++y_column == v.y.w) {
                y_column = 0;
                if (++y_row == v.y.h) {
                    y_row = 0;
                    image += (size_t)v.x.h * v.x.w * v.x.c;
                }
            }
        }
        for (int k = 0; k < AT_ONCE; k++)
            if (inside[k])
                sum = fmaf(a[k], b[k], sum);
    }
    sums[blockIdx.y * weights + weight_at(v, o, c, tap / kernel, tap % kernel)] = sum;
}

/* The same for a kernel of few taps: a block has one chunk and one input channel, and reads each row of dy once. A thread has V output
 * channels of every `lines`-th row, with all their taps. */
template <typename T, int V, int K>
__global__ void weight_rows(float *sums, const T *x, const T *dy, const __grid_constant__ ls_cuda_conv v, int lines)
{
    __shared__ float of[LS_CUDA_THREADS * V]; /* [line][o] */
    const int groups = v.y.c / V, line = threadIdx.x / groups, o = threadIdx.x % groups * V, c = blockIdx.x;
    const size_t rows = ls_cuda_rows(v.y), chunk = (rows + gridDim.y - 1) / gridDim.y;
    const size_t begin = blockIdx.y * chunk, end = begin + chunk < rows ? begin + chunk : rows;
    float sum[K * K][V] = {{0}};
    for (size_t row = begin + line; row < end && line < lines; row += lines) {
        unsigned y_column, y_row;
        const size_t image = ls_divide(ls_divide(row, v.y.w, &y_column), v.y.h, &y_row);
        const T *from = x + image * v.x.h * v.x.w * v.x.c + c;
        const int top = (int)y_row * v.window.stride - v.window.padding;
        const int left = (int)y_column * v.window.stride - v.window.padding;
        const ls_some<T, V> slope = *(const ls_some<T, V> *)(dy + row * v.y.c + o);
#pragma unroll
        for (int tap = 0; tap < K * K; tap++) {
            const int r = top + tap / K, q = left + tap % K;
            if (r < 0 || r >= v.x.h || q < 0 || q >= v.x.w)
                continue;
            const float in = ls_load(from + (r * v.x.w + q) * v.x.c);
            for (int k = 0; k < V; k++)
                sum[tap][k] = fmaf(ls_load(&slope.at[k]), in, sum[tap][k]);
        }
    }
#pragma unroll
    for (int tap = 0; tap < K * K; tap++) {
        __syncthreads();
        for (int k = 0; k < V && line < lines; k++)
            of[line * v.y.c + o + k] = sum[tap][k];
        __syncthreads();
        for (int out = threadIdx.x; out < v.y.c; out += blockDim.x) {
            float total = 0;
            for (int k = 0; k < lines; k++)
                total += of[k * v.y.c + out];
            sums[blockIdx.y * (size_t)gridDim.x * v.y.c * (K * K) + weight_at(v, out, c, tap / K, tap % K)] = total;
        }
    }
}

__global__ void add_chunks(float *dw, const float *sums, size_t weights, int chunks)
{
    const size_t i = (size_t)blockIdx.x * LS_CUDA_COLUMN + threadIdx.x;
    const float sum = ls_sum_of(i < weights ? chunks : 0, [=](int k) { return sums[k * weights + i]; });
    if (threadIdx.y == 0 && i < weights)
        dw[i] = sum;
}

size_t weights_of(const ls_cuda_conv *v)
{
    return (size_t)v->y.c * v->x.c * v->window.kernel * v->window.kernel;
}

template <typename T, int V>
void launch_some(cudaStream_t stream, void *y, const void *x, const float *w, const ls_cuda_conv *v)
{
    const unsigned blocks = ls_cuda_few_blocks(ls_cuda_numbers(v->y) / V);
    if (v->window.kernel == 3)
        forward<T, V, 3><<<blocks, LS_CUDA_THREADS, 0, stream>>>((T *)y, (const T *)x, w, *v);
    else
        forward<T, V, 0><<<blocks, LS_CUDA_THREADS, 0, stream>>>((T *)y, (const T *)x, w, *v);
}

template <typename T>
void launch_forward(cudaStream_t stream, void *y, const void *x, const float *w, const ls_cuda_conv *v)
{
    const int channels = weights_of(v) <= LS_CUDA_TILE ? v->y.c : 1; /* many weights: one by one */
    LS_BY_VECTOR(T, channels, launch_some, stream, y, x, w, v);
}

template <typename T>
void launch_data(cudaStream_t stream, void *dx, const void *dy, const float *w, const ls_cuda_conv *v)
{
    data<T><<<ls_cuda_blocks(ls_cuda_numbers(v->x)), LS_CUDA_THREADS, 0, stream>>>((T *)dx, (const T *)dy, w, *v);
}

/* Where a thread has the sums of all taps of its channels: no more than some 80. */
template <typename T, int V>
void launch_rows(cudaStream_t stream, float *sums, const void *x, const void *dy, const ls_cuda_conv *v, int chunks)
{
    enum { FEW = V < 2 ? V : 2 };
    const dim3 blocks(v->x.c, chunks);
    if (v->window.kernel == 3)
        weight_rows<T, V, 3><<<blocks, LS_CUDA_THREADS, 0, stream>>>(sums, (const T *)x, (const T *)dy, *v,
                                                                     LS_CUDA_THREADS / (v->y.c / V));
    else
        weight_rows<T, FEW, 5><<<blocks, LS_CUDA_THREADS, 0, stream>>>(sums, (const T *)x, (const T *)dy, *v,
                                                                       LS_CUDA_THREADS / (v->y.c / FEW));
}

template <typename T>
void launch_weight(cudaStream_t stream, float *dw, const void *x, const void *dy, const ls_cuda_conv *v, float *sums)
{
    const size_t weights = weights_of(v);
    const int chunks = ls_cuda_weight_chunks(ls_cuda_rows(v->y)), kernel = v->window.kernel;
    const unsigned blocks = (unsigned)((weights + LS_CUDA_THREADS - 1) / LS_CUDA_THREADS);
    if (v->y.c <= LS_CUDA_THREADS && (kernel == 3 || kernel == 5))
        LS_BY_VECTOR(T, v->y.c, launch_rows, stream, sums, x, dy, v, chunks);
    else
        weight_chunks<T><<<dim3(blocks, chunks), LS_CUDA_THREADS, 0, stream>>>(sums, (const T *)x, (const T *)dy, *v);
    add_chunks<<<ls_columns_of(weights), LS_FINISHING, 0, stream>>>(dw, sums, weights, chunks);
}

} // namespace

void ls_cuda_direct(cudaStream_t stream, int half, void *y, const void *x, const float *w, const ls_cuda_conv *conv)
{
    LS_BY_TYPE(half, launch_forward, stream, y, x, w, conv);
}

void ls_cuda_direct_data(cudaStream_t stream, int half, void *dx, const void *dy, const float *w,
                         const ls_cuda_conv *conv)
{
    LS_BY_TYPE(half, launch_data, stream, dx, dy, w, conv);
}

size_t ls_cuda_direct_scratch(const ls_cuda_conv *conv)
{
    return (size_t)ls_cuda_weight_chunks(ls_cuda_rows(conv->y)) * weights_of(conv) * sizeof(float);
}

void ls_cuda_direct_weight(cudaStream_t stream, int half, float *dw, const void *x, const void *dy,
                           const ls_cuda_conv *conv, float *scratch)
{
    LS_BY_TYPE(half, launch_weight, stream, dw, x, dy, conv, scratch);
}
