/* Operations that treat every number alone and leave 0 in lanes without an image. */
#include "device/cpu/lanes/plane.h"

/* One vector of the output from those of the operands; `b` is `a` again where there is no second. */
typedef vf vector_of(vf a, vf b, vf factor);

LS_INLINE void each_vector(const ls_op_call *call, vector_of *number)
{
    const ls_operand *out = &call->out[0];
    const ptrdiff_t numbers = (ptrdiff_t)out->c * out->h * out->w * LS_LANES;
    const float *a = call->in[0].data, *b = call->in[1].data ? call->in[1].data : a;
    const vf factor = vf_set(call->attributes->factor);
    float *to = out->data;
    for (int group = 0; group < call->groups; group++, a += numbers, b += numbers, to += numbers) {
        const int lanes = lanes_of_group(call->samples->count, group);
        vm image[LS_NV];
        for (int v = 0; v < LS_NV; v++)
            image[v] = vm_first(lanes - v * LS_VL);
        for (ptrdiff_t i = 0; i < numbers; i += LS_LANES)
            LS_UNROLL
        for (int v = 0; v < LS_NV; v++) {
            const ptrdiff_t at = i + v * LS_VL;
            vf_store(to + at, vf_keep(image[v], number(vf_load(a + at), vf_load(b + at), factor)));
        }
    }
}

LS_INLINE vf product_of(vf a, vf b, vf factor)
{
    (void)factor;
    return a * b;
}

LS_INLINE vf difference_of(vf a, vf b, vf factor)
{
    (void)factor;
    return a - b;
}

LS_INLINE vf quotient_of(vf a, vf b, vf factor)
{
    (void)factor;
    return a / b;
}

LS_INLINE vf scaled(vf a, vf b, vf factor)
{
    (void)b;
    return a * factor;
}

LS_INLINE vf tanh_slope(vf dy, vf y, vf factor)
{
    (void)factor;
    return dy * vf_fma(vf_zero() - y, y, vf_set(1.0f));
}

LS_INLINE vf sigmoid_slope(vf dy, vf y, vf factor)
{
    (void)factor;
    return dy * (y * (1.0f - y));
}

static void multiply(const ls_op_call *call)
{
    each_vector(call, product_of);
}

static void subtract(const ls_op_call *call)
{
    each_vector(call, difference_of);
}

static void divide(const ls_op_call *call)
{
    each_vector(call, quotient_of);
}

static void scale(const ls_op_call *call)
{
    each_vector(call, scaled);
}

static void tanh_backward(const ls_op_call *call)
{
    each_vector(call, tanh_slope);
}

static void sigmoid_backward(const ls_op_call *call)
{
    each_vector(call, sigmoid_slope);
}

/* Rows into lanes, the inverse of ROWS. */
static void input(const ls_op_call *call)
{
    const ls_operand *out = &call->out[0];
    const int numbers = out->c * out->h * out->w;
    const float *rows = call->samples->rows[call->attributes->input];
    for (int group = 0; group < call->groups; group++) {
        const int lanes = lanes_of_group(call->samples->count, group);
        float *to = out->data + (ptrdiff_t)group * numbers * LS_LANES;
        if (lanes < LS_LANES)
            lanes_clear(to, numbers);
        lanes_turn(rows + (ptrdiff_t)group * LS_LANES * numbers, numbers, lanes, numbers, to, LS_LANES);
    }
}

void LANES(ls_lanes_add_elementwise)(ls_backend *backend)
{
    backend->kernel[LS_OP_MULTIPLY] = multiply;
    backend->kernel[LS_OP_SUBTRACT] = subtract;
    backend->kernel[LS_OP_DIVIDE] = divide;
    backend->kernel[LS_OP_SCALE] = scale;
    backend->kernel[LS_OP_TANH_BACKWARD] = tanh_backward;
    backend->kernel[LS_OP_SIGMOID_BACKWARD] = sigmoid_backward;
    backend->kernel[LS_OP_INPUT] = input;
}
