/* LSTM and GRU, token after token, sixteen images side by side. The weights are read once for each token and a tile of
 * images: forward the gates of a feature, backward LS_OB features, by up to LS_PB vectors of images, stay in the
 * registers until what comes of the sums is stored. */
#include <math.h>

#include "device/recurrent.h"
#include "device/cpu/lanes/cut.h"
#include "device/cpu/lanes/plane.h"

/* A call; vectors are counted over all groups, LS_NV to each. */
typedef struct layer {
    const ls_op_call *call;
    const ls_operand *p, *y, *saved, *da, *dy;
    const float *weights, *bias;
    float *ends, *carries; /* scratch: of each group how many tokens count, [16], and [feature][16] */
    int tokens, h, stride;
} layer;

/* A vector of an operand that has so many rows a token. */
LS_INLINE float *vector_at(const layer *l, const ls_operand *o, int vector, int token, int row)
{
    const ptrdiff_t group = vector / LS_NV, place = (group * l->tokens + token) * o->h + row;
    return o->data + place * LS_LANES + vector % LS_NV * LS_VL;
}

/* Whether the token counts, lane by lane; -1 tokens are a length that is none. */
LS_INLINE vf ends_of(const layer *l, int vector)
{
    return vf_load(l->ends + (ptrdiff_t)vector * LS_VL);
}

LS_INLINE vm counts_at(const layer *l, int vector, int token)
{
    return vm_greater(ends_of(l, vector), vf_set((float)token));
}

LS_INLINE void sigmoids(float *x, const int n)
{
    for (int i = 0; i < n; i++)
        x[i] = ls_sigmoidf(x[i]);
}

LS_INLINE void tangents(float *x, const int n)
{
    for (int i = 0; i < n; i++)
        x[i] = ls_tanhf(x[i]);
}

/* ---- Forward ---- */

/* The gates of a feature from their sums, and what they make. */
LS_INLINE void finish(const int lstm, const layer *l, const vf *a, int unit, int vector, int token, int before)
{
    const int gates = lstm ? LS_LSTM_GATES : LS_GRU_GATES, h = l->h;
    const vm counts = counts_at(l, vector, token);
    vf p[LS_LSTM_GATES], made;
    float x[LS_LSTM_GATES * LS_VL];
    for (int q = 0; q < gates; q++)
        p[q] = vf_load(vector_at(l, l->p, vector, token, q * h + unit));
    for (int q = 0; q < gates; q++)
        vf_store(x + q * LS_VL, p[q] + a[q]);
    sigmoids(x, 2 * LS_VL);
    const vf first = vf_load(x), second = vf_load(x + LS_VL);
    float *const saved = vector_at(l, l->saved, vector, token, unit);
    const ptrdiff_t row = (ptrdiff_t)h * LS_LANES;
    vf_store(saved, vf_keep(counts, first));
    vf_store(saved + row, vf_keep(counts, second));
    if (lstm) {
        tangents(x + 2 * LS_VL, LS_VL);
        sigmoids(x + 3 * LS_VL, LS_VL);
        const vf g = vf_load(x + 2 * LS_VL), o = vf_load(x + 3 * LS_VL);
        const vf last = before < 0 ? vf_zero() : vf_load(vector_at(l, l->saved, vector, before, 4 * h + unit));
        const vf c = vf_fma(second, last, first * g);
        vf_store(saved + 2 * row, vf_keep(counts, g));
        vf_store(saved + 3 * row, vf_keep(counts, o));
        vf_store(saved + 4 * row, vf_keep(counts, c));
        vf_store(x, c);
        tangents(x, LS_VL);
        made = o * vf_load(x);
    } else {
        vf_store(x, vf_fma(first, a[2], p[2]));
        tangents(x, LS_VL);
        const vf n = vf_load(x), last = before < 0 ? vf_zero() : vf_load(vector_at(l, l->y, vector, before, unit));
        vf_store(saved + 2 * row, vf_keep(counts, n));
        vf_store(saved + 3 * row, vf_keep(counts, a[2]));
        made = vf_fma(second, last - n, n);
    }
    const vm none = vm_greater(vf_zero(), ends_of(l, vector));
    vf_store(vector_at(l, l->y, vector, token, unit), vf_select(none, vf_set(NAN), vf_keep(counts, made)));
}

LS_INLINE void forward_tile(const int lstm, const int columns, const layer *l, int vector, int token, int before)
{
    const int gates = lstm ? LS_LSTM_GATES : LS_GRU_GATES, h = l->h;
    const float *from[LS_PB];
    for (int j = 0; j < columns; j++)
        from[j] = vector_at(l, l->y, vector + j, before < 0 ? token : before, 0);
    for (int unit = 0; unit < h; unit++) {
        vf a[LS_PB][LS_LSTM_GATES];
        const float *w[LS_LSTM_GATES];
        LS_UNROLL
        for (int q = 0; q < gates; q++) {
            w[q] = l->weights + ((ptrdiff_t)q * h + unit) * h;
            LS_UNROLL
            for (int j = 0; j < columns; j++)
                a[j][q] = vf_set(l->bias ? l->bias[q * h + unit] : 0);
        }
        for (int k = 0; before >= 0 && k < h; k++)
            LS_UNROLL
        for (int j = 0; j < columns; j++) {
            const vf y = vf_load(from[j] + (ptrdiff_t)k * LS_LANES);
            LS_UNROLL
            for (int q = 0; q < gates; q++)
                a[j][q] = vf_fma(vf_set(w[q][k]), y, a[j][q]);
        }
        for (int j = 0; j < columns; j++)
            finish(lstm, l, a[j], unit, vector + j, token, before);
    }
}

/* ---- Backward ---- */

/* The gradients of a feature's gates from u, the sum over those of the token that comes after it. */
LS_INLINE void finish_back(const int lstm, const layer *l, vf u, int unit, int vector, int token, int before, int after)
{
    const int h = l->h;
    const vm counts = counts_at(l, vector, token);
    const ptrdiff_t row = (ptrdiff_t)h * LS_LANES;
    float *const carried = l->carries + ((ptrdiff_t)(vector / LS_NV) * h + unit) * LS_LANES + vector % LS_NV * LS_VL;
    const float *const saved = vector_at(l, l->saved, vector, token, unit);
    float *const dp = vector_at(l, l->p, vector, token, unit);
    const vf dy = vf_load(vector_at(l, l->dy, vector, token, unit)), d = after < 0 ? dy : dy + u;
    const vf one = vf_set(1), first = vf_load(saved), second = vf_load(saved + row), third = vf_load(saved + 2 * row);
    if (lstm) {
        const vf o = vf_load(saved + 3 * row), carry = after < 0 ? vf_zero() : vf_load(carried);
        const vf last = before < 0 ? vf_zero() : vf_load(vector_at(l, l->saved, vector, before, 4 * h + unit));
        float x[LS_VL];
        vf_store(x, vf_load(saved + 4 * row));
        tangents(x, LS_VL);
        const vf q = vf_load(x), e = vf_fma(d * o, vf_fma(-q, q, one), carry);
        vf_store(dp, vf_keep(counts, (e * third) * (first * (one - first))));
        vf_store(dp + row, vf_keep(counts, (e * last) * (second * (one - second))));
        vf_store(dp + 2 * row, vf_keep(counts, (e * first) * vf_fma(-third, third, one)));
        vf_store(dp + 3 * row, vf_keep(counts, (d * q) * (o * (one - o))));
        vf_store(carried, vf_keep(counts, e * second));
        return;
    }
    float *const da = vector_at(l, l->da, vector, token, unit);
    const vf a = vf_load(saved + 3 * row);
    const vf last = before < 0 ? vf_zero() : vf_load(vector_at(l, l->y, vector, before, unit));
    const vf dn = (d * (one - second)) * vf_fma(-third, third, one);
    const vf dz = vf_keep(counts, (d * (last - third)) * (second * (one - second)));
    const vf dr = vf_keep(counts, (dn * a) * (first * (one - first)));
    vf_store(dp, dr);
    vf_store(dp + row, dz);
    vf_store(dp + 2 * row, vf_keep(counts, dn));
    vf_store(da, dr);
    vf_store(da + row, dz);
    vf_store(da + 2 * row, vf_keep(counts, dn * first));
    vf_store(carried, vf_keep(counts, d * second));
}

LS_INLINE void backward_units(const int lstm, const int units, const int columns, const layer *l, int unit, int vector,
                              int token, int before, int after)
{
    const int h = l->h, rows = l->da->h;
    const float *from[LS_PB];
    vf u[LS_PB][LS_OB];
    for (int j = 0; j < columns; j++) {
        const ptrdiff_t group = (vector + j) / LS_NV, lane = (vector + j) % LS_NV * LS_VL;
        from[j] = vector_at(l, l->da, vector + j, after < 0 ? token : after, 0);
        for (int i = 0; i < units; i++)
            u[j][i] = lstm || after < 0 ? vf_zero() : vf_load(l->carries + (group * h + unit + i) * LS_LANES + lane);
    }
    const float *w = l->weights + unit;
    for (int r = 0; after >= 0 && r < rows; r++, w += h)
        LS_UNROLL
    for (int j = 0; j < columns; j++) {
        const vf slope = vf_load(from[j] + (ptrdiff_t)r * LS_LANES);
        LS_UNROLL
        for (int i = 0; i < units; i++)
            u[j][i] = vf_fma(vf_set(w[i]), slope, u[j][i]);
    }
    for (int j = 0; j < columns; j++)
        for (int i = 0; i < units; i++)
            finish_back(lstm, l, u[j][i], unit + i, vector + j, token, before, after);
}

LS_INLINE void backward_tile(const int lstm, const int columns, const layer *l, int vector, int token, int before,
                             int after)
{
    int unit = 0;
    for (; unit + LS_OB <= l->h; unit += LS_OB)
        backward_units(lstm, LS_OB, columns, l, unit, vector, token, before, after);
    for (; unit < l->h; unit++)
        backward_units(lstm, 1, columns, l, unit, vector, token, before, after);
}

/* ---- Both ---- */

/* Tiles of three widths, each a function by itself: all in one would have a frame as large as all of them. `after` is
 * -1 in a forward pass. */
typedef void tile_of(const layer *l, int vector, int token, int before, int after);
enum { MIDDLE = LS_PB > 4 ? 4 : 1 };

#define FORWARD(name, lstm, columns)                                                                                   \
    static void name(const layer *l, int vector, int token, int before, int after)                                     \
    {                                                                                                                  \
        (void)after;                                                                                                   \
        forward_tile(lstm, columns, l, vector, token, before);                                                         \
    }
#define BACKWARD(name, lstm, columns)                                                                                  \
    static void name(const layer *l, int vector, int token, int before, int after)                                     \
    {                                                                                                                  \
        backward_tile(lstm, columns, l, vector, token, before, after);                                                 \
    }
#define TILES(name, way, lstm)                                                                                         \
    way(name##_wide, lstm, LS_PB) way(name##_middle, lstm, MIDDLE)                                                     \
        way(name##_one, lstm, 1) static tile_of *const name[] = {name##_wide, name##_middle, name##_one};

TILES(lstm_forward, FORWARD, 1)
TILES(gru_forward, FORWARD, 0)
TILES(lstm_backward, BACKWARD, 1)
TILES(gru_backward, BACKWARD, 0)

/* A token of the groups from one on. */
static void tiles(tile_of *const of[3], const layer *l, range groups, int token, int before, int after)
{
    int vector = groups.from * LS_NV;
    const int end = groups.to * LS_NV;
    for (; vector + LS_PB <= end; vector += LS_PB)
        of[0](l, vector, token, before, after);
    for (; vector + MIDDLE <= end; vector += MIDDLE)
        of[1](l, vector, token, before, after);
    for (; vector < end; vector++)
        of[2](l, vector, token, before, after);
}

static void count_tokens(const layer *l, const ls_operand *lengths, range groups)
{
    for (int group = groups.from; group < groups.to; group++)
        for (int lane = 0; lane < LS_LANES; lane++) {
            const ptrdiff_t at = (ptrdiff_t)group * LS_LANES + lane;
            const int image = lane < lanes_of_group(l->call->samples->count, group);
            l->ends[at] = (float)ls_tokens_in(lengths->data ? lengths->data + at : NULL, l->tokens, image);
        }
}

/* The token that the forward pass comes to after so many, -1 for none. */
LS_INLINE int token_at(const layer *l, int nth)
{
    return nth < 0 || nth >= l->tokens ? -1 : l->stride > 0 ? nth : l->tokens - 1 - nth;
}

static void recurrent(const ls_op_call *call)
{
    const ls_operand *y = &call->out[0];
    const layer l = {.call = call,
                     .p = &call->in[0],
                     .weights = call->in[1].data,
                     .bias = call->in[2].data,
                     .y = y,
                     .saved = &call->out[1],
                     .ends = call->scratch,
                     .tokens = y->c,
                     .h = y->h,
                     .stride = call->attributes->stride};
    const range groups = range_of(call, call->groups);
    count_tokens(&l, &call->in[3], groups);
    for (int nth = 0; nth < l.tokens; nth++)
        tiles(call->attributes->op == LS_OP_LSTM ? lstm_forward : gru_forward, &l, groups, token_at(&l, nth),
              token_at(&l, nth - 1), -1);
}

static void recurrent_backward(const ls_op_call *call)
{
    const int lstm = call->attributes->op == LS_OP_LSTM_BACKWARD;
    const ls_operand *dy = &call->in[0];
    const layer l = {.call = call,
                     .p = &call->out[0],
                     .weights = call->in[2].data,
                     .y = &call->in[4],
                     .saved = &call->in[1],
                     .da = &call->out[lstm ? 0 : 1],
                     .dy = dy,
                     .ends = call->scratch,
                     .carries = (float *)call->scratch + (ptrdiff_t)call->groups * LS_LANES,
                     .tokens = dy->c,
                     .h = dy->h,
                     .stride = call->attributes->stride};
    const range groups = range_of(call, call->groups);
    count_tokens(&l, &call->in[3], groups);
    for (int nth = l.tokens - 1; nth >= 0; nth--)
        tiles(lstm ? lstm_backward : gru_backward, &l, groups, token_at(&l, nth), token_at(&l, nth - 1),
              token_at(&l, nth + 1));
}

size_t LANES(ls_lanes_recurrent_scratch)(const ls_op_call *call)
{
    const ls_op op = call->attributes->op;
    const size_t carries = op == LS_OP_LSTM_BACKWARD || op == LS_OP_GRU_BACKWARD ? (size_t)call->in[0].h : 0;
    return (size_t)call->groups * LS_LANES * (1 + carries) * sizeof(float);
}

void LANES(ls_lanes_add_recurrent)(ls_backend *backend)
{
    backend->kernel[LS_OP_LSTM] = backend->kernel[LS_OP_GRU] = recurrent;
    backend->kernel[LS_OP_LSTM_BACKWARD] = backend->kernel[LS_OP_GRU_BACKWARD] = recurrent_backward;
}
