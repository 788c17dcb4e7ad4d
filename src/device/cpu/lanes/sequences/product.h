/* Products of matrices of sixteen images side by side. A tile of LS_OB rows and LS_PB columns of y stays in the
 * registers. */
#pragma once

#include "device/cpu/lanes/lanes.h"

/* y = a b, or y + a b; steps are floats from a row, a column or a term of the sums to the next. Of `bits`, where the
 * terms are masked, each has 16: the lanes in which row and term are a product; the others are left out. */
typedef struct product {
    const float *a, *b;
    float *y;
    ptrdiff_t a_row, a_inner, b_inner, b_column, y_row;
    int inner, lanes; /* of those that y is not 0 in */
    const uint16_t *bits;
    ptrdiff_t bits_row, bits_inner;
} product;

enum product_kind {
    PRODUCT,       /* y = a b */
    PRODUCT_ADDS,  /* y = y + a b */
    PRODUCT_MASKED /* the same, of terms that are masked */
};

LS_INLINE void product_tile(const int kind, const int rows, const int columns, const product *p, int row, int column)
{
    for (int v = 0; v < LS_LANES; v += LS_VL) {
        vf acc[LS_OB][LS_PB];
        const float *a = p->a + row * p->a_row + v, *b = p->b + column * p->b_column + v;
        float *y = p->y + row * p->y_row + (ptrdiff_t)column * LS_LANES + v;
        const uint16_t *bits = kind == PRODUCT_MASKED ? p->bits + row * p->bits_row : NULL;
        const vm image = vm_first(p->lanes - v);
        LS_UNROLL
        for (int i = 0; i < rows; i++)
            LS_UNROLL
        for (int j = 0; j < columns; j++)
            acc[i][j] = kind == PRODUCT ? vf_zero() : vf_load(y + i * p->y_row + (ptrdiff_t)j * LS_LANES);
        for (int k = 0; k < p->inner; k++, a += p->a_inner, b += p->b_inner) {
            vf right[LS_PB];
            LS_UNROLL
            for (int j = 0; j < columns; j++)
                right[j] = vf_load(b + j * p->b_column);
            LS_UNROLL
            for (int i = 0; i < rows; i++) {
                const vf left = vf_load(a + i * p->a_row);
                const vm there =
                    kind == PRODUCT_MASKED ? vm_of_bits(bits[i * p->bits_row + k * p->bits_inner], v) : image;
                LS_UNROLL
                for (int j = 0; j < columns; j++) {
                    const vf sum = vf_fma(left, right[j], acc[i][j]);
                    acc[i][j] = kind == PRODUCT_MASKED ? vf_select(there, sum, acc[i][j]) : sum;
                }
            }
        }
        LS_UNROLL
        for (int i = 0; i < rows; i++)
            LS_UNROLL
        for (int j = 0; j < columns; j++)
            vf_store(y + i * p->y_row + (ptrdiff_t)j * LS_LANES, vf_keep(image, acc[i][j]));
    }
}

LS_INLINE void product_tiles(const int kind, const int rows, const product *p, int row, int columns)
{
    int column = 0;
    for (; column + LS_PB <= columns; column += LS_PB)
        product_tile(kind, rows, LS_PB, p, row, column);
    for (; column + 2 <= columns; column += 2)
        product_tile(kind, rows, 2, p, row, column);
    for (; column < columns; column++)
        product_tile(kind, rows, 1, p, row, column);
}

/* Rows from one up to another, and all of so many columns. */
LS_INLINE void product_rows(const int kind, const product *p, int row, int to, int columns)
{
    for (; row + LS_OB <= to; row += LS_OB)
        product_tiles(kind, LS_OB, p, row, columns);
    for (; row < to; row++)
        product_tiles(kind, 1, p, row, columns);
}
