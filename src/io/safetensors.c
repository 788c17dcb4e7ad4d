#include "io/safetensors.h"

#include <string.h>

/* What needs no JSON library. */

bool ls_saved_ignored(const char *name)
{
    static const char end[] = ".num_batches_tracked";
    size_t length = strlen(name);
    return length >= sizeof end - 1 && strcmp(name + length - (sizeof end - 1), end) == 0;
}

bool ls_saved_is_float32(const ls_saved *saved)
{
    return strcmp(saved->dtype, "F32") == 0;
}

int64_t ls_named_array_numbers(const ls_named_array *array)
{
    int64_t numbers = 1;
    if (array->rank < 0 || array->rank > LS_SAVED_RANK)
        return -1;
    for (int i = 0; i < array->rank; i++)
        if (array->shape[i] < 0 || __builtin_mul_overflow(numbers, array->shape[i], &numbers))
            return -1;
    return numbers <= INT64_MAX / (int64_t)sizeof(float) ? numbers : -1;
}

#if !LOCKSTEP_HAVE_JANSSON

static ls_status unsupported(ls_context *context, const char *path)
{
    return ls_raise(context, LS_UNSUPPORTED,
                    "%s: this library was built without a JSON library and has no weights files; install jansson's "
                    "development files and build again",
                    path);
}

ls_safetensors *ls_safetensors_open(ls_context *context, const char *path)
{
    unsupported(context, path);
    return NULL;
}

ls_status ls_safetensors_save(ls_context *context, const char *path, const ls_named_array *arrays, int n,
                              const char *const metadata[][2], int n_metadata)
{
    (void)arrays, (void)n, (void)metadata, (void)n_metadata;
    return unsupported(context, path);
}

ls_status ls_safetensors_try(ls_context *context, const char *path, const ls_named_array *arrays, int n,
                             const char *const metadata[][2], int n_metadata)
{
    return ls_safetensors_save(context, path, arrays, n, metadata, n_metadata);
}

ls_status ls_safetensors_save_sections(ls_context *context, const char *path, const ls_named_array *arrays, int n,
                                       const char *const metadata[][2], int n_metadata, ls_section *sections,
                                       int n_sections, const int *first)
{
    (void)arrays, (void)n, (void)metadata, (void)n_metadata, (void)sections, (void)n_sections, (void)first;
    return unsupported(context, path);
}

/* No file can be open here. */
void ls_safetensors_close(ls_safetensors *file)
{
    (void)file;
}

ls_status ls_safetensors_strip(ls_safetensors *file, const char *prefix)
{
    (void)file, (void)prefix;
    return LS_UNSUPPORTED;
}

ls_status ls_safetensors_lead(ls_safetensors *file, const char *prefix)
{
    (void)file;
    (void)prefix;
    return LS_UNSUPPORTED;
}

size_t ls_safetensors_stripped(const ls_safetensors *file)
{
    (void)file;
    return 0;
}

int ls_safetensors_count(const ls_safetensors *file)
{
    (void)file;
    return 0;
}

const ls_saved *ls_safetensors_at(const ls_safetensors *file, int i)
{
    (void)file, (void)i;
    return NULL;
}

const ls_saved *ls_safetensors_find(const ls_safetensors *file, const char *name)
{
    (void)file, (void)name;
    return NULL;
}

const char *ls_safetensors_metadata(const ls_safetensors *file, const char *key)
{
    (void)file, (void)key;
    return NULL;
}

ls_status ls_safetensors_read(const ls_safetensors *file, const ls_saved *saved, float *values)
{
    (void)file, (void)saved, (void)values;
    return LS_UNSUPPORTED;
}

#endif
