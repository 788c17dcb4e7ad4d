#include "eager/filling.h"

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

/* What the function has made of a batch: labels go to y as floats. */
static ls_status take(ls_session *session, const ls_data *data, const ls_fill *f, float *y)
{
    const ls_filling *filling = data->of.filling;
    const ls_shape image = ls_images_shape(&data->of, 1);
    const int64_t numbers = ls_shape_numbers(&image), targets = ls_field_numbers(&data->of.targets);
    int64_t bad = ls_first_not_finite(f->X, f->rows * numbers), each = numbers;
    if (bad < 0 && f->targets) {
        bad = ls_first_not_finite(f->targets, f->rows * targets);
        each = targets;
    }
    if (bad >= 0)
        return ls_raise(&session->context, LS_BAD_ARGUMENT,
                        "%s: batch %d of epoch %lld: row %lld holds a number that is not finite", filling->name,
                        f->batch, (long long)f->epoch, (long long)(bad / each));
    for (int i = 0; f->labels && i < f->rows; i++) {
        if (f->labels[i] < 0 || f->labels[i] >= data->of.classes)
            return ls_raise(&session->context, LS_BAD_ARGUMENT,
                            "%s: batch %d of epoch %lld: the label of row %d is %d, there are the classes 0 to %d",
                            filling->name, f->batch, (long long)f->epoch, i, f->labels[i], data->of.classes - 1);
        y[i] = (float)f->labels[i];
    }
    return LS_OK;
}

static ls_status ask(ls_session *session, const ls_data *data, ls_fill *f, float *y)
{
    const ls_filling *filling = data->of.filling;
    if (filling->source.fill(f, filling->source.user))
        return take(session, data, f, y);
    f->message[sizeof f->message - 1] = '\0';
    return ls_raise(&session->context, LS_IO, "%s: batch %d of epoch %lld: %s", filling->name, f->batch,
                    (long long)f->epoch, f->message[0] ? f->message : "it has failed, and does not say why");
}

void ls_data_fill(ls_session *session, const ls_data *data, const ls_batch_rows *rows, ls_batch *batch)
{
    const ls_images *of = &data->of;
    const ls_shape images = ls_images_shape(of, rows->n);
    ls_shape targets = of->targets.shape.rank ? of->targets.shape : (ls_shape){1, {0}};
    targets.dim[0] = rows->n;
    ls_tensor *X = room(session, &images, "a batch's images"), *y = room(session, &targets, "a batch's y");
    const bool labelled = of->classes > 0;
    int32_t *labels =
        labelled ? ls_alloc(&session->context, (size_t)rows->n, sizeof *labels, "a batch's labels") : NULL;
    const int64_t numbers = ls_shape_numbers(&images) / rows->n, each = ls_field_numbers(&of->targets);
    for (int64_t at = 0; !rows->shapes && !ls_failed(session) && at < rows->n; at += data->batch) {
        const int64_t left = rows->n - at, first = rows->first + at;
        ls_fill f = {.epoch = rows->epoch,
                     .first = first,
                     .batch = (int)(first / data->batch),
                     .rows = left < data->batch ? (int)left : data->batch,
                     .X = X->array->data + at * numbers,
                     .labels = labelled ? labels + at : NULL,
                     .targets = labelled ? NULL : y->array->data + at * each};
        ask(session, data, &f, y->array->data + at * each);
    }
    ls_release(&session->context, labels);
    batch->X = X;
    batch->y = y;
}
