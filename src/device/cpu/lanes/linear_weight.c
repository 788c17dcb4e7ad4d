/* CONV_WEIGHT of linear layers, whose maps have one place: after as many products as there are groups of images a sum
 * is over, so that its lanes are added right where it was made. Of many groups, such as tokens, weight.c makes the same
 * sums block by block. */
#include "device/cpu/lanes/cut.h"

enum {
    MANY_GROUPS = 24, /* of images or tokens: so many lie too far apart for a tile to read all of them */
    COLUMNS = 4,
    BLOCK_LINES = 384 /* of the columns, which the first cache keeps while rows go by */
};

/* dw[row][column] is the sum over images of a[row] times b[column]: dy and x, or with [in][out] x and dy. */
typedef struct linear {
    const float *a, *b;         /* of the first group */
    ptrdiff_t a_group, b_group; /* floats from a group to the next */
    int groups, columns;        /* of all b */
    float *dw;
} linear;

/* The first `n` columns of a tile of `rows`. */
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
        LS_ROLL
        for (int g = 0; g < l->groups; g++, a += l->a_group, b += l->b_group) {
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

int LANES(ls_lanes_is_linear)(const ls_op_call *call)
{
    const ls_operand *x = &call->in[0];
    const ls_attributes *a = call->attributes;
    return x->h == 1 && x->w == 1 && a->kernel == 1 && a->padding == 0 && ls_windows_plain(a) &&
           (a->weight_in_out || call->groups < MANY_GROUPS);
}

int LANES(ls_lanes_linear_weight_units)(const ls_op_call *call)
{
    const int rows = call->in[call->attributes->weight_in_out ? 0 : 1].c;
    return (rows + LS_PB - 1) / LS_PB;
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
