/* idx files: http://yann.lecun.com/exdb/mnist/ describes them. Big-endian: magic number, lengths, then bytes. */
#pragma once

#include "base/context.h"

typedef enum ls_idx_kind { LS_IDX_IMAGES = 0x803, LS_IDX_LABELS = 0x801 } ls_idx_kind;

typedef struct ls_idx {
    uint8_t *values; /* [count][height][width], or [count]; from ls_alloc, the caller's to release */
    int64_t count;
    int height, width; /* 1 for labels */
} ls_idx;

/* The path at which `path` is found: itself, else with ".gz", else either of a name in which ".idx" stands for "-idx".
 * NULL where none is there (nothing is raised) or without memory. To be released by the caller. */
char *ls_idx_find(ls_context *context, const char *path);
bool ls_idx_is_gzip(const char *found); /* whether what was found there is */

/* Reads what ls_idx_find finds. LS_BAD_FILE names what is wrong with the content; nothing of the
 * announced size is allocated before it fits the file. */
ls_status ls_idx_read(ls_context *context, const char *path, ls_idx_kind kind, ls_idx *idx);
