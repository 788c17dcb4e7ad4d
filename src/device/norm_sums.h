/* Sums of NORM_SUMS and NORM_SLOPES, and how those of a part of a batch, A, and of the part behind it, B, become those
 * of both. Rows are op.h's [2 + 2C]; `out` may be `a` or `b`, n is 2 + 2C. */
#pragma once

#include <stddef.h>

#include "base/everywhere.h"

enum { LS_NORM_IMAGES, LS_NORM_PLACES, LS_NORM_FIRST }; /* what a row begins with, and where its channels begin */

static inline size_t ls_norm_sums_floats(int channels)
{
    return LS_NORM_FIRST + 2 * (size_t)channels;
}

/* N, the numbers of a channel. Both factors are exact: they are below 2^24. */
LS_EVERYWHERE float ls_norm_numbers(const float *sums)
{
    return (float)((double)sums[LS_NORM_IMAGES] * (double)sums[LS_NORM_PLACES]);
}

/* Of S and Q (Chan, Golub, LeVeque 1983, "Algorithms for computing the sample variance"):
 *   S = S_A + S_B; d = S_B / N_B - S_A / N_A; Q = (Q_A + Q_B) + (d * d) * f with f = (float)(N_A * N_B / (N_A + N_B)),
 * computed in double. A second pass with the whole mean would be a second meeting for each layer; sums of squares would
 * lose what a large mean covers. */
void ls_norm_merge(float *out, const float *a, const float *b, size_t n);

/* Of dgamma and dbeta: the sums. */
void ls_norm_add(float *out, const float *a, const float *b, size_t n);
