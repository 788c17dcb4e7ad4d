/* The steps of test_gradients' chains for convolutions and pools. */
#include "gradient_chain.h"

void prepare_conv(chain *t)
{
    const ls_windows of = ls_windows_of(&t->how);
    add_activation(t);
    add_vector(t, t->o * (t->c / of.groups) * of.rows.kernel * of.columns.kernel);
    add_vector(t, t->o);
    set_windows_output(t, t->o);
    t->dmiddle = like(t, &t->y, 1);
}

/* A transposed convolution: the forward pass is a convolution's gradient, its shape that one's input. */
void prepare_transposed(chain *t)
{
    const ls_windows of = ls_windows_of(&t->how);
    const int h = (t->h - 1) * of.rows.stride - 2 * of.rows.padding + (int)ls_windows_span(&of.rows);
    const int w = (t->w - 1) * of.columns.stride - 2 * of.columns.padding + (int)ls_windows_span(&of.columns);
    add_activation(t);
    add_vector(t, t->c * (t->o / of.groups) * of.rows.kernel * of.columns.kernel);
    set_output(t, t->o, h, w);
}

void forward_transposed(chain *t)
{
    run(t, LS_OP_CONV_DATA, IN(t->in[0], t->in[1]), OUT(t->y));
}

void backward_transposed(chain *t)
{
    run(t, LS_OP_CONV, IN(t->dy, t->in[1]), OUT(t->gradient[0]));
    run(t, LS_OP_CONV_WEIGHT, IN(t->dy, t->in[0]), OUT(t->gradient[1]));
}

void forward_conv(chain *t)
{
    run(t, LS_OP_CONV, IN(t->in[0], t->in[1], t->in[2]), OUT(t->y));
}

static ls_operand behind_relu(chain *t)
{
    if (!t->how.fused_relu) {
        return t->dy;
    }
    run(t, LS_OP_RELU_BACKWARD, IN(t->dy, t->y), OUT(t->dmiddle));
    return t->dmiddle;
}

void backward_conv(chain *t)
{
    ls_operand dy = behind_relu(t);
    run(t, LS_OP_CONV_DATA, IN(dy, t->in[1]), OUT(t->gradient[0]));
    run(t, LS_OP_CONV_WEIGHT, IN(t->in[0], dy), OUT(t->gradient[1]));
    run(t, LS_OP_CHANNEL_SUM, IN(dy), OUT(t->gradient[2]));
}

void forward_winograd(chain *t)
{
    run(t, LS_OP_WINOGRAD, IN(t->in[0], t->in[1], t->in[2]), OUT(t->y));
}

void backward_winograd(chain *t)
{
    ls_operand dy = behind_relu(t);
    run(t, LS_OP_WINOGRAD_DATA, IN(dy, t->in[1]), OUT(t->gradient[0]));
    run(t, LS_OP_WINOGRAD_WEIGHT, IN(t->in[0], dy), OUT(t->gradient[1]));
    run(t, LS_OP_CHANNEL_SUM, IN(dy), OUT(t->gradient[2]));
}

void prepare_pool(chain *t)
{
    add_activation(t);
    spread(t, &t->in[0]);
    set_windows_output(t, t->c);
    t->middle = like(t, &t->in[0], 1);
}

/* The pools' input, behind a relu where that is fused into their backward. */
static ls_operand pool_input(chain *t)
{
    if (!t->how.fused_relu) {
        return t->in[0];
    }
    run(t, LS_OP_RELU, IN(t->in[0]), OUT(t->middle));
    return t->middle;
}

void forward_avg_pool(chain *t)
{
    run(t, LS_OP_AVG_POOL, IN(pool_input(t)), OUT(t->y));
}

void backward_avg_pool(chain *t)
{
    run(t, LS_OP_AVG_POOL_BACKWARD, IN(t->dy, pool_input(t)), OUT(t->gradient[0]));
}

void forward_max_pool(chain *t)
{
    run(t, LS_OP_MAX_POOL, IN(pool_input(t)), OUT(t->y));
}

void backward_max_pool(chain *t)
{
    run(t, LS_OP_MAX_POOL_BACKWARD, IN(t->dy, pool_input(t)), OUT(t->gradient[0]));
}
