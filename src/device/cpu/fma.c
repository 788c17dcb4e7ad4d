#include "device/cpu/fma.h"

#include <stdint.h>
#include <string.h>

/* The sum s = p + c with its last bit set where there was more to it: rounded to odd. A double has more than two digits
 * more than a float, so that rounding this one again is rounding the sum. */
static double to_odd(double s, double p, double c)
{
    const double t = s - p, rest = (p - (s - t)) + (c - t); /* exactly what s lacks; no number where s is none */
    uint64_t bits;
    memcpy(&bits, &s, sizeof bits);
    if ((rest > 0 || rest < 0) && !(bits & 1))
        bits += (rest > 0) == (s > 0) ? 1 : UINT64_MAX;
    memcpy(&s, &bits, sizeof s);
    return s;
}

static inline float by_double(float a, float b, float c)
{
    const double p = (double)a * (double)b, s = p + (double)c; /* the product is exact */
    uint64_t bits;
    memcpy(&bits, &s, sizeof bits);
    /* Rounding twice differs only where s lies in the middle between two floats; of those below 2^-125 the middle is
     * elsewhere. */
    if ((bits & 0x1fffffff) != 0x10000000 && bits << 1 >= (uint64_t)(1023 - 125) << 53)
        return (float)s;
    return (float)to_odd(s, p, c);
}

float ls_fma_by_double(float a, float b, float c)
{
    return by_double(a, b, c);
}

#if defined(__x86_64__) && !defined(__FP_FAST_FMAF)
__attribute__((target("fma"))) static float by_instruction(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}

float ls_fma(float a, float b, float c)
{
    return __builtin_cpu_supports("fma") ? by_instruction(a, b, c) : by_double(a, b, c);
}
#elif !defined(__FP_FAST_FMAF) && !defined(__aarch64__)
float ls_fma(float a, float b, float c)
{
    return by_double(a, b, c);
}
#endif
