/* Winograd F(4x4, 3x3) and F(4x4, 5x5): `winograd.h` as plain C. */
#include "device/winograd.h"

#include <string.h>

#include "device/ref/ref.h"

enum { TILE = LS_WINOGRAD_TILE, PLACES = LS_WINOGRAD_PLACES };

/* The one-dimensional steps work on numbers `step` apart, in and out. */
typedef void transform(const float *from, int from_step, float *to, int to_step);

static void weights_3(const float *g, int g_step, float *u, int u_step)
{
    float g0 = g[0], g1 = g[g_step], g2 = g[2 * g_step];
    float s = g0 + g2, q = fmaf(4, g2, g0);
    u[0 * u_step] = g0 * 0.25f;
    u[1 * u_step] = (s + g1) * LS_WINOGRAD_SIXTH;
    u[2 * u_step] = (s - g1) * LS_WINOGRAD_SIXTH;
    u[3 * u_step] = fmaf(2, g1, q) * LS_WINOGRAD_24TH;
    u[4 * u_step] = fmaf(-2, g1, q) * LS_WINOGRAD_24TH;
    u[5 * u_step] = g2;
}

static void inputs_3(const float *d, int d_step, float *v, int v_step)
{
    float d0 = d[0], d1 = d[d_step], d2 = d[2 * d_step], d3 = d[3 * d_step], d4 = d[4 * d_step], d5 = d[5 * d_step];
    float p = fmaf(-4, d2, d4), q = fmaf(-4, d1, d3), r = d4 - d2, s = 2 * (d3 - d1);
    v[0 * v_step] = fmaf(4, d0, fmaf(-5, d2, d4));
    v[1 * v_step] = p + q;
    v[2 * v_step] = p - q;
    v[3 * v_step] = r + s;
    v[4 * v_step] = r - s;
    v[5 * v_step] = fmaf(4, d1, fmaf(-5, d3, d5));
}

static void products_3(const float *m, int m_step, float *o, int o_step)
{
    float m0 = m[0], m1 = m[m_step], m2 = m[2 * m_step], m3 = m[3 * m_step], m4 = m[4 * m_step], m5 = m[5 * m_step];
    float a = m1 + m2, b = m1 - m2, c = m3 + m4, d = m3 - m4;
    o[0 * o_step] = (m0 + a) + c;
    o[1 * o_step] = fmaf(2, d, b);
    o[2 * o_step] = fmaf(4, c, a);
    o[3 * o_step] = fmaf(8, d, b) + m5;
}

static void slopes_3(const float *s, int s_step, float *e, int e_step)
{
    float s0 = s[0], s1 = s[s_step], s2 = s[2 * s_step], s3 = s[3 * s_step];
    float a = s0 + s2, b = s1 + s3, c = fmaf(4, s2, s0), d = fmaf(4, s3, s1);
    e[0 * e_step] = s0;
    e[1 * e_step] = a + b;
    e[2 * e_step] = a - b;
    e[3 * e_step] = fmaf(2, d, c);
    e[4 * e_step] = fmaf(-2, d, c);
    e[5 * e_step] = s3;
}

static void sums_3(const float *m, int m_step, float *g, int g_step)
{
    float m0 = m[0], m1 = m[m_step], m2 = m[2 * m_step], m3 = m[3 * m_step], m4 = m[4 * m_step], m5 = m[5 * m_step];
    float a = m1 + m2, b = m1 - m2, c = m3 + m4, d = m3 - m4;
    g[0 * g_step] = fmaf(LS_WINOGRAD_24TH, c, fmaf(LS_WINOGRAD_SIXTH, a, m0 * 0.25f));
    g[1 * g_step] = fmaf(LS_WINOGRAD_12TH, d, b * LS_WINOGRAD_SIXTH);
    g[2 * g_step] = fmaf(-LS_WINOGRAD_SIXTH, c - a, m5);
}

static void weights_5(const float *g, int g_step, float *u, int u_step)
{
    float g0 = g[0], g1 = g[g_step], g2 = g[2 * g_step], g3 = g[3 * g_step], g4 = g[4 * g_step];
    float s = (g0 + g2) + g4, t = g1 + g3, q = fmaf(16, g4, fmaf(4, g2, g0)), r = fmaf(4, g3, g1);
    float h = fmaf(0.0625f, g4, fmaf(0.25f, g2, g0)), l = fmaf(0.25f, g3, g1);
    u[0 * u_step] = g0;
    u[1 * u_step] = (s + t) * LS_WINOGRAD_NINTHS;
    u[2 * u_step] = (s - t) * LS_WINOGRAD_NINTHS;
    u[3 * u_step] = fmaf(2, r, q) * LS_WINOGRAD_90TH;
    u[4 * u_step] = fmaf(-2, r, q) * LS_WINOGRAD_90TH;
    u[5 * u_step] = fmaf(0.5f, l, h) * LS_WINOGRAD_45THS;
    u[6 * u_step] = fmaf(-0.5f, l, h) * LS_WINOGRAD_45THS;
    u[7 * u_step] = g4;
}

static void inputs_5(const float *d, int d_step, float *v, int v_step)
{
    float d0 = d[0], d1 = d[d_step], d2 = d[2 * d_step], d3 = d[3 * d_step];
    float d4 = d[4 * d_step], d5 = d[5 * d_step], d6 = d[6 * d_step], d7 = d[7 * d_step];
    float a = fmaf(-4.25f, d4, d2 + d6), b = fmaf(-4.25f, d3, d1 + d5);
    float c = fmaf(0.25f, d2, fmaf(-1.25f, d4, d6)), k = fmaf(0.5f, d1, fmaf(-2.5f, d3, d5 * 2));
    float e = fmaf(4, d2, fmaf(-5, d4, d6)), f = fmaf(2, d1, fmaf(-2.5f, d3, d5 * 0.5f));
    v[0 * v_step] = fmaf(5.25f, d4 - d2, d0 - d6);
    v[1 * v_step] = a + b;
    v[2 * v_step] = a - b;
    v[3 * v_step] = c + k;
    v[4 * v_step] = c - k;
    v[5 * v_step] = e + f;
    v[6 * v_step] = e - f;
    v[7 * v_step] = fmaf(5.25f, d3 - d5, d7 - d1);
}

static void products_5(const float *m, int m_step, float *o, int o_step)
{
    float m0 = m[0], m1 = m[m_step], m2 = m[2 * m_step], m3 = m[3 * m_step];
    float m4 = m[4 * m_step], m5 = m[5 * m_step], m6 = m[6 * m_step], m7 = m[7 * m_step];
    float a = m1 + m2, b = m1 - m2, c = m3 + m4, d = m3 - m4, e = m5 + m6, f = m5 - m6;
    o[0 * o_step] = ((m0 + a) + c) + e;
    o[1 * o_step] = fmaf(0.5f, f, fmaf(2, d, b));
    o[2 * o_step] = fmaf(0.25f, e, fmaf(4, c, a));
    o[3 * o_step] = fmaf(0.125f, f, fmaf(8, d, b)) + m7;
}

static void slopes_5(const float *s, int s_step, float *e, int e_step)
{
    float s0 = s[0], s1 = s[s_step], s2 = s[2 * s_step], s3 = s[3 * s_step];
    float a = s0 + s2, b = s1 + s3, c = fmaf(4, s2, s0), d = fmaf(4, s3, s1);
    float g = fmaf(0.25f, s2, s0), h = fmaf(0.25f, s3, s1);
    e[0 * e_step] = s0;
    e[1 * e_step] = a + b;
    e[2 * e_step] = a - b;
    e[3 * e_step] = fmaf(2, d, c);
    e[4 * e_step] = fmaf(-2, d, c);
    e[5 * e_step] = fmaf(0.5f, h, g);
    e[6 * e_step] = fmaf(-0.5f, h, g);
    e[7 * e_step] = s3;
}

static void sums_5(const float *m, int m_step, float *g, int g_step)
{
    float m0 = m[0], m1 = m[m_step], m2 = m[2 * m_step], m3 = m[3 * m_step];
    float m4 = m[4 * m_step], m5 = m[5 * m_step], m6 = m[6 * m_step], m7 = m[7 * m_step];
    float a = (m1 + m2) * LS_WINOGRAD_NINTHS, b = (m1 - m2) * LS_WINOGRAD_NINTHS;
    float c = (m3 + m4) * LS_WINOGRAD_90TH, d = (m3 - m4) * LS_WINOGRAD_90TH;
    float e = (m5 + m6) * LS_WINOGRAD_45THS, f = (m5 - m6) * LS_WINOGRAD_45THS;
    g[0 * g_step] = ((m0 + a) + c) + e;
    g[1 * g_step] = fmaf(0.5f, f, fmaf(2, d, b));
    g[2 * g_step] = fmaf(0.25f, e, fmaf(4, c, a));
    g[3 * g_step] = fmaf(0.125f, f, fmaf(8, d, b));
    g[4 * g_step] = fmaf(0.0625f, e, fmaf(16, c, a)) + m7;
}

static void gradients_5(const float *m, int m_step, float *g, int g_step)
{
    float m0 = m[0], m1 = m[m_step], m2 = m[2 * m_step], m3 = m[3 * m_step];
    float m4 = m[4 * m_step], m5 = m[5 * m_step], m6 = m[6 * m_step], m7 = m[7 * m_step];
    float a = m1 + m2, b = m1 - m2, c = m3 + m4, d = m3 - m4, e = m5 + m6, f = m5 - m6;
    g[0 * g_step] = m0;
    g[1 * g_step] = fmaf(2, f, fmaf(0.5f, d, b - m7));
    g[2 * g_step] = fmaf(-5.25f, m0, fmaf(4, e, fmaf(0.25f, c, a)));
    g[3 * g_step] = fmaf(5.25f, m7, fmaf(-4.25f, b, (d + f) * -2.5f));
    g[4 * g_step] = fmaf(5.25f, m0, fmaf(-4.25f, a, fmaf(-5, e, c * -1.25f)));
    g[5 * g_step] = fmaf(-5.25f, m7, fmaf(0.5f, f, fmaf(2, d, b)));
    g[6 * g_step] = ((a + c) + e) - m0;
    g[7 * g_step] = m7;
}

typedef struct form {
    int kernel, window, places;
    transform *weights, *inputs, *products, *slopes, *sums, *gradients;
} form;

static const form three = {3, 6, 36, weights_3, inputs_3, products_3, slopes_3, sums_3, NULL};
static const form five = {5, 8, 64, weights_5, inputs_5, products_5, slopes_5, sums_5, gradients_5};

static const form *form_of(const ls_op_call *call)
{
    return call->attributes->kernel == 3 ? &three : &five;
}

/* In two dimensions, from in x in to out x out numbers: down the columns, then along the rows. */
static void transform_square(transform *step, int in, int out, const float *from, float *to)
{
    float half[PLACES];
    for (int column = 0; column < in; column++) {
        step(from + column, in, half + column, in);
    }
    for (int row = 0; row < out; row++) {
        step(half + row * in, 1, to + row * out, 1);
    }
}

/* The map that is read has `in` channels, the one that is written `out`; U is [out][in][places], V [in][places]. */
typedef struct winograd {
    const ls_op_call *call;
    const form *form;
    const float *bias;
    int by_input; /* w is [in][out], for the gradient of the input */
    float *u, *v;
} winograd;

static void fill_u(const winograd *job)
{
    const float *w = job->call->in[1].data;
    int in = job->call->in[0].c, out = job->call->out[0].c, taps = job->form->kernel * job->form->kernel;
    int turned = job->by_input && job->form == &three;
    for (int o = 0; o < out; o++) {
        for (int c = 0; c < in; c++) {
            const float *g = w + (job->by_input ? (size_t)c * out + o : (size_t)o * in + c) * taps;
            float own[PLACES];
            for (int i = 0; i < taps; i++) {
                own[i] = turned ? g[taps - 1 - i] : g[i];
            }
            transform_square(job->form->weights, job->form->kernel, job->form->window, own,
                             job->u + ((size_t)o * in + c) * job->form->places);
        }
    }
}

/* V of the window at (top, left) of x. */
static void transform_window(const form *f, const ls_operand *x, int group, int lane, int c, int top, int left,
                             float *v)
{
    float d[PLACES];
    for (int i = 0; i < f->places; i++) {
        d[i] = ls_ref_tap(x, group, c, top + i / f->window, left + i % f->window)[lane];
    }
    transform_square(f->inputs, f->window, f->window, d, v);
}

/* E of the tile at (top, left) of dy. */
static void transform_tile(const form *f, const ls_operand *dy, int group, int lane, int o, int top, int left, float *e)
{
    float s[TILE * TILE];
    for (int i = 0; i < TILE * TILE; i++) {
        s[i] = ls_ref_tap(dy, group, o, top + i / TILE, left + i % TILE)[lane];
    }
    transform_square(f->slopes, TILE, f->window, s, e);
}

/* M of one channel of the output. */
static void multiply(const winograd *job, int channel, float *m)
{
    int in = job->call->in[0].c, places = job->form->places;
    const float *u = job->u + (size_t)channel * in * places;
    for (int i = 0; i < places; i++) {
        m[i] = 0;
    }
    for (int c = 0; c < in; c++) {
        for (int i = 0; i < places; i++) {
            m[i] = fmaf(u[c * places + i], job->v[c * places + i], m[i]);
        }
    }
}

static void run_tile(const winograd *job, int group, int lane, int top, int left)
{
    const ls_operand *x = &job->call->in[0], *y = &job->call->out[0];
    int padding = job->call->attributes->padding; /* with 3 x 3 both directions have the same */
    for (int c = 0; c < x->c; c++) {
        transform_window(job->form, x, group, lane, c, top - padding, left - padding,
                         job->v + (size_t)c * job->form->places);
    }
    for (int channel = 0; channel < y->c; channel++) {
        float m[PLACES], o[TILE * TILE];
        multiply(job, channel, m);
        transform_square(job->form->products, job->form->window, TILE, m, o);
        for (int i = 0; i < TILE * TILE; i++) {
            int row = top + i / TILE, column = left + i % TILE;
            if (ls_ref_inside(y, row, column)) {
                float number = job->bias ? o[i] + job->bias[channel] : o[i];
                number = job->call->attributes->fused_relu && !job->by_input ? ls_ref_relu_of(number) : number;
                ls_ref_at(y, group, channel, row, column)[lane] = number;
            }
        }
    }
}

/* WINOGRAD_DATA transposed: from a tile of dy to a window of dx. */
static void spread_tile(const winograd *job, int group, int lane, int top, int left)
{
    const ls_operand *dy = &job->call->in[0], *dx = &job->call->out[0];
    int padding = job->call->attributes->padding, window = job->form->window;
    for (int o = 0; o < dy->c; o++) {
        transform_tile(job->form, dy, group, lane, o, top, left, job->v + (size_t)o * job->form->places);
    }
    for (int channel = 0; channel < dx->c; channel++) {
        float m[PLACES], d[PLACES];
        multiply(job, channel, m);
        transform_square(job->form->gradients, window, window, m, d);
        for (int i = 0; i < job->form->places; i++) {
            int row = top - padding + i / window, column = left - padding + i % window;
            if (ls_ref_inside(dx, row, column)) {
                float *at = ls_ref_at(dx, group, channel, row, column) + lane;
                *at = *at + d[i];
            }
        }
    }
}

typedef void one_tile(const winograd *job, int group, int lane, int top, int left);

/* Over the tiles of `map`. */
static void winograd_run(const winograd *job, one_tile *run, const ls_operand *map)
{
    const ls_operand *y = &job->call->out[0];
    for (size_t i = 0; i < ls_ref_size(job->call, y); i++) {
        y->data[i] = 0;
    }
    fill_u(job);
    for (int group = 0; group < job->call->groups; group++) {
        for (int lane = 0; lane < ls_ref_lanes(job->call, group); lane++) {
            for (int top = 0; top < map->h; top += TILE) {
                for (int left = 0; left < map->w; left += TILE) {
                    run(job, group, lane, top, left);
                }
            }
        }
    }
}

static winograd winograd_of(const ls_op_call *call)
{
    float *u = call->scratch;
    const form *f = form_of(call);
    return (winograd){.call = call, .form = f, .u = u, .v = u + (size_t)call->out[0].c * call->in[0].c * f->places};
}

size_t ls_ref_winograd_scratch(const ls_op_call *call)
{
    return ((size_t)call->out[0].c + 1) * call->in[0].c * form_of(call)->places * sizeof(float);
}

void ls_ref_winograd(const ls_op_call *call)
{
    winograd job = winograd_of(call);
    job.bias = call->in[2].data;
    winograd_run(&job, run_tile, &call->out[0]);
}

void ls_ref_winograd_data(const ls_op_call *call)
{
    winograd job = winograd_of(call);
    job.by_input = 1;
    if (job.form == &three) {
        winograd_run(&job, run_tile, &call->out[0]);
    } else {
        winograd_run(&job, spread_tile, &call->in[0]);
    }
}

/* One run's products, added to r[o][c][places]; e and v have room for one image's of all channels. */
static void add_tile(const ls_op_call *call, int tile, float *r, float *e, float *v)
{
    const form *f = form_of(call);
    const ls_operand *x = &call->in[0], *dy = &call->in[1];
    int padding = call->attributes->padding;
    int columns = (dy->w + TILE - 1) / TILE, map = (dy->h + TILE - 1) / TILE * columns;
    int group = tile / map, top = tile % map / columns * TILE, left = tile % columns * TILE;
    for (int lane = 0; lane < ls_ref_lanes(call, group); lane++) {
        for (int o = 0; o < dy->c; o++) {
            transform_tile(f, dy, group, lane, o, top, left, e + (size_t)o * f->places);
        }
        for (int c = 0; c < x->c; c++) {
            transform_window(f, x, group, lane, c, top - padding, left - padding, v + (size_t)c * f->places);
        }
        for (size_t pair = 0; pair < (size_t)dy->c * x->c; pair++) {
            for (int i = 0; i < f->places; i++) {
                size_t o = pair / x->c, c = pair % x->c, at = pair * f->places + i;
                r[at] = fmaf(e[o * f->places + i], v[c * f->places + i], r[at]);
            }
        }
    }
}

size_t ls_ref_winograd_weight_scratch(const ls_op_call *call)
{
    size_t in = call->in[0].c, out = call->in[1].c;
    return (2 * in * out + in + out) * form_of(call)->places * sizeof(float);
}

void ls_ref_winograd_weight(const ls_op_call *call)
{
    const form *f = form_of(call);
    const ls_operand *dy = &call->in[1];
    size_t pairs = (size_t)call->in[0].c * dy->c, sums = pairs * f->places;
    float *m = call->scratch, *r = m + sums, *e = r + sums, *v = e + (size_t)dy->c * f->places;
    int tiles = call->groups * ((dy->h + TILE - 1) / TILE) * ((dy->w + TILE - 1) / TILE);
    int taps = f->kernel * f->kernel;
    memset(m, 0, sums * sizeof *m);
    for (int tile = 0; tile < tiles; tile += LS_WINOGRAD_RUN) {
        memset(r, 0, sums * sizeof *r);
        for (int i = tile; i < tiles && i < tile + LS_WINOGRAD_RUN; i++) {
            add_tile(call, i, r, e, v);
        }
        ls_ref_vector_add(m, m, r, sums);
    }
    for (size_t pair = 0; pair < pairs; pair++) {
        float g[PLACES];
        transform_square(f->sums, f->window, f->kernel, m + pair * f->places, g);
        for (int i = 0; i < taps; i++) {
            call->out[0].data[pair * taps + i] = g[i] + 0.0f; /* no -0 */
        }
    }
}
