/* VIEW as steps through its operand, for backends that do not ask for every number where it comes from. */
#pragma once

#include "device/op.h"

typedef struct ls_view_steps {
    ptrdiff_t first, step[3]; /* y at (i, j, k) is x's place first + i * step[0] + j * step[1] + k * step[2] */
    int low[3], high[3];      /* where x has one: low <= i < high, and so on */
} ls_view_steps;

static inline int ls_view_within(int i, int from, int to)
{
    return i < from ? from : i > to ? to : i;
}

static inline ls_view_steps ls_view_steps_of(const ls_op_call *call)
{
    const ls_operand *x = &call->in[0], *y = &call->out[0];
    const int has[3] = {x->c, x->h, x->w}, size[3] = {y->c, y->h, y->w};
    const ptrdiff_t steps[3] = {(ptrdiff_t)x->h * x->w, x->w, 1};
    ls_view_steps s = {.first = 0};
    for (int d = 0; d < 3; d++) {
        const int axis = call->attributes->axes[d], shift = call->attributes->shift[d];
        s.step[d] = steps[axis];
        s.first -= shift * steps[axis];
        s.low[d] = ls_view_within(shift, 0, size[d]);
        s.high[d] = ls_view_within(shift + has[axis], s.low[d], size[d]);
    }
    return s;
}
