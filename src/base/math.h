/* Elementary functions in plain IEEE arithmetic, so that every machine, compiler and card gets the same bits. The C
 * library's differ between versions and instruction sets. They are without branches, and choose between numbers alone,
 * never between operations, so that compilers make vectors of a loop over them. Errors of the functions in double are
 * relative to the result. */
#pragma once

#include <float.h>
#include <stdint.h>
#include <string.h>

#include "base/everywhere.h"

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "-ffast-math, -Ofast and -ffinite-math-only change the order of operations, and with it the bits: leave them out"
#endif

#ifndef __cplusplus
/* Excess precision (x87) would make the bits depend on what the compiler keeps in registers. */
_Static_assert(FLT_EVAL_METHOD == 0, "float and double must be evaluated in their own type");
#endif

/* ln 2 in two parts: the first has 33 significant bits, so that its product with an exponent of up to 20 bits is exact.
 */
#define LS_LN2_HIGH 0x1.62e42feep-1
#define LS_LN2_LOW  0x1.a39ef35793c76p-33

LS_EVERYWHERE_INLINE uint64_t ls_bits_of_double(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

LS_EVERYWHERE_INLINE double ls_double_of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* -x where x may be what fmaf gave: gcc joins the two, also without contraction, into -(a * b) - c, whose zero may have
 * the other sign. */
LS_EVERYWHERE_INLINE float ls_negative(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits ^= 0x80000000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* `which` ? a : b, by their bits: a compiler that sees a choice moves operations into its branches, of which it then
 * makes no vectors. */
LS_EVERYWHERE_INLINE double ls_choose(int which, double a, double b)
{
    const uint64_t mask = (uint64_t)0 - (uint64_t)which;
    return ls_double_of_bits((ls_bits_of_double(a) & mask) | (ls_bits_of_double(b) & ~mask));
}

/* exp(x), the error below 2e-14; 0 from -700 down and infinite from 700 up, far beyond what a float holds.
 * x = n ln 2 + r with |r| <= 0.35; exp(r) by its Taylor series to r^11. */
LS_EVERYWHERE_INLINE double ls_expd(double x)
{
    const double inside = ls_choose((x > -700) & (x < 700), x, 700); /* 700 of NaN */
    const double t = inside * 0x1.71547652b82fep0;                   /* 1 / ln 2 */
    const int n = (int)(t + __builtin_copysign(0.5, t));
    double r = inside - n * LS_LN2_HIGH;
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
    const double e = p * ls_double_of_bits((uint64_t)(1023 + n) << 52);
    const double high = ls_choose(x >= 700, (double)__builtin_inff(), e);
    return ls_choose(x != x, x, ls_choose(x <= -700, 0, high));
}

/* log(x), the error below 2 units in the last place; -inf of 0, NaN of less. The method of fdlibm's e_log.c (Sun
 * Microsystems, 1993): x = 2^k (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), s = f / (2 + f), log(1 + f) =
 * 2 atanh(s) by an odd polynomial in s. */
LS_EVERYWHERE_INLINE double ls_logd(double x)
{
    const double infinity = (double)__builtin_inff();
    const int small = x < DBL_MIN;
    const uint64_t bits = ls_bits_of_double(x * ls_choose(small, 0x1p54, 1));
    const double whole = ls_double_of_bits((bits & 0xfffffffffffffu) | ((uint64_t)1023 << 52));
    const int high = whole > 0x1.6a09e667f3bcdp0; /* sqrt(2) */
    const double m = whole * ls_choose(high, 0.5, 1);
    const int k = (int)(bits >> 52) - 1023 + high - 54 * small;
    const double f = m - 1.0;
    const double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    double p = 1.479819860511658591e-01;
    p = p * z + 1.531383769920937332e-01;
    p = p * z + 1.818357216161805012e-01;
    p = p * z + 2.222219843214978396e-01;
    p = p * z + 2.857142874366239149e-01;
    p = p * z + 3.999999999940941908e-01;
    p = p * z + 6.666666666666735130e-01;
    p = p * z;
    const double y = k * LS_LN2_HIGH - ((half - (s * (half + p) + k * LS_LN2_LOW)) - f);
    const double below = ls_choose(x < 0, (double)__builtin_nanf(""), -infinity), any = ls_choose(x > 0, y, below);
    return ls_choose((x != x) | (x == infinity), x, any);
}

/* x^n for n of at least 0, by squaring. */
LS_EVERYWHERE double ls_integer_power(double x, int64_t n)
{
    double result = 1;
    for (; n > 0; n /= 2, x *= x)
        if (n % 2)
            result *= x;
    return result;
}

/* 1 / (1 + exp(-x)), the error below 3e-14; 0 below -700. The exponential is of a number that is not positive, so that
 * it neither overflows nor hides the 1 beside it. `slope`: sigmoid(x) * (1 - sigmoid(x)), which is its derivative. */
LS_EVERYWHERE_INLINE double ls_sigmoidd(double x, double *slope)
{
    const double e = ls_expd(-__builtin_fabs(x)), whole = 1.0 + e;
    *slope = e / (whole * whole);
    return ls_choose(x < 0, e, 1) / whole;
}

/* log(sigmoid(x)) = min(x, 0) - log(1 + e) with e = exp(-|x|), the error below 3e-14 of it. What 1 + e loses of e comes
 * back by the logarithm's slope there. An x above -2^-60 changes no bit of the difference; compared with 0 itself, x or
 * 0 becomes a minimum in the machine code of cards, which may choose another zero. */
LS_EVERYWHERE_INLINE double ls_log_sigmoidd(double x)
{
    const double e = ls_expd(-__builtin_fabs(x)), whole = 1.0 + e;
    return ls_choose(x < -0x1p-60, x, 0) - (ls_logd(whole) + (e - (whole - 1.0)) / whole);
}

/* The normal distribution up to x, (1 + erf(x / sqrt(2))) / 2, the error below 1e-11, far out at the left too;
 * `density`: exp(-x^2 / 2) / sqrt(2 pi). With z = |x| / sqrt(2): erfc(z) = exp(-z^2) t P(2t - 1), t = 2.75 / (2.75 +
 * z), where P is the polynomial of degree 15 that equals exp(z^2) erfc(z) / t at the Chebyshev nodes of 2t - 1 in
 * [-1, 1]. */
LS_EVERYWHERE_INLINE double ls_normald(double x, double *density)
{
    const double z = __builtin_fabs(x) * 0x1.6a09e667f3bcdp-1; /* sqrt(1/2) */
    const double t = 2.75 / (2.75 + z), s = 2.0 * t - 1.0, e = ls_expd(-0.5 * (x * x));
    double p = -2.245439997703731e-07;
    p = p * s - 3.602122089894615e-07;
    p = p * s + 2.300071271859758e-06;
    p = p * s + 2.9599224521846163e-06;
    p = p * s - 1.571842158119209e-05;
    p = p * s - 1.8498880321200696e-05;
    p = p * s + 0.00010077761947987129;
    p = p * s + 0.0001632486194905418;
    p = p * s - 0.0006235508827983258;
    p = p * s - 0.002066103014170738;
    p = p * s + 0.0016825161832121065;
    p = p * s + 0.02568344294242143;
    p = p * s + 0.08798415508420679;
    p = p * s + 0.19149104234625963;
    p = p * s + 0.3082898206079521;
    p = p * s + 0.38732419255510414;
    const double tail = 0.5 * (e * (t * p));
    *density = e * 0x1.9884533d43651p-2; /* 1 / sqrt(2 pi) */
    return ls_choose(x > 0, 1.0 - tail, tail);
}

/* ---- In float: the double's result rounded once, below 0.5002 units in the last place ---- */

LS_EVERYWHERE_INLINE float ls_expf(float x)
{
    return (float)ls_expd(x);
}

/* Natural. */
LS_EVERYWHERE_INLINE float ls_logf(float x)
{
    return (float)ls_logd(x);
}

LS_EVERYWHERE_INLINE float ls_sigmoidf(float x)
{
    double slope;
    return (float)ls_sigmoidd(x, &slope);
}

/* (1 - e) / (1 + e) with e = exp(-2|x|), in which 1 - e has lost no more than a part in 1e11; closer to zero the series
 * x - x^3/3 + 2x^5/15, whose next term is below 1e-19 of x. tanh(-0) is -0. */
LS_EVERYWHERE_INLINE float ls_tanhf(float x)
{
    const double size = __builtin_fabsf(x), z = (double)x * x;
    const double near = x * (1.0 + z * (-1.0 / 3 + z * (2.0 / 15)));
    const double e = ls_expd(-2.0 * size), t = (1.0 - e) / (1.0 + e);
    return (float)ls_choose(size < 0x1p-10, near, __builtin_copysign(t, x));
}
