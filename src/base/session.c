#include "base/session.h"

#include <string.h>

void *ls_own(ls_session *session, void *object, void (*release)(void *object))
{
    if (!object)
        return NULL;
    ls_owned *entry = ls_alloc(&session->context, 1, sizeof *entry, "the session's list");
    if (!entry) {
        release(object);
        return NULL;
    }
    *entry = (ls_owned){object, release, session->owned};
    session->owned = entry;
    return object;
}

void ls_release_owned(ls_session *session)
{
    while (session->owned) {
        ls_owned *entry = session->owned;
        session->owned = entry->next;
        if (entry->release)
            entry->release(entry->object);
        else
            ls_release(&session->context, entry->object);
        ls_release(&session->context, entry);
    }
}

void *ls_session_alloc(ls_session *session, size_t count, size_t size, const char *what)
{
    void *memory = ls_alloc(&session->context, count, size, what);
    if (!memory)
        return NULL;
    ls_owned *entry = ls_alloc(&session->context, 1, sizeof *entry, what);
    if (!entry) {
        ls_release(&session->context, memory);
        return NULL;
    }
    *entry = (ls_owned){memory, NULL, session->owned};
    session->owned = entry;
    return memory;
}

bool ls_failed(const ls_session *session)
{
    return ls_status_of(session) != LS_OK;
}

ls_status ls_status_of(const ls_session *session)
{
    return session ? ls_context_status((ls_context *)&session->context) : LS_OUT_OF_MEMORY;
}

const char *ls_message(const ls_session *session)
{
    /* The message is written once, before the status is seen, and never again. */
    if (!session)
        return "no memory for a session";
    return ls_failed(session) ? session->context.message : "";
}

const char *ls_version(void)
{
    return LOCKSTEP_VERSION;
}

const char *ls_status_name(ls_status status)
{
    static const char *const names[] = {"ok",
                                        "bad argument",
                                        "bad shape",
                                        "no such device",
                                        "bad file",
                                        "input/output error",
                                        "not initialized",
                                        "not finite",
                                        "out of memory",
                                        "unsupported",
                                        "internal error"};
    return (size_t)status < sizeof names / sizeof *names ? names[status] : "unknown status";
}

const char *ls_features(void)
{
    return ""
#ifdef LOCKSTEP_HAVE_ZLIB
           "gzip'ed data files: zlib\n"
#else
           "gzip'ed data files: not built in (zlib)\n"
#endif
#ifdef LOCKSTEP_HAVE_JANSSON
           "weights files: jansson\n"
#else
           "weights files: not built in (jansson)\n"
#endif
#ifdef LOCKSTEP_HAVE_CRYPTO
           "fingerprints: libcrypto\n"
#else
           "fingerprints: not built in (libcrypto)\n"
#endif
#ifdef LOCKSTEP_HAVE_CURL
           "data fetch: libcurl\n";
#else
           "data fetch: not built in (libcurl)\n";
#endif
}
