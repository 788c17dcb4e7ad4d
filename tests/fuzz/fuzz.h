/* What the fuzz targets share: an input as a file in memory, and what must hold of any parser. A target that finds
 * something ends with a message and abort(), which is what libFuzzer looks for. */
#ifndef LOCKSTEP_TESTS_FUZZ_H
#define LOCKSTEP_TESTS_FUZZ_H

#include "base/context.h"

/* libFuzzer's, which has no header for C. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(condition) ((condition) ? (void)0 : fuzz_found(#condition, __FILE__, __LINE__))
_Noreturn void fuzz_found(const char *what, const char *file, int line);

/* The path of a file that holds these bytes until the next call; it lies in memory. */
const char *fuzz_file(const void *bytes, size_t count);
/* The same file by a path without its end ".gz", for what looks for compressed files itself. */
const char *fuzz_packed_file(const void *bytes, size_t count);

/* A folder with these bytes as a file of that name (always the same one), until the next call of any of these. */
const char *fuzz_folder(const char *name, const void *bytes, size_t count);
/* A second file in it, which stays until the next call of this. */
void fuzz_folder_too(const char *name, const void *bytes, size_t count);

/* A context whose allocations are counted, and none of them larger than `most` bytes. One at a time. */
void fuzz_begin(ls_context *context, size_t most);
/* Ends it: a failure is a file's, in one line of plain characters, and nothing is left. */
void fuzz_end(ls_context *context);

#endif
