/* Data sets of a session, from files and from its program. */
#include <stdio.h>
#include <string.h>
#include <lockstep_data.h>

#include "base/environment.h"
#include "data/augment.h"
#include "data/dataset.h"
#include "data/picture.h"
#include "data/split.h"
#include "graph/tensor.h"

static void release_data(void *data)
{
    ls_data_free(data);
}

/* Hands a data set to the session. */
static ls_data *own(ls_session *session, ls_data *data)
{
    if (data)
        data->session = session;
    return ls_own(session, data, release_data);
}

ls_data *ls_data_open(ls_session *session, const char *name, ls_part part, const ls_loader *loader)
{
    LS_OWN_ENVIRONMENT;
    if (!session || ls_failed(session))
        return NULL;
    return own(session, ls_dataset_open(&session->context, session->options.seed, name, part, loader));
}

ls_data *ls_data_fashion_mnist(ls_session *session, ls_part part, const ls_loader *loader)
{
    LS_OWN_ENVIRONMENT;
    return ls_data_open(session, "fashion-mnist", part, loader);
}

ls_data *ls_data_from_memory(ls_session *session, const uint8_t *images, const uint8_t *labels, int64_t rows,
                             int channels, int height, int width, int classes, const ls_loader *loader)
{
    LS_OWN_ENVIRONMENT;
    if (!session || ls_failed(session))
        return NULL;
    ls_context *context = &session->context;
    int64_t size = 1, bytes;
    if (!images || rows < 1 || rows > INT32_MAX || channels < 1 || height < 1 || width < 1 || classes < 0 ||
        classes > LS_BYTE_CLASSES || __builtin_mul_overflow((int64_t)channels * height, (int64_t)width, &size) ||
        __builtin_mul_overflow(size, rows, &bytes)) {
        ls_raise(context, LS_BAD_ARGUMENT, "ls_data_from_memory: images (%lld, %d, %d, %d) with %d classes",
                 (long long)rows, channels, height, width, classes);
        return NULL;
    }
    if (!labels != !classes) {
        ls_raise(context, LS_BAD_ARGUMENT,
                 "ls_data_from_memory: labels are %s, and there are %d classes; without labels it is 0",
                 labels ? "given" : "NULL", classes);
        return NULL;
    }
    for (int64_t i = 0; labels && i < rows; i++)
        if (labels[i] >= classes) {
            ls_raise(context, LS_BAD_ARGUMENT,
                     "ls_data_from_memory: the label of row %lld is %d; of %d classes labels are 0 to %d", (long long)i,
                     labels[i], classes, classes - 1);
            return NULL;
        }
    ls_images copied = {.rows = rows, .channels = channels, .height = height, .width = width, .classes = classes};
    if (ls_images_reserve(context, &copied, LS_BAD_SHAPE, "ls_data_from_memory") != LS_OK) {
        ls_images_release(context, &copied);
        return NULL;
    }
    memcpy(copied.values, images, (size_t)bytes);
    if (labels)
        memcpy(copied.labels, labels, (size_t)rows);
    return own(session, ls_data_new(context, session->options.seed, &copied, loader));
}

/* Sizes of one image from a shape of rank 2 to 4; those that it has not are 1. */
static ls_status take_shape(ls_session *session, ls_images *images, const ls_shape *given, const char *function)
{
    const ls_shape taken = ls_shape_of_inputs(*given), *shape = &taken;
    bool good = shape->rank >= 2 && shape->rank <= LS_MAX_RANK;
    for (int i = 0; i < shape->rank && good; i++)
        good = shape->dim[i] >= 1 && shape->dim[i] <= INT32_MAX;
    if (!good)
        return ls_raise(&session->context, LS_BAD_SHAPE,
                        "%s: the shape must be (rows), (rows, features), (rows, tokens, features) or (rows, channels, "
                        "height, width), of at least 1 each",
                        function);
    ls_shape_image(shape, &images->channels, &images->height, &images->width);
    images->rows = shape->dim[0];
    images->rank = shape->rank;
    images->floats = true;
    return LS_OK;
}

ls_data *ls_data_from_floats(ls_session *session, const float *values, ls_shape shape, const ls_loader *loader)
{
    LS_OWN_ENVIRONMENT;
    static const char *const function = "ls_data_from_floats";
    if (!session || ls_failed(session))
        return NULL;
    ls_context *context = &session->context;
    ls_images copied = {.rank = 0};
    if (!values)
        ls_raise(context, LS_BAD_ARGUMENT, "%s: values is NULL", function);
    else if (take_shape(session, &copied, &shape, function) == LS_OK &&
             ls_images_reserve(context, &copied, LS_BAD_SHAPE, function) == LS_OK) {
        const int64_t numbers = ls_shape_numbers(&shape);
        if (ls_rows_finite(context, function, values, shape.dim[0], numbers / shape.dim[0]) == LS_OK)
            memcpy(copied.values, values, (size_t)numbers * sizeof *values);
    }
    if (!ls_failed(session))
        return own(session, ls_data_new(context, session->options.seed, &copied, loader));
    ls_images_release(context, &copied);
    return NULL;
}

/* ---- From a function ---- */

static ls_status check_source(ls_session *session, const ls_source *source, const ls_loader *loader)
{
    static const char *const function = "ls_data_from_function";
    ls_context *context = &session->context;
    if (!source || !source->fill)
        return ls_raise(context, LS_BAD_ARGUMENT, "%s: the source, or its function, is NULL", function);
    if (loader && (loader->shuffle || ls_augments(&loader->augment)))
        return ls_raise(context, LS_BAD_ARGUMENT,
                        "%s: the loader shuffles or changes images, which is the function's to do", function);
    const int64_t rows = source->shape.dim[0];
    const bool targets = source->targets.rank != 0;
    if (targets ? source->classes || !ls_field_fits(&source->targets, 1, rows)
                : source->classes < 1 || source->classes > LS_MOST_CLASSES)
        return ls_raise(
            context, LS_BAD_ARGUMENT,
            "%s: the source has either 1 to %d classes, or targets (rows, ...) of as many rows as its shape "
            "and of 1 to %d numbers each",
            function, LS_MOST_CLASSES, LS_MOST_PIXELS);
    bool good = source->n_more >= 0 && source->n_more < LS_MAX_INPUTS;
    for (int i = 0; good && i < source->n_more; i++)
        good = ls_field_fits(&source->more[i], 1, rows);
    if (!good)
        return ls_raise(context, LS_BAD_ARGUMENT,
                        "%s: the source has 0 to %d inputs more, (rows, ...) of as many rows as its shape and of 1 to "
                        "%d numbers each",
                        function, LS_MAX_INPUTS - 1, LS_MOST_PIXELS);
    return LS_OK;
}

ls_data *ls_data_from_function(ls_session *session, const ls_source *source, const ls_loader *loader)
{
    LS_OWN_ENVIRONMENT;
    if (!session || ls_failed(session) || check_source(session, source, loader) != LS_OK)
        return NULL;
    ls_context *context = &session->context;
    ls_images images = {.classes = source->classes, .targets = {.shape = source->targets}};
    if (take_shape(session, &images, &source->shape, "ls_data_from_function") != LS_OK)
        return NULL;
    for (; images.n_more < source->n_more; images.n_more++)
        images.more[images.n_more].shape = ls_shape_of_inputs(source->more[images.n_more]);
    images.filling = ls_alloc(context, 1, sizeof *images.filling, "a source of data");
    if (!images.filling)
        return NULL;
    images.filling->source = *source;
    snprintf(images.filling->name, sizeof images.filling->name, "%s", source->name ? source->name : "a function");
    images.filling->source.name = NULL; /* the caller's */
    return own(session, ls_data_new(context, session->options.seed, &images, loader));
}

ls_data *ls_data_hold_out(ls_data *data, int64_t images)
{
    LS_OWN_ENVIRONMENT;
    if (!data || !data->session || ls_failed(data->session))
        return NULL;
    return own(data->session, ls_data_split(data, images));
}

ls_status ls_read_picture(ls_session *session, const char *path, int channels, int height, int width, uint8_t *pixels)
{
    LS_OWN_ENVIRONMENT;
    if (!session || ls_failed(session))
        return session ? ls_status_of(session) : LS_BAD_ARGUMENT;
    if (!path || !pixels || (channels != 1 && channels != LS_COLOURS) || height < 1 || width < 1 ||
        (int64_t)height * width > LS_MOST_PIXELS)
        return ls_raise(&session->context, LS_BAD_ARGUMENT,
                        "ls_read_picture: %s as %d x %d x %d; a picture has 1 channel or %d, and at most %d pixels",
                        path ? path : "(null)", channels, height, width, LS_COLOURS, LS_MOST_PIXELS);
    return ls_picture_fit(&session->context, path, channels, height, width, pixels);
}
