/* The functions of one number and their gradients, sixteen images side by side: the compiler makes vectors of them. */
#include "device/function.h"
#include "device/cpu/lanes/cut.h"
#include "device/cpu/lanes/plane.h"

enum { BLOCK = 16 * LS_LANES }; /* numbers that are treated in one loop */

/* Leaves 0 in lanes without an image. */
LS_INLINE void store_images(float *to, const float *y, ptrdiff_t n, int lanes)
{
    for (ptrdiff_t i = 0; i < n; i += LS_LANES)
        LS_UNROLL
    for (int v = 0; v < LS_LANES; v += LS_VL)
        vf_store(to + i + v, vf_keep(vm_first(lanes - v), vf_load(y + i + v)));
}

/* `op` is a constant wherever this is used, so that of the functions one is left. */
LS_INLINE void each_function(const ls_op_call *call, const ls_op op, const int backward)
{
    const ls_operand *out = &call->out[0];
    const ls_function_how how = ls_function_how_of(call->attributes);
    const range channels = range_of(call, call->groups * out->c);
    const ptrdiff_t size = (ptrdiff_t)out->h * out->w * LS_LANES;
    for (int channel = channels.from; channel < channels.to; channel++) {
        const ptrdiff_t end = (channel + 1) * size;
        for (ptrdiff_t at = channel * size; at < end; at += BLOCK) {
            const ptrdiff_t n = end - at < BLOCK ? end - at : BLOCK;
            const float *a = call->in[0].data + at, *b = backward ? call->in[1].data + at : NULL;
            float y[BLOCK]; /* the output may lie over an operand */
            for (ptrdiff_t i = 0; i < n; i++)
                y[i] = backward ? ls_function_backward(op, a[i], b[i], how) : ls_function(op, a[i], how);
            store_images(out->data + at, y, n, lanes_of_group(call->samples->count, channel / out->c));
        }
    }
}

static void function(const ls_op_call *call)
{
    switch (call->attributes->op) {
    case LS_OP_TANH:
        each_function(call, LS_OP_TANH, 0);
        break;
    case LS_OP_SIGMOID:
        each_function(call, LS_OP_SIGMOID, 0);
        break;
    case LS_OP_EXP:
        each_function(call, LS_OP_EXP, 0);
        break;
    case LS_OP_LOG:
        each_function(call, LS_OP_LOG, 0);
        break;
    case LS_OP_LOG_SIGMOID:
        each_function(call, LS_OP_LOG_SIGMOID, 0);
        break;
    case LS_OP_SQRT:
        each_function(call, LS_OP_SQRT, 0);
        break;
    case LS_OP_ABS:
        each_function(call, LS_OP_ABS, 0);
        break;
    case LS_OP_POWER:
        each_function(call, LS_OP_POWER, 0);
        break;
    case LS_OP_CLAMP:
        each_function(call, LS_OP_CLAMP, 0);
        break;
    case LS_OP_LEAKY_RELU:
        each_function(call, LS_OP_LEAKY_RELU, 0);
        break;
    case LS_OP_SILU:
        each_function(call, LS_OP_SILU, 0);
        break;
    case LS_OP_GELU:
        each_function(call, LS_OP_GELU, 0);
        break;
    default:
        each_function(call, LS_OP_GELU_TANH, 0);
        break;
    }
}

static void function_backward(const ls_op_call *call)
{
    switch (call->attributes->op) {
    case LS_OP_SQRT_BACKWARD:
        each_function(call, LS_OP_SQRT_BACKWARD, 1);
        break;
    case LS_OP_ABS_BACKWARD:
        each_function(call, LS_OP_ABS_BACKWARD, 1);
        break;
    case LS_OP_POWER_BACKWARD:
        each_function(call, LS_OP_POWER_BACKWARD, 1);
        break;
    case LS_OP_CLAMP_BACKWARD:
        each_function(call, LS_OP_CLAMP_BACKWARD, 1);
        break;
    case LS_OP_LEAKY_RELU_BACKWARD:
        each_function(call, LS_OP_LEAKY_RELU_BACKWARD, 1);
        break;
    case LS_OP_LOG_SIGMOID_BACKWARD:
        each_function(call, LS_OP_LOG_SIGMOID_BACKWARD, 1);
        break;
    case LS_OP_SILU_BACKWARD:
        each_function(call, LS_OP_SILU_BACKWARD, 1);
        break;
    case LS_OP_GELU_BACKWARD:
        each_function(call, LS_OP_GELU_BACKWARD, 1);
        break;
    default:
        each_function(call, LS_OP_GELU_TANH_BACKWARD, 1);
        break;
    }
}

void LANES(ls_lanes_add_function)(ls_backend *backend)
{
    for (ls_op op = 0; op < LS_OP_COUNT; op++)
        if (ls_op_is_function(op) || ls_op_is_function_backward(op))
            backend->kernel[op] = ls_op_is_function(op) ? function : function_backward;
}
