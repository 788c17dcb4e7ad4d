/* WINOGRAD, WINOGRAD_DATA and WINOGRAD_WEIGHT, phase by phase: U of the weights, V of the windows of what is read (or E
 * of the tiles of dy), a product for each of a tile's places, and the way back. A column is a lane of a tile; tiles are
 * numbered through all groups of all shards.
 *   U [distinct place][channel read][channel written], V and E [place][channel][column], M [place][channel][column]; of
 *   weights' gradients M [shard][distinct place][output][channel]
 * Where product.h makes the products, channels and columns are filled up to whole tiles. */
#include "device/cuda/lanes/numbers.cuh"
#include "device/cuda/lanes/product.h"
#include "device/cuda/lanes/steps.cuh"

namespace
{

/* A phase of an operation. */
typedef struct job {
    tiling map;
    ls_map x, y; /* what is read, with V or E of it, and what is written; of weights' gradients x and dy */
    int kernel, by_input, transposed, first, relu;
    bool by_tiles;     /* the products are product.h's */
    int x_c, y_c;      /* channels of V and E, as they are laid out */
    size_t tile_lanes; /* columns that are there, */
    size_t columns;    /* and as they are laid out */
    const float *bias;
    float *u, *v, *e, *m, *parts;
} job;

/* The steps along the rows of what those down the columns made, of `from` numbers, which give `made`: number b of row i
 * goes `place` times i * made + b behind `to`. */
typedef void steps(form, const float *, float *);
template <form ALONG, steps STEP>
__device__ __forceinline__ void store_rows(const float half[WINDOW][WINDOW], int rows, int from, int made, float *to,
                                           size_t place)
{
    LS_UNROLL
    for (int i = 0; i < rows; i++) {
        const line row = square_row(half[i], from);
        float out[WINDOW];
        STEP(ALONG, row.at, out);
        LS_UNROLL
        for (int b = 0; b < made; b++)
            to[(i * made + b) * place] = out[b];
    }
}

/* ---- U ---- */

template <form DOWN, form ALONG> __global__ void weights(job j, const float *w)
{
    const int out = (int)ls_line_piece(), in = (int)blockIdx.y, n = form_distinct(DOWN), k = form_distinct(ALONG);
    float *u = j.u + (size_t)in * j.y_c + out;
    const size_t place = (size_t)j.x_c * j.y_c;
    if (out >= j.y_c)
        return;
    if (out >= j.y.c || in >= j.x.c) {
        for (int i = 0; i < n * k; i++)
            u[i * place] = -0.0f;
        return;
    }
    const ls_winograd_axis &r = j.map.row, &c = j.map.column;
    const float *g = w + (j.by_input ? (size_t)in * j.y.c + out : (size_t)out * j.x.c + in) * j.kernel * j.kernel +
                     r.tap * j.kernel + c.tap;
    float half[WINDOW][WINDOW];
    LS_UNROLL
    for (int b = 0; b < form_taps(ALONG); b++) {
        const line taps = line_load(form_taps(DOWN), g + b * c.tap_step, r.tap_step * j.kernel);
        float to[WINDOW];
        winograd_weights(DOWN, taps.at, to);
        square_put(half, b, to, n);
    }
    store_rows<ALONG, winograd_weights>(half, n, form_taps(ALONG), k, u, place);
}

/* ---- V and E ---- */

/* A channel's map of the group of a column's tile, and where the tile begins. */
typedef struct view {
    float *map; /* at the lane */
    spot at;
} view;

__device__ inline view view_of(const job &j, ls_map of, size_t column, int channel)
{
    const spot s = spot_of(&j.map, (int)(column / LS_LANES));
    return {of.data + ls_map_at(of, s.group, channel, 0, 0) + column % LS_LANES, s};
}

__device__ inline bool is_inside(ls_map m, int row, int column)
{
    return row >= 0 && row < m.h && column >= 0 && column < m.w;
}

/* Of what is there to fill up tiles. */
__device__ void clear(float *v, size_t place, int places)
{
    for (int i = 0; i < places; i++)
        v[i * place] = 0;
}

template <form DOWN, form ALONG> __global__ void inputs(job j)
{
    const size_t column = ls_line_piece();
    const int channel = (int)blockIdx.y, n = form_window(DOWN), m = form_window(ALONG);
    float *v = j.v + channel * j.columns + column;
    const size_t place = j.x_c * j.columns;
    if (column >= j.columns)
        return;
    if (column >= j.tile_lanes || channel >= j.x.c) {
        clear(v, place, n * m);
        return;
    }
    const view x = view_of(j, j.x, column, channel);
    const ls_winograd_axis &r = j.map.row, &c = j.map.column;
    float half[WINDOW][WINDOW];
    LS_UNROLL
    for (int b = 0; b < m; b++) {
        float d[WINDOW], to[WINDOW];
        LS_UNROLL
        for (int i = 0; i < n; i++) {
            const int row = r.from + r.step * (x.at.top + i), q = c.from + c.step * (x.at.left + b);
            d[i] = is_inside(j.x, row, q) ? x.map[((size_t)row * j.x.w + q) * LS_LANES] : 0;
        }
        winograd_inputs(DOWN, d, to);
        square_put(half, b, to, n);
    }
    store_rows<ALONG, winograd_inputs>(half, n, m, m, v, place);
}

/* E of dy, which is `of`, laid out with so many channels. */
template <form DOWN, form ALONG> __global__ void slopes(job j, ls_map of, int channels, float *e)
{
    const size_t column = ls_line_piece(), place = channels * j.columns;
    const int channel = (int)blockIdx.y, n = form_window(DOWN), m = form_window(ALONG), side = form_tile(DOWN);
    e += channel * j.columns + column;
    if (column >= j.columns)
        return;
    if (column >= j.tile_lanes || channel >= of.c) {
        clear(e, place, n * m);
        return;
    }
    const view y = view_of(j, of, column, channel);
    float half[WINDOW][WINDOW];
    LS_UNROLL
    for (int b = 0; b < side; b++) {
        float s[WINDOW], to[WINDOW];
        LS_UNROLL
        for (int i = 0; i < side; i++) {
            const int row = y.at.top + i, q = y.at.left + b;
            s[i] = is_inside(of, row, q) ? y.map[((size_t)row * of.w + q) * LS_LANES] : 0;
        }
        winograd_slopes(DOWN, s, to);
        square_put(half, b, to, n);
    }
    store_rows<ALONG, winograd_slopes>(half, n, side, m, e, place);
}

/* ---- Products ---- */

/* M of a place, a channel written and a column, one by one. */
__global__ void multiply(job j)
{
    const size_t column = ls_line_piece();
    const int out = (int)blockIdx.y, place = (int)blockIdx.z;
    if (column >= j.columns)
        return;
    const float *u = j.u + (size_t)distinct_of(&j.map, place) * j.x_c * j.y_c + out;
    const float *v = j.v + (size_t)place * j.x_c * j.columns + column;
    float m = 0;
    for (int first = 0; first < j.x.c; first += LS_WINOGRAD_DEPTH) {
        const int end = j.x.c - first < LS_WINOGRAD_DEPTH ? j.x.c : first + LS_WINOGRAD_DEPTH;
        float r = 0;
        for (int c = first; c < end; c++)
            r = fmaf(u[(size_t)c * j.y_c], v[c * j.columns], r);
        m = first ? m + r : r;
    }
    j.m[((size_t)place * j.y_c + out) * j.columns + column] = m;
}

/* ---- Back from M ---- */

template <form DOWN, form ALONG> __global__ void products(job j)
{
    const size_t column = ls_line_piece();
    const int channel = (int)blockIdx.y, n = form_window(DOWN), k = form_window(ALONG), side = form_tile(DOWN);
    if (column >= j.tile_lanes)
        return;
    const float *m = j.m + channel * j.columns + column;
    const size_t place = j.y_c * j.columns;
    float half[WINDOW][WINDOW];
    LS_UNROLL
    for (int b = 0; b < k; b++) {
        const line of = line_load(n, m + b * place, k * place);
        float to[WINDOW];
        winograd_products(DOWN, of.at, to);
        square_put(half, b, to, side);
    }
    const view y = view_of(j, j.y, column, channel);
    const ls_winograd_axis &r = j.map.row, &c = j.map.column;
    const float bias = j.bias ? j.bias[channel] : 0;
    LS_UNROLL
    for (int i = 0; i < side; i++) {
        const line of = square_row(half[i], k);
        float to[WINDOW];
        winograd_products(ALONG, of.at, to);
        LS_UNROLL
        for (int b = 0; b < side; b++) {
            const int row = r.to + r.spread * (y.at.top + i), q = c.to + c.spread * (y.at.left + b);
            if (row >= j.y.h || q >= j.y.w)
                continue;
            float *const at = y.map + ((size_t)row * j.y.w + q) * LS_LANES;
            float sum = j.first || j.by_input ? to[b] : *at + to[b];
            sum = j.bias ? sum + bias : sum;
            *at = j.relu ? ls_relu(sum) : sum;
        }
    }
}

WINOGRAD_STEP void one_gradient(form, const float *from, float *to)
{
    winograd_gradients(from, to);
}

/* M of the gradient by tiles of dy becomes what each tile adds to its window of dx. */
__global__ void gradients(job j)
{
    const size_t column = ls_line_piece();
    const int channel = (int)blockIdx.y, n = form_window(F4X5);
    if (column >= j.tile_lanes)
        return;
    float *m = j.m + channel * j.columns + column;
    const size_t place = j.y_c * j.columns;
    float half[WINDOW][WINDOW];
    LS_UNROLL
    for (int b = 0; b < n; b++) {
        const line of = line_load(n, m + b * place, n * place);
        float to[WINDOW];
        winograd_gradients(of.at, to);
        square_put(half, b, to, n);
    }
    store_rows<F4X5, one_gradient>(half, n, n, n, m, place);
}

/* Tiles from `first` on reach a place, up to `last`, of `count` side by side. */
__device__ inline void tiles_over(int place, int from, int tile, int window, int count, int *first, int *last)
{
    const int at = place - from; /* tile t reads tile * t + [0, window) */
    *first = at < window ? 0 : (at - window + tile) / tile;
    *last = at / tile < count ? at / tile : count - 1;
}

/* A lane of a place of dx: what the tiles over it give, in their order. */
__global__ void gather(job j)
{
    const ls_map dx = j.y;
    const int channel = (int)blockIdx.y, group = (int)blockIdx.z, n = form_window(F4X5);
    const int lane = (int)(ls_line_piece() % LS_LANES), at = (int)(ls_line_piece() / LS_LANES), row = at / dx.w,
              q = at % dx.w;
    if (row >= dx.h)
        return;
    int top, bottom, left, right;
    tiles_over(row, j.map.row.from, j.map.tile, n, j.map.rows, &top, &bottom);
    tiles_over(q, j.map.column.from, j.map.tile, n, j.map.columns, &left, &right);
    float sum = 0;
    for (int a = top; a <= bottom; a++)
        for (int b = left; b <= right; b++) {
            const int i = row - j.map.row.from - a * j.map.tile, k = q - j.map.column.from - b * j.map.tile;
            const size_t tile = ((size_t)group * j.map.rows + a) * j.map.columns + b;
            const float *m = j.m + ((size_t)(i * n + k) * j.y_c + channel) * j.columns;
            sum = sum + m[tile * LS_LANES + lane];
        }
    dx.data[ls_map_at(dx, group, channel, row, q) + lane] = sum;
}

/* ---- Gradients of weights ---- */

/* M of a distinct place, an output and a channel of x, of a shard, one by one: runs of its tiles, and in a run the
 * places that share it. */
__global__ void weigh(job j, ls_cuda_shards shards, int run)
{
    const int c = (int)ls_line_piece(), o = (int)blockIdx.y, distinct = (int)blockIdx.z % j.map.distinct;
    const int shard = (int)blockIdx.z / j.map.distinct, map = j.map.rows * j.map.columns;
    if (c >= j.x.c)
        return;
    const size_t begin = (size_t)shard * ls_cuda_groups_of(shards.images) * map * LS_LANES;
    const size_t depth = (size_t)ls_cuda_groups_of(ls_cuda_images_in(&shards, shard)) * map * LS_LANES;
    float m = 0;
    for (size_t first = 0; first < depth; first += (size_t)run * LS_LANES)
        for (int place = 0; place < j.map.places; place++) {
            if (distinct_of(&j.map, place) != distinct)
                continue;
            const float *e = j.e + ((size_t)place * j.y_c + o) * j.columns + begin;
            const float *v = j.v + ((size_t)place * j.x_c + c) * j.columns + begin;
            float r = 0;
            for (size_t k = first; k < depth && k < first + (size_t)run * LS_LANES; k++)
                r = fmaf(e[k], v[k], r);
            m = m + r;
        }
    j.m[((size_t)blockIdx.z * j.y_c + o) * j.x_c + c] = m;
}

template <form DOWN, form ALONG> __global__ void sums(job j, float *dw, size_t step)
{
    const int c = (int)ls_line_piece(), o = (int)blockIdx.y, shard = (int)blockIdx.z;
    const int n = form_distinct(DOWN), k = form_distinct(ALONG);
    if (c >= j.x.c)
        return;
    const size_t pairs = (size_t)j.y_c * j.x_c, pair = (size_t)o * j.x.c + c;
    const float *m = j.m + (size_t)shard * j.map.distinct * pairs + (size_t)o * j.x_c + c;
    float half[WINDOW][WINDOW];
    LS_UNROLL
    for (int b = 0; b < k; b++) {
        const line of = line_load(n, m + b * pairs, k * pairs);
        float to[WINDOW];
        winograd_sums(DOWN, of.at, to);
        square_put(half, b, to, form_taps(DOWN));
    }
    const ls_winograd_axis &r = j.map.row, &q = j.map.column;
    float *g = dw + shard * step + pair * j.kernel * j.kernel + r.tap * j.kernel + q.tap;
    LS_UNROLL
    for (int i = 0; i < form_taps(DOWN); i++) {
        const line of = square_row(half[i], k);
        float to[WINDOW];
        winograd_sums(ALONG, of.at, to);
        LS_UNROLL
        for (int b = 0; b < form_taps(ALONG); b++)
            g[i * r.tap_step * j.kernel + b * q.tap_step] = to[b] + 0.0f; /* no -0 */
    }
}

/* ---- Launches ---- */

/* The map that decides on the size of tiles. */
const ls_operand *tiled_map(const ls_op_call *call)
{
    const ls_attributes *a = call->attributes;
    if (a->op == LS_OP_WINOGRAD_WEIGHT)
        return &call->in[1];
    const bool by_x = a->op == LS_OP_WINOGRAD_DATA && (a->kernel == 5 || a->stride > 1);
    return by_x ? &call->in[0] : &call->out[0];
}

/* Whether tiles of product.h are worth filling up. */
bool goes_by_tiles(const job *j, bool weighs, const ls_cuda_shards *shards)
{
    enum { LEAST = 128 }; /* pairs of channels */
    if ((size_t)j->x.c * j->y.c < LEAST)
        return false;
    return weighs ? ls_card_weighing_fits(shards->shared)
                  : ls_card_product_fits(j->x.c > LS_WINOGRAD_DEPTH, shards->shared);
}

void lay_out_channels(job *j, bool weighs)
{
    j->x_c = j->x.c;
    j->y_c = j->y.c;
    j->columns = j->tile_lanes;
    if (!j->by_tiles)
        return;
    j->x_c = (int)ls_product_up_to(j->x.c, weighs ? LS_PRODUCT_LINES : LS_PRODUCT_DEPTH);
    j->y_c = (int)ls_product_up_to(j->y.c, LS_PRODUCT_LINES);
    j->columns = weighs ? j->tile_lanes : ls_product_up_to(j->tile_lanes, LS_PRODUCT_COLUMNS);
}

ls_card_weighing weighing_of(const job &j, const ls_cuda_shards *shards)
{
    const int lanes = j.map.rows * j.map.columns * LS_LANES;
    const int window = form_window(j.map.along);
    const bool down = form_distinct(j.map.along) > 1; /* places that share a sum are a column, else a row, or all */
    const ptrdiff_t apart = (ptrdiff_t)(down ? window : 1) * j.columns;
    return {j.e,
            j.v,
            j.m,
            j.parts,
            j.y_c,
            j.x_c,
            shards->shards,
            ls_cuda_groups_of(shards->images) * lanes,
            ls_cuda_groups_of(shards->last) * lanes,
            (int)j.columns,
            ls_winograd_run(j.map.tile) * LS_LANES,
            j.map.distinct,
            down ? 1 : window,
            j.map.places / j.map.distinct,
            apart * j.y_c,
            apart * j.x_c};
}

/* Phase `number`, with its places in the scratch, whose floats are returned. */
size_t lay_out(job *j, const ls_op_call *call, const ls_cuda_shards *shards, int number)
{
    const ls_attributes *a = call->attributes;
    const bool weighs = a->op == LS_OP_WINOGRAD_WEIGHT, last = number + 1 == phases_of(a);
    *j = {};
    j->kernel = a->kernel;
    j->by_input = a->op == LS_OP_WINOGRAD_DATA;
    j->transposed = j->by_input && a->kernel == 5;
    const ls_operand *covered = weighs ? &call->in[1] : j->transposed ? &call->in[0] : &call->out[0];
    j->map = tiling_of(a, tiled_map(call), covered, j->by_input && !j->transposed, number);
    j->x = ls_map_of(&call->in[0]);
    j->y = ls_map_of(weighs ? &call->in[1] : &call->out[0]);
    j->first = number == 0;
    j->relu = a->op == LS_OP_WINOGRAD && last && a->fused_relu;
    j->bias = a->op == LS_OP_WINOGRAD && last ? call->in[2].data : NULL;
    j->tile_lanes = (size_t)ls_cuda_all_groups(shards) * j->map.rows * j->map.columns * LS_LANES;
    j->by_tiles = goes_by_tiles(j, weighs, shards);
    lay_out_channels(j, weighs);
    const size_t pairs = (size_t)j->x_c * j->y_c, places = (size_t)j->map.places;
    const size_t u = weighs ? 0 : j->map.distinct * pairs, v = places * j->x_c * j->columns;
    const size_t e = weighs ? places * j->y_c * j->columns : 0;
    const size_t m = weighs ? shards->shards * j->map.distinct * pairs : places * j->y_c * j->columns;
    const ls_card_weighing weighing = weighing_of(*j, shards);
    const size_t parts = weighs && j->by_tiles ? ls_card_weighing_parts(&weighing) : 0;
    j->u = (float *)call->scratch;
    if (j->u) {
        j->v = j->u + u;
        j->e = j->v + v;
        j->m = j->e + e;
        j->parts = j->m + m;
    }
    return u + v + e + m + parts;
}

void multiply_by_tiles(const job &j, const ls_cuda_shards *shards, cudaStream_t stream)
{
    ls_card_product p = {j.u, j.v, j.m, j.map.places, j.x_c, j.y_c, (int)j.columns, LS_WINOGRAD_DEPTH, NULL, {0}};
    for (int place = 0; place < p.places; place++)
        p.u_of[place] = (unsigned char)distinct_of(&j.map, place);
    ls_card_multiply(&p, shards->shared, stream);
}

void run_phase(const job &j, const float *w, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const dim3 pairs = ls_line_blocks(j.y_c, j.x_c, 1), read = ls_line_blocks(j.columns, j.x_c, 1);
    const dim3 written = ls_line_blocks(j.tile_lanes, j.y.c, 1);
#define WEIGHTS(down, along) weights<down, along><<<pairs, LS_LINE_THREADS, 0, stream>>>(j, w)
#define INPUTS(down, along)  inputs<down, along><<<read, LS_LINE_THREADS, 0, stream>>>(j)
#define OUTPUTS(down, along) products<down, along><<<written, LS_LINE_THREADS, 0, stream>>>(j)
    switch (pair_of(&j.map)) {
        EACH_PAIR(WEIGHTS)
    }
    if (j.transposed)
        slopes<F4X5, F4X5><<<read, LS_LINE_THREADS, 0, stream>>>(j, j.x, j.x_c, j.v);
    else
        switch (pair_of(&j.map)) {
            EACH_PAIR(INPUTS)
        }
    if (j.by_tiles)
        multiply_by_tiles(j, shards, stream);
    else
        multiply<<<ls_line_blocks(j.columns, j.y.c, j.map.places), LS_LINE_THREADS, 0, stream>>>(j);
    if (j.transposed) {
        gradients<<<written, LS_LINE_THREADS, 0, stream>>>(j);
        gather<<<ls_line_blocks(ls_map_places(j.y) * LS_LANES, j.y.c, ls_cuda_all_groups(shards)), LS_LINE_THREADS, 0,
                 stream>>>(j);
        return;
    }
    switch (pair_of(&j.map)) {
        EACH_PAIR(OUTPUTS)
    }
#undef WEIGHTS
#undef INPUTS
#undef OUTPUTS
}

void weigh_phase(const job &j, float *dw, const ls_cuda_shards *shards, cudaStream_t stream)
{
    /* Channels that fill up tiles may hold anything. */
    const dim3 of_x = ls_line_blocks(j.columns, j.x.c, 1), of_dy = ls_line_blocks(j.columns, j.y.c, 1);
    const dim3 taps = ls_line_blocks(j.x.c, j.y.c, shards->shards);
    const size_t step = shards->out_step[0];
#define INPUTS(down, along) inputs<down, along><<<of_x, LS_LINE_THREADS, 0, stream>>>(j)
#define SLOPES(down, along) slopes<down, along><<<of_dy, LS_LINE_THREADS, 0, stream>>>(j, j.y, j.y_c, j.e)
#define SUMS(down, along)   sums<down, along><<<taps, LS_LINE_THREADS, 0, stream>>>(j, dw, step)
    switch (pair_of(&j.map)) {
        EACH_PAIR(INPUTS)
    }
    switch (pair_of(&j.map)) {
        EACH_PAIR(SLOPES)
    }
    const ls_card_weighing by_tiles = weighing_of(j, shards);
    if (j.by_tiles)
        ls_card_weigh(&by_tiles, stream);
    else
        weigh<<<ls_line_blocks(j.x.c, j.y.c, shards->shards * j.map.distinct), LS_LINE_THREADS, 0, stream>>>(
            j, *shards, ls_winograd_run(j.map.tile));
    switch (pair_of(&j.map)) {
        EACH_PAIR(SUMS)
    }
#undef INPUTS
#undef SLOPES
#undef SUMS
}

} // namespace

size_t ls_cuda_lanes_winograd_scratch(const ls_op_call *call, const ls_cuda_shards *shards)
{
    size_t most = 0;
    for (int number = 0; number < phases_of(call->attributes); number++) {
        job j;
        ls_op_call no_data = *call;
        no_data.scratch = NULL;
        const size_t floats = lay_out(&j, &no_data, shards, number);
        most = floats > most ? floats : most;
    }
    return most * sizeof(float);
}

void ls_cuda_lanes_winograd(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    for (int number = 0; number < phases_of(call->attributes); number++) {
        job j;
        lay_out(&j, call, shards, number);
        if (j.tile_lanes > 0)
            run_phase(j, call->in[1].data, shards, stream);
    }
}

void ls_cuda_lanes_winograd_weight(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    for (int number = 0; number < phases_of(call->attributes); number++) {
        job j;
        lay_out(&j, call, shards, number);
        weigh_phase(j, call->out[0].data, shards, stream);
    }
}
