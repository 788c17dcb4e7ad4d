/* Softmax of a group, sixteen images side by side: an operation by itself, and what cross-entropy begins with. */
#pragma once

#include "base/math.h"
#include "device/cpu/lanes/plane.h"

/* Of each lane's x[features] the largest, m, the sum s of exp(x - m), and y = exp(x - m) / s; lanes without an image
 * get y = 0. The numbers lie `step` apart. */
LS_INLINE void softmax_group(const float *x, int features, ptrdiff_t step, int lanes, float m[LS_LANES],
                             float s[LS_LANES], float *y)
{
    for (int lane = 0; lane < LS_LANES; lane++)
        m[lane] = x[lane];
    for (int c = 1; c < features; c++)
        for (int lane = 0; lane < LS_LANES; lane++)
            m[lane] = x[c * step + lane] > m[lane] ? x[c * step + lane] : m[lane];
    for (int c = 0; c < features; c++)
        for (int lane = 0; lane < LS_LANES; lane++) {
            const float e = lane < lanes ? ls_expf(x[c * step + lane] - m[lane]) : 0.0f;
            s[lane] = c ? s[lane] + e : e;
            y[c * step + lane] = e;
        }
    for (int lane = lanes; lane < LS_LANES; lane++)
        s[lane] = 1.0f;
    for (int c = 0; c < features; c++)
        for (int lane = 0; lane < LS_LANES; lane++)
            y[c * step + lane] /= s[lane];
}
