/* What the one-dimensional steps of Winograd take and give, a vector at a time. The form is known to the compiler. */
#pragma once

#include "device/cpu/lanes/lanes.h"

typedef vf winograd_number;

LS_INLINE vf winograd_fma(float a, vf b, vf c)
{
    return vf_fma(vf_set(a), b, c);
}

#include "device/winograd_steps.h"

/* What a step takes: up to 9 vectors, named one by one, since compilers keep in registers what no loop has touched. */
enum { WINDOW = LS_WINOGRAD_WINDOW };
typedef struct line {
    vf at[WINDOW];
} line;

/* n numbers, `step` floats apart. */
LS_INLINE line line_load(const int n, const float *from, ptrdiff_t step)
{
    const vf zero = vf_zero();
    return (line){{vf_load(from), n > 1 ? vf_load(from + step) : zero, n > 2 ? vf_load(from + 2 * step) : zero,
                   n > 3 ? vf_load(from + 3 * step) : zero, n > 4 ? vf_load(from + 4 * step) : zero,
                   n > 5 ? vf_load(from + 5 * step) : zero, n > 6 ? vf_load(from + 6 * step) : zero,
                   n > 7 ? vf_load(from + 7 * step) : zero, n > 8 ? vf_load(from + 8 * step) : zero}};
}

/* What steps down the columns made, [row][column]; the steps along the rows take it from there. The loops over columns
 * and rows stay loops: unrolled, they are more code than the processor keeps decoded, and take half as long again. */
typedef vf square[WINDOW][WINDOW];

LS_INLINE void square_put(square half, const int c, const vf *column, const int n)
{
    LS_UNROLL
    for (int i = 0; i < n; i++)
        half[i][c] = column[i];
}

LS_INLINE line square_row(const vf *row, const int n)
{
    const vf zero = vf_zero();
    return (line){{row[0], n > 1 ? row[1] : zero, n > 2 ? row[2] : zero, n > 3 ? row[3] : zero, n > 4 ? row[4] : zero,
                   n > 5 ? row[5] : zero, n > 6 ? row[6] : zero, n > 7 ? row[7] : zero, n > 8 ? row[8] : zero}};
}
