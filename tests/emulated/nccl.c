/* As much of NCCL as Lockstep uses, between emulated cards of one process: its documentation's rules for groups, order
 * and non-blocking communicators, with what is sent and received checked against each other. A group is done when
 * somebody waits for its stream, and then waits for the others. LOCKSTEP_EMULATED_NCCL=RANK,N,T has that rank's N-th
 * group of transfers fail, T milliseconds later. */
#include <nccl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stream.h"

enum { MOST_RANKS = 8, MOST_TRANSFERS = 4096 };

typedef struct message {
    struct message *next;
    int from, to;
    const void *data;
    size_t bytes;
    bool taken;
} message;

/* Those who were made with one id. */
typedef struct world {
    struct world *next;
    ncclUniqueId id;
    int ranks, connected, left;
    bool failed;
    message *first;
} world;

struct ncclComm {
    world *world;
    int rank, groups, asked;
    bool busy; /* with what was called last */
};

typedef struct transfer {
    bool sends;
    int peer;
    const void *from;
    void *to;
    size_t bytes;
} transfer;

/* A group as it lies in a stream. */
typedef struct group {
    struct ncclComm *comm;
    const emulated_stream *stream;
    int n;
    transfer *at;
} group;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static world *worlds;
static _Thread_local int depth;
static _Thread_local group open;

static void wrong(const char *what)
{
    fprintf(stderr, "emulated NCCL: %s\n", what);
    abort();
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclRemoteError ? "remote error" : "emulated error";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    static int number;
    memset(id, 0, sizeof *id);
    pthread_mutex_lock(&lock);
    snprintf(id->internal, sizeof id->internal, "world %d", ++number);
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    if (config->blocking != 0 || ranks > MOST_RANKS)
        wrong("a communicator of another kind");
    *comm = calloc(1, sizeof **comm);
    (*comm)->rank = rank;
    (*comm)->busy = true;
    pthread_mutex_lock(&lock);
    world *w = worlds;
    while (w && memcmp(&w->id, &id, sizeof id) != 0)
        w = w->next;
    if (!w) {
        w = calloc(1, sizeof *w);
        w->id = id;
        w->ranks = ranks;
        w->next = worlds;
        worlds = w;
    }
    if (w->ranks != ranks)
        wrong("ranks that are not as many");
    w->connected++;
    (*comm)->world = w;
    pthread_mutex_unlock(&lock);
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *result)
{
    pthread_mutex_lock(&lock);
    const world *w = comm->world;
    *result = w->failed                                           ? ncclRemoteError
              : w->connected < w->ranks || comm->asked++ % 3 == 0 ? ncclInProgress
                                                                  : ncclSuccess;
    comm->busy &= *result == ncclInProgress;
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    (void)comm;
    return ncclInProgress;
}

/* The real one may wait for those beside it, where they go by way of its network. */
ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    pthread_mutex_lock(&lock);
    world *w = comm->world;
    w->left++;
    pthread_cond_broadcast(&changed);
    while (w->left < w->connected)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return ncclSuccess; /* what was made stays: it is small, and a stream may still come to it */
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    pthread_mutex_lock(&lock);
    comm->world->failed = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return ncclCommDestroy(comm);
}

/* ---- Transfers ---- */

/* The real one takes groups in groups, and does nothing until the outermost ends: Lockstep has none. */
ncclResult_t ncclGroupStart(void)
{
    if (depth++)
        wrong("a group in one that has not ended");
    return ncclSuccess;
}

static void expect(const emulated_stream *stream, const void *at)
{
    if (stream->owner(at) != stream->card)
        wrong("numbers that are not the card's");
}

static ncclResult_t add(transfer t, ncclComm_t comm, cudaStream_t stream)
{
    if (comm->busy)
        wrong("a communicator whose last call is in progress"); /* the real one returns ncclInvalidArgument */
    if (!depth || (open.n && open.comm != comm) || open.n == MOST_TRANSFERS)
        wrong("a transfer without a group of its own");
    if (!open.at)
        open.at = malloc(MOST_TRANSFERS * sizeof *open.at);
    open.comm = comm;
    open.stream = (const emulated_stream *)(const void *)stream;
    open.at[open.n++] = t;
    return open.n % 2 ? ncclInProgress : ncclSuccess; /* what the real one says there is how its communicator is */
}

ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    if (type != ncclChar)
        wrong("no bytes");
    expect((const emulated_stream *)(const void *)stream, data);
    return add((transfer){.sends = true, .peer = peer, .from = data, .bytes = count}, comm, stream);
}

ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    if (type != ncclChar)
        wrong("no bytes");
    expect((const emulated_stream *)(const void *)stream, data);
    return add((transfer){.peer = peer, .to = data, .bytes = count}, comm, stream);
}

/* The lock is held. */
static void put(world *w, message m)
{
    message **end = &w->first;
    while (*end)
        end = &(*end)->next;
    *end = malloc(sizeof **end);
    **end = m;
}

static message *find(world *w, int from, int to)
{
    message *m = w->first;
    while (m && (m->taken || m->from != from || m->to != to))
        m = m->next;
    return m;
}

static void take(world *w, const group *g, const transfer *t)
{
    message *m;
    while (!(m = find(w, t->peer, g->comm->rank)) && !w->failed)
        pthread_cond_wait(&changed, &lock);
    if (w->failed)
        return; /* the sender may be gone */
    if (m->bytes != t->bytes)
        wrong("more is sent than is received, or less");
    g->stream->enter();
    memcpy(t->to, m->data, t->bytes);
    g->stream->leave();
    m->taken = true;
    pthread_cond_broadcast(&changed);
}

/* Everything that the rank has sent is taken, and forgotten. */
static bool cleared(world *w, int rank)
{
    bool all = true;
    for (message **at = &w->first; *at;) {
        message *m = *at;
        if (m->from != rank || !m->taken) {
            all &= m->from != rank;
            at = &m->next;
            continue;
        }
        *at = m->next;
        free(m);
    }
    return all;
}

static void do_group(void *payload)
{
    const group *g = payload;
    world *w = g->comm->world;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < g->n; i++)
        if (g->at[i].sends)
            put(w,
                (message){.from = g->comm->rank, .to = g->at[i].peer, .data = g->at[i].from, .bytes = g->at[i].bytes});
    pthread_cond_broadcast(&changed);
    for (int i = 0; i < g->n; i++)
        if (!g->at[i].sends)
            take(w, g, &g->at[i]);
    while (!cleared(w, g->comm->rank) && !w->failed)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    free(g->at);
}

static bool is_to_fail(struct ncclComm *comm)
{
    const char *text = getenv("LOCKSTEP_EMULATED_NCCL");
    int rank, number, milliseconds;
    if (!text || sscanf(text, "%d,%d,%d", &rank, &number, &milliseconds) != 3 || comm->rank != rank ||
        ++comm->groups != number)
        return false;
    nanosleep(&(struct timespec){0, 1000000L * milliseconds}, NULL);
    return true;
}

ncclResult_t ncclGroupEnd(void)
{
    if (--depth > 0 || !open.n)
        return ncclSuccess;
    const group g = open;
    open = (group){.n = 0};
    if (is_to_fail(g.comm)) {
        pthread_mutex_lock(&lock);
        g.comm->world->failed = true;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        free(g.at);
        return ncclSystemError;
    }
    g.comm->busy = true;
    g.stream->later((emulated_stream *)g.stream, do_group, &g, sizeof g);
    return ncclInProgress;
}
