#include "device/norm_sums.h"

static void add_images(float *out, const float *a, const float *b)
{
    out[LS_NORM_IMAGES] = a[LS_NORM_IMAGES] + b[LS_NORM_IMAGES];
    out[LS_NORM_PLACES] = a[LS_NORM_PLACES];
}

void ls_norm_merge(float *out, const float *a, const float *b, size_t n)
{
    const size_t channels = (n - LS_NORM_FIRST) / 2;
    const float of_a = ls_norm_numbers(a), of_b = ls_norm_numbers(b);
    const float f = (float)((double)of_a * (double)of_b / ((double)of_a + (double)of_b));
    for (size_t s = LS_NORM_FIRST; s < LS_NORM_FIRST + channels; s++) {
        const size_t q = s + channels;
        const float d = b[s] / of_b - a[s] / of_a;
        out[s] = a[s] + b[s];
        out[q] = (a[q] + b[q]) + (d * d) * f;
    }
    add_images(out, a, b);
}

void ls_norm_add(float *out, const float *a, const float *b, size_t n)
{
    for (size_t i = LS_NORM_FIRST; i < n; i++)
        out[i] = a[i] + b[i];
    add_images(out, a, b);
}
