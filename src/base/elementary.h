/* Elementary functions in plain IEEE arithmetic, for cores and cards: base/math.h says how accurate they are. Every
 * product and sum is rounded by itself, in this order. */
#pragma once

#include <float.h>
#include <stdint.h>
#include <string.h>

#include "base/everywhere.h"

/* ln 2 in two parts: the first has 33 significant bits, so that its product with an exponent of up to 20 bits is exact.
 */
#define LS_LN2_HIGH 0x1.62e42feep-1
#define LS_LN2_LOW  0x1.a39ef35793c76p-33

LS_EVERYWHERE uint64_t ls_elementary_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

LS_EVERYWHERE double ls_elementary_double(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* For -104 <= x <= 89. x = n ln 2 + r with |r| <= 0.35; exp(r) by its Taylor series to r^11 in double (relative error
 * below 1e-14). */
LS_EVERYWHERE double ls_elementary_exp(float x)
{
    double t = (double)x * 0x1.71547652b82fep0; /* 1 / ln 2 */
    int n = (int)(t < 0 ? t - 0.5 : t + 0.5);
    double r = (double)x - n * LS_LN2_HIGH;
    r = r - n * LS_LN2_LOW;
    double p = 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    return p * ls_elementary_double((uint64_t)(1023 + n) << 52);
}

/* Nearly all of the error is the one rounding to float. Results below the normal range round once, too. */
LS_EVERYWHERE float ls_elementary_expf(float x)
{
    if (x != x)
        return x;
    if (x > 89.0f)
        return __builtin_inff();
    if (x < -104.0f)
        return 0.0f;
    return (float)ls_elementary_exp(x);
}

/* The exponential is taken of a negative number, so that it neither overflows nor hides the 1 beside it. */
LS_EVERYWHERE float ls_elementary_sigmoidf(float x)
{
    if (x != x)
        return x;
    if (x > 89.0f)
        return 1.0f;
    if (x < -104.0f)
        return 0.0f;
    double e = ls_elementary_exp(x < 0 ? x : -x);
    return (float)((x < 0 ? e : 1.0) / (1.0 + e));
}

/* (1 - e) / (1 + e) with e = exp(-2|x|), in which 1 - e has lost no more than a part in 1e11; closer to zero the series
 * x - x^3/3 + 2x^5/15, whose next term is below 1e-19 of x. */
LS_EVERYWHERE float ls_elementary_tanhf(float x)
{
    if (x != x)
        return x;
    float size = x < 0 ? -x : x;
    if (size < 0x1p-10f) {
        double z = (double)x * x;
        return (float)(x * (1.0 + z * (-1.0 / 3 + z * (2.0 / 15))));
    }
    if (size > 10.0f)
        return x < 0 ? -1.0f : 1.0f;
    double e = ls_elementary_exp(-2.0f * size), t = (1.0 - e) / (1.0 + e);
    return (float)(x < 0 ? -t : t);
}

/* The method of fdlibm's e_log.c (Sun Microsystems, 1993; error below 1 unit in the last place): x = 2^k (1 + f)
 * with 1 + f between sqrt(1/2) and sqrt(2), s = f / (2 + f), log(1 + f) = 2 atanh(s) by an odd polynomial in s. */
LS_EVERYWHERE double ls_elementary_log(double x)
{
    if (x != x || x == __builtin_inf())
        return x;
    if (x < 0)
        return __builtin_nan("");
    if (x == 0)
        return -__builtin_inf();
    int k = 0;
    if (x < DBL_MIN) {
        x *= 0x1p54;
        k = -54;
    }
    uint64_t bits = ls_elementary_bits(x);
    k += (int)(bits >> 52) - 1023;
    double m = ls_elementary_double((bits & 0xfffffffffffffu) | ((uint64_t)1023 << 52));
    if (m > 0x1.6a09e667f3bcdp0) { /* sqrt(2) */
        m *= 0.5;
        k++;
    }
    double f = m - 1.0;
    double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    double p = 1.479819860511658591e-01;
    p = p * z + 1.531383769920937332e-01;
    p = p * z + 1.818357216161805012e-01;
    p = p * z + 2.222219843214978396e-01;
    p = p * z + 2.857142874366239149e-01;
    p = p * z + 3.999999999940941908e-01;
    p = p * z + 6.666666666666735130e-01;
    p = p * z;
    return k * LS_LN2_HIGH - ((half - (s * (half + p) + k * LS_LN2_LOW)) - f);
}

/* In double and rounded once: also right for float's subnormal numbers, which are normal in double. */
LS_EVERYWHERE float ls_elementary_logf(float x)
{
    return (float)ls_elementary_log((double)x);
}
