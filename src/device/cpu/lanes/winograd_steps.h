/* The one-dimensional steps of `device/winograd.h`, to a vector. `kernel`, 3 or 5, is known to the compiler. */
#ifndef LS_DEVICE_CPU_LANES_WINOGRAD_STEPS_H
#define LS_DEVICE_CPU_LANES_WINOGRAD_STEPS_H

#include "device/cpu/lanes/lanes.h"
#include "device/winograd.h"

LS_INLINE vf vf_fma_by(float a, vf b, vf c)
{
    return vf_fma(vf_set(a), b, c);
}

LS_INLINE vf vf_mul_by(float a, vf b)
{
    return vf_mul(vf_set(a), b);
}

/* What a step takes: up to 8 vectors, named one by one, since compilers keep in registers what no loop has touched. */
enum { WINDOW = LS_WINOGRAD_WINDOW };
typedef struct line {
    vf at[WINDOW];
} line;

/* n numbers, `step` floats apart. */
LS_INLINE line line_load(const int n, const float *from, ptrdiff_t step)
{
    const vf zero = vf_zero();
    return (line){{vf_load(from), vf_load(from + step), vf_load(from + 2 * step),
                   n > 3 ? vf_load(from + 3 * step) : zero, n > 4 ? vf_load(from + 4 * step) : zero,
                   n > 5 ? vf_load(from + 5 * step) : zero, n > 6 ? vf_load(from + 6 * step) : zero,
                   n > 7 ? vf_load(from + 7 * step) : zero}};
}

/* Row i of what n steps down the columns made. */
LS_INLINE line line_across(const int n, vf (*column)[WINDOW], const int i)
{
    const vf zero = vf_zero();
    return (line){{column[0][i], column[1][i], column[2][i], n > 3 ? column[3][i] : zero, n > 4 ? column[4][i] : zero,
                   n > 5 ? column[5][i] : zero, n > 6 ? column[6][i] : zero, n > 7 ? column[7][i] : zero}};
}

/* Sums and differences of the products at the points +-1, +-2 and +-1/2. */
typedef struct winograd_pairs {
    vf a, b, c, d, e, f;
} winograd_pairs;

LS_INLINE winograd_pairs winograd_pairs_of(const int kernel, const vf *m)
{
    winograd_pairs p = {vf_add(m[1], m[2]), vf_sub(m[1], m[2]), vf_add(m[3], m[4]),
                        vf_sub(m[3], m[4]), vf_zero(),          vf_zero()};
    if (kernel == 5) {
        p.e = vf_add(m[5], m[6]);
        p.f = vf_sub(m[5], m[6]);
    }
    return p;
}

LS_INLINE void winograd_weights(const int kernel, const vf *g, vf *u)
{
    if (kernel == 3) {
        const vf s = vf_add(g[0], g[2]), q = vf_fma_by(4.0f, g[2], g[0]);
        u[0] = vf_mul_by(0.25f, g[0]);
        u[1] = vf_mul_by(LS_WINOGRAD_SIXTH, vf_add(s, g[1]));
        u[2] = vf_mul_by(LS_WINOGRAD_SIXTH, vf_sub(s, g[1]));
        u[3] = vf_mul_by(LS_WINOGRAD_24TH, vf_fma_by(2.0f, g[1], q));
        u[4] = vf_mul_by(LS_WINOGRAD_24TH, vf_fma_by(-2.0f, g[1], q));
        u[5] = g[2];
    } else {
        const vf s = vf_add(vf_add(g[0], g[2]), g[4]), t = vf_add(g[1], g[3]);
        const vf q = vf_fma_by(16.0f, g[4], vf_fma_by(4.0f, g[2], g[0])), r = vf_fma_by(4.0f, g[3], g[1]);
        const vf h = vf_fma_by(0.0625f, g[4], vf_fma_by(0.25f, g[2], g[0])), l = vf_fma_by(0.25f, g[3], g[1]);
        u[0] = g[0];
        u[1] = vf_mul_by(LS_WINOGRAD_NINTHS, vf_add(s, t));
        u[2] = vf_mul_by(LS_WINOGRAD_NINTHS, vf_sub(s, t));
        u[3] = vf_mul_by(LS_WINOGRAD_90TH, vf_fma_by(2.0f, r, q));
        u[4] = vf_mul_by(LS_WINOGRAD_90TH, vf_fma_by(-2.0f, r, q));
        u[5] = vf_mul_by(LS_WINOGRAD_45THS, vf_fma_by(0.5f, l, h));
        u[6] = vf_mul_by(LS_WINOGRAD_45THS, vf_fma_by(-0.5f, l, h));
        u[7] = g[4];
    }
}

LS_INLINE void winograd_inputs(const int kernel, const vf *d, vf *v)
{
    if (kernel == 3) {
        const vf p = vf_fma_by(-4.0f, d[2], d[4]), q = vf_fma_by(-4.0f, d[1], d[3]);
        const vf r = vf_sub(d[4], d[2]), s = vf_twice(vf_sub(d[3], d[1]));
        v[0] = vf_fma_by(4.0f, d[0], vf_fma_by(-5.0f, d[2], d[4]));
        v[1] = vf_add(p, q);
        v[2] = vf_sub(p, q);
        v[3] = vf_add(r, s);
        v[4] = vf_sub(r, s);
        v[5] = vf_fma_by(4.0f, d[1], vf_fma_by(-5.0f, d[3], d[5]));
    } else {
        const vf a = vf_fma_by(-4.25f, d[4], vf_add(d[2], d[6])), b = vf_fma_by(-4.25f, d[3], vf_add(d[1], d[5]));
        const vf c = vf_fma_by(0.25f, d[2], vf_fma_by(-1.25f, d[4], d[6]));
        const vf k = vf_fma_by(0.5f, d[1], vf_fma_by(-2.5f, d[3], vf_twice(d[5])));
        const vf e = vf_fma_by(4.0f, d[2], vf_fma_by(-5.0f, d[4], d[6]));
        const vf f = vf_fma_by(2.0f, d[1], vf_fma_by(-2.5f, d[3], vf_mul_by(0.5f, d[5])));
        v[0] = vf_fma_by(5.25f, vf_sub(d[4], d[2]), vf_sub(d[0], d[6]));
        v[1] = vf_add(a, b);
        v[2] = vf_sub(a, b);
        v[3] = vf_add(c, k);
        v[4] = vf_sub(c, k);
        v[5] = vf_add(e, f);
        v[6] = vf_sub(e, f);
        v[7] = vf_fma_by(5.25f, vf_sub(d[3], d[5]), vf_sub(d[7], d[1]));
    }
}

LS_INLINE void winograd_products(const int kernel, const vf *m, vf *o)
{
    const winograd_pairs p = winograd_pairs_of(kernel, m);
    o[0] = vf_add(vf_add(m[0], p.a), p.c);
    o[1] = vf_fma_by(2.0f, p.d, p.b);
    o[2] = vf_fma_by(4.0f, p.c, p.a);
    o[3] = vf_fma_by(8.0f, p.d, p.b);
    if (kernel == 5) {
        o[0] = vf_add(o[0], p.e);
        o[1] = vf_fma_by(0.5f, p.f, o[1]);
        o[2] = vf_fma_by(0.25f, p.e, o[2]);
        o[3] = vf_fma_by(0.125f, p.f, o[3]);
    }
    o[3] = vf_add(o[3], m[kernel + 2]);
}

LS_INLINE void winograd_slopes(const int kernel, const vf *s, vf *e)
{
    const vf a = vf_add(s[0], s[2]), b = vf_add(s[1], s[3]);
    const vf c = vf_fma_by(4.0f, s[2], s[0]), d = vf_fma_by(4.0f, s[3], s[1]);
    e[0] = s[0];
    e[1] = vf_add(a, b);
    e[2] = vf_sub(a, b);
    e[3] = vf_fma_by(2.0f, d, c);
    e[4] = vf_fma_by(-2.0f, d, c);
    if (kernel == 5) {
        const vf g = vf_fma_by(0.25f, s[2], s[0]), h = vf_fma_by(0.25f, s[3], s[1]);
        e[5] = vf_fma_by(0.5f, h, g);
        e[6] = vf_fma_by(-0.5f, h, g);
    }
    e[kernel + 2] = s[3];
}

LS_INLINE void winograd_sums(const int kernel, const vf *m, vf *g)
{
    winograd_pairs p = winograd_pairs_of(kernel, m);
    if (kernel == 3) {
        g[0] = vf_fma_by(LS_WINOGRAD_24TH, p.c, vf_fma_by(LS_WINOGRAD_SIXTH, p.a, vf_mul_by(0.25f, m[0])));
        g[1] = vf_fma_by(LS_WINOGRAD_12TH, p.d, vf_mul_by(LS_WINOGRAD_SIXTH, p.b));
        g[2] = vf_fma_by(-LS_WINOGRAD_SIXTH, vf_sub(p.c, p.a), m[5]);
    } else {
        p.a = vf_mul_by(LS_WINOGRAD_NINTHS, p.a);
        p.b = vf_mul_by(LS_WINOGRAD_NINTHS, p.b);
        p.c = vf_mul_by(LS_WINOGRAD_90TH, p.c);
        p.d = vf_mul_by(LS_WINOGRAD_90TH, p.d);
        p.e = vf_mul_by(LS_WINOGRAD_45THS, p.e);
        p.f = vf_mul_by(LS_WINOGRAD_45THS, p.f);
        g[0] = vf_add(vf_add(vf_add(m[0], p.a), p.c), p.e);
        g[1] = vf_fma_by(0.5f, p.f, vf_fma_by(2.0f, p.d, p.b));
        g[2] = vf_fma_by(0.25f, p.e, vf_fma_by(4.0f, p.c, p.a));
        g[3] = vf_fma_by(0.125f, p.f, vf_fma_by(8.0f, p.d, p.b));
        g[4] = vf_add(vf_fma_by(0.0625f, p.e, vf_fma_by(16.0f, p.c, p.a)), m[7]);
    }
}

/* For kernel 5 alone. */
LS_INLINE void winograd_gradients(const vf *m, vf *g)
{
    const winograd_pairs p = winograd_pairs_of(5, m);
    g[0] = m[0];
    g[1] = vf_fma_by(2.0f, p.f, vf_fma_by(0.5f, p.d, vf_sub(p.b, m[7])));
    g[2] = vf_fma_by(-5.25f, m[0], vf_fma_by(4.0f, p.e, vf_fma_by(0.25f, p.c, p.a)));
    g[3] = vf_fma_by(5.25f, m[7], vf_fma_by(-4.25f, p.b, vf_mul_by(-2.5f, vf_add(p.d, p.f))));
    g[4] = vf_fma_by(5.25f, m[0], vf_fma_by(-4.25f, p.a, vf_fma_by(-5.0f, p.e, vf_mul_by(-1.25f, p.c))));
    g[5] = vf_fma_by(-5.25f, m[7], vf_fma_by(0.5f, p.f, vf_fma_by(2.0f, p.d, p.b)));
    g[6] = vf_sub(vf_add(vf_add(p.a, p.c), p.e), m[0]);
    g[7] = m[7];
}

#endif
