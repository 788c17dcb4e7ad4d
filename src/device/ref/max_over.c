/* The largest over channels, rows or columns. */
#include "device/ref/ref.h"

/* Where x's numbers begin and end that a place of y, with 1 along what is gone, is the largest of. */
typedef struct span {
    int first[3], end[3];
} span;

static span span_of(const ls_operand *x, const ls_operand *y, int channel, int row, int column)
{
    span s = {{y->c == 1 ? 0 : channel, y->h == 1 ? 0 : row, y->w == 1 ? 0 : column}, {0, 0, 0}};
    s.end[0] = y->c == 1 ? x->c : channel + 1;
    s.end[1] = y->h == 1 ? x->h : row + 1;
    s.end[2] = y->w == 1 ? x->w : column + 1;
    return s;
}

void ls_ref_max_over(const ls_op_call *call, int group, int channel, int row, int column)
{
    const ls_operand *x = &call->in[0], *y = &call->out[0];
    const span s = span_of(x, y, channel, row, column);
    for (int lane = 0; lane < LS_LANES; lane++) {
        float most = ls_ref_at(x, group, s.first[0], s.first[1], s.first[2])[lane];
        for (int c = s.first[0]; c < s.end[0]; c++)
            for (int i = s.first[1]; i < s.end[1]; i++)
                for (int j = s.first[2]; j < s.end[2]; j++) {
                    float number = ls_ref_at(x, group, c, i, j)[lane];
                    most = number <= most || isnan(most) ? most : number;
                }
        ls_ref_at(y, group, channel, row, column)[lane] = lane < ls_ref_lanes(call, group) ? most : 0;
    }
}

/* Whether the place (channel, row, column) is the first of its span that is y, or NaN where y is. */
static int is_first(const ls_operand *x, const ls_operand *y, const float *most, int group, int lane, const int at[3])
{
    const span s = span_of(x, y, at[0], at[1], at[2]);
    for (int c = s.first[0]; c < s.end[0]; c++)
        for (int i = s.first[1]; i < s.end[1]; i++)
            for (int j = s.first[2]; j < s.end[2]; j++) {
                float number = ls_ref_at(x, group, c, i, j)[lane];
                if (number == most[lane] || (isnan(number) && isnan(most[lane])))
                    return c == at[0] && i == at[1] && j == at[2];
            }
    return 0;
}

void ls_ref_max_over_backward(const ls_op_call *call, int group, int channel, int row, int column)
{
    const ls_operand *dy = &call->in[0], *x = &call->in[1], *y = &call->in[2];
    const int at[3] = {channel, row, column};
    const int c = y->c == 1 ? 0 : channel, i = y->h == 1 ? 0 : row, j = y->w == 1 ? 0 : column;
    for (int lane = 0; lane < LS_LANES; lane++) {
        int chosen = lane < ls_ref_lanes(call, group) && is_first(x, y, ls_ref_at(y, group, c, i, j), group, lane, at);
        ls_ref_at(&call->out[0], group, channel, row, column)[lane] = chosen ? ls_ref_at(dy, group, c, i, j)[lane] : 0;
    }
}
