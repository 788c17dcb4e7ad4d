#include "data/data.h"
#include "base/hash.h"
#include "base/random.h"

#include <stdio.h>

enum { DEFAULT_BATCH = 256, MOST_CLASSES = 256, MOST_PIXELS = 1 << 20 };

static ls_status check(ls_context *context, const uint8_t *labels, int64_t rows, int channels, int height, int width,
                       int classes, const ls_loader *loader)
{
    if (rows < 1 || rows > INT32_MAX || channels < 1 || height < 1 || width < 1 ||
        (int64_t)height * width > MOST_PIXELS || channels > MOST_PIXELS / (height * width))
        return ls_raise(context, LS_BAD_SHAPE,
                        "data: %lld images of %d x %d x %d; needs 1 to %d images of 1 to %d values each",
                        (long long)rows, channels, height, width, INT32_MAX, MOST_PIXELS);
    if (classes < 1 || classes > MOST_CLASSES)
        return ls_raise(context, LS_BAD_ARGUMENT, "data: %d classes; a label is a byte, so 1 to %d are possible",
                        classes, MOST_CLASSES);
    if (loader->batch < 0)
        return ls_raise(context, LS_BAD_ARGUMENT, "data: a batch of %d images; needs at least 1", loader->batch);
    if (loader->limit < 0)
        return ls_raise(context, LS_BAD_ARGUMENT, "data: a limit of %lld images; needs at least 1, or 0 for all",
                        (long long)loader->limit);
    for (int64_t i = 0; i < rows; i++)
        if (labels[i] >= classes)
            return ls_raise(context, LS_BAD_ARGUMENT, "data: label %d of image %lld is not below %d classes", labels[i],
                            (long long)i, classes);
    return LS_OK;
}

static void file_order(ls_data *data)
{
    for (int64_t i = 0; i < data->rows; i++)
        data->order[i] = (uint32_t)i;
    data->ordered = -1;
}

static void release(void *object)
{
    ls_data *data = object;
    ls_context *context = data->context;
    ls_release(context, data->images);
    ls_release(context, data->labels);
    ls_release(context, data->order);
    ls_release(context, data);
}

ls_data *ls_data_new(ls_context *context, uint64_t seed, uint8_t *images, uint8_t *labels, int64_t rows, int channels,
                     int height, int width, int classes, const ls_loader *loader)
{
    ls_loader none = {0};
    loader = loader ? loader : &none;
    ls_data *data = NULL;
    if (images && labels && check(context, labels, rows, channels, height, width, classes, loader) == LS_OK)
        data = ls_alloc(context, 1, sizeof *data, "the data set");
    if (!data) {
        ls_release(context, images);
        ls_release(context, labels);
        return NULL;
    }
    *data = (ls_data){.context = context,
                      .images = images,
                      .labels = labels,
                      .rows = loader->limit > 0 && loader->limit < rows ? loader->limit : rows,
                      .channels = channels,
                      .height = height,
                      .width = width,
                      .classes = classes,
                      .batch = loader->batch > 0 ? loader->batch : DEFAULT_BATCH,
                      .shuffle = loader->shuffle,
                      .seed = seed,
                      .counted = {.holders = 1, .object = data, .release = release}};
    data->order = ls_alloc(context, (size_t)data->rows, sizeof *data->order, "the order of the images");
    if (!data->order) {
        ls_data_free(data);
        return NULL;
    }
    file_order(data);
    return data;
}

void ls_data_free(ls_data *data)
{
    if (data)
        ls_counted_drop(&data->counted);
}

int64_t ls_data_rows(const ls_data *data)
{
    return data ? data->rows : 0;
}

int ls_data_batches(const ls_data *data)
{
    return data ? (int)((data->rows + data->batch - 1) / data->batch) : 0;
}

/* The order is a function of the seed, the number of images and the epoch: a run may continue anywhere. */
static void order_epoch(ls_data *data)
{
    if (!data->shuffle || data->ordered == data->epoch)
        return;
    ls_random_stream stream = {data->seed, LS_FOR_ORDER, 0, (uint64_t)data->epoch};
    ls_random_permutation(&stream, data->order, (uint32_t)data->rows);
    data->ordered = data->epoch;
}

bool ls_data_next(ls_data *data, const uint32_t **index, int *rows)
{
    if (ls_context_status(data->context) != LS_OK)
        return false;
    if (data->position == ls_data_batches(data)) {
        data->position = 0;
        data->epoch++;
        return false;
    }
    order_epoch(data);
    int64_t first = data->position++ * data->batch, left = data->rows - first;
    *index = data->order + first;
    *rows = left < data->batch ? (int)left : data->batch;
    return true;
}

ls_status ls_seek(ls_data *data, int64_t epoch, int batch)
{
    if (!data)
        return LS_BAD_ARGUMENT;
    ls_status status = ls_context_status(data->context);
    if (status != LS_OK)
        return status;
    if (epoch < 0 || epoch == INT64_MAX || batch < 0 || batch > ls_data_batches(data))
        return ls_raise(data->context, LS_BAD_ARGUMENT,
                        "ls_seek: batch %d of epoch %lld; an epoch has the batches 0 to %d (its end)", batch,
                        (long long)epoch, ls_data_batches(data));
    data->epoch = epoch;
    data->position = batch;
    return LS_OK;
}

ls_status ls_data_describe(const ls_data *data, char text[64])
{
    char shape[128], digits[65];
    int length = snprintf(shape, sizeof shape, "%lld %d %d %d %d", (long long)data->rows, data->channels, data->height,
                          data->width, data->classes);
    ls_sha256 *hash = ls_sha256_begin(data->context);
    ls_sha256_add(hash, shape, (size_t)length);
    ls_sha256_add(hash, data->images, (size_t)data->rows * data->channels * data->height * data->width);
    ls_sha256_add(hash, data->labels, (size_t)data->rows);
    ls_status status = hash ? ls_sha256_end(hash, digits) : ls_context_status(data->context);
    if (status == LS_OK)
        snprintf(text, 64, "%lld images %.16s", (long long)data->rows, digits);
    return status;
}
