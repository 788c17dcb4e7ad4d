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
    const char *names;
};

const ls_cifar ls_cifar_10 = {.title = "CIFAR-10",
                              .archive = "cifar-10-batches-bin",
                              .labels = 1,
                              .classes = 10,
                              .files = {[LS_TRAIN] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                                      "data_batch_4.bin", "data_batch_5.bin"},
                                        [LS_TEST] = {"test_batch.bin"}},
                              .names = "airplane\0automobile\0bird\0cat\0deer\0dog\0frog\0horse\0ship\0truck"};

const ls_cifar ls_cifar_100 = {
    .title = "CIFAR-100",
    .archive = "cifar-100-binary",
    .labels = 2,
    .classes = 100,
    .coarse = 20,
    .files = {[LS_TRAIN] = {"train.bin"}, [LS_TEST] = {"test.bin"}},
    .names =
        "apple\0aquarium_"
        "fish\0baby\0bear\0beaver\0bed\0bee\0beetle\0bicycle\0bottle\0bowl\0boy\0bridge\0bus\0butterfly\0"
        "camel\0can\0castle\0caterpillar\0cattle\0chair\0chimpanzee\0clock\0cloud\0cockroach\0couch\0crab\0crocodile\0c"
        "up\0"
        "dinosaur\0dolphin\0elephant\0flatfish\0forest\0fox\0girl\0hamster\0house\0kangaroo\0keyboard\0lamp\0lawn_"
        "mower\0"
        "leopard\0lion\0lizard\0lobster\0man\0maple_tree\0motorcycle\0mountain\0mouse\0mushroom\0oak_"
        "tree\0orange\0orchid\0"
        "otter\0palm_tree\0pear\0pickup_truck\0pine_"
        "tree\0plain\0plate\0poppy\0porcupine\0possum\0rabbit\0raccoon\0ray\0"
        "road\0rocket\0rose\0sea\0seal\0shark\0shrew\0skunk\0skyscraper\0snail\0snake\0spider\0squirrel\0streetcar\0"
        "sunflower\0sweet_pepper\0table\0tank\0telephone\0television\0tiger\0tractor\0train\0trout\0tulip\0turtle\0"
        "wardrobe\0whale\0willow_tree\0wolf\0woman\0worm"};

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
    bool there = path && access(path, F_OK) == 0;
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
                    "%s: %slabel %d of image %lld is not one of 0 to %d; the file is damaged, fetch it again",
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
