/* Products of matrices, one for each channel of sixteen images side by side. A tile of LS_OB rows and LS_PB columns of
 * y stays in the registers. */
#include "device/cpu/lanes/cut.h"
#include "device/cpu/lanes/plane.h"

/* One channel of one group; steps are floats from a row or a column to the next. */
typedef struct product {
    const float *a, *b;
    float *y;
    ptrdiff_t a_row, a_inner, b_inner, b_column, y_row;
    int inner, lanes; /* of those that hold an image */
} product;

LS_INLINE void tile(const int rows, const int columns, const product *p, int row, int column)
{
    for (int v = 0; v < LS_LANES; v += LS_VL) {
        vf acc[LS_OB][LS_PB];
        const float *a = p->a + row * p->a_row + v, *b = p->b + column * p->b_column + v;
        float *y = p->y + row * p->y_row + (ptrdiff_t)column * LS_LANES + v;
        const vm image = vm_first(p->lanes - v);
        LS_UNROLL
        for (int i = 0; i < rows; i++)
            LS_UNROLL
        for (int j = 0; j < columns; j++)
            acc[i][j] = vf_zero();
        for (int k = 0; k < p->inner; k++, a += p->a_inner, b += p->b_inner) {
            vf right[LS_PB];
            LS_UNROLL
            for (int j = 0; j < columns; j++)
                right[j] = vf_load(b + j * p->b_column);
            LS_UNROLL
            for (int i = 0; i < rows; i++) {
                const vf left = vf_load(a + i * p->a_row);
                LS_UNROLL
                for (int j = 0; j < columns; j++)
                    acc[i][j] = vf_fma(left, right[j], acc[i][j]);
            }
        }
        LS_UNROLL
        for (int i = 0; i < rows; i++)
            LS_UNROLL
        for (int j = 0; j < columns; j++)
            vf_store(y + i * p->y_row + (ptrdiff_t)j * LS_LANES, vf_keep(image, acc[i][j]));
    }
}

LS_INLINE void tiles(const int rows, const product *p, int row, int columns)
{
    int column = 0;
    for (; column + LS_PB <= columns; column += LS_PB)
        tile(rows, LS_PB, p, row, column);
    for (; column < columns; column++)
        tile(rows, 1, p, row, column);
}

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
        if (row + LS_OB <= y->h)
            tiles(LS_OB, &p, row, y->w);
        for (int k = row; row + LS_OB > y->h && k < y->h; k++)
            tiles(1, &p, k, y->w);
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
