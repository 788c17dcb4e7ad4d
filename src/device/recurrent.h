/* LSTM and GRU at one token, for one feature of one image, as op.h defines them: for the reference and for cards. */
#pragma once

#include <math.h>

#include "base/math.h"
#include "device/op.h"

enum { LS_LSTM_GATES = 4, LS_LSTM_SAVED = 5, LS_GRU_GATES = 3, LS_GRU_SAVED = 4 };

/* The tokens of an image that count: all without a length, none where there is no image, -1 of a length that is none.
 */
LS_EVERYWHERE int ls_tokens_in(const float *length, int tokens, int image)
{
    return !image ? 0 : length ? ls_table_row(*length, tokens + 1) : tokens;
}

/* y, from p, a and c before. */
LS_EVERYWHERE_INLINE float ls_lstm_step(const float p[LS_LSTM_GATES], const float a[LS_LSTM_GATES], float before,
                                        float saved[LS_LSTM_SAVED])
{
    const float i = ls_sigmoidf(p[0] + a[0]), f = ls_sigmoidf(p[1] + a[1]);
    const float g = ls_tanhf(p[2] + a[2]), o = ls_sigmoidf(p[3] + a[3]), c = fmaf(f, before, i * g);
    saved[0] = i;
    saved[1] = f;
    saved[2] = g;
    saved[3] = o;
    saved[4] = c;
    return o * ls_tanhf(c);
}

/* y, from p, a and y before. */
LS_EVERYWHERE_INLINE float ls_gru_step(const float p[LS_GRU_GATES], const float a[LS_GRU_GATES], float before,
                                       float saved[LS_GRU_SAVED])
{
    const float r = ls_sigmoidf(p[0] + a[0]), z = ls_sigmoidf(p[1] + a[1]), n = ls_tanhf(fmaf(r, a[2], p[2]));
    saved[0] = r;
    saved[1] = z;
    saved[2] = n;
    saved[3] = a[2];
    return fmaf(z, before - n, n);
}

/* v being a sigmoid, or a hyperbolic tangent. */
LS_EVERYWHERE_INLINE float ls_sigmoid_slope(float v)
{
    return v * (1 - v);
}
LS_EVERYWHERE_INLINE float ls_tanh_slope(float v)
{
    return fmaf(-v, v, 1);
}

/* From the gradient of y and what is carried, with c before; da is dp. */
LS_EVERYWHERE_INLINE void ls_lstm_slopes(float d, const float saved[LS_LSTM_SAVED], float before, float *carry,
                                         float dp[LS_LSTM_GATES])
{
    const float i = saved[0], f = saved[1], g = saved[2], o = saved[3], q = ls_tanhf(saved[4]);
    const float e = fmaf(d * o, ls_tanh_slope(q), *carry);
    dp[0] = (e * g) * ls_sigmoid_slope(i);
    dp[1] = (e * before) * ls_sigmoid_slope(f);
    dp[2] = (e * i) * ls_tanh_slope(g);
    dp[3] = (d * q) * ls_sigmoid_slope(o);
    *carry = e * f;
}

/* The same with y before. */
LS_EVERYWHERE_INLINE void ls_gru_slopes(float d, const float saved[LS_GRU_SAVED], float before, float *carry,
                                        float dp[LS_GRU_GATES], float da[LS_GRU_GATES])
{
    const float r = saved[0], z = saved[1], n = saved[2], a = saved[3];
    dp[2] = (d * (1 - z)) * ls_tanh_slope(n);
    dp[1] = (d * (before - n)) * ls_sigmoid_slope(z);
    dp[0] = (dp[2] * a) * ls_sigmoid_slope(r);
    da[0] = dp[0];
    da[1] = dp[1];
    da[2] = dp[2] * r;
    *carry = d * z;
}
