#include "data/data.h"
#include "base/environment.h"
#include "base/hash.h"
#include "base/number.h"
#include "base/random.h"
#include "data/augment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_BATCH = 256 };

const char *ls_data_directory(const char *named)
{
    const char *variable = getenv("LOCKSTEP_DATA");
    return named ? named : variable && variable[0] ? variable : NULL;
}

static ls_status check_shape(ls_context *context, const ls_images *images, ls_status beyond, const char *what)
{
    if (images->rows < 1 || images->rows > INT32_MAX || images->channels < 1 || images->height < 1 ||
        images->width < 1 || (int64_t)images->height * images->width > LS_MOST_PIXELS ||
        images->channels > LS_MOST_PIXELS / (images->height * images->width))
        return ls_raise(context, beyond, "%s: %lld images of %d x %d x %d; needs 1 to %d images of 1 to %d values each",
                        what, (long long)images->rows, images->channels, images->height, images->width, INT32_MAX,
                        LS_MOST_PIXELS);
    if (images->classes < 0 || images->classes > LS_MOST_CLASSES)
        return ls_raise(context, LS_BAD_ARGUMENT, "%s: %d classes; 1 to %d are possible", what, images->classes,
                        LS_MOST_CLASSES);
    return LS_OK;
}

static ls_status check_augment(ls_context *context, const ls_augment *augment, const ls_images *images)
{
    int least = images->height < images->width ? images->height : images->width;
    if (images->rank < LS_MAX_RANK && ls_augments(augment))
        return ls_raise(context, LS_BAD_ARGUMENT,
                        "ls_loader: flip, crop and erase are for images (rows, channels, height, width); these have "
                        "%d sizes",
                        images->rank);
    if (augment->crop < 0 || augment->crop >= least)
        return ls_raise(context, LS_BAD_ARGUMENT,
                        "ls_loader: a crop of %d pixels; images of %d x %d take 0 (none) to %d", augment->crop,
                        images->height, images->width, least - 1);
    if (!(augment->erase >= 0 && augment->erase <= 1))
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_loader: erase is %g; it is a probability, from 0 (never) to 1",
                        augment->erase);
    return LS_OK;
}

ls_status ls_data_fills_batch(ls_context *context, int64_t rows, int batch, bool drop_last)
{
    if (!drop_last || rows >= batch)
        return LS_OK;
    return ls_raise(context, LS_BAD_ARGUMENT,
                    "ls_loader: %lld images fill no batch of %d, and ls_loader.drop_last leaves partial ones out",
                    (long long)rows, batch);
}

static ls_status check(ls_context *context, const ls_images *images, const ls_loader *loader)
{
    ls_status status = check_shape(context, images, LS_BAD_SHAPE, "data");
    if (status != LS_OK || (status = check_augment(context, &loader->augment, images)) != LS_OK)
        return status;
    if (!isfinite((float)loader->edge_target))
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_loader: edge_target is %g; it must be finite as a float",
                        loader->edge_target);
    if (loader->batch < 0)
        return ls_raise(context, LS_BAD_ARGUMENT, "data: a batch of %d images; needs at least 1", loader->batch);
    if (loader->limit < 0)
        return ls_raise(context, LS_BAD_ARGUMENT, "data: a limit of %lld images; needs at least 1, or 0 for all",
                        (long long)loader->limit);
    for (int64_t i = 0; ls_images_labelled(images) && i < images->rows; i++)
        if (ls_images_label(images, i) >= images->classes)
            return ls_raise(context, LS_BAD_ARGUMENT, "data: label %d of image %lld is not below %d classes",
                            ls_images_label(images, i), (long long)i, images->classes);
    return LS_OK;
}

/* Bytes of so many images; of those that passed check_shape it is below 2^53. */
static int64_t bytes_of(const ls_images *images, int64_t rows)
{
    return rows * images->channels * images->height * images->width * (images->floats ? (int64_t)sizeof(float) : 1);
}

ls_status ls_images_reserve(ls_context *context, ls_images *images, ls_status beyond, const char *what)
{
    ls_status status = check_shape(context, images, beyond, what);
    if (status != LS_OK)
        return status;
    int64_t bytes = bytes_of(images, images->rows);
    if ((uint64_t)bytes > PTRDIFF_MAX)
        return ls_raise(context, LS_OUT_OF_MEMORY, "%s: no memory for %lld bytes of images", what, (long long)bytes);
    images->values = ls_alloc(context, (size_t)bytes, 1, "the images");
    if (images->classes > 0)
        images->labels = ls_alloc(context, (size_t)images->rows, 1, "the labels");
    return ls_context_status(context);
}

ls_status ls_images_name(ls_context *context, ls_images *images, const char *const names[])
{
    size_t length = 0, at = 0;
    for (int i = 0; i < images->classes; i++)
        length += strlen(names[i]) + 1;
    images->names = ls_alloc(context, length, 1, "the names of the classes");
    for (int i = 0; images->names && i < images->classes; at += strlen(names[i++]) + 1)
        strcpy(images->names + at, names[i]);
    return images->names ? LS_OK : ls_context_status(context);
}

void ls_images_release(ls_context *context, ls_images *images)
{
    ls_release(context, images->values);
    ls_release(context, images->labels);
    ls_release(context, images->wide_labels);
    ls_release(context, images->targets.values);
    for (int i = 0; i < images->n_more; i++)
        ls_release(context, images->more[i].values);
    ls_release(context, images->names);
    ls_release(context, images->files.at);
    ls_release(context, images->filling);
    *images = (ls_images){.values = NULL};
}

ls_shape ls_images_shape(const ls_images *images, int64_t rows)
{
    ls_shape shape = {images->rank, {rows, images->channels, images->height, images->width}};
    for (int i = shape.rank; i < LS_MAX_RANK; i++)
        shape.dim[i] = 0;
    return shape;
}

static void file_order(ls_data *data)
{
    for (int64_t i = 0; i < data->rows; i++)
        data->order[i] = (uint32_t)i;
    data->ordered = -1;
}

static void release_tally(ls_data *data)
{
    if (data->tally) {
        ls_release(data->context, data->tally->summary);
        ls_release(data->context, data->tally->of_class);
    }
    ls_release(data->context, data->tally);
    data->tally = NULL;
}

static void release(void *object)
{
    ls_data *data = object;
    ls_context *context = data->context;
    ls_images_release(context, &data->of);
    release_tally(data);
    ls_release(context, data->order);
    ls_release(context, data);
}

ls_data *ls_data_new(ls_context *context, uint64_t seed, const ls_images *images, const ls_loader *loader)
{
    ls_loader none = {0};
    ls_images taken = *images;
    loader = loader ? loader : &none;
    ls_data *data = NULL;
    const int batch = loader->batch > 0 ? loader->batch : DEFAULT_BATCH;
    const int64_t rows = loader->limit > 0 && loader->limit < taken.rows ? loader->limit : taken.rows;
    if (!taken.rank)
        taken.rank = LS_MAX_RANK;
    if ((taken.values || taken.filling) && check(context, &taken, loader) == LS_OK &&
        ls_data_fills_batch(context, rows, batch, loader->drop_last) == LS_OK)
        data = ls_alloc(context, 1, sizeof *data, "the data set");
    if (!data) {
        ls_images_release(context, &taken);
        return NULL;
    }
    *data = (ls_data){.context = context,
                      .of = taken,
                      .rows = rows,
                      .augment = loader->augment,
                      .edge_target = (float)loader->edge_target,
                      .batch = batch,
                      .shuffle = loader->shuffle,
                      .drop_last = loader->drop_last,
                      .seed = seed,
                      .counted = {.holders = 1, .object = data, .release = release}};
    if (taken.filling)
        return data;
    data->order = ls_alloc(context, (size_t)data->rows, sizeof *data->order, "the order of the images");
    if (!data->order) {
        ls_data_free(data);
        return NULL;
    }
    file_order(data);
    return data;
}

/* ---- What is given beside the images ---- */

int64_t ls_field_numbers(const ls_field *field)
{
    int64_t numbers = 1;
    for (int i = 1; i < field->shape.rank; i++)
        numbers *= field->shape.dim[i];
    return numbers;
}

size_t ls_field_bytes(const ls_field *field, int64_t rows)
{
    return (size_t)rows * (size_t)ls_field_numbers(field) * sizeof *field->values;
}

float *ls_field_room(ls_context *context, const ls_field *field, int64_t rows)
{
    return ls_alloc(context, ls_field_bytes(field, rows), 1, "numbers beside the images");
}

ls_shape ls_shape_of_inputs(ls_shape shape)
{
    return shape.rank == 1 ? (ls_shape){2, {shape.dim[0], 1}} : shape;
}

bool ls_field_fits(const ls_shape *shape, int least_rank, int64_t rows)
{
    int64_t numbers = 1;
    bool good = shape->rank >= least_rank && shape->rank <= LS_MAX_RANK && shape->dim[0] == rows;
    for (int i = 1; i < shape->rank && good; i++) {
        good = shape->dim[i] > 0 && shape->dim[i] <= LS_MOST_PIXELS / numbers;
        numbers *= shape->dim[i];
    }
    return good;
}

/* What all that comes beside the images has in common. */
static ls_status check_given(const ls_data *data, const void *given, const char *function, const char *what)
{
    if (ls_data_whole(data, function) != LS_OK)
        return ls_context_status(data->context);
    if (!given)
        return ls_raise(data->context, LS_BAD_ARGUMENT, "%s: %s is NULL", function, what);
    if (data->counted.holders > 1 || data->epoch || data->position)
        return ls_raise(data->context, LS_BAD_ARGUMENT,
                        "%s: the data are in use; give them %s before the first batch (ls_data_next)", function, what);
    return LS_OK;
}

static ls_status check_shape_of_field(const ls_data *data, const ls_shape *shape, int least_rank, const char *function,
                                      const char *what)
{
    char is[128];
    if (ls_field_fits(shape, least_rank, data->rows))
        return LS_OK;
    return ls_raise(data->context, LS_BAD_SHAPE,
                    "%s: %s must be (%lld, ...) for the images that there are, and of 1 to %d numbers each; the shape "
                    "is %s",
                    function, what, (long long)data->rows, LS_MOST_PIXELS, ls_shape_text(is, sizeof is, shape));
}

static ls_status copy_field(const ls_data *data, ls_field *field, const float *values, const ls_shape *shape)
{
    ls_field copied = {.shape = *shape};
    copied.values = ls_field_room(data->context, &copied, data->rows);
    if (!copied.values)
        return ls_context_status(data->context);
    memcpy(copied.values, values, ls_field_bytes(&copied, data->rows));
    *field = copied;
    return LS_OK;
}

ls_status ls_data_whole(const ls_data *data, const char *function)
{
    if (!data->of.filling)
        return ls_context_status(data->context);
    return ls_raise(data->context, LS_UNSUPPORTED,
                    "%s: the data come from a function, batch by batch, and are never there as a whole", function);
}

ls_status ls_data_set_targets(ls_data *data, const float *targets, ls_shape shape)
{
    LS_OWN_ENVIRONMENT;
    static const char *const function = "ls_data_set_targets";
    if (!data)
        return LS_BAD_ARGUMENT;
    ls_images *of = &data->of;
    if (check_given(data, targets, function, "targets") == LS_OK && of->targets.values)
        return ls_raise(data->context, LS_BAD_ARGUMENT, "%s: the data have targets already; they are given once",
                        function);
    if (ls_context_status(data->context) != LS_OK ||
        check_shape_of_field(data, &shape, 1, function, "targets") != LS_OK)
        return ls_context_status(data->context);
    if (shape.rank > 2 && ls_moves(&data->augment) &&
        (shape.dim[shape.rank - 2] != of->height || shape.dim[shape.rank - 1] != of->width))
        return ls_raise(
            data->context, LS_BAD_SHAPE,
            "%s: flip and crop move images of %d x %d together with their targets, whose last two sizes are "
            "%lld x %lld; give targets of the images' places, or let a function make the batches "
            "(ls_data_from_function)",
            function, of->height, of->width, (long long)shape.dim[shape.rank - 2],
            (long long)shape.dim[shape.rank - 1]);
    return copy_field(data, &of->targets, targets, &shape);
}

ls_status ls_data_add_input(ls_data *data, const float *values, ls_shape shape)
{
    LS_OWN_ENVIRONMENT;
    static const char *const function = "ls_data_add_input";
    if (!data)
        return LS_BAD_ARGUMENT;
    ls_images *of = &data->of;
    if (check_given(data, values, function, "values") != LS_OK)
        return ls_context_status(data->context);
    if (of->n_more + 1 == LS_MAX_INPUTS)
        return ls_raise(data->context, LS_BAD_ARGUMENT, "%s: there are %d inputs already, as many as a network takes",
                        function, LS_MAX_INPUTS);
    ls_field *field = &of->more[of->n_more];
    shape = ls_shape_of_inputs(shape);
    if (check_shape_of_field(data, &shape, 2, function, "inputs") != LS_OK)
        return ls_context_status(data->context);
    field->shape = shape;
    ls_status status = ls_rows_finite(data->context, function, values, data->rows, ls_field_numbers(field));
    if (status == LS_OK)
        status = copy_field(data, field, values, &shape);
    of->n_more += status == LS_OK;
    return status;
}

static ls_status check_labels(const ls_data *data, const int32_t *labels, int64_t rows, int classes)
{
    static const char *const function = "ls_data_set_labels";
    if (check_given(data, labels, function, "labels") != LS_OK)
        return ls_context_status(data->context);
    if (data->of.targets.values)
        return ls_raise(data->context, LS_BAD_ARGUMENT,
                        "%s: the data have targets (ls_data_set_targets); data have those or labels, not both",
                        function);
    if (classes < 1 || classes > LS_MOST_CLASSES)
        return ls_raise(data->context, LS_BAD_ARGUMENT, "%s: %d classes; 1 to %d are possible", function, classes,
                        LS_MOST_CLASSES);
    if (rows != data->rows)
        return ls_raise(data->context, LS_BAD_SHAPE,
                        "%s: %lld labels for %lld images; give one for each, in file order", function, (long long)rows,
                        (long long)data->rows);
    for (int64_t i = 0; i < rows; i++)
        if (labels[i] < 0 || labels[i] >= classes)
            return ls_raise(
                data->context, LS_BAD_ARGUMENT,
                "%s: the label of row %lld is %d; of %d classes labels are 0 to %d: count labels from 0, or "
                "give more classes",
                function, (long long)i, labels[i], classes, classes - 1);
    return LS_OK;
}

ls_status ls_data_set_labels(ls_data *data, const int32_t *labels, int64_t rows, int classes)
{
    LS_OWN_ENVIRONMENT;
    if (!data)
        return LS_BAD_ARGUMENT;
    if (check_labels(data, labels, rows, classes) != LS_OK)
        return ls_context_status(data->context);
    const bool wide = classes > LS_BYTE_CLASSES;
    void *room = ls_alloc(data->context, (size_t)rows, wide ? sizeof *labels : 1, "the labels");
    if (!room)
        return ls_context_status(data->context);
    ls_images *of = &data->of;
    ls_release(data->context, of->labels);
    ls_release(data->context, of->wide_labels);
    ls_release(data->context, of->names);
    of->names = NULL;
    of->labels = wide ? NULL : room;
    of->wide_labels = wide ? room : NULL;
    of->classes = classes;
    release_tally(data); /* of other labels */
    for (int64_t i = 0; i < rows; i++)
        if (wide)
            of->wide_labels[i] = labels[i];
        else
            of->labels[i] = (uint8_t)labels[i];
    return LS_OK;
}

int64_t ls_first_not_finite(const float *numbers, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(numbers[i]))
            return i;
    return -1;
}

ls_status ls_rows_finite(ls_context *context, const char *function, const float *numbers, int64_t rows, int64_t each)
{
    const int64_t bad = ls_first_not_finite(numbers, rows * each);
    return bad < 0 ? LS_OK
                   : ls_raise(context, LS_BAD_ARGUMENT, "%s: row %lld holds a number that is not finite", function,
                              (long long)(bad / each));
}

void ls_data_shorten(ls_data *data, int64_t rows)
{
    data->rows = data->of.rows = rows;
    release_tally(data); /* of more images than there are now */
    file_order(data);
}

void ls_data_free(ls_data *data)
{
    if (data)
        ls_counted_drop(&data->counted);
}

size_t ls_data_bytes(const ls_data *data)
{
    return (size_t)bytes_of(&data->of, data->rows);
}

ls_status ls_data_about(const ls_data *data, ls_data_info *info)
{
    if (!data && info)
        *info = (ls_data_info){.rows = 0};
    if (!data || !info)
        return data ? ls_raise(data->context, LS_BAD_ARGUMENT, "ls_data_about: info is NULL") : LS_BAD_ARGUMENT;
    const ls_images *of = &data->of;
    *info = (ls_data_info){data->rows, of->channels, of->height, of->width, of->classes, of->floats, of->rank};
    return ls_context_status(data->context);
}

const char *ls_data_class(const ls_data *data, int label)
{
    const char *name = data && label >= 0 && label < data->of.classes ? data->of.names : NULL;
    for (int i = 0; name && i < label; i++)
        name += strlen(name) + 1;
    return name;
}

bool ls_data_reads(const ls_data *data, const char *path)
{
    LS_OWN_ENVIRONMENT;
    return data && path && ls_file_list_has(&data->of.files, path);
}

int64_t ls_data_rows(const ls_data *data)
{
    return data ? data->rows : 0;
}

int ls_data_batches(const ls_data *data)
{
    return data ? (int)((data->rows + (data->drop_last ? 0 : data->batch - 1)) / data->batch) : 0;
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

bool ls_data_take(ls_data *data, const uint32_t **index, int *rows)
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
    *index = data->order ? data->order + first : NULL;
    *rows = left < data->batch ? (int)left : data->batch;
    return true;
}

ls_status ls_data_seek(ls_data *data, int64_t epoch, int batch)
{
    LS_OWN_ENVIRONMENT;
    if (!data)
        return LS_BAD_ARGUMENT;
    ls_status status = ls_context_status(data->context);
    if (status != LS_OK)
        return status;
    if (epoch < 0 || epoch == INT64_MAX || batch < 0 || batch > ls_data_batches(data))
        return ls_raise(data->context, LS_BAD_ARGUMENT,
                        "ls_data_seek: batch %d of epoch %lld; an epoch has the batches 0 to %d (its end)", batch,
                        (long long)epoch, ls_data_batches(data));
    data->epoch = epoch;
    data->position = batch;
    return LS_OK;
}

ls_status ls_data_describe(const ls_data *data, char text[64])
{
    char shape[128], digits[65];
    const ls_images *of = &data->of;
    int length = snprintf(shape, sizeof shape, "%lld %d %d %d %d%s", (long long)data->rows, of->channels, of->height,
                          of->width, of->classes, of->floats ? " float32" : "");
    ls_sha256 *hash = ls_sha256_begin(data->context);
    ls_sha256_add(hash, shape, (size_t)length);
    if (of->filling)
        ls_sha256_add(hash, of->filling->name, strlen(of->filling->name)); /* all that is known of them */
    else
        ls_sha256_add(hash, of->values, ls_data_bytes(data));
    if (of->labels)
        ls_sha256_add(hash, of->labels, (size_t)data->rows);
    if (of->wide_labels)
        ls_sha256_add(hash, of->wide_labels, (size_t)data->rows * sizeof *of->wide_labels);
    for (int i = 0; !of->filling && i < of->n_more; i++)
        ls_sha256_add(hash, of->more[i].values, ls_field_bytes(&of->more[i], data->rows));
    if (of->targets.values)
        ls_sha256_add(hash, of->targets.values, ls_field_bytes(&of->targets, data->rows));
    ls_status status = hash ? ls_sha256_end(hash, digits) : ls_context_status(data->context);
    if (status == LS_OK)
        snprintf(text, 64, "%lld images %.16s", (long long)data->rows, digits);
    return status;
}
