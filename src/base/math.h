/* Elementary functions in plain IEEE arithmetic, so that every machine and compiler gets the same bits. The C library's
 * differ between versions and instruction sets. */
#pragma once

#include <stdint.h>

float ls_expf(float x); /* below 2 units in the last place; exp(-inf) is 0, NaN stays NaN */
float ls_logf(float x); /* natural; log(0) is -inf, of a negative number NaN */
/* Both below 0.51 units in the last place, NaN stays NaN, and at the infinities their limits. tanh(-0) is -0. */
float ls_tanhf(float x);
float ls_sigmoidf(float x);                   /* 1 / (1 + exp(-x)) */
double ls_log(double x);                      /* below 2 units in the last place, for x in the normal range */
double ls_integer_power(double x, int64_t n); /* x^n for n of at least 0, by squaring */
