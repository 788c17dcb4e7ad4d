#include "base/file.h"
#include "base/file_kind.h"
#include "base/number.h"
#include "io/dtypes.h"
#include "io/safetensors.h"
#include "io/safetensors_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if LOCKSTEP_HAVE_JANSSON

#include <jansson.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the file's values are little-endian; other machines must swap");

struct ls_safetensors {
    ls_context *context;
    char *path;
    json_t *header;      /* names, types and metadata point into it */
    unsigned char *data; /* the file behind the header */
    int64_t n_data;
    ls_saved *arrays; /* [n], by name */
    int n;
    size_t stripped; /* bytes left out in front of each name */
    char *led;       /* the names with what was put in front of them, one behind the other; NULL: nothing was */
};

/* ---- The header as JSON ------------------------------------------------------------------------------------------ */

/* A parsed value takes up to a hundred times its text. */
enum { MOST_VALUES = 1 << 19, LENGTH_BYTES = 8 /* in front, the length of the header */ };

static size_t values_at_most(const char *text, size_t length)
{
    size_t values = 0;
    for (const char *end = text + length; text < end; text++)
        values += *text == ',' || *text == '[' || *text == '{';
    return values;
}

/* What other programs keep weights in is called by its name, with what makes safetensors of it. A header begins with a
 * brace. */
static ls_status refuse_others(const ls_safetensors *file, const unsigned char *begin, size_t count)
{
    static const char torch[] =
        "; in Python: safetensors.torch.save_file(torch.load(file, map_location=\"cpu\"), new_file)";
    static const char *const mends[] = {
        [LS_FILE_TORCH_ZIP] = torch,
        [LS_FILE_PICKLE] = torch,
        [LS_FILE_NPZ] = "; in Python: safetensors.numpy.save_file(dict(numpy.load(file)), new_file)",
        [LS_FILE_NPY] = "; one array has no name, safetensors.numpy.save_file in Python gives it one",
        [LS_FILE_HDF5] = "; in Python h5py reads its arrays, and safetensors.numpy.save_file writes them",
        [LS_FILE_IMAGE] = NULL};
    ls_file_kind kind =
        count > LENGTH_BYTES && begin[LENGTH_BYTES] != '{' ? ls_file_kind_of(begin, count) : LS_FILE_OTHER;
    if (kind == LS_FILE_OTHER)
        return LS_OK;
    return ls_raise(file->context, LS_BAD_FILE, "%s: no safetensors file but %s%s", file->path, ls_file_kind_text(kind),
                    mends[kind] ? mends[kind] : "");
}

static ls_status parse_header(ls_safetensors *file, const char *text, size_t length)
{
    json_error_t error = {.line = 0}; /* which the library does not fill in whole */
    char shown[120];
    if (text[0] != '{')
        return ls_raise(file->context, LS_BAD_FILE, "%s: the header is not a JSON object; this is no safetensors file",
                        file->path);
    if (values_at_most(text, length) > MOST_VALUES)
        return ls_raise(file->context, LS_BAD_FILE, "%s: the header has more than %d values; no model has so many",
                        file->path, MOST_VALUES);
    file->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!file->header && json_error_code(&error) <= json_error_out_of_memory) /* or nothing else to blame */
        return ls_raise(file->context, LS_OUT_OF_MEMORY, "%s: no memory for its header", file->path);
    if (!file->header)
        return ls_raise(file->context, LS_BAD_FILE, "%s: the header is damaged: %s, at its byte %d", file->path,
                        ls_printable(error.text, shown, sizeof shown), error.position);
    return LS_OK;
}

static ls_status read_header(ls_safetensors *file, int fd, int64_t size)
{
    unsigned char begin[LS_FILE_BEGIN];
    const size_t count = size < LS_FILE_BEGIN ? (size_t)size : LS_FILE_BEGIN;
    if (size == 0)
        return ls_raise(file->context, LS_BAD_FILE, "%s: the file is empty", file->path);
    if (size < LENGTH_BYTES)
        return ls_raise(file->context, LS_BAD_FILE, "%s: %lld bytes are too few for a safetensors file", file->path,
                        (long long)size);
    ls_status status = ls_file_read(file->context, fd, file->path, 0, begin, count);
    if (status != LS_OK || (status = refuse_others(file, begin, count)) != LS_OK)
        return status;
    uint64_t length = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        length = length << 8 | begin[i];
    if (length == 0)
        return ls_raise(file->context, LS_BAD_FILE, "%s: the header has length 0; this is no safetensors file",
                        file->path);
    if (length > (uint64_t)size - LENGTH_BYTES)
        return ls_raise(
            file->context, LS_BAD_FILE,
            "%s: the header of %llu bytes runs past the end of the file; it is cut off or no safetensors file",
            file->path, (unsigned long long)length);
    if (length > LS_SAVED_MOST_HEADER)
        return ls_raise(file->context, LS_BAD_FILE, "%s: the header of %llu bytes is longer than the format's %d",
                        file->path, (unsigned long long)length, LS_SAVED_MOST_HEADER);
    char *text = ls_alloc(file->context, (size_t)length, 1, "a weights file's header");
    if (!text)
        return ls_context_status(file->context);
    status = ls_file_read(file->context, fd, file->path, LENGTH_BYTES, text, (size_t)length);
    if (status == LS_OK)
        status = parse_header(file, text, (size_t)length);
    ls_release(file->context, text);
    file->n_data = size - LENGTH_BYTES - (int64_t)length;
    return status;
}

/* ---- The header's content ---------------------------------------------------------------------------------------- */

/* Something wrong with one array. */
static ls_status fault(const ls_safetensors *file, const char *name, const char *what)
{
    char shown[100];
    return ls_raise(file->context, LS_BAD_FILE, "%s: the array '%s' %s", file->path,
                    ls_printable(name, shown, sizeof shown), what);
}

static ls_status read_shape(const ls_safetensors *file, const json_t *shape, ls_saved *saved)
{
    if (!json_is_array(shape))
        return fault(file, saved->name, "has no shape");
    if (json_array_size(shape) > LS_SAVED_RANK)
        return fault(file, saved->name, "has more than 8 dimensions");
    saved->rank = (int)json_array_size(shape);
    saved->numbers = 1;
    for (int i = 0; i < saved->rank; i++) {
        const json_t *length = json_array_get(shape, (size_t)i);
        if (!json_is_integer(length) || json_integer_value(length) < 0)
            return fault(file, saved->name, "has a shape that is not made of whole numbers");
        saved->shape[i] = json_integer_value(length);
        if (__builtin_mul_overflow(saved->numbers, saved->shape[i], &saved->numbers))
            return fault(file, saved->name, "has a shape whose product is out of range");
    }
    return LS_OK;
}

static ls_status read_place(const ls_safetensors *file, const json_t *offsets, int64_t width, ls_saved *saved,
                            int64_t *begin)
{
    const json_t *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(from) || !json_is_integer(to))
        return fault(file, saved->name, "has no pair of data_offsets");
    int64_t end = json_integer_value(to), bytes;
    *begin = json_integer_value(from);
    if (*begin < 0 || end < *begin)
        return fault(file, saved->name, "has data_offsets that are negative or in the wrong order");
    if (end > file->n_data)
        return fault(file, saved->name, "runs past the end of the file; the file is cut off or its header damaged");
    if (__builtin_mul_overflow(saved->numbers, width, &bytes))
        return fault(file, saved->name, "has a shape whose product is out of range");
    if (bytes != end - *begin)
        return fault(file, saved->name, "has data_offsets that do not fit its shape");
    saved->n_bytes = (size_t)bytes;
    return LS_OK;
}

static ls_status read_entry(const ls_safetensors *file, const char *name, const json_t *entry, ls_saved *saved,
                            int64_t *begin)
{
    const char *wrong = ls_saved_name_fault(name);
    if (wrong)
        return fault(file, name, wrong);
    saved->name = name;
    saved->dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!json_is_object(entry) || !saved->dtype)
        return fault(file, name, "has no dtype");
    int width = ls_dtype_bytes(saved->dtype);
    if (width == 0)
        return fault(file, name, "has an unknown dtype");
    if (json_object_size(entry) > 3)
        return fault(file, name, "has fields besides dtype, shape and data_offsets");
    ls_status status = read_shape(file, json_object_get(entry, "shape"), saved);
    if (status != LS_OK)
        return status;
    return read_place(file, json_object_get(entry, "data_offsets"), width, saved, begin);
}

static ls_status check_metadata(const ls_safetensors *file, json_t *metadata)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return ls_raise(file->context, LS_BAD_FILE, "%s: __metadata__ is not an object", file->path);
    json_object_foreach(metadata, key, value) if (!json_is_string(value)) return ls_raise(
        file->context, LS_BAD_FILE, "%s: __metadata__ holds something else than strings", file->path);
    return LS_OK;
}

/* An array with the place where it begins, to sort by. */
typedef struct placed {
    int64_t begin;
    ls_saved saved;
} placed;

static int by_place(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->saved.n_bytes != y->saved.n_bytes) /* an empty array ends where it begins, and comes first */
        return x->saved.n_bytes < y->saved.n_bytes ? -1 : 1;
    return strcmp(x->saved.name, y->saved.name);
}

static int by_name(const void *a, const void *b)
{
    const ls_saved *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* The arrays must cover the data from first to last byte, each byte once. */
static ls_status check_cover(const ls_safetensors *file, placed *all, int n)
{
    int64_t end = 0;
    if (n > 0)
        qsort(all, (size_t)n, sizeof *all, by_place);
    for (int i = 0; i < n; i++) {
        if (all[i].begin < end)
            return fault(file, all[i].saved.name, "overlaps another");
        if (all[i].begin > end)
            return fault(file, all[i].saved.name, "leaves a hole before it");
        end += (int64_t)all[i].saved.n_bytes;
    }
    if (end != file->n_data)
        return ls_raise(file->context, LS_BAD_FILE, "%s: %lld bytes after the last array belong to none", file->path,
                        (long long)(file->n_data - end));
    return LS_OK;
}

static ls_status read_entries(ls_safetensors *file, placed *all)
{
    const char *name;
    json_t *entry;
    ls_status status = LS_OK;
    json_object_foreach(file->header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0)
            status = check_metadata(file, entry);
        else {
            status = read_entry(file, name, entry, &all[file->n].saved, &all[file->n].begin);
            file->n++;
        }
        if (status != LS_OK)
            return status;
    }
    return check_cover(file, all, file->n);
}

static ls_status list_arrays(ls_safetensors *file)
{
    size_t most = json_object_size(file->header);
    placed *all = ls_alloc(file->context, most, sizeof *all, "a weights file's names");
    file->arrays = ls_alloc(file->context, most, sizeof *file->arrays, "a weights file's names");
    ls_status status = all && file->arrays ? read_entries(file, all) : ls_context_status(file->context);
    if (status == LS_OK) {
        file->data = ls_alloc(file->context, (size_t)file->n_data, 1, "a weights file");
        status = file->data ? LS_OK : ls_context_status(file->context);
    }
    for (int i = 0; status == LS_OK && i < file->n; i++) {
        file->arrays[i] = all[i].saved;
        file->arrays[i].bytes = file->data + all[i].begin;
    }
    if (status == LS_OK && file->n > 0)
        qsort(file->arrays, (size_t)file->n, sizeof *file->arrays, by_name);
    ls_release(file->context, all);
    return status;
}

/* ---- The interface ----------------------------------------------------------------------------------------------- */

ls_safetensors *ls_safetensors_open(ls_context *context, const char *path)
{
    int64_t size;
    int fd = ls_file_open(context, path, &size);
    ls_safetensors *file = fd < 0 ? NULL : ls_alloc(context, 1, sizeof *file, "a weights file");
    if (!file) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    file->context = context;
    file->path = ls_copy_string(context, path, "a path");
    ls_status status = file->path ? read_header(file, fd, size) : ls_context_status(context);
    if (status == LS_OK)
        status = list_arrays(file);
    if (status == LS_OK)
        status = ls_file_read(context, fd, path, size - file->n_data, file->data, (size_t)file->n_data);
    close(fd);
    if (status == LS_OK)
        return file;
    ls_safetensors_close(file);
    return NULL;
}

void ls_safetensors_close(ls_safetensors *file)
{
    if (!file)
        return;
    ls_context *context = file->context;
    json_decref(file->header);
    ls_release(context, file->path);
    ls_release(context, file->led);
    ls_release(context, file->data);
    ls_release(context, file->arrays);
    ls_release(context, file);
}

ls_status ls_safetensors_strip(ls_safetensors *file, const char *prefix)
{
    const size_t length = strlen(prefix);
    for (int i = 0; i < file->n; i++) {
        const char *name = file->arrays[i].name;
        if (strncmp(name, prefix, length) != 0) {
            char what[128];
            snprintf(what, sizeof what, "does not begin with '%.64s', which is to be left out of all names", prefix);
            return fault(file, name, what);
        }
        if (ls_saved_name_fault(name + length))
            return fault(file, name, "would have no name without what is to be left out of it");
    }
    for (int i = 0; i < file->n; i++)
        file->arrays[i].name += length;
    file->stripped += length;
    return LS_OK;
}

size_t ls_safetensors_stripped(const ls_safetensors *file)
{
    return file->stripped;
}

ls_status ls_safetensors_lead(ls_safetensors *file, const char *prefix)
{
    const size_t length = strlen(prefix);
    size_t room = 0;
    for (int i = 0; i < file->n; i++)
        room += length + strlen(file->arrays[i].name) + 1;
    char *at = file->led = ls_alloc(file->context, room, 1, "the names of a file");
    for (int i = 0; i < file->n && at; i++) {
        const size_t own = strlen(file->arrays[i].name) + 1;
        memcpy(at, prefix, length);
        memcpy(at + length, file->arrays[i].name, own);
        file->arrays[i].name = at;
        at += length + own;
    }
    file->stripped = 0;
    return file->led ? LS_OK : ls_context_status(file->context);
}

int ls_safetensors_count(const ls_safetensors *file)
{
    return file ? file->n : 0;
}

const ls_saved *ls_safetensors_at(const ls_safetensors *file, int i)
{
    return file && i >= 0 && i < file->n ? &file->arrays[i] : NULL;
}

const ls_saved *ls_safetensors_find(const ls_safetensors *file, const char *name)
{
    if (!file || file->n == 0)
        return NULL;
    ls_saved key = {.name = name};
    return bsearch(&key, file->arrays, (size_t)file->n, sizeof *file->arrays, by_name);
}

const char *ls_safetensors_metadata(const ls_safetensors *file, const char *key)
{
    return file ? json_string_value(json_object_get(json_object_get(file->header, "__metadata__"), key)) : NULL;
}

/* A float32 that is no number, or the infinity that an F64 has become. */
static ls_status refuse_value(const ls_safetensors *file, const ls_saved *saved, int64_t i, float value)
{
    char shown[100], number[32];
    const double wide = strcmp(saved->dtype, "F64") == 0 ? ls_dtype_double(saved->bytes, i) : (double)value;
    ls_printable(saved->name, shown, sizeof shown);
    if (__builtin_isfinite(wide))
        return ls_raise(file->context, LS_BAD_FILE,
                        "%s: the array '%s' holds %s at number %lld, which is too large for float32", file->path, shown,
                        ls_number_text(wide, number), (long long)i);
    return ls_raise(file->context, LS_BAD_FILE, "%s: the array '%s' holds %s at number %lld", file->path, shown,
                    value != value ? "NaN" : "infinity", (long long)i);
}

ls_status ls_safetensors_read(const ls_safetensors *file, const ls_saved *saved, float *values)
{
    char shown[100];
    if (!ls_dtype_is_read(saved->dtype))
        return ls_raise(file->context, LS_BAD_FILE,
                        "%s: the array '%s' is %s; F32, F16, BF16 and F64 are read, convert it", file->path,
                        ls_printable(saved->name, shown, sizeof shown), saved->dtype);
    if (ls_saved_is_float32(saved))
        memcpy(values, saved->bytes, saved->n_bytes);
    else
        ls_dtype_floats(saved->dtype, saved->bytes, saved->numbers, values);
    for (int64_t i = 0; i < saved->numbers; i++)
        if (!__builtin_isfinite(values[i]))
            return refuse_value(file, saved, i, values[i]);
    return LS_OK;
}

#endif
