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

LS_INLINE void winograd_slopes(vf s0, vf s1, vf s2, vf s3, vf e[6])
{
    const vf a = vf_add(s0, s2), b = vf_add(s1, s3);
    const vf c = vf_fma(vf_set(4.0f), s2, s0), d = vf_fma(vf_set(4.0f), s3, s1);
    e[0] = s0;
    e[1] = vf_add(a, b);
    e[2] = vf_sub(a, b);
    e[3] = vf_fma(vf_set(2.0f), d, c);
    e[4] = vf_fma(vf_set(-2.0f), d, c);
    e[5] = s3;
}

LS_INLINE void winograd_sums(vf m0, vf m1, vf m2, vf m3, vf m4, vf m5, vf g[3])
{
    const vf a = vf_add(m1, m2), b = vf_sub(m1, m2), c = vf_add(m3, m4), d = vf_sub(m3, m4);
    const vf sixth = vf_set(LS_WINOGRAD_SIXTH);
    g[0] = vf_fma(vf_set(LS_WINOGRAD_24TH), c, vf_fma(sixth, a, vf_mul(m0, vf_set(0.25f))));
    g[1] = vf_fma(vf_set(LS_WINOGRAD_12TH), d, vf_mul(b, sixth));
    g[2] = vf_fma(vf_set(-LS_WINOGRAD_SIXTH), vf_sub(c, a), m5);
}

/* Maps of one shape, cut into tiles that are numbered through all groups. */
typedef struct tiling {
    int h, w, rows, columns; /* of places, and of tiles */
} tiling;

LS_INLINE tiling tiling_of(const ls_operand *map)
{
    return (tiling){map->h, map->w, (map->h + 3) / 4, (map->w + 3) / 4};
}

/* Where a tile lies. */
typedef struct spot {
    int group, top, left;
} spot;

LS_INLINE spot spot_of(const tiling *t, int tile)
{
    const int map = t->rows * t->columns, at = tile % map;
    return (spot){tile / map, at / t->columns * 4, at % t->columns * 4};
}

/* The rows of one channel that a tile reads. */
typedef struct window {
    const float *row[6];
    ptrdiff_t step[6]; /* floats to the next channel's */
    int from, end;
} window;

/* Of channel 0 of the tile's group. */
LS_INLINE window window_of(const tiling *t, const float *x, int channels, int tile)
{
    static const float zeros[6 * LS_LANES];
    const spot s = spot_of(t, tile);
    const ptrdiff_t plane = (ptrdiff_t)t->h * t->w * LS_LANES;
    window a = {.from = s.left == 0, .end = t->w - (s.left - 1) < 6 ? t->w - (s.left - 1) : 6};
    for (int i = 0; i < 6; i++) {
        const int y = s.top - 1 + i, inside = y >= 0 && y < t->h;
        const ptrdiff_t at = ((ptrdiff_t)y * t->w + s.left - 1 + a.from) * LS_LANES;
        a.row[i] = inside ? x + (ptrdiff_t)s.group * channels * plane + at : zeros;
        a.step[i] = inside ? plane : 0;
    }
    return a;
}

LS_INLINE void next_channel(window *a)
{
    for (int i = 0; i < 6; i++)
        a->row[i] += a->step[i];
}

/* A tile takes six short runs of lines from each channel's plane, which the machine does not foresee. */
LS_INLINE void fetch_window(const window *a, int channels)
{
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < a->end - a->from && a->step[i]; k++)
            __builtin_prefetch(a->row[i] + channels * a->step[i] + k * LS_LANES);
}

/* One tile's 36 inputs. Rows outside the map are read from zeros; columns outside are those before `from` and after
 * `end`. */
LS_INLINE void transform_window(const float *const row[6], const int from, const int end, float *v, ptrdiff_t v_place)
{
    for (int k = 0; k < LS_LANES; k += LS_VL) {
        vf half[6][6];
        LS_UNROLL
        for (int c = 0; c < 6; c++) {
            const ptrdiff_t at = (ptrdiff_t)(c - from) * LS_LANES + k;
            if (c >= from && c < end)
                winograd_inputs(vf_load(row[0] + at), vf_load(row[1] + at), vf_load(row[2] + at), vf_load(row[3] + at),
                                vf_load(row[4] + at), vf_load(row[5] + at), half[c]);
            else
                for (int i = 0; i < 6; i++)
                    half[c][i] = vf_zero();
        }
        LS_UNROLL
        for (int i = 0; i < 6; i++) {
            vf out[6];
            winograd_inputs(half[0][i], half[1][i], half[2][i], half[3][i], half[4][i], half[5][i], out);
            LS_UNROLL
            for (int c = 0; c < 6; c++)
                vf_store(v + (i * 6 + c) * v_place + k, out[c]);
        }
    }
}

LS_INLINE void transform_inputs(const window *a, float *v, ptrdiff_t v_place)
{
    if (a->from == 0 && a->end == 6)
        transform_window(a->row, 0, 6, v, v_place);
    else if (a->from == 1 && a->end == 6)
        transform_window(a->row, 1, 6, v, v_place);
    else
        transform_window(a->row, a->from, a->end, v, v_place);
}

#endif
