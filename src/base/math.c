#include "base/math.h"

#include "base/elementary.h"

/* Excess precision (x87) would make the bits depend on what the compiler keeps in registers. */
_Static_assert(FLT_EVAL_METHOD == 0, "float and double must be evaluated in their own type");

float ls_expf(float x)
{
    return ls_elementary_expf(x);
}

float ls_logf(float x)
{
    return ls_elementary_logf(x);
}

float ls_tanhf(float x)
{
    return ls_elementary_tanhf(x);
}

float ls_sigmoidf(float x)
{
    return ls_elementary_sigmoidf(x);
}

double ls_log(double x)
{
    return ls_elementary_log(x);
}

double ls_integer_power(double x, int64_t n)
{
    double result = 1;
    for (; n > 0; n /= 2, x *= x)
        if (n % 2)
            result *= x;
    return result;
}
