/* WINOGRAD, WINOGRAD_DATA and WINOGRAD_WEIGHT: `winograd.h` as plain C. */
#include <string.h>

#include "device/ref/ref.h"

typedef float winograd_number;

static inline float winograd_fma(float a, float b, float c)
{
    return fmaf(a, b, c);
}

#include "device/winograd_steps.h"

enum { MOST = LS_WINOGRAD_WINDOW, PLACES = LS_WINOGRAD_PLACES };

/* One phase: what it reads and writes in both dimensions, and how. */
typedef struct phase {
    ls_winograd_axis row, column;
    form down, along; /* of rows, and of columns */
    int places, distinct;
} phase;

/* The map that is cut into tiles; with a stride the tiles are those of y or dy in any case, as quarters of dx are as
 * large. */
static const ls_operand *tiled_map(const ls_op_call *call)
{
    const ls_attributes *a = call->attributes;
    if (a->op == LS_OP_WINOGRAD_DATA)
        return a->kernel == 3 && a->stride == 1 ? &call->out[0] : &call->in[0];
    return a->op == LS_OP_WINOGRAD ? &call->out[0] : &call->in[1];
}

static int tile_of(const ls_op_call *call)
{
    const ls_operand *map = tiled_map(call);
    return ls_winograd_tile(call->attributes->kernel, call->attributes->stride, map->h, map->w);
}

/* WINOGRAD_DATA from tiles of dy to windows of dx. */
static int transposed(const ls_op_call *call)
{
    return call->attributes->op == LS_OP_WINOGRAD_DATA && call->attributes->kernel == 5;
}

static int phases(const ls_op_call *call)
{
    int one = call->attributes->stride;
    return one * one;
}

static phase phase_of(const ls_op_call *call, int number)
{
    const ls_attributes *a = call->attributes;
    int is_data = a->op == LS_OP_WINOGRAD_DATA && !transposed(call), tile = tile_of(call);
    const ls_operand *map = is_data ? &call->out[0] : tiled_map(call);
    int one = a->stride;
    phase p = {.row = ls_winograd_axis_of(a->kernel, a->stride, a->padding, tile, map->h, is_data, number / one),
               .column = ls_winograd_axis_of(a->kernel, a->stride, a->padding, tile, map->w, is_data, number % one)};
    p.down = form_of(p.row.taps, tile);
    p.along = form_of(p.column.taps, tile);
    p.places = form_window(p.down) * form_window(p.along);
    p.distinct = form_distinct(p.down) * form_distinct(p.along);
    return p;
}

/* The U of a place. */
static int distinct_of(const phase *p, int place)
{
    int i = place / form_window(p->along), k = place % form_window(p->along);
    return (form_distinct(p->down) > 1 ? i : 0) * form_distinct(p->along) + (form_distinct(p->along) > 1 ? k : 0);
}

/* In two dimensions, from in_h x in_w numbers to out_h x out_w: down the columns, then along the rows. */
static void transform(winograd_step *down, winograd_step *along, int in_h, int in_w, int out_h, int out_w,
                      const float *from, float *to)
{
    float line[MOST], half[MOST][MOST]; /* half: by column */
    for (int column = 0; column < in_w; column++) {
        for (int row = 0; row < in_h; row++)
            line[row] = from[row * in_w + column];
        down(line, half[column]);
    }
    for (int row = 0; row < out_h; row++) {
        for (int column = 0; column < in_w; column++)
            line[column] = half[column][row];
        along(line, to + row * out_w);
    }
}

/* The map that is read has `in` channels, the one that is written `out`; U is [out][in][distinct], V [in][places]. */
typedef struct winograd {
    const ls_op_call *call;
    phase phase;
    float *u, *v;
} winograd;

static void fill_u(const winograd *job)
{
    const ls_op_call *call = job->call;
    const phase *p = &job->phase;
    int in = call->in[0].c, out = call->out[0].c, kernel = call->attributes->kernel;
    int by_input = call->attributes->op == LS_OP_WINOGRAD_DATA; /* w is [in][out] */
    for (int o = 0; o < out; o++) {
        for (int c = 0; c < in; c++) {
            const float *g = call->in[1].data + (by_input ? (size_t)c * out + o : (size_t)o * in + c) * kernel * kernel;
            float own[PLACES];
            for (int i = 0; i < p->row.taps; i++)
                for (int k = 0; k < p->column.taps; k++)
                    own[i * p->column.taps + k] =
                        g[(p->row.tap + i * p->row.tap_step) * kernel + p->column.tap + k * p->column.tap_step];
            transform(winograd_steps[p->down].weights, winograd_steps[p->along].weights, p->row.taps, p->column.taps,
                      form_distinct(p->down), form_distinct(p->along), own,
                      job->u + ((size_t)o * in + c) * p->distinct);
        }
    }
}

/* V of the window whose tile is at (top, left). */
static void transform_window(const phase *p, const ls_operand *x, int group, int lane, int c, int top, int left,
                             float *v)
{
    float d[PLACES];
    for (int i = 0; i < p->places; i++) {
        int row = p->row.from + p->row.step * (top + i / form_window(p->along));
        int column = p->column.from + p->column.step * (left + i % form_window(p->along));
        d[i] = ls_ref_tap(x, group, c, row, column)[lane];
    }
    transform(winograd_steps[p->down].inputs, winograd_steps[p->along].inputs, form_window(p->down),
              form_window(p->along), form_window(p->down), form_window(p->along), d, v);
}

/* E of the tile at (top, left) of dy. */
static void transform_tile(const phase *p, const ls_operand *dy, int group, int lane, int o, int top, int left,
                           float *e)
{
    float s[MOST * MOST];
    int tile = form_tile(p->down);
    for (int i = 0; i < tile * tile; i++)
        s[i] = ls_ref_tap(dy, group, o, top + i / tile, left + i % tile)[lane];
    transform(winograd_steps[p->down].slopes, winograd_steps[p->along].slopes, tile, tile, form_window(p->down),
              form_window(p->along), s, e);
}

/* M of one channel of the output. */
static void multiply(const winograd *job, int channel, float *m)
{
    const phase *p = &job->phase;
    int in = job->call->in[0].c;
    const float *u = job->u + (size_t)channel * in * p->distinct;
    for (int i = 0; i < p->places; i++) {
        for (int first = 0; first < in; first += LS_WINOGRAD_DEPTH) {
            float r = 0;
            for (int c = first; c < in && c < first + LS_WINOGRAD_DEPTH; c++)
                r = fmaf(u[c * p->distinct + distinct_of(p, i)], job->v[c * p->places + i], r);
            m[i] = first ? m[i] + r : r;
        }
    }
}

/* Writes a tile; a convolution's later phases add to what the first has written. */
static void run_tile(const winograd *job, int number, int group, int lane, int top, int left)
{
    const ls_operand *x = &job->call->in[0], *y = &job->call->out[0];
    const phase *p = &job->phase;
    int forward = job->call->attributes->op == LS_OP_WINOGRAD, tile = form_tile(p->down);
    const float *bias = forward && number + 1 == phases(job->call) ? job->call->in[2].data : NULL;
    int relu = forward && number + 1 == phases(job->call) && job->call->attributes->fused_relu;
    for (int c = 0; c < x->c; c++)
        transform_window(p, x, group, lane, c, top, left, job->v + (size_t)c * p->places);
    for (int channel = 0; channel < y->c; channel++) {
        float m[PLACES], o[MOST * MOST];
        multiply(job, channel, m);
        transform(winograd_steps[p->down].products, winograd_steps[p->along].products, form_window(p->down),
                  form_window(p->along), tile, tile, m, o);
        for (int i = 0; i < tile * tile; i++) {
            int row = p->row.to + p->row.spread * (top + i / tile);
            int column = p->column.to + p->column.spread * (left + i % tile);
            if (ls_ref_inside(y, row, column)) {
                float *at = ls_ref_at(y, group, channel, row, column) + lane;
                float sum = forward && number ? *at + o[i] : o[i];
                sum = bias ? sum + bias[channel] : sum;
                *at = relu ? ls_ref_relu_of(sum) : sum;
            }
        }
    }
}

/* Adds the gradients of a tile of dy to its window of dx. */
static void spread_tile(const winograd *job, int number, int group, int lane, int top, int left)
{
    const ls_operand *dy = &job->call->in[0], *dx = &job->call->out[0];
    const phase *p = &job->phase;
    int window = form_window(p->down);
    (void)number;
    for (int o = 0; o < dy->c; o++)
        transform_tile(p, dy, group, lane, o, top, left, job->v + (size_t)o * p->places);
    for (int channel = 0; channel < dx->c; channel++) {
        float m[PLACES], d[PLACES];
        multiply(job, channel, m);
        transform(winograd_gradients, winograd_gradients, window, window, window, window, m, d);
        for (int i = 0; i < p->places; i++) {
            int row = top + p->row.from + i / window, column = left + p->column.from + i % window;
            if (ls_ref_inside(dx, row, column)) {
                float *at = ls_ref_at(dx, group, channel, row, column) + lane;
                *at = *at + d[i];
            }
        }
    }
}

typedef void one_tile(const winograd *job, int number, int group, int lane, int top, int left);

/* Over all tiles of a phase. */
static void run_phase(const winograd *job, one_tile *run, int number)
{
    int tile = form_tile(job->phase.down);
    fill_u(job);
    for (int group = 0; group < job->call->groups; group++)
        for (int lane = 0; lane < ls_ref_lanes(job->call, group); lane++)
            for (int top = 0; top < job->phase.row.size; top += tile)
                for (int left = 0; left < job->phase.column.size; left += tile)
                    run(job, number, group, lane, top, left);
}

static size_t most_places(const ls_op_call *call)
{
    phase p = phase_of(call, 0); /* which has the most taps */
    return p.places;
}

size_t ls_ref_winograd_scratch(const ls_op_call *call)
{
    return ((size_t)call->out[0].c + 1) * call->in[0].c * most_places(call) * sizeof(float);
}

void ls_ref_winograd(const ls_op_call *call)
{
    const ls_operand *y = &call->out[0];
    winograd job = {.call = call, .u = call->scratch};
    job.v = job.u + (size_t)y->c * call->in[0].c * most_places(call);
    for (size_t i = 0; i < ls_ref_size(call, y); i++)
        y->data[i] = 0;
    for (int number = 0; number < phases(call); number++) {
        job.phase = phase_of(call, number);
        run_phase(&job, transposed(call) ? spread_tile : run_tile, number);
    }
}

/* One run's products of a tile, added to r[o][c][places]; e and v have room for one image's of all channels. */
static void add_tile(const ls_op_call *call, const phase *p, int tile, float *r, float *e, float *v)
{
    const ls_operand *x = &call->in[0], *dy = &call->in[1];
    int side = form_tile(p->down), columns = (dy->w + side - 1) / side, map = (dy->h + side - 1) / side * columns;
    int group = tile / map, top = tile % map / columns * side, left = tile % columns * side;
    for (int lane = 0; lane < ls_ref_lanes(call, group); lane++) {
        for (int o = 0; o < dy->c; o++)
            transform_tile(p, dy, group, lane, o, top, left, e + (size_t)o * p->places);
        for (int c = 0; c < x->c; c++)
            transform_window(p, x, group, lane, c, top, left, v + (size_t)c * p->places);
        for (size_t pair = 0; pair < (size_t)dy->c * x->c; pair++) {
            for (int i = 0; i < p->places; i++) {
                size_t o = pair / x->c, c = pair % x->c, at = pair * p->places + i;
                r[at] = fmaf(e[o * p->places + i], v[c * p->places + i], r[at]);
            }
        }
    }
}

size_t ls_ref_winograd_weight_scratch(const ls_op_call *call)
{
    size_t in = call->in[0].c, out = call->in[1].c;
    return (2 * in * out + in + out) * most_places(call) * sizeof(float);
}

/* The taps of one phase. */
static void weigh(const ls_op_call *call, const phase *p)
{
    const ls_operand *dy = &call->in[1];
    size_t pairs = (size_t)call->in[0].c * dy->c, sums = pairs * p->places;
    float *m = call->scratch, *r = m + sums, *e = r + sums, *v = e + (size_t)dy->c * p->places;
    int side = form_tile(p->down), kernel = call->attributes->kernel, run = ls_winograd_run(side);
    int tiles = call->groups * ((dy->h + side - 1) / side) * ((dy->w + side - 1) / side);
    memset(m, 0, sums * sizeof *m);
    for (int tile = 0; tile < tiles; tile += run) {
        memset(r, 0, sums * sizeof *r);
        for (int i = tile; i < tiles && i < tile + run; i++)
            add_tile(call, p, i, r, e, v);
        for (size_t i = 0; i < sums; i++) { /* where places share a U they come one after another */
            float *sum = m + i / p->places * p->distinct + distinct_of(p, (int)(i % p->places));
            *sum = *sum + r[i];
        }
    }
    for (size_t pair = 0; pair < pairs; pair++) {
        float g[PLACES];
        transform(winograd_steps[p->down].sums, winograd_steps[p->along].sums, form_distinct(p->down),
                  form_distinct(p->along), p->row.taps, p->column.taps, m + pair * p->distinct, g);
        for (int i = 0; i < p->row.taps; i++) {
            for (int k = 0; k < p->column.taps; k++) {
                int tap = (p->row.tap + i * p->row.tap_step) * kernel + p->column.tap + k * p->column.tap_step;
                call->out[0].data[pair * kernel * kernel + tap] = g[i * p->column.taps + k] + 0.0f; /* no -0 */
            }
        }
    }
}

void ls_ref_winograd_weight(const ls_op_call *call)
{
    for (int number = 0; number < phases(call); number++) {
        phase p = phase_of(call, number);
        weigh(call, &p);
    }
}
