/* What Winograd's three directions share: tiles, the windows that they read, and the transforms of both. */
#pragma once

#include "device/cpu/lanes/winograd/winograd_steps.h"
#include "device/winograd_tiling.h"

enum { MOST_TILE = LS_WINOGRAD_TILE };

/* A tile of y or dy: its place in channel 0, how much of it lies inside the map, and the floats from one to the
 * next. */
typedef struct tile {
    float *at;
    int rows, columns;
    ptrdiff_t row, column;
} tile;

LS_INLINE tile tile_of(const tiling *t, const ls_operand *y, int number)
{
    const spot s = spot_of(t, number);
    const int top = t->row.to + s.top * t->row.spread, left = t->column.to + s.left * t->column.spread;
    const ptrdiff_t place = ((ptrdiff_t)s.group * y->c * y->h + top) * y->w + left;
    const int rows = t->row.size - s.top, columns = t->column.size - s.left;
    return (tile){y->data + place * LS_LANES, rows < t->tile ? rows : t->tile, columns < t->tile ? columns : t->tile,
                  (ptrdiff_t)t->row.spread * y->w * LS_LANES, (ptrdiff_t)t->column.spread * LS_LANES};
}

LS_INLINE void fetch_tile(const tile *a, ptrdiff_t ahead)
{
    for (int i = 0; i < a->rows; i++)
        for (int k = 0; k < a->columns; k++)
            __builtin_prefetch(a->at + ahead + i * a->row + k * a->column);
}

/* The rows of one channel that a tile reads. */
typedef struct window {
    const float *row[WINDOW];
    ptrdiff_t step[WINDOW];    /* floats to the next channel's */
    ptrdiff_t column;          /* floats to the next column */
    int rows, size, from, end; /* size: columns, of which [from, end) lie inside the map */
} window;

/* Of channel 0 of the tile's group. */
LS_INLINE window window_of(const tiling *t, const ls_operand *x, int number)
{
    static const float zeros[2 * WINDOW * LS_LANES];
    const spot s = spot_of(t, number);
    const ls_winograd_axis *r = &t->row, *c = &t->column;
    const int top = r->from + r->step * s.top, left = c->from + c->step * s.left;
    const int inside = (x->w - left + c->step - 1) / c->step, n = form_window(t->along);
    const ptrdiff_t plane = (ptrdiff_t)x->h * x->w * LS_LANES;
    window a = {.column = (ptrdiff_t)c->step * LS_LANES,
                .rows = form_window(t->down),
                .size = n,
                .from = left < 0 ? (c->step - 1 - left) / c->step : 0,
                .end = inside < n ? inside : n};
    for (int i = 0; i < WINDOW; i++) {
        const int y = top + r->step * i, there = i < a.rows && y >= 0 && y < x->h;
        const ptrdiff_t at = ((ptrdiff_t)y * x->w + left + c->step * a.from) * LS_LANES;
        a.row[i] = there ? x->data + (ptrdiff_t)s.group * x->c * plane + at : zeros;
        a.step[i] = there ? plane : 0;
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
    for (int i = 0; i < a->rows; i++)
        for (int k = 0; k < a->end - a->from && a->step[i]; k++)
            __builtin_prefetch(a->row[i] + channels * a->step[i] + k * a->column);
}

/* One window's V. Rows outside the map are read from zeros; columns outside are those before `from` and after `end`. */
LS_INLINE void transform_window(const form down, const form along, const window *a, const int from, const int end,
                                float *v, ptrdiff_t v_place)
{
    const int n = form_window(down), m = form_window(along);
    const float *const *row = a->row;
    for (int k = 0; k < LS_LANES; k += LS_VL) {
        const vf zero = vf_zero();
        square half;
        LS_ROLL
        for (int c = 0; c < m; c++) {
            const ptrdiff_t at = (c - from) * a->column + k;
            line d = {{zero, zero, zero, zero, zero, zero, zero, zero, zero}};
            if (c >= from && c < end)
                d = (line){{vf_load(row[0] + at), vf_load(row[1] + at), vf_load(row[2] + at), vf_load(row[3] + at),
                            n > 4 ? vf_load(row[4] + at) : zero, n > 5 ? vf_load(row[5] + at) : zero,
                            n > 6 ? vf_load(row[6] + at) : zero, n > 7 ? vf_load(row[7] + at) : zero,
                            n > 8 ? vf_load(row[8] + at) : zero}};
            vf out[WINDOW];
            winograd_steps[down].inputs(d.at, out);
            square_put(half, c, out, n);
        }
        float *to = v + k;
        LS_ROLL
        for (int i = 0; i < n; i++, to += m * v_place) {
            const line d = square_row(half[i], m);
            vf out[WINDOW];
            winograd_steps[along].inputs(d.at, out);
            LS_UNROLL
            for (int c = 0; c < m; c++)
                vf_store(to + c * v_place, out[c]);
        }
    }
}

LS_INLINE void transform_inputs(const tiling *t, const window *a, float *v, ptrdiff_t v_place)
{
    if (t->along == F4X3 && a->from == 0 && a->end == a->size) { /* the most frequent, worth a copy without questions */
        transform_window(F4X3, F4X3, a, 0, 6, v, v_place);
        return;
    }
#define INPUTS(down, along) transform_window(down, along, a, a->from, a->end, v, v_place)
    switch (pair_of(t)) {
        EACH_PAIR(INPUTS)
    }
#undef INPUTS
}

/* One channel's E of a tile of dy; rows and columns from `rows` and `columns` on lie outside the map. */
LS_INLINE void transform_tile(const form down, const form along, const tile *a, const float *dy, const int rows,
                              const int columns, float *e, ptrdiff_t e_place)
{
    const int n = form_window(down), m = form_window(along), side = form_tile(down);
    for (int v = 0; v < LS_LANES; v += LS_VL, dy += LS_VL, e += LS_VL) {
        square half;
        LS_ROLL
        for (int c = 0; c < side; c++) {
            vf s[MOST_TILE], out[WINDOW];
            LS_UNROLL
            for (int i = 0; i < side; i++)
                s[i] = i < rows && c < columns ? vf_load(dy + i * a->row + c * a->column) : vf_zero();
            winograd_steps[down].slopes(s, out);
            square_put(half, c, out, n);
        }
        float *to = e;
        LS_ROLL
        for (int i = 0; i < n; i++, to += m * e_place) {
            const line s = square_row(half[i], side);
            vf out[WINDOW];
            winograd_steps[along].slopes(s.at, out);
            LS_UNROLL
            for (int c = 0; c < m; c++)
                vf_store(to + c * e_place, out[c]);
        }
    }
}

/* A tile of 4 or 7 that lies inside the map needs no questions. */
LS_INLINE void transform_any_tile(const form down, const form along, const tile *a, const float *dy, float *e,
                                  ptrdiff_t e_place)
{
    const int side = form_tile(down);
    if (a->rows == side && a->columns == side)
        transform_tile(down, along, a, dy, side, side, e, e_place);
    else
        transform_tile(down, along, a, dy, a->rows, a->columns, e, e_place);
}

/* E of what lies at `dy` in the tile's place. */
LS_INLINE void transform_slopes(const tiling *t, const tile *a, const float *dy, float *e, ptrdiff_t e_place)
{
#define SLOPES(down, along) transform_any_tile(down, along, a, dy, e, e_place)
    switch (pair_of(t)) {
        EACH_PAIR(SLOPES)
    }
#undef SLOPES
}
