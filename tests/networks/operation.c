#include "networks/operation.h"

#include <stdio.h>
#include <string.h>

static const operation *const tables[] = {number_operations,   map_operations,  norm_operations,
                                          sequence_operations, view_operations, module_operations};
enum { TABLES = sizeof tables / sizeof *tables };

const operation *operation_at(int i)
{
    for (int t = 0; t < TABLES; t++)
        for (const operation *op = tables[t]; op->name; op++)
            if (i-- == 0)
                return op;
    return NULL;
}

int operation_count(void)
{
    int n = 0;
    while (operation_at(n))
        n++;
    return n;
}

const operation *operation_named(const char *name)
{
    const operation *op;
    for (int i = 0; (op = operation_at(i)) && strcmp(op->name, name) != 0; i++)
        ;
    return op;
}

ls_tensor *operation_record(const forward *f)
{
    const operation *op = f->step->op;
    if (op->function)
        return op->function(operand(f, 0));
    if (op->with)
        return op->with(operand(f, 0), recipe_told(f->step, "argument"));
    if (op->record)
        return op->record(f);
    char name[16];
    snprintf(name, sizeof name, "m%d", f->step->layer);
    ls_tensor *lengths = lengths_of(f);
    return lengths ? ls_module_call_with_lengths(f->self, name, operand(f, 0), lengths)
                   : ls_module_call(f->self, name, operand(f, 0));
}

ls_tensor *operand(const forward *f, int k)
{
    return f->values[f->step->from[k]];
}

ls_tensor *parameter(const forward *f, int k)
{
    if (k >= f->step->n_parameters)
        return NULL;
    char name[16];
    snprintf(name, sizeof name, "p%d", f->step->parameters[k]);
    return ls_module_parameter(f->self, name, f->recipe->parameters[f->step->parameters[k]]);
}

ls_tensor *lengths_of(const forward *f)
{
    return f->step->lengths < 0 ? NULL : f->values[f->step->lengths];
}

const sizes *from_sizes(const recipe *r, const step *p)
{
    return recipe_sizes(r, p->from[0]);
}

void takes_parameter(recipe *r, step *p, ls_shape shape)
{
    p->parameters[p->n_parameters++] = recipe_parameter(r, shape);
}

int divisor_of(recipe *r, int n)
{
    int found = 1, met = 0;
    for (int k = 1; k <= n; k++)
        if (n % k == 0 && recipe_between(r, 0, met++) == 0)
            found = k;
    return found;
}
