/* Texts, each kept once: equal texts have equal pointers, and are found by their hash. A session has such names, see
 * ls_intern in base/session.h. */
#pragma once

#include "base/context.h"

typedef struct ls_name {
    struct ls_name *next; /* in its row */
    uint64_t hash;
    long holders;
    bool stays;
    char text[];
} ls_name;

typedef struct ls_names {
    ls_name **rows;
    size_t n_rows; /* a power of two, 0 before the first name */
    size_t n;
} ls_names;

/* For the names' life. "" when memory runs out. */
const char *ls_names_intern(ls_context *context, ls_names *names, const char *text);

/* Until as many have dropped it as have held it; a name that one uses for a step is gone after it. "" when memory runs
 * out. What ls_names_intern returned, "" too, may be dropped by whoever treats all names alike. */
const char *ls_names_hold(ls_context *context, ls_names *names, const char *text);
void ls_names_drop(ls_context *context, ls_names *names, const char *text);

void ls_names_free(ls_context *context, ls_names *names);
