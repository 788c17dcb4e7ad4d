/* Rows of a table by their numbers. A token of sixteen images is a block of rows, turned into lanes and back. */
#include <math.h>
#include <string.h>

#include "device/cpu/lanes/cut.h"
#include "device/cpu/lanes/plane.h"

enum { BLOCK = 32 }; /* features that are turned at once */

/* Sixteen images' rows of the table from a feature on: NaN where there is none, 0 where there is no image. */
static void gather(const float *x, const ls_operand *table, int features, int first, int count, int lanes,
                   float rows[LS_LANES][BLOCK])
{
    for (int lane = 0; lane < LS_LANES; lane++) {
        const int row = lane < lanes ? ls_table_row(x[lane], table->c / features) : -1;
        for (int i = 0; row < 0 && i < count; i++)
            rows[lane][i] = lane < lanes ? NAN : 0.0f;
        if (row >= 0)
            memcpy(rows[lane], table->data + (ptrdiff_t)row * features + first, (size_t)count * sizeof(float));
    }
}

static void embedding(const ls_op_call *call)
{
    const ls_operand *table = &call->in[1], *y = &call->out[0];
    const range mine = range_of(call, call->groups * y->c); /* tokens of all groups */
    for (int token = mine.from; token < mine.to; token++) {
        const int lanes = lanes_of_group(call->samples->count, token / y->c);
        const float *x = call->in[0].data + (ptrdiff_t)token * LS_LANES;
        float *to = y->data + (ptrdiff_t)token * y->h * LS_LANES;
        for (int first = 0; first < y->h; first += BLOCK) {
            const int count = y->h - first < BLOCK ? y->h - first : BLOCK;
            float rows[LS_LANES][BLOCK];
            gather(x, table, y->h, first, count, lanes, rows);
            lanes_turn(rows[0], BLOCK, LS_LANES, count, to + (ptrdiff_t)first * LS_LANES, LS_LANES);
        }
    }
}

/* Adds a token's numbers of the features from one on to the rows of its images. */
static void scatter(const float *x, const float *dy, const ls_operand *table, int features, int first, int count,
                    int lanes)
{
    float rows[LS_LANES][BLOCK];
    lanes_turn(dy + (ptrdiff_t)first * LS_LANES, LS_LANES, count, LS_LANES, rows[0], BLOCK);
    for (int lane = 0; lane < lanes; lane++) {
        const int row = ls_table_row(x[lane], table->c / features);
        float *to = table->data + (ptrdiff_t)row * features + first;
        for (int i = 0; row >= 0 && i < count; i++)
            to[i] += rows[lane][i];
    }
}

/* A call's share is of the features. */
static void embedding_backward(const ls_op_call *call)
{
    const ls_operand *dy = &call->in[0], *x = &call->in[1], *table = &call->out[0];
    const range mine = range_by(call, dy->h, BLOCK);
    for (int row = 0; row < table->c / dy->h && mine.to > mine.from; row++)
        memset(table->data + (ptrdiff_t)row * dy->h + mine.from, 0, (size_t)(mine.to - mine.from) * sizeof(float));
    for (int token = 0; token < call->groups * x->c; token++)
        for (int first = mine.from; first < mine.to; first += BLOCK)
            scatter(x->data + (ptrdiff_t)token * LS_LANES, dy->data + (ptrdiff_t)token * dy->h * LS_LANES, table, dy->h,
                    first, mine.to - first < BLOCK ? mine.to - first : BLOCK,
                    lanes_of_group(call->samples->count, token / x->c));
}

int LANES(ls_lanes_embedding_units)(const ls_op_call *call)
{
    const int backward = call->attributes->op == LS_OP_EMBEDDING_BACKWARD;
    return backward ? (call->in[0].h + BLOCK - 1) / BLOCK : call->groups * call->out[0].c;
}

void LANES(ls_lanes_add_embedding)(ls_backend *backend)
{
    backend->kernel[LS_OP_EMBEDDING] = embedding;
    backend->kernel[LS_OP_EMBEDDING_BACKWARD] = embedding_backward;
}
