/* Direct convolutions in float32 as products of matrices, c[m][n] = the sum over k of a[m][k] b[k][n], multiply-adds
 * from the first k to the last. Of the three matrices none is written out: a and b are maps and packed weights, read
 * where a window has them. A block has M by N numbers of c, a thread 8 by N / 16, and all share tiles of K numbers in
 * depth in two halves, of which one is filled while the other is multiplied. Channels are multiples of 4, and weights
 * packed, [out][tap][in]. */
#include "device/cuda/kernels/numbers.cuh"

namespace
{

enum { M = 128, K = 8, PAD = 4 /* between a tile's lines, so that neighbours are in other banks */ };

typedef ls_some<float, 4> four;

__device__ four none()
{
    return {{0, 0, 0, 0}};
}

/* ---- Operands. `start` has a thread begin at its line and k, `next` reads four numbers and goes on by K: those of
 * four k where ALONG, else those of four lines. ---- */

/* Taps and channels, one after another. */
struct depth {
    int ky, kx, c;
    __device__ void start(int k, int channels, int kernel)
    {
        ky = kx = 0;
        c = k;
        wrap(channels, kernel);
    }
    __device__ void wrap(int channels, int kernel)
    {
        for (; c >= channels; c -= channels)
            if (++kx == kernel) {
                kx = 0;
                ky++;
            }
    }
    __device__ void go_on(int channels, int kernel)
    {
        c += K;
        wrap(channels, kernel);
    }
};

/* The way of a line that is a place of one map along the taps and channels of the places of another one. */
struct way {
    depth k;
    const float *image; /* of the other map */
    int row, column;    /* of the first */
    bool there;
    __device__ way(size_t line, ls_cuda_shape of, size_t first, const float *map, ls_cuda_shape s, int kernel)
    {
        unsigned right, down;
        const size_t i = ls_divide(ls_divide(line, of.w, &right), of.h, &down);
        there = i < (size_t)of.images;
        image = map + i * s.h * s.w * s.c;
        row = (int)down;
        column = (int)right;
        k.start((int)first, s.c, kernel);
    }
    /* Reads at this tap's place of the other map, if it is one, and goes on. */
    __device__ four next(ls_cuda_shape s, int kernel, bool is_one, int r, int q)
    {
        const bool inside = there && is_one && k.ky < kernel && r >= 0 && r < s.h && q >= 0 && q < s.w;
        const four in = inside ? *(const four *)(image + (r * s.w + q) * s.c + k.c) : none();
        k.go_on(s.c, kernel);
        return in;
    }
};

/* Line m is a place of y, k a tap and channel of x in its window. */
struct windows {
    enum { ALONG = 1 };
    typedef way walk;
    const float *x;
    ls_cuda_conv v;
    __device__ way start(size_t m, size_t k, size_t) const
    {
        way w(m, v.y, k, x, v.x, v.window.kernel);
        w.row = w.row * v.window.stride - v.window.padding;
        w.column = w.column * v.window.stride - v.window.padding;
        return w;
    }
    __device__ four next(way *w) const
    {
        return w->next(v.x, v.window.kernel, true, w->row + w->k.ky, w->column + w->k.kx);
    }
};

/* Line m is a place of x, k a tap and channel of the places of dy whose windows have it there. */
struct slopes {
    enum { ALONG = 1 };
    typedef way walk;
    const float *dy;
    ls_cuda_conv v;
    __device__ way start(size_t m, size_t k, size_t) const
    {
        way w(m, v.x, k, dy, v.y, v.window.kernel);
        w.row += v.window.padding;
        w.column += v.window.padding;
        return w;
    }
    __device__ four next(way *w) const
    {
        const int stride = v.window.stride, down = w->row - w->k.ky, right = w->column - w->k.kx;
        const int r = down / stride, q = right / stride;
        return w->next(v.y, v.window.kernel, r * stride == down && q * stride == right, r, q);
    }
};

/* Line n is an output channel, k its weights. */
struct weights_along {
    enum { ALONG = 1 };
    const float *w;
    size_t lines, numbers;
    struct walk {
        const float *line;
        size_t k;
        bool there;
    };
    __device__ walk start(size_t n, size_t k, size_t) const
    {
        return {w + n * numbers, k, n < lines};
    }
    __device__ four next(walk *w) const
    {
        const four in = w->there && w->k < numbers ? *(const four *)(w->line + w->k) : none();
        w->k += K;
        return in;
    }
};

/* Lines n are input channels, k a tap and output channel. */
struct weights_across {
    enum { ALONG = 0 };
    const float *w;
    ls_cuda_conv v;
    struct walk {
        depth k;
        size_t n;
        bool there;
    };
    __device__ walk start(size_t n, size_t k, size_t) const
    {
        walk w = {{0, 0, 0}, n, n < (size_t)v.x.c};
        w.k.start((int)k, v.y.c, v.window.kernel);
        return w;
    }
    __device__ four next(walk *at) const
    {
        const int kernel = v.window.kernel;
        const size_t tap = (size_t)at->k.ky * kernel + at->k.kx;
        const bool inside = at->there && at->k.ky < kernel;
        const four in =
            inside ? *(const four *)(w + (at->k.c * (size_t)(kernel * kernel) + tap) * v.x.c + at->n) : none();
        at->k.go_on(v.y.c, kernel);
        return in;
    }
};

/* Lines m are channels of x at a tap, k a place of y. */
struct windows_across {
    enum { ALONG = 0 };
    const float *x;
    ls_cuda_conv v;
    struct walk {
        size_t image, k, end;
        int row, column, ky, kx, c;
    };
    __device__ walk start(size_t m, size_t k, size_t end) const
    {
        walk w;
        unsigned row, column;
        depth of;
        of.start((int)m, v.x.c, v.window.kernel);
        w.image = ls_divide(ls_divide(k, v.y.w, &column), v.y.h, &row);
        w.k = k;
        w.end = of.ky < v.window.kernel ? end : 0; /* no such line */
        w.row = (int)row;
        w.column = (int)column;
        w.ky = of.ky - v.window.padding;
        w.kx = of.kx - v.window.padding;
        w.c = of.c;
        return w;
    }
    __device__ four next(walk *w) const
    {
        const int r = w->row * v.window.stride + w->ky, q = w->column * v.window.stride + w->kx;
        const bool inside = w->k < w->end && r >= 0 && r < v.x.h && q >= 0 && q < v.x.w;
        const four in = inside ? *(const four *)(x + ((w->image * v.x.h + r) * v.x.w + q) * v.x.c + w->c) : none();
        w->k += K;
        for (w->column += K; w->column >= v.y.w; w->column -= v.y.w)
            if (++w->row == v.y.h) {
                w->row = 0;
                w->image++;
            }
        return in;
    }
};

/* Lines n are channels of dy, k a place. */
struct slopes_across {
    enum { ALONG = 0 };
    const float *dy;
    size_t lines;
    struct walk {
        const float *at;
        size_t k, end;
    };
    __device__ walk start(size_t n, size_t k, size_t end) const
    {
        return {dy + k * lines + n, k, n < lines ? end : 0};
    }
    __device__ four next(walk *w) const
    {
        const four in = w->k < w->end ? *(const four *)w->at : none();
        w->k += K;
        w->at += K * lines;
        return in;
    }
};

/* ---- The product ---- */

/* The part of a tile that a thread brings: four numbers of LINES by K. */
template <int LINES, bool ALONG> struct bringing {
    int line, k;
    bool part; /* where LINES are few, not every thread has one */
    __device__ bringing()
    {
        enum { GROUPS = LINES / 4 };
        const int t = threadIdx.x;
        line = ALONG ? t / 2 : t % GROUPS * 4;
        k = ALONG ? t % 2 * 4 : t / GROUPS;
        part = t < 2 * LINES;
    }
    __device__ void put(float (*tile)[LINES + PAD], const four &in) const
    {
        if (!part)
            return;
        if (ALONG)
            for (int j = 0; j < 4; j++)
                tile[k + j][line] = in.at[j];
        else
            *(four *)&tile[k][line] = in;
    }
};

/* c[z][m][n], of as many parts in depth as gridDim.z; `more` is added where it is there, and may be c. */
template <int N, typename A, typename B>
__launch_bounds__(LS_CUDA_THREADS, 2) __global__
    void product(const __grid_constant__ A a, const __grid_constant__ B b, float *c, const float *more, size_t lines,
                 size_t columns, size_t all_k)
{
    enum { WIDE = N / 16, SOME = WIDE < 4 ? WIDE : 4 /* neighbours of a thread */ };
    typedef ls_some<float, SOME> some;
    __shared__ __align__(16) float a_of[2][K][M + PAD], b_of[2][K][N + PAD];
    const size_t m = (size_t)blockIdx.x * M, n = (size_t)blockIdx.y * N;
    const size_t each = (all_k + gridDim.z * K - 1) / (gridDim.z * K) * K, first = blockIdx.z * each;
    const size_t end = first + each < all_k ? first + each : all_k;
    const bringing<M, A::ALONG> from_a;
    const bringing<N, B::ALONG> from_b;
    typename A::walk in_a = a.start(m + from_a.line, first + from_a.k, end);
    typename B::walk in_b = b.start(n + from_b.line, first + from_b.k, end);
    const int down = threadIdx.x / 16 * 4, right = threadIdx.x % 16 * SOME;
    float sum[8][WIDE] = {{0}};
    four next_a = a.next(&in_a), next_b = b.next(&in_b);
    int now = 0;
    for (size_t k = first; k < end; k += K, now = 1 - now) {
        from_a.put(a_of[now], next_a);
        from_b.put(b_of[now], next_b);
        __syncthreads(); /* the other half is read no more once all have come here */
        if (k + K < end) {
            next_a = a.next(&in_a);
            next_b = b.next(&in_b);
        }
#pragma unroll
        for (int depth = 0; depth < K; depth++) {
            four of_a[2];
            some of_b[WIDE / SOME];
            for (int i = 0; i < 2; i++)
                of_a[i] = *(const four *)&a_of[now][depth][64 * i + down];
            for (int j = 0; j < WIDE / SOME; j++)
                of_b[j] = *(const some *)&b_of[now][depth][64 * j + right];
#pragma unroll
            for (int i = 0; i < 8; i++)
                for (int j = 0; j < WIDE; j++)
                    sum[i][j] = fmaf(of_a[i / 4].at[i % 4], of_b[j / SOME].at[j % SOME], sum[i][j]);
        }
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < WIDE; j += SOME) {
            const size_t line = m + 64 * (i / 4) + down + i % 4, column = n + 64 * (j / 4) + right;
            if (line >= lines || column >= columns)
                continue;
            const size_t at = (blockIdx.z * lines + line) * columns + column;
            some out;
            for (int k = 0; k < SOME; k++)
                out.at[k] = more ? sum[i][j + k] + more[at + k] : sum[i][j + k];
            *(some *)(c + at) = out;
        }
}

/* w[o][c][tap] from the parts of a product, [z][tap][c][o] of the fitted convolution, in their order. */
__global__ void add_parts(float *w, const float *parts, int n, const __grid_constant__ ls_cuda_conv fit, int out,
                          int in)
{
    const size_t taps = (size_t)fit.window.kernel * fit.window.kernel, numbers = taps * fit.x.c * fit.y.c;
    for (size_t i = ls_thread(); i < numbers; i += ls_threads()) {
        unsigned o, c;
        const size_t tap = ls_divide(ls_divide(i, fit.y.c, &o), fit.x.c, &c);
        float sum = parts[i];
        for (int z = 1; z < n; z++)
            sum += parts[z * numbers + i];
        if ((int)o < out && (int)c < in)
            w[((size_t)o * in + c) * taps + tap] = sum;
    }
}

size_t taps_of(const ls_cuda_conv *v)
{
    return (size_t)v->window.kernel * v->window.kernel;
}

template <typename A, typename B>
void launch(cudaStream_t stream, const A &a, const B &b, float *c, const float *more, size_t lines, size_t columns,
            size_t k, int parts)
{
    const int wide = ls_cuda_product_width(columns);
    const dim3 blocks((unsigned)((lines + M - 1) / M), (unsigned)((columns + wide - 1) / wide), parts);
    if (wide == 32)
        product<32, A, B><<<blocks, LS_CUDA_THREADS, 0, stream>>>(a, b, c, more, lines, columns, k);
    else if (wide == 64)
        product<64, A, B><<<blocks, LS_CUDA_THREADS, 0, stream>>>(a, b, c, more, lines, columns, k);
    else
        product<128, A, B><<<blocks, LS_CUDA_THREADS, 0, stream>>>(a, b, c, more, lines, columns, k);
}

} // namespace

void ls_cuda_product(cudaStream_t stream, float *y, const float *x, const float *w, const ls_cuda_conv *conv)
{
    const size_t k = taps_of(conv) * conv->x.c;
    launch(stream, windows{x, *conv}, weights_along{w, (size_t)conv->y.c, k}, y, NULL, ls_cuda_rows(conv->y), conv->y.c,
           k, 1);
}

void ls_cuda_product_data(cudaStream_t stream, float *dx, const float *dy, const float *w, const float *more,
                          const ls_cuda_conv *conv)
{
    launch(stream, slopes{dy, *conv}, weights_across{w, *conv}, dx, more, ls_cuda_rows(conv->x), conv->x.c,
           taps_of(conv) * conv->y.c, 1);
}

size_t ls_cuda_product_scratch(const ls_cuda_conv *fit)
{
    const size_t lines = taps_of(fit) * fit->x.c;
    return ls_cuda_product_parts(lines, fit->y.c, ls_cuda_rows(fit->y)) * lines * fit->y.c * sizeof(float);
}

void ls_cuda_product_weight(cudaStream_t stream, float *dw, const float *x, const float *dy, const ls_cuda_conv *fit,
                            const ls_cuda_conv *conv, float *scratch)
{
    const size_t lines = taps_of(fit) * fit->x.c, rows = ls_cuda_rows(fit->y);
    const int parts = ls_cuda_product_parts(lines, fit->y.c, rows);
    launch(stream, windows_across{x, *fit}, slopes_across{dy, (size_t)fit->y.c}, scratch, NULL, lines, fit->y.c, rows,
           parts);
    add_parts<<<ls_cuda_blocks(lines * fit->y.c), LS_CUDA_THREADS, 0, stream>>>(dw, scratch, parts, *fit, conv->y.c,
                                                                                conv->x.c);
}
