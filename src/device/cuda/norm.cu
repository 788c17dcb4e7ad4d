/* BatchNorm, and sums over a channel. Statistics take two passes, first the mean and then squares of what differs from it. Every
 * sum is cut into chunks by shape; within a chunk the threads that have the same channels take its rows in turn, and their sums are
 * added in order, as are those of the chunks. */
#include "device/cuda/numbers.cuh"

namespace
{

/* The terms of the two sums that a channel can have: what a thread loads of a row, V channels of it, and adds. */
template <typename T> struct plain {
    const T *x;
    const float *mean; /* NULL: not needed */
    template <int V> struct row {
        ls_some<T, V> x;
    };
    template <int V> __device__ row<V> load(size_t at) const
    {
        return {*(const ls_some<T, V> *)(x + at)};
    }
    template <int V> __device__ void add(const row<V> &in, const float *, float *a, float *) const
    {
        for (int k = 0; k < V; k++)
            a[k] += ls_load(&in.x.at[k]);
    }
};

template <typename T> struct squares : plain<T> {
    template <int V> using row = typename plain<T>::template row<V>;
    template <int V> __device__ void add(const row<V> &in, const float *mean, float *a, float *) const
    {
        for (int k = 0; k < V; k++) {
            const float d = ls_load(&in.x.at[k]) - mean[k];
            a[k] = fmaf(d, d, a[k]);
        }
    }
};

template <typename T> struct slopes {
    const T *dy, *x, *y; /* y NULL: no relu */
    const float *mean;
    template <int V> struct row {
        ls_some<T, V> dy, x, y;
    };
    template <int V> __device__ row<V> load(size_t at) const
    {
        typedef const ls_some<T, V> some;
        row<V> in = {*(some *)(dy + at), *(some *)(x + at), *(some *)(dy + at)};
        if (y)
            in.y = *(some *)(y + at);
        return in;
    }
    template <int V> __device__ void add(const row<V> &in, const float *mean, float *a, float *b) const
    {
        for (int k = 0; k < V; k++) {
            const float d = !y || ls_load(&in.y.at[k]) > 0 ? ls_load(&in.dy.at[k]) : 0;
            a[k] += d;
            b[k] = fmaf(d, ls_load(&in.x.at[k]) - mean[k], b[k]);
        }
    }
};

/* sums[2][chunks][channels]; the second half only where there are two. */
template <typename Of, int V>
__global__ void sum_chunks(Of of, float *sums, size_t rows, int channels, int lanes, size_t chunk, int two)
{
    enum { AT_ONCE = 4 /* rows, to wait less for memory */ };
    __shared__ float a_of[LS_CUDA_THREADS * V], b_of[LS_CUDA_THREADS * V];
    const unsigned lines = LS_CUDA_THREADS / lanes, line = threadIdx.x / lanes, wide = lanes * V;
    const int c = (int)(blockIdx.x * wide + threadIdx.x % lanes * V);
    const size_t begin = blockIdx.y * chunk, end = begin + chunk < rows ? begin + chunk : rows;
    float a[V] = {0}, b[V] = {0}, mean[V] = {0};
    for (int k = 0; k < V && of.mean && c < channels; k++)
        mean[k] = of.mean[c + k];
    size_t row = c < channels ? begin + line : end;
    for (; row + (AT_ONCE - 1) * lines < end; row += AT_ONCE * lines) {
        typename Of::template row<V> in[AT_ONCE];
        for (int k = 0; k < AT_ONCE; k++)
            in[k] = of.template load<V>((row + k * lines) * channels + c);
        for (int k = 0; k < AT_ONCE; k++)
            of.template add<V>(in[k], mean, a, b);
    }
    for (; row < end; row += lines)
        of.template add<V>(of.template load<V>(row * channels + c), mean, a, b);
    for (int k = 0; k < V; k++) {
        a_of[threadIdx.x * V + k] = a[k];
        b_of[threadIdx.x * V + k] = b[k];
    }
    __syncthreads();
    const int mine = (int)(blockIdx.x * wide + threadIdx.x);
    if (threadIdx.x >= wide || mine >= channels)
        return;
    float total = 0, other = 0;
    for (unsigned k = 0; k < lines; k++) {
        total += a_of[k * wide + threadIdx.x];
        other += b_of[k * wide + threadIdx.x];
    }
    sums[(size_t)blockIdx.y * channels + mine] = total;
    if (two)
        sums[(size_t)(gridDim.y + blockIdx.y) * channels + mine] = other;
}

/* The sum of a channel's chunks, for thread (x, 0) of a block of LS_CUDA_COLUMN by LS_CUDA_FINISH. */
__device__ float sum_of(const float *sums, int chunks, int channels, int c)
{
    __shared__ float of[LS_CUDA_FINISH][LS_CUDA_COLUMN];
    float total = 0;
    if (c < channels)
        for (int k = threadIdx.y; k < chunks; k += LS_CUDA_FINISH)
            total += sums[(size_t)k * channels + c];
    __syncthreads();
    of[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    total = 0;
    for (int k = 0; threadIdx.y == 0 && k < LS_CUDA_FINISH; k++)
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

/* What a thread needs of V channels; the same in all its turns where its stride is whole rows. */
template <int V> struct normal {
    float mean[V], scale[V], beta[V];
    __device__ void get(const float *saved, const float *shift, const float *gamma, const float *betas, unsigned first,
                        unsigned channels, int running, float eps)
    {
        for (int k = 0; k < V; k++) {
            const unsigned c = first + k;
            const float second = saved[channels + c], inv = running ? 1.0f / sqrtf(second + eps) : second;
            mean[k] = shift ? saved[c] - shift[c] : saved[c];
            scale[k] = gamma[c] * inv;
            beta[k] = betas[c];
        }
    }
};

/* `saved` is mean and 1/sqrt(var + eps); where `running`, mean and variance. */
template <typename T, int V>
__global__ void normalize(T *y, const T *x, const T *residual, const float *saved, const float *shift,
                          const float *gamma, const float *beta, size_t n, unsigned channels, int relu, int running,
                          float eps)
{
    const bool same = ls_threads() * V % channels == 0;
    normal<V> to;
    if (same)
        to.get(saved, shift, gamma, beta, ls_channel(ls_thread() * V, channels), channels, running, eps);
    for (size_t i = ls_thread(); i < n; i += ls_threads()) {
        ls_some<T, V> in = ((const ls_some<T, V> *)x)[i], more = in;
        if (residual)
            more = ((const ls_some<T, V> *)residual)[i];
        if (!same)
            to.get(saved, shift, gamma, beta, ls_channel(i * V, channels), channels, running, eps);
        for (int k = 0; k < V; k++) {
            float out = fmaf(ls_load(&in.at[k]) - to.mean[k], to.scale[k], to.beta[k]);
            out = residual ? out + ls_load(&more.at[k]) : out;
            ls_store(&in.at[k], relu ? ls_relu_of(out) : out);
        }
        ((ls_some<T, V> *)y)[i] = in;
    }
}

/* As `normal`. */
template <int V> struct slope_of {
    float mean[V], scale[V], k1[V], k2[V];
    __device__ void get(const float *saved, const float *gamma, const float *k12, unsigned first, unsigned channels)
    {
        for (int k = 0; k < V; k++) {
            const unsigned c = first + k;
            mean[k] = saved[c];
            scale[k] = gamma[c] * saved[channels + c];
            k1[k] = k12[c];
            k2[k] = k12[channels + c];
        }
    }
};

template <typename T, int V>
__global__ void differentiate(T *dx, T *dresidual, const T *dy, const T *x, const T *y, const float *saved,
                              const float *gamma, const float *k12, size_t n, unsigned channels)
{
    const bool same = ls_threads() * V % channels == 0;
    slope_of<V> of;
    if (same)
        of.get(saved, gamma, k12, ls_channel(ls_thread() * V, channels), channels);
    for (size_t i = ls_thread(); i < n; i += ls_threads()) {
        ls_some<T, V> d = ((const ls_some<T, V> *)dy)[i], in = ((const ls_some<T, V> *)x)[i], out = in;
        if (y)
            out = ((const ls_some<T, V> *)y)[i];
        if (!same)
            of.get(saved, gamma, k12, ls_channel(i * V, channels), channels);
        for (int k = 0; k < V; k++) {
            const float slope = !y || ls_load(&out.at[k]) > 0 ? ls_load(&d.at[k]) : 0;
            ls_store(&d.at[k], slope);
            ls_store(&in.at[k], of.scale[k] * fmaf(of.mean[k] - ls_load(&in.at[k]), of.k2[k], slope - of.k1[k]));
        }
        if (dresidual)
            ((ls_some<T, V> *)dresidual)[i] = d;
        ((ls_some<T, V> *)dx)[i] = in;
    }
}

/* No more than run at once: what a thread gets ready serves all its turns. */
unsigned blocks_of(size_t n)
{
    const unsigned blocks = ls_cuda_blocks(n);
    return blocks < LS_CUDA_FEW_BLOCKS ? blocks : LS_CUDA_FEW_BLOCKS;
}

template <int V, typename Of>
ls_cuda_sums launch_cut(cudaStream_t stream, Of of, float *sums, ls_cuda_shape shape, int two)
{
    const size_t rows = ls_cuda_rows(shape);
    ls_cuda_sums cut = ls_cuda_sums_of(rows, shape.c, V);
    sum_chunks<Of, V><<<dim3(cut.columns, cut.chunks), LS_CUDA_THREADS, 0, stream>>>(of, sums, rows, shape.c, cut.lanes,
                                                                                     cut.rows, two);
    return cut;
}

template <typename T, typename Of>
int launch_sums(cudaStream_t stream, Of of, float *sums, ls_cuda_shape shape, int two)
{
    if (ls_cuda_vector(shape.c, sizeof(T)) > 1)
        return launch_cut<16 / sizeof(T)>(stream, of, sums, shape, two).chunks;
    return launch_cut<1>(stream, of, sums, shape, two).chunks;
}

/* Blocks of the kernels that add chunks. */
unsigned columns_of(ls_cuda_shape shape)
{
    return (unsigned)(shape.c + LS_CUDA_COLUMN - 1) / LS_CUDA_COLUMN;
}

const dim3 finishing(LS_CUDA_COLUMN, LS_CUDA_FINISH);

template <typename T>
void launch_channel_sum(cudaStream_t stream, float *out, const void *x, ls_cuda_shape shape, float *sums)
{
    const int chunks = launch_sums<T>(stream, plain<T>{(const T *)x, NULL}, sums, shape, 0);
    finish_sum<<<columns_of(shape), finishing, 0, stream>>>(out, sums, chunks, shape.c, 1.0f);
}

template <typename T, int V>
void launch_normalize(cudaStream_t stream, const ls_cuda_norm *norm, const float *saved, int running)
{
    const size_t n = ls_cuda_numbers(norm->shape) / V;
    normalize<T, V><<<blocks_of(n), LS_CUDA_THREADS, 0, stream>>>(
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
    const T *x = (const T *)norm->x;
    const int chunks = launch_sums<T>(stream, plain<T>{x, NULL}, sums, shape, 0);
    finish_sum<<<columns_of(shape), finishing, 0, stream>>>(norm->saved, sums, chunks, shape.c, n);
    launch_sums<T>(stream, squares<T>{{x, norm->saved}}, sums, shape, 0);
    finish_variance<<<columns_of(shape), finishing, 0, stream>>>(norm->saved, norm->statistics, norm->shift, sums,
                                                                 chunks, shape.c, n, norm->eps);
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
    differentiate<T, V><<<blocks_of(n), LS_CUDA_THREADS, 0, stream>>>(
        (T *)norm->dx, (T *)norm->dresidual, (const T *)norm->dy, (const T *)norm->x, (const T *)norm->y, norm->saved,
        norm->gamma, k12, n, (unsigned)norm->shape.c);
}

template <typename T> void launch_backward(cudaStream_t stream, const ls_cuda_norm_slope *norm, float *sums)
{
    const ls_cuda_shape shape = norm->shape;
    slopes<T> of = {(const T *)norm->dy, (const T *)norm->x, (const T *)norm->y, norm->saved};
    float *k12 = sums;
    sums += 2 * shape.c;
    const int chunks = launch_sums<T>(stream, of, sums, shape, 1);
    finish_slopes<<<columns_of(shape), finishing, 0, stream>>>(norm->dgb, k12, sums, norm->saved, chunks, shape.c,
                                                               (float)ls_cuda_rows(shape));
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
