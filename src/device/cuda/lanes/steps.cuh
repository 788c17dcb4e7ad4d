/* Winograd's steps for a thread of the card, whose numbers are floats. The form is known to the compiler. */
#pragma once

#include <math.h>
#include <stddef.h>

#ifdef __CUDACC__
#define WINOGRAD_STEP static __host__ __device__ __forceinline__
#else
#define WINOGRAD_STEP static inline
#endif

typedef float winograd_number;

WINOGRAD_STEP float winograd_fma(float a, float b, float c)
{
    return fmaf(a, b, c);
}

#include "device/winograd_steps.h"
#include "device/winograd_tiling.h"

#ifdef __CUDA_ARCH__
#define LS_UNROLL _Pragma("unroll")
#else
#define LS_UNROLL
#endif

/* winograd_KIND(form, from, to) for each kind of step. */
#define STEP_OF(kind, one, two4, two7, three4, three7, five)                                                           \
    WINOGRAD_STEP void winograd_##kind(form f, const float *from, float *to)                                           \
    {                                                                                                                  \
        switch (f) {                                                                                                   \
        case F4X3:                                                                                                     \
            return three4(from, to);                                                                                   \
        case F7X3:                                                                                                     \
            return three7(from, to);                                                                                   \
        case F4X5:                                                                                                     \
            return five(from, to);                                                                                     \
        case F4X2:                                                                                                     \
            return two4(from, to);                                                                                     \
        case F7X2:                                                                                                     \
            return two7(from, to);                                                                                     \
        default:                                                                                                       \
            return one(f, from, to);                                                                                   \
        }                                                                                                              \
    }

WINOGRAD_STEP void one_number(form, const float *from, float *to)
{
    to[0] = from[0];
}

WINOGRAD_STEP void one_tile(form f, const float *from, float *to)
{
    return f == F7X1 ? f7x1_places(from, to) : f4x1_places(from, to);
}

STEP_OF(weights, one_number, f4x2_weights, f7x2_weights, f4x3_weights, f7x3_weights, f4x5_weights)
STEP_OF(inputs, one_tile, f4x2_inputs, eight_inputs, f4x3_inputs, f7x3_inputs, eight_inputs)
STEP_OF(products, one_tile, f4x2_products, f7x2_products, f4x3_products, f7x3_products, f4x5_products)
STEP_OF(slopes, one_tile, f4x2_slopes, f7x2_slopes, f4x3_slopes, f7x3_slopes, f4x5_slopes)
STEP_OF(sums, one_number, f4x2_sums, f7x2_sums, f4x3_sums, f7x3_sums, f4x5_sums)

/* What a step takes or gives, and what those down the columns made, [row][column]. */
enum { WINDOW = LS_WINOGRAD_WINDOW };
typedef struct line {
    float at[WINDOW];
} line;

/* n numbers, `step` floats apart. */
WINOGRAD_STEP line line_load(int n, const float *from, ptrdiff_t step)
{
    line of;
    LS_UNROLL
    for (int i = 0; i < n; i++)
        of.at[i] = from[i * step];
    return of;
}

WINOGRAD_STEP line square_row(const float *row, int n)
{
    return line_load(n, row, 1);
}

WINOGRAD_STEP void square_put(float half[WINDOW][WINDOW], int c, const float *column, int n)
{
    LS_UNROLL
    for (int i = 0; i < n; i++)
        half[i][c] = column[i];
}
