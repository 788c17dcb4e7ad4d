/* The steps of test_gradients' chains for attention: c heads of h rows, `kernel` heads of o keys, w and `stride`
 * features. `padding` says that images have lengths. */
#include "gradient_chain.h"

void prepare_attention(chain *t)
{
    const int shared = t->how.kernel, values = t->how.stride;
    add_activation(t);
    add_activation_of(t, shared, t->o, t->w);
    add_activation_of(t, shared, t->o, values);
    set_output(t, t->c, t->h, values);
    t->saved = test_activation(&t->random, 3 * t->c, t->h, 1, t->count);
    if (t->how.padding)
        t->middle = test_activation(&t->random, 1, 1, 1, t->count);
    for (size_t i = 0; t->how.padding && i < test_lane_numbers(&t->middle, t->count); i++)
        t->middle.data[i] = (float)(test_u64(&t->random) % (unsigned)(t->o + 2));
}

void forward_attention(chain *t)
{
    run(t, LS_OP_ATTENTION, IN(t->in[0], t->in[1], t->in[2], t->middle), OUT(t->y, t->saved));
}

void backward_attention(chain *t)
{
    run(t, LS_OP_ATTENTION_BACKWARD, IN(t->dy, t->in[0], t->in[1], t->in[2], t->y, t->saved),
        OUT(t->gradient[0], t->gradient[1], t->gradient[2]));
}
