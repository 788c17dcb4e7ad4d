/* Downloading files whose content is known beforehand. */
#ifndef LS_DATA_FETCH_H
#define LS_DATA_FETCH_H

#include "base/context.h"

/* A file by its inflated content: the sums are those of the idx files, which are the same whoever compressed them. */
typedef struct ls_pinned {
    const char *name; /* without .gz */
    int64_t bytes;
    char digits[65]; /* SHA-256 */
} ls_pinned;

/* Puts `name`.gz of every file, from `url`/`name`.gz, into `directory`. Files that are there and right are kept. */
ls_status ls_fetch_files(ls_context *context, const char *url, const char *directory, const ls_pinned *files, int n,
                         void (*told)(const char *line, void *user), void *user);

#endif
