/* The reader of weights: what it opens is covered by its arrays from the first byte to the last, each byte once. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "io/dtypes.h"
#include "io/safetensors.h"
#include "io/safetensors_names.h"

enum { MOST = 1 << 16, SLACK = 1 << 20 };

/* The header's length in front of the text up to the first zero byte, and what follows that byte as the values. */
static size_t with_length(const uint8_t *text, size_t n, uint8_t *file)
{
    size_t header = strnlen((const char *)text, n), values = header < n ? n - header - 1 : 0;
    for (int i = 0; i < 8; i++)
        file[i] = (uint8_t)((uint64_t)header >> 8 * i);
    memcpy(file + 8, text, header);
    if (values)
        memcpy(file + 8 + header, text + header + 1, values);
    return 8 + header + values;
}

static int by_place(const void *a, const void *b)
{
    const ls_saved *x = *(const ls_saved *const *)a, *y = *(const ls_saved *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return x->n_bytes < y->n_bytes ? -1 : x->n_bytes > y->n_bytes;
}

static void look_at(ls_context *context, const ls_safetensors *file, size_t most)
{
    int n = ls_safetensors_count(file);
    const ls_saved **arrays = malloc((size_t)(n + 1) * sizeof *arrays);
    size_t sum = 0;
    must(arrays != NULL);
    for (int i = 0; i < n; i++) {
        const ls_saved *saved = arrays[i] = ls_safetensors_at(file, i);
        must(ls_safetensors_find(file, saved->name) == saved);
        must(!ls_saved_name_fault(saved->name));
        must(i == 0 || strcmp(arrays[i - 1]->name, saved->name) < 0);
        must(saved->rank >= 0 && saved->rank <= LS_SAVED_RANK && saved->numbers >= 0);
        must(saved->n_bytes % (saved->numbers ? (size_t)saved->numbers : 1) == 0);
        sum += saved->n_bytes;
    }
    must(sum <= most);
    qsort(arrays, (size_t)n, sizeof *arrays, by_place);
    for (int i = 1; i < n; i++)
        must(arrays[i]->bytes == arrays[i - 1]->bytes + arrays[i - 1]->n_bytes);
    free(arrays);
    ls_safetensors_metadata(file, "model");
    for (int i = 0; i < n && ls_context_status(context) == LS_OK; i++) {
        const ls_saved *saved = ls_safetensors_at(file, i);
        if (!ls_dtype_is_read(saved->dtype)) {
            must(ls_safetensors_read(file, saved, NULL) == LS_BAD_FILE);
            return;
        }
        float *values = malloc((size_t)saved->numbers * sizeof *values + 1);
        must(values != NULL);
        bool good = ls_safetensors_read(file, saved, values) == LS_OK;
        for (int64_t k = 0; k < saved->numbers && good; k++)
            must(__builtin_isfinite(values[k]));
        free(values);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t file[MOST + 8];
    if (size < 1 || size > MOST)
        return 0;
    bool raw = data[0] & 1;
    size_t n = raw ? size - 1 : with_length(data + 1, size - 1, file);
    const char *path = fuzz_file(raw ? data + 1 : file, n);
    ls_context context;
    fuzz_begin(&context, 200 * n + SLACK); /* some two hundred bytes for each array */
    ls_safetensors *open = ls_safetensors_open(&context, path);
    must((open != NULL) == (ls_context_status(&context) == LS_OK));
    if (open)
        look_at(&context, open, n);
    ls_safetensors_close(open);
    fuzz_end(&context);
    return 0;
}
