#include "eager/batches.h"

#include <string.h>

#include "base/environment.h"
#include "data/augment.h"
#include "eager/filling.h"
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

/* The changes but for what they erase: it is moved targets that they are for. */
static ls_array *moves_of(ls_session *session, const ls_array *changes)
{
    ls_array *moves = changes ? bits(session, changes->n) : NULL;
    for (size_t at = 0; moves && at < moves->n; at += LS_CHANGE_NUMBERS) {
        ls_change change;
        memcpy(&change, changes->data + at, sizeof change);
        change.height = 0;
        memcpy(moves->data + at, &change, sizeof change);
    }
    return moves;
}

/* Numbers beside the images, as samples like them; with `moves` they are moved with their images. */
static ls_tensor *field_samples(ls_session *session, const ls_data *data, const ls_field *field, const char *name,
                                const ls_sample_list *list, int64_t rows, ls_array *moves)
{
    ls_sample_list of = {.images = field->values,
                         .floats = true,
                         .image_bytes = ls_field_bytes(field, data->rows),
                         .owner = list->owner,
                         .index = list->index,
                         .changes = moves,
                         .edge = moves ? data->edge_target : 0};
    ls_shape shape = field->shape;
    shape.dim[0] = rows;
    return samples(session, LS_TENSOR_IMAGES, name, &shape, &of);
}

static void read_samples(ls_session *session, const ls_data *data, const ls_batch_rows *rows, ls_batch *batch)
{
    const ls_images *of = &data->of;
    ls_sample_list list = {.images = of->values,
                           .floats = of->floats,
                           .labels = of->labels,
                           .wide_labels = of->wide_labels,
                           .image_bytes = ls_data_bytes(data),
                           .owner = (ls_counted *)&data->counted};
    if (rows->index)
        list.index = copy_index(session, rows);
    ls_sample_list changed = list; /* labels do not change */
    if (rows->index && ls_augments(&data->augment))
        changed.changes = draw_changes(session, data, rows);
    const ls_shape images = ls_images_shape(of, rows->n);
    batch->inputs[0] = batch->X = samples(session, LS_TENSOR_IMAGES, "a batch's images", &images, &changed);
    ls_array *moves =
        of->targets.shape.rank > 2 && ls_moves(&data->augment) ? moves_of(session, changed.changes) : NULL;
    if (of->targets.values)
        batch->y = field_samples(session, data, &of->targets, "a batch's targets", &list, rows->n, moves);
    else if (ls_images_labelled(of))
        batch->y = samples(session, LS_TENSOR_LABELS, "a batch's labels", &(ls_shape){1, {rows->n}}, &list);
    for (int i = 0; i < of->n_more; i++)
        batch->inputs[1 + i] = field_samples(session, data, &of->more[i], "a batch's input", &list, rows->n, NULL);
    ls_array_drop(list.index);
    ls_array_drop(moves);
    ls_array_drop(changed.changes);
}

ls_status ls_data_tensors(ls_session *session, const ls_data *data, const ls_batch_rows *rows, ls_batch *batch)
{
    *batch = (ls_batch){.epoch = rows->epoch};
    if (ls_failed(session) || !ls_tensors_of(session))
        return ls_status_of(session);
    if (data->of.filling)
        ls_data_fill(session, data, rows, batch);
    else
        read_samples(session, data, rows, batch);
    batch->n_inputs = 1 + data->of.n_more;
    return ls_status_of(session);
}

bool ls_data_next(ls_data *data, ls_batch *batch)
{
    LS_OWN_ENVIRONMENT;
    if (!data || !batch || !data->session || ls_failed(data->session))
        return false;
    ls_session *session = data->session;
    *batch = (ls_batch){.epoch = data->epoch};
    ls_scope_close(session, ls_scope_of_batch(session, data)); /* of the batch before */
    ls_batch_rows rows = {.epoch = data->epoch};
    int n;
    if (!ls_data_take(data, &rows.index, &n) || ls_scope_open(session, data) < 0)
        return false;
    rows.n = n;
    if (data->of.filling)
        rows.first = (data->position - 1) * data->batch;
    return ls_data_tensors(session, data, &rows, batch) == LS_OK;
}
