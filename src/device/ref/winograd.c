/* Winograd F(4x4, 3x3): `winograd.h` as plain C. */
#include "device/winograd.h"

#include <string.h>

#include "device/ref/ref.h"

enum { TILE = 4, WINDOW = 6, PLACES = WINDOW * WINDOW };

/* The one-dimensional steps work on numbers `step` apart, in and out. */
static void transform_weights(const float *g, int g_step, float *u, int u_step)
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

static void transform_inputs(const float *d, int d_step, float *v, int v_step)
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

static void transform_products(const float *m, int m_step, float *o, int o_step)
{
    float m0 = m[0], m1 = m[m_step], m2 = m[2 * m_step], m3 = m[3 * m_step], m4 = m[4 * m_step], m5 = m[5 * m_step];
    float a = m1 + m2, b = m1 - m2, c = m3 + m4, d = m3 - m4;
    o[0 * o_step] = (m0 + a) + c;
    o[1 * o_step] = fmaf(2, d, b);
    o[2 * o_step] = fmaf(4, c, a);
    o[3 * o_step] = fmaf(8, d, b) + m5;
}

static void transform_slopes(const float *s, int s_step, float *e, int e_step)
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

static void transform_sums(const float *m, int m_step, float *g, int g_step)
{
    float m0 = m[0], m1 = m[m_step], m2 = m[2 * m_step], m3 = m[3 * m_step], m4 = m[4 * m_step], m5 = m[5 * m_step];
    float a = m1 + m2, b = m1 - m2, c = m3 + m4, d = m3 - m4;
    g[0 * g_step] = fmaf(LS_WINOGRAD_24TH, c, fmaf(LS_WINOGRAD_SIXTH, a, m0 * 0.25f));
    g[1 * g_step] = fmaf(LS_WINOGRAD_12TH, d, b * LS_WINOGRAD_SIXTH);
    g[2 * g_step] = fmaf(-LS_WINOGRAD_SIXTH, c - a, m5);
}

/* In two dimensions: down the columns, then along the rows. */
static void weights_to_u(const float g[9], float u[PLACES])
{
    float half[WINDOW * 3];
    for (int column = 0; column < 3; column++) {
        transform_weights(g + column, 3, half + column, 3);
    }
    for (int row = 0; row < WINDOW; row++) {
        transform_weights(half + row * 3, 1, u + row * WINDOW, 1);
    }
}

static void inputs_to_v(const float d[PLACES], float v[PLACES])
{
    float half[PLACES];
    for (int column = 0; column < WINDOW; column++) {
        transform_inputs(d + column, WINDOW, half + column, WINDOW);
    }
    for (int row = 0; row < WINDOW; row++) {
        transform_inputs(half + row * WINDOW, 1, v + row * WINDOW, 1);
    }
}

static void products_to_outputs(const float m[PLACES], float o[TILE * TILE])
{
    float half[TILE * WINDOW];
    for (int column = 0; column < WINDOW; column++) {
        transform_products(m + column, WINDOW, half + column, WINDOW);
    }
    for (int row = 0; row < TILE; row++) {
        transform_products(half + row * WINDOW, 1, o + row * TILE, 1);
    }
}

static void slopes_to_e(const float s[TILE * TILE], float e[PLACES])
{
    float half[WINDOW * TILE];
    for (int column = 0; column < TILE; column++) {
        transform_slopes(s + column, TILE, half + column, TILE);
    }
    for (int row = 0; row < WINDOW; row++) {
        transform_slopes(half + row * TILE, 1, e + row * WINDOW, 1);
    }
}

static void sums_to_weights(const float m[PLACES], float g[9])
{
    float half[3 * WINDOW];
    for (int column = 0; column < WINDOW; column++) {
        transform_sums(m + column, WINDOW, half + column, WINDOW);
    }
    for (int row = 0; row < 3; row++) {
        transform_sums(half + row * WINDOW, 1, g + row * 3, 1);
    }
}

/* The map that is read has `in` channels, the one that is written `out`; U is [out][in][36], V [in][36]. */
typedef struct winograd {
    const ls_op_call *call;
    const float *bias;
    int turned; /* the weights, for the gradient of the input */
    float *u, *v;
} winograd;

static void fill_u(const winograd *job)
{
    const float *w = job->call->in[1].data;
    int in = job->call->in[0].c, out = job->call->out[0].c;
    for (int o = 0; o < out; o++) {
        for (int c = 0; c < in; c++) {
            const float *g = w + (job->turned ? (size_t)c * out + o : (size_t)o * in + c) * 9;
            float turned[9];
            for (int i = 0; i < 9; i++) {
                turned[i] = job->turned ? g[8 - i] : g[i];
            }
            weights_to_u(turned, job->u + ((size_t)o * in + c) * PLACES);
        }
    }
}

static void v_of_tile(const ls_operand *x, int group, int lane, int c, int top, int left, float v[PLACES])
{
    float d[PLACES];
    for (int i = 0; i < PLACES; i++) {
        d[i] = ls_ref_tap(x, group, c, top - 1 + i / WINDOW, left - 1 + i % WINDOW)[lane];
    }
    inputs_to_v(d, v);
}

static void fill_v(const winograd *job, int group, int lane, int top, int left)
{
    const ls_operand *x = &job->call->in[0];
    for (int c = 0; c < x->c; c++) {
        v_of_tile(x, group, lane, c, top, left, job->v + (size_t)c * PLACES);
    }
}

static void tile_of_channel(const winograd *job, int group, int lane, int channel, int top, int left)
{
    const ls_operand *y = &job->call->out[0];
    int in = job->call->in[0].c;
    const float *u = job->u + (size_t)channel * in * PLACES;
    float m[PLACES] = {0}, o[TILE * TILE];
    for (int c = 0; c < in; c++) {
        for (int i = 0; i < PLACES; i++) {
            m[i] = fmaf(u[c * PLACES + i], job->v[c * PLACES + i], m[i]);
        }
    }
    products_to_outputs(m, o);
    for (int i = 0; i < TILE * TILE; i++) {
        int row = top + i / TILE, column = left + i % TILE;
        if (ls_ref_inside(y, row, column)) {
            float number = job->bias ? o[i] + job->bias[channel] : o[i];
            number = job->call->attributes->fused_relu && !job->turned ? ls_ref_relu_of(number) : number;
            ls_ref_at(y, group, channel, row, column)[lane] = number;
        }
    }
}

static void winograd_run(const winograd *job)
{
    const ls_operand *y = &job->call->out[0];
    for (size_t i = 0; i < ls_ref_size(job->call, y); i++) {
        y->data[i] = 0;
    }
    fill_u(job);
    for (int group = 0; group < job->call->groups; group++) {
        for (int lane = 0; lane < ls_ref_lanes(job->call, group); lane++) {
            for (int top = 0; top < y->h; top += TILE) {
                for (int left = 0; left < y->w; left += TILE) {
                    fill_v(job, group, lane, top, left);
                    for (int channel = 0; channel < y->c; channel++) {
                        tile_of_channel(job, group, lane, channel, top, left);
                    }
                }
            }
        }
    }
}

static winograd winograd_of(const ls_op_call *call)
{
    float *u = call->scratch;
    return (winograd){.call = call, .u = u, .v = u + (size_t)call->out[0].c * call->in[0].c * PLACES};
}

size_t ls_ref_winograd_scratch(const ls_op_call *call)
{
    return ((size_t)call->out[0].c + 1) * call->in[0].c * PLACES * sizeof(float);
}

void ls_ref_winograd(const ls_op_call *call)
{
    winograd job = winograd_of(call);
    job.bias = call->in[2].data;
    winograd_run(&job);
}

void ls_ref_winograd_data(const ls_op_call *call)
{
    winograd job = winograd_of(call);
    job.turned = 1;
    winograd_run(&job);
}

static void e_of_tile(const ls_operand *dy, int group, int lane, int o, int top, int left, float e[PLACES])
{
    float s[TILE * TILE];
    for (int i = 0; i < TILE * TILE; i++) {
        s[i] = ls_ref_tap(dy, group, o, top + i / TILE, left + i % TILE)[lane];
    }
    slopes_to_e(s, e);
}

/* One run's products, added to r[o][c][36]; e and v have room for one image's of all channels. */
static void add_tile(const ls_op_call *call, int tile, float *r, float *e, float *v)
{
    const ls_operand *x = &call->in[0], *dy = &call->in[1];
    int columns = (dy->w + TILE - 1) / TILE, map = (dy->h + TILE - 1) / TILE * columns;
    int group = tile / map, top = tile % map / columns * TILE, left = tile % columns * TILE;
    for (int lane = 0; lane < ls_ref_lanes(call, group); lane++) {
        for (int o = 0; o < dy->c; o++) {
            e_of_tile(dy, group, lane, o, top, left, e + (size_t)o * PLACES);
        }
        for (int c = 0; c < x->c; c++) {
            v_of_tile(x, group, lane, c, top, left, v + (size_t)c * PLACES);
        }
        for (size_t pair = 0; pair < (size_t)dy->c * x->c; pair++) {
            for (int i = 0; i < PLACES; i++) {
                size_t o = pair / x->c, c = pair % x->c, at = pair * PLACES + i;
                r[at] = fmaf(e[o * PLACES + i], v[c * PLACES + i], r[at]);
            }
        }
    }
}

size_t ls_ref_winograd_weight_scratch(const ls_op_call *call)
{
    size_t in = call->in[0].c, out = call->in[1].c;
    return (2 * in * out + in + out) * PLACES * sizeof(float);
}

void ls_ref_winograd_weight(const ls_op_call *call)
{
    const ls_operand *dy = &call->in[1];
    size_t pairs = (size_t)call->in[0].c * dy->c, sums = pairs * PLACES;
    float *m = call->scratch, *r = m + sums, *e = r + sums, *v = e + (size_t)dy->c * PLACES;
    int tiles = call->groups * ((dy->h + TILE - 1) / TILE) * ((dy->w + TILE - 1) / TILE);
    memset(m, 0, sums * sizeof *m);
    for (int tile = 0; tile < tiles; tile += LS_WINOGRAD_RUN) {
        memset(r, 0, sums * sizeof *r);
        for (int i = tile; i < tiles && i < tile + LS_WINOGRAD_RUN; i++) {
            add_tile(call, i, r, e, v);
        }
        ls_ref_vector_add(m, m, r, sums);
    }
    for (size_t pair = 0; pair < pairs; pair++) {
        float g[9];
        sums_to_weights(m + pair * PLACES, g);
        for (int i = 0; i < 9; i++) {
            call->out[0].data[pair * 9 + i] = g[i] + 0.0f; /* no -0 */
        }
    }
}
