/* WINOGRAD and WINOGRAD_DATA: blocks of tiles, taken across rows and groups of images, go through a matrix product a
 * place. A strided convolution does so phase by phase, of which the later ones add to y.
 *
 * V of a block (E where the gradient is WINOGRAD transposed) is transformed once; a chunk of outputs' M stays in a
 * cache until its tiles are written to y. U is transformed once where it is small beside the tiles, else chunk by chunk
 * just before its use, so that it never travels to memory and back. */
#include "device/cpu/lanes/cut.h"
#include "device/cpu/lanes/winograd/winograd.h"

enum {
    TILES = 4,         /* of a block */
    PANEL = 16,        /* outputs that lie side by side in U */
    AHEAD = 2,         /* channels of x that are asked for in advance */
    SMALL_U = 4 << 20, /* bytes */
    MANY_V = 8 << 20,  /* bytes */
};

typedef struct winograd {
    const ls_operand *x, *y;
    const float *w, *bias;
    int by_input;   /* the gradient: w is [channels][outputs] */
    int transposed; /* the gradient from tiles of dy to windows of dx */
    int add;        /* to what earlier phases have written */
    int kernel, relu, channels, outputs, panels;
    int chunk; /* panels whose M is alive at once */
    tiling map;
    int tiles;
    int blocks, alive;          /* blocks of tiles, and how many have their V at a time */
    int ahead;                  /* all of U is made in advance */
    int many;                   /* y goes around the caches, where a vector is a whole line of them */
    ptrdiff_t u_place, u_panel; /* floats from place to place, and from panel to panel */
    ptrdiff_t v_place, v_block, m_place;
    float *u, *v, *m;
} winograd;

/* The map that decides on the size of tiles. */
static const ls_operand *tiled_map(const ls_op_call *call)
{
    const ls_attributes *a = call->attributes;
    const int by_x = a->op == LS_OP_WINOGRAD_DATA && (a->kernel == 5 || a->stride > 1);
    return by_x ? &call->in[0] : &call->out[0];
}

/* Whether all of U is made in advance, which decides on how the work is cut, alike for all phases: by the first one,
 * which has the most places. */
static int all_u_is_small(const ls_op_call *call)
{
    const tiling t = tiling_of(call->attributes, tiled_map(call), tiled_map(call), 0, 0);
    const size_t places = (size_t)((call->out[0].c + PANEL - 1) / PANEL) * t.distinct;
    return call->groups * t.rows * t.columns > TILES &&
           places * ((size_t)call->in[0].c * PANEL + LS_LANES) * sizeof(float) <= SMALL_U;
}

/* Returns the bytes of scratch. A line between the places keeps them out of each other's way in the caches. */
static size_t lay_out(winograd *j, const ls_op_call *call, int phase)
{
    const ls_attributes *a = call->attributes;
    const int last = phase + 1 == phases_of(a);
    *j = (winograd){.x = &call->in[0], .y = &call->out[0], .w = call->in[1].data};
    j->by_input = a->op == LS_OP_WINOGRAD_DATA;
    j->transposed = j->by_input && a->kernel == 5;
    j->add = !j->by_input && phase > 0;
    j->kernel = a->kernel;
    j->relu = !j->by_input && last && a->fused_relu;
    j->bias = j->by_input || !last ? NULL : call->in[2].data;
    j->channels = j->x->c;
    j->outputs = j->y->c;
    j->panels = (j->outputs + PANEL - 1) / PANEL;
    j->map = tiling_of(a, tiled_map(call), j->transposed ? j->x : j->y, j->by_input && !j->transposed, phase);
    j->chunk = a->kernel == 5 ? 1 : j->map.tile == 7 ? 2 : 4;
    j->many = LS_VL == 16 && a->stride == 1 && lanes_many(j->y, call->groups);
    j->tiles = call->groups * j->map.rows * j->map.columns;
    j->blocks = (j->tiles + TILES - 1) / TILES;

    j->u_place = (ptrdiff_t)j->channels * PANEL + LS_LANES;
    j->u_panel = j->map.distinct * j->u_place;
    j->v_place = ((ptrdiff_t)j->channels * TILES + 1) * LS_LANES;
    j->v_block = j->map.places * j->v_place;
    j->m_place = ((ptrdiff_t)j->chunk * PANEL * TILES + 1) * LS_LANES;

    const size_t all_u = (size_t)j->panels * j->u_panel * sizeof(float), block = (size_t)j->v_block * sizeof(float);
    j->ahead = all_u_is_small(call);
    j->alive = j->ahead || block >= MANY_V ? 1 : (int)(MANY_V / block);
    j->alive = j->alive < j->blocks ? j->alive : j->blocks;
    const size_t u = j->ahead ? all_u : j->chunk * (size_t)j->u_panel * sizeof(float);
    j->u = call->scratch;
    j->v = j->u ? j->u + u / sizeof(float) : NULL;
    j->m = j->u ? j->v + (ptrdiff_t)j->alive * j->v_block : NULL;
    return u + j->alive * block + (size_t)j->map.places * j->m_place * sizeof(float);
}

/* U of 16 outputs at one channel, from the first of its taps, which lie `row` and `column` floats apart. */
LS_INLINE void transform_weights(const form down, const form along, const float *g, ptrdiff_t row, ptrdiff_t column,
                                 float *u, ptrdiff_t u_place)
{
    const int n = form_distinct(down), m = form_distinct(along);
    for (int v = 0; v < PANEL; v += LS_VL, g += LS_VL, u += LS_VL) {
        square half;
        LS_ROLL
        for (int k = 0; k < form_taps(along); k++) {
            const line taps = line_load(form_taps(down), g + k * column, row);
            vf out[WINDOW];
            winograd_steps[down].weights(taps.at, out);
            square_put(half, k, out, n);
        }
        float *to = u;
        LS_ROLL
        for (int i = 0; i < n; i++, to += m * u_place) {
            const line taps = square_row(half[i], form_taps(along));
            vf out[WINDOW];
            winograd_steps[along].weights(taps.at, out);
            LS_UNROLL
            for (int k = 0; k < m; k++)
                vf_store(to + k * u_place, out[k]);
        }
    }
}

/* The same from g[kernel * kernel][16]. */
static void make_u(const winograd *j, const float *g, float *u)
{
    const ls_winograd_axis *r = &j->map.row, *c = &j->map.column;
    const ptrdiff_t row = (ptrdiff_t)r->tap_step * j->kernel * PANEL, column = (ptrdiff_t)c->tap_step * PANEL;
    g += ((ptrdiff_t)r->tap * j->kernel + c->tap) * PANEL;
#define WEIGHTS(down, along) transform_weights(down, along, g, row, column, u, j->u_place)
    switch (pair_of(&j->map)) {
        EACH_PAIR(WEIGHTS)
    }
#undef WEIGHTS
}

static void make_panel(const winograd *j, int panel, float *u)
{
    enum { AT_ONCE = 4 };
    float g[AT_ONCE * 25 * PANEL];
    const int first = panel * PANEL, outputs = j->outputs - first < PANEL ? j->outputs - first : PANEL;
    const int taps = j->kernel * j->kernel;
    lanes_clear(g, AT_ONCE * taps);
    for (int c = 0; c < j->channels; c += AT_ONCE) {
        const int some = j->channels - c < AT_ONCE ? j->channels - c : AT_ONCE;
        if (j->by_input)
            for (int k = 0; k < some; k++)
                lanes_turn(j->w + ((ptrdiff_t)(c + k) * j->outputs + first) * taps, taps, outputs, taps,
                           g + k * taps * PANEL, PANEL);
        else
            lanes_turn(j->w + ((ptrdiff_t)first * j->channels + c) * taps, (ptrdiff_t)j->channels * taps, outputs,
                       some * taps, g, PANEL);
        for (int k = 0; k < some; k++)
            make_u(j, g + k * taps * PANEL, u + (ptrdiff_t)(c + k) * PANEL);
    }
}

/* Tiles that the last block lacks are zeros, so that the products need no second shape. */
static void clear_tile(const winograd *j, float *v)
{
    for (int c = 0; c < j->channels; c++, v += TILES * LS_LANES)
        for (int k = 0; k < j->map.places; k++)
            lanes_clear(v + k * j->v_place, 1);
}

/* V of a block. */
static void make_block(const winograd *j, int first, int tiles, float *v)
{
    window a[TILES];
    for (int t = 0; t < tiles; t++)
        a[t] = window_of(&j->map, j->x, first + t);
    for (int c = 0; c < j->channels; c++, v += TILES * LS_LANES)
        for (int t = 0; t < tiles; t++) {
            if (c + AHEAD < j->channels)
                fetch_window(&a[t], AHEAD);
            transform_inputs(&j->map, &a[t], v + t * LS_LANES, j->v_place);
            if (c + 1 < j->channels)
                next_channel(&a[t]);
        }
}

/* E of a block. */
static void make_slopes(const winograd *j, int first, int tiles, float *v)
{
    const ptrdiff_t plane = (ptrdiff_t)j->x->h * j->x->w * LS_LANES;
    tile a[TILES];
    for (int t = 0; t < tiles; t++)
        a[t] = tile_of(&j->map, j->x, first + t);
    for (int c = 0; c < j->channels; c++, v += TILES * LS_LANES)
        for (int t = 0; t < tiles; t++)
            transform_slopes(&j->map, &a[t], a[t].at + c * plane, v + t * LS_LANES, j->v_place);
}

static void read_block(const winograd *j, int block, float *v)
{
    const int first = block * TILES, tiles = j->tiles - first < TILES ? j->tiles - first : TILES;
    if (j->transposed)
        make_slopes(j, first, tiles, v);
    else
        make_block(j, first, tiles, v);
    for (int t = tiles; t < TILES; t++)
        clear_tile(j, v + t * LS_LANES);
}

/* What is asked for in advance while a product is made: a line for each channel. */
typedef struct fetch {
    const float *at;
    ptrdiff_t step;
} fetch;

/* LS_OB outputs of pb vectors of a block at one place. */
LS_INLINE void product_run(const int pb, const float *u, const float *v, int depth, float *m, int go_on, fetch next)
{
    vf acc[LS_OB][LS_PB];
    LS_UNROLL
    for (int i = 0; i < LS_OB; i++)
        LS_UNROLL
    for (int k = 0; k < pb; k++)
        acc[i][k] = vf_zero();
    for (const float *last = u + (ptrdiff_t)depth * PANEL; u < last; u += PANEL, v += TILES * LS_LANES) {
        vf at[LS_PB];
        __builtin_prefetch(next.at);
        next.at += next.step;
        LS_UNROLL
        for (int k = 0; k < pb; k++)
            at[k] = vf_load(v + k * LS_VL);
        LS_UNROLL
        for (int i = 0; i < LS_OB; i++) {
            const vf weight = vf_set(u[i]);
            LS_UNROLL
            for (int k = 0; k < pb; k++)
                acc[i][k] = vf_fma(weight, at[k], acc[i][k]);
        }
    }
    LS_UNROLL
    for (int i = 0; i < LS_OB; i++)
        LS_UNROLL
    for (int k = 0; k < pb; k++) {
        float *at = m + i * TILES * LS_LANES + k * LS_VL;
        vf_store(at, go_on ? vf_load(at) + acc[i][k] : acc[i][k]);
    }
}

static void product(const float *u, const float *v, int depth, float *m, int go_on, fetch next)
{
    enum { VECTORS = TILES * LS_NV, WHOLE = VECTORS / LS_PB * LS_PB, REST = VECTORS % LS_PB };
    for (int k = 0; k < WHOLE; k += LS_PB)
        product_run(LS_PB, u, v + k * LS_VL, depth, m + k * LS_VL, go_on, next);
    if (REST)
        product_run(REST, u, v + WHOLE * LS_VL, depth, m + WHOLE * LS_VL, go_on, next);
}

/* What one of a place's products asks for: the first ones a tile each of V, the others a panel each of U. */
static fetch fetch_of(const winograd *j, int product, int panels, const float *u, const float *v)
{
    if (product < TILES)
        return (fetch){v + product * LS_LANES, TILES * LS_LANES};
    return (fetch){u + (product - TILES) % panels * j->u_panel, PANEL};
}

/* M of some outputs, the first of a panel, and one block of tiles. While some channels' products are made the next
 * ones' V and U are asked for, as those of all places are too much for the second cache. */
static void multiply(const winograd *j, const float *u, int outputs, const float *v)
{
    const int panels = (outputs + PANEL - 1) / PANEL;
    const float *all_u = u;
    for (int place = 0; place < j->map.places; place++, v += j->v_place) {
        float *m = j->m + place * j->m_place;
        const int last = place + 1 == j->map.places;
        u = all_u + distinct_of(&j->map, place) * j->u_place;
        for (int c = 0; c < j->channels; c += LS_WINOGRAD_DEPTH) {
            const int depth = j->channels - c < LS_WINOGRAD_DEPTH ? j->channels - c : LS_WINOGRAD_DEPTH;
            const int next = c + LS_WINOGRAD_DEPTH < j->channels ? c + LS_WINOGRAD_DEPTH : 0;
            const int next_place = next || last ? place : place + 1;
            const float *next_u = all_u + distinct_of(&j->map, next_place) * j->u_place + (ptrdiff_t)next * PANEL;
            const float *next_v = (next || last ? v : v + j->v_place) + (ptrdiff_t)next * TILES * LS_LANES;
            for (int o = 0; o < outputs; o += LS_OB)
                product(u + o / PANEL * j->u_panel + (ptrdiff_t)c * PANEL + o % PANEL,
                        v + (ptrdiff_t)c * TILES * LS_LANES, depth, m + o * TILES * LS_LANES, c > 0,
                        fetch_of(j, o / LS_OB, panels, next_u, next_v));
        }
    }
}

/* One output of one tile, its products `m_place` apart. */
LS_INLINE void transform_products(const form down, const form along, const winograd *j, const tile *a, const float *m,
                                  const int rows, const int columns, vf bias, float *y)
{
    const int n = form_window(down), k = form_window(along), side = form_tile(down);
    for (int v = 0; v < LS_LANES; v += LS_VL, m += LS_VL, y += LS_VL) {
        square half;
        LS_ROLL
        for (int c = 0; c < k; c++) {
            const line column = line_load(n, m + c * j->m_place, k * j->m_place);
            vf out[MOST_TILE];
            winograd_steps[down].products(column.at, out);
            square_put(half, c, out, side);
        }
        LS_ROLL
        for (int i = 0; i < side; i++) {
            const line row = square_row(half[i], k);
            vf out[MOST_TILE];
            winograd_steps[along].products(row.at, out);
            LS_UNROLL
            for (int c = 0; c < side; c++) {
                float *at = y + i * a->row + c * a->column;
                if (i >= rows || c >= columns)
                    continue;
                if (j->add)
                    out[c] = vf_load(at) + out[c];
                if (j->bias)
                    out[c] += bias;
                if (j->relu)
                    out[c] = vf_relu(out[c]);
                vf_put(at, out[c], j->many);
            }
        }
    }
}

/* A tile of 4 or 7 that lies inside the map needs no questions. */
LS_INLINE void write_outputs(const form down, const form along, const winograd *j, const tile *a, const float *m,
                             int output, int outputs)
{
    const ptrdiff_t plane = (ptrdiff_t)j->y->h * j->y->w * LS_LANES;
    const int side = form_tile(down), whole = a->rows == side && a->columns == side;
    for (int o = output; o < output + outputs; o++, m += TILES * LS_LANES) {
        const vf bias = vf_set(j->bias ? j->bias[o] : 0.0f);
        if (whole)
            transform_products(down, along, j, a, m, side, side, bias, a->at + o * plane);
        else
            transform_products(down, along, j, a, m, a->rows, a->columns, bias, a->at + o * plane);
    }
}

static void write_tile(const winograd *j, int number, const float *m, int output, int outputs)
{
    const tile a = tile_of(&j->map, j->y, number);
#define OUTPUTS(down, along) write_outputs(down, along, j, &a, m, output, outputs)
    switch (pair_of(&j->map)) {
        EACH_PAIR(OUTPUTS)
    }
#undef OUTPUTS
}

/* Rows and columns of a window of dx that lie inside the map. */
typedef struct inside {
    int top, bottom, left, right;
} inside;

/* One output of one tile of dy, added to its window of dx, which begins at place `first`. */
LS_INLINE void transform_gradients(const winograd *j, const float *m, const inside in, float *dx, ptrdiff_t first)
{
    const int n = form_window(F4X5);
    for (int v = 0; v < LS_LANES; v += LS_VL, m += LS_VL, dx += LS_VL) {
        square half;
        LS_ROLL
        for (int c = 0; c < n; c++) {
            const line column = line_load(n, m + c * j->m_place, n * j->m_place);
            vf out[WINDOW];
            winograd_gradients(column.at, out);
            square_put(half, c, out, n);
        }
        LS_ROLL
        for (int i = 0; i < n; i++) {
            const line row = square_row(half[i], n);
            vf out[WINDOW];
            winograd_gradients(row.at, out);
            LS_UNROLL
            for (int c = 0; c < n; c++)
                if (i >= in.top && i < in.bottom && c >= in.left && c < in.right) {
                    float *at = dx + (first + (ptrdiff_t)i * j->y->w + c) * LS_LANES;
                    vf_store(at, vf_load(at) + out[c]);
                }
        }
    }
}

static void add_window(const winograd *j, int number, const float *m, int output, int outputs)
{
    const ls_operand *dx = j->y;
    const spot s = spot_of(&j->map, number);
    const int top = s.top + j->map.row.from, left = s.left + j->map.column.from;
    const int down = dx->h - top, right = dx->w - left;
    const int n = form_window(F4X5);
    const inside whole = {0, n, 0, n};
    const inside part = {top < 0 ? -top : 0, down < n ? down : n, left < 0 ? -left : 0, right < n ? right : n};
    const ptrdiff_t first = (ptrdiff_t)top * dx->w + left;
    const int is_whole = !part.top && part.bottom == n && !part.left && part.right == n;
    for (int o = output; o < output + outputs; o++, m += TILES * LS_LANES) {
        float *plane = dx->data + ((ptrdiff_t)s.group * dx->c + o) * dx->h * dx->w * LS_LANES;
        if (s.top == 0 && s.left == 0)
            lanes_clear(plane, dx->h * dx->w);
        if (is_whole)
            transform_gradients(j, m, whole, plane, first);
        else
            transform_gradients(j, m, part, plane, first);
    }
}

static void write_block(const winograd *j, int block, int output, int outputs)
{
    for (int t = 0; t < TILES && block * TILES + t < j->tiles; t++)
        if (j->transposed)
            add_window(j, block * TILES + t, j->m + t * LS_LANES, output, outputs);
        else
            write_tile(j, block * TILES + t, j->m + t * LS_LANES, output, outputs);
}

/* Blocks that must be in one part, where parts are of blocks: U is small, so that each part makes all of it. 0 where
 * parts are of panels, each with its own U: the tiles are few, or overlap in dx and share a block with another
 * map's. */
static int blocks_together(const winograd *j)
{
    const int map = j->map.rows * j->map.columns;
    if (!j->ahead || (j->transposed && map % TILES))
        return 0;
    return j->transposed ? map / TILES : 1;
}

static void run_phase(const ls_op_call *call, int phase)
{
    winograd j;
    lay_out(&j, call, phase);
    const int together = blocks_together(&j);
    const range all_blocks = {0, j.blocks}, all_panels = {0, j.panels};
    const range mine = together ? range_by(call, j.blocks, together) : all_blocks;
    const range wide = together ? all_panels : range_by(call, j.panels, j.chunk);
    for (int p = wide.from; j.ahead && p < wide.to; p++)
        make_panel(&j, p, j.u + p * j.u_panel);
    for (int block = mine.from; block < mine.to; block += j.alive) {
        const int blocks = mine.to - block < j.alive ? mine.to - block : j.alive;
        for (int b = 0; b < blocks; b++)
            read_block(&j, block + b, j.v + b * j.v_block);
        for (int panel = wide.from; panel < wide.to; panel += j.chunk) {
            const int panels = wide.to - panel < j.chunk ? wide.to - panel : j.chunk;
            const int output = panel * PANEL, left = j.outputs - output;
            const int outputs = left < panels * PANEL ? left : panels * PANEL;
            for (int p = 0; !j.ahead && p < panels; p++)
                make_panel(&j, panel + p, j.u + p * j.u_panel);
            for (int b = 0; b < blocks; b++) {
                multiply(&j, j.u + (j.ahead ? panel * j.u_panel : 0), outputs, j.v + b * j.v_block);
                write_block(&j, block + b, output, outputs);
            }
        }
    }
    lanes_streamed();
}

static void run(const ls_op_call *call)
{
    for (int phase = 0; phase < phases_of(call->attributes); phase++)
        run_phase(call, phase);
}

int LANES(ls_lanes_winograd_units)(const ls_op_call *call)
{
    winograd j;
    ls_op_call no_data = *call;
    no_data.scratch = NULL;
    lay_out(&j, &no_data, 0);
    const int together = blocks_together(&j);
    return together ? j.blocks / together : (j.panels + j.chunk - 1) / j.chunk;
}

size_t LANES(ls_lanes_winograd_scratch)(const ls_op_call *call)
{
    size_t most = 0;
    for (int phase = 0; phase < phases_of(call->attributes); phase++) {
        winograd j;
        ls_op_call no_data = *call;
        no_data.scratch = NULL;
        const size_t bytes = lay_out(&j, &no_data, phase);
        most = bytes > most ? bytes : most;
    }
    return most;
}

void LANES(ls_lanes_add_winograd)(ls_backend *backend)
{
    backend->kernel[LS_OP_WINOGRAD] = run;
    backend->kernel[LS_OP_WINOGRAD_DATA] = run;
}
