/* The steps of test_gradients' chains for operations on sequences. */
#include "gradient_chain.h"

#include <string.h>

/* c products of h x w by w x o, either of which may be transposed. */
void prepare_batch_matmul(chain *t)
{
    const int *transposed = t->how.transposed;
    add_activation_of(t, t->c, transposed[0] ? t->w : t->h, transposed[0] ? t->h : t->w);
    add_activation_of(t, t->c, transposed[1] ? t->o : t->w, transposed[1] ? t->w : t->o);
    set_output(t, t->c, t->h, t->o);
}

static void product(chain *t, int of_a, int of_b, ls_operand a, ls_operand b, ls_operand y)
{
    const int kept[2] = {t->how.transposed[0], t->how.transposed[1]};
    t->how.transposed[0] = of_a;
    t->how.transposed[1] = of_b;
    run(t, LS_OP_BATCH_MATMUL, IN(a, b), OUT(y));
    memcpy(t->how.transposed, kept, sizeof kept);
}

void backward_batch_matmul(chain *t)
{
    const int of_a = t->how.transposed[0], of_b = t->how.transposed[1];
    if (of_a)
        product(t, of_b, 1, t->in[1], t->dy, t->gradient[0]);
    else
        product(t, 0, !of_b, t->dy, t->in[1], t->gradient[0]);
    if (of_b)
        product(t, 1, of_a, t->dy, t->in[0], t->gradient[1]);
    else
        product(t, !of_a, 0, t->in[0], t->dy, t->gradient[1]);
}

/* The table is stepped, the numbers of its rows are not. */
void prepare_embedding(chain *t)
{
    add_vector(t, t->o * t->h);
    t->middle = test_activation(&t->random, t->c, 1, 1, t->count);
    for (size_t i = 0; i < test_lane_numbers(&t->middle, t->count); i++)
        t->middle.data[i] = (float)(test_u64(&t->random) % (unsigned)t->o);
    set_output(t, t->c, t->h, 1);
}

void forward_embedding(chain *t)
{
    run(t, LS_OP_EMBEDDING, IN(t->middle, t->in[0]), OUT(t->y));
}

void backward_embedding(chain *t)
{
    run(t, LS_OP_EMBEDDING_BACKWARD, IN(t->dy, t->middle), OUT(t->gradient[0]));
}
