/* The steps of test_gradients' chains for what moves, repeats, joins or sums numbers. */
#include "gradient_chain.h"

#include <string.h>

/* Rows are repeated, of a parameter the channels too. */
void prepare_expand(chain *t)
{
    t->by_image[0] = 1;
    t->in[0] = test_activation(&t->random, t->c, 1, t->w, t->count);
    t->gradient[0] = like(t, &t->in[0], 1);
    t->inputs = 1;
    set_output(t, t->c, t->h, t->w);
}

void backward_expand(chain *t)
{
    run(t, LS_OP_EXPAND_BACKWARD, IN(t->dy), OUT(t->gradient[0]));
}

void prepare_expand_weight(chain *t)
{
    add_vector(t, t->w);
    t->in[0].w = t->gradient[0].w = t->w;
    t->in[0].c = t->gradient[0].c = 1;
    set_output(t, t->c, t->h, t->w);
}

void backward_expand_weight(chain *t)
{
    run(t, LS_OP_EXPAND_WEIGHT_BACKWARD, IN(t->dy), OUT(t->gradient[0]));
}

void prepare_concat(chain *t)
{
    add_activation(t);
    add_activation(t);
    add_activation(t);
    set_output(t, 3 * t->c, t->h, t->w);
}

void forward_concat(chain *t)
{
    run(t, LS_OP_CONCAT, IN(t->in[0], t->in[1], t->in[2]), OUT(t->y));
}

static void view(chain *t, const int axes[3], const int shift[3], ls_operand x, ls_operand y)
{
    memcpy(t->how.axes, axes, sizeof t->how.axes);
    memcpy(t->how.shift, shift, sizeof t->how.shift);
    run(t, LS_OP_VIEW, IN(x), OUT(y));
}

void backward_concat(chain *t)
{
    for (int k = 0; k < 3; k++) {
        view(t, (int[3]){0, 1, 2}, (int[3]){-k * t->c, 0, 0}, t->dy, t->gradient[k]);
    }
}

/* Turned, a part, a border. */
void prepare_view(chain *t)
{
    add_activation(t);
    set_output(t, t->w - 2, t->c + 3, t->h);
}

void forward_view(chain *t)
{
    view(t, (int[3]){2, 0, 1}, (int[3]){-1, 2, 0}, t->in[0], t->y);
}

void backward_view(chain *t)
{
    view(t, (int[3]){1, 2, 0}, (int[3]){-2, 0, 1}, t->dy, t->gradient[0]);
}

/* Its backward operation reads dy, and some x and then `saved`, or y. */
void backward_shape(chain *t)
{
    static const ls_op backward[LS_OP_COUNT] = {
        [LS_OP_SET_NORM] = LS_OP_SET_NORM_BACKWARD, [LS_OP_RMS_NORM] = LS_OP_RMS_NORM_BACKWARD,
        [LS_OP_EXPAND_BACKWARD] = LS_OP_EXPAND,     [LS_OP_MAX_OVER] = LS_OP_MAX_OVER_BACKWARD,
        [LS_OP_BILINEAR] = LS_OP_BILINEAR_BACKWARD, [LS_OP_ADAPTIVE_POOL] = LS_OP_ADAPTIVE_POOL_BACKWARD};
    run(t, backward[t->how.op], IN(t->dy, t->in[0], t->saved.data ? t->saved : t->y), OUT(t->gradient[0]));
}

void prepare_set_norm(chain *t)
{
    prepare_same(t);
    t->saved = test_activation(&t->random, 2 * t->c, 1, t->w, t->count);
}

void forward_set_norm(chain *t)
{
    run(t, t->how.op, IN(t->in[0]), OUT(t->y, t->saved));
}

void prepare_over(chain *t)
{
    add_activation(t);
    spread(t, &t->in[0]);
    set_output(t, t->c, 1, t->w);
}

void prepare_resize(chain *t)
{
    add_activation(t);
    set_output(t, t->c, t->how.kernel, t->how.stride);
}
