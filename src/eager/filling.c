#include "eager/filling.h"
#include "base/environment.h"

#include <string.h>

#include "exec/turn.h"

/* Room for numbers of a batch's rows, all zero. */
static ls_tensor *room(ls_session *session, const ls_shape *shape, const char *name)
{
    ls_array *array = ls_array_on(session, ls_host(), (size_t)ls_shape_numbers(shape));
    if (array)
        memset(array->data, 0, array->n * sizeof *array->data);
    ls_tensor *tensor = ls_tensor_of_array(session, array, shape);
    if (tensor)
        tensor->name = ls_intern(session, name);
    return tensor;
}

/* What a batch's numbers are of: its inputs and targets, each with so many of a row. */
typedef struct part {
    float *values;
    int64_t each;
} part;

/* What the function has made: labels go to y as floats. */
static ls_status take(ls_session *session, const ls_data *data, const ls_fill *f, const part *parts, int n, float *y)
{
    const char *name = data->of.filling->name;
    for (int k = 0; k < n; k++) {
        const int64_t bad = ls_first_not_finite(parts[k].values, f->rows * parts[k].each);
        if (bad >= 0)
            return ls_raise(&session->context, LS_BAD_ARGUMENT,
                            "%s: batch %d of epoch %lld: row %lld holds a number that is not finite", name, f->batch,
                            (long long)f->epoch, (long long)(bad / parts[k].each));
    }
    for (int i = 0; f->labels && i < f->rows; i++) {
        if (f->labels[i] < 0 || f->labels[i] >= data->of.classes)
            return ls_raise(&session->context, LS_BAD_ARGUMENT,
                            "%s: batch %d of epoch %lld: the label of row %d is %d; of %d classes labels are 0 to %d",
                            name, f->batch, (long long)f->epoch, i, f->labels[i], data->of.classes,
                            data->of.classes - 1);
        y[i] = (float)f->labels[i];
    }
    return LS_OK;
}

/* Has the function make the batch that begins with that row of `batch`, which may be of several. */
static ls_status ask(ls_session *session, const ls_data *data, const ls_batch_rows *rows, int64_t at,
                     const ls_batch *batch, int32_t *labels)
{
    const ls_images *of = &data->of;
    const int64_t left = rows->n - at, first = rows->first + at;
    const int inputs = 1 + of->n_more;
    part parts[LS_MAX_INPUTS + 1];
    ls_fill f = {.epoch = rows->epoch,
                 .first = first,
                 .batch = (int)(first / data->batch),
                 .rows = left < data->batch ? (int)left : data->batch,
                 .labels = labels ? labels + at : NULL};
    for (int k = 0; k <= inputs; k++) {
        const ls_tensor *tensor = k < inputs ? batch->inputs[k] : batch->y;
        parts[k].each = ls_shape_numbers(&tensor->shape) / rows->n;
        parts[k].values = tensor->array->data + at * parts[k].each;
        if (k < inputs)
            f.inputs[k] = parts[k].values;
    }
    f.X = f.inputs[0];
    f.targets = labels ? NULL : parts[inputs].values;
    const bool filled = of->filling->source.fill(&f, of->filling->source.user);
    ls_environment_renew();
    if (filled)
        return take(session, data, &f, parts, labels ? inputs : inputs + 1, parts[inputs].values);
    f.message[sizeof f.message - 1] = '\0';
    return ls_raise(&session->context, LS_IO, "%s: batch %d of epoch %lld: %s", of->filling->name, f.batch,
                    (long long)f.epoch, f.message[0] ? f.message : "it has failed, and does not say why");
}

void ls_data_fill(ls_session *session, const ls_data *data, const ls_batch_rows *rows, ls_batch *batch)
{
    const ls_images *of = &data->of;
    const ls_shape images = ls_images_shape(of, rows->n);
    ls_shape y = of->classes ? (ls_shape){1, {0}} : of->targets.shape;
    y.dim[0] = rows->n;
    batch->inputs[0] = room(session, &images, "a batch's images");
    for (int i = 0; i < of->n_more; i++) {
        ls_shape more = of->more[i].shape;
        more.dim[0] = rows->n;
        batch->inputs[1 + i] = room(session, &more, "a batch's input");
    }
    batch->X = batch->inputs[0];
    batch->y = room(session, &y, "a batch's y");
    int32_t *labels =
        of->classes ? ls_alloc(&session->context, (size_t)rows->n, sizeof *labels, "a batch's labels") : NULL;
    for (int64_t at = 0; !rows->shapes && !ls_failed(session) && at < rows->n; at += data->batch)
        ask(session, data, rows, at, batch, labels);
    ls_release(&session->context, labels);
}
