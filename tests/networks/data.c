/* The data of a recipe: numbers that follow from its seed. */
#include "networks/trained.h"
#include "support.h"

#include <lockstep_data.h>
#include <stdlib.h>
#include <string.h>

typedef struct numbers {
    const recipe *recipe;
    float *inputs[LS_MAX_INPUTS], *y; /* [rows][...] */
    int32_t *labels;
    uint8_t *bytes;
} numbers;

static test_random random_of(const recipe *r, int what)
{
    return (test_random){r->seed * 7919 + r->number * 31 + (uint64_t)what * 1000003};
}

static float *input_numbers(const recipe *r, int i)
{
    const input *in = &r->inputs[i];
    const size_t n = (size_t)r->training.rows * (size_t)recipe_numbers(&in->to);
    test_random random = random_of(r, i);
    float *values = test_floats(n);
    for (size_t k = 0; k < n; k++)
        values[k] = in->kind == IDS       ? (float)(test_u64(&random) % VOCABULARY)
                    : in->kind == LENGTHS ? (float)(test_u64(&random) % (uint64_t)(in->tokens + 1))
                                          : (float)test_uniform(&random) * 1.5f;
    return values;
}

static float *target_numbers(const recipe *r)
{
    const size_t each = (size_t)recipe_numbers(&r->y), n = (size_t)r->training.rows * each;
    const char kind = r->loss->y;
    test_random random = random_of(r, LS_MAX_INPUTS);
    float *values = test_floats(n);
    for (size_t k = 0; k < n; k++) {
        const uint64_t drawn = test_u64(&random);
        values[k] = kind == 'n'   ? (float)test_uniform(&random)
                    : kind == 't' ? (float)(drawn % 17) / 16
                                  : (float)(drawn % (uint64_t)r->classes);
        if (r->loss->ignores && r->options.ignore < 0 && k % 7 == 3)
            values[k] = (float)r->options.ignore;
        else if (r->loss->ignores && values[k] == (float)r->options.ignore && k % 3 > 0) /* few are ignored */
            values[k] = (float)((r->options.ignore + 1) % r->classes);
    }
    return values;
}

static numbers numbers_of(const recipe *r)
{
    numbers n = {.recipe = r, .y = target_numbers(r)};
    for (int i = 0; i < r->n_inputs; i++)
        n.inputs[i] = input_numbers(r, i);
    const size_t rows = (size_t)r->training.rows, each = (size_t)recipe_numbers(&r->inputs[0].to);
    n.labels = calloc(rows, sizeof *n.labels);
    n.bytes = calloc(rows * each, 1);
    for (size_t k = 0; k < rows && r->loss->y == 'l'; k++)
        n.labels[k] = (int32_t)n.y[k];
    for (size_t k = 0; k < rows * each; k++)
        n.bytes[k] = (uint8_t)((n.inputs[0][k] + 1.5f) * 85);
    return n;
}

static void free_numbers(numbers *n)
{
    for (int i = 0; i < LS_MAX_INPUTS; i++)
        free(n->inputs[i]);
    free(n->y);
    free(n->labels);
    free(n->bytes);
}

static ls_shape shape_of(int rows, const sizes *s)
{
    ls_shape shape = {s->rank + 1, {rows}};
    for (int i = 0; i < s->rank; i++)
        shape.dim[i + 1] = s->at[i];
    return shape;
}

static ls_data *from_memory(ls_session *s, const numbers *n, const ls_loader *loader)
{
    const recipe *r = n->recipe;
    const input *x = &r->inputs[0];
    if (x->kind != BYTES)
        return ls_data_from_floats(s, n->inputs[0], shape_of(r->training.rows, &x->to), loader);
    const int rows = r->training.rows;
    uint8_t *labels = calloc((size_t)rows, 1);
    for (int i = 0; i < rows; i++)
        labels[i] = (uint8_t)(n->labels[i] < 0 ? 0 : n->labels[i]);
    ls_data *data =
        ls_data_from_memory(s, n->bytes, labels, rows, x->to.at[0], x->to.at[1], x->to.at[2], r->classes, loader);
    free(labels);
    return data;
}

/* Labels that count nothing are none of a data set's. */
static bool has_labels(const recipe *r)
{
    return r->loss->y == 'l' && !(r->loss->ignores && r->options.ignore < 0);
}

/* ---- A function that makes the batches ---- */

static void copy_rows(float *to, const float *from, const ls_fill *batch, const sizes *s)
{
    const size_t each = (size_t)recipe_numbers(s);
    if (to)
        memcpy(to, from + (size_t)batch->first * each, (size_t)batch->rows * each * sizeof *to);
}

static bool fill(ls_fill *batch, void *user)
{
    numbers n = numbers_of(user);
    const recipe *r = user;
    for (int i = 0; i < r->n_inputs; i++)
        copy_rows(batch->inputs[i], n.inputs[i], batch, &r->inputs[i].to);
    copy_rows(batch->targets, n.y, batch, &r->y);
    if (batch->labels)
        memcpy(batch->labels, n.labels + batch->first, (size_t)batch->rows * sizeof *n.labels);
    free_numbers(&n);
    return true;
}

static ls_data *from_function(ls_session *s, const recipe *r, const ls_loader *loader)
{
    const int rows = r->training.rows;
    ls_source source = {.fill = fill,
                        .user = (void *)r,
                        .shape = shape_of(rows, &r->inputs[0].to),
                        .n_more = r->n_inputs - 1,
                        .classes = has_labels(r) ? r->classes : 0};
    for (int i = 1; i < r->n_inputs; i++)
        source.more[i - 1] = shape_of(rows, &r->inputs[i].to);
    if (!source.classes)
        source.targets = shape_of(rows, &r->y);
    return ls_data_from_function(s, &source, loader);
}

ls_data *recipe_data(ls_session *s, const recipe *r)
{
    const training *t = &r->training;
    const ls_loader loader = {.batch = t->batch, .shuffle = t->shuffle, .augment = t->augment};
    if (t->source)
        return from_function(s, r, &loader);
    numbers n = numbers_of(r);
    ls_data *data = from_memory(s, &n, &loader);
    for (int i = 1; i < r->n_inputs; i++)
        ls_data_add_input(data, n.inputs[i], shape_of(t->rows, &r->inputs[i].to));
    if (!has_labels(r))
        ls_data_set_targets(data, n.y, shape_of(t->rows, &r->y));
    else if (r->inputs[0].kind != BYTES || t->names_labels)
        ls_data_set_labels(data, n.labels, t->rows, r->classes);
    free_numbers(&n);
    return data;
}
