/* Heartbeats: rank 0 hears from all ranks, and they hear from rank 0. They travel beside the work and hold
 * nothing up. */
#include <string.h>
#include <time.h>

#include "base/environment.h"
#include "cluster/cluster.h"

/* What travels. The last one says that its sender has come to its end. */
typedef struct told {
    ls_heartbeat heartbeat;
    int32_t last;
} told;

typedef struct ls_peer {
    told heard, incoming, outgoing;
    int64_t times; /* heard; -1 after the last */
    bool receiving, sending, sent_last;
    bool broken; /* the wire to it: nothing more will come */
} peer;

struct ls_peer *ls_heartbeats_new(ls_context *context, int ranks)
{
    return ls_alloc(context, (size_t)ranks, sizeof(peer), "the ranks' heartbeats");
}

static bool hears(const ls_cluster *cluster, int r)
{
    return r != cluster->rank && (cluster->rank == 0 || r == 0);
}

static int slot_of(const ls_cluster *cluster, int r)
{
    return 2 * cluster->ranks + 2 * r;
}

/* Hears all that came: of a peer that tells more often than this rank listens, what is old would otherwise come ever
 * later. */
static void listen_to(ls_cluster *cluster, int r)
{
    const ls_wire *wire = &cluster->wire;
    peer *p = &cluster->peers[r];
    while (!p->broken && (p->receiving || p->times >= 0)) {
        if (!p->receiving)
            p->receiving =
                wire->receive(wire->user, slot_of(cluster, r), r, LS_TAG_HEARTBEAT, &p->incoming, sizeof p->incoming);
        const int done = p->receiving ? wire->test(wire->user, slot_of(cluster, r), 1) : -1;
        p->broken = done < 0;
        if (done != 1)
            return;
        p->receiving = false;
        p->heard = p->incoming;
        p->times = p->heard.last ? -1 : p->times + 1;
    }
}

static void send_to(ls_cluster *cluster, int r, const ls_heartbeat *mine, bool last)
{
    const ls_wire *wire = &cluster->wire;
    peer *p = &cluster->peers[r];
    const int done = p->sending ? wire->test(wire->user, slot_of(cluster, r) + 1, 1) : 1;
    p->sending = done == 0;
    p->broken |= done < 0;
    if (p->broken || p->sending || p->sent_last)
        return;
    p->outgoing = (told){*mine, last};
    p->sending = wire->send(wire->user, slot_of(cluster, r) + 1, r, LS_TAG_HEARTBEAT, &p->outgoing, sizeof p->outgoing);
    p->broken = !p->sending;
    p->sent_last = last;
}

/* Who has the wire looks at it for microseconds, unless it is off its core meanwhile, and where ranks share cores that
 * is often this thread's doing. But nobody may be waited for who is stuck in it. */
static bool take_wire(ls_cluster *cluster)
{
    const struct timespec moment = {0, 500000};
    for (int i = 0; i < 40; i++) {
        if (pthread_mutex_trylock(&cluster->lock) == 0)
            return true;
        nanosleep(&moment, NULL);
    }
    return false;
}

void ls_cluster_tell(ls_cluster *cluster, ls_heartbeat *mine, ls_heartbeat seen[], int64_t times[])
{
    LS_OWN_ENVIRONMENT;
    if (!cluster || cluster->ranks == 1 || ls_cluster_status(cluster) != LS_OK)
        return;
    mine->waiting = atomic_load(&cluster->waiting);
    if (!take_wire(cluster))
        return;
    for (int r = 0; r < cluster->ranks; r++) {
        const peer *p = &cluster->peers[r];
        if (!hears(cluster, r))
            continue;
        if (!cluster->ending) {
            listen_to(cluster, r);
            send_to(cluster, r, mine, false);
        }
        seen[r] = p->heard.heartbeat;
        times[r] = p->times;
    }
    pthread_mutex_unlock(&cluster->lock);
}

bool ls_heartbeats_end(ls_cluster *cluster)
{
    ls_heartbeat none = {.step = 0};
    bool over = true;
    pthread_mutex_lock(&cluster->lock);
    cluster->ending = true;
    for (int r = 0; r < cluster->ranks; r++) {
        const peer *p = &cluster->peers[r];
        if (!hears(cluster, r))
            continue;
        listen_to(cluster, r);
        send_to(cluster, r, &none, true);
        over &= p->broken || (p->times < 0 && p->sent_last && !p->sending);
    }
    pthread_mutex_unlock(&cluster->lock);
    return over;
}
