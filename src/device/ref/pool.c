/* Pooling: average, largest, and the average of a whole map. */
#include "device/ref/ref.h"

/* The windows of one row (or column) of windows that hold a place of the input: first to last, none where last < first.
 */
typedef struct span {
    int first, last;
} span;

static span windows_of(const ls_attributes *how, int place, int windows)
{
    int begins = place + how->padding - how->kernel + 1; /* the first of them begins here or later, padding counted */
    int last = (place + how->padding) / how->stride;
    return (span){.first = begins <= 0 ? 0 : (begins + how->stride - 1) / how->stride,
                  .last = last < windows ? last : windows - 1};
}

static float share_of(const ls_attributes *how)
{
    return 1.0f / (how->kernel * how->kernel);
}

void ls_ref_avg_pool(const ls_op_call *call, int group, int channel, int row, int column)
{
    const ls_attributes *how = call->attributes;
    const ls_operand *x = &call->in[0];
    int top = row * how->stride - how->padding, left = column * how->stride - how->padding;
    float *out = ls_ref_at(&call->out[0], group, channel, row, column);
    for (int lane = 0; lane < LS_LANES; lane++) {
        float acc = ls_ref_tap(x, group, channel, top, left)[lane];
        for (int i = 1; i < how->kernel * how->kernel; i++)
            acc += ls_ref_tap(x, group, channel, top + i / how->kernel, left + i % how->kernel)[lane];
        out[lane] = acc * share_of(how);
    }
}

/* The offset in x of the tap that one lane of a window chooses. */
static size_t chosen(const ls_op_call *call, const ls_operand *x, int group, int channel, int row, int column, int lane)
{
    const ls_attributes *how = call->attributes;
    int top = row * how->stride - how->padding, left = column * how->stride - how->padding;
    int found = 0;
    size_t best = 0;
    for (int i = 0; i < how->kernel * how->kernel; i++) {
        int tap_row = top + i / how->kernel, tap_column = left + i % how->kernel;
        if (!ls_ref_inside(x, tap_row, tap_column))
            continue;
        size_t at = ls_ref_offset(x, group, channel, tap_row, tap_column) + lane;
        if (!found || (!isnan(x->data[best]) && !(x->data[at] <= x->data[best])))
            best = at;
        found = 1;
    }
    return best;
}

void ls_ref_max_pool(const ls_op_call *call, int group, int channel, int row, int column)
{
    const ls_operand *x = &call->in[0];
    float *out = ls_ref_at(&call->out[0], group, channel, row, column);
    for (int lane = 0; lane < LS_LANES; lane++)
        out[lane] = x->data[chosen(call, x, group, channel, row, column, lane)];
}

/* Of both pools: the windows that hold a place, of a max pool those that chose it. */
void ls_ref_pool_backward(const ls_op_call *call, int group, int channel, int row, int column)
{
    const ls_attributes *how = call->attributes;
    const ls_operand *dy = &call->in[0], *x = &call->in[1], *dx = &call->out[0];
    span rows = windows_of(how, row, dy->h), columns = windows_of(how, column, dy->w);
    size_t at = ls_ref_offset(dx, group, channel, row, column);
    int average = how->op == LS_OP_AVG_POOL_BACKWARD;
    for (int lane = 0; lane < LS_LANES; lane++) {
        float acc = 0;
        for (int i = rows.first; i <= rows.last; i++)
            for (int j = columns.first; j <= columns.last; j++)
                if (average || chosen(call, x, group, channel, i, j, lane) == at + lane)
                    acc += ls_ref_at(dy, group, channel, i, j)[lane];
        acc = average ? acc * share_of(how) : acc;
        dx->data[at + lane] = !how->fused_relu || x->data[at + lane] > 0 ? acc : 0;
    }
}

void ls_ref_global_avg_pool(const ls_op_call *call, int group, int channel, int row, int column)
{
    const ls_operand *x = &call->in[0];
    float *out = ls_ref_at(&call->out[0], group, channel, row, column);
    for (int lane = 0; lane < LS_LANES; lane++) {
        float total = 0;
        for (int i = 0; i < x->h; i++) {
            float r = 0;
            for (int j = 0; j < x->w; j++)
                r += ls_ref_at(x, group, channel, i, j)[lane];
            total += r;
        }
        out[lane] = total / (float)(x->h * x->w);
    }
}

void ls_ref_global_avg_pool_backward(const ls_op_call *call, int group, int channel, int row, int column)
{
    const ls_operand *dx = &call->out[0];
    const float *slope = ls_ref_at(&call->in[0], group, channel, 0, 0);
    float *out = ls_ref_at(dx, group, channel, row, column);
    for (int lane = 0; lane < LS_LANES; lane++)
        out[lane] = slope[lane] / (float)(dx->h * dx->w);
}
