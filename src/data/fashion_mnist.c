#include "data/fashion_mnist.h"
#include "data/idx.h"

#include <stdlib.h>
#include <string.h>

enum { SIDE = 28, CLASSES = 10 };

static const char SYSTEM_DIRECTORY[] = "/usr/share/datasets/fashion-mnist";
static const char *const IMAGES[] = {[LS_TRAIN] = "train-images-idx3-ubyte", [LS_TEST] = "t10k-images-idx3-ubyte"};
static const char *const LABELS[] = {[LS_TRAIN] = "train-labels-idx1-ubyte", [LS_TEST] = "t10k-labels-idx1-ubyte"};

char *ls_data_cache(ls_context *context)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0] == '/')
        return ls_format(context, "a path", "%s/lockstep/fashion-mnist", cache);
    if (home && home[0] == '/')
        return ls_format(context, "a path", "%s/.cache/lockstep/fashion-mnist", home);
    return NULL;
}

static bool has_file(ls_context *context, const char *directory, const char *name)
{
    char *path = ls_format(context, "a path", "%s/%s", directory, name);
    char *found = path ? ls_idx_find(context, path) : NULL;
    bool has = found != NULL;
    ls_release(context, found);
    ls_release(context, path);
    return has;
}

/* One of a part's two files is enough: the other's absence is then said by its own name. */
static bool has_part(ls_context *context, const char *directory, ls_part part)
{
    return directory && (has_file(context, directory, IMAGES[part]) || has_file(context, directory, LABELS[part]));
}

static void raise_absent(ls_context *context, const char *looked)
{
    ls_raise(
        context, LS_IO,
        "Fashion-MNIST is not in %s; put train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
        "t10k-labels-idx1-ubyte there (as they are or as .gz), install the package dataset-fashion-mnist, or run "
        "`lockstep data fetch`",
        looked);
}

/* A directory that was named, by the caller or in the environment, is the only one looked at: data from elsewhere would be a wrong
 * result that nobody sees. */
char *ls_data_directory(ls_context *context, ls_part part, const char *named)
{
    const char *variable = getenv("LOCKSTEP_DATA");
    const char *from = named ? "" : " ($LOCKSTEP_DATA)";
    named = named ? named : variable && variable[0] ? variable : NULL;
    char *cache = named ? NULL : ls_data_cache(context);
    const char *found = NULL;
    if (named ? has_part(context, named, part) : has_part(context, SYSTEM_DIRECTORY, part))
        found = named ? named : SYSTEM_DIRECTORY;
    else if (has_part(context, cache, part))
        found = cache;
    char *directory = found ? ls_copy_string(context, found, "a path") : NULL;
    char *looked = found   ? NULL
                   : named ? ls_format(context, "a message", "%s%s", named, from)
                           : ls_format(context, "a message", "%s%s%s ($LOCKSTEP_DATA is not set)", SYSTEM_DIRECTORY,
                                       cache ? " nor in " : "", cache ? cache : "");
    if (looked)
        raise_absent(context, looked);
    ls_release(context, looked);
    ls_release(context, cache);
    return directory;
}

static ls_status check_part(ls_context *context, const char *directory, ls_part part, const ls_idx *images,
                            const ls_idx *labels)
{
    if (images->height != SIDE || images->width != SIDE)
        return ls_raise(context, LS_BAD_FILE,
                        "%s/%s: holds images of %d x %d where %d x %d belong; it is another data set", directory,
                        IMAGES[part], images->height, images->width, SIDE, SIDE);
    if (images->count != labels->count)
        return ls_raise(
            context, LS_BAD_FILE,
            "%s: %s holds %lld images, but %s holds %lld labels; they do not belong together, fetch both again",
            directory, IMAGES[part], (long long)images->count, LABELS[part], (long long)labels->count);
    for (int64_t i = 0; i < labels->count; i++)
        if (labels->values[i] >= CLASSES)
            return ls_raise(context, LS_BAD_FILE,
                            "%s/%s: label %d of image %lld is not one of 0 to %d; the file is damaged, fetch it again",
                            directory, LABELS[part], labels->values[i], (long long)i, CLASSES - 1);
    return LS_OK;
}

static ls_status read_file(ls_context *context, const char *directory, const char *name, ls_idx_kind kind, ls_idx *idx)
{
    char *path = ls_format(context, "a path", "%s/%s", directory, name);
    ls_status status = path ? ls_idx_read(context, path, kind, idx) : ls_context_status(context);
    ls_release(context, path);
    return status;
}

ls_data *ls_data_open_fashion_mnist(ls_context *context, uint64_t seed, ls_part part, const ls_loader *loader)
{
    if (ls_context_status(context) != LS_OK)
        return NULL;
    if (part != LS_TRAIN && part != LS_TEST) {
        ls_raise(context, LS_BAD_ARGUMENT, "ls_fashion_mnist: part %d is neither LS_TRAIN nor LS_TEST", (int)part);
        return NULL;
    }
    char *directory = ls_data_directory(context, part, loader ? loader->directory : NULL);
    ls_idx images = {0}, labels = {0};
    ls_status status = ls_context_status(context); /* a search that ran out of memory may have found another place */
    if (status == LS_OK)
        status = read_file(context, directory, IMAGES[part], LS_IDX_IMAGES, &images);
    if (status == LS_OK)
        status = read_file(context, directory, LABELS[part], LS_IDX_LABELS, &labels);
    if (status == LS_OK)
        status = check_part(context, directory, part, &images, &labels);
    ls_release(context, directory);
    if (status == LS_OK)
        return ls_data_new(context, seed, images.values, labels.values, images.count, 1, SIDE, SIDE, CLASSES, loader);
    ls_release(context, images.values);
    ls_release(context, labels.values);
    return NULL;
}
