/* A convolution, its relu and the average of windows of 2 x 2, whose map between is known by its signs alone. */
#include "device/ref/ref.h"

enum { KERNEL = 3, TAPS = KERNEL * KERNEL };

/* The 16 signs of a place of the map between, as it has twice y's rows and columns. */
static ls_op_signs *signs_at(const ls_operand *signs, const ls_operand *y, int group, int o, int row, int column)
{
    size_t plane = (size_t)ls_op_sign_places(2 * y->h, 2 * y->w) * LS_LANES;
    return (ls_op_signs *)(signs->data + ((size_t)group * y->c + o) * plane) + (size_t)row * 2 * y->w + column;
}

/* One place of the map between. */
static void between_at(const ls_op_call *call, int group, int o, int row, int column, float out[LS_LANES])
{
    const ls_operand *x = &call->in[0];
    const float *w = call->in[1].data + (size_t)o * x->c * TAPS, *bias = call->in[2].data;
    for (int lane = 0; lane < LS_LANES; lane++) {
        out[lane] = 0;
    }
    for (int lane = 0; lane < ls_ref_lanes(call, group); lane++) {
        float acc = bias ? bias[o] : 0;
        for (int c = 0; c < x->c; c++) {
            for (int tap = 0; tap < TAPS; tap++) {
                acc = fmaf(w[c * TAPS + tap], ls_ref_at(x, group, c, row + tap / KERNEL, column + tap % KERNEL)[lane],
                           acc);
            }
        }
        out[lane] = ls_ref_relu_of(acc);
    }
}

static void conv_pool_at(const ls_op_call *call, int group, int o, int row, int column)
{
    const ls_operand *y = &call->out[0], *signs = &call->out[1];
    float *out = ls_ref_at(y, group, o, row, column), place[LS_LANES];
    for (int i = 0; i < 4; i++) {
        unsigned bits = 0;
        between_at(call, group, o, 2 * row + i / 2, 2 * column + i % 2, place);
        for (int lane = 0; lane < LS_LANES; lane++) {
            out[lane] = i ? out[lane] + place[lane] : place[lane];
            bits |= (unsigned)(place[lane] > 0) << lane;
        }
        if (signs->data) {
            *signs_at(signs, y, group, o, 2 * row + i / 2, 2 * column + i % 2) = (ls_op_signs)bits;
        }
    }
    for (int lane = 0; lane < LS_LANES; lane++) {
        out[lane] *= 1.0f / 4;
    }
}

/* What is left of a plane's last place of 16 floats. */
static void clear_rest(const ls_operand *signs, const ls_operand *y, int group, int o)
{
    ls_op_signs *first = signs_at(signs, y, group, o, 0, 0);
    int places = 4 * y->h * y->w;
    for (int i = places; i < 32 * ls_op_sign_places(2 * y->h, 2 * y->w); i++) {
        first[i] = 0;
    }
}

void ls_ref_conv_pool(const ls_op_call *call)
{
    const ls_operand *y = &call->out[0];
    ls_ref_each_place(call, y, conv_pool_at);
    for (int group = 0; call->out[1].data && group < call->groups; group++) {
        for (int o = 0; o < y->c; o++) {
            clear_rest(&call->out[1], y, group, o);
        }
    }
}

/* d at one place, which `lane` has. */
static float slope_at(const ls_op_call *call, int group, int o, int row, int column, int lane)
{
    const ls_operand *dy = &call->in[1];
    float d = (0 + ls_ref_at(dy, group, o, row / 2, column / 2)[lane]) * (1.0f / 4);
    return *signs_at(&call->in[2], dy, group, o, row, column) >> lane & 1 ? d : 0;
}

static float weight_at(const ls_op_call *call, int o, int c, int tap)
{
    const ls_operand *x = &call->in[0], *dy = &call->in[1];
    float acc[LS_LANES] = {0};
    for (int group = 0; group < call->groups; group++) {
        for (int row = 0; row < 2 * dy->h; row++) {
            for (int column = 0; column < 2 * dy->w; column++) {
                const float *at = ls_ref_at(x, group, c, row + tap / KERNEL, column + tap % KERNEL);
                for (int lane = 0; lane < ls_ref_lanes(call, group); lane++) {
                    acc[lane] = fmaf(slope_at(call, group, o, row, column, lane), at[lane], acc[lane]);
                }
            }
        }
    }
    return ls_ref_fold(acc) + 0.0f; /* no -0 */
}

static float bias_at(const ls_op_call *call, int o)
{
    const ls_operand *dy = &call->in[1];
    float total[LS_LANES] = {0};
    for (int group = 0; group < call->groups; group++) {
        for (int row = 0; row < 2 * dy->h; row++) {
            for (int lane = 0; lane < ls_ref_lanes(call, group); lane++) {
                float r = 0;
                for (int column = 0; column < 2 * dy->w; column++) {
                    r += slope_at(call, group, o, row, column, lane);
                }
                total[lane] += r;
            }
        }
    }
    return ls_ref_fold(total);
}

void ls_ref_conv_pool_weight(const ls_op_call *call)
{
    int in = call->in[0].c, out = call->in[1].c;
    for (int o = 0; o < out; o++) {
        for (int i = 0; i < in * TAPS && call->out[0].data; i++) {
            call->out[0].data[o * in * TAPS + i] = weight_at(call, o, i / TAPS, i % TAPS);
        }
        if (call->out[1].data) {
            call->out[1].data[o] = bias_at(call, o);
        }
    }
}
