/* Files whose content is known beforehand. */
#pragma once

#include "base/context.h"

/* A file by its inflated content: the sums are those of the idx files, which are the same whoever compressed them. */
typedef struct ls_pinned {
    const char *name; /* without .gz */
    int64_t bytes;
    char digits[65]; /* SHA-256 */
} ls_pinned;

/* Reads all of it, inflating it where it is gzip'ed. LS_BAD_FILE where the content is another. */
ls_status ls_pinned_check(ls_context *context, const char *path, bool gzip, const ls_pinned *file);
