/* The network of a recipe. */
#include "networks/operation.h"
#include "networks/trained.h"

#include <stdio.h>

static ls_tensor *record(ls_module *self, ls_tensor *x)
{
    const recipe *r = ls_module_user(self);
    ls_tensor *values[LS_MAX_INPUTS + MOST_STEPS] = {x};
    for (int i = 1; i < r->n_inputs; i++)
        values[i] = ls_module_input(self, i);
    for (int k = 0; k < r->n_steps; k++) {
        const forward f = {self, r, &r->steps[k], values};
        values[r->n_inputs + k] = operation_record(&f);
    }
    return values[r->n_inputs + r->n_steps - 1];
}

ls_module *recipe_network(ls_session *s, const recipe *r)
{
    ls_module *net = ls_block(s, record, (void *)r);
    for (int k = 0; k < r->n_steps; k++)
        if (r->steps[k].layer == k) {
            char name[16];
            snprintf(name, sizeof name, "m%d", k);
            ls_module_append(net, name, r->steps[k].op->make(s, &r->steps[k]));
        }
    return net;
}
