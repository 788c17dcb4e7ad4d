/* BatchNorm, and sums over a channel. Statistics take two passes, first the mean and then squares of what differs from it. Every
 * sum is cut into chunks by shape; within a chunk LS_CUDA_ROWS threads share a channel, and their sums are added in order, as
 * are those of the chunks. */
#include "device/cuda/numbers.cuh"

namespace
{

/* One term of the two sums that a channel can have. */
template <typename T> struct plain {
    const T *x;
    __device__ void term(size_t at, int, float &a, float &) const
    {
        a += ls_load(x + at);
    }
};

template <typename T> struct squares {
    const T *x;
    const float *mean;
    __device__ void term(size_t at, int c, float &a, float &) const
    {
        float d = ls_load(x + at) - mean[c];
        a = fmaf(d, d, a);
    }
};

template <typename T> struct slopes {
    const T *dy, *x, *y;
    const float *mean;
    __device__ void term(size_t at, int c, float &a, float &b) const
    {
        float d = !y || ls_load(y + at) > 0 ? ls_load(dy + at) : 0;
        a += d;
        b = fmaf(d, ls_load(x + at) - mean[c], b);
    }
};

/* sums[2][chunks][channels]; the second half only where there are two. */
template <typename Of> __global__ void sum_chunks(Of of, float *sums, size_t rows, int channels, size_t chunk, int two)
{
    __shared__ float a_of[LS_CUDA_ROWS][LS_CUDA_COLUMN], b_of[LS_CUDA_ROWS][LS_CUDA_COLUMN];
    const int c = blockIdx.x * LS_CUDA_COLUMN + threadIdx.x;
    const size_t begin = blockIdx.y * chunk, end = begin + chunk < rows ? begin + chunk : rows;
    float a[4] = {0, 0, 0, 0}, b[4] = {0, 0, 0, 0}; /* four sums at once, to wait less for memory */
    if (c < channels) {
        size_t row = begin + threadIdx.y;
        for (; row + 3 * LS_CUDA_ROWS < end; row += 4 * LS_CUDA_ROWS)
            for (int k = 0; k < 4; k++)
                of.term((row + k * LS_CUDA_ROWS) * channels + c, c, a[k], b[k]);
        for (; row < end; row += LS_CUDA_ROWS)
            of.term(row * channels + c, c, a[0], b[0]);
    }
    a_of[threadIdx.y][threadIdx.x] = (a[0] + a[1]) + (a[2] + a[3]);
    b_of[threadIdx.y][threadIdx.x] = (b[0] + b[1]) + (b[2] + b[3]);
    __syncthreads();
    if (threadIdx.y > 0 || c >= channels)
        return;
    float total = 0, other = 0;
    for (int k = 0; k < LS_CUDA_ROWS; k++) {
        total += a_of[k][threadIdx.x];
        other += b_of[k][threadIdx.x];
    }
    sums[(size_t)blockIdx.y * channels + c] = total;
    if (two)
        sums[(size_t)(gridDim.y + blockIdx.y) * channels + c] = other;
}

/* The sum of a channel's chunks, for thread (x, 0) of a block. */
__device__ float sum_of(const float *sums, int chunks, int channels, int c)
{
    __shared__ float of[LS_CUDA_ROWS][LS_CUDA_COLUMN];
    float total = 0;
    if (c < channels)
        for (int k = threadIdx.y; k < chunks; k += LS_CUDA_ROWS)
            total += sums[(size_t)k * channels + c];
    __syncthreads();
    of[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    total = 0;
    for (int k = 0; threadIdx.y == 0 && k < LS_CUDA_ROWS; k++)
        total += of[k][threadIdx.x];
    return total;
}

__global__ void finish_sum(float *out, const float *sums, int chunks, int channels, float divisor)
{
    const int c = blockIdx.x * LS_CUDA_COLUMN + threadIdx.x;
    float total = sum_of(sums, chunks, channels, c);
    if (threadIdx.y == 0 && c < channels)
        out[c] = total / divisor;
}

__global__ void finish_variance(float *saved, float *statistics, const float *shift, const float *sums, int chunks,
                                int channels, float n, float eps)
{
    const int c = blockIdx.x * LS_CUDA_COLUMN + threadIdx.x;
    float squares = sum_of(sums, chunks, channels, c);
    if (threadIdx.y > 0 || c >= channels)
        return;
    saved[channels + c] = 1.0f / sqrtf(squares / n + eps);
    statistics[c] = shift ? saved[c] + shift[c] : saved[c];
    statistics[channels + c] = squares / (n - 1.0f);
}

/* dgamma and dbeta, and behind them what dx takes: k1 and k2. */
__global__ void finish_slopes(float *dgb, float *k, const float *sums, const float *saved, int chunks, int channels,
                              float n)
{
    const int c = blockIdx.x * LS_CUDA_COLUMN + threadIdx.x;
    float dbeta = sum_of(sums, chunks, channels, c);
    float s = sum_of(sums + (size_t)chunks * channels, chunks, channels, c);
    if (threadIdx.y > 0 || c >= channels)
        return;
    const float inv = saved[channels + c], dgamma = s * inv;
    dgb[c] = dgamma;
    dgb[channels + c] = dbeta;
    k[c] = dbeta / n;
    k[channels + c] = inv * (dgamma / n);
}

/* `saved` is mean and 1/sqrt(var + eps); where `running`, mean and variance. */
template <typename T, int V>
__global__ void normalize(T *y, const T *x, const T *residual, const float *saved, const float *shift,
                          const float *gamma, const float *beta, size_t n, unsigned channels, int relu, int running,
                          float eps)
{
    for (size_t i = ls_thread(); i < n; i += ls_threads()) {
        ls_some<T, V> in = ((const ls_some<T, V> *)x)[i], more = in;
        if (residual)
            more = ((const ls_some<T, V> *)residual)[i];
        const unsigned first = ls_channel(i * V, channels);
        for (int k = 0; k < V; k++) {
            const unsigned c = first + k;
            const float second = saved[channels + c], inv = running ? 1.0f / sqrtf(second + eps) : second;
            const float mean = shift ? saved[c] - shift[c] : saved[c];
            float out = fmaf(ls_load(&in.at[k]) - mean, gamma[c] * inv, beta[c]);
            out = residual ? out + ls_load(&more.at[k]) : out;
            ls_store(&in.at[k], relu ? ls_relu_of(out) : out);
        }
        ((ls_some<T, V> *)y)[i] = in;
    }
}

template <typename T, int V>
__global__ void differentiate(T *dx, T *dresidual, const T *dy, const T *x, const T *y, const float *saved,
                              const float *gamma, const float *k12, size_t n, unsigned channels)
{
    for (size_t i = ls_thread(); i < n; i += ls_threads()) {
        ls_some<T, V> d = ((const ls_some<T, V> *)dy)[i], in = ((const ls_some<T, V> *)x)[i], out = in;
        if (y)
            out = ((const ls_some<T, V> *)y)[i];
        const unsigned first = ls_channel(i * V, channels);
        for (int k = 0; k < V; k++) {
            const unsigned c = first + k;
            const float slope = !y || ls_load(&out.at[k]) > 0 ? ls_load(&d.at[k]) : 0;
            const float scale = gamma[c] * saved[channels + c];
            ls_store(&d.at[k], slope);
            ls_store(&in.at[k], scale * fmaf(saved[c] - ls_load(&in.at[k]), k12[channels + c], slope - k12[c]));
        }
        if (dresidual)
            ((ls_some<T, V> *)dresidual)[i] = d;
        ((ls_some<T, V> *)dx)[i] = in;
    }
}

template <typename Of> ls_cuda_sums launch_sums(cudaStream_t stream, Of of, float *sums, ls_cuda_shape shape, int two)
{
    const size_t rows = ls_cuda_rows(shape);
    ls_cuda_sums cut = ls_cuda_sums_of(rows, shape.c);
    sum_chunks<Of><<<dim3(cut.columns, cut.chunks), dim3(LS_CUDA_COLUMN, LS_CUDA_ROWS), 0, stream>>>(
        of, sums, rows, shape.c, cut.rows, two);
    return cut;
}

template <typename T>
void launch_channel_sum(cudaStream_t stream, float *out, const void *x, ls_cuda_shape shape, float *sums)
{
    ls_cuda_sums cut = launch_sums(stream, plain<T>{(const T *)x}, sums, shape, 0);
    finish_sum<<<cut.columns, dim3(LS_CUDA_COLUMN, LS_CUDA_ROWS), 0, stream>>>(out, sums, cut.chunks, shape.c, 1.0f);
}

template <typename T, int V>
void launch_normalize(cudaStream_t stream, const ls_cuda_norm *norm, const float *saved, int running)
{
    const size_t n = ls_cuda_numbers(norm->shape) / V;
    normalize<T, V><<<ls_cuda_blocks(n), LS_CUDA_THREADS, 0, stream>>>(
        (T *)norm->y, (const T *)norm->x, (const T *)norm->residual, saved, running ? norm->shift : NULL, norm->gamma,
        norm->beta, n, (unsigned)norm->shape.c, norm->relu, running, norm->eps);
}

template <typename T> void launch_apply(cudaStream_t stream, const ls_cuda_norm *norm, const float *saved, int running)
{
    if (ls_cuda_vector(norm->shape.c, sizeof(T)) > 1)
        launch_normalize<T, 16 / sizeof(T)>(stream, norm, saved, running);
    else
        launch_normalize<T, 1>(stream, norm, saved, running);
}

template <typename T> void launch_train(cudaStream_t stream, const ls_cuda_norm *norm, float *sums)
{
    const ls_cuda_shape shape = norm->shape;
    const float n = (float)ls_cuda_rows(shape);
    const dim3 column(LS_CUDA_COLUMN, LS_CUDA_ROWS);
    const T *x = (const T *)norm->x;
    ls_cuda_sums cut = launch_sums(stream, plain<T>{x}, sums, shape, 0);
    finish_sum<<<cut.columns, column, 0, stream>>>(norm->saved, sums, cut.chunks, shape.c, n);
    launch_sums(stream, squares<T>{x, norm->saved}, sums, shape, 0);
    finish_variance<<<cut.columns, column, 0, stream>>>(norm->saved, norm->statistics, norm->shift, sums, cut.chunks,
                                                        shape.c, n, norm->eps);
    launch_apply<T>(stream, norm, norm->saved, 0);
}

template <typename T> void launch_infer(cudaStream_t stream, const ls_cuda_norm *norm)
{
    launch_apply<T>(stream, norm, norm->running, 1);
}

template <typename T, int V>
void launch_differentiate(cudaStream_t stream, const ls_cuda_norm_slope *norm, const float *k12)
{
    const size_t n = ls_cuda_numbers(norm->shape) / V;
    differentiate<T, V><<<ls_cuda_blocks(n), LS_CUDA_THREADS, 0, stream>>>(
        (T *)norm->dx, (T *)norm->dresidual, (const T *)norm->dy, (const T *)norm->x, (const T *)norm->y, norm->saved,
        norm->gamma, k12, n, (unsigned)norm->shape.c);
}

template <typename T> void launch_backward(cudaStream_t stream, const ls_cuda_norm_slope *norm, float *sums)
{
    const ls_cuda_shape shape = norm->shape;
    slopes<T> of = {(const T *)norm->dy, (const T *)norm->x, (const T *)norm->y, norm->saved};
    float *k12 = sums;
    sums += 2 * shape.c;
    ls_cuda_sums cut = launch_sums(stream, of, sums, shape, 1);
    finish_slopes<<<cut.columns, dim3(LS_CUDA_COLUMN, LS_CUDA_ROWS), 0, stream>>>(
        norm->dgb, k12, sums, norm->saved, cut.chunks, shape.c, (float)ls_cuda_rows(shape));
    if (ls_cuda_vector(shape.c, sizeof(T)) > 1)
        launch_differentiate<T, 16 / sizeof(T)>(stream, norm, k12);
    else
        launch_differentiate<T, 1>(stream, norm, k12);
}

} // namespace

size_t ls_cuda_norm_scratch(ls_cuda_shape shape)
{
    return 2 * (1 + ls_cuda_chunks_of(ls_cuda_rows(shape))) * (size_t)shape.c * sizeof(float);
}

void ls_cuda_channel_sum(cudaStream_t stream, int half, float *out, const void *x, ls_cuda_shape shape, float *scratch)
{
    LS_BY_TYPE(half, launch_channel_sum, stream, out, x, shape, scratch);
}

void ls_cuda_norm_train(cudaStream_t stream, int half, const ls_cuda_norm *norm, float *scratch)
{
    LS_BY_TYPE(half, launch_train, stream, norm, scratch);
}

void ls_cuda_norm_infer(cudaStream_t stream, int half, const ls_cuda_norm *norm)
{
    LS_BY_TYPE(half, launch_infer, stream, norm);
}

void ls_cuda_norm_backward(cudaStream_t stream, int half, const ls_cuda_norm_slope *norm, float *scratch)
{
    LS_BY_TYPE(half, launch_backward, stream, norm, scratch);
}
