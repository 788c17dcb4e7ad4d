/* Direct convolution; a linear layer is one with a kernel of 1 on maps of 1 x 1. */
#include "device/ref/ref.h"

/* A weight's place in its tensor of `out` x `in` channels; `in` are those of a group. */
static size_t weight_at(const ls_attributes *how, const ls_windows *w, int out, int in, int o, int c, int ky, int kx)
{
    size_t pair = how->weight_in_out ? (size_t)c * out + o : (size_t)o * in + c;
    return (pair * w->rows.kernel + ky) * w->columns.kernel + kx;
}

void ls_ref_conv(const ls_op_call *call, int group, int o, int row, int column)
{
    const ls_attributes *how = call->attributes;
    const ls_windows win = ls_windows_of(how);
    const ls_operand *x = &call->in[0], *y = &call->out[0];
    const float *w = call->in[1].data, *bias = call->in[2].data;
    int top = row * win.rows.stride - win.rows.padding, left = column * win.columns.stride - win.columns.padding;
    int lanes = ls_ref_lanes(call, group), channels = x->c / win.groups, first = o / (y->c / win.groups) * channels;
    float *out = ls_ref_at(y, group, o, row, column);
    for (int lane = 0; lane < LS_LANES; lane++)
        out[lane] = bias && lane < lanes ? bias[o] : 0;
    for (int c = 0; c < channels; c++) {
        for (int ky = 0; ky < win.rows.kernel; ky++) {
            for (int kx = 0; kx < win.columns.kernel; kx++) {
                const float *tap =
                    ls_ref_tap(x, group, first + c, top + ky * win.rows.dilation, left + kx * win.columns.dilation);
                float weight = w[weight_at(how, &win, y->c, channels, o, c, ky, kx)];
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
    const ls_windows win = ls_windows_of(how);
    const ls_operand *dy = &call->in[0], *dx = &call->out[0];
    const float *w = call->in[1].data;
    int lanes = ls_ref_lanes(call, group), channels = dx->c / win.groups, outputs = dy->c / win.groups;
    int first = c / channels * outputs;
    float *out = ls_ref_at(dx, group, c, row, column);
    for (int lane = 0; lane < LS_LANES; lane++)
        out[lane] = 0;
    for (int o = first; o < first + outputs; o++) {
        for (int ky = 0; ky < win.rows.kernel; ky++) {
            for (int kx = 0; kx < win.columns.kernel; kx++) {
                int down = row + win.rows.padding - ky * win.rows.dilation;
                int right = column + win.columns.padding - kx * win.columns.dilation;
                if (down % win.rows.stride || right % win.columns.stride ||
                    !ls_ref_inside(dy, down / win.rows.stride, right / win.columns.stride)) {
                    continue;
                }
                const float *tap = ls_ref_at(dy, group, o, down / win.rows.stride, right / win.columns.stride);
                float weight = w[weight_at(how, &win, dy->c, channels, o, c % channels, ky, kx)];
                for (int lane = 0; lane < lanes; lane++)
                    out[lane] = fmaf(weight, tap[lane], out[lane]);
            }
        }
    }
    for (int lane = 0; lane < lanes; lane++) {
        out[lane] += 0.0f; /* no -0 */
    }
}

static float conv_weight_at(const ls_op_call *call, const ls_windows *w, int o, int c, int ky, int kx)
{
    const ls_operand *x = &call->in[0], *dy = &call->in[1];
    int by_group = dy->h * dy->w >= LS_OWN_SUM_PLACES;
    float acc[LS_LANES] = {0};
    for (int group = 0; group < call->groups; group++) {
        for (int lane = 0; lane < ls_ref_lanes(call, group); lane++) {
            float r = by_group ? 0 : acc[lane];
            for (int row = 0; row < dy->h; row++) {
                for (int column = 0; column < dy->w; column++) {
                    const float *tap =
                        ls_ref_tap(x, group, c, row * w->rows.stride - w->rows.padding + ky * w->rows.dilation,
                                   column * w->columns.stride - w->columns.padding + kx * w->columns.dilation);
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
    const ls_windows w = ls_windows_of(how);
    int out = call->in[1].c, channels = call->in[0].c / w.groups;
    for (int o = 0; o < out; o++)
        for (int c = 0; c < channels; c++)
            for (int ky = 0; ky < w.rows.kernel; ky++)
                for (int kx = 0; kx < w.columns.kernel; kx++)
                    call->out[0].data[weight_at(how, &w, out, channels, o, c, ky, kx)] =
                        conv_weight_at(call, &w, o, o / (out / w.groups) * channels + c, ky, kx);
}
