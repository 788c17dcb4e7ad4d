#include "io/fingerprint.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the values count as little-endian; other machines must swap");

static ls_status add(ls_sha256 *hash, const char *name, const void *values, size_t bytes)
{
    ls_status status = ls_sha256_add(hash, name, strlen(name) + 1);
    return status == LS_OK ? ls_sha256_add(hash, values, bytes) : status;
}

/* `status` is what went before; the hash is freed in any case. */
static ls_status end(ls_sha256 *hash, ls_status status, char digits[65])
{
    digits[0] = 0;
    ls_status ended = ls_sha256_end(hash, status == LS_OK ? digits : NULL);
    return status == LS_OK ? ended : status;
}

static int by_name(const void *a, const void *b)
{
    const ls_named_array *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

ls_status ls_fingerprint_arrays(ls_context *context, const ls_named_array *arrays, int n, char digits[65])
{
    digits[0] = 0;
    const ls_named_array **sorted = ls_alloc(context, (size_t)n, sizeof *sorted, "the names of a fingerprint");
    ls_sha256 *hash = sorted ? ls_sha256_begin(context) : NULL;
    ls_status status = hash ? LS_OK : ls_context_status(context);
    if (hash) {
        for (int i = 0; i < n; i++)
            sorted[i] = &arrays[i];
        if (n > 0)
            qsort(sorted, (size_t)n, sizeof *sorted, by_name);
        for (int i = 0; i < n && status == LS_OK; i++) {
            int64_t numbers = ls_named_array_numbers(sorted[i]);
            status = numbers < 0 ? ls_raise(context, LS_BAD_SHAPE, "fingerprint: the shape of '%s' is out of range",
                                            sorted[i]->name)
                                 : add(hash, sorted[i]->name, sorted[i]->values, (size_t)numbers * sizeof(float));
        }
        status = end(hash, status, digits);
    }
    ls_release(context, sorted);
    return status;
}

/* Of another type the values count as float32, as the network that reads them has them. */
static ls_status add_converted(ls_context *context, ls_sha256 *hash, const ls_safetensors *file, const ls_saved *saved)
{
    float *values = ls_alloc(context, (size_t)saved->numbers, sizeof *values, "an array's values");
    ls_status status = values ? ls_safetensors_read(file, saved, values) : LS_OUT_OF_MEMORY;
    if (status == LS_OK)
        status = add(hash, saved->name, values, (size_t)saved->numbers * sizeof *values);
    ls_release(context, values);
    return status;
}

ls_status ls_fingerprint_saved(ls_context *context, const char *path, char digits[65])
{
    digits[0] = 0;
    ls_safetensors *file = ls_safetensors_open(context, path);
    ls_sha256 *hash = file ? ls_sha256_begin(context) : NULL;
    ls_status status = hash ? LS_OK : ls_context_status(context);
    for (int i = 0; i < ls_safetensors_count(file) && status == LS_OK; i++) {
        const ls_saved *saved = ls_safetensors_at(file, i);
        if (ls_saved_ignored(saved->name))
            continue;
        status = ls_saved_is_float32(saved) ? add(hash, saved->name, saved->bytes, saved->n_bytes)
                                            : add_converted(context, hash, file, saved);
    }
    if (hash)
        status = end(hash, status, digits);
    ls_safetensors_close(file);
    return status;
}
