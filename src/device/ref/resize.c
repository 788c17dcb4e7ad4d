/* Maps of another size: averages over windows that divide a map evenly, and bilinear interpolation. */
#include "device/resize.h"
#include "device/ref/ref.h"

static int is_bilinear(const ls_op_call *call)
{
    return call->attributes->op == LS_OP_BILINEAR || call->attributes->op == LS_OP_BILINEAR_BACKWARD;
}

void ls_ref_resize(const ls_op_call *call, int group, int channel, int row, int column)
{
    const ls_operand *x = &call->in[0], *y = &call->out[0];
    const int bilinear = is_bilinear(call);
    const ls_taps rows = ls_taps_of(bilinear, row, x->h, y->h), columns = ls_taps_of(bilinear, column, x->w, y->w);
    for (int lane = 0; lane < LS_LANES; lane++) {
        float acc = 0;
        for (int i = rows.first; i < rows.first + rows.count && lane < ls_ref_lanes(call, group); i++) {
            for (int j = columns.first; j < columns.first + columns.count; j++) {
                float weight = ls_tap_weight(&rows, i) * ls_tap_weight(&columns, j);
                acc = fmaf(weight, ls_ref_at(x, group, channel, i, j)[lane], acc);
            }
        }
        ls_ref_at(y, group, channel, row, column)[lane] = acc;
    }
}

void ls_ref_resize_backward(const ls_op_call *call, int group, int channel, int row, int column)
{
    const ls_operand *dy = &call->in[0], *dx = &call->out[0];
    const int bilinear = is_bilinear(call);
    for (int lane = 0; lane < LS_LANES; lane++) {
        float acc = 0;
        for (int i = 0; i < dy->h && lane < ls_ref_lanes(call, group); i++) {
            const ls_taps rows = ls_taps_of(bilinear, i, dx->h, dy->h);
            for (int j = 0; j < dy->w; j++) {
                const ls_taps columns = ls_taps_of(bilinear, j, dx->w, dy->w);
                if (row < rows.first || row >= rows.first + rows.count || column < columns.first ||
                    column >= columns.first + columns.count)
                    continue;
                float weight = ls_tap_weight(&rows, row) * ls_tap_weight(&columns, column);
                acc = fmaf(weight, ls_ref_at(dy, group, channel, i, j)[lane], acc);
            }
        }
        ls_ref_at(dx, group, channel, row, column)[lane] = acc;
    }
}
