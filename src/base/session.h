/* A session: its context, its options and all that was made from it. Rooms hang their objects here and get them freed at
 * ls_close, the youngest first. */
#ifndef LS_BASE_SESSION_H
#define LS_BASE_SESSION_H

#include "base/context.h"

typedef struct ls_owned {
    void *object;
    void (*release)(void *object);
    struct ls_owned *next;
} ls_owned;

struct ls_session {
    ls_context context;
    ls_options options; /* defaults filled in */
    ls_owned *owned;
    struct ls_recording *recording; /* the graph being recorded, NULL between recordings (graph/record.h) */
};

/* Hands `object` to the session, which frees it with `release`. On failure it is freed at once and NULL returned. */
void *ls_own(ls_session *session, void *object, void (*release)(void *object));
void ls_release_owned(ls_session *session);

/* Zeroed memory that lives as long as the session. */
void *ls_session_alloc(ls_session *session, size_t count, size_t size, const char *what);

#endif
