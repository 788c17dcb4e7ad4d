#include "base/file.h"
#include "base/hash.h"
#include "io/safetensors.h"
#include "io/safetensors_names.h"

#include <stdlib.h>
#include <string.h>

#if LOCKSTEP_HAVE_JANSSON

#include <jansson.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the file's values are little-endian; other machines must swap");

static ls_status fault(ls_context *context, const char *path, const char *name, const char *what)
{
    char shown[100];
    return ls_raise(context, LS_BAD_ARGUMENT, "%s: cannot be written: the array '%s' %s", path,
                    ls_printable(name, shown, sizeof shown), what);
}

static json_t *shape_of(const ls_named_array *array)
{
    json_t *shape = json_array();
    for (int i = 0; shape && i < array->rank; i++)
        if (json_array_append_new(shape, json_integer(array->shape[i])) != 0) {
            json_decref(shape);
            return NULL;
        }
    return shape;
}

/* Adds one array, which lies at [*end, *end + its bytes), and moves *end behind it. */
static ls_status add_array(ls_context *context, const char *path, json_t *header, const ls_named_array *array,
                           int64_t *end)
{
    const char *wrong = ls_saved_name_fault(array->name);
    int64_t numbers = ls_named_array_numbers(array), begin = *end;
    if (wrong)
        return fault(context, path, array->name, wrong);
    if (json_object_get(header, array->name))
        return fault(context, path, array->name, "is named twice");
    if (numbers < 0 || __builtin_add_overflow(begin, numbers * (int64_t)sizeof(float), end))
        return fault(context, path, array->name, "has a shape that is out of range");
    json_t *shape = shape_of(array);
    json_t *entry = shape ? json_pack("{s:s,s:o,s:[I,I]}", "dtype", "F32", "shape", shape, "data_offsets",
                                      (json_int_t)begin, (json_int_t)*end)
                          : NULL;
    if (json_object_set_new(header, array->name, entry) != 0) /* takes the entry also when it fails */
        return fault(context, path, array->name, "has a name that is not UTF-8, or there is no memory for it");
    return LS_OK;
}

static ls_status add_metadata(ls_context *context, const char *path, json_t *header, const char *const metadata[][2],
                              int n)
{
    json_t *object = json_object();
    for (int i = 0; i < n; i++)
        if (json_object_set_new(object, metadata[i][0], json_string(metadata[i][1])) != 0) {
            json_decref(object);
            return ls_raise(context, LS_BAD_ARGUMENT,
                            "%s: cannot be written: its metadata is not UTF-8, or there is no memory for it", path);
        }
    if (json_object_set_new(header, "__metadata__", object) != 0)
        return ls_raise(context, LS_OUT_OF_MEMORY, "%s: no memory for its header", path);
    return LS_OK;
}

/* The header's length in eight bytes, the JSON, and spaces up to a multiple of eight, so that the values are aligned.
 */
static ls_status write_header(ls_context *context, ls_replace *replace, const char *path, const json_t *header)
{
    json_free_t release; /* the process may have given the library an allocator */
    json_get_alloc_funcs(NULL, &release);
    char *text = json_dumps(header, JSON_COMPACT);
    if (!text)
        return ls_raise(context, LS_OUT_OF_MEMORY, "%s: no memory for its header", path);
    size_t length = strlen(text), padded = (length + 7) / 8 * 8;
    ls_status status = LS_OK;
    if (padded > LS_SAVED_MOST_HEADER)
        status = ls_raise(context, LS_BAD_ARGUMENT, "%s: cannot be written: its header would exceed %d bytes", path,
                          LS_SAVED_MOST_HEADER);
    unsigned char prefix[8];
    for (int i = 0; i < 8; i++)
        prefix[i] = (unsigned char)((uint64_t)padded >> 8 * i);
    if (status == LS_OK)
        status = ls_replace_write(replace, prefix, sizeof prefix);
    if (status == LS_OK)
        status = ls_replace_write(replace, text, length);
    if (status == LS_OK)
        status = ls_replace_write(replace, "        ", padded - length);
    release(text);
    return status;
}

/* The values of `first` up to `last`. */
static ls_status write_values(ls_replace *replace, const ls_named_array *first, const ls_named_array *last)
{
    ls_status status = LS_OK;
    for (; first < last && status == LS_OK; first++)
        status = ls_replace_write(replace, first->values, (size_t)ls_named_array_numbers(first) * sizeof(float));
    return status;
}

/* What is written between the two calls is a section: its length and its sum. */
static ls_sha256 *begin_section(ls_context *context, ls_replace *replace, ls_section *section)
{
    ls_sha256 *hash = ls_sha256_begin(context);
    if (hash)
        ls_replace_hash(replace, hash);
    section->bytes = -ls_replace_bytes(replace);
    return hash;
}

static ls_status end_section(ls_replace *replace, ls_section *section, ls_sha256 *hash, ls_status status)
{
    ls_replace_hash(replace, NULL);
    section->bytes += ls_replace_bytes(replace);
    ls_status ended = ls_sha256_end(hash, status == LS_OK ? section->sha256 : NULL);
    return status == LS_OK ? ended : status;
}

/* The header is the first section; what follows it is cut where `first` says. */
static ls_status write_sections(ls_context *context, ls_replace *replace, const char *path, const json_t *header,
                                const ls_named_array *arrays, ls_section *sections, int n_sections, const int *first)
{
    ls_status status = LS_OK;
    for (int i = 0; i < n_sections && status == LS_OK; i++) {
        ls_sha256 *hash = begin_section(context, replace, &sections[i]);
        if (!hash)
            return ls_context_status(context);
        status = i == 0 ? write_header(context, replace, path, header)
                        : write_values(replace, arrays + first[i - 1], arrays + first[i]);
        status = end_section(replace, &sections[i], hash, status);
    }
    return status;
}

static ls_status write_file(ls_context *context, ls_replace *replace, const char *path, const json_t *header,
                            const ls_named_array *arrays, int n, ls_section *sections, int n_sections, const int *first)
{
    if (sections)
        return write_sections(context, replace, path, header, arrays, sections, n_sections, first);
    ls_status status = write_header(context, replace, path, header);
    return status == LS_OK ? write_values(replace, arrays, arrays + n) : status;
}

/* All that saving does; `keep`: and puts the file in place. */
static ls_status write_whole(ls_context *context, const char *path, const ls_named_array *arrays, int n,
                             const char *const metadata[][2], int n_metadata, ls_section *sections, int n_sections,
                             const int *first, bool keep)
{
    json_t *header = json_object();
    if (!header)
        return ls_raise(context, LS_OUT_OF_MEMORY, "%s: no memory for its header", path);
    int64_t end = 0;
    ls_status status = n_metadata > 0 ? add_metadata(context, path, header, metadata, n_metadata) : LS_OK;
    for (int i = 0; i < n && status == LS_OK; i++)
        status = add_array(context, path, header, &arrays[i], &end);
    ls_replace *replace = status == LS_OK ? ls_replace_begin(context, path) : NULL;
    if (status == LS_OK)
        status = replace ? write_file(context, replace, path, header, arrays, n, sections, n_sections, first)
                         : ls_context_status(context);
    json_decref(header);
    if (status == LS_OK && keep)
        return ls_replace_end(replace);
    ls_replace_drop(replace);
    return status;
}

ls_status ls_safetensors_save_sections(ls_context *context, const char *path, const ls_named_array *arrays, int n,
                                       const char *const metadata[][2], int n_metadata, ls_section *sections,
                                       int n_sections, const int *first)
{
    return write_whole(context, path, arrays, n, metadata, n_metadata, sections, n_sections, first, true);
}

ls_status ls_safetensors_try(ls_context *context, const char *path, const ls_named_array *arrays, int n,
                             const char *const metadata[][2], int n_metadata)
{
    return write_whole(context, path, arrays, n, metadata, n_metadata, NULL, 0, NULL, false);
}

ls_status ls_safetensors_save(ls_context *context, const char *path, const ls_named_array *arrays, int n,
                              const char *const metadata[][2], int n_metadata)
{
    return ls_safetensors_save_sections(context, path, arrays, n, metadata, n_metadata, NULL, 0, NULL);
}

#endif
