#include "data/cifar.h"
#include "base/file.h"

#include <string.h>
#include <unistd.h>

enum { SIDE = 32, CHANNELS = 3, PIXELS = CHANNELS * SIDE * SIDE, MOST_FILES = 5, MOST_LABELS = 2, AT_ONCE = 64 };

struct ls_cifar {
    const char *title, *archive;
    int labels; /* of a record; the last one counts */
    int classes, coarse;
    const char *files[2][MOST_FILES + 1];
    const char *const *names; /* [classes] */
};

static const char *const names_10[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                       "dog",      "frog",       "horse", "ship", "truck"};

static const char *const names_100[] = {
    "apple",      "aquarium_fish", "baby",         "bear",       "beaver",      "bed",         "bee",
    "beetle",     "bicycle",       "bottle",       "bowl",       "boy",         "bridge",      "bus",
    "butterfly",  "camel",         "can",          "castle",     "caterpillar", "cattle",      "chair",
    "chimpanzee", "clock",         "cloud",        "cockroach",  "couch",       "crab",        "crocodile",
    "cup",        "dinosaur",      "dolphin",      "elephant",   "flatfish",    "forest",      "fox",
    "girl",       "hamster",       "house",        "kangaroo",   "keyboard",    "lamp",        "lawn_mower",
    "leopard",    "lion",          "lizard",       "lobster",    "man",         "maple_tree",  "motorcycle",
    "mountain",   "mouse",         "mushroom",     "oak_tree",   "orange",      "orchid",      "otter",
    "palm_tree",  "pear",          "pickup_truck", "pine_tree",  "plain",       "plate",       "poppy",
    "porcupine",  "possum",        "rabbit",       "raccoon",    "ray",         "road",        "rocket",
    "rose",       "sea",           "seal",         "shark",      "shrew",       "skunk",       "skyscraper",
    "snail",      "snake",         "spider",       "squirrel",   "streetcar",   "sunflower",   "sweet_pepper",
    "table",      "tank",          "telephone",    "television", "tiger",       "tractor",     "train",
    "trout",      "tulip",         "turtle",       "wardrobe",   "whale",       "willow_tree", "wolf",
    "woman",      "worm"};

const ls_cifar ls_cifar_10 = {.title = "CIFAR-10",
                              .archive = "cifar-10-batches-bin",
                              .labels = 1,
                              .classes = 10,
                              .files = {[LS_TRAIN] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                                      "data_batch_4.bin", "data_batch_5.bin"},
                                        [LS_TEST] = {"test_batch.bin"}},
                              .names = names_10};

const ls_cifar ls_cifar_100 = {.title = "CIFAR-100",
                               .archive = "cifar-100-binary",
                               .labels = 2,
                               .classes = 100,
                               .coarse = 20,
                               .files = {[LS_TRAIN] = {"train.bin"}, [LS_TEST] = {"test.bin"}},
                               .names = names_100};

/* One file of a part. */
typedef struct opened {
    char *path;
    int fd;
    int64_t records;
} opened;

typedef struct reading {
    ls_context *context;
    const ls_cifar *set;
    opened files[MOST_FILES];
    int n;
} reading;

static bool is_there(ls_context *context, const char *directory, const char *name)
{
    char *path = ls_format(context, "a path", "%s/%s", directory, name);
    bool there = path && ls_file_is_there(path);
    ls_release(context, path);
    return there;
}

/* The folder with the part's files: the one that was named, or the archive's in it. NULL without memory. */
static char *find(ls_context *context, const ls_cifar *set, const char *directory, ls_part part)
{
    char *inner = ls_format(context, "a path", "%s/%s", directory, set->archive);
    if (inner && !is_there(context, directory, set->files[part][0]) && is_there(context, inner, set->files[part][0]))
        return inner;
    ls_release(context, inner);
    return ls_copy_string(context, directory, "a path");
}

static ls_status open_file(reading *r, const char *directory, const char *name)
{
    opened *file = &r->files[r->n];
    const int record = r->set->labels + PIXELS;
    int64_t bytes;
    file->path = ls_format(r->context, "a path", "%s/%s", directory, name);
    file->fd = file->path ? ls_file_open(r->context, file->path, &bytes) : -1;
    if (file->fd < 0) {
        ls_release(r->context, file->path);
        return ls_context_status(r->context);
    }
    r->n++;
    file->records = bytes / record;
    if (bytes == 0)
        return ls_raise(r->context, LS_BAD_FILE, "%s: the file is empty; fetch it again", file->path);
    if (bytes % record == 0)
        return LS_OK;
    const ls_cifar *other = r->set == &ls_cifar_10 ? &ls_cifar_100 : &ls_cifar_10;
    if (bytes % (other->labels + PIXELS) == 0)
        return ls_raise(r->context, LS_BAD_FILE, "%s: holds records of %s, not of %s", file->path, other->title,
                        r->set->title);
    return ls_raise(r->context, LS_BAD_FILE,
                    "%s: its %lld bytes are no whole number of %s's records of %d; it was cut off, fetch it again",
                    file->path, (long long)bytes, r->set->title, record);
}

static ls_status check_label(const reading *r, const opened *file, int64_t record, const unsigned char *labels)
{
    const bool coarse = r->set->labels == MOST_LABELS && labels[0] >= r->set->coarse;
    const int label = coarse ? labels[0] : labels[r->set->labels - 1];
    const int classes = coarse ? r->set->coarse : r->set->classes;
    if (label < classes)
        return LS_OK;
    return ls_raise(r->context, LS_BAD_FILE,
                    "%s: %slabel %d of image %lld is not one of 0 to %d; the file is of another data set, or damaged",
                    file->path, coarse ? "the coarse " : "", label, (long long)record, classes - 1);
}

/* The records of a file, images and labels from number `first` on. */
static ls_status read_records(const reading *r, const opened *file, ls_images *images, int64_t first)
{
    const size_t record = (size_t)r->set->labels + PIXELS;
    unsigned char *piece = ls_alloc(r->context, AT_ONCE, record, "a file's records");
    ls_status status = piece ? LS_OK : ls_context_status(r->context);
    for (int64_t at = 0; at < file->records && status == LS_OK; at += AT_ONCE) {
        int64_t n = file->records - at < AT_ONCE ? file->records - at : AT_ONCE;
        status = ls_file_read(r->context, file->fd, file->path, at * (int64_t)record, piece, (size_t)n * record);
        for (int64_t i = 0; i < n && status == LS_OK; i++) {
            const unsigned char *labels = piece + (size_t)i * record;
            status = check_label(r, file, at + i, labels);
            images->labels[first + at + i] = labels[r->set->labels - 1];
            memcpy((uint8_t *)images->values + (size_t)(first + at + i) * PIXELS, labels + r->set->labels, PIXELS);
        }
    }
    ls_release(r->context, piece);
    return status;
}

ls_status ls_cifar_read(ls_context *context, const ls_cifar *set, const char *directory, ls_part part,
                        ls_images *images)
{
    reading r = {.context = context, .set = set};
    *images = (ls_images){.channels = CHANNELS, .height = SIDE, .width = SIDE, .classes = set->classes};
    char *folder = find(context, set, directory, part);
    ls_status status = ls_context_status(context);
    if (status == LS_OK && !is_there(context, folder, set->files[part][0]))
        status =
            ls_raise(context, LS_IO, "%s is not in %s: there is no %s; put the files of its binary version (%s) there",
                     set->title, directory, set->files[part][0], set->archive);
    for (int i = 0; set->files[part][i] && status == LS_OK; i++) {
        status = open_file(&r, folder, set->files[part][i]);
        images->rows += status == LS_OK ? r.files[i].records : 0;
    }
    if (status == LS_OK)
        status = ls_images_reserve(context, images, LS_BAD_FILE, set->title);
    int64_t first = 0;
    for (int i = 0; i < r.n && status == LS_OK; first += r.files[i++].records)
        status = read_records(&r, &r.files[i], images, first);
    for (int i = 0; i < r.n; i++) {
        close(r.files[i].fd);
        ls_release(context, r.files[i].path);
    }
    ls_release(context, folder);
    return status == LS_OK ? ls_images_name(context, images, set->names) : status;
}
