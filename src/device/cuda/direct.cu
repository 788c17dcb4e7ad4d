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

/* LS_CUDA_COLUMN threads have neighbouring output channels of one place, and read the same x. */
template <typename T> __global__ void forward(T *y, const T *x, const float *w, const __grid_constant__ ls_cuda_conv v)
{
    __shared__ float near[LS_CUDA_TILE]; /* the weights where they are few: [c][tap][o], as threads want them */
    const int kernel = v.window.kernel, taps = kernel * kernel;
    const size_t places = (size_t)v.y.h * v.y.w, rows = ls_cuda_rows(v.y), weights = (size_t)taps * v.x.c * v.y.c;
    const bool few = weights <= LS_CUDA_TILE;
    for (int i = threadIdx.y * blockDim.x + threadIdx.x; few && i < (int)weights; i += blockDim.x * blockDim.y) {
        const int tap = i / v.y.c % taps;
        near[i] = w[weight_at(v, i % v.y.c, i / v.y.c / taps, tap / kernel, tap % kernel)];
    }
    __syncthreads();
    for (size_t row = (size_t)blockIdx.x * blockDim.y + threadIdx.y; row < rows;
         row += (size_t)gridDim.x * blockDim.y) {
        const unsigned place = (unsigned)(row % places);
        const int top = (int)(place / v.y.w) * v.window.stride - v.window.padding;
        const int left = (int)(place % v.y.w) * v.window.stride - v.window.padding;
        const T *from = x + row / places * v.x.h * v.x.w * v.x.c;
        for (int o = threadIdx.x; o < v.y.c; o += blockDim.x) {
            float sum = 0;
            for (int c = 0; c < v.x.c; c++)
                for (int ky = 0; ky < kernel; ky++)
                    for (int kx = 0; kx < kernel; kx++) {
                        const int r = top + ky, q = left + kx;
                        if (r >= 0 && r < v.x.h && q >= 0 && q < v.x.w)
                            sum = fmaf(few ? near[(c * taps + ky * kernel + kx) * v.y.c + o]
                                           : w[weight_at(v, o, c, ky, kx)],
                                       ls_load(from + ((size_t)r * v.x.w + q) * v.x.c + c), sum);
                    }
            ls_store(y + row * v.y.c + o, sum);
        }
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

__global__ void add_chunks(float *dw, const float *sums, size_t weights, int chunks)
{
    for (size_t i = ls_thread(); i < weights; i += ls_threads()) {
        float sum = 0;
        for (int k = 0; k < chunks; k++)
            sum += sums[k * weights + i];
        dw[i] = sum;
    }
}

template <typename T>
void launch_forward(cudaStream_t stream, void *y, const void *x, const float *w, const ls_cuda_conv *v)
{
    const dim3 threads(LS_CUDA_COLUMN, LS_CUDA_ROWS);
    forward<T>
        <<<ls_cuda_blocks(ls_cuda_rows(v->y) * LS_CUDA_COLUMN), threads, 0, stream>>>((T *)y, (const T *)x, w, *v);
}

template <typename T>
void launch_data(cudaStream_t stream, void *dx, const void *dy, const float *w, const ls_cuda_conv *v)
{
    data<T><<<ls_cuda_blocks(ls_cuda_numbers(v->x)), LS_CUDA_THREADS, 0, stream>>>((T *)dx, (const T *)dy, w, *v);
}

size_t weights_of(const ls_cuda_conv *v)
{
    return (size_t)v->y.c * v->x.c * v->window.kernel * v->window.kernel;
}

template <typename T>
void launch_weight(cudaStream_t stream, float *dw, const void *x, const void *dy, const ls_cuda_conv *v, float *sums)
{
    const size_t weights = weights_of(v);
    const int chunks = ls_cuda_weight_chunks(ls_cuda_rows(v->y));
    const unsigned blocks = (unsigned)((weights + LS_CUDA_THREADS - 1) / LS_CUDA_THREADS);
    weight_chunks<T><<<dim3(blocks, chunks), LS_CUDA_THREADS, 0, stream>>>(sums, (const T *)x, (const T *)dy, *v);
    add_chunks<<<ls_cuda_blocks(weights), LS_CUDA_THREADS, 0, stream>>>(dw, sums, weights, chunks);
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
