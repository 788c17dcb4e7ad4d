/* Repeating numbers along channels, rows and columns, and the sums that are its gradient. */
#include "device/ref/ref.h"

/* The place in x, which has 1 along what is repeated, of a place in y. */
static size_t place_in(const ls_operand *x, int channel, int row, int column)
{
    return ((size_t)(x->c == 1 ? 0 : channel) * x->h + (x->h == 1 ? 0 : row)) * x->w + (x->w == 1 ? 0 : column);
}

/* Of a parameter all lanes and groups have the same number. */
void ls_ref_expand(const ls_op_call *call, int group, int channel, int row, int column)
{
    const ls_operand *x = &call->in[0];
    const int weight = call->attributes->op == LS_OP_EXPAND_WEIGHT;
    const size_t at = place_in(x, channel, row, column);
    float *y = ls_ref_at(&call->out[0], group, channel, row, column);
    for (int lane = 0; lane < LS_LANES; lane++) {
        float number = weight ? x->data[at] : x->data[(group * ls_ref_places(x) + at) * LS_LANES + lane];
        y[lane] = lane < ls_ref_lanes(call, group) ? number : 0;
    }
}

/* Adds one group's numbers of dy that the place (channel, row, column) of dx was repeated in. */
static void add_repeated(const ls_op_call *call, int group, int channel, int row, int column, float total[LS_LANES])
{
    const ls_operand *dy = &call->in[0], *dx = &call->out[0];
    const int channels = dx->c == 1 ? dy->c : 1, rows = dx->h == 1 ? dy->h : 1, columns = dx->w == 1 ? dy->w : 1;
    for (int lane = 0; lane < ls_ref_lanes(call, group); lane++) {
        for (int c = channel; c < channel + channels; c++) {
            for (int i = row; i < row + rows; i++) {
                float r = 0;
                for (int j = column; j < column + columns; j++) {
                    r = r + ls_ref_at(dy, group, c, i, j)[lane];
                }
                total[lane] = total[lane] + r;
            }
        }
    }
}

void ls_ref_expand_backward(const ls_op_call *call, int group, int channel, int row, int column)
{
    float total[LS_LANES] = {0};
    add_repeated(call, group, channel, row, column, total);
    for (int lane = 0; lane < LS_LANES; lane++) {
        ls_ref_at(&call->out[0], group, channel, row, column)[lane] = total[lane];
    }
}

void ls_ref_expand_weight_backward(const ls_op_call *call)
{
    const ls_operand *dx = &call->out[0];
    for (int c = 0; c < dx->c; c++) {
        for (int i = 0; i < dx->h; i++) {
            for (int j = 0; j < dx->w; j++) {
                float total[LS_LANES] = {0};
                for (int group = 0; group < call->groups; group++) {
                    add_repeated(call, group, c, i, j, total);
                }
                dx->data[place_in(dx, c, i, j)] = ls_ref_fold(total);
            }
        }
    }
}
