/* The one-dimensional steps of `winograd.h` as plain C. */
#include "device/ref/winograd_forms.h"

#include <math.h>
#include <stddef.h>

#include "device/winograd.h"

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

static void weights_37(const float *g, int g_step, float *u, int u_step)
{
    float g0 = g[0], g1 = g[g_step], g2 = g[2 * g_step];
    for (int i = 0; i < 4; i++) {
        const float *k = ls_winograd_pairs[i].weight;
        float e = fmaf(k[2], g2, k[0] * g0), o = k[1] * g1;
        u[2 * i * u_step] = e + o;
        u[(2 * i + 1) * u_step] = e - o;
    }
    u[8 * u_step] = g2;
}

static void inputs_37(const float *d, int d_step, float *v, int v_step)
{
    float d0 = d[0], d1 = d[d_step], d2 = d[2 * d_step], d3 = d[3 * d_step], d4 = d[4 * d_step];
    float d5 = d[5 * d_step], d6 = d[6 * d_step], d7 = d[7 * d_step], d8 = d[8 * d_step];
    for (int i = 0; i < 4; i++) {
        const ls_winograd_pair *p = &ls_winograd_pairs[i];
        float e = fmaf(p->even[0], d0, fmaf(p->even[1], d2, fmaf(p->even[2], d4, p->a * d6)));
        float o = fmaf(p->odd[0], d1, fmaf(p->odd[1], d3, fmaf(p->odd[2], d5, d7)));
        v[2 * i * v_step] = e + o;
        v[(2 * i + 1) * v_step] = e - o;
    }
    const float *k = ls_winograd_last;
    v[8 * v_step] = fmaf(k[0], d0, fmaf(k[1], d2, fmaf(k[2], d4, fmaf(k[3], d6, d8))));
}

/* The sum over the pairs of one factor of each and its sum (or difference) of two products. */
static float over_pairs(const float factor[4], const float z[4])
{
    return fmaf(factor[3], z[3], fmaf(factor[2], z[2], fmaf(factor[1], z[1], factor[0] * z[0])));
}

static void pairs_of(const float *m, int m_step, float s[4], float t[4])
{
    for (int i = 0; i < 4; i++) {
        s[i] = m[2 * i * m_step] + m[(2 * i + 1) * m_step];
        t[i] = m[2 * i * m_step] - m[(2 * i + 1) * m_step];
    }
}

static void products_37(const float *m, int m_step, float *o, int o_step)
{
    float s[4], t[4], factor[4];
    pairs_of(m, m_step, s, t);
    o[0] = (s[0] + s[1]) + (s[2] + s[3]);
    for (int j = 1; j < 7; j++) {
        for (int i = 0; i < 4; i++) {
            factor[i] = ls_winograd_pairs[i].power[j - 1];
        }
        o[j * o_step] = over_pairs(factor, j % 2 ? t : s);
    }
    o[6 * o_step] = o[6 * o_step] + m[8 * m_step];
}

static void slopes_37(const float *s, int s_step, float *e, int e_step)
{
    float s0 = s[0], s1 = s[s_step], s2 = s[2 * s_step], s3 = s[3 * s_step];
    float s4 = s[4 * s_step], s5 = s[5 * s_step], s6 = s[6 * s_step];
    for (int i = 0; i < 4; i++) {
        const float *k = ls_winograd_pairs[i].power;
        float p = fmaf(k[5], s6, fmaf(k[3], s4, fmaf(k[1], s2, s0)));
        float q = fmaf(k[4], s5, fmaf(k[2], s3, k[0] * s1));
        e[2 * i * e_step] = p + q;
        e[(2 * i + 1) * e_step] = p - q;
    }
    e[8 * e_step] = s6;
}

static void sums_37(const float *m, int m_step, float *g, int g_step)
{
    float s[4], t[4], factor[4];
    pairs_of(m, m_step, s, t);
    for (int j = 0; j < 3; j++) {
        for (int i = 0; i < 4; i++) {
            factor[i] = ls_winograd_pairs[i].weight[j];
        }
        g[j * g_step] = over_pairs(factor, j == 1 ? t : s);
    }
    g[2 * g_step] = g[2 * g_step] + m[8 * m_step];
}

/* Eight products are those of 0, of the pairs 1 and -1, 2 and -2, 1/2 and -1/2, and of infinity: each pair's sum and
 * difference. */
typedef struct pairs {
    float a, b, c, d, e, f;
} pairs;

static pairs finite_pairs(const float *m, int m_step)
{
    float m1 = m[m_step], m2 = m[2 * m_step], m3 = m[3 * m_step];
    float m4 = m[4 * m_step], m5 = m[5 * m_step], m6 = m[6 * m_step];
    return (pairs){m1 + m2, m1 - m2, m3 + m4, m3 - m4, m5 + m6, m5 - m6};
}

static pairs weighed_pairs(const float *m, int m_step)
{
    pairs p = finite_pairs(m, m_step);
    return (pairs){p.a * LS_WINOGRAD_NINTHS, p.b * LS_WINOGRAD_NINTHS, p.c * LS_WINOGRAD_90TH,
                   p.d * LS_WINOGRAD_90TH,   p.e * LS_WINOGRAD_45THS,  p.f * LS_WINOGRAD_45THS};
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
    const pairs p = finite_pairs(m, m_step);
    o[0 * o_step] = ((m[0] + p.a) + p.c) + p.e;
    o[1 * o_step] = fmaf(0.5f, p.f, fmaf(2, p.d, p.b));
    o[2 * o_step] = fmaf(0.25f, p.e, fmaf(4, p.c, p.a));
    o[3 * o_step] = fmaf(0.125f, p.f, fmaf(8, p.d, p.b)) + m[7 * m_step];
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
    const pairs p = weighed_pairs(m, m_step);
    g[0 * g_step] = ((m[0] + p.a) + p.c) + p.e;
    g[1 * g_step] = fmaf(0.5f, p.f, fmaf(2, p.d, p.b));
    g[2 * g_step] = fmaf(0.25f, p.e, fmaf(4, p.c, p.a));
    g[3 * g_step] = fmaf(0.125f, p.f, fmaf(8, p.d, p.b));
    g[4 * g_step] = fmaf(0.0625f, p.e, fmaf(16, p.c, p.a)) + m[7 * m_step];
}

static void gradients_5(const float *m, int m_step, float *g, int g_step)
{
    const pairs p = finite_pairs(m, m_step);
    g[0 * g_step] = m[0];
    g[1 * g_step] = fmaf(2, p.f, fmaf(0.5f, p.d, p.b - m[7 * m_step]));
    g[2 * g_step] = fmaf(-5.25f, m[0], fmaf(4, p.e, fmaf(0.25f, p.c, p.a)));
    g[3 * g_step] = fmaf(5.25f, m[7 * m_step], fmaf(-4.25f, p.b, (p.d + p.f) * -2.5f));
    g[4 * g_step] = fmaf(5.25f, m[0], fmaf(-4.25f, p.a, fmaf(-5, p.e, p.c * -1.25f)));
    g[5 * g_step] = fmaf(-5.25f, m[7 * m_step], fmaf(0.5f, p.f, fmaf(2, p.d, p.b)));
    g[6 * g_step] = ((p.a + p.c) + p.e) - m[0];
    g[7 * g_step] = m[7 * m_step];
}

static void weights_24(const float *g, int g_step, float *u, int u_step)
{
    float g0 = g[0], g1 = g[g_step], s = g0 + g1;
    u[0 * u_step] = g0 * 0.5f;
    u[1 * u_step] = s * -0.5f;
    u[2 * u_step] = (g1 - g0) * LS_WINOGRAD_PLUS_SIXTH;
    u[3 * u_step] = fmaf(2, g1, g0) * LS_WINOGRAD_PLUS_SIXTH;
    u[4 * u_step] = g1;
}

static void inputs_24(const float *d, int d_step, float *v, int v_step)
{
    float d0 = d[0], d1 = d[d_step], d2 = d[2 * d_step], d3 = d[3 * d_step], d4 = d[4 * d_step];
    v[0 * v_step] = fmaf(2, d0 - d2, d3 - d1);
    v[1 * v_step] = fmaf(-2, d1, d3 - d2);
    v[2 * v_step] = fmaf(2, d1, fmaf(-3, d2, d3));
    v[3 * v_step] = d3 - d1;
    v[4 * v_step] = fmaf(2, d1 - d3, d4 - d2);
}

static void products_24(const float *m, int m_step, float *o, int o_step)
{
    float m0 = m[0], m1 = m[m_step], m2 = m[2 * m_step], m3 = m[3 * m_step], m4 = m[4 * m_step];
    float a = m1 + m2, b = m1 - m2;
    o[0 * o_step] = (m0 + a) + m3;
    o[1 * o_step] = fmaf(2, m3, b);
    o[2 * o_step] = fmaf(4, m3, a);
    o[3 * o_step] = fmaf(8, m3, b) + m4;
}

static void slopes_24(const float *s, int s_step, float *e, int e_step)
{
    float s0 = s[0], s1 = s[s_step], s2 = s[2 * s_step], s3 = s[3 * s_step], a = s0 + s2, b = s1 + s3;
    e[0 * e_step] = s0;
    e[1 * e_step] = a + b;
    e[2 * e_step] = a - b;
    e[3 * e_step] = fmaf(8, s3, fmaf(4, s2, fmaf(2, s1, s0)));
    e[4 * e_step] = s3;
}

static void sums_24(const float *m, int m_step, float *g, int g_step)
{
    float m0 = m[0], m1 = m[m_step], m2 = m[2 * m_step], m3 = m[3 * m_step], m4 = m[4 * m_step];
    g[0 * g_step] = fmaf(LS_WINOGRAD_PLUS_SIXTH, m3 - m2, (m0 - m1) * 0.5f);
    g[1 * g_step] = fmaf(LS_WINOGRAD_THIRD, m3, fmaf(LS_WINOGRAD_PLUS_SIXTH, m2, m1 * -0.5f)) + m4;
}

static void weights_27(const float *g, int g_step, float *u, int u_step)
{
    float g0 = g[0], g1 = g[g_step];
    u[0 * u_step] = g0;
    u[1 * u_step] = (g0 + g1) * LS_WINOGRAD_NINTHS;
    u[2 * u_step] = (g0 - g1) * LS_WINOGRAD_NINTHS;
    u[3 * u_step] = fmaf(2, g1, g0) * LS_WINOGRAD_90TH;
    u[4 * u_step] = fmaf(-2, g1, g0) * LS_WINOGRAD_90TH;
    u[5 * u_step] = fmaf(0.5f, g1, g0) * LS_WINOGRAD_45THS;
    u[6 * u_step] = fmaf(-0.5f, g1, g0) * LS_WINOGRAD_45THS;
    u[7 * u_step] = g1;
}

static void products_27(const float *m, int m_step, float *o, int o_step)
{
    const pairs p = finite_pairs(m, m_step);
    o[0 * o_step] = ((m[0] + p.a) + p.c) + p.e;
    o[1 * o_step] = fmaf(0.5f, p.f, fmaf(2, p.d, p.b));
    o[2 * o_step] = fmaf(0.25f, p.e, fmaf(4, p.c, p.a));
    o[3 * o_step] = fmaf(0.125f, p.f, fmaf(8, p.d, p.b));
    o[4 * o_step] = fmaf(0.0625f, p.e, fmaf(16, p.c, p.a));
    o[5 * o_step] = fmaf(0.03125f, p.f, fmaf(32, p.d, p.b));
    o[6 * o_step] = fmaf(0.015625f, p.e, fmaf(64, p.c, p.a)) + m[7 * m_step];
}

static void slopes_27(const float *s, int s_step, float *e, int e_step)
{
    float s0 = s[0], s1 = s[s_step], s2 = s[2 * s_step], s3 = s[3 * s_step];
    float s4 = s[4 * s_step], s5 = s[5 * s_step], s6 = s[6 * s_step];
    float a = (s0 + s2) + (s4 + s6), b = (s1 + s3) + s5;
    float c = fmaf(64, s6, fmaf(16, s4, fmaf(4, s2, s0))), d = fmaf(32, s5, fmaf(8, s3, 2 * s1));
    float g = fmaf(0.015625f, s6, fmaf(0.0625f, s4, fmaf(0.25f, s2, s0)));
    float h = fmaf(0.03125f, s5, fmaf(0.125f, s3, 0.5f * s1));
    e[0 * e_step] = s0;
    e[1 * e_step] = a + b;
    e[2 * e_step] = a - b;
    e[3 * e_step] = c + d;
    e[4 * e_step] = c - d;
    e[5 * e_step] = g + h;
    e[6 * e_step] = g - h;
    e[7 * e_step] = s6;
}

static void sums_27(const float *m, int m_step, float *g, int g_step)
{
    const pairs p = weighed_pairs(m, m_step);
    g[0 * g_step] = ((m[0] + p.a) + p.c) + p.e;
    g[1 * g_step] = fmaf(0.5f, p.f, fmaf(2, p.d, p.b)) + m[7 * m_step];
}

static void copy(int n, const float *from, int from_step, float *to, int to_step)
{
    for (int i = 0; i < n; i++) {
        to[i * to_step] = from[i * from_step];
    }
}

static void copy_1(const float *from, int from_step, float *to, int to_step)
{
    copy(1, from, from_step, to, to_step);
}

static void copy_4(const float *from, int from_step, float *to, int to_step)
{
    copy(4, from, from_step, to, to_step);
}

static void copy_7(const float *from, int from_step, float *to, int to_step)
{
    copy(7, from, from_step, to, to_step);
}

static const ls_ref_form forms[] = {
    {3, 4, 6, 6, weights_3, inputs_3, products_3, slopes_3, sums_3, NULL},
    {3, 7, 9, 9, weights_37, inputs_37, products_37, slopes_37, sums_37, NULL},
    {5, 4, 8, 8, weights_5, inputs_5, products_5, slopes_5, sums_5, gradients_5},
    {2, 4, 5, 5, weights_24, inputs_24, products_24, slopes_24, sums_24, NULL},
    {2, 7, 8, 8, weights_27, inputs_5, products_27, slopes_27, sums_27, NULL},
    {1, 4, 4, 1, copy_1, copy_4, copy_4, copy_4, copy_1, NULL},
    {1, 7, 7, 1, copy_1, copy_7, copy_7, copy_7, copy_1, NULL},
};

const ls_ref_form *ls_ref_form_of(int taps, int tile)
{
    const ls_ref_form *f = forms;
    while (f->taps != taps || f->tile != tile) {
        f++;
    }
    return f;
}
