/* Operations over all numbers of an image: softmax, sums and squared errors, sixteen images side by side. */
#include "device/cpu/lanes/softmax.h"

/* Group `group` of an operand. */
static float *group_of(const ls_operand *t, int group)
{
    return t->data + (ptrdiff_t)group * t->c * t->h * t->w * LS_LANES;
}

static void softmax(const ls_op_call *call)
{
    for (int group = 0; group < call->groups; group++) {
        float m[LS_LANES], s[LS_LANES];
        softmax_group(group_of(&call->in[0], group), call->in[0].c, LS_LANES,
                      lanes_of_group(call->samples->count, group), m, s, group_of(&call->out[0], group));
    }
}

static void softmax_backward(const ls_op_call *call)
{
    const int features = call->out[0].c;
    for (int group = 0; group < call->groups; group++)
        for (int v = 0; v < LS_LANES; v += LS_VL) {
            const float *dy = group_of(&call->in[0], group) + v, *y = group_of(&call->in[1], group) + v;
            float *dx = group_of(&call->out[0], group) + v;
            const vm image = vm_first(lanes_of_group(call->samples->count, group) - v);
            vf s = vf_zero();
            for (int c = 0; c < features; c++)
                s = vf_fma(vf_load(dy + c * LS_LANES), vf_load(y + c * LS_LANES), s);
            for (int c = 0; c < features; c++) {
                const vf d = vf_load(dy + c * LS_LANES) - s;
                vf_store(dx + c * LS_LANES, vf_keep(image, vf_load(y + c * LS_LANES) * d));
            }
        }
}

/* The sum of SUM where b is NULL, else that of SQUARED_ERROR. */
LS_INLINE vf total_of(const ls_operand *shape, const float *a, const float *b)
{
    vf total = vf_zero();
    for (int channel = 0; channel < shape->c; channel++) {
        vf t = vf_zero();
        for (int row = 0; row < shape->h; row++) {
            vf r = vf_zero();
            for (int column = 0; column < shape->w; column++, a += LS_LANES) {
                if (b) {
                    const vf d = vf_load(a) - vf_load(b);
                    r = vf_fma(d, d, r);
                    b += LS_LANES;
                } else {
                    r += vf_load(a);
                }
            }
            t += r;
        }
        total += t;
    }
    return total;
}

LS_INLINE void totals(const ls_op_call *call, int squares)
{
    const vf factor = vf_set(call->attributes->factor);
    for (int group = 0; group < call->groups; group++)
        for (int v = 0; v < LS_LANES; v += LS_VL) {
            const vf total = total_of(&call->in[0], group_of(&call->in[0], group) + v,
                                      squares ? group_of(&call->in[1], group) + v : NULL);
            const vm image = vm_first(lanes_of_group(call->samples->count, group) - v);
            vf_store(group_of(&call->out[0], group) + v, vf_keep(image, total * factor));
        }
}

static void sum(const ls_op_call *call)
{
    totals(call, 0);
}

static void squared_error(const ls_op_call *call)
{
    totals(call, 1);
}

static void sum_backward(const ls_op_call *call)
{
    const ls_operand *dx = &call->out[0];
    const ptrdiff_t numbers = (ptrdiff_t)dx->c * dx->h * dx->w * LS_LANES;
    const vf factor = vf_set(call->attributes->factor);
    for (int group = 0; group < call->groups; group++)
        for (int v = 0; v < LS_LANES; v += LS_VL) {
            const vm image = vm_first(lanes_of_group(call->samples->count, group) - v);
            const vf d = vf_keep(image, vf_load(group_of(&call->in[0], group) + v) * factor);
            float *to = group_of(dx, group) + v;
            for (ptrdiff_t i = 0; i < numbers; i += LS_LANES)
                vf_store(to + i, d);
        }
}

static void squared_error_backward(const ls_op_call *call)
{
    const ls_operand *da = &call->out[0];
    const ptrdiff_t numbers = (ptrdiff_t)da->c * da->h * da->w * LS_LANES;
    const vf twice = vf_set(2.0f * call->attributes->factor);
    for (int group = 0; group < call->groups; group++)
        for (int v = 0; v < LS_LANES; v += LS_VL) {
            const float *a = group_of(&call->in[1], group) + v, *b = group_of(&call->in[2], group) + v;
            float *to = group_of(da, group) + v;
            const vm image = vm_first(lanes_of_group(call->samples->count, group) - v);
            const vf dy = vf_load(group_of(&call->in[0], group) + v);
            for (ptrdiff_t i = 0; i < numbers; i += LS_LANES) {
                const vf d = (vf_load(a + i) - vf_load(b + i)) * twice;
                vf_store(to + i, vf_keep(image, d * dy));
            }
        }
}

void LANES(ls_lanes_add_features)(ls_backend *backend)
{
    backend->kernel[LS_OP_SOFTMAX] = softmax;
    backend->kernel[LS_OP_SOFTMAX_BACKWARD] = softmax_backward;
    backend->kernel[LS_OP_SUM] = sum;
    backend->kernel[LS_OP_SUM_BACKWARD] = sum_backward;
    backend->kernel[LS_OP_SQUARED_ERROR] = squared_error;
    backend->kernel[LS_OP_SQUARED_ERROR_BACKWARD] = squared_error_backward;
}
