#include "base/session.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <lockstep_cluster.h>

void *ls_own(ls_session *session, void *object, void (*release)(void *object))
{
    return ls_own_of(session, object, NULL, release);
}

void *ls_own_of(ls_session *session, void *object, const void *of, void (*release)(void *object))
{
    if (!object)
        return NULL;
    ls_owned *entry = ls_alloc(&session->context, 1, sizeof *entry, "the session's list");
    if (!entry) {
        release(object);
        return NULL;
    }
    *entry = (ls_owned){.object = object, .of = of, .release = release, .next = session->owned};
    session->owned = entry;
    return object;
}

const ls_owned *ls_owned_alone(const ls_session *session, const void *object)
{
    const ls_owned *entry = session->owned;
    for (; entry && entry->object != object; entry = entry->next)
        if (entry->of == object)
            return NULL;
    return entry;
}

void ls_release_one(ls_session *session, const ls_owned *entry)
{
    ls_owned **at = &session->owned;
    while (*at != entry)
        at = &(*at)->next;
    ls_owned *taken = *at;
    *at = taken->next;
    taken->release(taken->object);
    ls_release(&session->context, taken);
}

int ls_shard_images(const ls_session *session, int64_t rows)
{
    return rows < session->options.shard ? (rows ? (int)rows : 1) : session->options.shard;
}

int ls_shards_together(const ls_session *session, int shards)
{
    const ls_options *o = &session->options;
    const int together = o->batch_norm < 0 ? shards : o->batch_norm ? o->batch_norm / o->shard : 1;
    return together < shards ? together : shards > 0 ? shards : 1;
}

bool ls_statistics_meet(const ls_session *session)
{
    return ls_shards_together(session, INT_MAX) > 1;
}

void ls_release_owned(ls_session *session, const ls_owned *mark)
{
    while (session->owned && session->owned != mark) {
        ls_owned *entry = session->owned;
        session->owned = entry->next;
        entry->release(entry->object);
        ls_release(&session->context, entry);
    }
}

void *ls_session_alloc(ls_session *session, size_t count, size_t size, const char *what)
{
    void *memory = ls_alloc(&session->context, count, size, what);
    ls_owned *entry = memory ? ls_alloc(&session->context, 1, sizeof *entry, "the session's list") : NULL;
    if (!entry) {
        ls_release(&session->context, memory);
        return NULL;
    }
    *entry = (ls_owned){.object = memory, .next = session->kept};
    session->kept = entry;
    return memory;
}

void ls_release_kept(ls_session *session)
{
    while (session->kept) {
        ls_owned *entry = session->kept;
        session->kept = entry->next;
        ls_release(&session->context, entry->object);
        ls_release(&session->context, entry);
    }
}

const char *ls_intern(ls_session *session, const char *text)
{
    return ls_names_intern(&session->context, &session->names, text);
}

const char *ls_name_hold(ls_session *session, const char *text)
{
    return ls_names_hold(&session->context, &session->names, text);
}

void ls_name_drop(ls_session *session, const char *name)
{
    ls_names_drop(&session->context, &session->names, name);
}

void ls_counted_hold(ls_counted *counted)
{
    if (counted)
        atomic_fetch_add(&counted->holders, 1);
}

void ls_counted_drop(ls_counted *counted)
{
    if (counted && atomic_fetch_sub(&counted->holders, 1) == 1)
        counted->release(counted->object);
}

bool ls_failed(const ls_session *session)
{
    return ls_status_of(session) != LS_OK;
}

uint64_t ls_work_done(const ls_session *session)
{
    return session ? ls_work_of(&session->context) : 0;
}

void ls_interrupt(ls_session *session)
{
    if (session)
        atomic_store(&session->interrupted, true);
}

bool ls_failed_together(const ls_session *session)
{
    return session && atomic_load(&session->together) && ls_failed(session);
}

ls_status ls_status_of(const ls_session *session)
{
    return session ? ls_context_status((ls_context *)&session->context) : LS_OUT_OF_MEMORY;
}

ls_status ls_fail(ls_session *session, ls_status status, const char *format, ...)
{
    if (!session || status == LS_OK || !format)
        return session ? ls_status_of(session) : LS_BAD_ARGUMENT;
    char message[sizeof session->context.message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return ls_raise(&session->context, status, "%s", message);
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
                                        "shape not known yet",
                                        "stale",
                                        "not finite",
                                        "out of memory",
                                        "unsupported",
                                        "internal error",
                                        "in use",
                                        "other settings",
                                        "devices differ",
                                        "interrupted"};
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
           "data fetch: libcurl\n"
#else
           "data fetch: not built in (libcurl)\n"
#endif
#ifdef LOCKSTEP_HAVE_PNG
           "PNG files: libpng\n"
#else
           "PNG files: not built in (libpng)\n"
#endif
#ifdef LOCKSTEP_HAVE_JPEG
           "JPEG files: libjpeg\n"
#else
           "JPEG files: not built in (libjpeg)\n"
#endif
#ifdef LOCKSTEP_HAVE_PROTOBUF_C
           "ONNX files: protobuf-c\n"
#else
           "ONNX files: not built in (protobuf-c)\n"
#endif
#ifdef LOCKSTEP_HAVE_CUDA
           "GPUs: a plugin for CUDA\n"
#ifdef LOCKSTEP_HAVE_NCCL
           "GPUs of several ranks: a plugin for NCCL\n"
#else
           "GPUs of several ranks: not built in (NCCL); by way of the hosts\n"
#endif
#else
           "GPUs: not built in (CUDA, cuDNN and cuBLAS)\n"
#endif
#ifdef LOCKSTEP_HAVE_OPENMPI
           "ranks under Open MPI: a plugin\n"
#else
           "ranks under Open MPI: not built in (libopenmpi-dev)\n"
#endif
#ifdef LOCKSTEP_HAVE_MPICH
           "ranks under MPICH: a plugin\n";
#else
           "ranks under MPICH: not built in (libmpich-dev)\n";
#endif
}
