/* Attention. A thread has a row of an image: of q, or backward of q, and then of k and v. It takes BLOCK pairs at once,
 * so that each of its own numbers serves that many. */
#include <math.h>

#include "base/math.h"
#include "base/philox.h"
#include "device/cuda/lanes/numbers.cuh"

namespace
{

/* Everything that a launch reads. */
struct attention {
    ls_map q, k, v;
    const float *lengths, *dy, *y, *saved; /* NULL: there are none */
    const uint32_t *index;
    uint64_t seed, key, least; /* numbers below `least` are dropped */
    float scale, rest;
    int causal;
};

/* One row of a head of an image. */
struct spot {
    int group, head, row, lane;
};

/* Piece i of heads with so many rows. */
__device__ inline spot spot_of(size_t i, int heads, int rows)
{
    const size_t row = i / LS_LANES, head = row / rows;
    return {(int)(head / heads), (int)(head % heads), (int)(row % rows), (int)(i % LS_LANES)};
}

__device__ inline size_t at(ls_map m, spot s, int head, int row)
{
    return ls_map_at(m, s.group, head, row, 0) + s.lane;
}

__device__ inline ls_derived stream_of(const attention &a, spot s, bool image, const ls_cuda_shards &shards)
{
    const uint64_t sample = image && a.least ? a.index[ls_cuda_first_image(&shards, s.group) + s.lane] : 0;
    const ls_random_stream stream = {a.seed, LS_FOR_DROPOUT, a.key ^ sample, *shards.step};
    return ls_random_derive(&stream);
}

__device__ inline bool is_dropped(const attention &a, const ls_derived &from, int head, int row, int key)
{
    const uint64_t place = ((uint64_t)head * a.q.h + row) * a.k.h + key;
    return a.least && ls_derived_bits(&from, place) >> 11 < a.least;
}

/* The sums of one line's products with n lines, which follow each other `line` numbers apart. */
template <int BLOCK>
__device__ inline void products(float sums[BLOCK], const float *one, const float *lines, int n, int numbers)
{
    for (int j = 0; j < BLOCK; j++)
        sums[j] = 0;
    for (int i = 0; i < numbers; i++) {
        const float left = one[(size_t)i * LS_LANES];
        for (int j = 0; j < BLOCK; j++)
            if (j < n)
                sums[j] = fmaf(left, lines[((size_t)j * numbers + i) * LS_LANES], sums[j]);
    }
}

/* A line gains n others, each by its weight; those that are not seen are left out. */
template <int BLOCK>
__device__ inline void gain(float *to, const float weights[BLOCK], const float *lines, unsigned seen, int numbers,
                            float before)
{
    for (int i = 0; i < numbers; i++) {
        float acc = to[(size_t)i * LS_LANES] * before;
        for (int j = 0; j < BLOCK; j++)
            if (seen >> j & 1)
                acc = fmaf(weights[j], lines[((size_t)j * numbers + i) * LS_LANES], acc);
        to[(size_t)i * LS_LANES] = acc;
    }
}

__device__ inline void fill(float *to, int numbers, float number)
{
    for (int i = 0; i < numbers; i++)
        to[(size_t)i * LS_LANES] = number;
}

__device__ inline void multiply(float *to, int numbers, float by)
{
    for (int i = 0; i < numbers; i++)
        to[(size_t)i * LS_LANES] *= by;
}

__device__ inline unsigned first_bits(int n)
{
    return n >= 32 ? ~0u : (1u << n) - 1;
}

__global__ void forward(attention a, ls_map y, float *saved, size_t pieces, ls_cuda_shards shards)
{
    enum { BLOCK = LS_KEY_BLOCK };
    LS_EACH_PIECE(i, pieces)
    {
        const spot s = spot_of(i, a.q.c, a.q.h);
        const bool image = s.lane < ls_cuda_lanes_in(&shards, s.group);
        const int shared = s.head / (a.q.c / a.k.c), keys = a.k.h;
        const float length = a.lengths ? a.lengths[(size_t)s.group * LS_LANES + s.lane] : 0;
        const int before = !image ? 0 : a.lengths ? ls_attention_keys(length, keys) : keys;
        const int seen = ls_attention_seen(a.causal, a.lengths && a.q.h == keys, before, s.row);
        const ls_derived from = stream_of(a, s, image, shards);
        float *const out = y.data + at(y, s, s.head, s.row);
        float m = 0, sum = 0;
        fill(out, y.w, 0);
        for (int first = 0; first < seen; first += BLOCK) {
            const int n = seen - first < BLOCK ? seen - first : BLOCK;
            float x[BLOCK];
            products<BLOCK>(x, a.q.data + at(a.q, s, s.head, s.row), a.k.data + at(a.k, s, shared, first), n, a.q.w);
            float b = first ? m : x[0] * a.scale;
            for (int j = 0; j < BLOCK; j++) {
                x[j] *= a.scale;
                b = j < n && x[j] > b ? x[j] : b;
            }
            const float r = first ? ls_expf(m - b) : 1;
            sum = sum * r;
#pragma unroll
            for (int j = 0; j < BLOCK; j++) /* all of them, so that x stays in registers */
                if (j < n) {
                    x[j] = ls_expf(x[j] - b);
                    sum = sum + x[j];
                    x[j] = is_dropped(a, from, s.head, s.row, first + j) ? 0 : x[j];
                }
            gain<BLOCK>(out, x, a.v.data + at(a.v, s, shared, first), first_bits(n), y.w, r);
            m = b;
        }
        const float inv = seen ? 1 / sum : 0;
        multiply(out, y.w, inv * a.rest);
        const ls_map state = {saved, 3 * a.q.c, a.q.h, 1};
        saved[at(state, s, s.head, s.row)] = m;
        saved[at(state, s, a.q.c + s.head, s.row)] = inv;
        saved[at(state, s, 2 * a.q.c + s.head, s.row)] = (float)seen;
    }
}

/* What `saved` has of a row, and D. */
struct row_state {
    float m, inv, d;
    int seen;
};

__device__ inline row_state state_of(const attention &a, spot s, int head, int row, bool image)
{
    const ls_map state = {(float *)a.saved, 3 * a.q.c, a.q.h, 1};
    const float n = a.saved[at(state, s, 2 * a.q.c + head, row)];
    return {a.saved[at(state, s, head, row)], a.saved[at(state, s, a.q.c + head, row)], 0,
            image ? ls_attention_keys(n, a.k.h) : 0};
}

/* A pair's score and the slope of its weight become the weight and the score's slope. */
__device__ inline void slope(const attention &a, const row_state &of, bool dropped, float &x, float &g)
{
    const float p = ls_expf(x * a.scale - of.m) * of.inv;
    g = p * ((dropped ? 0 : g * a.rest) - of.d);
    x = dropped ? 0 : p * a.rest;
}

/* dq, and D of each row for what comes next. */
__global__ void backward_rows(attention a, float *dq, float *d, size_t pieces, ls_cuda_shards shards)
{
    enum { BLOCK = 16 };
    LS_EACH_PIECE(i, pieces)
    {
        const spot s = spot_of(i, a.q.c, a.q.h);
        const bool image = s.lane < ls_cuda_lanes_in(&shards, s.group);
        const int shared = s.head / (a.q.c / a.k.c);
        const ls_map dy = {(float *)a.dy, a.q.c, a.q.h, a.v.w};
        const float *const slopes = a.dy + at(dy, s, s.head, s.row), *const y = a.y + at(dy, s, s.head, s.row);
        const ls_derived from = stream_of(a, s, image, shards);
        float *const out = dq + at(a.q, s, s.head, s.row);
        row_state of = state_of(a, s, s.head, s.row, image);
        for (int e = 0; e < a.v.w; e++)
            of.d = fmaf(slopes[(size_t)e * LS_LANES], y[(size_t)e * LS_LANES], of.d);
        d[i] = of.d;
        fill(out, a.q.w, 0);
        for (int first = 0; first < of.seen; first += BLOCK) {
            const int n = of.seen - first < BLOCK ? of.seen - first : BLOCK;
            const float *const k = a.k.data + at(a.k, s, shared, first);
            float x[BLOCK], g[BLOCK];
            products<BLOCK>(x, a.q.data + at(a.q, s, s.head, s.row), k, n, a.q.w);
            products<BLOCK>(g, slopes, a.v.data + at(a.v, s, shared, first), n, a.v.w);
#pragma unroll
            for (int j = 0; j < BLOCK; j++)
                if (j < n)
                    slope(a, of, is_dropped(a, from, s.head, s.row, first + j), x[j], g[j]);
            gain<BLOCK>(out, g, k, first_bits(n), a.q.w, 1);
        }
        multiply(out, a.q.w, a.scale);
    }
}

/* dk and dv, from the rows of all heads that share the key. */
__global__ void backward_keys(attention a, float *dk, float *dv, const float *d, size_t pieces, ls_cuda_shards shards)
{
    enum { BLOCK = 16 };
    LS_EACH_PIECE(i, pieces)
    {
        const spot s = spot_of(i, a.k.c, a.k.h);
        const bool image = s.lane < ls_cuda_lanes_in(&shards, s.group);
        const int each = a.q.c / a.k.c;
        const ls_map dy = {(float *)a.dy, a.q.c, a.q.h, a.v.w}, rows = {(float *)d, a.q.c, a.q.h, 1};
        const ls_derived from = stream_of(a, s, image, shards);
        float *const to_k = dk + at(a.k, s, s.head, s.row), *const to_v = dv + at(a.v, s, s.head, s.row);
        fill(to_k, a.k.w, 0);
        fill(to_v, a.v.w, 0);
        for (int head = s.head * each; image && head < (s.head + 1) * each; head++)
            for (int first = 0; first < a.q.h; first += BLOCK) {
                const int n = a.q.h - first < BLOCK ? a.q.h - first : BLOCK;
                const float *const q = a.q.data + at(a.q, s, head, first), *const slopes =
                                                                               a.dy + at(dy, s, head, first);
                unsigned seen = 0;
                for (int j = 0; j < n; j++)
                    seen |= (unsigned)(state_of(a, s, head, first + j, image).seen > s.row) << j;
                if (!seen)
                    continue;
                float x[BLOCK], g[BLOCK];
                products<BLOCK>(x, a.k.data + at(a.k, s, s.head, s.row), q, n, a.k.w);
                products<BLOCK>(g, a.v.data + at(a.v, s, s.head, s.row), slopes, n, a.v.w);
#pragma unroll
                for (int j = 0; j < BLOCK; j++)
                    if (seen >> j & 1) {
                        row_state of = state_of(a, s, head, first + j, image);
                        of.d = d[at(rows, s, head, first + j)];
                        slope(a, of, is_dropped(a, from, head, first + j, s.row), x[j], g[j]);
                    }
                gain<BLOCK>(to_k, g, q, seen, a.k.w, 1);
                gain<BLOCK>(to_v, x, slopes, seen, a.v.w, 1);
            }
        multiply(to_k, a.k.w, a.scale);
    }
}

attention attention_of(const ls_op_call *call, const ls_operand *q)
{
    const ls_attributes *how = call->attributes;
    attention a = {ls_map_of(q), ls_map_of(q + 1), ls_map_of(q + 2)};
    a.index = call->samples->index;
    a.seed = call->samples->seed;
    a.key = how->key;
    a.least = (uint64_t)ceil((double)how->rate * 0x1p53);
    a.scale = how->factor;
    a.rest = 1.0f / (1.0f - how->rate);
    a.causal = how->causal;
    return a;
}

size_t rows_of(ls_map m, const ls_cuda_shards *shards)
{
    return (size_t)ls_cuda_all_groups(shards) * m.c * m.h * LS_LANES;
}

} // namespace

void ls_cuda_lanes_attention(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    attention a = attention_of(call, &call->in[0]);
    a.lengths = call->in[3].data;
    const size_t n = rows_of(a.q, shards);
    forward<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(a, ls_map_of(&call->out[0]), call->out[1].data, n,
                                                               *shards);
}

void ls_cuda_lanes_attention_backward(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    attention a = attention_of(call, &call->in[1]);
    a.dy = call->in[0].data;
    a.y = call->in[4].data;
    a.saved = call->in[5].data;
    float *const d = (float *)call->scratch;
    const size_t rows = rows_of(a.q, shards), keys = rows_of(a.k, shards);
    backward_rows<<<ls_card_blocks(rows), LS_CARD_THREADS, 0, stream>>>(a, call->out[0].data, d, rows, *shards);
    backward_keys<<<ls_card_blocks(keys), LS_CARD_THREADS, 0, stream>>>(a, call->out[1].data, call->out[2].data, d,
                                                                        keys, *shards);
}

size_t ls_cuda_lanes_attention_scratch(const ls_op_call *call, const ls_cuda_shards *shards)
{
    const ls_map q = ls_map_of(&call->in[1]);
    return rows_of(q, shards) * sizeof(float);
}
