/* What the tests of files share: a folder of their own, a context whose allocations are watched, expected failures. */
#ifndef LOCKSTEP_TESTS_FILES_H
#define LOCKSTEP_TESTS_FILES_H

/* cmocka wants these before its own header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/context.h"

/* ---- A folder ---- */

extern char test_folder[128];       /* of the running test */
int test_folder_make(void **state); /* cmocka's set-up and tear-down */
int test_folder_remove(void **state);

/* A path in the folder; one of eight buffers of this thread that take turns. */
const char *test_path(const char *name);
void test_write_file(const char *name, const void *bytes, size_t count);
unsigned char *test_read_file(const char *name, size_t *count); /* free with free() */
int test_files_in_folder(void);

void test_keep_line(const char *line, void *user); /* appends it and an end of line to a text with room */

/* ---- A context ---- */

/* Counts what is allocated; the allocation with number `fail_at` (from 1; 0: none) fails. */
typedef struct test_memory {
    _Atomic int live, count; /* a session's threads allocate too */
    int fail_at;
    _Atomic size_t largest;
} test_memory;

extern test_memory test_allocations;
ls_allocator test_allocator(int fail_at); /* that counts there, from zero */
ls_context *test_context(void);           /* without an error, everything in test_allocations at zero; one at a time */
void test_context_done(void);             /* fails the test where something was not released */

/* The context must have failed like this, in one line. Then it is as new, without losing count of what is live. */
void test_expect(ls_status status, const char *message_part);

#endif
