#include "networks/print.h"

#include "networks/operation.h"

static const char *const kinds[] = {"bytes", "map", "features", "sequence", "ids", "lengths"};

static void print_sizes(const sizes *s, FILE *to)
{
    fprintf(to, "(");
    for (int i = 0; i < s->rank; i++)
        fprintf(to, "%s%d", i ? ", " : "", s->at[i]);
    fprintf(to, ")");
}

static void print_step(const recipe *r, int k, FILE *to)
{
    const step *p = &r->steps[k];
    fprintf(to, "  v%d = %s(", r->n_inputs + k, p->op->name);
    for (int i = 0; i < p->n_from; i++)
        fprintf(to, "%sv%d", i ? ", " : "", p->from[i]);
    for (int i = 0; i < p->n_parameters; i++) {
        const ls_shape *shape = &r->parameters[p->parameters[i]];
        fprintf(to, ", p%d (", p->parameters[i]);
        for (int d = 0; d < shape->rank; d++)
            fprintf(to, "%s%d", d ? ", " : "", (int)shape->dim[d]);
        fprintf(to, ")");
    }
    if (p->lengths >= 0)
        fprintf(to, ", lengths v%d", p->lengths);
    for (int i = 0; i < p->n_details; i++)
        fprintf(to, ", %s %g", p->details[i].name, p->details[i].value);
    fprintf(to, ")");
    if (p->layer >= 0)
        fprintf(to, " by m%d%s", p->layer, p->layer == k ? "" : " again");
    fprintf(to, " -> ");
    print_sizes(&p->to, to);
    fprintf(to, "\n");
}

static void print_weights(const char *name, const double *weights, int n, FILE *to)
{
    fprintf(to, ", %s", name);
    for (int c = 0; weights && c < n; c++)
        fprintf(to, " %g", weights[c]);
}

static void print_loss(const recipe *r, FILE *to)
{
    const ls_loss *o = &r->options;
    fprintf(to, "  loss %s, %d classes, y ", r->loss->name, r->classes);
    print_sizes(&r->y, to);
    if (o->smoothing > 0)
        fprintf(to, ", smoothing %g", o->smoothing);
    if (o->delta > 0)
        fprintf(to, ", delta %g", o->delta);
    if (o->has_ignore || o->ignore)
        fprintf(to, ", ignore %d", (int)o->ignore);
    if (o->class_weights)
        print_weights("class weights", o->class_weights, r->classes, to);
    if (o->positive_weights)
        print_weights("positive weights", o->positive_weights, r->classes, to);
    fprintf(to, "\n");
}

static void print_number(const char *name, double value, FILE *to)
{
    if (value != 0)
        fprintf(to, ", %s %g", name, value);
}

static void print_training(const training *t, FILE *to)
{
    const ls_optim *o = &t->options;
    const char *const inits[] = {"normal", "xavier", "he"};
    fprintf(to, "  init %s; %s, lr %g, %s", inits[t->init.kind], t->optimizer, o->lr, schedule_kinds[o->schedule]);
    print_number("warmup", (double)o->warmup, to);
    print_number("weight_decay", o->weight_decay, to);
    print_number("clip_norm", o->clip_norm, to);
    print_number("full_batch", (double)o->full_batch, to);
    print_number("ema", o->ema, to);
    print_number("ema_warmup", o->ema_warmup, to);
    print_number("passes", t->passes, to);
    print_number("later lr", t->later_lr, to);
    print_number("a group of vectors", t->vectors, to);
    fprintf(to, "%s%s%s%s\n", *t->frozen ? ", frozen " : "", t->frozen, *t->grouped ? ", a group of " : "", t->grouped);
}

void recipe_print(const recipe *r, FILE *to)
{
    const training *t = &r->training;
    fprintf(to, "network %llu of seed %llu: %d images in batches of %d and shards of %d", (unsigned long long)r->number,
            (unsigned long long)r->seed, t->rows, t->batch, t->shard);
    fprintf(to, "%s%s%s%s", t->shuffle ? ", shuffled" : "", t->source ? ", by a function" : "",
            t->arrays ? ", as arrays" : "", t->direct ? ", direct convolutions" : "");
    print_number("flip", t->augment.flip, to);
    print_number("crop", t->augment.crop, to);
    print_number("erase", t->augment.erase, to);
    fprintf(to, "\n");
    for (int i = 0; i < r->n_inputs; i++) {
        fprintf(to, "  v%d = %s ", i, kinds[r->inputs[i].kind]);
        print_sizes(&r->inputs[i].to, to);
        fprintf(to, "\n");
    }
    for (int k = 0; k < r->n_steps; k++)
        print_step(r, k, to);
    print_loss(r, to);
    print_training(t, to);
}
