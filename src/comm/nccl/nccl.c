/* The plugin that connects cards by NCCL, of which it takes no more than sends and receives: what NCCL adds up itself
 * it adds in an order of its own. Communicators are non-blocking, so that whoever waits can give up. */
#include "base/thread.h"
#include "device/link.h"

#include <nccl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Static_assert(sizeof(ls_link_name) == sizeof(ncclUniqueId), "a name is NCCL's");

/* Seconds of looking without sleep, for the others to come, for what is begun to be under way, and for an orderly
 * end. */
static const double AWAKE = 0.001, TO_CONNECT = 60, TO_BEGIN = 60, TO_DISCONNECT = 5;

struct ls_link {
    ncclComm_t comm;
    cudaStream_t stream;
    bool failed;
    char message[192];
};

static bool fail(ls_link *link, const char *what, ncclResult_t result)
{
    if (!link->failed) {
        const char *more = link->comm ? ncclGetLastError(link->comm) : "";
        snprintf(link->message, sizeof link->message, "%s failed: %s%s%s", what, ncclGetErrorString(result),
                 more && *more ? ": " : "", more ? more : "");
    }
    link->failed = true;
    return false;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What was begun is under way, or done. */
static bool await(ls_link *link, const char *what, ncclResult_t result, double seconds)
{
    const struct timespec moment = {0, 20000};
    const double begun = now();
    for (double waited = 0; result == ncclInProgress && waited < seconds; waited = now() - begun) {
        if (waited < AWAKE)
            sched_yield();
        else
            nanosleep(&moment, NULL);
        ncclResult_t asked = ncclCommGetAsyncError(link->comm, &result);
        if (asked != ncclSuccess)
            result = asked;
    }
    if (result == ncclInProgress) {
        snprintf(link->message, sizeof link->message, "%s took more than %.0f s", what, seconds);
        link->failed = true;
    }
    return (result == ncclSuccess && !link->failed) || fail(link, what, result);
}

static bool name(ls_link_name *name, char *why, size_t why_size)
{
    ncclUniqueId id;
    ncclResult_t result = ncclGetUniqueId(&id);
    memcpy(name->bytes, id.internal, sizeof name->bytes);
    if (result != ncclSuccess)
        snprintf(why, why_size, "NCCL does not start: %s", ncclGetErrorString(result));
    return result == ncclSuccess;
}

static void begin(ls_link *link)
{
    ncclResult_t result = ncclGroupStart();
    if (result != ncclSuccess)
        fail(link, "a group of transfers", result);
}

static void send(ls_link *link, int rank, const void *data, size_t bytes)
{
    ncclResult_t result = ncclSend(data, bytes, ncclChar, rank, link->comm, link->stream);
    if (result != ncclSuccess && result != ncclInProgress)
        fail(link, "sending", result);
}

static void receive(ls_link *link, int rank, void *data, size_t bytes)
{
    ncclResult_t result = ncclRecv(data, bytes, ncclChar, rank, link->comm, link->stream);
    if (result != ncclSuccess && result != ncclInProgress)
        fail(link, "receiving", result);
}

static bool end(ls_link *link)
{
    return await(link, "a group of transfers", ncclGroupEnd(), TO_BEGIN);
}

static const char *failure(ls_link *link)
{
    ncclResult_t result = ncclSuccess, asked = ncclCommGetAsyncError(link->comm, &result);
    if (asked != ncclSuccess || (result != ncclSuccess && result != ncclInProgress))
        fail(link, "a transfer between cards", asked != ncclSuccess ? asked : result);
    return link->failed ? link->message : NULL;
}

static void *cut_off(void *comm)
{
    ncclCommAbort(comm);
    return NULL;
}

/* To cut off takes until the others do, and they may be waiting for this rank to end: so nobody waits for it. */
static void disconnect(ls_link *link, bool good)
{
    pthread_t thread;
    if (link->comm && good && !link->failed && await(link, "the end", ncclCommFinalize(link->comm), TO_DISCONNECT))
        ncclCommDestroy(link->comm);
    else if (link->comm && ls_thread_start(&thread, cut_off, link->comm))
        pthread_detach(thread);
    else if (link->comm)
        cut_off(link->comm);
    free(link);
}

static ls_link *connect_cards(const ls_link_name *name, int rank, int ranks, void *stream, char *why, size_t why_size)
{
    ls_link *link = calloc(1, sizeof *link);
    if (!link) {
        snprintf(why, why_size, "no memory on the host");
        return NULL;
    }
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    memcpy(id.internal, name->bytes, sizeof name->bytes);
    link->stream = stream;
    if (await(link, "connecting", ncclCommInitRankConfig(&link->comm, ranks, id, rank, &config), TO_CONNECT))
        return link;
    snprintf(why, why_size, "NCCL: %s", link->message);
    disconnect(link, false);
    return NULL;
}

const ls_plugin *lockstep_plugin(void)
{
    static ls_links links = {.plugin = {LOCKSTEP_VERSION, sizeof links},
                             .name = name,
                             .connect = connect_cards,
                             .begin = begin,
                             .send = send,
                             .receive = receive,
                             .end = end,
                             .failure = failure,
                             .disconnect = disconnect};
    ncclGetVersion(&links.number);
    return &links.plugin;
}
