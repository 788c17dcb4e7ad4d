#include "parallel/batches.h"

#include <string.h>

static ls_tensor *samples(ls_session *session, ls_tensor_kind kind, const ls_shape *shape, const ls_data *data,
                          ls_array *index)
{
    ls_tensor *tensor = ls_tensor_new(session, kind, shape, (ls_device){LS_HOST, 0});
    if (!tensor)
        return NULL;
    tensor->samples = (ls_sample_list){.images = data->images,
                                       .labels = data->labels,
                                       .image_bytes = (size_t)data->rows * (size_t)data->channels *
                                                      (size_t)data->height * (size_t)data->width,
                                       .owner = (ls_counted *)&data->counted,
                                       .index = index};
    ls_samples_hold(&tensor->samples);
    tensor->name = kind == LS_TENSOR_IMAGES ? "a batch's images" : "a batch's labels";
    return tensor;
}

ls_status ls_data_tensors(ls_session *session, const ls_data *data, const uint32_t *index, int64_t rows, ls_tensor **X,
                          ls_tensor **y)
{
    *X = NULL;
    if (y)
        *y = NULL;
    ls_tensors *tensors = ls_failed(session) ? NULL : ls_tensors_of(session);
    if (!tensors)
        return ls_status_of(session);
    ls_array *numbers = NULL;
    if (index) {
        numbers = ls_array_new(&tensors->arrays, (ls_device){LS_HOST, 0}, (size_t)rows);
        if (!numbers)
            return ls_status_of(session);
        memcpy(numbers->data, index, (size_t)rows * sizeof *index); /* bits: sample numbers are as wide as floats */
    }
    ls_shape images = {4, {rows, data->channels, data->height, data->width}}, labels = {1, {rows}};
    *X = samples(session, LS_TENSOR_IMAGES, &images, data, numbers);
    if (y)
        *y = samples(session, LS_TENSOR_LABELS, &labels, data, numbers);
    ls_array_drop(numbers);
    return ls_status_of(session);
}

bool ls_next(ls_data *data, ls_batch *batch)
{
    if (!data || !batch || !data->session || ls_failed(data->session))
        return false;
    ls_session *session = data->session;
    *batch = (ls_batch){NULL, NULL, data->epoch};
    ls_scope_close(session, ls_scope_of_batch(session, data)); /* of the batch before */
    const uint32_t *index;
    int rows;
    if (!ls_data_next(data, &index, &rows) || ls_scope_open(session, data) < 0)
        return false;
    return ls_data_tensors(session, data, index, rows, &batch->X, &batch->y) == LS_OK;
}
