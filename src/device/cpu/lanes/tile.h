/* The inner product of a tile: ob outputs at pb places, every accumulator a chain of its own in the order of the taps.
 */
#pragma once

#include "device/cpu/lanes/lanes.h"

enum tile_end { TILE_GO_ON = 1, TILE_RELU = 2, TILE_ADD_ZERO = 4 };

/* Floats from a place's x to the tap's, and from the tile's weights to the tap's. */
typedef struct tile_tap {
    int32_t x, w;
} tile_tap;

typedef struct tile_job {
    const float *w;      /* ob weights of a tap lie one after another */
    const tile_tap *tap; /* [taps] */
    int taps;
    const float *x;
    const int32_t *x_at; /* [pb] floats from x to the place's first tap */
    float *y;
    const ptrdiff_t *y_at; /* [pb] floats from y to the place */
    ptrdiff_t y_step;      /* floats from an output channel to the next */
    const float *bias;     /* [ob], or NULL */
    int end;               /* TILE_GO_ON: start from what y holds; at the end TILE_RELU, or TILE_ADD_ZERO: no -0 */
} tile_job;

/* With ob and pb known to the compiler the accumulators are registers. */
LS_INLINE void tile_run(const int ob, const int pb, const tile_job *job)
{
    vf acc[LS_OB][LS_PB];
    const float *x[LS_PB];
    const tile_tap *tap = job->tap, *last = tap + job->taps;

    LS_UNROLL
    for (int j = 0; j < pb; j++) {
        x[j] = job->x + job->x_at[j];
        const float *y = job->y + job->y_at[j];
        LS_UNROLL
        for (int i = 0; i < ob; i++)
            acc[i][j] = job->end & TILE_GO_ON ? vf_load(y + i * job->y_step) : vf_set(job->bias ? job->bias[i] : 0.0f);
    }
    for (; tap < last; tap++) {
        const float *w = job->w + tap->w;
        vf at[LS_PB];
        LS_UNROLL
        for (int j = 0; j < pb; j++)
            at[j] = vf_load(x[j] + tap->x);
        LS_UNROLL
        for (int i = 0; i < ob; i++) {
            const vf weight = vf_set(w[i]);
            LS_UNROLL
            for (int j = 0; j < pb; j++)
                acc[i][j] = vf_fma(weight, at[j], acc[i][j]);
        }
    }
    LS_UNROLL
    for (int j = 0; j < pb; j++) {
        float *y = job->y + job->y_at[j];
        LS_UNROLL
        for (int i = 0; i < ob; i++) {
            const vf sum = job->end & TILE_ADD_ZERO ? acc[i][j] + vf_zero() : acc[i][j];
            vf_store(y + i * job->y_step, job->end & TILE_RELU ? vf_relu(sum) : sum);
        }
    }
}
