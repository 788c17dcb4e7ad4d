#include "data/npy.h"
#include "base/file.h"
#include "base/file_kind.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { PREFIX = 8 /* magic and version */, LONGEST_HEADER = 1 << 16, LONGEST_DESCR = 8, PIECE = 1 << 16 };

/* ---- The header: a Python dictionary of three entries ---- */

typedef struct text {
    const char *at, *end;
} text;

static void skip_spaces(text *t)
{
    while (t->at < t->end && strchr(" \t\r\n", *t->at) && *t->at)
        t->at++;
}

/* Takes a character behind spaces if it is there. */
static bool take(text *t, char c)
{
    skip_spaces(t);
    if (t->at == t->end || *t->at != c)
        return false;
    t->at++;
    return true;
}

static bool take_word(text *t, const char *word)
{
    size_t length = strlen(word);
    skip_spaces(t);
    if ((size_t)(t->end - t->at) < length || memcmp(t->at, word, length) != 0)
        return false;
    t->at += length;
    return true;
}

/* A string in quotes of either kind, without escapes. */
static bool take_string(text *t, char into[], size_t size)
{
    skip_spaces(t);
    if (t->at == t->end || (*t->at != '\'' && *t->at != '"'))
        return false;
    const char quote = *t->at++, *begin = t->at;
    while (t->at < t->end && *t->at != quote && *t->at != '\\')
        t->at++;
    size_t length = (size_t)(t->at - begin);
    if (t->at == t->end || *t->at != quote || length >= size)
        return false;
    memcpy(into, begin, length);
    into[length] = '\0';
    t->at++;
    return true;
}

/* Digits; an L may follow, as Python 2 wrote them. Numbers that do not fit are refused. */
static bool take_number(text *t, int64_t *value)
{
    skip_spaces(t);
    const char *begin = t->at;
    *value = 0;
    for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++)
        if (__builtin_mul_overflow(*value, (int64_t)10, value) ||
            __builtin_add_overflow(*value, (int64_t)(*t->at - '0'), value))
            return false;
    const bool some = t->at > begin;
    if (some && t->at < t->end && *t->at == 'L')
        t->at++;
    return some;
}

/* (a, b, ...); more dimensions than an ls_npy has are counted. */
static bool take_shape(text *t, ls_npy *array)
{
    if (!take(t, '('))
        return false;
    for (array->rank = 0; !take(t, ')');) {
        int64_t size;
        if (!take_number(t, &size))
            return false;
        if (array->rank < LS_NPY_DIMENSIONS)
            array->dim[array->rank] = size;
        array->rank++;
        if (take(t, ','))
            continue;
        return take(t, ')') && array->rank > 1; /* of one number the comma belongs to it */
    }
    return true;
}

/* Everything but what `descr` means. */
static bool take_header(text *t, char descr[LONGEST_DESCR], bool *fortran, ls_npy *array)
{
    unsigned seen = 0;
    if (!take(t, '{'))
        return false;
    while (!take(t, '}')) {
        char key[16];
        if (!take_string(t, key, sizeof key) || !take(t, ':'))
            return false;
        unsigned bit = strcmp(key, "descr") == 0           ? 1
                       : strcmp(key, "fortran_order") == 0 ? 2
                       : strcmp(key, "shape") == 0         ? 4
                                                           : 0;
        if (!bit || seen & bit)
            return false;
        seen |= bit;
        if (bit == 1 && !take_string(t, descr, LONGEST_DESCR))
            return false;
        if (bit == 2 && !(*fortran = take_word(t, "True")) && !take_word(t, "False"))
            return false;
        if (bit == 4 && !take_shape(t, array))
            return false;
        if (!take(t, ',')) {
            if (!take(t, '}'))
                return false;
            break;
        }
    }
    skip_spaces(t);
    return seen == 7 && t->at == t->end;
}

/* "|u1", "<f4", ...: false for what is not understood. */
static bool read_descr(const char *descr, ls_npy *array)
{
    if (strlen(descr) != 3 || !strchr("<|", descr[0]) || !strchr("uif", descr[1]) || !strchr("1248", descr[2]))
        return false;
    array->kind = descr[1];
    array->size = descr[2] - '0';
    return array->kind != 'f' || array->size == 4 || array->size == 8;
}

static ls_status parse(ls_context *context, const char *path, text t, ls_npy *array)
{
    char descr[LONGEST_DESCR] = "", shown[LONGEST_DESCR];
    bool fortran = false;
    if (!take_header(&t, descr, &fortran, array))
        return ls_raise(context, LS_BAD_FILE,
                        "%s: the header is none of a plain array (descr, fortran_order and shape); save it again with "
                        "numpy.save",
                        path);
    if (!read_descr(descr, array))
        return ls_raise(context, LS_BAD_FILE,
                        "%s: holds numbers of the type '%s'; save them as uint8, float32 or (labels) int64", path,
                        ls_printable(descr, shown, sizeof shown));
    if (fortran)
        return ls_raise(context, LS_BAD_FILE, "%s: is in Fortran's order; save numpy.ascontiguousarray of it", path);
    return LS_OK;
}

/* The numbers have to be all there, and nothing else. */
static ls_status check_length(ls_context *context, const char *path, int64_t bytes, const ls_npy *array)
{
    int64_t numbers = array->size;
    bool fits = array->rank <= LS_NPY_DIMENSIONS;
    for (int i = 0; i < array->rank && fits; i++)
        fits = !__builtin_mul_overflow(numbers, array->dim[i], &numbers);
    if (array->rank > LS_NPY_DIMENSIONS)
        return ls_raise(context, LS_BAD_FILE, "%s: has %d dimensions; at most %d are understood", path, array->rank,
                        LS_NPY_DIMENSIONS);
    if (!fits || numbers > bytes - array->begin)
        return ls_raise(context, LS_BAD_FILE, "%s: announces more than the file's %lld bytes; it was cut off", path,
                        (long long)bytes);
    if (numbers < bytes - array->begin)
        return ls_raise(context, LS_BAD_FILE, "%s: goes on behind the announced numbers", path);
    return LS_OK;
}

ls_status ls_npy_read_header(ls_context *context, int fd, const char *path, int64_t bytes, ls_npy *array)
{
    unsigned char prefix[PREFIX + 4] = {0};
    *array = (ls_npy){.kind = 0};
    size_t most = bytes < (int64_t)sizeof prefix ? (size_t)bytes : sizeof prefix;
    ls_status status = ls_file_read(context, fd, path, 0, prefix, most);
    if (status != LS_OK)
        return status;
    const char *is = ls_file_kind_text(ls_file_kind_of(prefix, most));
    if (memcmp(prefix, "\x93NUMPY", 6) != 0)
        return ls_raise(context, LS_BAD_FILE, "%s: not a .npy file%s%s; save it with numpy.save", path,
                        is ? " but " : "", is ? is : "");
    const int major = prefix[6], width = major == 1 ? 2 : 4;
    if (major < 1 || major > 3)
        return ls_raise(context, LS_BAD_FILE, "%s: version %d of the .npy format is not known", path, major);
    uint64_t length = (uint64_t)prefix[8] | (uint64_t)prefix[9] << 8;
    if (width == 4)
        length |= (uint64_t)prefix[10] << 16 | (uint64_t)prefix[11] << 24;
    if (bytes < PREFIX + width || length > (uint64_t)(bytes - PREFIX - width))
        return ls_raise(context, LS_BAD_FILE, "%s: the header is cut off", path);
    if (length > LONGEST_HEADER)
        return ls_raise(context, LS_BAD_FILE, "%s: a header of %llu bytes is none of a plain array", path,
                        (unsigned long long)length);
    array->begin = PREFIX + width + (int64_t)length;
    char *header = ls_alloc(context, (size_t)length, 1, "a header");
    status =
        header ? ls_file_read(context, fd, path, PREFIX + width, header, (size_t)length) : ls_context_status(context);
    if (status == LS_OK)
        status = parse(context, path, (text){header, header + length}, array);
    if (status == LS_OK)
        status = check_length(context, path, bytes, array);
    ls_release(context, header);
    return status;
}

/* ---- A data set ---- */

typedef struct opened {
    ls_context *context;
    char *path;
    int fd;
    ls_npy array;
} opened;

static ls_status open_array(opened *o, ls_context *context, const char *directory, const char *letter, const char *part)
{
    int64_t bytes = 0;
    *o = (opened){.context = context, .fd = -1};
    o->path = ls_format(context, "a path", "%s/%s_%s.npy", directory, letter, part);
    if (o->path && !ls_file_is_there(o->path))
        return ls_raise(context, LS_IO,
                        "%s: is not there; a data set of arrays is X_train.npy, y_train.npy, X_test.npy and y_test.npy",
                        o->path);
    if (o->path)
        o->fd = ls_file_open(context, o->path, &bytes);
    if (o->fd < 0)
        return ls_context_status(context);
    return ls_npy_read_header(context, o->fd, o->path, bytes, &o->array);
}

static void close_array(opened *o)
{
    if (o->fd >= 0)
        close(o->fd);
    ls_release(o->context, o->path);
}

/* The label in `size` little-endian bytes; -1 for one that no byte holds. */
static int label_of(const unsigned char *bytes, int size)
{
    for (int i = 1; i < size; i++)
        if (bytes[i])
            return -1;
    return bytes[0];
}

/* A signed byte is a label up to 127 only. */
static bool good_label(int label, const ls_npy *array)
{
    return label >= 0 && (array->size > 1 || array->kind == 'u' || label < 128);
}

/* Looks at all labels, and puts them into `labels` where that is not NULL. *classes grows to what the largest asks
 * for. */
static ls_status read_labels(const opened *o, uint8_t *labels, int *classes)
{
    const ls_npy *array = &o->array;
    if (array->kind == 'f' || array->rank != 1 || array->dim[0] < 1)
        return ls_raise(o->context, LS_BAD_FILE, "%s: labels are whole numbers in one dimension, (N)", o->path);
    unsigned char *piece = ls_alloc(o->context, PIECE, 1, "labels");
    ls_status status = piece ? LS_OK : ls_context_status(o->context);
    const int64_t at_once = PIECE / array->size;
    for (int64_t at = 0; at < array->dim[0] && status == LS_OK; at += at_once) {
        int64_t n = array->dim[0] - at < at_once ? array->dim[0] - at : at_once;
        status =
            ls_file_read(o->context, o->fd, o->path, array->begin + at * array->size, piece, (size_t)(n * array->size));
        for (int64_t i = 0; i < n && status == LS_OK; i++) {
            int label = label_of(piece + i * array->size, array->size);
            if (!good_label(label, array))
                status = ls_raise(o->context, LS_BAD_FILE, "%s: the label of image %lld is not one of 0 to %d", o->path,
                                  (long long)(at + i), LS_BYTE_CLASSES - 1);
            else if (label >= *classes)
                *classes = label + 1;
            if (labels && status == LS_OK)
                labels[at + i] = (uint8_t)label;
        }
    }
    ls_release(o->context, piece);
    return status;
}

/* What the other part's labels ask for, where there are any: both parts have the same classes. */
static ls_status look_at_other(ls_context *context, const char *directory, const char *part, int *classes)
{
    char *path = ls_format(context, "a path", "%s/y_%s.npy", directory, part);
    bool there = path && ls_file_is_there(path);
    ls_release(context, path);
    if (!there)
        return ls_context_status(context);
    opened y;
    ls_status status = open_array(&y, context, directory, "y", part);
    if (status == LS_OK)
        status = read_labels(&y, NULL, classes);
    close_array(&y);
    return status;
}

/* (N, C, H, W) or (N, H, W). */
static ls_status take_images(const opened *x, ls_images *images)
{
    const ls_npy *array = &x->array;
    const int64_t *size = array->dim + array->rank - 2;
    const bool floats = array->kind == 'f' && array->size == 4;
    if (!floats && (array->kind != 'u' || array->size != 1))
        return ls_raise(x->context, LS_BAD_FILE, "%s: images are uint8 or float32; save them with .astype", x->path);
    if (array->rank < 3)
        return ls_raise(x->context, LS_BAD_FILE, "%s: has %d dimensions; images are (N, C, H, W) or (N, H, W)", x->path,
                        array->rank);
    for (int i = 0; i < array->rank; i++)
        if (array->dim[i] < 1 || array->dim[i] > INT32_MAX)
            return ls_raise(x->context, LS_BAD_FILE, "%s: a dimension of %lld is more, or less, than can be meant",
                            x->path, (long long)array->dim[i]);
    images->floats = floats;
    images->rows = array->dim[0];
    images->channels = array->rank == 4 ? (int)array->dim[1] : 1;
    images->height = (int)size[0];
    images->width = (int)size[1];
    return LS_OK;
}

static ls_status check_finite(const opened *x, const ls_images *images)
{
    const int64_t image = (int64_t)images->channels * images->height * images->width;
    const float *values = images->values;
    for (int64_t i = 0; images->floats && i < images->rows * image; i++)
        if (!isfinite(values[i]))
            return ls_raise(x->context, LS_BAD_FILE, "%s: image %lld holds a number that is not finite", x->path,
                            (long long)(i / image));
    return LS_OK;
}

static ls_status read_part(const opened *x, const opened *y, ls_images *images)
{
    ls_status status = take_images(x, images);
    if (status != LS_OK)
        return status;
    if (images->rows != y->array.dim[0] && y->array.rank == 1)
        return ls_raise(x->context, LS_BAD_FILE, "%s: holds %lld images, but there are %lld labels", x->path,
                        (long long)images->rows, (long long)y->array.dim[0]);
    images->classes = 1; /* so far */
    if ((status = ls_images_reserve(x->context, images, LS_BAD_FILE, x->path)) != LS_OK)
        return status;
    const size_t image = (size_t)images->channels * (size_t)images->height * (size_t)images->width;
    status = ls_file_read(x->context, x->fd, x->path, x->array.begin, images->values,
                          (size_t)images->rows * image * (size_t)x->array.size);
    if (status == LS_OK)
        status = check_finite(x, images);
    return status == LS_OK ? read_labels(y, images->labels, &images->classes) : status;
}

ls_status ls_npy_read(ls_context *context, const char *directory, ls_part part, ls_images *images)
{
    static const char *const parts[] = {[LS_TRAIN] = "train", [LS_TEST] = "test"};
    opened x, y = {.context = context, .fd = -1};
    *images = (ls_images){.values = NULL};
    ls_status status = open_array(&x, context, directory, "X", parts[part]);
    if (status == LS_OK)
        status = open_array(&y, context, directory, "y", parts[part]);
    if (status == LS_OK)
        status = read_part(&x, &y, images);
    if (status == LS_OK)
        status = look_at_other(context, directory, parts[part == LS_TRAIN ? LS_TEST : LS_TRAIN], &images->classes);
    close_array(&x);
    close_array(&y);
    return status;
}
