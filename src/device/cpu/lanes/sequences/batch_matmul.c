/* Products of matrices, one for each channel of sixteen images side by side. */
#include "device/cpu/lanes/cut.h"
#include "device/cpu/lanes/plane.h"
#include "device/cpu/lanes/sequences/product.h"

/* Of blocks of rows, channel by channel. */
static int blocks_of(const ls_operand *y)
{
    return (y->h + LS_OB - 1) / LS_OB;
}

static void batch_matmul(const ls_op_call *call)
{
    const ls_operand *a = &call->in[0], *b = &call->in[1], *y = &call->out[0];
    const int *turned = call->attributes->transposed, blocks = blocks_of(y);
    const ptrdiff_t a_line = (ptrdiff_t)a->w * LS_LANES, b_line = (ptrdiff_t)b->w * LS_LANES;
    const range mine = range_of(call, call->groups * y->c * blocks);
    product p = {.a_row = turned[0] ? LS_LANES : a_line,
                 .a_inner = turned[0] ? a_line : LS_LANES,
                 .b_inner = turned[1] ? LS_LANES : b_line,
                 .b_column = turned[1] ? b_line : LS_LANES,
                 .y_row = (ptrdiff_t)y->w * LS_LANES,
                 .inner = turned[0] ? a->h : a->w};
    for (int i = mine.from; i < mine.to; i++) {
        const int channel = i / blocks, row = i % blocks * LS_OB;
        p.a = a->data + channel * a->h * a_line;
        p.b = b->data + channel * b->h * b_line;
        p.y = y->data + channel * y->h * p.y_row;
        p.lanes = lanes_of_group(call->samples->count, channel / y->c);
        product_rows(PRODUCT, &p, row, row + LS_OB < y->h ? row + LS_OB : y->h, y->w);
    }
}

int LANES(ls_lanes_batch_matmul_units)(const ls_op_call *call)
{
    return call->groups * call->out[0].c * blocks_of(&call->out[0]);
}

void LANES(ls_lanes_add_batch_matmul)(ls_backend *backend)
{
    backend->kernel[LS_OP_BATCH_MATMUL] = batch_matmul;
}
