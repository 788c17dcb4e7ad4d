/* Numbers put elsewhere: operands one after another, and parts, borders and transpositions. */
#include <string.h>

#include "device/ref/ref.h"

/* Copies a group's x to where `at` numbers along the axis lie in front of it. */
static void place(const ls_operand *x, const ls_operand *y, int group, int axis, int at)
{
    for (int channel = 0; channel < x->c; channel++)
        for (int row = 0; row < x->h; row++)
            for (int column = 0; column < x->w; column++) {
                int i[3] = {channel, row, column};
                i[axis] += at;
                memcpy(ls_ref_at(y, group, i[0], i[1], i[2]), ls_ref_at(x, group, channel, row, column),
                       LS_LANES * sizeof(float));
            }
}

void ls_ref_concat(const ls_op_call *call)
{
    const int axis = call->attributes->axis;
    for (int group = 0; group < call->groups; group++) {
        int at = 0;
        for (int k = 0; k < LS_MAX_IN && call->in[k].data; k++) {
            const int sizes[3] = {call->in[k].c, call->in[k].h, call->in[k].w};
            place(&call->in[k], &call->out[0], group, axis, at);
            at += sizes[axis];
        }
    }
}

void ls_ref_view(const ls_op_call *call, int group, int channel, int row, int column)
{
    const ls_attributes *how = call->attributes;
    const ls_operand *x = &call->in[0];
    const int i[3] = {channel, row, column}, sizes[3] = {x->c, x->h, x->w};
    int j[3], inside = 1;
    for (int d = 0; d < 3; d++) {
        j[how->axes[d]] = i[d] - how->shift[d];
    }
    for (int d = 0; d < 3; d++) {
        inside = inside && j[d] >= 0 && j[d] < sizes[d];
    }
    float *y = ls_ref_at(&call->out[0], group, channel, row, column);
    for (int lane = 0; lane < LS_LANES; lane++) {
        float border = lane < ls_ref_lanes(call, group) ? how->factor : 0;
        y[lane] = inside ? ls_ref_at(x, group, j[0], j[1], j[2])[lane] : border;
    }
}
