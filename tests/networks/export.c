/* A network with its first step, for PyTorch. */
#include "files.h"
#include "networks/operation.h"
#include "networks/print.h"
#include "networks/trained.h"

#include <math.h>
#include <stdlib.h>

#include "io/safetensors.h"
#include "tensors.h"
#include "training.h"

static void put_sizes(const char *name, const sizes *s, FILE *to)
{
    fprintf(to, "\"%s\": [", name);
    for (int i = 0; i < s->rank; i++)
        fprintf(to, "%s%d", i ? ", " : "", s->at[i]);
    fprintf(to, "]");
}

static void put_step(const step *p, FILE *to)
{
    fprintf(to, "{\"op\": \"%s\", \"values\": [", p->op->name);
    for (int i = 0; i < p->n_from; i++)
        fprintf(to, "%s%d", i ? ", " : "", p->from[i]);
    fprintf(to, "], \"parameters\": [");
    for (int i = 0; i < p->n_parameters; i++)
        fprintf(to, "%s\"p%d\"", i ? ", " : "", p->parameters[i]);
    fprintf(to, "], ");
    if (p->layer >= 0)
        fprintf(to, "\"layer\": \"m%d\", ", p->layer);
    if (p->lengths >= 0)
        fprintf(to, "\"lengths\": %d, ", p->lengths);
    put_sizes("sizes", &p->to, to);
    fprintf(to, ", \"details\": {");
    for (int i = 0, n = 0; i < p->n_details; i++)
        if (isfinite(p->details[i].value))
            fprintf(to, "%s\"%s\": %.9g", n++ ? ", " : "", p->details[i].name, p->details[i].value);
    fprintf(to, "}}");
}

static void put_weights(const char *name, const double *weights, int n, FILE *to)
{
    fprintf(to, ", \"%s\": [", name);
    for (int c = 0; c < n; c++)
        fprintf(to, "%s%.9g", c ? ", " : "", weights[c]);
    fprintf(to, "]");
}

static void put_loss(const recipe *r, double loss, FILE *to)
{
    const ls_loss *o = &r->options;
    const int classes = r->outputs.at[0];
    fprintf(to, "\"loss\": {\"name\": \"%s\", \"first\": %.17g", r->loss->name, loss);
    if (o->smoothing > 0)
        fprintf(to, ", \"smoothing\": %.9g", o->smoothing);
    if (o->delta > 0)
        fprintf(to, ", \"delta\": %.9g", o->delta);
    if (o->has_ignore || o->ignore)
        fprintf(to, ", \"ignore\": %d", (int)o->ignore);
    if (o->class_weights)
        put_weights("class_weights", o->class_weights, classes, to);
    if (o->positive_weights)
        put_weights("positive_weights", o->positive_weights, classes, to);
    fprintf(to, "}");
}

static bool write_json(const recipe *r, double loss, const char *path)
{
    FILE *to = fopen(path, "w");
    if (!to)
        return false;
    fprintf(to, "{\"seed\": %llu, \"number\": %llu, \"shard\": %d, \"full_batch\": %d, \"inputs\": %d,\n",
            (unsigned long long)r->seed, (unsigned long long)r->number, r->training.shard,
            (int)r->training.options.full_batch, r->n_inputs);
    put_loss(r, loss, to);
    fprintf(to, ",\n\"steps\": [\n");
    for (int k = 0; k < r->n_steps; k++) {
        put_step(&r->steps[k], to);
        fprintf(to, "%s\n", k + 1 < r->n_steps ? "," : "");
    }
    fprintf(to, "]}\n");
    return fclose(to) == 0;
}

/* ---- Arrays ---- */

enum { MOST_ARRAYS = 400 };
typedef struct arrays {
    ls_named_array all[MOST_ARRAYS];
    ls_shape shapes[MOST_ARRAYS];
    char names[MOST_ARRAYS][80];
    int n;
} arrays;

static void keep(arrays *a, const char *kind, const char *name, ls_shape shape, float *values)
{
    assert_true(a->n < MOST_ARRAYS);
    snprintf(a->names[a->n], sizeof a->names[0], "%s:%s", kind, name);
    a->shapes[a->n] = shape;
    a->all[a->n] = (ls_named_array){a->names[a->n], shape.rank, a->shapes[a->n].dim, values};
    a->n++;
}

static void keep_tensor(arrays *a, const char *kind, const char *name, ls_tensor *tensor)
{
    ls_shape shape = {.rank = ls_rank(tensor)};
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = ls_dim(tensor, i);
    keep(a, kind, name, shape, test_read(tensor));
}

static void keep_parameters(arrays *a, ls_module *net, bool gradients)
{
    for (int i = 0; i < ls_module_parameter_count(net); i++) {
        ls_parameter_info info;
        if (ls_module_parameter_at(net, i, &info) != LS_OK || (gradients && !info.trainable))
            continue;
        ls_shape shape = {.rank = info.rank};
        for (int d = 0; d < info.rank; d++)
            shape.dim[d] = info.shape[d];
        float *values = calloc((size_t)info.numbers + 1, sizeof *values);
        if (gradients)
            test_read_gradient(net, info.name, values, info.numbers);
        else
            ls_module_read_parameter(net, info.name, values, info.numbers);
        keep(a, gradients ? "gradient" : "value", info.name, shape, values);
    }
}

static void free_arrays(arrays *a)
{
    for (int i = 0; i < a->n; i++)
        free((float *)a->all[i].values);
    free(a);
}

/* Takes the first step; the loss that it reports. */
static double first_step(const recipe *r, const begun *b, arrays *a)
{
    ls_report report = {.loss = 0};
    ls_batch batch;
    if (!recipe_next(r, b, &batch))
        return 0;
    for (int i = 0; i < r->n_inputs; i++)
        keep_tensor(a, "input", (char[]){(char)('0' + i), 0}, batch.inputs[i]);
    keep_tensor(a, "y", "0", batch.y);
    keep_parameters(a, b->net, false);
    ls_tensor *outputs = r->n_inputs > 1 ? ls_module_infer_all(b->net, batch.inputs, batch.n_inputs)
                                         : ls_module_infer(b->net, batch.inputs[0]);
    if (!outputs)
        return 0;
    keep_tensor(a, "output", "0", outputs);
    ls_backward(recipe_losses(r, b, &batch));
    keep_parameters(a, b->net, true);
    ls_trainer_step(b->trainer);
    ls_wait(b->s);
    ls_trainer_next_report(b->trainer, &report);
    return report.loss;
}

/* Not all networks have an ONNX model: then it is said why. */
static void export_model(const recipe *r, const begun *b, const char *folder)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%d.onnx", folder, (int)r->number);
    if (ls_module_export_onnx(b->net, path) == LS_UNSUPPORTED) {
        printf("network %d has no ONNX model: %s\n", (int)r->number, ls_message(b->s));
        ls_catch(b->s, LS_UNSUPPORTED);
    }
}

bool recipe_export(const recipe *r, const char *folder)
{
    char path[512];
    begun b;
    arrays *a = calloc(1, sizeof *a);
    recipe_begin(r, &(way){.devices = 1}, &b);
    export_model(r, &b, folder);
    const double loss = first_step(r, &b, a);
    snprintf(path, sizeof path, "%s/%d.safetensors", folder, (int)r->number);
    bool good = !ls_failed(b.s);
    if (!good)
        fprintf(stderr, "network %d: %s\n", (int)r->number, ls_message(b.s));
    if (good && ls_safetensors_save(test_context(), path, a->all, a->n, NULL, 0) != LS_OK) {
        fprintf(stderr, "%s: cannot be written\n", path);
        good = false;
    }
    ls_close(b.s);
    free_arrays(a);
    snprintf(path, sizeof path, "%s/%d.json", folder, (int)r->number);
    return good && write_json(r, loss, path);
}
