/* The one-dimensional steps of `winograd.h` as plain C. */
#include "device/ref/winograd_forms.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "device/winograd.h"

static void weights_3(const float *g, float *u)
{
    float s = g[0] + g[2], q = fmaf(4, g[2], g[0]);
    u[0] = g[0] * 0.25f;
    u[1] = (s + g[1]) * LS_WINOGRAD_SIXTH;
    u[2] = (s - g[1]) * LS_WINOGRAD_SIXTH;
    u[3] = fmaf(2, g[1], q) * LS_WINOGRAD_24TH;
    u[4] = fmaf(-2, g[1], q) * LS_WINOGRAD_24TH;
    u[5] = g[2];
}

static void inputs_3(const float *d, float *v)
{
    float p = fmaf(-4, d[2], d[4]), q = fmaf(-4, d[1], d[3]), r = d[4] - d[2], s = 2 * (d[3] - d[1]);
    v[0] = fmaf(4, d[0], fmaf(-5, d[2], d[4]));
    v[1] = p + q;
    v[2] = p - q;
    v[3] = r + s;
    v[4] = r - s;
    v[5] = fmaf(4, d[1], fmaf(-5, d[3], d[5]));
}

static void products_3(const float *m, float *o)
{
    float a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
    o[0] = (m[0] + a) + c;
    o[1] = fmaf(2, d, b);
    o[2] = fmaf(4, c, a);
    o[3] = fmaf(8, d, b) + m[5];
}

static void slopes_3(const float *s, float *e)
{
    float a = s[0] + s[2], b = s[1] + s[3], c = fmaf(4, s[2], s[0]), d = fmaf(4, s[3], s[1]);
    e[0] = s[0];
    e[1] = a + b;
    e[2] = a - b;
    e[3] = fmaf(2, d, c);
    e[4] = fmaf(-2, d, c);
    e[5] = s[3];
}

static void sums_3(const float *m, float *g)
{
    float a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
    g[0] = fmaf(LS_WINOGRAD_24TH, c, fmaf(LS_WINOGRAD_SIXTH, a, m[0] * 0.25f));
    g[1] = fmaf(LS_WINOGRAD_12TH, d, b * LS_WINOGRAD_SIXTH);
    g[2] = fmaf(-LS_WINOGRAD_SIXTH, c - a, m[5]);
}

static void weights_37(const float *g, float *u)
{
    for (int i = 0; i < 4; i++) {
        const float *k = ls_winograd_pairs[i].weight;
        float e = fmaf(k[2], g[2], k[0] * g[0]), o = k[1] * g[1];
        u[2 * i] = e + o;
        u[2 * i + 1] = e - o;
    }
    u[8] = g[2];
}

static void inputs_37(const float *d, float *v)
{
    for (int i = 0; i < 4; i++) {
        const ls_winograd_pair *p = &ls_winograd_pairs[i];
        float e = fmaf(p->even[0], d[0], fmaf(p->even[1], d[2], fmaf(p->even[2], d[4], p->a * d[6])));
        float o = fmaf(p->odd[0], d[1], fmaf(p->odd[1], d[3], fmaf(p->odd[2], d[5], d[7])));
        v[2 * i] = e + o;
        v[2 * i + 1] = e - o;
    }
    const float *k = ls_winograd_last;
    v[8] = fmaf(k[0], d[0], fmaf(k[1], d[2], fmaf(k[2], d[4], fmaf(k[3], d[6], d[8]))));
}

/* The sum over the pairs of one factor of each and its sum (or difference) of two products. */
static float over_pairs(const float factor[4], const float z[4])
{
    return fmaf(factor[3], z[3], fmaf(factor[2], z[2], fmaf(factor[1], z[1], factor[0] * z[0])));
}

static void pairs_of(const float *m, float s[4], float t[4])
{
    for (int i = 0; i < 4; i++) {
        s[i] = m[2 * i] + m[2 * i + 1];
        t[i] = m[2 * i] - m[2 * i + 1];
    }
}

static void products_37(const float *m, float *o)
{
    float s[4], t[4], factor[4];
    pairs_of(m, s, t);
    o[0] = (s[0] + s[1]) + (s[2] + s[3]);
    for (int j = 1; j < 7; j++) {
        for (int i = 0; i < 4; i++)
            factor[i] = ls_winograd_pairs[i].power[j - 1];
        o[j] = over_pairs(factor, j % 2 ? t : s);
    }
    o[6] = o[6] + m[8];
}

static void slopes_37(const float *s, float *e)
{
    for (int i = 0; i < 4; i++) {
        const float *k = ls_winograd_pairs[i].power;
        float p = fmaf(k[5], s[6], fmaf(k[3], s[4], fmaf(k[1], s[2], s[0])));
        float q = fmaf(k[4], s[5], fmaf(k[2], s[3], k[0] * s[1]));
        e[2 * i] = p + q;
        e[2 * i + 1] = p - q;
    }
    e[8] = s[6];
}

static void sums_37(const float *m, float *g)
{
    float s[4], t[4], factor[4];
    pairs_of(m, s, t);
    for (int j = 0; j < 3; j++) {
        for (int i = 0; i < 4; i++)
            factor[i] = ls_winograd_pairs[i].weight[j];
        g[j] = over_pairs(factor, j == 1 ? t : s);
    }
    g[2] = g[2] + m[8];
}

/* Eight products are those of 0, of the pairs 1 and -1, 2 and -2, 1/2 and -1/2, and of infinity: each pair's sum and
 * difference. */
typedef struct pairs {
    float a, b, c, d, e, f;
} pairs;

static pairs finite_pairs(const float *m)
{
    return (pairs){m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4], m[5] + m[6], m[5] - m[6]};
}

static pairs weighed_pairs(const float *m)
{
    pairs p = finite_pairs(m);
    return (pairs){p.a * LS_WINOGRAD_NINTHS, p.b * LS_WINOGRAD_NINTHS, p.c * LS_WINOGRAD_90TH,
                   p.d * LS_WINOGRAD_90TH,   p.e * LS_WINOGRAD_45THS,  p.f * LS_WINOGRAD_45THS};
}

static void weights_5(const float *g, float *u)
{
    float s = (g[0] + g[2]) + g[4], t = g[1] + g[3], q = fmaf(16, g[4], fmaf(4, g[2], g[0])), r = fmaf(4, g[3], g[1]);
    float h = fmaf(0.0625f, g[4], fmaf(0.25f, g[2], g[0])), l = fmaf(0.25f, g[3], g[1]);
    u[0] = g[0];
    u[1] = (s + t) * LS_WINOGRAD_NINTHS;
    u[2] = (s - t) * LS_WINOGRAD_NINTHS;
    u[3] = fmaf(2, r, q) * LS_WINOGRAD_90TH;
    u[4] = fmaf(-2, r, q) * LS_WINOGRAD_90TH;
    u[5] = fmaf(0.5f, l, h) * LS_WINOGRAD_45THS;
    u[6] = fmaf(-0.5f, l, h) * LS_WINOGRAD_45THS;
    u[7] = g[4];
}

static void inputs_5(const float *d, float *v)
{
    float a = fmaf(-4.25f, d[4], d[2] + d[6]), b = fmaf(-4.25f, d[3], d[1] + d[5]);
    float c = fmaf(0.25f, d[2], fmaf(-1.25f, d[4], d[6])), k = fmaf(0.5f, d[1], fmaf(-2.5f, d[3], d[5] * 2));
    float e = fmaf(4, d[2], fmaf(-5, d[4], d[6])), f = fmaf(2, d[1], fmaf(-2.5f, d[3], d[5] * 0.5f));
    v[0] = fmaf(5.25f, d[4] - d[2], d[0] - d[6]);
    v[1] = a + b;
    v[2] = a - b;
    v[3] = c + k;
    v[4] = c - k;
    v[5] = e + f;
    v[6] = e - f;
    v[7] = fmaf(5.25f, d[3] - d[5], d[7] - d[1]);
}

static void products_5(const float *m, float *o)
{
    const pairs p = finite_pairs(m);
    o[0] = ((m[0] + p.a) + p.c) + p.e;
    o[1] = fmaf(0.5f, p.f, fmaf(2, p.d, p.b));
    o[2] = fmaf(0.25f, p.e, fmaf(4, p.c, p.a));
    o[3] = fmaf(0.125f, p.f, fmaf(8, p.d, p.b)) + m[7];
}

static void slopes_5(const float *s, float *e)
{
    float a = s[0] + s[2], b = s[1] + s[3], c = fmaf(4, s[2], s[0]), d = fmaf(4, s[3], s[1]);
    float g = fmaf(0.25f, s[2], s[0]), h = fmaf(0.25f, s[3], s[1]);
    e[0] = s[0];
    e[1] = a + b;
    e[2] = a - b;
    e[3] = fmaf(2, d, c);
    e[4] = fmaf(-2, d, c);
    e[5] = fmaf(0.5f, h, g);
    e[6] = fmaf(-0.5f, h, g);
    e[7] = s[3];
}

static void sums_5(const float *m, float *g)
{
    const pairs p = weighed_pairs(m);
    g[0] = ((m[0] + p.a) + p.c) + p.e;
    g[1] = fmaf(0.5f, p.f, fmaf(2, p.d, p.b));
    g[2] = fmaf(0.25f, p.e, fmaf(4, p.c, p.a));
    g[3] = fmaf(0.125f, p.f, fmaf(8, p.d, p.b));
    g[4] = fmaf(0.0625f, p.e, fmaf(16, p.c, p.a)) + m[7];
}

static void gradients_5(const float *m, float *g)
{
    const pairs p = finite_pairs(m);
    g[0] = m[0];
    g[1] = fmaf(2, p.f, fmaf(0.5f, p.d, p.b - m[7]));
    g[2] = fmaf(-5.25f, m[0], fmaf(4, p.e, fmaf(0.25f, p.c, p.a)));
    g[3] = fmaf(5.25f, m[7], fmaf(-4.25f, p.b, (p.d + p.f) * -2.5f));
    g[4] = fmaf(5.25f, m[0], fmaf(-4.25f, p.a, fmaf(-5, p.e, p.c * -1.25f)));
    g[5] = fmaf(-5.25f, m[7], fmaf(0.5f, p.f, fmaf(2, p.d, p.b)));
    g[6] = ((p.a + p.c) + p.e) - m[0];
    g[7] = m[7];
}

static void weights_24(const float *g, float *u)
{
    float s = g[0] + g[1];
    u[0] = g[0] * 0.5f;
    u[1] = s * -0.5f;
    u[2] = (g[1] - g[0]) * LS_WINOGRAD_PLUS_SIXTH;
    u[3] = fmaf(2, g[1], g[0]) * LS_WINOGRAD_PLUS_SIXTH;
    u[4] = g[1];
}

static void inputs_24(const float *d, float *v)
{
    v[0] = fmaf(2, d[0] - d[2], d[3] - d[1]);
    v[1] = fmaf(-2, d[1], d[3] - d[2]);
    v[2] = fmaf(2, d[1], fmaf(-3, d[2], d[3]));
    v[3] = d[3] - d[1];
    v[4] = fmaf(2, d[1] - d[3], d[4] - d[2]);
}

static void products_24(const float *m, float *o)
{
    float a = m[1] + m[2], b = m[1] - m[2];
    o[0] = (m[0] + a) + m[3];
    o[1] = fmaf(2, m[3], b);
    o[2] = fmaf(4, m[3], a);
    o[3] = fmaf(8, m[3], b) + m[4];
}

static void slopes_24(const float *s, float *e)
{
    float a = s[0] + s[2], b = s[1] + s[3];
    e[0] = s[0];
    e[1] = a + b;
    e[2] = a - b;
    e[3] = fmaf(8, s[3], fmaf(4, s[2], fmaf(2, s[1], s[0])));
    e[4] = s[3];
}

static void sums_24(const float *m, float *g)
{
    g[0] = fmaf(LS_WINOGRAD_PLUS_SIXTH, m[3] - m[2], (m[0] - m[1]) * 0.5f);
    g[1] = fmaf(LS_WINOGRAD_THIRD, m[3], fmaf(LS_WINOGRAD_PLUS_SIXTH, m[2], m[1] * -0.5f)) + m[4];
}

static void weights_27(const float *g, float *u)
{
    u[0] = g[0];
    u[1] = (g[0] + g[1]) * LS_WINOGRAD_NINTHS;
    u[2] = (g[0] - g[1]) * LS_WINOGRAD_NINTHS;
    u[3] = fmaf(2, g[1], g[0]) * LS_WINOGRAD_90TH;
    u[4] = fmaf(-2, g[1], g[0]) * LS_WINOGRAD_90TH;
    u[5] = fmaf(0.5f, g[1], g[0]) * LS_WINOGRAD_45THS;
    u[6] = fmaf(-0.5f, g[1], g[0]) * LS_WINOGRAD_45THS;
    u[7] = g[1];
}

static void products_27(const float *m, float *o)
{
    const pairs p = finite_pairs(m);
    o[0] = ((m[0] + p.a) + p.c) + p.e;
    o[1] = fmaf(0.5f, p.f, fmaf(2, p.d, p.b));
    o[2] = fmaf(0.25f, p.e, fmaf(4, p.c, p.a));
    o[3] = fmaf(0.125f, p.f, fmaf(8, p.d, p.b));
    o[4] = fmaf(0.0625f, p.e, fmaf(16, p.c, p.a));
    o[5] = fmaf(0.03125f, p.f, fmaf(32, p.d, p.b));
    o[6] = fmaf(0.015625f, p.e, fmaf(64, p.c, p.a)) + m[7];
}

static void slopes_27(const float *s, float *e)
{
    float a = (s[0] + s[2]) + (s[4] + s[6]), b = (s[1] + s[3]) + s[5];
    float c = fmaf(64, s[6], fmaf(16, s[4], fmaf(4, s[2], s[0]))), d = fmaf(32, s[5], fmaf(8, s[3], 2 * s[1]));
    float g = fmaf(0.015625f, s[6], fmaf(0.0625f, s[4], fmaf(0.25f, s[2], s[0])));
    float h = fmaf(0.03125f, s[5], fmaf(0.125f, s[3], 0.5f * s[1]));
    e[0] = s[0];
    e[1] = a + b;
    e[2] = a - b;
    e[3] = c + d;
    e[4] = c - d;
    e[5] = g + h;
    e[6] = g - h;
    e[7] = s[6];
}

static void sums_27(const float *m, float *g)
{
    const pairs p = weighed_pairs(m);
    g[0] = ((m[0] + p.a) + p.c) + p.e;
    g[1] = fmaf(0.5f, p.f, fmaf(2, p.d, p.b)) + m[7];
}

static void copy_1(const float *from, float *to)
{
    to[0] = from[0];
}

static void copy_4(const float *from, float *to)
{
    memcpy(to, from, 4 * sizeof *to);
}

static void copy_7(const float *from, float *to)
{
    memcpy(to, from, 7 * sizeof *to);
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
    while (f->taps != taps || f->tile != tile)
        f++;
    return f;
}
