/* Products of matrices, one for each channel of each image. */
#include "device/ref/ref.h"

/* A matrix' 16 lanes at (row, column), read with these exchanged where `transposed` says so. */
static const float *at(const ls_operand *x, int transposed, int group, int channel, int row, int column)
{
    return transposed ? ls_ref_at(x, group, channel, column, row) : ls_ref_at(x, group, channel, row, column);
}

void ls_ref_batch_matmul(const ls_op_call *call, int group, int channel, int row, int column)
{
    const ls_operand *a = &call->in[0], *b = &call->in[1];
    const int *transposed = call->attributes->transposed, inner = transposed[0] ? a->h : a->w;
    float *y = ls_ref_at(&call->out[0], group, channel, row, column);
    for (int lane = 0; lane < LS_LANES; lane++)
        y[lane] = 0;
    for (int k = 0; k < inner; k++) {
        const float *left = at(a, transposed[0], group, channel, row, k);
        const float *right = at(b, transposed[1], group, channel, k, column);
        for (int lane = 0; lane < ls_ref_lanes(call, group); lane++)
            y[lane] = fmaf(left[lane], right[lane], y[lane]);
    }
}
