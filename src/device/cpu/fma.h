/* a * b + c rounded once, for kernels without vector instructions. The C library's fmaf is an emulation where the
 * machine has no instruction for it, and takes many times as long. */
#pragma once

#include <math.h>

/* The same bits, of any machine that rounds to nearest. */
float ls_fma_by_double(float a, float b, float c);

#if defined(__FP_FAST_FMAF) || defined(__aarch64__)
static inline float ls_fma(float a, float b, float c)
{
    return fmaf(a, b, c);
}
#else
float ls_fma(float a, float b, float c); /* by the machine's instruction where it has one after all */
#endif
