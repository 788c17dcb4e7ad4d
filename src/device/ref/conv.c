/* Direct convolution; a linear layer is one with a kernel of 1 on maps of 1 x 1. */
#include "device/ref/ref.h"

/* A weight's place in its tensor of `out` x `in` channels. */
static size_t weight_at(const ls_attributes *how, int out, int in, int o, int c, int ky, int kx)
{
    size_t pair = how->weight_in_out ? (size_t)c * out + o : (size_t)o * in + c;
    return (pair * how->kernel + ky) * how->kernel + kx;
}

void ls_ref_conv(const ls_op_call *call, int group, int o, int row, int column)
{
    const ls_attributes *how = call->attributes;
    const ls_operand *x = &call->in[0], *y = &call->out[0];
    const float *w = call->in[1].data, *bias = call->in[2].data;
    int top = row * how->stride - how->padding, left = column * how->stride - how->padding;
    int lanes = ls_ref_lanes(call, group);
    float *out = ls_ref_at(y, group, o, row, column);
    for (int lane = 0; lane < LS_LANES; lane++)
        out[lane] = bias && lane < lanes ? bias[o] : 0;
    for (int c = 0; c < x->c; c++) {
        for (int ky = 0; ky < how->kernel; ky++) {
            for (int kx = 0; kx < how->kernel; kx++) {
                const float *tap = ls_ref_tap(x, group, c, top + ky, left + kx);
                float weight = w[weight_at(how, y->c, x->c, o, c, ky, kx)];
                for (int lane = 0; lane < lanes; lane++)
                    out[lane] = fmaf(weight, tap[lane], out[lane]);
            }
        }
    }
    for (int lane = 0; how->fused_relu && lane < lanes; lane++)
        out[lane] = ls_ref_relu_of(out[lane]);
}

void ls_ref_conv_data(const ls_op_call *call, int group, int c, int row, int column)
{
    const ls_attributes *how = call->attributes;
    const ls_operand *dy = &call->in[0], *dx = &call->out[0];
    const float *w = call->in[1].data;
    int lanes = ls_ref_lanes(call, group);
    float *out = ls_ref_at(dx, group, c, row, column);
    for (int lane = 0; lane < LS_LANES; lane++)
        out[lane] = 0;
    for (int o = 0; o < dy->c; o++) {
        for (int ky = 0; ky < how->kernel; ky++) {
            for (int kx = 0; kx < how->kernel; kx++) {
                int down = row + how->padding - ky, right = column + how->padding - kx;
                if (down % how->stride || right % how->stride ||
                    !ls_ref_inside(dy, down / how->stride, right / how->stride)) {
                    continue;
                }
                const float *tap = ls_ref_at(dy, group, o, down / how->stride, right / how->stride);
                float weight = w[weight_at(how, dy->c, dx->c, o, c, ky, kx)];
                for (int lane = 0; lane < lanes; lane++)
                    out[lane] = fmaf(weight, tap[lane], out[lane]);
            }
        }
    }
    for (int lane = 0; lane < lanes; lane++) {
        out[lane] += 0.0f; /* no -0 */
    }
}

static float conv_weight_at(const ls_op_call *call, int o, int c, int ky, int kx)
{
    const ls_attributes *how = call->attributes;
    const ls_operand *x = &call->in[0], *dy = &call->in[1];
    int by_group = dy->h * dy->w >= LS_OWN_SUM_PLACES;
    float acc[LS_LANES] = {0};
    for (int group = 0; group < call->groups; group++) {
        for (int lane = 0; lane < ls_ref_lanes(call, group); lane++) {
            float r = by_group ? 0 : acc[lane];
            for (int row = 0; row < dy->h; row++) {
                for (int column = 0; column < dy->w; column++) {
                    const float *tap = ls_ref_tap(x, group, c, row * how->stride - how->padding + ky,
                                                  column * how->stride - how->padding + kx);
                    r = fmaf(ls_ref_at(dy, group, o, row, column)[lane], tap[lane], r);
                }
            }
            acc[lane] = by_group ? acc[lane] + r : r;
        }
    }
    return ls_ref_fold(acc) + 0.0f; /* no -0 */
}

void ls_ref_conv_weight(const ls_op_call *call)
{
    const ls_attributes *how = call->attributes;
    int in = call->in[0].c, out = call->in[1].c;
    for (int o = 0; o < out; o++)
        for (int c = 0; c < in; c++)
            for (int ky = 0; ky < how->kernel; ky++)
                for (int kx = 0; kx < how->kernel; kx++)
                    call->out[0].data[weight_at(how, out, in, o, c, ky, kx)] = conv_weight_at(call, o, c, ky, kx);
}
