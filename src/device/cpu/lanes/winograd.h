/* What Winograd's three directions share: tiles, the windows that they read, and the transforms of both. */
#ifndef LS_DEVICE_CPU_LANES_WINOGRAD_H
#define LS_DEVICE_CPU_LANES_WINOGRAD_H

#include "device/cpu/lanes/winograd_steps.h"

enum { TILE = LS_WINOGRAD_TILE };

/* Maps of y's shape, cut into tiles that are numbered through all groups. */
typedef struct tiling {
    int kernel, padding, window, places;
    int rows, columns; /* of tiles */
} tiling;

LS_INLINE tiling tiling_of(const ls_attributes *a, const ls_operand *y)
{
    const int window = a->kernel + TILE - 1;
    return (tiling){a->kernel, a->padding, window, window * window, (y->h + TILE - 1) / TILE, (y->w + TILE - 1) / TILE};
}

/* Where a tile lies. */
typedef struct spot {
    int group, top, left;
} spot;

LS_INLINE spot spot_of(const tiling *t, int tile)
{
    const int map = t->rows * t->columns, at = tile % map;
    return (spot){tile / map, at / t->columns * TILE, at % t->columns * TILE};
}

/* A tile of y or dy: its place in channel 0, and how much of it lies inside the map. */
typedef struct tile {
    float *at;
    int rows, columns;
} tile;

LS_INLINE tile tile_of(const tiling *t, const ls_operand *y, int number)
{
    const spot s = spot_of(t, number);
    const ptrdiff_t place = ((ptrdiff_t)s.group * y->c * y->h + s.top) * y->w + s.left;
    return (tile){y->data + place * LS_LANES, y->h - s.top < TILE ? y->h - s.top : TILE,
                  y->w - s.left < TILE ? y->w - s.left : TILE};
}

LS_INLINE void fetch_tile(const tile *a, ptrdiff_t row, ptrdiff_t ahead)
{
    for (int i = 0; i < a->rows; i++)
        for (int k = 0; k < a->columns; k++)
            __builtin_prefetch(a->at + ahead + i * row + k * LS_LANES);
}

/* The rows of one channel that a tile reads. */
typedef struct window {
    const float *row[WINDOW];
    ptrdiff_t step[WINDOW]; /* floats to the next channel's */
    int size, from, end;
} window;

/* Of channel 0 of the tile's group. */
LS_INLINE window window_of(const tiling *t, const ls_operand *x, int number)
{
    static const float zeros[WINDOW * LS_LANES];
    const spot s = spot_of(t, number);
    const int top = s.top - t->padding, left = s.left - t->padding;
    const ptrdiff_t plane = (ptrdiff_t)x->h * x->w * LS_LANES;
    window a = {
        .size = t->window, .from = left < 0 ? -left : 0, .end = x->w - left < t->window ? x->w - left : t->window};
    for (int i = 0; i < WINDOW; i++) {
        const int y = top + i, inside = i < t->window && y >= 0 && y < x->h;
        const ptrdiff_t at = ((ptrdiff_t)y * x->w + left + a.from) * LS_LANES;
        a.row[i] = inside ? x->data + (ptrdiff_t)s.group * x->c * plane + at : zeros;
        a.step[i] = inside ? plane : 0;
    }
    return a;
}

LS_INLINE void next_channel(window *a)
{
    for (int i = 0; i < WINDOW; i++)
        a->row[i] += a->step[i];
}

/* A tile takes some short runs of lines from each channel's plane, which the machine does not foresee. */
LS_INLINE void fetch_window(const window *a, int channels)
{
    for (int i = 0; i < a->size; i++)
        for (int k = 0; k < a->end - a->from && a->step[i]; k++)
            __builtin_prefetch(a->row[i] + channels * a->step[i] + k * LS_LANES);
}

/* One window's V. Rows outside the map are read from zeros; columns outside are those before `from` and after `end`. */
LS_INLINE void transform_window(const int kernel, const float *const *row, const int from, const int end, float *v,
                                ptrdiff_t v_place)
{
    const int n = kernel + TILE - 1;
    for (int k = 0; k < LS_LANES; k += LS_VL) {
        vf half[WINDOW][WINDOW];
        LS_UNROLL
        for (int c = 0; c < n; c++) {
            const ptrdiff_t at = (ptrdiff_t)(c - from) * LS_LANES + k;
            line d = {{vf_zero(), vf_zero(), vf_zero(), vf_zero(), vf_zero(), vf_zero(), vf_zero(), vf_zero()}};
            if (c >= from && c < end)
                d = (line){{vf_load(row[0] + at), vf_load(row[1] + at), vf_load(row[2] + at), vf_load(row[3] + at),
                            vf_load(row[4] + at), vf_load(row[5] + at), n > 6 ? vf_load(row[6] + at) : vf_zero(),
                            n > 7 ? vf_load(row[7] + at) : vf_zero()}};
            winograd_inputs(kernel, d.at, half[c]);
        }
        LS_UNROLL
        for (int i = 0; i < n; i++) {
            const line d = line_across(n, half, i);
            vf out[WINDOW];
            winograd_inputs(kernel, d.at, out);
            LS_UNROLL
            for (int c = 0; c < n; c++)
                vf_store(v + (i * n + c) * v_place + k, out[c]);
        }
    }
}

LS_INLINE void transform_inputs(const window *a, float *v, ptrdiff_t v_place)
{
    const int whole = a->from == 0 && a->end == a->size;
    if (a->size == 8 && whole)
        transform_window(5, a->row, 0, 8, v, v_place);
    else if (a->size == 8)
        transform_window(5, a->row, a->from, a->end, v, v_place);
    else if (whole)
        transform_window(3, a->row, 0, 6, v, v_place);
    else if (a->from == 1 && a->end == 6)
        transform_window(3, a->row, 1, 6, v, v_place);
    else
        transform_window(3, a->row, a->from, a->end, v, v_place);
}

/* One channel's E of a tile of dy; rows and columns from `rows` and `columns` on lie outside the map. */
LS_INLINE void transform_tile(const int kernel, const float *dy, ptrdiff_t row, const int rows, const int columns,
                              float *e, ptrdiff_t e_place)
{
    const int n = kernel + TILE - 1;
    for (int v = 0; v < LS_LANES; v += LS_VL, dy += LS_VL, e += LS_VL) {
        vf half[TILE][WINDOW];
        LS_UNROLL
        for (int c = 0; c < TILE; c++) {
            vf s[TILE];
            LS_UNROLL
            for (int i = 0; i < TILE; i++)
                s[i] = i < rows && c < columns ? vf_load(dy + i * row + c * LS_LANES) : vf_zero();
            winograd_slopes(kernel, s, half[c]);
        }
        LS_UNROLL
        for (int i = 0; i < n; i++) {
            const line s = line_across(TILE, half, i);
            vf out[WINDOW];
            winograd_slopes(kernel, s.at, out);
            LS_UNROLL
            for (int c = 0; c < n; c++)
                vf_store(e + (i * n + c) * e_place, out[c]);
        }
    }
}

/* Channel `o` of the tile. */
LS_INLINE void transform_slopes(const tiling *t, const ls_operand *dy, const tile *a, int o, float *e,
                                ptrdiff_t e_place)
{
    const ptrdiff_t row = (ptrdiff_t)dy->w * LS_LANES;
    const float *at = a->at + o * dy->h * row;
    const int whole = a->rows == TILE && a->columns == TILE;
    if (t->kernel == 5 && whole)
        transform_tile(5, at, row, TILE, TILE, e, e_place);
    else if (t->kernel == 5)
        transform_tile(5, at, row, a->rows, a->columns, e, e_place);
    else if (whole)
        transform_tile(3, at, row, TILE, TILE, e, e_place);
    else
        transform_tile(3, at, row, a->rows, a->columns, e, e_place);
}

#endif
