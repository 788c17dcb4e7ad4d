/* The names of a network's classes, in the order of its labels, and how a weights file's metadata has them. */
#pragma once

#include "base/context.h"

typedef struct ls_classes {
    char *names; /* one behind the other, each with its zero byte; NULL: they have none */
    int n;
    bool from_file; /* another file's may take their place */
} ls_classes;

/* A copy, in place of those before; `n` of 0 is none. What is not UTF-8 cannot be in a file: each such byte becomes a
 * question mark. */
ls_status ls_classes_set(ls_context *context, ls_classes *classes, const char *const names[], int n);
void ls_classes_free(ls_context *context, ls_classes *classes);

const char *ls_classes_at(const ls_classes *classes, int i); /* NULL where there is none */

/* A JSON array of strings, which the caller releases; NULL where there are no names, and after a failure. */
char *ls_classes_write(ls_context *context, const ls_classes *classes);
/* That again: no names where the text (NULL: none) is something else, as files of others may have. */
ls_status ls_classes_read(ls_context *context, ls_classes *classes, const char *text);
