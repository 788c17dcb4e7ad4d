/* Rows of a table by their numbers. */
#include <string.h>

#include "device/ref/ref.h"

void ls_ref_embedding(const ls_op_call *call, int group, int token, int feature, int column)
{
    const ls_operand *table = &call->in[1], *y = &call->out[0];
    const float *x = ls_ref_at(&call->in[0], group, token, 0, 0);
    float *out = ls_ref_at(y, group, token, feature, column);
    for (int lane = 0; lane < LS_LANES; lane++) {
        int row = ls_table_row(x[lane], table->c / y->h), image = lane < ls_ref_lanes(call, group);
        out[lane] = !image ? 0 : row < 0 ? NAN : table->data[(size_t)row * y->h + feature];
    }
}

void ls_ref_embedding_backward(const ls_op_call *call)
{
    const ls_operand *dy = &call->in[0], *x = &call->in[1], *table = &call->out[0];
    memset(table->data, 0, (size_t)table->c * sizeof *table->data);
    for (int group = 0; group < call->groups; group++)
        for (int token = 0; token < x->c; token++)
            for (int lane = 0; lane < ls_ref_lanes(call, group); lane++) {
                int row = ls_table_row(ls_ref_at(x, group, token, 0, 0)[lane], table->c / dy->h);
                for (int feature = 0; row >= 0 && feature < dy->h; feature++)
                    table->data[(size_t)row * dy->h + feature] += ls_ref_at(dy, group, token, feature, 0)[lane];
            }
}
