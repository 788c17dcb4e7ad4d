/* Files: reading one with all checks, and replacing one as a whole. */
#pragma once

#include "base/context.h"

/* Opens a regular file for reading. A directory, a FIFO or a device is LS_BAD_FILE (a FIFO does not block), what the
 * system refuses LS_IO with its reason. `bytes` may be NULL. -1 after a failure. */
int ls_file_open(ls_context *context, const char *path, int64_t *bytes);

/* Files by what they are and not by their names. While a context has a list, what ls_file_open opens goes into it. */
typedef struct ls_file_list {
    struct ls_file_id {
        uint64_t device, number;
    } * at; /* [n], from ls_alloc */
    int n, room;
} ls_file_list;
bool ls_file_list_has(const ls_file_list *list, const char *path);

/* What is there but hidden by a directory's permissions counts as there: opening it says why it cannot be read. */
bool ls_file_is_there(const char *path);

/* Exactly `count` bytes from `offset`; a file that has become shorter is LS_BAD_FILE. */
ls_status ls_file_read(ls_context *context, int fd, const char *path, int64_t offset, void *into, size_t count);

/* Opens a file for reading and writing, made where it is not there, with more of open's flags; -1 after a failure, with
 * errno. The mode follows the umask, as for any file that a program writes, but its owner may read and write it
 * whatever the umask says: a run reads its own files again. */
int ls_file_make(const char *path, int flags);

struct ls_sha256;

/* A file that replaces `path` as a whole or not at all: it is written under a temporary name in the same directory and
 * put in place by ls_replace_end, after its content has reached the disk. */
typedef struct ls_replace ls_replace;

ls_replace *ls_replace_begin(ls_context *context, const char *path); /* NULL after a failure */

/* After a failure nothing more is written, and ls_replace_end reports it. NULL gives the context's status. */
ls_status ls_replace_write(ls_replace *replace, const void *bytes, size_t count);

int64_t ls_replace_bytes(const ls_replace *replace); /* written so far */
/* From now on what is written is added to `hash` as well; NULL ends it. */
void ls_replace_hash(ls_replace *replace, struct ls_sha256 *hash);

/* Where the content lies until ls_replace_end, for what must read it back. */
const char *ls_replace_temporary(const ls_replace *replace);

/* fsync of the file, rename, fsync of the directory. Frees `replace`; after a failure nothing is left of it. */
ls_status ls_replace_end(ls_replace *replace);

/* Drops what was written. NULL is fine. */
void ls_replace_drop(ls_replace *replace);

/* Makes a directory and those above it, each on the disk before the next; one that exists is fine. */
ls_status ls_make_directories(ls_context *context, const char *path);
