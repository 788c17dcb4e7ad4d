/* Blocks have 256 threads, or 128 for small tiles. A thread has 4 or 8 outputs by 8 columns (or channels), and brings a
 * part of the next tiles into shared memory while the block works on others. What the runs so far have given lies in
 * shared memory, at a place of the thread's own, as registers for it would halve how many blocks run side by side. */
#include "device/cuda/lanes/product.h"

#include <cuda_pipeline.h>
#include <math.h>

namespace
{

enum { THREADS = 256, ACROSS = 8, DEPTH = LS_PRODUCT_DEPTH };

struct alignas(16) four {
    float at[4];
};

__device__ inline four read_four(const float *from)
{
    return *(const four *)from;
}

/* Bytes of shared memory; `many`: the sums go through several runs. */
constexpr size_t product_bytes(int lines, int columns, int stages, bool many)
{
    return (size_t)(stages * DEPTH * (lines + columns) + (many ? lines * columns : 0)) * sizeof(float);
}

/* TEAM: threads of a block. */
template <int LINES, int COLUMNS, int STAGES, bool MANY, int BLOCKS, int TEAM = THREADS>
__launch_bounds__(TEAM, BLOCKS) __global__ void product(const __grid_constant__ ls_card_product p)
{
    enum {
        DOWN = LINES * COLUMNS / TEAM / ACROSS,
        STAGE = DEPTH * (LINES + COLUMNS),
        WIDE = COLUMNS / 64, /* warps side by side */
        U_ROWS = TEAM * 4 / LINES,
        V_ROWS = TEAM * 4 / COLUMNS
    };
    extern __shared__ __align__(16) float shared[];
    four *const sums = (four *)(shared + STAGES * STAGE) + threadIdx.x;
    const int place = (int)blockIdx.z, t = (int)threadIdx.x, warp = t / 32, lane = t % 32;
    const int down = warp / WIDE * (DOWN * 4) + lane / 8 * 4, right = warp % WIDE * 64 + lane % 8 * 4;
    const size_t u_c = (size_t)p.outputs, v_c = (size_t)p.columns;
    const float *u = p.u + p.u_of[place] * (p.channels * u_c) + (size_t)blockIdx.y * LINES + t / (LINES / 4) * u_c +
                     t % (LINES / 4) * 4;
    const float *v = p.v + place * (p.channels * v_c) + (size_t)blockIdx.x * COLUMNS + t / (COLUMNS / 4) * v_c +
                     t % (COLUMNS / 4) * 4;
    int fill = 0, use = 0, left = p.channels; /* fill, use: stages, in floats */
    const auto bring = [&] {
        if (left > 0) {
            float *const to = shared + fill + t * 4;
#pragma unroll
            for (int i = 0; i < DEPTH / U_ROWS; i++)
                __pipeline_memcpy_async(to + i * TEAM * 4, u + i * U_ROWS * u_c, sizeof(four));
#pragma unroll
            for (int i = 0; i < DEPTH / V_ROWS; i++)
                __pipeline_memcpy_async(to + DEPTH * LINES + i * TEAM * 4, v + i * V_ROWS * v_c, sizeof(four));
            left -= DEPTH;
        }
        u += DEPTH * u_c; /* in front of nothing, in the end: under the condition it takes more instructions */
        v += DEPTH * v_c;
        __pipeline_commit();
        fill = fill == (STAGES - 1) * STAGE ? 0 : fill + STAGE;
    };
    for (int s = 0; s < STAGES - 1; s++)
        bring();
    float r[DOWN][ACROSS];
    for (int first = 0; first < p.channels; first += p.run) {
#pragma unroll
        for (int i = 0; i < DOWN; i++) {
            const float begin = MANY || !p.bias ? 0 : p.bias[blockIdx.y * LINES + down + i / 4 * 16 + i % 4];
#pragma unroll
            for (int n = 0; n < ACROSS; n++) {
                float *const sum = &sums[(i * ACROSS + n) / 4 * TEAM].at[n % 4];
                if (MANY && first > 0) /* the run that ends here */
                    *sum = first > p.run ? *sum + r[i][n] : r[i][n];
                r[i][n] = begin;
            }
        }
        const int end = MANY && p.channels - first > p.run ? p.run : p.channels - first;
#pragma unroll 1
        for (int k = 0; k < end; k += DEPTH) {
            __pipeline_wait_prior(STAGES - 2);
            __syncthreads();
            bring();
            const float *a = shared + use + down, *b = shared + use + DEPTH * LINES + right;
#pragma unroll
            for (int c = 0; c < DEPTH; c++) {
                float x[DOWN], y[ACROSS];
#pragma unroll
                for (int i = 0; i < DOWN; i += 4)
                    *(four *)(x + i) = read_four(a + c * LINES + i / 4 * 16);
#pragma unroll
                for (int n = 0; n < ACROSS; n += 4)
                    *(four *)(y + n) = read_four(b + c * COLUMNS + n / 4 * 32);
#pragma unroll
                for (int i = 0; i < DOWN; i++)
#pragma unroll
                    for (int n = 0; n < ACROSS; n++)
                        r[i][n] = fmaf(x[i], y[n], r[i][n]);
            }
            use = use == (STAGES - 1) * STAGE ? 0 : use + STAGE;
        }
    }
    float *m = p.m + ((size_t)place * p.outputs + (size_t)blockIdx.y * LINES + down) * v_c +
               (size_t)blockIdx.x * COLUMNS + right;
#pragma unroll
    for (int i = 0; i < DOWN; i++)
#pragma unroll
        for (int n = 0; n < ACROSS; n += 4) {
            four out = {{r[i][n], r[i][n + 1], r[i][n + 2], r[i][n + 3]}};
            if (MANY && p.channels > p.run) {
                const four before = sums[(i * ACROSS + n) / 4 * TEAM];
#pragma unroll
                for (int l = 0; l < 4; l++)
                    out.at[l] = before.at[l] + out.at[l];
            }
            *(four *)(m + (size_t)(i / 4 * 16 + i % 4) * v_c + n / 4 * 32) = out;
        }
}

template <int LINES, int COLUMNS, int STAGES, bool MANY, int BLOCKS, int TEAM = THREADS>
void launch(const ls_card_product *p, cudaStream_t stream)
{
    const size_t bytes = product_bytes(LINES, COLUMNS, STAGES, MANY);
    const dim3 grid((unsigned)(p->columns / COLUMNS), (unsigned)(p->outputs / LINES), (unsigned)p->places);
    cudaFuncSetAttribute((const void *)product<LINES, COLUMNS, STAGES, MANY, BLOCKS, TEAM>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    product<LINES, COLUMNS, STAGES, MANY, BLOCKS, TEAM><<<grid, TEAM, bytes, stream>>>(*p);
}

/* ---- Gradients of weights: both operands lie along the depth ---- */

enum {
    E_LINES = LS_PRODUCT_LINES,
    V_LINES = LS_PRODUCT_LINES,
    LINE = DEPTH + 4, /* of shared memory: rows begin in other banks than their neighbours */
    WEIGH_STAGES = 3,
    WEIGH_STAGE = LINE * (E_LINES + V_LINES),
    WEIGH_THREADS = 128,
    ROWS = WEIGH_THREADS / 4,
    WEIGH_DOWN = E_LINES * V_LINES / WEIGH_THREADS / ACROSS
};

constexpr size_t weigh_bytes = (size_t)(WEIGH_STAGES * WEIGH_STAGE + E_LINES * V_LINES) * sizeof(float);

/* SHARE: several places have one sum, which goes run by run through all of them. */
template <bool SHARE>
__launch_bounds__(WEIGH_THREADS, 4) __global__ void weigh(const __grid_constant__ ls_card_weighing w)
{
    extern __shared__ __align__(16) float shared[];
    four *const sums = (four *)(shared + WEIGH_STAGES * WEIGH_STAGE) + threadIdx.x;
    const int sum_of = (int)blockIdx.z % w.sums, shard = (int)blockIdx.z / w.sums, place = sum_of * w.next;
    const int t = (int)threadIdx.x, warp = t / 32, lane = t % 32;
    const int down = warp * (WEIGH_DOWN * 4) + lane / 8, right = lane % 8;
    const int depth = shard + 1 == w.shards ? w.last : w.depth;
    const size_t line = (size_t)w.columns, begin = (size_t)shard * w.depth + t % 4 * 4;
    const float *e = w.e + ((size_t)place * w.outputs + blockIdx.y * E_LINES + t / 4) * line + begin;
    const float *v = w.v + ((size_t)place * w.channels + blockIdx.x * V_LINES + t / 4) * line + begin;
    int fill = 0, use = 0, left = SHARE && depth > w.run ? w.run : depth; /* to be brought of a place's run */
    int rest = depth, nth = 0;                                            /* from that run on, and the place's number */
    const auto bring = [&] {
        if (left > 0) {
            float *const to = shared + fill + t / 4 * LINE + t % 4 * 4;
#pragma unroll
            for (int i = 0; i < E_LINES; i += ROWS) {
                __pipeline_memcpy_async(to + i * LINE, e + i * line, sizeof(four));
                __pipeline_memcpy_async(to + (E_LINES + i) * LINE, v + i * line, sizeof(four));
            }
            e += DEPTH;
            v += DEPTH;
            left -= DEPTH;
            if (SHARE && left == 0) {
                left = rest > w.run ? w.run : rest;
                if (++nth < w.share) {
                    e += w.e_step - left;
                    v += w.v_step - left;
                } else {
                    e -= (w.share - 1) * w.e_step;
                    v -= (w.share - 1) * w.v_step;
                    nth = 0;
                    rest -= left;
                    left = rest > w.run ? w.run : rest;
                }
            }
        }
        __pipeline_commit();
        fill = fill == (WEIGH_STAGES - 1) * WEIGH_STAGE ? 0 : fill + WEIGH_STAGE;
    };
    for (int s = 0; s < WEIGH_STAGES - 1; s++)
        bring();
    float r[WEIGH_DOWN][ACROSS];
    for (int first = 0, of = 0; first < depth;) { /* the run of place number `of` */
#pragma unroll
        for (int i = 0; i < WEIGH_DOWN; i++)
#pragma unroll
            for (int n = 0; n < ACROSS; n++) {
                float *const sum = &sums[(i * ACROSS + n) / 4 * WEIGH_THREADS].at[n % 4];
                if (first + of > 0) /* what ends here, which may be the first */
                    *sum = first + of > (SHARE ? 1 : w.run) ? *sum + r[i][n] : r[i][n];
                r[i][n] = 0;
            }
        const int end = depth - first > w.run ? w.run : depth - first;
#pragma unroll 1
        for (int k = 0; k < end; k += DEPTH) {
            __pipeline_wait_prior(WEIGH_STAGES - 2);
            __syncthreads();
            bring();
            const float *a = shared + use + down * LINE, *b = shared + use + (E_LINES + right) * LINE;
#pragma unroll
            for (int c = 0; c < DEPTH; c += 4) {
                four x[WEIGH_DOWN];
#pragma unroll
                for (int i = 0; i < WEIGH_DOWN; i++)
                    x[i] = read_four(a + i * 4 * LINE + c);
#pragma unroll
                for (int n = 0; n < ACROSS; n++) {
                    const four y = read_four(b + n * 8 * LINE + c);
#pragma unroll
                    for (int i = 0; i < WEIGH_DOWN; i++)
#pragma unroll
                        for (int l = 0; l < 4; l++)
                            r[i][n] = fmaf(x[i].at[l], y.at[l], r[i][n]);
                }
            }
            use = use == (WEIGH_STAGES - 1) * WEIGH_STAGE ? 0 : use + WEIGH_STAGE;
        }
        of = SHARE && of + 1 < w.share ? of + 1 : 0;
        first += of ? 0 : w.run;
    }
    float *m = w.m + ((size_t)blockIdx.z * w.outputs + blockIdx.y * E_LINES + down) * w.channels +
               blockIdx.x * V_LINES + right;
#pragma unroll
    for (int i = 0; i < WEIGH_DOWN; i++)
#pragma unroll
        for (int n = 0; n < ACROSS; n++) {
            const float before = sums[(i * ACROSS + n) / 4 * WEIGH_THREADS].at[n % 4];
            m[(size_t)i * 4 * w.channels + n * 8] = SHARE || depth > w.run ? before + r[i][n] : r[i][n];
        }
}

template <bool SHARE> void launch_weighing(const ls_card_weighing *w, cudaStream_t stream)
{
    const dim3 grid((unsigned)(w->channels / V_LINES), (unsigned)(w->outputs / E_LINES),
                    (unsigned)(w->sums * w->shards));
    cudaFuncSetAttribute((const void *)weigh<SHARE>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)weigh_bytes);
    weigh<SHARE><<<grid, WEIGH_THREADS, weigh_bytes, stream>>>(*w);
}

/* What each run of each place gave, `runs` of them, joins the sums in their order. */
__global__ void add_parts(ls_card_weighing w, ptrdiff_t apart, int runs, bool go_on)
{
    const size_t pairs = (size_t)w.outputs * w.channels, pair = (size_t)blockIdx.x * THREADS + threadIdx.x;
    const float *part = w.parts + blockIdx.y * w.next * pairs + pair;
    float *const m = w.m + blockIdx.y * pairs + pair;
    float sum = go_on ? *m : 0;
    for (int run = 0; run < runs; run++, part += w.sums * w.share * pairs) {
#pragma unroll 8
        for (int n = 0; n < w.share; n++)
            sum = sum + part[n * apart];
    }
    *m = sum;
}

int tiles_of(const ls_card_weighing *w)
{
    return w->outputs / E_LINES * (w->channels / V_LINES);
}

/* Runs whose places' products are made side by side, by a launch that fills a card. 0: the sums alone do so. */
int runs_at_once(const ls_card_weighing *w)
{
    enum { FEW = 128, MANY = 1024 }; /* blocks */
    if (w->share == 1 || tiles_of(w) * w->sums * w->shards >= FEW)
        return 0;
    const int fill = MANY / (tiles_of(w) * w->sums * w->share), most = (w->depth + w->run - 1) / w->run;
    return fill < 1 ? 1 : fill < most ? fill : most;
}

/* The sums of a shard of so many columns, which is all that w has. */
void weigh_in_parts(const ls_card_weighing *w, int at_once, int depth, cudaStream_t stream)
{
    const ptrdiff_t apart = w->e_step / w->columns * w->channels;
    const dim3 pairs((unsigned)(tiles_of(w) * (E_LINES * V_LINES / THREADS)), (unsigned)w->sums);
    ls_card_weighing each = *w; /* a run is as a shard, and each place has a sum */
    each.sums = w->sums * w->share;
    each.next = each.share = 1;
    each.m = w->parts;
    each.depth = w->run;
    for (int first = 0; first < depth; first += at_once * w->run) {
        const int left = depth - first, some = (left + w->run - 1) / w->run;
        each.shards = some < at_once ? some : at_once;
        each.last = some > at_once ? w->run : left - (some - 1) * w->run;
        launch_weighing<false>(&each, stream);
        add_parts<<<pairs, THREADS, 0, stream>>>(*w, apart, each.shards, first > 0);
        each.e += at_once * w->run;
        each.v += at_once * w->run;
    }
}

/* The largest tiles that fit: 128 lines need as many outputs, and 112 KB where there are several runs. */
bool takes_wide(const ls_card_product *p, size_t shared)
{
    return p->outputs % 128 == 0 && product_bytes(128, 128, 3, p->channels > p->run) <= shared;
}

/* Tiles of 64 x 128 would be too few for a card's multiprocessors. */
bool takes_small(const ls_card_product *p)
{
    enum { FEW = 64 };
    return (size_t)(p->outputs / 64) * (p->columns / 128) * p->places < FEW;
}

} // namespace

bool ls_card_product_fits(bool many, size_t shared)
{
    return product_bytes(64, 128, 2, many) <= shared;
}

bool ls_card_weighing_fits(size_t shared)
{
    return weigh_bytes <= shared;
}

void ls_card_multiply(const ls_card_product *p, size_t shared, cudaStream_t stream)
{
    const bool many = p->channels > p->run, stages = product_bytes(64, 128, 3, many) <= shared;
    if (takes_small(p) && !many)
        launch<64, 64, 3, false, 3, 128>(p, stream);
    else if (takes_wide(p, shared) && many)
        launch<128, 128, 3, true, 2>(p, stream);
    else if (takes_wide(p, shared))
        launch<128, 128, 3, false, 2>(p, stream);
    else if (many && stages)
        launch<64, 128, 3, true, 3>(p, stream);
    else if (many)
        launch<64, 128, 2, true, 1>(p, stream);
    else if (stages)
        launch<64, 128, 3, false, 3>(p, stream);
    else
        launch<64, 128, 2, false, 1>(p, stream);
}

size_t ls_card_weighing_parts(const ls_card_weighing *w)
{
    return (size_t)runs_at_once(w) * w->sums * w->share * w->outputs * w->channels;
}

void ls_card_weigh(const ls_card_weighing *w, cudaStream_t stream)
{
    const int at_once = runs_at_once(w);
    ls_card_weighing one = *w;
    for (int shard = 0; at_once && shard < w->shards; shard++) {
        weigh_in_parts(&one, at_once, shard + 1 == w->shards ? w->last : w->depth, stream);
        one.e += w->depth;
        one.v += w->depth;
        one.m += (size_t)w->sums * w->outputs * w->channels;
    }
    if (at_once)
        return;
    if (w->share > 1)
        launch_weighing<true>(w, stream);
    else
        launch_weighing<false>(w, stream);
}
