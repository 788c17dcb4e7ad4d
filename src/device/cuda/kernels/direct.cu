/* Convolutions as op.h writes them down: for what cuDNN has no deterministic engine for, and for few input channels.
 * Plain, and slow where channels are many. */
#include "device/cuda/kernels/numbers.cuh"

namespace
{

/* Channels of a group, in and out. */
__host__ __device__ inline int in_of(const ls_cuda_conv &v)
{
    return v.x.c / v.windows.groups;
}

__host__ __device__ inline int out_of(const ls_cuda_conv &v)
{
    return v.y.c / v.windows.groups;
}

/* Input c of its group. */
__device__ size_t weight_at(const ls_cuda_conv &v, int o, int c, int ky, int kx)
{
    const size_t pair = v.in_out ? (size_t)c * v.y.c + o : (size_t)o * in_of(v) + c;
    return (pair * v.windows.rows.kernel + ky) * v.windows.columns.kernel + kx;
}

/* P neighbouring places of y in one row, and their windows. */
template <int P> struct piece {
    size_t image, place; /* of y; the first */
    int row, column;     /* of y */
    int top, left;       /* of x */
    __device__ piece(size_t i, const ls_cuda_conv &v)
    {
        unsigned group, y_row;
        image = ls_split(ls_split(i, (v.y.w + P - 1) / P, &group), v.y.h, &y_row);
        row = (int)y_row;
        column = (int)group * P;
        place = (image * v.y.h + row) * v.y.w + column;
        top = row * v.windows.rows.stride - v.windows.rows.padding;
        left = column * v.windows.columns.stride - v.windows.columns.padding;
    }
};

__host__ __device__ inline size_t pieces_of(const ls_cuda_conv &v, int places)
{
    return (size_t)v.y.images * v.y.h * ((v.y.w + places - 1) / places);
}

/* N neighbouring numbers of one row and channel of x, zeros where there is none. */
template <int N, typename T>
__device__ void load_row(float *in, const T *image, const ls_cuda_shape &s, int row, int left, int c)
{
    const T *from = image + ((size_t)row * s.w + left) * s.c + c;
    const bool there = row >= 0 && row < s.h;
#pragma unroll
    for (int k = 0; k < N; k++)
        in[k] = there && left + k >= 0 && left + k < s.w ? ls_load(from + k * s.c) : 0;
}

/* A thread has V neighbouring output channels of one group. Where the weights are few they lie in shared memory,
 * [c][tap][o]; else V is 1. K is the size of a square kernel of stride 1, and a thread has P places; or K is 0: any
 * windows, and one place. */
template <typename T, int V, int K, int P>
__global__ void forward(T *y, const T *x, const float *w, const float *bias, int relu,
                        const __grid_constant__ ls_cuda_conv v)
{
    __shared__ __align__(16) float near[LS_CUDA_TILE];
    const ls_windows_axis down = v.windows.rows, across = v.windows.columns;
    const int high = K ? K : down.kernel, wide = K ? K : across.kernel, taps = high * wide, in_group = in_of(v);
    const size_t weights = ls_cuda_weights(&v), n = pieces_of(v, P) * (v.y.c / V);
    const bool few = V > 1 || weights <= LS_CUDA_TILE;
    for (int i = threadIdx.x; few && i < (int)weights; i += blockDim.x) {
        const int tap = i / v.y.c % taps;
        near[i] = w[weight_at(v, i % v.y.c, i / v.y.c / taps, tap / wide, tap % wide)];
    }
    __syncthreads();
    for (size_t i = ls_thread(); i < n; i += ls_threads()) {
        unsigned group;
        const piece<P> at(ls_split(i, v.y.c / V, &group), v);
        const T *image = x + at.image * v.x.h * v.x.w * v.x.c;
        const int o = (int)group * V, first = o / out_of(v) * in_group;
        float sum[P][V] = {{0}};
        for (int c = 0; c < in_group; c++)
            for (int ky = 0; ky < high; ky++) {
                float in[P + (K ? K - 1 : 0)];
                if (K)
                    load_row<P + (K ? K - 1 : 0)>(in, image, v.x, at.top + ky, at.left, first + c);
                for (int kx = 0; kx < wide; kx++) {
                    ls_some<float, V> by;
                    if (few)
                        by = *(const ls_some<float, V> *)(near + (c * taps + ky * wide + kx) * v.y.c + o);
                    else
                        by.at[0] = w[weight_at(v, o, c, ky, kx)];
                    if (!K)
                        load_row<1>(in, image, v.x, at.top + ky * down.dilation, at.left + kx * across.dilation,
                                    first + c);
#pragma unroll
                    for (int p = 0; p < P; p++)
                        for (int k = 0; k < V; k++)
                            sum[p][k] = fmaf(by.at[k], in[K ? p + kx : 0], sum[p][k]);
                }
            }
#pragma unroll
        for (int p = 0; p < P; p++) {
            if (at.column + p >= v.y.w)
                break;
            ls_some<T, V> out;
            for (int k = 0; k < V; k++) {
                const float z = bias ? sum[p][k] + bias[o + k] : sum[p][k];
                ls_store(&out.at[k], relu ? ls_relu_of(z) : z);
            }
            *(ls_some<T, V> *)(y + (at.place + p) * v.y.c + o) = out;
        }
    }
}

template <typename T>
__global__ void data(T *dx, const T *dy, const float *w, const T *more, const __grid_constant__ ls_cuda_conv v)
{
    const ls_windows_axis high = v.windows.rows, wide = v.windows.columns;
    const int taps = ls_cuda_taps(&v), in_group = in_of(v), out_group = out_of(v);
    for (size_t i = ls_thread(); i < ls_cuda_numbers(v.x); i += ls_threads()) {
        const int c = (int)(i % v.x.c), first = c / in_group * out_group;
        const size_t row = i / v.x.c, image = row / ((size_t)v.x.h * v.x.w);
        const int r = (int)(row / v.x.w % v.x.h) + high.padding, q = (int)(row % v.x.w) + wide.padding;
        const T *from = dy + image * v.y.h * v.y.w * v.y.c;
        float sum = 0;
        for (int o = first; o < first + out_group; o++)
            for (int k = 0; k < taps; k++) {
                const int ky = k / wide.kernel, kx = k % wide.kernel;
                const int down = r - ky * high.dilation, right = q - kx * wide.dilation;
                if (down < 0 || right < 0 || down % high.stride || right % wide.stride || down / high.stride >= v.y.h ||
                    right / wide.stride >= v.y.w)
                    continue;
                sum =
                    fmaf(w[weight_at(v, o, c % in_group, ky, kx)],
                         ls_load(from + ((size_t)(down / high.stride) * v.y.w + right / wide.stride) * v.y.c + o), sum);
            }
        ls_store(dx + i, more ? ls_load(more + i) + sum : sum);
    }
}

/* sums[chunk][weight]: a block has one chunk of y's rows and LS_CUDA_THREADS weights. Neighbouring threads have
 * neighbouring output channels. */
template <typename T>
__global__ void weight_chunks(float *sums, const T *x, const T *dy, const __grid_constant__ ls_cuda_conv v)
{
    const ls_windows_axis high = v.windows.rows, wide = v.windows.columns;
    const int taps = ls_cuda_taps(&v);
    const size_t weights = ls_cuda_weights(&v), i = ls_thread();
    const size_t rows = ls_cuda_rows(v.y), chunk = (rows + gridDim.y - 1) / gridDim.y;
    const size_t begin = blockIdx.y * chunk, end = begin + chunk < rows ? begin + chunk : rows;
    if (i >= weights)
        return;
    const int o = (int)(i % v.y.c), tap = (int)(i / v.y.c % taps), c = (int)(i / v.y.c / taps);
    const int ky = tap / wide.kernel, kx = tap % wide.kernel, channel = o / out_of(v) * in_of(v) + c;
    const int down = ky * high.dilation - high.padding, right = kx * wide.dilation - wide.padding;
    const size_t places = (size_t)v.y.h * v.y.w;
    const T *image = x + begin / places * v.x.h * v.x.w * v.x.c + channel, *slope = dy + begin * v.y.c + o;
    int y_row = (int)(begin % places / v.y.w), y_column = (int)(begin % places % v.y.w);
    float sum = 0;
    for (size_t row = begin; row < end;) {
        enum { AT_ONCE = 4 /* rows, to wait less for memory */ };
        float a[AT_ONCE], b[AT_ONCE];
        bool inside[AT_ONCE];
        for (int k = 0; k < AT_ONCE; k++, row++, slope += v.y.c) {
            const int r = y_row * high.stride + down, q = y_column * wide.stride + right;
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
    sums[blockIdx.y * weights + weight_at(v, o, c, ky, kx)] = sum;
}

/* The same for a kernel of few taps and stride 1: a block has one chunk of pieces and one input channel, and reads dy
 * once. A thread has V output channels of every `lines`-th piece, with all their taps. */
template <typename T, int V, int K, int P>
__launch_bounds__(LS_CUDA_THREADS, 2) __global__
    void weight_rows(float *sums, const T *x, const T *dy, const __grid_constant__ ls_cuda_conv v, int lines)
{
    __shared__ float of[LS_CUDA_THREADS * V]; /* [line][o] */
    __shared__ float part_of[K * K][LS_CUDA_THREADS];
    const int out = v.y.c, groups = out / V, line = threadIdx.x / groups, o = threadIdx.x % groups * V, c = blockIdx.x;
    const size_t pieces = pieces_of(v, P), chunk = (pieces + gridDim.y - 1) / gridDim.y;
    const size_t begin = blockIdx.y * chunk, end = begin + chunk < pieces ? begin + chunk : pieces;
    float sum[K * K][V] = {{0}};
    for (size_t i = begin + line; i < end && line < lines; i += lines) {
        const piece<P> at(i, v);
        const T *image = x + at.image * v.x.h * v.x.w * v.x.c;
        ls_some<T, V> slope[P];
#pragma unroll
        for (int p = 0; p < P; p++)
            if (at.column + p < v.y.w)
                slope[p] = *(const ls_some<T, V> *)(dy + (at.place + p) * out + o);
#pragma unroll
        for (int ky = 0; ky < K; ky++) {
            float in[P + K - 1];
            load_row<P + K - 1>(in, image, v.x, at.top + ky, at.left, c);
#pragma unroll
            for (int p = 0; p < P; p++)
                if (at.column + p < v.y.w)
                    for (int kx = 0; kx < K; kx++)
                        for (int k = 0; k < V; k++)
                            sum[ky * K + kx][k] = fmaf(ls_load(&slope[p].at[k]), in[p + kx], sum[ky * K + kx][k]);
        }
    }
    /* Of each tap first what some threads have of a channel, every `parts`-th line, and then those. */
    const int parts = LS_CUDA_THREADS / out, part = threadIdx.x / out;
#pragma unroll
    for (int tap = 0; tap < K * K; tap++) {
        __syncthreads();
        for (int k = 0; k < V && line < lines; k++)
            of[line * out + o + k] = sum[tap][k];
        __syncthreads();
        float total = 0;
        for (int k = part; k < lines && part < parts; k += parts)
            total += of[k * out + threadIdx.x % out];
        part_of[tap][threadIdx.x] = total;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < K * K * out; i += blockDim.x) {
        const int tap = i / out;
        float total = 0;
        for (int k = 0; k < parts; k++)
            total += part_of[tap][k * out + i % out];
        sums[blockIdx.y * (size_t)gridDim.x * out * (K * K) + weight_at(v, i % out, c, tap / K, tap % K)] = total;
    }
}

__global__ void add_chunks(float *dw, const float *sums, size_t weights, int chunks)
{
    const size_t i = (size_t)blockIdx.x * LS_CUDA_COLUMN + threadIdx.x;
    const float sum = ls_sum_of(i < weights ? chunks : 0, [=](int k) { return sums[k * weights + i]; });
    if (threadIdx.y == 0 && i < weights)
        dw[i] = sum;
}

/* The size of a square kernel of stride 1 over neighbouring places of all channels; 0 of other windows. */
int square_of(const ls_cuda_conv *v)
{
    const ls_windows *w = &v->windows;
    return w->groups == 1 && w->rows.kernel == w->columns.kernel && w->rows.stride == 1 && w->columns.stride == 1 &&
                   w->rows.dilation == 1 && w->columns.dilation == 1
               ? w->rows.kernel
               : 0;
}

template <typename T, int V>
void launch_forward(cudaStream_t stream, void *y, const void *x, const float *w, const float *bias, int relu,
                    const ls_cuda_conv *v)
{
    enum { PLACES = 4 };
    const size_t groups = v->y.c / V;
    if (square_of(v) == 3)
        forward<T, V, 3, PLACES><<<ls_cuda_few_blocks(pieces_of(*v, PLACES) * groups), LS_CUDA_THREADS, 0, stream>>>(
            (T *)y, (const T *)x, w, bias, relu, *v);
    else
        forward<T, V, 0, 1><<<ls_cuda_few_blocks(pieces_of(*v, 1) * groups), LS_CUDA_THREADS, 0, stream>>>(
            (T *)y, (const T *)x, w, bias, relu, *v);
}

/* A thread has the sums of all taps of its channels: no more than some 80. */
template <typename T, int V>
void launch_rows(cudaStream_t stream, float *sums, const void *x, const void *dy, const ls_cuda_conv *v, int chunks)
{
    enum { PLACES = V > 4 ? 2 : 4, FEW = V < 2 ? V : 2 };
    const dim3 blocks(v->x.c, chunks);
    if (square_of(v) == 3)
        weight_rows<T, V, 3, PLACES><<<blocks, LS_CUDA_THREADS, 0, stream>>>(sums, (const T *)x, (const T *)dy, *v,
                                                                             LS_CUDA_THREADS / (v->y.c / V));
    else
        weight_rows<T, FEW, 5, 2><<<blocks, LS_CUDA_THREADS, 0, stream>>>(sums, (const T *)x, (const T *)dy, *v,
                                                                          LS_CUDA_THREADS / (v->y.c / FEW));
}

template <typename T>
void launch_weight(cudaStream_t stream, float *dw, const void *x, const void *dy, const ls_cuda_conv *v, float *sums)
{
    const size_t weights = ls_cuda_weights(v);
    const int chunks = ls_cuda_weight_chunks(ls_cuda_rows(v->y)), kernel = square_of(v);
    const unsigned blocks = (unsigned)((weights + LS_CUDA_THREADS - 1) / LS_CUDA_THREADS);
    if (v->y.c <= LS_CUDA_THREADS && (kernel == 3 || kernel == 5))
        LS_BY_VECTOR(T, v->y.c, launch_rows<T, V>(stream, sums, x, dy, v, chunks));
    else
        weight_chunks<T><<<dim3(blocks, chunks), LS_CUDA_THREADS, 0, stream>>>(sums, (const T *)x, (const T *)dy, *v);
    add_chunks<<<ls_columns_of(weights), LS_FINISHING, 0, stream>>>(dw, sums, weights, chunks);
}

} // namespace

void ls_cuda_direct(cudaStream_t stream, int half, void *y, const void *x, const float *w, const float *bias, int relu,
                    const ls_cuda_conv *conv)
{
    const int channels = ls_cuda_weights(conv) <= LS_CUDA_TILE ? out_of(*conv) : 1; /* many weights: one by one */
    LS_BY_TYPE(half, LS_BY_VECTOR(T, channels, launch_forward<T, V>(stream, y, x, w, bias, relu, conv)));
}

void ls_cuda_direct_data(cudaStream_t stream, int half, void *dx, const void *dy, const float *w, const void *more,
                         const ls_cuda_conv *conv)
{
    const size_t n = ls_cuda_numbers(conv->x);
    LS_BY_TYPE(half, data<T>
               <<<ls_cuda_blocks(n), LS_CUDA_THREADS, 0, stream>>>((T *)dx, (const T *)dy, w, (const T *)more, *conv));
}

size_t ls_cuda_direct_scratch(const ls_cuda_conv *conv)
{
    return (size_t)ls_cuda_weight_chunks(ls_cuda_rows(conv->y)) * ls_cuda_weights(conv) * sizeof(float);
}

void ls_cuda_direct_weight(cudaStream_t stream, int half, float *dw, const void *x, const void *dy,
                           const ls_cuda_conv *conv, float *scratch)
{
    LS_BY_TYPE(half, launch_weight<T>(stream, dw, x, dy, conv, scratch));
}
