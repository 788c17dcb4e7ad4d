/* The functions of one number and their gradients, as op.h defines them: one definition for the reference, for every
 * instruction set and for cards, which all get its bits. Where `op` is a constant, straight-line code is left. */
#pragma once

#include <math.h>

#include "base/math.h"
#include "device/op.h"

/* What the functions of a call are told besides their numbers. */
typedef struct ls_function_how {
    float factor, low, high;
    double exponent;
    int whole, odd; /* the exponent: a whole number, an odd one */
} ls_function_how;

LS_EVERYWHERE ls_function_how ls_function_how_of(const ls_attributes *attributes)
{
    /* A backward pass of POWER has the power below. From 2^24 on all floats are even. */
    const int backward = attributes->op == LS_OP_POWER_BACKWARD;
    const float p = attributes->factor, size = p < 0 ? -p : p;
    const int n = size < 0x1p24f ? (int)p : 0, whole = size >= 0x1p24f || (float)n == p;
    ls_function_how how = {p, attributes->low, attributes->high, (double)p - backward, whole, (n & 1) != backward};
    return how;
}

/* x^p as IEEE's pow: |x|^p = exp(p log |x|), with a sign where p is odd; NaN of a negative number where p is not
 * whole. The errors of exp and log leave below 1e-13 where the result is a float. */
LS_EVERYWHERE_INLINE double ls_powd(double x, ls_function_how how)
{
    const double infinity = (double)__builtin_inff(), size = __builtin_fabs(x);
    const double y = ls_expd(how.exponent * ls_logd(size));
    const double power = ls_choose(how.whole & how.odd, __builtin_copysign(y, x), y);
    const int none = (x < 0) & (size < infinity) & !how.whole;
    return ls_choose(how.exponent == 0, 1, ls_choose(none, (double)__builtin_nanf(""), power));
}

#define LS_GELU_SCALE 0x1.9884533d43651p+0 /* 2 sqrt(2 / pi) */
#define LS_GELU_CUBE  0.044715

LS_EVERYWHERE_INLINE float ls_function(ls_op op, float x, ls_function_how how)
{
    double slope;
    switch (op) {
    case LS_OP_TANH:
        return ls_tanhf(x);
    case LS_OP_SIGMOID:
        return ls_sigmoidf(x);
    case LS_OP_EXP:
        return ls_expf(x);
    case LS_OP_LOG:
        return ls_logf(x);
    case LS_OP_LOG_SIGMOID:
        return (float)ls_log_sigmoidd(x);
    case LS_OP_SQRT:
        return sqrtf(x);
    case LS_OP_ABS:
        return fabsf(x);
    case LS_OP_POWER:
        return (float)ls_powd(x, how);
    case LS_OP_CLAMP:
        return x < how.low ? how.low : x > how.high ? how.high : x;
    case LS_OP_LEAKY_RELU:
        return x * (float)ls_choose(x > 0, 1, how.factor);
    case LS_OP_SILU:
        return (float)(x * ls_sigmoidd(x, &slope));
    case LS_OP_GELU:
        return (float)(x * ls_normald(x, &slope));
    case LS_OP_GELU_TANH: {
        const double wide = x;
        return (float)(wide * ls_sigmoidd(LS_GELU_SCALE * (wide + LS_GELU_CUBE * (wide * wide * wide)), &slope));
    }
    default:
        return 0;
    }
}

/* Of GELU_TANH. */
LS_EVERYWHERE_INLINE double ls_gelu_tanh_slope(double x)
{
    double slope;
    const double s = ls_sigmoidd(LS_GELU_SCALE * (x + LS_GELU_CUBE * (x * x * x)), &slope);
    return s + x * (slope * (LS_GELU_SCALE * (1.0 + 3 * LS_GELU_CUBE * (x * x))));
}

/* The gradient of x from that of y; `v` is x or y, as op.h says. */
LS_EVERYWHERE_INLINE float ls_function_backward(ls_op op, float dy, float v, ls_function_how how)
{
    double slope;
    switch (op) {
    case LS_OP_SQRT_BACKWARD:
        return dy / (v + v);
    case LS_OP_ABS_BACKWARD:
        return dy * (float)((v > 0) - (v < 0));
    case LS_OP_POWER_BACKWARD:
        return (float)ls_choose(how.factor == 0, 0, dy * (how.factor * ls_powd(v, how)));
    case LS_OP_CLAMP_BACKWARD:
        return ((v >= how.low) & (v <= how.high)) ? dy : 0;
    case LS_OP_LEAKY_RELU_BACKWARD:
        return dy * (float)ls_choose(v > 0, 1, how.factor);
    case LS_OP_LOG_SIGMOID_BACKWARD:
        return (float)(dy * ls_sigmoidd(-v, &slope));
    case LS_OP_SILU_BACKWARD: {
        const double s = ls_sigmoidd(v, &slope);
        return (float)(dy * (s + v * slope));
    }
    case LS_OP_GELU_BACKWARD: {
        const double whole = ls_normald(v, &slope);
        return (float)(dy * (whole + v * slope));
    }
    case LS_OP_GELU_TANH_BACKWARD:
        return (float)(dy * ls_gelu_tanh_slope(v));
    default:
        return 0;
    }
}
