#include "cluster/cluster.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/environment.h"
#include "base/session.h"

/* ---- Gathers ---- */

ls_status ls_cluster_reserve(ls_cluster *cluster, ls_context *context, int slots, int *first)
{
    bool good = true;
    *first = 4 * cluster->ranks;
    pthread_mutex_lock(&cluster->lock);
    if (cluster->ranks > 1 && *first + slots > cluster->slots) {
        good = cluster->wire.reserve(cluster->wire.user, *first + slots);
        cluster->slots = good ? *first + slots : cluster->slots;
    }
    pthread_mutex_unlock(&cluster->lock);
    return good ? LS_OK : ls_raise(context, LS_OUT_OF_MEMORY, "no memory for %d transfers between ranks", slots);
}

void ls_cluster_cancel(const ls_cluster *cluster, int first, int n)
{
    if (cluster->wire.cancel && n > 0)
        cluster->wire.cancel(cluster->wire.user, first, n);
}

/* Bytes [begin[r], end[r]) of `data` are rank r's. */
typedef bool begin_transfers(ls_cluster *cluster, char *data, const size_t begin[], const size_t end[]);

static bool begin_gather(ls_cluster *cluster, char *data, const size_t begin[], const size_t end[])
{
    const ls_wire *wire = &cluster->wire;
    const int me = cluster->rank;
    bool good = true;
    for (int r = 0; good && r < cluster->ranks; r++) {
        if (r != me && end[r] > begin[r])
            good = wire->receive(wire->user, 2 * r, r, LS_TAG_GATHER, data + begin[r], end[r] - begin[r]);
        if (good && r != me && end[me] > begin[me])
            good = wire->send(wire->user, 2 * r + 1, r, LS_TAG_GATHER, data + begin[me], end[me] - begin[me]);
    }
    return good;
}

/* Between rank 0 and each other one, that one's bytes. */
static bool begin_with_first(ls_cluster *cluster, char *data, const size_t begin[], const size_t end[], bool gives)
{
    const ls_wire *wire = &cluster->wire;
    const int me = cluster->rank;
    bool good = true;
    for (int r = 1; good && r < cluster->ranks; r++) {
        size_t bytes = end[r] - begin[r];
        if (bytes == 0 || (me > 0 && r != me))
            continue;
        good = gives ? wire->send(wire->user, r, me ? 0 : r, LS_TAG_GATHER, data + begin[r], bytes)
                     : wire->receive(wire->user, r, me ? 0 : r, LS_TAG_GATHER, data + begin[r], bytes);
    }
    return good;
}

static bool begin_collect(ls_cluster *cluster, char *data, const size_t begin[], const size_t end[])
{
    return begin_with_first(cluster, data, begin, end, cluster->rank > 0);
}

static bool begin_deal(ls_cluster *cluster, char *data, const size_t begin[], const size_t end[])
{
    return begin_with_first(cluster, data, begin, end, cluster->rank == 0);
}

/* Between two looks at the wire: not long beside a message, and not at the cost of a core that others compute on. */
static void pause_a_little(int times)
{
    struct timespec time = {0, times < 100 ? 20000 : 200000};
    nanosleep(&time, NULL);
}

static ls_status transfer(ls_cluster *cluster, ls_context *context, void *data, const size_t begin[],
                          const size_t end[], begin_transfers *start)
{
    if (cluster->ranks == 1)
        return LS_OK;
    atomic_store(&cluster->waiting, 1);
    pthread_mutex_lock(&cluster->lock);
    int done = start(cluster, data, begin, end) ? 0 : -1;
    for (int times = 0; done == 0; times++) {
        done = cluster->wire.test(cluster->wire.user, 0, 2 * cluster->ranks);
        if (done == 0) {
            pthread_mutex_unlock(&cluster->lock);
            pause_a_little(times);
            pthread_mutex_lock(&cluster->lock);
        }
    }
    if (done < 0)
        ls_cluster_cancel(cluster, 0, 2 * cluster->ranks);
    pthread_mutex_unlock(&cluster->lock);
    atomic_store(&cluster->waiting, 0);
    return done > 0 ? LS_OK : ls_raise(context, LS_IO, "rank %d: a transfer between ranks failed", cluster->rank);
}

ls_status ls_cluster_gather(ls_cluster *cluster, ls_context *context, void *data, const size_t begin[])
{
    return transfer(cluster, context, data, begin, begin + 1, begin_gather);
}

ls_status ls_cluster_collect(ls_cluster *cluster, ls_context *context, void *data, const size_t begin[],
                             const size_t end[])
{
    return transfer(cluster, context, data, begin, end, begin_collect);
}

ls_status ls_cluster_deal(ls_cluster *cluster, ls_context *context, void *data, const size_t begin[],
                          const size_t end[])
{
    return transfer(cluster, context, data, begin, end, begin_deal);
}

ls_status ls_cluster_gather_each(ls_cluster *cluster, ls_context *context, void *data, size_t bytes)
{
    for (int r = 0; r <= cluster->ranks && cluster->ranks > 1; r++)
        cluster->places[r] = (size_t)r * bytes;
    return ls_cluster_gather(cluster, context, data, cluster->places);
}

ls_status ls_cluster_gather_from(ls_cluster *cluster, ls_context *context, int rank, void *data, size_t bytes)
{
    for (int r = 0; r <= cluster->ranks && cluster->ranks > 1; r++)
        cluster->places[r] = r > rank ? bytes : 0;
    return ls_cluster_gather(cluster, context, data, cluster->places);
}

/* ---- Cores ---- */

/* This rank's share of cores that several ranks of its host were left on. */
static void keep_to_share(const ls_core_set *mask, int place, int sharers)
{
    ls_core_set share = {.parts = {{{0}}}};
    int cores = ls_core_set_count(mask), seen = 0;
    int first = sharers <= cores ? place * cores / sharers : place % cores;
    int end = sharers <= cores ? (place + 1) * cores / sharers : first + 1;
    for (int i = 0; i < LS_MAX_CORES; i++)
        if (ls_core_set_has(mask, i)) {
            if (seen >= first && seen < end)
                ls_core_set_add(&share, i);
            seen++;
        }
    ls_core_set_keep_to(&share);
}

/* A launcher may bind each rank to cores of its own, or leave them all on all. `deal`: then they are dealt out. */
static ls_status look_at_cores(ls_cluster *cluster, bool deal)
{
    ls_core_set *masks = ls_alloc(&cluster->context, (size_t)cluster->ranks, sizeof *masks, "the ranks' cores");
    if (!masks)
        return LS_OUT_OF_MEMORY;
    ls_core_set *mine = &masks[cluster->rank];
    bool known = ls_core_set_read(mine);
    ls_status status = ls_cluster_gather_each(cluster, &cluster->context, masks, sizeof *masks);
    int place = 0, sharers = 0;
    for (int r = 0; r < cluster->ranks; r++)
        if (ls_cluster_same_host(cluster, r, cluster->rank) && memcmp(&masks[r], mine, sizeof *mine) == 0) {
            place += r < cluster->rank;
            sharers++;
        }
    if (status == LS_OK && known && sharers > 1) {
        cluster->crowded = !deal || sharers > ls_core_set_count(mine);
        if (deal)
            keep_to_share(mine, place, sharers);
    }
    ls_release(&cluster->context, masks);
    return status;
}

/* ---- Start and end ---- */

static ls_cluster *new_cluster(void)
{
    ls_context context;
    if (ls_context_init(&context, NULL) != LS_OK)
        return NULL;
    ls_cluster *cluster = ls_alloc(&context, 1, sizeof *cluster, "a cluster");
    ls_context_destroy(&context);
    if (!cluster)
        return NULL;
    ls_context_init(&cluster->context, NULL);
    pthread_mutex_init(&cluster->lock, NULL);
    cluster->ranks = 1;
    return cluster;
}

/* Containers of one host may have name spaces of their own, in which numbers mean other processes. */
static void describe_process(int64_t process[2])
{
    struct stat space;
    process[0] = (int64_t)getpid();
    process[1] = stat("/proc/self/ns/pid", &space) == 0 ? (int64_t)space.st_ino : 0;
}

static ls_status meet(ls_cluster *cluster, bool deal)
{
    ls_context *context = &cluster->context;
    size_t ranks = (size_t)cluster->wire.ranks;
    int first;
    if (cluster->wire.error)
        return ls_raise(context, LS_UNSUPPORTED, "%s", cluster->wire.error);
    if (cluster->wire.size != sizeof(ls_wire) || cluster->wire.ranks < 1 || cluster->wire.rank < 0 ||
        cluster->wire.rank >= cluster->wire.ranks)
        return ls_raise(context, LS_BAD_ARGUMENT, "the wire between ranks is of another version, or has no such rank");
    cluster->hosts = ls_alloc(context, ranks, sizeof *cluster->hosts, "the ranks' hosts");
    cluster->boots = ls_alloc(context, ranks, sizeof *cluster->boots, "the ranks' hosts");
    cluster->processes = ls_alloc(context, ranks, sizeof *cluster->processes, "the ranks' processes");
    cluster->statuses = ls_alloc(context, ranks, sizeof *cluster->statuses, "the ranks' statuses");
    cluster->places = ls_alloc(context, 2 * ranks + 1, sizeof *cluster->places, "the ranks' places");
    cluster->peers = ls_heartbeats_new(context, (int)ranks);
    if (!cluster->hosts || !cluster->boots || !cluster->processes || !cluster->statuses || !cluster->places ||
        !cluster->peers)
        return LS_OUT_OF_MEMORY;
    cluster->rank = cluster->wire.rank;
    cluster->ranks = cluster->wire.ranks;
    ls_host_name(cluster->hosts[cluster->rank]);
    ls_host_boot(cluster->boots[cluster->rank]);
    describe_process(cluster->processes[cluster->rank]);
    if (ls_cluster_reserve(cluster, context, 0, &first) != LS_OK ||
        ls_cluster_gather_each(cluster, context, cluster->hosts, sizeof *cluster->hosts) != LS_OK ||
        ls_cluster_gather_each(cluster, context, cluster->boots, sizeof *cluster->boots) != LS_OK ||
        ls_cluster_gather_each(cluster, context, cluster->processes, sizeof *cluster->processes) != LS_OK)
        return ls_context_status(context);
    return look_at_cores(cluster, deal);
}

ls_cluster *ls_cluster_on(const ls_wire *wire)
{
    LS_OWN_ENVIRONMENT;
    ls_cluster *cluster = new_cluster();
    if (!cluster)
        return NULL;
    if (!wire) {
        ls_raise(&cluster->context, LS_BAD_ARGUMENT, "ls_cluster_on: wire is NULL");
        return cluster;
    }
    cluster->wire = *wire;
    meet(cluster, false);
    return cluster;
}

ls_cluster *ls_cluster_of_comm(const char *mpi, const void *comm)
{
    LS_OWN_ENVIRONMENT;
    ls_cluster *cluster = new_cluster();
    if (!cluster)
        return NULL;
    if (!mpi || !comm)
        ls_raise(&cluster->context, LS_BAD_ARGUMENT, "ls_cluster_of_comm: mpi or comm is NULL");
    else if (ls_launch_wire(&cluster->context, mpi, comm, &cluster->wire))
        meet(cluster, false);
    return cluster;
}

ls_cluster *ls_cluster_start(void)
{
    LS_OWN_ENVIRONMENT;
    ls_launch launch;
    ls_cluster *cluster = new_cluster();
    if (!cluster || !ls_launch_find(&launch) || launch.ranks == 1) /* who is alone needs no MPI */
        return cluster;
    bool opened = false;
    if (launch.plugin)
        opened = ls_launch_open(&cluster->context, &launch, &cluster->wire);
    else
        ls_raise(&cluster->context, LS_BAD_ARGUMENT, "%s started %d tasks without MPI, and each would train alone; %s",
                 launch.launcher, launch.ranks, launch.advice);
    if (opened && meet(cluster, true) == LS_OK && cluster->ranks == 1)
        ls_raise(&cluster->context, LS_UNSUPPORTED,
                 "%s started %d ranks, but the MPI that lockstep-%s.so was built with sees one alone: it is another "
                 "MPI or version; start with its own mpirun, or build Lockstep with this one",
                 launch.launcher, launch.ranks, launch.plugin);
    return cluster;
}

void ls_cluster_launched(int *rank, int *ranks, int *local)
{
    LS_OWN_ENVIRONMENT;
    ls_launch launch;
    bool found = ls_launch_find(&launch);
    if (rank)
        *rank = found ? launch.rank : 0;
    if (ranks)
        *ranks = found ? launch.ranks : 1;
    if (local)
        *local = found ? launch.local : 0;
}

void ls_cluster_barrier(ls_cluster *cluster)
{
    LS_OWN_ENVIRONMENT;
    if (!cluster || cluster->ranks == 1 || ls_cluster_status(cluster) == LS_IO ||
        ls_context_is_parents(&cluster->context))
        return;
    atomic_store(&cluster->waiting, 1);
    for (int times = 0; !ls_heartbeats_end(cluster); times++)
        pause_a_little(times);
    atomic_store(&cluster->waiting, 0);
}

/* The plugin stays loaded: an MPI leaves threads and handlers behind that would run into nothing. */
void ls_cluster_end(ls_cluster *cluster)
{
    LS_OWN_ENVIRONMENT;
    if (!cluster || ls_context_is_parents(&cluster->context))
        return;
    ls_cluster_barrier(cluster);
    ls_cluster_cancel(cluster, 0, cluster->slots); /* heartbeats that nobody sends any more */
    if (cluster->wire.end)
        cluster->wire.end(cluster->wire.user);
    ls_release(&cluster->context, cluster->hosts);
    ls_release(&cluster->context, cluster->boots);
    ls_release(&cluster->context, cluster->processes);
    ls_release(&cluster->context, cluster->statuses);
    ls_release(&cluster->context, cluster->places);
    ls_release(&cluster->context, cluster->peers);
    pthread_mutex_destroy(&cluster->lock);
    ls_context context = cluster->context;
    ls_context_destroy(&cluster->context);
    ls_release(&context, cluster);
}

ls_status ls_cluster_status(const ls_cluster *cluster)
{
    return cluster ? ls_context_status((ls_context *)&cluster->context) : LS_OUT_OF_MEMORY;
}

const char *ls_cluster_message(const ls_cluster *cluster)
{
    return cluster ? cluster->context.message : "no memory for a cluster";
}

int ls_cluster_rank(const ls_cluster *cluster)
{
    return cluster ? cluster->rank : 0;
}

int ls_cluster_ranks(const ls_cluster *cluster)
{
    return cluster ? cluster->ranks : 1;
}

const char *ls_cluster_host(const ls_cluster *cluster, int rank)
{
    return cluster && cluster->hosts && rank >= 0 && rank < cluster->ranks ? cluster->hosts[rank] : "";
}

bool ls_cluster_same_host(const ls_cluster *cluster, int a, int b)
{
    if (a == b || !cluster->hosts) /* one process alone; a cluster that was given no names */
        return true;
    return strcmp(cluster->hosts[a], cluster->hosts[b]) == 0 && strcmp(cluster->boots[a], cluster->boots[b]) == 0;
}

int64_t ls_cluster_process(const ls_cluster *cluster, int rank)
{
    if (!cluster || !cluster->processes || rank < 0 || rank >= cluster->ranks)
        return 0;
    const int64_t *mine = cluster->processes[cluster->rank], *theirs = cluster->processes[rank];
    bool here = mine[1] && mine[1] == theirs[1] && ls_cluster_same_host(cluster, rank, cluster->rank);
    return here ? theirs[0] : 0;
}

ls_status ls_cluster_devices(ls_session *session, const ls_devices *mine, ls_devices all[])
{
    LS_OWN_ENVIRONMENT;
    if (!session || !mine || !all)
        return LS_BAD_ARGUMENT;
    ls_cluster *cluster = session->options.cluster;
    all[ls_cluster_rank(cluster)] = *mine;
    return cluster ? ls_cluster_gather_each(cluster, &session->context, all, sizeof *all) : LS_OK;
}
