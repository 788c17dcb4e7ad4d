/* The plane sum of op.h: rows are chains of their own, so several run at once and their sums are added in order. */
#pragma once

#include "device/cpu/lanes/lanes.h"

enum plane_kind {
    PLANE_SUM,           /* of x */
    PLANE_SQUARES,       /* of (x - mean)^2 */
    PLANE_GRADIENT,      /* first: of d, second: of d * (x - mean); d is dy */
    PLANE_GRADIENT_RELU, /* the same, d being dy where y > 0 and else 0 */
    PLANE_GRADIENT_CLAMP /* the same, by the clamp */
};

/* A clamp behind a BatchNorm: of z = fma(x - mean, scale, beta) of one channel. */
typedef struct norm_clamp {
    float scale, beta, low, high;
} norm_clamp;

typedef struct plane {
    const float *x, *dy, *y; /* channel 0 of group 0 of maps of one shape */
    int channels, rows, columns;
    int groups, images;
    norm_clamp clamp;
} plane;

/* clamp_backward of dy. */
LS_INLINE vf clamped_slope(vf dy, vf x, vf mean, const norm_clamp *clamp)
{
    const vf z = vf_fma(x - mean, vf_set(clamp->scale), vf_set(clamp->beta));
    return vf_keep(vm_less_equal(vf_set(clamp->low), z) & vm_less_equal(z, vf_set(clamp->high)), dy);
}

typedef struct plane_total {
    vf first[LS_NV], second[LS_NV];
} plane_total;

/* How many of a group's lanes hold an image. */
LS_INLINE int lanes_of_group(int images, int group)
{
    return images - group * LS_LANES < LS_LANES ? images - group * LS_LANES : LS_LANES;
}

LS_INLINE void plane_rows(const int kind, const int rows, const plane *p, ptrdiff_t at, vf mean, plane_total *total)
{
    vf first[4][LS_NV], second[4][LS_NV];
    const ptrdiff_t row = (ptrdiff_t)p->columns * LS_LANES, end = at + row;
    LS_UNROLL
    for (int i = 0; i < rows; i++)
        LS_UNROLL
    for (int v = 0; v < LS_NV; v++)
        first[i][v] = second[i][v] = vf_zero();
    for (; at < end; at += LS_LANES) {
        LS_UNROLL
        for (int i = 0; i < rows; i++)
            LS_UNROLL
        for (int v = 0; v < LS_NV; v++) {
            const ptrdiff_t place = at + i * row + v * LS_VL;
            if (kind == PLANE_SUM) {
                first[i][v] += vf_load(p->x + place);
            } else if (kind == PLANE_SQUARES) {
                const vf d = vf_load(p->x + place) - mean;
                first[i][v] = vf_fma(d, d, first[i][v]);
            } else {
                vf d = vf_load(p->dy + place);
                if (kind == PLANE_GRADIENT_RELU)
                    d = vf_keep(vm_greater(vf_load(p->y + place), vf_zero()), d);
                if (kind == PLANE_GRADIENT_CLAMP)
                    d = clamped_slope(d, vf_load(p->x + place), mean, &p->clamp);
                first[i][v] += d;
                second[i][v] = vf_fma(d, vf_load(p->x + place) - mean, second[i][v]);
            }
        }
    }
    LS_UNROLL
    for (int i = 0; i < rows; i++)
        LS_UNROLL
    for (int v = 0; v < LS_NV; v++) {
        total->first[v] += first[i][v];
        if (kind >= PLANE_GRADIENT)
            total->second[v] += second[i][v];
    }
}

/* Sums a channel's plane; the second sum is that of the gradients' kinds. */
LS_INLINE void plane_sum(const int kind, const plane *p, int channel, float mean_of_channel, float sum[2])
{
    enum { AT_ONCE = LS_NV <= 2 ? 4 : 1 };
    const vf mean = vf_set(mean_of_channel);
    const ptrdiff_t row = (ptrdiff_t)p->columns * LS_LANES;
    plane_total total;
    for (int v = 0; v < LS_NV; v++)
        total.first[v] = total.second[v] = vf_zero();
    for (int group = 0; group < p->groups; group++) {
        const plane_total before = total;
        const int lanes = lanes_of_group(p->images, group);
        ptrdiff_t at = ((ptrdiff_t)group * p->channels + channel) * p->rows * row;
        int i = 0;
        for (; i + AT_ONCE <= p->rows; i += AT_ONCE, at += AT_ONCE * row)
            plane_rows(kind, AT_ONCE, p, at, mean, &total);
        for (; i < p->rows; i++, at += row)
            plane_rows(kind, 1, p, at, mean, &total);
        for (int v = 0; v < LS_NV && lanes < LS_LANES; v++) {
            total.first[v] = vf_select(vm_first(lanes - v * LS_VL), total.first[v], before.first[v]);
            total.second[v] = vf_select(vm_first(lanes - v * LS_VL), total.second[v], before.second[v]);
        }
    }
    float lane[2][LS_LANES];
    for (int v = 0; v < LS_NV; v++) {
        vf_store(lane[0] + v * LS_VL, total.first[v]);
        vf_store(lane[1] + v * LS_VL, total.second[v]);
    }
    sum[0] = lanes_sum(lane[0]);
    sum[1] = lanes_sum(lane[1]);
}
