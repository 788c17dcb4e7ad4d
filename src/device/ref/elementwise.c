/* Operations that treat every number alone and leave 0 in lanes without an image. */
#include "device/function.h"
#include "device/ref/ref.h"

/* One number of the output from those of the operands; `b` is 0 where there is no second. */
typedef float ls_ref_number(float a, float b, const ls_attributes *how);

static float multiply(float a, float b, const ls_attributes *how)
{
    (void)how;
    return a * b;
}

static float subtract(float a, float b, const ls_attributes *how)
{
    (void)how;
    return a - b;
}

static float scale(float x, float unused, const ls_attributes *how)
{
    (void)unused;
    return x * how->factor;
}

static float divide(float a, float b, const ls_attributes *how)
{
    (void)how;
    return a / b;
}

static float function(float x, float unused, const ls_attributes *how)
{
    (void)unused;
    return ls_function(how->op, x, ls_function_how_of(how));
}

static float function_backward(float dy, float v, const ls_attributes *how)
{
    return ls_function_backward(how->op, dy, v, ls_function_how_of(how));
}

static float tanh_slope(float dy, float y, const ls_attributes *how)
{
    (void)how;
    return dy * fmaf(-y, y, 1);
}

static float sigmoid_slope(float dy, float y, const ls_attributes *how)
{
    (void)how;
    return dy * (y * (1 - y));
}

void ls_ref_each_number(const ls_op_call *call)
{
    static ls_ref_number *const numbers_of[LS_OP_COUNT] = {
        [LS_OP_MULTIPLY] = multiply, [LS_OP_SUBTRACT] = subtract,        [LS_OP_DIVIDE] = divide,
        [LS_OP_SCALE] = scale,       [LS_OP_TANH_BACKWARD] = tanh_slope, [LS_OP_SIGMOID_BACKWARD] = sigmoid_slope,
    };
    const ls_op op = call->attributes->op;
    ls_ref_number *number = ls_op_is_function(op)            ? function
                            : ls_op_is_function_backward(op) ? function_backward
                                                             : numbers_of[op];
    const ls_operand *out = &call->out[0];
    const float *a = call->in[0].data, *b = call->in[1].data;
    size_t numbers = ls_ref_places(out);
    for (size_t i = 0; i < ls_ref_size(call, out); i++) {
        int group = (int)(i / LS_LANES / numbers), lane = (int)(i % LS_LANES);
        out->data[i] = lane < ls_ref_lanes(call, group) ? number(a[i], b ? b[i] : 0, call->attributes) : 0;
    }
}
