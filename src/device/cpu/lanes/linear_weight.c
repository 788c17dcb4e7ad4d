/* CONV_WEIGHT of linear layers, whose maps have one place: after as many products as there are groups of images a sum
 * is over, so that its lanes are added right where it was made. Of many groups, such as tokens, the sums wait in the
 * outer caches, while blocks of groups go by, whose lines are packed in the order in which tiles read them. */
#include "device/cpu/lanes/cut.h"

enum {
    MANY_GROUPS = 24, /* of images or tokens: so many lie too far apart for a tile to read all of them */
    COLUMNS = 4,
    BLOCK_LINES = 384, /* of the columns, which the first cache keeps while rows go by */
    BLOCK_GROUPS = 32, /* of which the first cache holds a tile's rows, and its columns */
    MOST = 264         /* rows, and columns, whose sums wait: the more, the fewer times a group is read */
};

/* dw[row][column] is the sum over images of a[row] times b[column]: dy and x, or with [in][out] x and dy. */
typedef struct linear {
    const float *a, *b;         /* of the first group */
    ptrdiff_t a_group, b_group; /* floats from a group to the next */
    int groups, columns;        /* of all b */
    float *dw;
} linear;

/* The products of the first `n` columns of a tile of `rows`, group by group, each sum by itself. */
LS_INLINE void add_products(const int rows, const int n, const float *a, ptrdiff_t a_group, const float *b,
                            ptrdiff_t b_group, int groups, vf s[LS_PB][COLUMNS])
{
    LS_ROLL
    for (int g = 0; g < groups; g++, a += a_group, b += b_group) {
        vf row_of[LS_PB];
        LS_UNROLL
        for (int i = 0; i < rows; i++)
            row_of[i] = vf_load(a + i * LS_LANES);
        LS_UNROLL
        for (int j = 0; j < n; j++) {
            const vf x = vf_load(b + j * LS_LANES);
            LS_UNROLL
            for (int i = 0; i < rows; i++)
                s[i][j] = vf_fma(row_of[i], x, s[i][j]);
        }
    }
}

LS_INLINE void tile(const int rows, const int n, const linear *l, int row, int column)
{
    vf acc[LS_PB][COLUMNS][LS_NV];
    LS_UNROLL
    for (int v = 0; v < LS_NV; v++) {
        const float *a = l->a + row * LS_LANES + v * LS_VL, *b = l->b + column * LS_LANES + v * LS_VL;
        vf s[LS_PB][COLUMNS];
        LS_UNROLL
        for (int i = 0; i < rows; i++)
            LS_UNROLL
        for (int j = 0; j < COLUMNS; j++)
            s[i][j] = vf_zero();
        add_products(rows, n, a, l->a_group, b, l->b_group, l->groups, s);
        LS_UNROLL
        for (int i = 0; i < rows; i++)
            LS_UNROLL
        for (int j = 0; j < COLUMNS; j++)
            acc[i][j][v] = s[i][j];
    }
    float *dw = l->dw + (ptrdiff_t)row * l->columns + column;
    LS_UNROLL
    for (int i = 0; i < rows; i++, dw += l->columns) {
        float sum[COLUMNS];
        lanes_sum4(acc[i], sum);
        LS_UNROLL
        for (int j = 0; j < n; j++)
            dw[j] = sum[j] + 0.0f; /* no -0 */
    }
}

LS_INLINE void tiles(const int rows, const linear *l, int row, int column, int end)
{
    for (; column + COLUMNS <= end; column += COLUMNS)
        tile(rows, COLUMNS, l, row, column);
    for (; column < end; column++)
        tile(rows, 1, l, row, column);
}

/* ---- Many groups ---- */

/* Where the sums wait: [rows / LS_PB][columns / COLUMNS][LS_PB][COLUMNS][16]; and what is packed of a block of groups:
 * [rows / LS_PB][BLOCK_GROUPS][LS_PB][16] and [columns / COLUMNS][BLOCK_GROUPS][COLUMNS][16], zeros behind the last,
 * and a line between tiles, which spreads them over the sets of the caches. */
typedef struct blocks {
    int row_tiles, column_tiles; /* of a part of the weight */
    float *sums, *a, *b;
} blocks;

/* Floats from a packed tile to the next. */
LS_INLINE ptrdiff_t packed(int width)
{
    return (BLOCK_GROUPS * width + 1) * LS_LANES;
}

static size_t cut_blocks(blocks *k, const ls_op_call *call, int rows, int columns)
{
    k->row_tiles = (even_part(rows, MOST) + LS_PB - 1) / LS_PB;
    k->column_tiles = (even_part(columns, MOST) + COLUMNS - 1) / COLUMNS;
    const size_t sums = (size_t)k->row_tiles * k->column_tiles * LS_PB * COLUMNS * LS_LANES,
                 a = (size_t)k->row_tiles * packed(LS_PB), b = (size_t)k->column_tiles * packed(COLUMNS);
    k->sums = call->scratch;
    k->a = k->sums ? k->sums + sums : NULL;
    k->b = k->sums ? k->a + a : NULL;
    return (sums + a + b) * sizeof(float);
}

/* `n` channels of `groups` groups, in tiles of `width`. */
LS_INLINE void pack(const int width, const float *from, ptrdiff_t group, int groups, int n, float *to)
{
    const int whole = n / width * width;
    for (int g = 0; g < groups; g++, from += group, to += width * LS_LANES) {
        const float *x = from;
        float *at = to;
        for (int c = 0; c < whole; c += width, x += width * LS_LANES, at += packed(width)) {
            LS_UNROLL
            for (int v = 0; v < width; v++) /* the next group is pages away */
                __builtin_prefetch(x + group + v * LS_LANES, 0, 2);
            LS_UNROLL
            for (int v = 0; v < width * LS_LANES; v += LS_VL)
                vf_store(at + v, vf_load(x + v));
        }
        for (int v = 0; v < width * LS_LANES && whole < n; v += LS_VL)
            vf_store(at + v, v < (n - whole) * LS_LANES ? vf_load(x + v) : vf_zero());
    }
}

/* The products of one tile go on. */
LS_INLINE void go_on(const float *a, const float *b, int groups, int begun, float *sums)
{
    for (int v = 0; v < LS_LANES; v += LS_VL) {
        vf s[LS_PB][COLUMNS];
        LS_UNROLL
        for (int i = 0; i < LS_PB; i++)
            LS_UNROLL
        for (int j = 0; j < COLUMNS; j++)
            s[i][j] = begun ? vf_load(sums + (i * COLUMNS + j) * LS_LANES + v) : vf_zero();
        /* The next tile's sums, which come from the outer caches. */
        LS_UNROLL
        for (int i = 0; i < LS_PB * COLUMNS; i++)
            __builtin_prefetch(sums + (LS_PB * COLUMNS + i) * LS_LANES, 1, 3);
        add_products(LS_PB, COLUMNS, a + v, LS_PB * LS_LANES, b + v, COLUMNS * LS_LANES, groups, s);
        LS_UNROLL
        for (int i = 0; i < LS_PB; i++)
            LS_UNROLL
        for (int j = 0; j < COLUMNS; j++)
            vf_store(sums + (i * COLUMNS + j) * LS_LANES + v, s[i][j]);
    }
}

/* Adds the lanes of a tile's sums, of which so many rows and columns are the weight's. */
LS_INLINE void finish(const float *sums, int rows, int columns, float *dw, ptrdiff_t row)
{
    for (int i = 0; i < rows; i++, dw += row, sums += COLUMNS * LS_LANES) {
        vf lanes[COLUMNS][LS_NV];
        float sum[COLUMNS];
        LS_UNROLL
        for (int j = 0; j < COLUMNS; j++)
            LS_UNROLL
        for (int v = 0; v < LS_NV; v++)
            lanes[j][v] = vf_load(sums + j * LS_LANES + v * LS_VL);
        lanes_sum4(lanes, sum);
        for (int j = 0; j < columns; j++)
            dw[j] = sum[j] + 0.0f; /* no -0 */
    }
}

/* The part of the weight from (row, column) on. */
static void sum_part(const linear *l, const blocks *k, int row, int rows, int column, int columns)
{
    for (int g = 0; g < l->groups; g += BLOCK_GROUPS) {
        const int groups = l->groups - g < BLOCK_GROUPS ? l->groups - g : BLOCK_GROUPS;
        pack(LS_PB, l->a + g * l->a_group + (ptrdiff_t)row * LS_LANES, l->a_group, groups, rows, k->a);
        pack(COLUMNS, l->b + g * l->b_group + (ptrdiff_t)column * LS_LANES, l->b_group, groups, columns, k->b);
        for (int i = 0; i < rows; i += LS_PB)
            for (int j = 0; j < columns; j += COLUMNS) {
                float *sums = k->sums + ((ptrdiff_t)i * k->column_tiles * COLUMNS + (ptrdiff_t)j * LS_PB) * LS_LANES;
                go_on(k->a + i / LS_PB * packed(LS_PB), k->b + j / COLUMNS * packed(COLUMNS), groups, g > 0, sums);
                if (g + groups == l->groups)
                    finish(sums, rows - i < LS_PB ? rows - i : LS_PB, columns - j < COLUMNS ? columns - j : COLUMNS,
                           l->dw + (ptrdiff_t)(row + i) * l->columns + column + j, l->columns);
            }
    }
}

static void sum_blocks(const ls_op_call *call, const linear *l, range rows, int all_rows)
{
    blocks k;
    cut_blocks(&k, call, all_rows, l->columns);
    const int most_rows = k.row_tiles * LS_PB, most_columns = k.column_tiles * COLUMNS;
    for (int row = rows.from; row < rows.to; row += most_rows)
        for (int column = 0; column < l->columns; column += most_columns)
            sum_part(l, &k, row, rows.to - row < most_rows ? rows.to - row : most_rows, column,
                     l->columns - column < most_columns ? l->columns - column : most_columns);
}

/* ---- All ---- */

int LANES(ls_lanes_is_linear)(const ls_op_call *call)
{
    const ls_operand *x = &call->in[0];
    const ls_attributes *a = call->attributes;
    return x->h == 1 && x->w == 1 && a->kernel == 1 && a->padding == 0 && ls_windows_plain(a);
}

int LANES(ls_lanes_linear_weight_units)(const ls_op_call *call)
{
    const int rows = call->in[call->attributes->weight_in_out ? 0 : 1].c;
    return (rows + LS_PB - 1) / LS_PB;
}

size_t LANES(ls_lanes_linear_weight_scratch)(const ls_op_call *call)
{
    const int in_out = call->attributes->weight_in_out;
    ls_op_call no_data = *call;
    no_data.scratch = NULL;
    blocks k;
    return call->groups < MANY_GROUPS ? 0 : cut_blocks(&k, &no_data, call->in[!in_out].c, call->in[in_out].c);
}

void LANES(ls_lanes_linear_weight)(const ls_op_call *call)
{
    const ls_operand *x = &call->in[0], *dy = &call->in[1];
    const int in_out = call->attributes->weight_in_out;
    const ls_operand *a = in_out ? x : dy, *b = in_out ? dy : x;
    const range rows = range_by(call, a->c, LS_PB);
    const linear l = {.a = a->data,
                      .b = b->data,
                      .a_group = (ptrdiff_t)a->c * LS_LANES,
                      .b_group = (ptrdiff_t)b->c * LS_LANES,
                      .groups = call->groups,
                      .columns = b->c,
                      .dw = call->out[0].data};
    if (call->groups >= MANY_GROUPS) {
        sum_blocks(call, &l, rows, a->c);
        return;
    }
    int block = BLOCK_LINES / (call->groups < 1 ? 1 : call->groups) / COLUMNS * COLUMNS;
    block = block < COLUMNS ? COLUMNS : block;
    for (int from = 0; from < b->c; from += block) {
        const int end = b->c - from < block ? b->c : from + block;
        int row = rows.from;
        for (; row + LS_PB <= rows.to; row += LS_PB)
            tiles(LS_PB, &l, row, from, end);
        for (; row < rows.to; row++)
            tiles(1, &l, row, from, end);
    }
}
