#include "data/split.h"
#include "base/random.h"

#include <string.h>
#include <lockstep_data.h>

static size_t size_of(const ls_images *of)
{
    const size_t pixels = (size_t)of->channels * (size_t)of->height * (size_t)of->width;
    return of->floats ? pixels * sizeof(float) : pixels;
}

static void copy_field_row(const ls_field *from, int64_t row, ls_field *to, int64_t place)
{
    const size_t size = from->values ? (size_t)ls_field_numbers(from) : 0;
    if (size)
        memmove(to->values + (size_t)place * size, from->values + (size_t)row * size, size * sizeof(float));
}

static void copy_row(const ls_images *from, int64_t row, ls_images *to, int64_t place)
{
    const size_t size = size_of(from);
    memmove((char *)to->values + (size_t)place * size, (const char *)from->values + (size_t)row * size, size);
    if (from->labels)
        to->labels[place] = from->labels[row];
    if (from->wide_labels)
        to->wide_labels[place] = from->wide_labels[row];
    copy_field_row(&from->targets, row, &to->targets, place);
    for (int i = 0; i < from->n_more; i++)
        copy_field_row(&from->more[i], row, &to->more[i], place);
}

static char *copy_names(const ls_data *data)
{
    const char *last = ls_data_class(data, data->of.classes - 1);
    const size_t length = (size_t)(last - data->of.names) + strlen(last) + 1;
    char *names = ls_alloc(data->context, length, 1, "the names of the classes");
    return names ? memcpy(names, data->of.names, length) : NULL;
}

/* out[row]: whether it is one of the `n` that are drawn. */
static bool *draw(const ls_data *data, int64_t n)
{
    uint32_t *order = ls_alloc(data->context, (size_t)data->rows, sizeof *order, "the order of the images");
    bool *out = order ? ls_alloc(data->context, (size_t)data->rows, sizeof *out, "the images held out") : NULL;
    const ls_random_stream stream = {data->seed, LS_FOR_VALIDATION, 0, 0};
    if (out) {
        ls_random_permutation(&stream, order, (uint32_t)data->rows);
        for (int64_t i = 0; i < n; i++)
            out[order[i]] = true;
    }
    ls_release(data->context, order);
    return out;
}

/* Room for n rows of what there is beside the images. */
static ls_status reserve_beside(ls_context *context, const ls_images *of, ls_images *held, int64_t n)
{
    held->targets.shape = of->targets.shape;
    if (of->targets.values)
        held->targets.values = ls_field_room(context, &of->targets, n);
    for (held->n_more = 0; held->n_more < of->n_more; held->n_more++) {
        const ls_field *field = &of->more[held->n_more];
        held->more[held->n_more] = (ls_field){ls_field_room(context, field, n), field->shape};
    }
    if (of->wide_labels) {
        ls_release(context, held->labels);
        held->labels = NULL;
        held->wide_labels = ls_alloc(context, (size_t)n, sizeof *held->wide_labels, "the labels");
    }
    return ls_context_status(context);
}

/* Data of those that are drawn. */
static ls_data *copy_out(const ls_data *data, const bool *out, int64_t n)
{
    const ls_images *of = &data->of;
    ls_images held = {.rows = n,
                      .rank = of->rank,
                      .channels = of->channels,
                      .height = of->height,
                      .width = of->width,
                      .classes = of->classes,
                      .floats = of->floats};
    ls_status status = ls_images_reserve(data->context, &held, LS_BAD_SHAPE, "ls_data_hold_out");
    if (status == LS_OK)
        status = reserve_beside(data->context, of, &held, n);
    if (status == LS_OK && of->names && !(held.names = copy_names(data)))
        status = LS_OUT_OF_MEMORY;
    if (status != LS_OK) {
        ls_images_release(data->context, &held);
        return NULL;
    }
    for (int64_t row = 0, place = 0; row < data->rows; row++)
        if (out[row])
            copy_row(of, row, &held, place++);
    return ls_data_new(data->context, data->seed, &held, &(ls_loader){.batch = data->batch});
}

ls_data *ls_data_split(ls_data *data, int64_t n)
{
    if (ls_data_whole(data, "ls_data_hold_out") != LS_OK)
        return NULL;
    if (n < 1 || n >= data->rows) {
        ls_raise(data->context, LS_BAD_ARGUMENT,
                 "ls_data_hold_out: %lld of %lld images; needs at least 1, and as many left", (long long)n,
                 (long long)data->rows);
        return NULL;
    }
    if (ls_data_fills_batch(data->context, data->rows - n, data->batch, data->drop_last) != LS_OK)
        return NULL;
    if (data->counted.holders > 1 || data->epoch || data->position) {
        ls_raise(data->context, LS_BAD_ARGUMENT,
                 "ls_data_hold_out: the data are in use; hold images out before the first batch");
        return NULL;
    }
    bool *out = draw(data, n);
    ls_data *held = out ? copy_out(data, out, n) : NULL;
    if (held) {
        int64_t place = 0;
        for (int64_t row = 0; row < data->rows; row++)
            if (!out[row])
                copy_row(&data->of, row, &data->of, place++);
        ls_data_shorten(data, place);
    }
    ls_release(data->context, out);
    return held;
}
