/* The one-dimensional steps of `device/winograd.h`, to a vector. */
#ifndef LS_DEVICE_CPU_LANES_WINOGRAD_H
#define LS_DEVICE_CPU_LANES_WINOGRAD_H

#include "device/cpu/lanes/lanes.h"
#include "device/winograd.h"

LS_INLINE void winograd_weights(vf g0, vf g1, vf g2, vf u[6])
{
    const vf s = vf_add(g0, g2), q = vf_fma(vf_set(4.0f), g2, g0);
    const vf sixth = vf_set(LS_WINOGRAD_SIXTH), part = vf_set(LS_WINOGRAD_24TH);
    u[0] = vf_mul(g0, vf_set(0.25f));
    u[1] = vf_mul(vf_add(s, g1), sixth);
    u[2] = vf_mul(vf_sub(s, g1), sixth);
    u[3] = vf_mul(vf_fma(vf_set(2.0f), g1, q), part);
    u[4] = vf_mul(vf_fma(vf_set(-2.0f), g1, q), part);
    u[5] = g2;
}

LS_INLINE void winograd_inputs(vf d0, vf d1, vf d2, vf d3, vf d4, vf d5, vf v[6])
{
    const vf p = vf_fma(vf_set(-4.0f), d2, d4), q = vf_fma(vf_set(-4.0f), d1, d3);
    const vf r = vf_sub(d4, d2), s = vf_twice(vf_sub(d3, d1));
    v[0] = vf_fma(vf_set(4.0f), d0, vf_fma(vf_set(-5.0f), d2, d4));
    v[1] = vf_add(p, q);
    v[2] = vf_sub(p, q);
    v[3] = vf_add(r, s);
    v[4] = vf_sub(r, s);
    v[5] = vf_fma(vf_set(4.0f), d1, vf_fma(vf_set(-5.0f), d3, d5));
}

LS_INLINE void winograd_products(vf m0, vf m1, vf m2, vf m3, vf m4, vf m5, vf o[4])
{
    const vf a = vf_add(m1, m2), b = vf_sub(m1, m2), c = vf_add(m3, m4), d = vf_sub(m3, m4);
    o[0] = vf_add(vf_add(m0, a), c);
    o[1] = vf_fma(vf_set(2.0f), d, b);
    o[2] = vf_fma(vf_set(4.0f), c, a);
    o[3] = vf_add(vf_fma(vf_set(8.0f), d, b), m5);
}

#endif
