#include "data/folder.h"
#include "data/faults.h"
#include "data/picture.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Names ---- */

typedef struct names {
    char **at;
    int n, capacity;
} names;

static void release_names(ls_context *context, names *list)
{
    for (int i = 0; i < list->n; i++)
        ls_release(context, list->at[i]);
    ls_release(context, list->at);
    *list = (names){.n = 0};
}

static ls_status add_name(ls_context *context, names *list, const char *name)
{
    if (list->n == INT32_MAX / 2)
        return ls_raise(context, LS_BAD_FILE, "%s: one file too many; a folder may have %d", name, INT32_MAX / 2);
    char **larger = ls_grow(context, list->at, list->n, &list->capacity, 64, sizeof *list->at, "a folder's names");
    char *copy = larger ? ls_copy_string(context, name, "a folder's names") : NULL;
    list->at = larger ? larger : list->at;
    if (!copy)
        return ls_context_status(context);
    list->at[list->n++] = copy;
    return LS_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int place_of(const names *list, const char *name)
{
    char **found = list->n ? bsearch(&name, list->at, (size_t)list->n, sizeof *list->at, by_bytes) : NULL;
    return found ? (int)(found - list->at) : -1;
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* What a folder is listed for: a part's classes, beside which a picture has none; a class's pictures, beside which a
 * folder is one level too deep; or the names of its folders, whatever lies beside them. */
typedef enum wanted { CLASSES, PICTURES, FOLDERS } wanted;

/* One entry of a folder. What is neither wanted nor out of place is passed over. */
static ls_status take_entry(ls_faults *faults, const char *path, const char *name, wanted what, names *list)
{
    ls_context *context = faults->context;
    char *full = ls_format(context, "a path", "%s/%s", path, name);
    if (!full)
        return ls_context_status(context);
    ls_status status = LS_OK;
    const bool folder = is_folder(full), picture = !folder && ls_is_picture(name);
    if (folder && what == PICTURES)
        ls_raise(&faults->aside, LS_BAD_FILE, "%s: a folder inside a class; images lie in the class's folder itself",
                 full);
    else if (picture && what == CLASSES)
        ls_raise(&faults->aside, LS_BAD_FILE, "%s: an image without a class; put it into a folder of the class's name",
                 full);
    else if (folder || (picture && what == PICTURES))
        status = add_name(context, list, name);
    ls_release(context, full);
    return status == LS_OK ? ls_faults_take(faults) : status;
}

/* In byte order. Names that begin with a dot are passed over. */
static ls_status list_folder(ls_faults *faults, const char *path, wanted what, names *list)
{
    ls_context *context = faults->context;
    DIR *folder = opendir(path);
    if (!folder)
        return ls_raise(context, LS_IO, "%s: cannot be read: %s", path, strerror(errno));
    ls_status status = LS_OK;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (!entry)
            break;
        if (entry->d_name[0] != '.' && (status = take_entry(faults, path, entry->d_name, what, list)) != LS_OK)
            break;
    }
    if (status == LS_OK && errno != 0)
        status = ls_raise(context, LS_IO, "%s: cannot be read: %s", path, strerror(errno));
    closedir(folder);
    if (list->n)
        qsort(list->at, (size_t)list->n, sizeof *list->at, by_bytes);
    return status;
}

/* ---- Pictures ---- */

/* The file that is read, and what the first picture of all has settled. */
typedef struct reader {
    ls_context *context;
    ls_images *images;
    unsigned char *bytes; /* [room] of a file */
    size_t room;
    int64_t row; /* of the picture among the images */
    char *first; /* path of the picture that decides; NULL before it is known */
    ls_faults *faults;
} reader;

/* The first picture decides for all of both parts. */
static ls_status settle(reader *r, const ls_picture *picture)
{
    r->first = ls_copy_string(r->context, picture->path, "a path");
    r->images->channels = picture->colour ? LS_COLOURS : 1;
    r->images->height = picture->height;
    r->images->width = picture->width;
    return r->first ? LS_OK : ls_context_status(r->context);
}

static ls_status check_alike(const reader *r, const ls_picture *picture)
{
    const ls_images *images = r->images;
    if (picture->height != images->height || picture->width != images->width)
        return ls_raise(
            picture->context, LS_BAD_FILE,
            "%s: %d pixels wide and %d high, but %s, the first image, which decides for all, is %d wide and "
            "%d high; make all of one size, such as with `mogrify -resize %dx%d!`",
            picture->path, picture->width, picture->height, r->first, images->width, images->height, images->width,
            images->height);
    if (picture->colour && images->channels == 1)
        return ls_raise(picture->context, LS_BAD_FILE,
                        "%s: in colour, but %s, the first image, which decides for all, is grey; make both alike, such "
                        "as with `mogrify -type TrueColor` or `mogrify -colorspace gray`",
                        picture->path, r->first);
    return LS_OK;
}

/* What is wrong with it is raised aside. */
static ls_status decode_picture(reader *r, const char *path, uint8_t *pixels)
{
    ls_picture picture;
    ls_context *aside = &r->faults->aside;
    ls_status status = ls_picture_read(aside, path, &r->bytes, &r->room, &picture);
    ls_decoder *decoder = status == LS_OK ? ls_decoder_of(&picture) : NULL;
    if (!decoder || (status = decoder(&picture, 0, NULL)) != LS_OK)
        return ls_context_status(aside);
    if (!r->first && (status = settle(r, &picture)) != LS_OK)
        return status;
    if ((status = check_alike(r, &picture)) != LS_OK || !pixels)
        return status;
    if (picture.turned && r->images->turned++ == 0)
        r->images->first_turned = r->row;
    return decoder(&picture, r->images->channels, pixels);
}

/* Reads a picture; `pixels` NULL: only looks at it, to settle what all are like. One with a fault is passed over. */
static ls_status read_picture(reader *r, const char *path, uint8_t *pixels)
{
    decode_picture(r, path, pixels);
    ls_count_work(r->context);
    return ls_faults_take(r->faults);
}

/* ---- A part ---- */

typedef struct part_folder {
    ls_context *context;
    char *path;
    names classes;
    names *files; /* [classes.n] */
    ls_faults *faults;
    int looked; /* at the first images, up to one without a fault */
} part_folder;

static void release_part(part_folder *p)
{
    for (int i = 0; p->files && i < p->classes.n; i++)
        release_names(p->context, &p->files[i]);
    ls_release(p->context, p->files);
    release_names(p->context, &p->classes);
    ls_release(p->context, p->path);
    *p = (part_folder){.context = p->context};
}

/* Lists the images of the first `most` classes that have any. */
static ls_status list_part(part_folder *p, int most)
{
    ls_context *context = p->context;
    ls_status status = list_folder(p->faults, p->path, CLASSES, &p->classes);
    if (status == LS_OK && p->classes.n == 0 && p->faults->count)
        status = ls_faults_raise(p->faults, p->path);
    if (status == LS_OK && p->classes.n == 0)
        status = ls_raise(context, LS_BAD_FILE, "%s: there is no folder in it; each class has one, with its images",
                          p->path);
    if (status == LS_OK && p->classes.n > LS_BYTE_CLASSES)
        status = ls_raise(context, LS_BAD_FILE, "%s: %d folders; at most %d classes are possible", p->path,
                          p->classes.n, LS_BYTE_CLASSES);
    if (status != LS_OK)
        return status;
    p->files = ls_alloc(context, (size_t)p->classes.n, sizeof *p->files, "a folder's names");
    status = p->files ? LS_OK : ls_context_status(context);
    for (int i = 0, with = 0; i < p->classes.n && with < most && status == LS_OK; i++) {
        char *path = ls_format(context, "a path", "%s/%s", p->path, p->classes.at[i]);
        status = path ? list_folder(p->faults, path, PICTURES, &p->files[i]) : ls_context_status(context);
        with += p->files[i].n > 0;
        ls_release(context, path);
    }
    return status;
}

static char *path_of(const part_folder *p, int label, int i)
{
    return ls_format(p->context, "a path", "%s/%s/%s", p->path, p->classes.at[label], p->files[label].at[i]);
}

/* What the first of a part's images settles that has no fault; failing where there is none, for the faults in `faulty`.
 */
static ls_status look_at_first(reader *r, part_folder *p, const char *faulty)
{
    ls_status status = LS_OK;
    for (int label = 0; label < p->classes.n; label++)
        for (int i = 0; i < p->files[label].n && !r->first && status == LS_OK; i++, p->looked++) {
            char *path = path_of(p, label, i);
            status = path ? read_picture(r, path, NULL) : ls_context_status(r->context);
            ls_release(r->context, path);
        }
    if (r->first || status != LS_OK)
        return status;
    if (p->faults->count)
        return ls_faults_raise(p->faults, faulty);
    return ls_raise(r->context, LS_BAD_FILE, "%s: there is no PNG or JPEG file in its folders", p->path);
}

/* Every class of the test part is one of the training part's. */
static ls_status check_classes(const part_folder *p, const names *classes)
{
    ls_status status = LS_OK;
    for (int i = 0; i < p->classes.n && status == LS_OK; i++) {
        if (place_of(classes, p->classes.at[i]) < 0)
            ls_raise(&p->faults->aside, LS_BAD_FILE, "%s/%s: there is no such class among the training images", p->path,
                     p->classes.at[i]);
        status = ls_faults_take(p->faults);
    }
    return status;
}

/* Reads a part's images from place `from` on: into the images, or only to learn of faults. */
static ls_status read_pictures(reader *r, const part_folder *p, const names *classes, int from, bool keep)
{
    ls_status status = LS_OK;
    const ls_images *images = r->images;
    const size_t image = (size_t)images->channels * (size_t)images->height * (size_t)images->width;
    int64_t row = 0;
    for (int label = 0; label < p->classes.n; label++)
        for (int i = 0; i < p->files[label].n && status == LS_OK; i++, row++) {
            if (row < from)
                continue;
            char *path = path_of(p, label, i);
            if (keep)
                images->labels[row] = (uint8_t)place_of(classes, p->classes.at[label]);
            r->row = row;
            status = path ? read_picture(r, path, (uint8_t *)images->values + (keep ? (size_t)row * image : 0))
                          : ls_context_status(r->context);
            ls_release(r->context, path);
        }
    return status;
}

/* Images with faults that were found on the look for the first one are not read again. */
static ls_status read_images(reader *r, const part_folder *p, const names *classes)
{
    ls_images *images = r->images;
    for (int i = 0; i < p->classes.n; i++)
        images->rows += p->files[i].n;
    images->classes = classes->n;
    ls_status status = ls_images_reserve(r->context, images, LS_BAD_FILE, p->path);
    return status == LS_OK ? read_pictures(r, p, classes, p->looked - 1, true) : status;
}

/* DIRECTORY/train; DIRECTORY/test, or the first that is there of what others call it. */
static char *part_path(ls_context *context, const char *directory, ls_part part)
{
    static const char *const others[] = {"val", "valid", "validation"};
    char *path = ls_format(context, "a path", "%s/%s", directory, part == LS_TRAIN ? "train" : "test");
    for (size_t i = 0; part == LS_TEST && path && !is_folder(path) && i < sizeof others / sizeof *others; i++) {
        char *other = ls_format(context, "a path", "%s/%s", directory, others[i]);
        bool there = other && is_folder(other);
        ls_release(context, there ? path : other);
        path = there ? other : path;
    }
    return path;
}

/* No folder of the part's name: what is there in its place may be the same by another. */
static ls_status refuse_absent(ls_faults *faults, const char *directory, const char *path)
{
    enum { MOST_SHOWN = 8 };
    char shown[400] = "";
    names list = {.n = 0};
    ls_status status = is_folder(directory) ? list_folder(faults, directory, FOLDERS, &list) : LS_OK;
    for (int i = 0; i < list.n && i < MOST_SHOWN; i++) {
        size_t length = strlen(shown);
        snprintf(shown + length, sizeof shown - length, "%s%.40s", i ? ", " : "; its folders are ", list.at[i]);
    }
    if (status == LS_OK)
        status = ls_raise(faults->context, LS_IO,
                          "%s: is no folder; a data set of images is train/CLASS/IMAGE and test/CLASS/IMAGE in %s%s%s",
                          path, directory, shown, list.n > MOST_SHOWN ? ", ..." : "");
    release_names(faults->context, &list);
    return status;
}

/* Reads the test part after a look at the training part, whose classes and first image it shares. */
static ls_status read_test(reader *r, part_folder *test, part_folder *train, const char *directory)
{
    ls_status status = is_folder(train->path) ? list_part(train, 1) : LS_OK;
    if (status == LS_OK && train->classes.n)
        status = look_at_first(r, train, train->path);
    const char *faulty = r->faults->count ? directory : test->path; /* the training part has some, or it alone */
    if (status == LS_OK && train->classes.n)
        status = check_classes(test, &train->classes);
    if (status == LS_OK && !r->first)
        status = look_at_first(r, test, faulty);
    const names *classes = train->classes.n ? &train->classes : &test->classes;
    if (status == LS_OK)
        status = read_images(r, test, classes);
    if (status == LS_OK)
        status = ls_faults_raise(r->faults, faulty);
    return status == LS_OK ? ls_images_name(r->context, r->images, (const char *const *)classes->at) : status;
}

/* Where images of the training part have faults, those of the test part are looked at too: whoever mends them learns of
 * all in one run. What is read goes over an image that is lost anyway. */
static ls_status raise_faults(reader *r, part_folder *test, const part_folder *train, const char *directory)
{
    const int64_t own = r->faults->count;
    ls_status status = LS_OK;
    if (own && is_folder(test->path))
        status = list_part(test, LS_BYTE_CLASSES);
    if (status == LS_OK)
        status = check_classes(test, &train->classes);
    if (status == LS_OK)
        status = read_pictures(r, test, &train->classes, 0, false);
    return status == LS_OK ? ls_faults_raise(r->faults, r->faults->count > own ? directory : train->path) : status;
}

static ls_status read_train(reader *r, part_folder *train, part_folder *test, const char *directory)
{
    ls_status status = LS_OK;
    for (int i = 0; i < train->classes.n && status == LS_OK; i++) {
        if (!train->files[i].n)
            ls_raise(&r->faults->aside, LS_BAD_FILE, "%s/%s: there is no PNG or JPEG file in it", train->path,
                     train->classes.at[i]);
        status = ls_faults_take(r->faults);
    }
    if (status == LS_OK)
        status = look_at_first(r, train, train->path);
    if (status == LS_OK)
        status = read_images(r, train, &train->classes);
    if (status == LS_OK)
        status = raise_faults(r, test, train, directory);
    return status == LS_OK ? ls_images_name(r->context, r->images, (const char *const *)train->classes.at) : status;
}

ls_status ls_folder_read(ls_context *context, const char *directory, ls_part part, const ls_loader *loader,
                         ls_images *images)
{
    *images = (ls_images){.values = NULL};
    ls_faults faults;
    ls_status status = ls_faults_begin(&faults, context, loader);
    reader r = {.context = context, .images = images, .faults = &faults};
    part_folder test = {.context = context, .path = part_path(context, directory, LS_TEST), .faults = &faults};
    part_folder train = {.context = context, .path = part_path(context, directory, LS_TRAIN), .faults = &faults};
    part_folder *own = part == LS_TRAIN ? &train : &test;
    if (status == LS_OK)
        status = ls_context_status(context);
    if (status == LS_OK && !is_folder(own->path))
        status = refuse_absent(&faults, directory, own->path);
    if (status == LS_OK)
        status = list_part(own, LS_BYTE_CLASSES);
    if (status == LS_OK)
        status = part == LS_TRAIN ? read_train(&r, &train, &test, directory) : read_test(&r, &test, &train, directory);
    release_part(&test);
    release_part(&train);
    ls_release(context, r.bytes);
    ls_release(context, r.first);
    ls_faults_end(&faults);
    return status;
}
