/* The content of one file, read from front to back, inflated on the way where it is gzip'ed. */
#pragma once

#include "base/context.h"

typedef struct ls_source ls_source;

/* NULL after a failure. A gzip'ed file without zlib is LS_UNSUPPORTED. */
ls_source *ls_source_open(ls_context *context, const char *path, bool gzip);

/* The content's length: exactly for a plain file; for a gzip'ed one the most that its size can be taken to inflate
 * to. */
int64_t ls_source_most(const ls_source *source);

/* Up to `count` bytes; `*got` is less only at the end, after every checksum was right. Members one after the other are
 * one content, as for gzip. No more is inflated than asked for. */
ls_status ls_source_read(ls_source *source, void *into, size_t count, size_t *got);

void ls_source_close(ls_source *source); /* NULL is fine */
