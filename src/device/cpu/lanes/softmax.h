/* Softmax of a group, sixteen images side by side: an operation by itself, and what cross-entropy begins with. */
#pragma once

#include <string.h>

#include "base/math.h"
#include "device/cpu/lanes/plane.h"

/* e = exp(x - m). Compilers make vectors of this loop where all three are the caller's own variables. */
LS_INLINE void softmax_exp(float e[LS_LANES], const float x[LS_LANES], const float m[LS_LANES])
{
    for (int lane = 0; lane < LS_LANES; lane++)
        e[lane] = ls_expf(x[lane] - m[lane]);
}

/* Of each lane's x[features] the largest, m, the sum s of exp(x - m), and y = exp(x - m) / s; lanes without an image
 * get y = 0. The numbers lie `step` apart. */
LS_INLINE void softmax_group(const float *x, int features, ptrdiff_t step, int lanes, float m[LS_LANES],
                             float s[LS_LANES], float *y)
{
    float most[LS_LANES], sum[LS_LANES] = {0.0f};
    memcpy(most, x, sizeof most);
    for (int c = 1; c < features; c++)
        for (int lane = 0; lane < LS_LANES; lane++)
            most[lane] = x[c * step + lane] > most[lane] ? x[c * step + lane] : most[lane];
    for (int c = 0; c < features; c++) {
        float one[LS_LANES], e[LS_LANES];
        memcpy(one, x + c * step, sizeof one);
        softmax_exp(e, one, most);
        for (int lane = 0; lane < LS_LANES; lane++) {
            e[lane] = lane < lanes ? e[lane] : 0.0f;
            sum[lane] += e[lane]; /* never -0, so that 0 before the first changes nothing */
        }
        memcpy(y + c * step, e, sizeof e);
    }
    for (int lane = lanes; lane < LS_LANES; lane++)
        sum[lane] = 1.0f;
    for (int c = 0; c < features; c++)
        for (int lane = 0; lane < LS_LANES; lane++)
            y[c * step + lane] /= sum[lane];
    memcpy(m, most, sizeof most);
    memcpy(s, sum, sizeof sum);
}
