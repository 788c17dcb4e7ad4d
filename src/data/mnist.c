#include "data/mnist.h"
#include "data/idx.h"

#include <stdlib.h>
#include <string.h>

enum { SIDE = 28, CLASSES = 10, MOST_OF_EMNIST = 62 /* classes */ };

static const char *const IMAGES[] = {[LS_TRAIN] = "train-images-idx3-ubyte", [LS_TEST] = "t10k-images-idx3-ubyte"};
static const char *const LABELS[] = {[LS_TRAIN] = "train-labels-idx1-ubyte", [LS_TEST] = "t10k-labels-idx1-ubyte"};

static const char *const digits[CLASSES] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
static const char *const articles[CLASSES] = {"T-shirt", "Trouser", "Pullover", "Dress", "Coat",
                                              "Sandal",  "Shirt",   "Sneaker",  "Bag",   "Boot"};

/* Both sets have the same files, so that one can be taken for the other: `first` are the labels that they begin
 * with. */
struct ls_mnist {
    const char *name, *title, *instead;
    const char *system;       /* a folder, or NULL */
    const char *within;       /* where torchvision puts the files, below the folder that it is told */
    const char *const *names; /* of the classes */
    uint8_t first[2][CLASSES];
};
const ls_mnist ls_mnist_digits = {.name = "mnist",
                                  .title = "MNIST",
                                  .instead = "",
                                  .within = "/MNIST/raw",
                                  .names = digits,
                                  .first = {{5, 0, 4, 1, 9, 2, 1, 3, 1, 4}, {7, 2, 1, 0, 4, 1, 4, 9, 5, 9}}};
const ls_mnist ls_mnist_fashion = {.name = "fashion-mnist",
                                   .title = "Fashion-MNIST",
                                   .instead =
                                       ", install the package dataset-fashion-mnist, or run `lockstep data fetch`",
                                   .system = "/usr/share/datasets/fashion-mnist",
                                   .within = "/FashionMNIST/raw",
                                   .names = articles,
                                   .first = {{9, 0, 0, 3, 0, 2, 7, 2, 5, 5}, {9, 2, 1, 1, 6, 1, 4, 6, 5, 7}}};

char *ls_mnist_cache(ls_context *context, const ls_mnist *set)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0] == '/')
        return ls_format(context, "a path", "%s/lockstep/%s", cache, set->name);
    if (home && home[0] == '/')
        return ls_format(context, "a path", "%s/.cache/lockstep/%s", home, set->name);
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

/* The folder itself, or the one below it that torchvision makes; NULL where neither has the part. */
static char *folder_with_part(ls_context *context, const ls_mnist *set, const char *directory, ls_part part)
{
    const char *const within[] = {"", "/raw", set->within};
    for (int i = 0; directory && i < 3; i++) {
        char *folder = ls_format(context, "a path", "%s%s", directory, within[i]);
        if (!folder || has_part(context, folder, part))
            return folder;
        ls_release(context, folder);
    }
    return NULL;
}

static void raise_absent(ls_context *context, const ls_mnist *set, const char *looked)
{
    ls_raise(context, LS_IO,
             "%s is not in %s; put train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
             "t10k-labels-idx1-ubyte there (as they are or as .gz), or name the folder in which torchvision made %s%s",
             set->title, looked, set->within + 1, set->instead);
}

/* Where the other part is there. */
static void raise_half(ls_context *context, const ls_mnist *set, ls_part part, const char *folder)
{
    static const char *const words[] = {[LS_TRAIN] = "training", [LS_TEST] = "test"};
    ls_raise(context, LS_IO,
             "%s has the %s files of %s, but not the %s files: put %s and %s there too (as they are or as .gz)", folder,
             words[part == LS_TRAIN ? LS_TEST : LS_TRAIN], set->title, words[part], IMAGES[part], LABELS[part]);
}

/* Where it was looked for, in words; NULL without memory. */
static char *places(ls_context *context, const ls_mnist *set, const char *cache)
{
    const char *system = set->system ? set->system : "", *between = set->system && cache ? " nor in " : "";
    const char *last = cache ? cache : set->system ? "" : "any folder";
    return ls_format(context, "a message", "%s%s%s ($LOCKSTEP_DATA is not set)", system, between, last);
}

/* A directory that was named, by the caller or in the environment, is the only one looked at: data from elsewhere would
 * be a wrong result that nobody sees. */
char *ls_mnist_directory(ls_context *context, const ls_mnist *set, ls_part part, const char *named)
{
    const char *from = named ? "" : " ($LOCKSTEP_DATA)";
    named = ls_data_directory(named);
    char *cache = named ? NULL : ls_mnist_cache(context, set);
    char *found = folder_with_part(context, set, named ? named : set->system, part);
    if (!found)
        found = folder_with_part(context, set, cache, part);
    char *half = found ? NULL : folder_with_part(context, set, named, part == LS_TRAIN ? LS_TEST : LS_TRAIN);
    char *looked = found   ? NULL
                   : named ? ls_format(context, "a message", "%s%s", named, from)
                           : places(context, set, cache);
    if (half)
        raise_half(context, set, part, half);
    else if (looked)
        raise_absent(context, set, looked);
    ls_release(context, half);
    ls_release(context, looked);
    ls_release(context, cache);
    return found;
}

/* A part's two files, as they were found. */
typedef struct files {
    char *images, *labels;
} files;

/* The path of a file that is there, or of the one that is missing. */
static char *file_path(ls_context *context, const char *directory, const char *name)
{
    char *path = ls_format(context, "a path", "%s/%s", directory, name);
    char *found = path ? ls_idx_find(context, path) : NULL;
    if (!found)
        return path;
    ls_release(context, path);
    return found;
}

/* The published sets are of a length that others seldom have. */
static ls_status check_not(ls_context *context, const ls_mnist *other, const files *at, ls_part part,
                           const ls_idx *labels)
{
    if (labels->count != (part == LS_TRAIN ? 60000 : 10000) || memcmp(labels->values, other->first[part], CLASSES) != 0)
        return LS_OK;
    return ls_raise(context, LS_BAD_FILE, "%s: these are the labels of %s; say so (%s), or name another folder",
                    at->labels, other->title, other->name);
}

/* EMNIST has files of this form with up to 62 classes; a damaged file has any byte. */
static ls_status check_labels(ls_context *context, const ls_mnist *set, const char *path, const ls_idx *labels)
{
    int64_t first = labels->count;
    int largest = 0;
    for (int64_t i = labels->count - 1; i >= 0; i--) {
        if (labels->values[i] >= CLASSES)
            first = i;
        largest = labels->values[i] > largest ? labels->values[i] : largest;
    }
    if (first == labels->count)
        return LS_OK;
    return ls_raise(
        context, LS_BAD_FILE,
        "%s: label %d of image %lld, but %s has the %d classes 0 to %d; labels up to %d are those of another "
        "data set, such as EMNIST%s; more classes can be read as arrays (npy)",
        path, labels->values[first], (long long)first, set->title, CLASSES, CLASSES - 1, largest,
        largest < MOST_OF_EMNIST ? "" : ", or of a damaged file");
}

static ls_status check_part(ls_context *context, const ls_mnist *set, const files *at, const ls_idx *images,
                            const ls_idx *labels)
{
    if (images->height != SIDE || images->width != SIDE)
        return ls_raise(context, LS_BAD_FILE,
                        "%s: holds images of %d x %d where %d x %d belong; it is another data set", at->images,
                        images->height, images->width, SIDE, SIDE);
    if (images->count != labels->count)
        return ls_raise(
            context, LS_BAD_FILE,
            "%s: holds %lld images, but %s holds %lld labels; they do not belong together, fetch both again",
            at->images, (long long)images->count, strrchr(at->labels, '/') + 1, (long long)labels->count);
    return check_labels(context, set, at->labels, labels);
}

ls_status ls_mnist_read(ls_context *context, const ls_mnist *set, const char *directory, ls_part part,
                        ls_images *images)
{
    const ls_mnist *other = set == &ls_mnist_digits ? &ls_mnist_fashion : &ls_mnist_digits;
    ls_idx pixels = {0}, labels = {0};
    files at = {file_path(context, directory, IMAGES[part]), file_path(context, directory, LABELS[part])};
    ls_status status = ls_context_status(context);
    if (status == LS_OK)
        status = ls_idx_read(context, at.images, LS_IDX_IMAGES, &pixels);
    if (status == LS_OK)
        status = ls_idx_read(context, at.labels, LS_IDX_LABELS, &labels);
    if (status == LS_OK)
        status = check_part(context, set, &at, &pixels, &labels);
    if (status == LS_OK)
        status = check_not(context, other, &at, part, &labels);
    ls_release(context, at.images);
    ls_release(context, at.labels);
    *images = (ls_images){.values = pixels.values,
                          .labels = labels.values,
                          .rows = pixels.count,
                          .channels = 1,
                          .height = SIDE,
                          .width = SIDE,
                          .classes = CLASSES};
    return status == LS_OK ? ls_images_name(context, images, set->names) : status;
}
