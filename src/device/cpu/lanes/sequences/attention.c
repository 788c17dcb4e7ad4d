/* Attention: a tile of rows and a block of keys at a time, sixteen images side by side. What pairs of them are made of
 * lies in scratch: [row][key][lane]. */
#include <string.h>

#include "device/cpu/lanes/cut.h"
#include "device/cpu/lanes/drawn.h"
#include "device/cpu/lanes/plane.h"
#include "device/cpu/lanes/sequences/product.h"
#include "device/cpu/lanes/softmax.h"

enum { ROWS = 8, PAIR_FLOATS = ROWS * LS_KEY_BLOCK * LS_LANES };
enum { OF_ROW = LS_KEY_BLOCK * LS_LANES }; /* floats from a row's pairs to the next one's */

/* The heads of one group that share keys and values, and the tile and the block that are at work. */
typedef struct heads {
    const ls_op_call *call;
    const ls_operand *q, *k, *v;
    int group, lanes, shared, each;
    int first, rows, key, keys;        /* the tile's first row, the block's first key, and how many they are */
    int seen[ROWS][LS_LANES], least;   /* keys that a row sees, and the fewest */
    uint16_t bits[ROWS][LS_KEY_BLOCK]; /* lanes in which a row sees a key; told where some do not */
    float rest;
    uint64_t limit; /* 0: nothing is dropped */
    drawn_streams streams;
} heads;

static heads heads_of(const ls_op_call *call, const ls_operand *q, int group, int shared)
{
    const float rate = call->attributes->rate;
    heads a = {.call = call,
               .q = q,
               .k = q + 1,
               .v = q + 2,
               .group = group,
               .lanes = lanes_of_group(call->samples->count, group),
               .shared = shared,
               .each = q->c / q[1].c,
               .rest = 1.0f / (1.0f - rate),
               .limit = drawn_limit(rate)};
    if (a.limit)
        a.streams = drawn_streams_of(call, group, a.lanes);
    return a;
}

/* A row of a channel of the group. */
LS_INLINE float *row_at(const heads *a, const ls_operand *x, int channel, int row)
{
    return x->data + (((ptrdiff_t)a->group * x->c + channel) * x->h + row) * x->w * LS_LANES;
}

/* x = rows of a times rows of b, for the tile and the block. */
static void score(const heads *a, const ls_operand *rows, int head, const ls_operand *keys, float *x)
{
    const ptrdiff_t row = (ptrdiff_t)rows->w * LS_LANES;
    const product p = {.a = row_at(a, rows, head, a->first),
                       .b = row_at(a, keys, a->shared, a->key),
                       .y = x,
                       .a_row = row,
                       .a_inner = LS_LANES,
                       .b_inner = LS_LANES,
                       .b_column = row,
                       .y_row = OF_ROW,
                       .inner = rows->w,
                       .lanes = LS_LANES};
    product_rows(PRODUCT, &p, 0, a->rows, a->keys);
}

static void add(const heads *a, const product *p, int rows, int columns)
{
    if (a->least >= a->key + a->keys)
        product_rows(PRODUCT_ADDS, p, 0, rows, columns);
    else
        product_rows(PRODUCT_MASKED, p, 0, rows, columns);
}

/* The tile's rows of y gain the block's rows of x, each by the weight of its pair. */
static void add_to_rows(const heads *a, const float *weights, const ls_operand *x, const ls_operand *y, int head)
{
    const ptrdiff_t row = (ptrdiff_t)x->w * LS_LANES;
    const product p = {.a = weights,
                       .b = row_at(a, x, a->shared, a->key),
                       .y = row_at(a, y, head, a->first),
                       .a_row = OF_ROW,
                       .a_inner = LS_LANES,
                       .b_inner = row,
                       .b_column = LS_LANES,
                       .y_row = row,
                       .inner = a->keys,
                       .lanes = LS_LANES,
                       .bits = a->bits[0],
                       .bits_row = LS_KEY_BLOCK,
                       .bits_inner = 1};
    add(a, &p, a->rows, x->w);
}

/* The block's rows of y gain the tile's rows of x. */
static void add_to_keys(const heads *a, const float *weights, const ls_operand *x, const ls_operand *y, int head)
{
    const ptrdiff_t row = (ptrdiff_t)x->w * LS_LANES;
    const product p = {.a = weights,
                       .b = row_at(a, x, head, a->first),
                       .y = row_at(a, y, a->shared, a->key),
                       .a_row = LS_LANES,
                       .a_inner = OF_ROW,
                       .b_inner = row,
                       .b_column = LS_LANES,
                       .y_row = row,
                       .inner = a->rows,
                       .lanes = LS_LANES,
                       .bits = a->bits[0],
                       .bits_row = 1,
                       .bits_inner = LS_KEY_BLOCK};
    add(a, &p, a->keys, x->w);
}

static void begin_tile(heads *a, int first)
{
    a->first = first;
    a->rows = a->q->h - first < ROWS ? a->q->h - first : ROWS;
}

/* The most keys that one of the tile's rows sees. */
static int count_seen(heads *a)
{
    int most = 0;
    a->least = a->k->h;
    for (int r = 0; r < a->rows; r++)
        for (int lane = 0; lane < LS_LANES; lane++) {
            most = a->seen[r][lane] > most ? a->seen[r][lane] : most;
            a->least = a->seen[r][lane] < a->least ? a->seen[r][lane] : a->least;
        }
    return most;
}

/* The block from a key on, up to the most that a row sees. */
static void begin_block(heads *a, int key, int most)
{
    a->key = key;
    a->keys = most - key < LS_KEY_BLOCK ? most - key : LS_KEY_BLOCK;
    if (a->least >= key + a->keys)
        return;
    for (int r = 0; r < a->rows; r++)
        for (int j = 0; j < a->keys; j++) {
            unsigned bits = 0;
            for (int lane = 0; lane < LS_LANES; lane++)
                bits |= (unsigned)(a->seen[r][lane] > key + j) << lane;
            a->bits[r][j] = (uint16_t)bits;
        }
}

/* What a pair's weight becomes where dropout takes it. */
LS_INLINE void drop(const heads *a, int head, int r, int j, float w[LS_LANES])
{
    const uint64_t row = (uint64_t)head * (uint64_t)a->q->h + (uint64_t)(a->first + r);
    uint64_t number[LS_LANES];
    drawn_numbers(&a->streams, row * (uint64_t)a->k->h + (uint64_t)(a->key + j), number);
    for (int lane = 0; lane < LS_LANES; lane++)
        w[lane] = number[lane] >= a->limit ? w[lane] : 0.0f;
}

/* A row's largest number and sum so far. */
typedef struct row_state {
    float m[LS_LANES], s[LS_LANES];
} row_state;

/* Whether there are keys of the block that a row of the tile does not see; a->bits tells which. */
LS_INLINE int is_masked(const heads *a)
{
    return a->least < a->key + a->keys;
}

LS_INLINE vm sees(const heads *a, int row, int j, int v)
{
    return is_masked(a) ? vm_of_bits(a->bits[row][j], v) : vm_first(LS_LANES - v);
}

/* Multiplies a row's scores by the scale; b: the largest number so far that each lane sees. */
LS_INLINE void scale_row(const heads *a, int row, float *x, const row_state *state, float b[LS_LANES])
{
    const vf scale = vf_set(a->call->attributes->factor);
    LS_UNROLL
    for (int v = 0; v < LS_LANES; v += LS_VL) {
        vf most = a->key ? vf_load(state->m + v) : vf_load(x + v) * scale;
        for (int j = 0; j < a->keys; j++) {
            float *const at = x + (ptrdiff_t)j * LS_LANES + v;
            const vf one = vf_load(at) * scale;
            vf_store(at, one);
            most = vf_select(sees(a, row, j, v) & vm_greater(one, most), one, most);
        }
        vf_store(b + v, most);
    }
}

/* Makes exponentials of a row's scores, which become the weights; r is what everything before is multiplied by. */
static void weigh(const heads *a, int head, int row, float *x, row_state *state, float r[LS_LANES])
{
    float b[LS_LANES], change[LS_LANES];
    scale_row(a, row, x, state, b);
    if (a->key) {
        float before[LS_LANES];
        memcpy(before, state->m, sizeof before);
        softmax_exp(change, before, b);
    }
    LS_UNROLL
    for (int v = 0; v < LS_LANES; v += LS_VL) {
        const vf by = a->key ? vf_select(sees(a, row, 0, v), vf_load(change + v), vf_set(1)) : vf_set(1);
        vf_store(r + v, by);
        vf_store(state->s + v, vf_load(state->s + v) * by);
    }
    for (int j = 0; j < a->keys; j++) {
        float one[LS_LANES], w[LS_LANES];
        memcpy(one, x + (ptrdiff_t)j * LS_LANES, sizeof one);
        softmax_exp(w, one, b);
        LS_UNROLL
        for (int v = 0; v < LS_LANES; v += LS_VL) {
            const vf seen = vf_keep(sees(a, row, j, v), vf_load(w + v));
            vf_store(state->s + v, vf_load(state->s + v) + seen);
            vf_store(x + (ptrdiff_t)j * LS_LANES + v, seen);
        }
    }
    for (int j = 0; j < a->keys && a->limit; j++)
        drop(a, head, row, j, x + (ptrdiff_t)j * LS_LANES);
    memcpy(state->m, b, sizeof b);
}

LS_INLINE void multiply_row(float *y, int numbers, const float by[LS_LANES])
{
    for (int i = 0; i < numbers; i++)
        for (int v = 0; v < LS_LANES; v += LS_VL)
            vf_store(y + (ptrdiff_t)i * LS_LANES + v, vf_load(y + (ptrdiff_t)i * LS_LANES + v) * vf_load(by + v));
}

static void end_row(const heads *a, int head, int r, const row_state *state)
{
    const ls_operand *y = &a->call->out[0], *saved = &a->call->out[1];
    const int all = a->q->c, row = a->first + r;
    float by[LS_LANES];
    float *m = row_at(a, saved, head, row), *inv = row_at(a, saved, all + head, row);
    float *n = row_at(a, saved, 2 * all + head, row);
    for (int lane = 0; lane < LS_LANES; lane++) {
        const int seen = a->seen[r][lane];
        const float over = 1.0f / state->s[lane];
        m[lane] = seen ? state->m[lane] : 0.0f;
        inv[lane] = seen ? over : 0.0f;
        n[lane] = (float)seen;
        by[lane] = inv[lane] * a->rest;
    }
    multiply_row(row_at(a, y, head, row), y->w, by);
}

static void attend(heads *a, int head, int first, float *x)
{
    const ls_operand *y = &a->call->out[0], *lengths = &a->call->in[3];
    const int keys = a->k->h, own = lengths->data && a->q->h == keys;
    row_state state[ROWS];
    float r[LS_LANES];
    begin_tile(a, first);
    for (int i = 0; i < a->rows; i++)
        for (int lane = 0; lane < LS_LANES; lane++) {
            const int known = lengths->data ? ls_attention_keys(row_at(a, lengths, 0, 0)[lane], keys) : keys;
            const int before = lane < a->lanes ? known : 0;
            a->seen[i][lane] = ls_attention_seen(a->call->attributes->causal, own, before, first + i);
        }
    memset(state, 0, sizeof state);
    lanes_clear(row_at(a, y, head, first), a->rows * y->w);
    for (int key = 0, most = count_seen(a); key < most; key += LS_KEY_BLOCK) {
        begin_block(a, key, most);
        score(a, a->q, head, a->k, x);
        for (int i = 0; i < a->rows; i++) {
            weigh(a, head, i, x + (ptrdiff_t)i * OF_ROW, &state[i], r);
            if (key)
                multiply_row(row_at(a, y, head, first + i), y->w, r);
        }
        add_to_rows(a, x, a->v, y, head);
    }
    for (int i = 0; i < a->rows; i++)
        end_row(a, head, i, &state[i]);
}

static int tiles_of(const ls_operand *q)
{
    return (q->h + ROWS - 1) / ROWS;
}

static void attention(const ls_op_call *call)
{
    const ls_operand *q = &call->in[0];
    const int tiles = tiles_of(q), each = q->c / q[1].c;
    const range mine = range_of(call, call->groups * q->c * tiles);
    for (int i = mine.from, end; i < mine.to; i = end) { /* head by head */
        const int head = i / tiles % q->c;
        heads a = heads_of(call, q, i / tiles / q->c, head / each);
        end = (i / tiles + 1) * tiles < mine.to ? (i / tiles + 1) * tiles : mine.to;
        for (int tile = i; tile < end; tile++)
            attend(&a, head, tile % tiles * ROWS, call->scratch);
    }
}

/* ---- Backward ---- */

/* Of a row: x, the scores, become w and g, the gradients of the weights, become z. */
static void slope(const heads *a, int head, int row, float *x, float *g)
{
    const ls_operand *dy = &a->call->in[0], *y = &a->call->in[4], *saved = &a->call->in[5];
    const float *m = row_at(a, saved, head, a->first + row), *inv = row_at(a, saved, a->q->c + head, a->first + row);
    const float *from = row_at(a, dy, head, a->first + row), *to = row_at(a, y, head, a->first + row);
    const float scale = a->call->attributes->factor;
    const vf rest = vf_set(a->rest);
    float d[LS_LANES], largest[LS_LANES];
    for (int v = 0; v < LS_LANES; v += LS_VL) {
        vf sum = vf_zero();
        for (ptrdiff_t i = 0; i < y->w; i++)
            sum = vf_fma(vf_load(from + i * LS_LANES + v), vf_load(to + i * LS_LANES + v), sum);
        vf_store(d + v, sum);
    }
    memcpy(largest, m, sizeof largest);
    for (int j = 0; j < a->keys; j++, x += LS_LANES, g += LS_LANES) {
        float kept[LS_LANES], scaled[LS_LANES], p[LS_LANES];
        for (int lane = 0; lane < LS_LANES; lane++) {
            kept[lane] = 1.0f;
            scaled[lane] = x[lane] * scale;
        }
        if (a->limit)
            drop(a, head, row, j, kept);
        softmax_exp(p, scaled, largest);
        LS_UNROLL
        for (int v = 0; v < LS_LANES; v += LS_VL) {
            const vm there = vm_greater(vf_load(kept + v), vf_zero());
            const vf weight = vf_load(p + v) * vf_load(inv + v);
            const vf slope_of_weight = vf_keep(there, vf_load(g + v) * rest);
            vf_store(x + v, vf_keep(there, weight * rest));
            vf_store(g + v, weight * (slope_of_weight - vf_load(d + v)));
        }
    }
}

/* The block's rows of the gradients, from all heads that share it; those of q gain theirs. */
static void add_slopes(heads *a, int head, int first, int key, float *x)
{
    const ls_operand *saved = &a->call->in[5];
    float *const g = x + PAIR_FLOATS;
    begin_tile(a, first);
    for (int i = 0; i < a->rows; i++)
        for (int lane = 0; lane < LS_LANES; lane++) {
            const float n = row_at(a, saved, 2 * a->q->c + head, first + i)[lane];
            a->seen[i][lane] = lane < a->lanes ? ls_attention_keys(n, a->k->h) : 0;
        }
    const int most = count_seen(a);
    if (most <= key)
        return;
    begin_block(a, key, most);
    score(a, a->q, head, a->k, x);
    score(a, &a->call->in[0], head, a->v, g);
    for (int i = 0; i < a->rows; i++)
        slope(a, head, i, x + (ptrdiff_t)i * OF_ROW, g + (ptrdiff_t)i * OF_ROW);
    add_to_rows(a, g, a->k, &a->call->out[0], head);
    add_to_keys(a, g, a->q, &a->call->out[1], head);
    add_to_keys(a, x, &a->call->in[0], &a->call->out[2], head);
}

static void multiply_channel(const heads *a, const ls_operand *x, int channel, float factor)
{
    float by[LS_LANES];
    for (int lane = 0; lane < LS_LANES; lane++)
        by[lane] = factor;
    multiply_row(row_at(a, x, channel, 0), x->h * x->w, by);
}

static void attention_backward(const ls_op_call *call)
{
    const ls_operand *q = &call->in[1], *k = &call->in[2];
    const ls_operand *dq = &call->out[0], *dk = &call->out[1], *dv = &call->out[2];
    const range mine = range_of(call, call->groups * k->c);
    for (int i = mine.from; i < mine.to; i++) {
        heads a = heads_of(call, q, i / k->c, i % k->c);
        const int from = a.shared * a.each, to = from + a.each;
        lanes_clear(row_at(&a, dq, from, 0), a.each * dq->h * dq->w);
        lanes_clear(row_at(&a, dk, a.shared, 0), dk->h * dk->w);
        lanes_clear(row_at(&a, dv, a.shared, 0), dv->h * dv->w);
        for (int key = 0; key < k->h; key += LS_KEY_BLOCK)
            for (int head = from; head < to; head++)
                for (int first = 0; first < q->h; first += ROWS)
                    add_slopes(&a, head, first, key, call->scratch);
        for (int head = from; head < to; head++)
            multiply_channel(&a, dq, head, call->attributes->factor);
        multiply_channel(&a, dk, a.shared, call->attributes->factor);
    }
}

size_t LANES(ls_lanes_attention_scratch)(const ls_op_call *call)
{
    return (call->attributes->op == LS_OP_ATTENTION ? 1 : 2) * PAIR_FLOATS * sizeof(float);
}

int LANES(ls_lanes_attention_units)(const ls_op_call *call)
{
    const int backward = call->attributes->op == LS_OP_ATTENTION_BACKWARD;
    return call->groups * (backward ? call->in[2].c : call->in[0].c * tiles_of(&call->in[0]));
}

void LANES(ls_lanes_add_attention)(ls_backend *backend)
{
    backend->kernel[LS_OP_ATTENTION] = attention;
    backend->kernel[LS_OP_ATTENTION_BACKWARD] = attention_backward;
}
