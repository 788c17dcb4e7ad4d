/* How Winograd's operations are cut into phases and tiles, by the forms of `winograd_steps.h`, which is included first.
 */
#pragma once

#include "device/op.h"

/* A phase's outputs, cut into tiles that are numbered through all groups. */
typedef struct tiling {
    ls_winograd_axis row, column;
    form down, along; /* of rows, and of columns */
    int tile;
    int places, distinct; /* distinct: with a U of their own */
    int rows, columns;    /* of tiles */
} tiling;

/* `map` decides on the size of tiles, `out` is what they cover; see ls_winograd_axis_of. */
WINOGRAD_STEP tiling tiling_of(const ls_attributes *a, const ls_operand *map, const ls_operand *out, int is_data,
                               int phase)
{
    const int tile = ls_winograd_tile(a->kernel, a->stride, map->h, map->w), one = a->stride;
    tiling t = {.row = ls_winograd_axis_of(a->kernel, a->stride, a->padding, tile, out->h, is_data, phase / one),
                .column = ls_winograd_axis_of(a->kernel, a->stride, a->padding, tile, out->w, is_data, phase % one),
                .tile = tile};
    t.down = form_of(t.row.taps, tile);
    t.along = form_of(t.column.taps, tile);
    t.places = form_window(t.down) * form_window(t.along);
    t.distinct = form_distinct(t.down) * form_distinct(t.along);
    t.rows = (t.row.size + tile - 1) / tile;
    t.columns = (t.column.size + tile - 1) / tile;
    return t;
}

WINOGRAD_STEP int phases_of(const ls_attributes *a)
{
    return a->stride * a->stride;
}

/* The U of a place. */
WINOGRAD_STEP int distinct_of(const tiling *t, int place)
{
    const int n = form_window(t->along), i = place / n, k = place % n;
    return (form_distinct(t->down) > 1 ? i : 0) * form_distinct(t->along) + (form_distinct(t->along) > 1 ? k : 0);
}

/* What is compiled once for each pair of forms is chosen by `switch (pair_of(t)) { EACH_PAIR(DO) }`, with DO(down,
 * along) a call. */
#define PAIR(down, along) ((down)*8 + (along))
#define ONE_PAIR(DO, down, along)                                                                                      \
    case PAIR(down, along):                                                                                            \
        DO(down, along);                                                                                               \
        break;
#define EACH_PAIR(DO)                                                                                                  \
    ONE_PAIR(DO, F4X3, F4X3)                                                                                           \
    ONE_PAIR(DO, F7X3, F7X3)                                                                                           \
    ONE_PAIR(DO, F4X5, F4X5)                                                                                           \
    ONE_PAIR(DO, F4X2, F4X2)                                                                                           \
    ONE_PAIR(DO, F4X2, F4X1)                                                                                           \
    ONE_PAIR(DO, F4X1, F4X2)                                                                                           \
    ONE_PAIR(DO, F4X1, F4X1)                                                                                           \
    ONE_PAIR(DO, F7X2, F7X2)                                                                                           \
    ONE_PAIR(DO, F7X2, F7X1)                                                                                           \
    ONE_PAIR(DO, F7X1, F7X2)                                                                                           \
    ONE_PAIR(DO, F7X1, F7X1)

WINOGRAD_STEP int pair_of(const tiling *t)
{
    return PAIR(t->down, t->along);
}

/* Where a tile lies. */
typedef struct spot {
    int group, top, left; /* its first output */
} spot;

WINOGRAD_STEP spot spot_of(const tiling *t, int tile)
{
    const int map = t->rows * t->columns, at = tile % map;
    return (spot){tile / map, at / t->columns * t->tile, at % t->columns * t->tile};
}
