/* The one-dimensional steps of `device/winograd.h`, to a vector. `form` is known to the compiler. */
#pragma once

#include "device/cpu/lanes/lanes.h"
#include "device/winograd.h"

LS_INLINE vf vf_fma_by(float a, vf b, vf c)
{
    return vf_fma(vf_set(a), b, c);
}

/* m outputs, k taps. */
typedef enum form { F4X3, F7X3, F4X5, F4X2, F7X2, F4X1, F7X1 } form;

LS_INLINE int form_taps(form f)
{
    return f == F4X5 ? 5 : f <= F7X3 ? 3 : f <= F7X2 ? 2 : 1;
}

LS_INLINE int form_tile(form f)
{
    return f == F7X3 || f == F7X2 || f == F7X1 ? 7 : 4;
}

/* Places of a tile, and inputs that it reads. */
LS_INLINE int form_window(form f)
{
    return form_taps(f) + form_tile(f) - 1;
}

/* Places with a U of their own. */
LS_INLINE int form_distinct(form f)
{
    return form_taps(f) == 1 ? 1 : form_window(f);
}

/* What a step takes: up to 9 vectors, named one by one, since compilers keep in registers what no loop has touched. */
enum { WINDOW = LS_WINOGRAD_WINDOW };
typedef struct line {
    vf at[WINDOW];
} line;

/* n numbers, `step` floats apart. */
LS_INLINE line line_load(const int n, const float *from, ptrdiff_t step)
{
    const vf zero = vf_zero();
    return (line){{vf_load(from), n > 1 ? vf_load(from + step) : zero, n > 2 ? vf_load(from + 2 * step) : zero,
                   n > 3 ? vf_load(from + 3 * step) : zero, n > 4 ? vf_load(from + 4 * step) : zero,
                   n > 5 ? vf_load(from + 5 * step) : zero, n > 6 ? vf_load(from + 6 * step) : zero,
                   n > 7 ? vf_load(from + 7 * step) : zero, n > 8 ? vf_load(from + 8 * step) : zero}};
}

/* What steps down the columns made, [row][column]; the steps along the rows take it from there. The loops over columns
 * and rows stay loops: unrolled, they are more code than the processor keeps decoded, and take half as long again. */
typedef vf square[WINDOW][WINDOW];

LS_INLINE void square_put(square half, const int c, const vf *column, const int n)
{
    LS_UNROLL
    for (int i = 0; i < n; i++)
        half[i][c] = column[i];
}

LS_INLINE line square_row(const vf *row, const int n)
{
    const vf zero = vf_zero();
    return (line){{row[0], n > 1 ? row[1] : zero, n > 2 ? row[2] : zero, n > 3 ? row[3] : zero, n > 4 ? row[4] : zero,
                   n > 5 ? row[5] : zero, n > 6 ? row[6] : zero, n > 7 ? row[7] : zero, n > 8 ? row[8] : zero}};
}

/* Sums and differences of the products at the points +-1, +-2 and +-1/2. */
typedef struct winograd_pairs {
    vf a, b, c, d, e, f;
} winograd_pairs;

LS_INLINE winograd_pairs winograd_pairs_of(const vf *m)
{
    return (winograd_pairs){m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4], m[5] + m[6], m[5] - m[6]};
}

/* The same of what 5 or 2 taps take from there. */
LS_INLINE winograd_pairs weighed_pairs_of(const vf *m)
{
    const winograd_pairs p = winograd_pairs_of(m);
    return (winograd_pairs){LS_WINOGRAD_NINTHS * p.a, LS_WINOGRAD_NINTHS * p.b, LS_WINOGRAD_90TH * p.c,
                            LS_WINOGRAD_90TH * p.d,   LS_WINOGRAD_45THS * p.e,  LS_WINOGRAD_45THS * p.f};
}

/* The inputs' step of both. */
LS_INLINE void eight_inputs(const vf *d, vf *v)
{
    const vf a = vf_fma_by(-4.25f, d[4], d[2] + d[6]), b = vf_fma_by(-4.25f, d[3], d[1] + d[5]);
    const vf c = vf_fma_by(0.25f, d[2], vf_fma_by(-1.25f, d[4], d[6]));
    const vf k = vf_fma_by(0.5f, d[1], vf_fma_by(-2.5f, d[3], 2.0f * d[5]));
    const vf e = vf_fma_by(4.0f, d[2], vf_fma_by(-5.0f, d[4], d[6]));
    const vf f = vf_fma_by(2.0f, d[1], vf_fma_by(-2.5f, d[3], 0.5f * d[5]));
    v[0] = vf_fma_by(5.25f, d[4] - d[2], d[0] - d[6]);
    v[1] = a + b;
    v[2] = a - b;
    v[3] = c + k;
    v[4] = c - k;
    v[5] = e + f;
    v[6] = e - f;
    v[7] = vf_fma_by(5.25f, d[3] - d[5], d[7] - d[1]);
}

/* ---- F(7 x 7, 3 x 3), whose points are in pairs, each with a function of its own as in a loop compilers lose sight of
 * registers ---- */

LS_INLINE vf weighted(const float *k, vf a, vf b, vf c, vf d)
{
    return vf_fma_by(k[0], a, vf_fma_by(k[1], b, vf_fma_by(k[2], c, d)));
}

/* The sum and the difference of an even and an odd part. */
LS_INLINE void put_pair(vf even, vf odd, vf *to)
{
    to[0] = even + odd;
    to[1] = even - odd;
}

LS_INLINE void weights_pair(const ls_winograd_pair *p, const vf *g, vf *u)
{
    put_pair(vf_fma_by(p->weight[2], g[2], p->weight[0] * g[0]), p->weight[1] * g[1], u);
}

LS_INLINE void inputs_pair(const ls_winograd_pair *p, const vf *d, vf *v)
{
    put_pair(weighted(p->even, d[0], d[2], d[4], p->a * d[6]), weighted(p->odd, d[1], d[3], d[5], d[7]), v);
}

LS_INLINE void slopes_pair(const ls_winograd_pair *p, const vf *s, vf *e)
{
    const float *k = p->power;
    const vf even = vf_fma_by(k[5], s[6], vf_fma_by(k[3], s[4], vf_fma_by(k[1], s[2], s[0])));
    put_pair(even, vf_fma_by(k[4], s[5], vf_fma_by(k[2], s[3], k[0] * s[1])), e);
}

/* Sums and differences of the pairs' products. */
typedef struct f7x3_pairs {
    vf s0, s1, s2, s3, t0, t1, t2, t3;
} f7x3_pairs;

LS_INLINE f7x3_pairs f7x3_pairs_of(const vf *m)
{
    return (f7x3_pairs){m[0] + m[1], m[2] + m[3], m[4] + m[5], m[6] + m[7],
                        m[0] - m[1], m[2] - m[3], m[4] - m[5], m[6] - m[7]};
}

LS_INLINE vf over_pairs(float k0, float k1, float k2, float k3, vf a, vf b, vf c, vf d)
{
    return vf_fma_by(k3, d, vf_fma_by(k2, c, vf_fma_by(k1, b, k0 * a)));
}

LS_INLINE vf power_sum(const int j, const f7x3_pairs *p)
{
    const ls_winograd_pair *k = ls_winograd_pairs;
    return j % 2 ? over_pairs(k[0].power[j - 1], k[1].power[j - 1], k[2].power[j - 1], k[3].power[j - 1], p->t0, p->t1,
                              p->t2, p->t3)
                 : over_pairs(k[0].power[j - 1], k[1].power[j - 1], k[2].power[j - 1], k[3].power[j - 1], p->s0, p->s1,
                              p->s2, p->s3);
}

LS_INLINE vf weight_sum(const int j, const f7x3_pairs *p)
{
    const ls_winograd_pair *k = ls_winograd_pairs;
    return j == 1
               ? over_pairs(k[0].weight[j], k[1].weight[j], k[2].weight[j], k[3].weight[j], p->t0, p->t1, p->t2, p->t3)
               : over_pairs(k[0].weight[j], k[1].weight[j], k[2].weight[j], k[3].weight[j], p->s0, p->s1, p->s2, p->s3);
}

LS_INLINE void f7x3_weights(const vf *g, vf *u)
{
    weights_pair(&ls_winograd_pairs[0], g, u);
    weights_pair(&ls_winograd_pairs[1], g, u + 2);
    weights_pair(&ls_winograd_pairs[2], g, u + 4);
    weights_pair(&ls_winograd_pairs[3], g, u + 6);
    u[8] = g[2];
}

LS_INLINE void f7x3_inputs(const vf *d, vf *v)
{
    inputs_pair(&ls_winograd_pairs[0], d, v);
    inputs_pair(&ls_winograd_pairs[1], d, v + 2);
    inputs_pair(&ls_winograd_pairs[2], d, v + 4);
    inputs_pair(&ls_winograd_pairs[3], d, v + 6);
    v[8] = weighted(ls_winograd_last, d[0], d[2], d[4], vf_fma_by(ls_winograd_last[3], d[6], d[8]));
}

LS_INLINE void f7x3_products(const vf *m, vf *o)
{
    const f7x3_pairs p = f7x3_pairs_of(m);
    o[0] = (p.s0 + p.s1) + (p.s2 + p.s3);
    o[1] = power_sum(1, &p);
    o[2] = power_sum(2, &p);
    o[3] = power_sum(3, &p);
    o[4] = power_sum(4, &p);
    o[5] = power_sum(5, &p);
    o[6] = power_sum(6, &p) + m[8];
}

LS_INLINE void f7x3_slopes(const vf *s, vf *e)
{
    slopes_pair(&ls_winograd_pairs[0], s, e);
    slopes_pair(&ls_winograd_pairs[1], s, e + 2);
    slopes_pair(&ls_winograd_pairs[2], s, e + 4);
    slopes_pair(&ls_winograd_pairs[3], s, e + 6);
    e[8] = s[6];
}

LS_INLINE void f7x3_sums(const vf *m, vf *g)
{
    const f7x3_pairs p = f7x3_pairs_of(m);
    g[0] = weight_sum(0, &p);
    g[1] = weight_sum(1, &p);
    g[2] = weight_sum(2, &p) + m[8];
}

/* ---- One and two taps ---- */

LS_INLINE void hand_on(const int n, const vf *from, vf *to)
{
    LS_UNROLL
    for (int i = 0; i < n; i++)
        to[i] = from[i];
}

LS_INLINE void f4x2_weights(const vf *g, vf *u)
{
    u[0] = 0.5f * g[0];
    u[1] = -0.5f * (g[0] + g[1]);
    u[2] = LS_WINOGRAD_PLUS_SIXTH * (g[1] - g[0]);
    u[3] = LS_WINOGRAD_PLUS_SIXTH * vf_fma_by(2.0f, g[1], g[0]);
    u[4] = g[1];
}

LS_INLINE void f4x2_inputs(const vf *d, vf *v)
{
    v[3] = d[3] - d[1];
    v[0] = vf_fma_by(2.0f, d[0] - d[2], v[3]);
    v[1] = vf_fma_by(-2.0f, d[1], d[3] - d[2]);
    v[2] = vf_fma_by(2.0f, d[1], vf_fma_by(-3.0f, d[2], d[3]));
    v[4] = vf_fma_by(2.0f, d[1] - d[3], d[4] - d[2]);
}

LS_INLINE void f4x2_products(const vf *m, vf *o)
{
    const vf a = m[1] + m[2], b = m[1] - m[2];
    o[0] = (m[0] + a) + m[3];
    o[1] = vf_fma_by(2.0f, m[3], b);
    o[2] = vf_fma_by(4.0f, m[3], a);
    o[3] = vf_fma_by(8.0f, m[3], b) + m[4];
}

LS_INLINE void f4x2_slopes(const vf *s, vf *e)
{
    const vf a = s[0] + s[2], b = s[1] + s[3];
    e[0] = s[0];
    e[1] = a + b;
    e[2] = a - b;
    e[3] = vf_fma_by(8.0f, s[3], vf_fma_by(4.0f, s[2], vf_fma_by(2.0f, s[1], s[0])));
    e[4] = s[3];
}

LS_INLINE void f4x2_sums(const vf *m, vf *g)
{
    g[0] = vf_fma_by(LS_WINOGRAD_PLUS_SIXTH, m[3] - m[2], 0.5f * (m[0] - m[1]));
    g[1] = vf_fma_by(LS_WINOGRAD_THIRD, m[3], vf_fma_by(LS_WINOGRAD_PLUS_SIXTH, m[2], -0.5f * m[1]));
    g[1] += m[4];
}

LS_INLINE void f7x2_weights(const vf *g, vf *u)
{
    u[0] = g[0];
    u[1] = LS_WINOGRAD_NINTHS * (g[0] + g[1]);
    u[2] = LS_WINOGRAD_NINTHS * (g[0] - g[1]);
    u[3] = LS_WINOGRAD_90TH * vf_fma_by(2.0f, g[1], g[0]);
    u[4] = LS_WINOGRAD_90TH * vf_fma_by(-2.0f, g[1], g[0]);
    u[5] = LS_WINOGRAD_45THS * vf_fma_by(0.5f, g[1], g[0]);
    u[6] = LS_WINOGRAD_45THS * vf_fma_by(-0.5f, g[1], g[0]);
    u[7] = g[1];
}

LS_INLINE void f7x2_products(const vf *m, vf *o)
{
    const winograd_pairs p = winograd_pairs_of(m);
    o[0] = ((m[0] + p.a) + p.c) + p.e;
    o[1] = vf_fma_by(0.5f, p.f, vf_fma_by(2.0f, p.d, p.b));
    o[2] = vf_fma_by(0.25f, p.e, vf_fma_by(4.0f, p.c, p.a));
    o[3] = vf_fma_by(0.125f, p.f, vf_fma_by(8.0f, p.d, p.b));
    o[4] = vf_fma_by(0.0625f, p.e, vf_fma_by(16.0f, p.c, p.a));
    o[5] = vf_fma_by(0.03125f, p.f, vf_fma_by(32.0f, p.d, p.b));
    o[6] = vf_fma_by(0.015625f, p.e, vf_fma_by(64.0f, p.c, p.a)) + m[7];
}

LS_INLINE void f7x2_slopes(const vf *s, vf *e)
{
    e[0] = s[0];
    put_pair((s[0] + s[2]) + (s[4] + s[6]), (s[1] + s[3]) + s[5], e + 1);
    put_pair(vf_fma_by(64.0f, s[6], vf_fma_by(16.0f, s[4], vf_fma_by(4.0f, s[2], s[0]))),
             vf_fma_by(32.0f, s[5], vf_fma_by(8.0f, s[3], 2.0f * s[1])), e + 3);
    put_pair(vf_fma_by(0.015625f, s[6], vf_fma_by(0.0625f, s[4], vf_fma_by(0.25f, s[2], s[0]))),
             vf_fma_by(0.03125f, s[5], vf_fma_by(0.125f, s[3], 0.5f * s[1])), e + 5);
    e[7] = s[6];
}

LS_INLINE void f7x2_sums(const vf *m, vf *g)
{
    const winograd_pairs p = weighed_pairs_of(m);
    g[0] = ((m[0] + p.a) + p.c) + p.e;
    g[1] = vf_fma_by(0.5f, p.f, vf_fma_by(2.0f, p.d, p.b)) + m[7];
}

/* ---- Three taps, tiles of 4 ---- */

LS_INLINE void f4x3_weights(const vf *g, vf *u)
{
    const vf s = g[0] + g[2], q = vf_fma_by(4.0f, g[2], g[0]);
    u[0] = 0.25f * g[0];
    u[1] = LS_WINOGRAD_SIXTH * (s + g[1]);
    u[2] = LS_WINOGRAD_SIXTH * (s - g[1]);
    u[3] = LS_WINOGRAD_24TH * vf_fma_by(2.0f, g[1], q);
    u[4] = LS_WINOGRAD_24TH * vf_fma_by(-2.0f, g[1], q);
    u[5] = g[2];
}

LS_INLINE void f4x3_inputs(const vf *d, vf *v)
{
    const vf p = vf_fma_by(-4.0f, d[2], d[4]), q = vf_fma_by(-4.0f, d[1], d[3]);
    const vf r = d[4] - d[2], s = 2.0f * (d[3] - d[1]);
    v[0] = vf_fma_by(4.0f, d[0], vf_fma_by(-5.0f, d[2], d[4]));
    v[1] = p + q;
    v[2] = p - q;
    v[3] = r + s;
    v[4] = r - s;
    v[5] = vf_fma_by(4.0f, d[1], vf_fma_by(-5.0f, d[3], d[5]));
}

LS_INLINE void f4x3_products(const vf *m, vf *o)
{
    const vf a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
    o[0] = (m[0] + a) + c;
    o[1] = vf_fma_by(2.0f, d, b);
    o[2] = vf_fma_by(4.0f, c, a);
    o[3] = vf_fma_by(8.0f, d, b) + m[5];
}

/* The slopes at the points 0, +-1 and +-2. */
LS_INLINE void inner_points(const vf *s, vf *e)
{
    const vf a = s[0] + s[2], b = s[1] + s[3];
    const vf c = vf_fma_by(4.0f, s[2], s[0]), d = vf_fma_by(4.0f, s[3], s[1]);
    e[0] = s[0];
    e[1] = a + b;
    e[2] = a - b;
    e[3] = vf_fma_by(2.0f, d, c);
    e[4] = vf_fma_by(-2.0f, d, c);
}

LS_INLINE void f4x3_slopes(const vf *s, vf *e)
{
    inner_points(s, e);
    e[5] = s[3];
}

LS_INLINE void f4x3_sums(const vf *m, vf *g)
{
    const vf a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
    g[0] = vf_fma_by(LS_WINOGRAD_24TH, c, vf_fma_by(LS_WINOGRAD_SIXTH, a, 0.25f * m[0]));
    g[1] = vf_fma_by(LS_WINOGRAD_12TH, d, LS_WINOGRAD_SIXTH * b);
    g[2] = vf_fma_by(-LS_WINOGRAD_SIXTH, c - a, m[5]);
}

/* ---- Five taps, tiles of 4 ---- */

LS_INLINE void f4x5_weights(const vf *g, vf *u)
{
    const vf s = (g[0] + g[2]) + g[4], t = g[1] + g[3];
    const vf q = vf_fma_by(16.0f, g[4], vf_fma_by(4.0f, g[2], g[0])), r = vf_fma_by(4.0f, g[3], g[1]);
    const vf h = vf_fma_by(0.0625f, g[4], vf_fma_by(0.25f, g[2], g[0])), l = vf_fma_by(0.25f, g[3], g[1]);
    u[0] = g[0];
    u[1] = LS_WINOGRAD_NINTHS * (s + t);
    u[2] = LS_WINOGRAD_NINTHS * (s - t);
    u[3] = LS_WINOGRAD_90TH * vf_fma_by(2.0f, r, q);
    u[4] = LS_WINOGRAD_90TH * vf_fma_by(-2.0f, r, q);
    u[5] = LS_WINOGRAD_45THS * vf_fma_by(0.5f, l, h);
    u[6] = LS_WINOGRAD_45THS * vf_fma_by(-0.5f, l, h);
    u[7] = g[4];
}

LS_INLINE void f4x5_products(const vf *m, vf *o)
{
    const winograd_pairs p = winograd_pairs_of(m);
    o[0] = ((m[0] + p.a) + p.c) + p.e;
    o[1] = vf_fma_by(0.5f, p.f, vf_fma_by(2.0f, p.d, p.b));
    o[2] = vf_fma_by(0.25f, p.e, vf_fma_by(4.0f, p.c, p.a));
    o[3] = vf_fma_by(0.125f, p.f, vf_fma_by(8.0f, p.d, p.b)) + m[7];
}

LS_INLINE void f4x5_slopes(const vf *s, vf *e)
{
    const vf g = vf_fma_by(0.25f, s[2], s[0]), h = vf_fma_by(0.25f, s[3], s[1]);
    inner_points(s, e);
    e[5] = vf_fma_by(0.5f, h, g);
    e[6] = vf_fma_by(-0.5f, h, g);
    e[7] = s[3];
}

LS_INLINE void f4x5_sums(const vf *m, vf *g)
{
    const winograd_pairs p = weighed_pairs_of(m);
    g[0] = ((m[0] + p.a) + p.c) + p.e;
    g[1] = vf_fma_by(0.5f, p.f, vf_fma_by(2.0f, p.d, p.b));
    g[2] = vf_fma_by(0.25f, p.e, vf_fma_by(4.0f, p.c, p.a));
    g[3] = vf_fma_by(0.125f, p.f, vf_fma_by(8.0f, p.d, p.b));
    g[4] = vf_fma_by(0.0625f, p.e, vf_fma_by(16.0f, p.c, p.a)) + m[7];
}

/* With five taps, the inputs' step transposed. */
LS_INLINE void winograd_gradients(const vf *m, vf *g)
{
    const winograd_pairs p = winograd_pairs_of(m);
    g[0] = m[0];
    g[1] = vf_fma_by(2.0f, p.f, vf_fma_by(0.5f, p.d, p.b - m[7]));
    g[2] = vf_fma_by(-5.25f, m[0], vf_fma_by(4.0f, p.e, vf_fma_by(0.25f, p.c, p.a)));
    g[3] = vf_fma_by(5.25f, m[7], vf_fma_by(-4.25f, p.b, -2.5f * (p.d + p.f)));
    g[4] = vf_fma_by(5.25f, m[0], vf_fma_by(-4.25f, p.a, vf_fma_by(-5.0f, p.e, -1.25f * p.c)));
    g[5] = vf_fma_by(-5.25f, m[7], vf_fma_by(0.5f, p.f, vf_fma_by(2.0f, p.d, p.b)));
    g[6] = ((p.a + p.c) + p.e) - m[0];
    g[7] = m[7];
}

/* ---- All forms ---- */

LS_INLINE void winograd_weights(const form f, const vf *g, vf *u)
{
    switch (f) {
    case F4X3:
        f4x3_weights(g, u);
        break;
    case F7X3:
        f7x3_weights(g, u);
        break;
    case F4X5:
        f4x5_weights(g, u);
        break;
    case F4X2:
        f4x2_weights(g, u);
        break;
    case F7X2:
        f7x2_weights(g, u);
        break;
    case F4X1:
    case F7X1:
        hand_on(1, g, u);
    }
}

LS_INLINE void winograd_inputs(const form f, const vf *d, vf *v)
{
    switch (f) {
    case F4X3:
        f4x3_inputs(d, v);
        break;
    case F7X3:
        f7x3_inputs(d, v);
        break;
    case F4X2:
        f4x2_inputs(d, v);
        break;
    case F4X5:
    case F7X2:
        eight_inputs(d, v);
        break;
    case F4X1:
    case F7X1:
        hand_on(form_window(f), d, v);
    }
}

LS_INLINE void winograd_products(const form f, const vf *m, vf *o)
{
    switch (f) {
    case F4X3:
        f4x3_products(m, o);
        break;
    case F7X3:
        f7x3_products(m, o);
        break;
    case F4X5:
        f4x5_products(m, o);
        break;
    case F4X2:
        f4x2_products(m, o);
        break;
    case F7X2:
        f7x2_products(m, o);
        break;
    case F4X1:
    case F7X1:
        hand_on(form_window(f), m, o);
    }
}

LS_INLINE void winograd_slopes(const form f, const vf *s, vf *e)
{
    switch (f) {
    case F4X3:
        f4x3_slopes(s, e);
        break;
    case F7X3:
        f7x3_slopes(s, e);
        break;
    case F4X5:
        f4x5_slopes(s, e);
        break;
    case F4X2:
        f4x2_slopes(s, e);
        break;
    case F7X2:
        f7x2_slopes(s, e);
        break;
    case F4X1:
    case F7X1:
        hand_on(form_window(f), s, e);
    }
}

LS_INLINE void winograd_sums(const form f, const vf *m, vf *g)
{
    switch (f) {
    case F4X3:
        f4x3_sums(m, g);
        break;
    case F7X3:
        f7x3_sums(m, g);
        break;
    case F4X5:
        f4x5_sums(m, g);
        break;
    case F4X2:
        f4x2_sums(m, g);
        break;
    case F7X2:
        f7x2_sums(m, g);
        break;
    case F4X1:
    case F7X1:
        hand_on(1, m, g);
    }
}
