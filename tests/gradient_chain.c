#include "gradient_chain.h"

#include <string.h>

ls_operand like(const chain *t, const ls_operand *shape, int by_image)
{
    ls_operand made = *shape;
    made.data = test_floats(by_image ? test_lane_numbers(shape, t->count) : test_numbers(shape));
    return made;
}

void add_activation_of(chain *t, int c, int h, int w)
{
    t->by_image[t->inputs] = 1;
    t->in[t->inputs] = test_activation(&t->random, c, h, w, t->count);
    t->gradient[t->inputs] = like(t, &t->in[t->inputs], 1);
    t->inputs++;
}

void add_activation(chain *t)
{
    add_activation_of(t, t->c, t->h, t->w);
}

void add_vector(chain *t, int n)
{
    t->in[t->inputs] = test_vector(&t->random, (size_t)n);
    t->gradient[t->inputs] = like(t, &t->in[t->inputs], 0);
    t->inputs++;
}

void set_output(chain *t, int c, int h, int w)
{
    t->dy = test_activation(&t->random, c, h, w, t->count);
    t->y = like(t, &t->dy, 1);
}

void set_windows_output(chain *t, int channels)
{
    const ls_attributes *how = &t->how;
    const ls_windows of = ls_windows_of(how);
    set_output(t, channels, (int)ls_windows_along(&of.rows, t->h), (int)ls_windows_along(&of.columns, t->w));
}

void run(const chain *t, ls_op op, const ls_operand in[LS_MAX_IN], const ls_operand out[LS_MAX_OUT])
{
    ls_attributes how = t->how;
    how.op = op;
    ls_op_call call = {.attributes = &how, .samples = &t->batch.samples};
    memcpy(call.in, in, sizeof call.in);
    memcpy(call.out, out, sizeof call.out);
    test_run(ls_backend_ref(), &call);
}

/* Numbers 0.01 apart in random order and never close to zero: no step changes which is larger. */
void spread(chain *t, ls_operand *x)
{
    size_t n = test_lane_numbers(x, t->count);
    for (size_t i = 0; i < n; i++) {
        x->data[i] = 0.01f * (float)((double)i - (double)n / 2) + 0.005f;
    }
    for (size_t i = n - 1; i > 0; i--) {
        size_t j = test_u64(&t->random) % (i + 1);
        float kept = x->data[i];
        x->data[i] = x->data[j];
        x->data[j] = kept;
    }
    test_pad(x->data, x, t->count, NULL);
}

void prepare_same(chain *t)
{
    add_activation(t);
    set_output(t, t->c, t->h, t->w);
}
