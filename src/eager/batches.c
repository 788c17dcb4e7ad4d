#include "eager/batches.h"

#include <string.h>

#include "base/environment.h"
#include "data/augment.h"
#include "exec/turn.h"

static ls_tensor *samples(ls_session *session, ls_tensor_kind kind, const char *name, const ls_shape *shape,
                          const ls_sample_list *list)
{
    ls_tensor *tensor = ls_tensor_new(session, kind, shape, (ls_device){LS_HOST, 0});
    if (!tensor)
        return NULL;
    tensor->batch.list = *list;
    ls_samples_hold(&tensor->batch.list);
    tensor->name = ls_intern(session, name);
    return tensor;
}

static ls_array *bits(ls_session *session, size_t numbers)
{
    return ls_array_on(session, ls_host(), numbers);
}

/* The numbers of a batch's samples as they were drawn, copied: they are as wide as floats. */
static ls_array *copy_index(ls_session *session, const ls_batch_rows *rows)
{
    ls_array *index = bits(session, (size_t)rows->n);
    if (index)
        memcpy(index->data, rows->index, (size_t)rows->n * sizeof *rows->index);
    return index;
}

/* What becomes of each image of a batch. */
static ls_array *draw_changes(ls_session *session, const ls_data *data, const ls_batch_rows *rows)
{
    ls_array *changes = bits(session, (size_t)rows->n * LS_CHANGE_NUMBERS);
    for (int64_t i = 0; changes && i < rows->n; i++) {
        ls_change change =
            ls_augment_draw(&data->augment, data->seed, rows->index[i], rows->epoch, data->of.height, data->of.width);
        memcpy(changes->data + i * LS_CHANGE_NUMBERS, &change, sizeof change);
    }
    return changes;
}

ls_status ls_data_tensors(ls_session *session, const ls_data *data, const ls_batch_rows *rows, ls_tensor **X,
                          ls_tensor **y)
{
    *X = NULL;
    if (y)
        *y = NULL;
    if (ls_failed(session) || !ls_tensors_of(session))
        return ls_status_of(session);
    const ls_images *of = &data->of;
    ls_sample_list list = {.images = of->values,
                           .floats = of->floats,
                           .labels = of->labels,
                           .image_bytes = ls_data_bytes(data),
                           .owner = (ls_counted *)&data->counted};
    if (rows->index)
        list.index = copy_index(session, rows);
    ls_sample_list changed = list; /* labels do not change */
    if (rows->index && ls_augments(&data->augment))
        changed.changes = draw_changes(session, data, rows);
    ls_shape images = {4, {rows->n, of->channels, of->height, of->width}}, labels = {1, {rows->n}};
    ls_sample_list targets = {.images = of->targets, .floats = true, .owner = list.owner, .index = list.index};
    targets.image_bytes = (size_t)data->rows * (size_t)ls_images_targets(of) * sizeof *of->targets;
    if (of->targets) {
        labels = of->target;
        labels.dim[0] = rows->n;
    }
    *X = samples(session, LS_TENSOR_IMAGES, "a batch's images", &images, &changed);
    if (y)
        *y = of->targets ? samples(session, LS_TENSOR_IMAGES, "a batch's targets", &labels, &targets)
                         : samples(session, LS_TENSOR_LABELS, "a batch's labels", &labels, &list);
    ls_array_drop(list.index);
    ls_array_drop(changed.changes);
    return ls_status_of(session);
}

bool ls_data_next(ls_data *data, ls_batch *batch)
{
    LS_OWN_ENVIRONMENT;
    if (!data || !batch || !data->session || ls_failed(data->session))
        return false;
    ls_session *session = data->session;
    *batch = (ls_batch){NULL, NULL, data->epoch};
    ls_scope_close(session, ls_scope_of_batch(session, data)); /* of the batch before */
    const uint32_t *index;
    int n;
    if (!ls_data_take(data, &index, &n) || ls_scope_open(session, data) < 0)
        return false;
    return ls_data_tensors(session, data, &(ls_batch_rows){index, n, batch->epoch}, &batch->X, &batch->y) == LS_OK;
}
