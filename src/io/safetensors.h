/* safetensors (https://huggingface.co/docs/safetensors): eight bytes with the header's length, a JSON header, the
 * values. Reading checks everything before anything is believed; what the files of others hold is LS_BAD_FILE by name.
 */
#pragma once

#include "base/context.h"

enum { LS_SAVED_RANK = 8 }; /* the most dimensions that are read */

/* One array of a file. Everything lives as long as the file is open. */
typedef struct ls_saved {
    const char *name;
    const char *dtype; /* "F32", "I64" ... */
    int rank;
    int64_t shape[LS_SAVED_RANK];
    int64_t numbers;
    const unsigned char *bytes; /* little-endian, in C order; may be unaligned */
    size_t n_bytes;
} ls_saved;

typedef struct ls_safetensors ls_safetensors;

ls_safetensors *ls_safetensors_open(ls_context *context, const char *path); /* NULL after a failure */
void ls_safetensors_close(ls_safetensors *file);                            /* NULL is fine */

/* Leaves out of every name what all of them must begin with; else LS_BAD_FILE, and the names are as they were. */
ls_status ls_safetensors_strip(ls_safetensors *file, const char *prefix);
size_t ls_safetensors_stripped(const ls_safetensors *file); /* how much, which still stands in front of each name */
/* Puts this in front of every name. */
ls_status ls_safetensors_lead(ls_safetensors *file, const char *prefix);

int ls_safetensors_count(const ls_safetensors *file);
const ls_saved *ls_safetensors_at(const ls_safetensors *file, int i);              /* in byte order of the names */
const ls_saved *ls_safetensors_find(const ls_safetensors *file, const char *name); /* NULL where there is none */
const char *ls_safetensors_metadata(const ls_safetensors *file, const char *key);  /* NULL where there is none */

/* Whether the bytes are the values; else ls_safetensors_read converts them. */
bool ls_saved_is_float32(const ls_saved *saved);
/* The values of one array, saved->numbers of them. F16, BF16 and F64 are converted (dtypes.h). Another type, NaN,
 * infinity, and an F64 that becomes infinite are LS_BAD_FILE. */
ls_status ls_safetensors_read(const ls_safetensors *file, const ls_saved *saved, float *values);

/* Whether readers pass over an array: PyTorch's BatchNorm counters, `*.num_batches_tracked`. */
bool ls_saved_ignored(const char *name);

/* An array to write. Shapes have at most LS_SAVED_RANK dimensions; rank 0 is a single number. */
typedef struct ls_named_array {
    const char *name;
    int rank;
    const int64_t *shape;
    const float *values;
} ls_named_array;

/* The numbers of an array; -1 where the product is out of range. */
int64_t ls_named_array_numbers(const ls_named_array *array);

/* A run of a file's bytes and its SHA-256. */
typedef struct ls_section {
    const char *name;
    int64_t bytes;
    char sha256[65];
} ls_section;

/* Whether a file consists of these sections and nothing else; LS_BAD_FILE names the first that differs. */
ls_status ls_sections_check(ls_context *context, const char *path, const ls_section *sections, int n);

/* Replaces `path` as a whole or not at all. Names must be what reading takes: not empty, unique, without separators or
 * control characters. metadata[i] is a key and its value; UTF-8. */
ls_status ls_safetensors_save(ls_context *context, const char *path, const ls_named_array *arrays, int n,
                              const char *const metadata[][2], int n_metadata);

/* Whether that would succeed now: writes the file beside its place, and removes it. */
ls_status ls_safetensors_try(ls_context *context, const char *path, const ls_named_array *arrays, int n,
                             const char *const metadata[][2], int n_metadata);

/* The same in sections, whose bytes and sums it fills in: sections[0] is the header, and section i has the arrays from
 * first[i - 1] up to first[i], where first[n_sections - 1] is n. */
ls_status ls_safetensors_save_sections(ls_context *context, const char *path, const ls_named_array *arrays, int n,
                                       const char *const metadata[][2], int n_metadata, ls_section *sections,
                                       int n_sections, const int *first);
