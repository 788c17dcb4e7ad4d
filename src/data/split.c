#include "data/split.h"
#include "base/random.h"

#include <string.h>
#include <lockstep_data.h>

static size_t size_of(const ls_images *of)
{
    const size_t pixels = (size_t)of->channels * (size_t)of->height * (size_t)of->width;
    return of->floats ? pixels * sizeof(float) : pixels;
}

static void copy_row(const ls_images *from, int64_t row, ls_images *to, int64_t place)
{
    const size_t size = size_of(from);
    memmove((char *)to->values + (size_t)place * size, (const char *)from->values + (size_t)row * size, size);
    to->labels[place] = from->labels[row];
    const size_t targets = from->targets ? (size_t)ls_images_targets(from) : 0;
    if (targets)
        memmove(to->targets + (size_t)place * targets, from->targets + (size_t)row * targets, targets * sizeof(float));
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

/* Data of those that are drawn. */
static ls_data *copy_out(const ls_data *data, const bool *out, int64_t n)
{
    const ls_images *of = &data->of;
    ls_images held = {.rows = n,
                      .channels = of->channels,
                      .height = of->height,
                      .width = of->width,
                      .classes = of->classes,
                      .floats = of->floats};
    ls_status status = ls_images_reserve(data->context, &held, LS_BAD_SHAPE, "ls_data_hold_out");
    held.target = of->target;
    if (status == LS_OK && of->targets) {
        held.targets = ls_alloc(data->context, (size_t)n * (size_t)ls_images_targets(of), sizeof(float), "the targets");
        status = held.targets ? LS_OK : LS_OUT_OF_MEMORY;
    }
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
    if (n < 1 || n >= data->rows) {
        ls_raise(data->context, LS_BAD_ARGUMENT,
                 "ls_data_hold_out: %lld of %lld images; needs at least 1, and as many left", (long long)n,
                 (long long)data->rows);
        return NULL;
    }
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
