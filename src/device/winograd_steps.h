/* The one-dimensional steps of `winograd.h`, for whoever includes this: of a `winograd_number`, which is a float or a
 * vector of them, with winograd_fma(a, b, c) for a * b + c, rounded once, where `a` is a float. FKxM and fKxM have K
 * outputs and M taps. */
#pragma once

#include "device/winograd.h"

#ifndef WINOGRAD_STEP /* a card has its own */
#define WINOGRAD_STEP static inline __attribute__((always_inline, unused))
#endif

typedef enum form { F4X3, F7X3, F4X5, F4X2, F7X2, F4X1, F7X1 } form;

WINOGRAD_STEP int form_taps(form f)
{
    return f == F4X5 ? 5 : f <= F7X3 ? 3 : f <= F7X2 ? 2 : 1;
}

WINOGRAD_STEP int form_tile(form f)
{
    return f == F7X3 || f == F7X2 || f == F7X1 ? 7 : 4;
}

/* Places of a tile, and inputs that it reads. */
WINOGRAD_STEP int form_window(form f)
{
    return form_taps(f) + form_tile(f) - 1;
}

/* Places with a U of their own. */
WINOGRAD_STEP int form_distinct(form f)
{
    return form_taps(f) == 1 ? 1 : form_window(f);
}

WINOGRAD_STEP form form_of(int taps, int tile)
{
    switch (taps) {
    case 1:
        return tile == 7 ? F7X1 : F4X1;
    case 2:
        return tile == 7 ? F7X2 : F4X2;
    case 3:
        return tile == 7 ? F7X3 : F4X3;
    default:
        return F4X5;
    }
}

/* Sums and differences of the products at the points +-1, +-2 and +-1/2. */
typedef struct winograd_pairs {
    winograd_number a, b, c, d, e, f;
} winograd_pairs;

WINOGRAD_STEP winograd_pairs winograd_pairs_of(const winograd_number *m)
{
    return (winograd_pairs){m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4], m[5] + m[6], m[5] - m[6]};
}

/* The same of what 5 or 2 taps take from there. */
WINOGRAD_STEP winograd_pairs weighed_pairs_of(const winograd_number *m)
{
    const winograd_pairs p = winograd_pairs_of(m);
    return (winograd_pairs){LS_WINOGRAD_NINTHS * p.a, LS_WINOGRAD_NINTHS * p.b, LS_WINOGRAD_90TH * p.c,
                            LS_WINOGRAD_90TH * p.d,   LS_WINOGRAD_45THS * p.e,  LS_WINOGRAD_45THS * p.f};
}

/* The inputs' step of both. */
WINOGRAD_STEP void eight_inputs(const winograd_number *d, winograd_number *v)
{
    const winograd_number a = winograd_fma(-4.25f, d[4], d[2] + d[6]), b = winograd_fma(-4.25f, d[3], d[1] + d[5]);
    const winograd_number c = winograd_fma(0.25f, d[2], winograd_fma(-1.25f, d[4], d[6]));
    const winograd_number k = winograd_fma(0.5f, d[1], winograd_fma(-2.5f, d[3], 2.0f * d[5]));
    const winograd_number e = winograd_fma(4.0f, d[2], winograd_fma(-5.0f, d[4], d[6]));
    const winograd_number f = winograd_fma(2.0f, d[1], winograd_fma(-2.5f, d[3], 0.5f * d[5]));
    v[0] = winograd_fma(5.25f, d[4] - d[2], d[0] - d[6]);
    v[1] = a + b;
    v[2] = a - b;
    v[3] = c + k;
    v[4] = c - k;
    v[5] = e + f;
    v[6] = e - f;
    v[7] = winograd_fma(5.25f, d[3] - d[5], d[7] - d[1]);
}

/* ---- F(7 x 7, 3 x 3), whose points are in pairs, each with a function of its own as in a loop compilers lose sight of
 * registers ---- */

WINOGRAD_STEP winograd_number weighted(const float *k, winograd_number a, winograd_number b, winograd_number c,
                                       winograd_number d)
{
    return winograd_fma(k[0], a, winograd_fma(k[1], b, winograd_fma(k[2], c, d)));
}

/* The sum and the difference of an even and an odd part. */
WINOGRAD_STEP void put_pair(winograd_number even, winograd_number odd, winograd_number *to)
{
    to[0] = even + odd;
    to[1] = even - odd;
}

WINOGRAD_STEP void weights_pair(const ls_winograd_pair *p, const winograd_number *g, winograd_number *u)
{
    put_pair(winograd_fma(p->weight[2], g[2], p->weight[0] * g[0]), p->weight[1] * g[1], u);
}

WINOGRAD_STEP void inputs_pair(const ls_winograd_pair *p, const winograd_number *d, winograd_number *v)
{
    put_pair(weighted(p->even, d[0], d[2], d[4], p->a * d[6]), weighted(p->odd, d[1], d[3], d[5], d[7]), v);
}

WINOGRAD_STEP void slopes_pair(const ls_winograd_pair *p, const winograd_number *s, winograd_number *e)
{
    const float *k = p->power;
    const winograd_number even = winograd_fma(k[5], s[6], winograd_fma(k[3], s[4], winograd_fma(k[1], s[2], s[0])));
    put_pair(even, winograd_fma(k[4], s[5], winograd_fma(k[2], s[3], k[0] * s[1])), e);
}

/* Sums and differences of the pairs' products. */
typedef struct f7x3_pairs {
    winograd_number s0, s1, s2, s3, t0, t1, t2, t3;
} f7x3_pairs;

WINOGRAD_STEP f7x3_pairs f7x3_pairs_of(const winograd_number *m)
{
    return (f7x3_pairs){m[0] + m[1], m[2] + m[3], m[4] + m[5], m[6] + m[7],
                        m[0] - m[1], m[2] - m[3], m[4] - m[5], m[6] - m[7]};
}

WINOGRAD_STEP winograd_number over_pairs(float k0, float k1, float k2, float k3, winograd_number a, winograd_number b,
                                         winograd_number c, winograd_number d)
{
    return winograd_fma(k3, d, winograd_fma(k2, c, winograd_fma(k1, b, k0 * a)));
}

WINOGRAD_STEP winograd_number power_sum(const int j, const f7x3_pairs *p)
{
    const ls_winograd_pair *k = ls_winograd_pairs;
    return j % 2 ? over_pairs(k[0].power[j - 1], k[1].power[j - 1], k[2].power[j - 1], k[3].power[j - 1], p->t0, p->t1,
                              p->t2, p->t3)
                 : over_pairs(k[0].power[j - 1], k[1].power[j - 1], k[2].power[j - 1], k[3].power[j - 1], p->s0, p->s1,
                              p->s2, p->s3);
}

WINOGRAD_STEP winograd_number weight_sum(const int j, const f7x3_pairs *p)
{
    const ls_winograd_pair *k = ls_winograd_pairs;
    return j == 1
               ? over_pairs(k[0].weight[j], k[1].weight[j], k[2].weight[j], k[3].weight[j], p->t0, p->t1, p->t2, p->t3)
               : over_pairs(k[0].weight[j], k[1].weight[j], k[2].weight[j], k[3].weight[j], p->s0, p->s1, p->s2, p->s3);
}

WINOGRAD_STEP void f7x3_weights(const winograd_number *g, winograd_number *u)
{
    weights_pair(&ls_winograd_pairs[0], g, u);
    weights_pair(&ls_winograd_pairs[1], g, u + 2);
    weights_pair(&ls_winograd_pairs[2], g, u + 4);
    weights_pair(&ls_winograd_pairs[3], g, u + 6);
    u[8] = g[2];
}

WINOGRAD_STEP void f7x3_inputs(const winograd_number *d, winograd_number *v)
{
    inputs_pair(&ls_winograd_pairs[0], d, v);
    inputs_pair(&ls_winograd_pairs[1], d, v + 2);
    inputs_pair(&ls_winograd_pairs[2], d, v + 4);
    inputs_pair(&ls_winograd_pairs[3], d, v + 6);
    v[8] = weighted(ls_winograd_last, d[0], d[2], d[4], winograd_fma(ls_winograd_last[3], d[6], d[8]));
}

WINOGRAD_STEP void f7x3_products(const winograd_number *m, winograd_number *o)
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

WINOGRAD_STEP void f7x3_slopes(const winograd_number *s, winograd_number *e)
{
    slopes_pair(&ls_winograd_pairs[0], s, e);
    slopes_pair(&ls_winograd_pairs[1], s, e + 2);
    slopes_pair(&ls_winograd_pairs[2], s, e + 4);
    slopes_pair(&ls_winograd_pairs[3], s, e + 6);
    e[8] = s[6];
}

WINOGRAD_STEP void f7x3_sums(const winograd_number *m, winograd_number *g)
{
    const f7x3_pairs p = f7x3_pairs_of(m);
    g[0] = weight_sum(0, &p);
    g[1] = weight_sum(1, &p);
    g[2] = weight_sum(2, &p) + m[8];
}

/* ---- Two taps ---- */

WINOGRAD_STEP void f4x2_weights(const winograd_number *g, winograd_number *u)
{
    u[0] = 0.5f * g[0];
    u[1] = -0.5f * (g[0] + g[1]);
    u[2] = LS_WINOGRAD_PLUS_SIXTH * (g[1] - g[0]);
    u[3] = LS_WINOGRAD_PLUS_SIXTH * winograd_fma(2.0f, g[1], g[0]);
    u[4] = g[1];
}

WINOGRAD_STEP void f4x2_inputs(const winograd_number *d, winograd_number *v)
{
    v[3] = d[3] - d[1];
    v[0] = winograd_fma(2.0f, d[0] - d[2], v[3]);
    v[1] = winograd_fma(-2.0f, d[1], d[3] - d[2]);
    v[2] = winograd_fma(2.0f, d[1], winograd_fma(-3.0f, d[2], d[3]));
    v[4] = winograd_fma(2.0f, d[1] - d[3], d[4] - d[2]);
}

WINOGRAD_STEP void f4x2_products(const winograd_number *m, winograd_number *o)
{
    const winograd_number a = m[1] + m[2], b = m[1] - m[2];
    o[0] = (m[0] + a) + m[3];
    o[1] = winograd_fma(2.0f, m[3], b);
    o[2] = winograd_fma(4.0f, m[3], a);
    o[3] = winograd_fma(8.0f, m[3], b) + m[4];
}

WINOGRAD_STEP void f4x2_slopes(const winograd_number *s, winograd_number *e)
{
    const winograd_number a = s[0] + s[2], b = s[1] + s[3];
    e[0] = s[0];
    e[1] = a + b;
    e[2] = a - b;
    e[3] = winograd_fma(8.0f, s[3], winograd_fma(4.0f, s[2], winograd_fma(2.0f, s[1], s[0])));
    e[4] = s[3];
}

WINOGRAD_STEP void f4x2_sums(const winograd_number *m, winograd_number *g)
{
    g[0] = winograd_fma(LS_WINOGRAD_PLUS_SIXTH, m[3] - m[2], 0.5f * (m[0] - m[1]));
    g[1] = winograd_fma(LS_WINOGRAD_THIRD, m[3], winograd_fma(LS_WINOGRAD_PLUS_SIXTH, m[2], -0.5f * m[1]));
    g[1] += m[4];
}

WINOGRAD_STEP void f7x2_weights(const winograd_number *g, winograd_number *u)
{
    u[0] = g[0];
    u[1] = LS_WINOGRAD_NINTHS * (g[0] + g[1]);
    u[2] = LS_WINOGRAD_NINTHS * (g[0] - g[1]);
    u[3] = LS_WINOGRAD_90TH * winograd_fma(2.0f, g[1], g[0]);
    u[4] = LS_WINOGRAD_90TH * winograd_fma(-2.0f, g[1], g[0]);
    u[5] = LS_WINOGRAD_45THS * winograd_fma(0.5f, g[1], g[0]);
    u[6] = LS_WINOGRAD_45THS * winograd_fma(-0.5f, g[1], g[0]);
    u[7] = g[1];
}

WINOGRAD_STEP void f7x2_products(const winograd_number *m, winograd_number *o)
{
    const winograd_pairs p = winograd_pairs_of(m);
    o[0] = ((m[0] + p.a) + p.c) + p.e;
    o[1] = winograd_fma(0.5f, p.f, winograd_fma(2.0f, p.d, p.b));
    o[2] = winograd_fma(0.25f, p.e, winograd_fma(4.0f, p.c, p.a));
    o[3] = winograd_fma(0.125f, p.f, winograd_fma(8.0f, p.d, p.b));
    o[4] = winograd_fma(0.0625f, p.e, winograd_fma(16.0f, p.c, p.a));
    o[5] = winograd_fma(0.03125f, p.f, winograd_fma(32.0f, p.d, p.b));
    o[6] = winograd_fma(0.015625f, p.e, winograd_fma(64.0f, p.c, p.a)) + m[7];
}

WINOGRAD_STEP void f7x2_slopes(const winograd_number *s, winograd_number *e)
{
    e[0] = s[0];
    put_pair((s[0] + s[2]) + (s[4] + s[6]), (s[1] + s[3]) + s[5], e + 1);
    put_pair(winograd_fma(64.0f, s[6], winograd_fma(16.0f, s[4], winograd_fma(4.0f, s[2], s[0]))),
             winograd_fma(32.0f, s[5], winograd_fma(8.0f, s[3], 2.0f * s[1])), e + 3);
    put_pair(winograd_fma(0.015625f, s[6], winograd_fma(0.0625f, s[4], winograd_fma(0.25f, s[2], s[0]))),
             winograd_fma(0.03125f, s[5], winograd_fma(0.125f, s[3], 0.5f * s[1])), e + 5);
    e[7] = s[6];
}

WINOGRAD_STEP void f7x2_sums(const winograd_number *m, winograd_number *g)
{
    const winograd_pairs p = weighed_pairs_of(m);
    g[0] = ((m[0] + p.a) + p.c) + p.e;
    g[1] = winograd_fma(0.5f, p.f, winograd_fma(2.0f, p.d, p.b)) + m[7];
}

/* ---- Three taps, tiles of 4 ---- */

WINOGRAD_STEP void f4x3_weights(const winograd_number *g, winograd_number *u)
{
    const winograd_number s = g[0] + g[2], q = winograd_fma(4.0f, g[2], g[0]);
    u[0] = 0.25f * g[0];
    u[1] = LS_WINOGRAD_SIXTH * (s + g[1]);
    u[2] = LS_WINOGRAD_SIXTH * (s - g[1]);
    u[3] = LS_WINOGRAD_24TH * winograd_fma(2.0f, g[1], q);
    u[4] = LS_WINOGRAD_24TH * winograd_fma(-2.0f, g[1], q);
    u[5] = g[2];
}

WINOGRAD_STEP void f4x3_inputs(const winograd_number *d, winograd_number *v)
{
    const winograd_number p = winograd_fma(-4.0f, d[2], d[4]), q = winograd_fma(-4.0f, d[1], d[3]);
    const winograd_number r = d[4] - d[2], s = 2.0f * (d[3] - d[1]);
    v[0] = winograd_fma(4.0f, d[0], winograd_fma(-5.0f, d[2], d[4]));
    v[1] = p + q;
    v[2] = p - q;
    v[3] = r + s;
    v[4] = r - s;
    v[5] = winograd_fma(4.0f, d[1], winograd_fma(-5.0f, d[3], d[5]));
}

WINOGRAD_STEP void f4x3_products(const winograd_number *m, winograd_number *o)
{
    const winograd_number a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
    o[0] = (m[0] + a) + c;
    o[1] = winograd_fma(2.0f, d, b);
    o[2] = winograd_fma(4.0f, c, a);
    o[3] = winograd_fma(8.0f, d, b) + m[5];
}

/* The slopes at the points 0, +-1 and +-2. */
WINOGRAD_STEP void inner_points(const winograd_number *s, winograd_number *e)
{
    const winograd_number a = s[0] + s[2], b = s[1] + s[3];
    const winograd_number c = winograd_fma(4.0f, s[2], s[0]), d = winograd_fma(4.0f, s[3], s[1]);
    e[0] = s[0];
    e[1] = a + b;
    e[2] = a - b;
    e[3] = winograd_fma(2.0f, d, c);
    e[4] = winograd_fma(-2.0f, d, c);
}

WINOGRAD_STEP void f4x3_slopes(const winograd_number *s, winograd_number *e)
{
    inner_points(s, e);
    e[5] = s[3];
}

WINOGRAD_STEP void f4x3_sums(const winograd_number *m, winograd_number *g)
{
    const winograd_number a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
    g[0] = winograd_fma(LS_WINOGRAD_24TH, c, winograd_fma(LS_WINOGRAD_SIXTH, a, 0.25f * m[0]));
    g[1] = winograd_fma(LS_WINOGRAD_12TH, d, LS_WINOGRAD_SIXTH * b);
    g[2] = winograd_fma(-LS_WINOGRAD_SIXTH, c - a, m[5]);
}

/* ---- Five taps, tiles of 4 ---- */

WINOGRAD_STEP void f4x5_weights(const winograd_number *g, winograd_number *u)
{
    const winograd_number s = (g[0] + g[2]) + g[4], t = g[1] + g[3];
    const winograd_number q = winograd_fma(16.0f, g[4], winograd_fma(4.0f, g[2], g[0])),
                          r = winograd_fma(4.0f, g[3], g[1]);
    const winograd_number h = winograd_fma(0.0625f, g[4], winograd_fma(0.25f, g[2], g[0])),
                          l = winograd_fma(0.25f, g[3], g[1]);
    u[0] = g[0];
    u[1] = LS_WINOGRAD_NINTHS * (s + t);
    u[2] = LS_WINOGRAD_NINTHS * (s - t);
    u[3] = LS_WINOGRAD_90TH * winograd_fma(2.0f, r, q);
    u[4] = LS_WINOGRAD_90TH * winograd_fma(-2.0f, r, q);
    u[5] = LS_WINOGRAD_45THS * winograd_fma(0.5f, l, h);
    u[6] = LS_WINOGRAD_45THS * winograd_fma(-0.5f, l, h);
    u[7] = g[4];
}

WINOGRAD_STEP void f4x5_products(const winograd_number *m, winograd_number *o)
{
    const winograd_pairs p = winograd_pairs_of(m);
    o[0] = ((m[0] + p.a) + p.c) + p.e;
    o[1] = winograd_fma(0.5f, p.f, winograd_fma(2.0f, p.d, p.b));
    o[2] = winograd_fma(0.25f, p.e, winograd_fma(4.0f, p.c, p.a));
    o[3] = winograd_fma(0.125f, p.f, winograd_fma(8.0f, p.d, p.b)) + m[7];
}

WINOGRAD_STEP void f4x5_slopes(const winograd_number *s, winograd_number *e)
{
    const winograd_number g = winograd_fma(0.25f, s[2], s[0]), h = winograd_fma(0.25f, s[3], s[1]);
    inner_points(s, e);
    e[5] = winograd_fma(0.5f, h, g);
    e[6] = winograd_fma(-0.5f, h, g);
    e[7] = s[3];
}

WINOGRAD_STEP void f4x5_sums(const winograd_number *m, winograd_number *g)
{
    const winograd_pairs p = weighed_pairs_of(m);
    g[0] = ((m[0] + p.a) + p.c) + p.e;
    g[1] = winograd_fma(0.5f, p.f, winograd_fma(2.0f, p.d, p.b));
    g[2] = winograd_fma(0.25f, p.e, winograd_fma(4.0f, p.c, p.a));
    g[3] = winograd_fma(0.125f, p.f, winograd_fma(8.0f, p.d, p.b));
    g[4] = winograd_fma(0.0625f, p.e, winograd_fma(16.0f, p.c, p.a)) + m[7];
}

/* With five taps, the inputs' step transposed. */
WINOGRAD_STEP void winograd_gradients(const winograd_number *m, winograd_number *g)
{
    const winograd_pairs p = winograd_pairs_of(m);
    g[0] = m[0];
    g[1] = winograd_fma(2.0f, p.f, winograd_fma(0.5f, p.d, p.b - m[7]));
    g[2] = winograd_fma(-5.25f, m[0], winograd_fma(4.0f, p.e, winograd_fma(0.25f, p.c, p.a)));
    g[3] = winograd_fma(5.25f, m[7], winograd_fma(-4.25f, p.b, -2.5f * (p.d + p.f)));
    g[4] = winograd_fma(5.25f, m[0], winograd_fma(-4.25f, p.a, winograd_fma(-5.0f, p.e, -1.25f * p.c)));
    g[5] = winograd_fma(-5.25f, m[7], winograd_fma(0.5f, p.f, winograd_fma(2.0f, p.d, p.b)));
    g[6] = ((p.a + p.c) + p.e) - m[0];
    g[7] = m[7];
}

/* ---- One tap ---- */

WINOGRAD_STEP void f1_weight(const winograd_number *from, winograd_number *to)
{
    to[0] = from[0];
}

WINOGRAD_STEP void f4x1_places(const winograd_number *from, winograd_number *to)
{
    for (int i = 0; i < 4; i++)
        to[i] = from[i];
}

WINOGRAD_STEP void f7x1_places(const winograd_number *from, winograd_number *to)
{
    for (int i = 0; i < 7; i++)
        to[i] = from[i];
}

/* ---- All forms; a card wants no table of functions ---- */

#ifndef __cplusplus
typedef void winograd_step(const winograd_number *from, winograd_number *to);
static const struct {
    winograd_step *weights, *inputs, *products, *slopes, *sums;
} winograd_steps[] = {
    [F4X3] = {f4x3_weights, f4x3_inputs, f4x3_products, f4x3_slopes, f4x3_sums},
    [F7X3] = {f7x3_weights, f7x3_inputs, f7x3_products, f7x3_slopes, f7x3_sums},
    [F4X5] = {f4x5_weights, eight_inputs, f4x5_products, f4x5_slopes, f4x5_sums},
    [F4X2] = {f4x2_weights, f4x2_inputs, f4x2_products, f4x2_slopes, f4x2_sums},
    [F7X2] = {f7x2_weights, eight_inputs, f7x2_products, f7x2_slopes, f7x2_sums},
    [F4X1] = {f1_weight, f4x1_places, f4x1_places, f4x1_places, f1_weight},
    [F7X1] = {f1_weight, f7x1_places, f7x1_places, f7x1_places, f1_weight},
};
#endif
