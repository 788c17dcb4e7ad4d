/* BatchNorm, and sums over a channel. Every sum is cut into chunks by shape; within a chunk the threads that have the
 * same channels take its rows in turn, and their sums are added in order, as are those of the chunks. Statistics take
 * one pass: a thread sums what its numbers differ from its first one by, and the squares of that, which makes its mean
 * and the squares of what differs from that; those of a chunk's threads, and of all chunks, are put together by T. F.
 * Chan, G. H. Golub and R. J. LeVeque, "Algorithms for computing the sample variance" (1983). */
#include "device/cuda/kernels/numbers.cuh"

namespace
{

/* The terms of the two sums that a channel can have: what a thread gets ready of V channels, CONSTANTS numbers of each,
 * what it loads of a row, and what it adds. */
template <typename T> struct plain {
    enum { AT_ONCE = 4 /* rows, to wait less for memory */, CONSTANTS = 0, BLOCKS = 4 /* at least, at once */ };
    const T *x;
    template <int V> struct row {
        ls_some<T, V> x;
    };
    template <int V> __device__ void get(float *, int, int) const
    {
    }
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

template <typename T> struct moments : plain<T> {
    enum { CONSTANTS = 1 };
    template <int V> using row = typename plain<T>::template row<V>;
    template <int V> __device__ void add(const row<V> &in, const float *first, float *a, float *b) const
    {
        for (int k = 0; k < V; k++) {
            const float d = ls_load(&in.x.at[k]) - first[k];
            a[k] += d;
            b[k] = fmaf(d, d, b[k]);
        }
    }
};

/* Of a gradient that a relu behind the BatchNorm lets pass where its output y is above 0; y NULL: there was none. */
template <typename T> struct slopes {
    enum { AT_ONCE = 2, CONSTANTS = 1, BLOCKS = 2 };
    const T *dy, *x, *y;
    const float *saved;
    template <int V> struct row {
        ls_some<T, V> dy, x, y;
    };
    template <int V> __device__ void get(float *mean, int c, int) const
    {
        for (int k = 0; k < V; k++)
            mean[k] = saved[c + k];
    }
    template <int V> __device__ row<V> load(size_t at) const
    {
        typedef const ls_some<T, V> some;
        row<V> in = {*(some *)(dy + at), *(some *)(x + at)};
        in.y = y ? *(some *)(y + at) : in.dy;
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

/* The same, with y computed from x once more, which takes less time than to read it. */
template <typename T> struct slopes_by_x {
    enum { AT_ONCE = 2, CONSTANTS = 3, BLOCKS = 4 };
    const T *dy, *x;
    const float *saved, *gamma, *beta;
    template <int V> struct row {
        ls_some<T, V> dy, x;
    };
    template <int V> __device__ void get(float *of, int c, int channels) const
    {
        for (int k = 0; k < V; k++) {
            of[k] = saved[c + k];
            of[V + k] = gamma[c + k] * saved[channels + c + k];
            of[2 * V + k] = beta[c + k];
        }
    }
    template <int V> __device__ row<V> load(size_t at) const
    {
        return {*(const ls_some<T, V> *)(dy + at), *(const ls_some<T, V> *)(x + at)};
    }
    template <int V> __device__ void add(const row<V> &in, const float *of, float *a, float *b) const
    {
        for (int k = 0; k < V; k++) {
            const float x_of = ls_load(&in.x.at[k]) - of[k];
            const float d = fmaf(x_of, of[V + k], of[2 * V + k]) > 0 ? ls_load(&in.dy.at[k]) : 0;
            a[k] += d;
            b[k] = fmaf(d, x_of, b[k]);
        }
    }
};

/* What a thread has of a chunk: V channels from c on, of rows from `row` on, every `lines`-th. */
struct part {
    unsigned lines, line, wide; /* threads that have the same channels, which of them, channels of the block */
    int c;
    size_t row, end;
    __device__ part(size_t rows, int channels, int lanes, size_t chunk, int vector)
        : lines(LS_CUDA_THREADS / lanes), line(threadIdx.x / lanes), wide(lanes * vector)
    {
        const size_t begin = blockIdx.y * chunk;
        c = (int)(blockIdx.x * wide + threadIdx.x % lanes * vector);
        end = begin + chunk < rows ? begin + chunk : rows;
        row = c < channels && line < lines ? begin + line : end;
    }
};

template <int V, typename Of>
__device__ void add_rows(const Of &of, part p, int channels, const float *ready, float *a, float *b)
{
    enum { AT_ONCE = Of::AT_ONCE };
    size_t row = p.row;
    for (; row + (AT_ONCE - 1) * p.lines < p.end; row += AT_ONCE * p.lines) {
        typename Of::template row<V> in[AT_ONCE];
        for (int k = 0; k < AT_ONCE; k++)
            in[k] = of.template load<V>((row + k * p.lines) * channels + p.c);
        for (int k = 0; k < AT_ONCE; k++)
            of.template add<V>(in[k], ready, a, b);
    }
    for (; row < p.end; row += p.lines)
        of.template add<V>(of.template load<V>(row * channels + p.c), ready, a, b);
}

/* sums[2][chunks][channels]; the second half only where there are two. */
template <typename Of, int V>
__launch_bounds__(LS_CUDA_THREADS, Of::BLOCKS) __global__
    void sum_chunks(Of of, float *sums, size_t rows, int channels, int lanes, size_t chunk, int two)
{
    __shared__ float a_of[LS_CUDA_THREADS * V], b_of[LS_CUDA_THREADS * V];
    const part p(rows, channels, lanes, chunk, V);
    float a[V] = {0}, b[V] = {0}, ready[(Of::CONSTANTS + 1) * V] = {0};
    if (p.c < channels)
        of.template get<V>(ready, p.c, channels);
    add_rows<V>(of, p, channels, ready, a, b);
    for (int k = 0; k < V; k++) {
        a_of[threadIdx.x * V + k] = a[k];
        b_of[threadIdx.x * V + k] = b[k];
    }
    __syncthreads();
    const int mine = (int)(blockIdx.x * p.wide + threadIdx.x);
    if (threadIdx.x >= p.wide || mine >= channels)
        return;
    float total = 0, other = 0;
    for (unsigned k = 0; k < p.lines; k++) {
        total += a_of[k * p.wide + threadIdx.x];
        other += b_of[k * p.wide + threadIdx.x];
    }
    sums[(size_t)blockIdx.y * channels + mine] = total;
    if (two)
        sums[(size_t)(gridDim.y + blockIdx.y) * channels + mine] = other;
}

/* A chunk's mean, and the sum of the squares of what its numbers differ from that by: sums[2][chunks][channels]. */
template <typename T, int V>
__global__ void moment_chunks(moments<T> of, float *sums, size_t rows, int channels, int lanes, size_t chunk)
{
    __shared__ float a_of[LS_CUDA_THREADS * V], b_of[LS_CUDA_THREADS * V];
    const part p(rows, channels, lanes, chunk, V);
    float a[V] = {0}, b[V] = {0}, first[V] = {0};
    const size_t begin = blockIdx.y * chunk;
    const float n = p.row < p.end ? (float)((p.end - p.row + p.lines - 1) / p.lines) : 0;
    if (n > 0) {
        const auto in = of.template load<V>(p.row * channels + p.c);
        for (int k = 0; k < V; k++)
            first[k] = ls_load(&in.x.at[k]);
    }
    add_rows<V>(of, p, channels, first, a, b);
    for (int k = 0; k < V; k++) {
        a_of[threadIdx.x * V + k] = n > 0 ? first[k] + a[k] / n : 0;
        b_of[threadIdx.x * V + k] = n > 0 ? fmaf(-a[k], a[k] / n, b[k]) : 0;
    }
    __syncthreads();
    const int mine = (int)(blockIdx.x * p.wide + threadIdx.x);
    if (threadIdx.x >= p.wide || mine >= channels)
        return;
    const unsigned all = (unsigned)(p.end - begin), each = all / p.lines, more = all % p.lines;
    float total = 0, squares = 0;
    for (unsigned k = 0; k < p.lines; k++)
        total += (float)(each + (k < more)) * a_of[k * p.wide + threadIdx.x];
    const float mean = total / (float)all;
    for (unsigned k = 0; k < p.lines; k++) {
        const float d = a_of[k * p.wide + threadIdx.x] - mean;
        squares += fmaf((float)(each + (k < more)) * d, d, b_of[k * p.wide + threadIdx.x]);
    }
    sums[(size_t)blockIdx.y * channels + mine] = mean;
    sums[(size_t)(gridDim.y + blockIdx.y) * channels + mine] = squares;
}

__global__ void finish_sum(float *out, const float *sums, int chunks, int channels)
{
    const int c = blockIdx.x * LS_CUDA_COLUMN + threadIdx.x;
    const float total = ls_sum_of(c < channels ? chunks : 0, [=](int k) { return sums[(size_t)k * channels + c]; });
    if (threadIdx.y == 0 && c < channels)
        out[c] = total;
}

__global__ void finish_moments(float *saved, float *statistics, const float *shift, const float *sums, int chunks,
                               int channels, size_t rows, size_t chunk, float eps)
{
    __shared__ float means[LS_CUDA_COLUMN];
    const int c = blockIdx.x * LS_CUDA_COLUMN + threadIdx.x, mine = c < channels ? chunks : 0;
    const float n = (float)rows, each = (float)chunk, last = (float)(rows - (size_t)(chunks - 1) * chunk);
    const float *of = sums + c, *squares_of = of + (size_t)chunks * channels;
    const float total =
        ls_sum_of(mine, [=](int k) { return (k < chunks - 1 ? each : last) * of[(size_t)k * channels]; });
    if (threadIdx.y == 0)
        means[threadIdx.x] = total / n;
    __syncthreads();
    const float mean = means[threadIdx.x];
    const float squares = ls_sum_of(mine, [=](int k) {
        const float d = of[(size_t)k * channels] - mean;
        return fmaf((k < chunks - 1 ? each : last) * d, d, squares_of[(size_t)k * channels]);
    });
    if (threadIdx.y > 0 || c >= channels)
        return;
    saved[c] = mean;
    saved[channels + c] = 1.0f / sqrtf(squares / n + eps);
    statistics[c] = shift ? mean + shift[c] : mean;
    statistics[channels + c] = squares / (n - 1.0f);
}

/* dgamma and dbeta, and behind them what dx takes: k1 and k2. */
__global__ void finish_slopes(float *dgb, float *k, const float *sums, const float *saved, int chunks, int channels,
                              float n)
{
    const int c = blockIdx.x * LS_CUDA_COLUMN + threadIdx.x, mine = c < channels ? chunks : 0;
    const float *of = sums + c, *other = of + (size_t)chunks * channels;
    const float dbeta = ls_sum_of(mine, [=](int i) { return of[(size_t)i * channels]; });
    const float s = ls_sum_of(mine, [=](int i) { return other[(size_t)i * channels]; });
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
    enum { AT_ONCE = 2 };
    const bool same = ls_threads() * V % channels == 0;
    normal<V> to;
    if (same)
        to.get(saved, shift, gamma, beta, ls_channel(ls_thread() * V, channels), channels, running, eps);
    for (size_t first = ls_thread(); first < n; first += AT_ONCE * ls_threads()) {
        ls_some<T, V> in[AT_ONCE], more[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const size_t i = first + j * ls_threads();
            if (i < n)
                in[j] = ((const ls_some<T, V> *)x)[i];
            if (i < n && residual)
                more[j] = ((const ls_some<T, V> *)residual)[i];
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const size_t i = first + j * ls_threads();
            if (i >= n)
                return;
            if (!same)
                to.get(saved, shift, gamma, beta, ls_channel(i * V, channels), channels, running, eps);
            for (int k = 0; k < V; k++) {
                float out = fmaf(ls_load(&in[j].at[k]) - to.mean[k], to.scale[k], to.beta[k]);
                out = residual ? out + ls_load(&more[j].at[k]) : out;
                ls_store(&in[j].at[k], relu ? ls_relu_of(out) : out);
            }
            ((ls_some<T, V> *)y)[i] = in[j];
        }
    }
}

/* As `normal`. */
template <int V> struct slope_of {
    float mean[V], scale[V], beta[V], k1[V], k2[V];
    __device__ void get(const float *saved, const float *gamma, const float *betas, const float *k12, unsigned first,
                        unsigned channels)
    {
        for (int k = 0; k < V; k++) {
            const unsigned c = first + k;
            mean[k] = saved[c];
            scale[k] = gamma[c] * saved[channels + c];
            beta[k] = betas ? betas[c] : 0;
            k1[k] = k12[c];
            k2[k] = k12[channels + c];
        }
    }
};

/* BY_X: see slopes_by_x. */
template <typename T, int V, bool BY_X>
__global__ void differentiate(T *dx, T *dresidual, const T *dy, const T *x, const T *y, const float *saved,
                              const float *gamma, const float *beta, const float *k12, size_t n, unsigned channels)
{
    const bool same = ls_threads() * V % channels == 0;
    slope_of<V> of;
    if (same)
        of.get(saved, gamma, beta, k12, ls_channel(ls_thread() * V, channels), channels);
    for (size_t i = ls_thread(); i < n; i += ls_threads()) {
        ls_some<T, V> d = ((const ls_some<T, V> *)dy)[i], in = ((const ls_some<T, V> *)x)[i];
        const ls_some<T, V> out = y && !BY_X ? ((const ls_some<T, V> *)y)[i] : in;
        if (!same)
            of.get(saved, gamma, beta, k12, ls_channel(i * V, channels), channels);
        for (int k = 0; k < V; k++) {
            const float x_of = ls_load(&in.at[k]) - of.mean[k];
            const bool passes = BY_X ? fmaf(x_of, of.scale[k], of.beta[k]) > 0 : !y || ls_load(&out.at[k]) > 0;
            const float slope = passes ? ls_load(&d.at[k]) : 0;
            ls_store(&d.at[k], slope);
            ls_store(&in.at[k], of.scale[k] * fmaf(-x_of, of.k2[k], slope - of.k1[k]));
        }
        if (dresidual)
            ((ls_some<T, V> *)dresidual)[i] = d;
        ((ls_some<T, V> *)dx)[i] = in;
    }
}

template <typename Of, int V> int launch_sums(cudaStream_t stream, Of of, float *sums, ls_cuda_shape shape, int two)
{
    const size_t rows = ls_cuda_rows(shape);
    const ls_cuda_sums cut = ls_cuda_sums_of(rows, shape.c, V);
    sum_chunks<Of, V><<<dim3(cut.columns, cut.chunks), LS_CUDA_THREADS, 0, stream>>>(of, sums, rows, shape.c, cut.lanes,
                                                                                     cut.rows, two);
    return cut.chunks;
}

template <typename T, int V>
void launch_sum(cudaStream_t stream, float *out, const void *x, ls_cuda_shape shape, float *sums)
{
    const int chunks = launch_sums<plain<T>, V>(stream, {(const T *)x}, sums, shape, 0);
    finish_sum<<<ls_columns_of(shape.c), LS_FINISHING, 0, stream>>>(out, sums, chunks, shape.c);
}

template <typename T, int V>
void launch_normalize(cudaStream_t stream, const ls_cuda_norm *norm, const float *saved, int running)
{
    const size_t n = ls_cuda_numbers(norm->shape) / V;
    normalize<T, V><<<ls_cuda_few_blocks(n), LS_CUDA_THREADS, 0, stream>>>(
        (T *)norm->y, (const T *)norm->x, (const T *)norm->residual, saved, running ? norm->shift : NULL, norm->gamma,
        norm->beta, n, (unsigned)norm->shape.c, norm->relu, running, norm->eps);
}

template <typename T, int V> void launch_moments(cudaStream_t stream, const ls_cuda_norm *norm, float *sums)
{
    const int channels = norm->shape.c;
    const size_t rows = ls_cuda_rows(norm->shape);
    const ls_cuda_sums cut = ls_cuda_sums_of(rows, channels, V);
    moment_chunks<T, V><<<dim3(cut.columns, cut.chunks), LS_CUDA_THREADS, 0, stream>>>(
        moments<T>{{(const T *)norm->x}}, sums, rows, channels, cut.lanes, cut.rows);
    finish_moments<<<ls_columns_of(channels), LS_FINISHING, 0, stream>>>(
        norm->saved, norm->statistics, norm->shift, sums, cut.chunks, channels, rows, cut.rows, norm->eps);
}

template <typename T, int V, bool BY_X>
void launch_slopes(cudaStream_t stream, const ls_cuda_norm_slope *norm, float *k12, const float *sums, int chunks)
{
    const int channels = norm->shape.c;
    const size_t n = ls_cuda_numbers(norm->shape) / V;
    finish_slopes<<<ls_columns_of(channels), LS_FINISHING, 0, stream>>>(norm->dgb, k12, sums, norm->saved, chunks,
                                                                        channels, (float)ls_cuda_rows(norm->shape));
    differentiate<T, V, BY_X><<<ls_cuda_few_blocks(n), LS_CUDA_THREADS, 0, stream>>>(
        (T *)norm->dx, (T *)norm->dresidual, (const T *)norm->dy, (const T *)norm->x, (const T *)norm->y, norm->saved,
        norm->gamma, norm->beta, k12, n, (unsigned)channels);
}

template <typename T, int V> void launch_backward(cudaStream_t stream, const ls_cuda_norm_slope *norm, float *scratch)
{
    const ls_cuda_shape shape = norm->shape;
    const T *dy = (const T *)norm->dy, *x = (const T *)norm->x, *y = (const T *)norm->y;
    float *k12 = scratch, *sums = scratch + 2 * shape.c;
    if (norm->beta) {
        const slopes_by_x<T> of = {dy, x, norm->saved, norm->gamma, norm->beta};
        launch_slopes<T, V, true>(stream, norm, k12, sums, launch_sums<slopes_by_x<T>, V>(stream, of, sums, shape, 1));
    } else {
        const slopes<T> of = {dy, x, y, norm->saved};
        launch_slopes<T, V, false>(stream, norm, k12, sums, launch_sums<slopes<T>, V>(stream, of, sums, shape, 1));
    }
}

} // namespace

size_t ls_cuda_norm_scratch(ls_cuda_shape shape)
{
    return 2 * (1 + ls_cuda_chunks_of(ls_cuda_rows(shape))) * (size_t)shape.c * sizeof(float);
}

void ls_cuda_channel_sum(cudaStream_t stream, int half, float *out, const void *x, ls_cuda_shape shape, float *scratch)
{
    LS_BY_TYPE(half, LS_BY_VECTOR(T, shape.c, launch_sum<T, V>(stream, out, x, shape, scratch)));
}

void ls_cuda_norm_train(cudaStream_t stream, int half, const ls_cuda_norm *norm, float *scratch)
{
    LS_BY_TYPE(half, LS_BY_VECTOR(T, norm->shape.c, launch_moments<T, V>(stream, norm, scratch);
                                  launch_normalize<T, V>(stream, norm, norm->saved, 0)));
}

void ls_cuda_norm_infer(cudaStream_t stream, int half, const ls_cuda_norm *norm)
{
    LS_BY_TYPE(half, LS_BY_VECTOR(T, norm->shape.c, launch_normalize<T, V>(stream, norm, norm->running, 1)));
}

void ls_cuda_norm_backward(cudaStream_t stream, int half, const ls_cuda_norm_slope *norm, float *scratch)
{
    LS_BY_TYPE(half, LS_BY_VECTOR(T, norm->shape.c, launch_backward<T, V>(stream, norm, scratch)));
}
