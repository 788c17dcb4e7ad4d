#include "run/watch.h"
#include "system/clock.h"
#include "text/say.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <lockstep_cluster.h>

/* What is known of one rank. */
typedef struct watched {
    ls_heartbeat before;
    int64_t times;
    double heard, went_on; /* when; seconds of the steady clock */
    int64_t process;       /* where this system knows it; else 0 */
    char host[64];
} watched;

static struct {
    double seconds;
    int rank, ranks;
    pthread_mutex_t lock; /* guards the two objects, which end before the process does */
    ls_cluster *cluster;
    const ls_session *session;
    _Atomic(const char *) phase;
    _Atomic int64_t step;
    watched own, *others;
    ls_heartbeat *seen;
    int64_t *times;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .phase = "start"};

enum { HEAD_START = 1, APART = 2, PATIENCE = 6, LAST_RESORT = 2 }; /* seconds */

/* How long a rank waits: rank 0 the time asked for, and each other longer than the one before, so that one speaks for
 * all before its launcher has ended the rest. */
static double limit(void)
{
    int more = watch.rank ? HEAD_START + APART * (watch.rank < PATIENCE ? watch.rank : PATIENCE) : 0;
    return watch.seconds + (more < PATIENCE ? more : PATIENCE);
}

/* A launcher may lose what its processes said just before their end: MPICH's, while MPI starts, dies of writing to
 * ranks that are gone before it has read what they left. So a line has some time to come out, this rank's or
 * another's. */
static _Noreturn void leave(const char *line)
{
    const struct timespec moment = {0, 500000000};
    if (line)
        fprintf(stderr, "lockstep: %s\n", line);
    fflush(stderr);
    nanosleep(&moment, NULL);
    _exit(STATUS_FAILED);
}

/* What the system says of a process: a letter, and 0 of one that is not there. */
static char state_of(int64_t process)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)process);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = '\0';
    const char *behind = strrchr(text, ')'); /* the name, which may be anything */
    return behind && behind[1] == ' ' ? behind[2] : '\0';
}

/* While MPI ends no rank hears of another; but those of this host are known to the system. A stopped one comes before
 * one that is gone: that may have ended well. -1 where neither is there. */
static int missing_rank(const char **how)
{
    int gone = -1;
    *how = "its process is stopped";
    for (int r = 0; r < watch.ranks; r++) {
        int64_t process = watch.others[r].process;
        char state = process && r != watch.rank ? state_of(process) : 'S';
        if (state == 'T' || state == 't')
            return r;
        if ((state == 'Z' || state == '\0') && gone < 0)
            gone = r;
    }
    if (gone >= 0)
        *how = "its process is gone";
    return gone;
}

/* No rank hears of another: not before MPI has started, and not while it ends. */
static _Noreturn void leave_alone(const ls_heartbeat *mine)
{
    char line[256];
    const char *how;
    int r = missing_rank(&how);
    if (r >= 0)
        snprintf(line, sizeof line, "rank %d on host %s: no progress since step %lld, in %s: %s", r,
                 watch.others[r].host, (long long)mine->step, mine->phase, how);
    else
        snprintf(line, sizeof line, "rank %d of %d: no progress since step %lld, in %s: a rank does not come",
                 watch.rank, watch.ranks, (long long)mine->step, mine->phase);
    leave(line);
}

/* What is known of the end goes to the others, so that they leave without a line of their own, whatever their launcher
 * does. */
static void tell_verdict(ls_heartbeat *mine, int verdict)
{
    for (int i = 0; i < 5 && watch.cluster; i++) {
        struct timespec moment = {0, 20000000};
        mine->verdict = verdict;
        ls_cluster_tell(watch.cluster, mine, watch.seen, watch.times);
        nanosleep(&moment, NULL);
    }
}

/* One line, and the end. */
static _Noreturn void name_rank(int rank, const ls_heartbeat *sign, ls_heartbeat *mine)
{
    char line[256], who[128] = "";
    const char *host = ls_cluster_host(watch.cluster, rank);
    if (watch.ranks > 1)
        snprintf(who, sizeof who, *host ? "rank %d on host %s: " : "rank %d: ", rank, host);
    snprintf(line, sizeof line, "%sno progress since step %lld, in %s", who, (long long)sign->step, sign->phase);
    fprintf(stderr, "lockstep: %s\n", line);
    if (watch.rank == 0)
        tell_verdict(mine, rank + 1);
    leave(NULL);
}

static bool same(const ls_heartbeat *a, const ls_heartbeat *b)
{
    return a->step == b->step && a->work == b->work && strcmp(a->phase, b->phase) == 0;
}

static void look_at_others(double now, ls_heartbeat *mine)
{
    for (int r = 0; r < watch.ranks; r++) {
        watched *w = &watch.others[r];
        const ls_heartbeat *sign = &watch.seen[r];
        if (r == watch.rank || (watch.rank > 0 && r > 0) || watch.times[r] < 0)
            continue;
        if (watch.times[r] != w->times)
            w->heard = now;
        if (watch.times[r] != w->times && !same(sign, &w->before))
            w->went_on = watch.own.heard = now;
        if (watch.times[r] != w->times && sign->waiting)
            w->went_on = now;
        w->before = *sign;
        w->times = watch.times[r];
        if (sign->verdict) { /* of whoever has said why */
            if (watch.rank == 0)
                tell_verdict(mine, sign->verdict);
            leave(NULL);
        }
        ls_heartbeat shown = *sign;
        if (!*shown.phase)
            snprintf(shown.phase, sizeof shown.phase, "start");
        if (now - w->heard > limit() || now - w->went_on > limit())
            name_rank(r, &shown, mine);
    }
}

static ls_heartbeat my_sign(void)
{
    ls_heartbeat mine = {.step = atomic_load(&watch.step), .work = ls_work_done(watch.session)};
    snprintf(mine.phase, sizeof mine.phase, "%s", atomic_load(&watch.phase));
    return mine;
}

static void look(double now)
{
    ls_heartbeat mine = my_sign();
    if (watch.cluster && watch.ranks > 1) {
        /* The others hear from rank 0 alone, and by its count whether any rank goes on. */
        ls_heartbeat told = mine;
        for (int r = 1; r < watch.ranks && watch.rank == 0; r++)
            told.work += watch.seen[r].work;
        ls_cluster_tell(watch.cluster, &told, watch.seen, watch.times);
        mine.waiting = told.waiting;
        look_at_others(now, &mine);
    }
    watched *own = &watch.own;
    if (!same(&mine, &own->before))
        own->heard = own->went_on = now;
    else if (mine.waiting)
        own->went_on = now;
    own->before = mine;
    if (!watch.cluster && watch.ranks > 1 && now - own->went_on > limit())
        leave_alone(&mine);
    if (now - own->went_on > limit() + (watch.rank > 0))
        name_rank(watch.rank, &mine, &mine);
    if (now - own->heard > limit() + LAST_RESORT)
        leave("every rank waits for another: messages between them are lost");
}

static void *watch_main(void *unused)
{
    double beat = watch.seconds / 20 < 0.1 ? watch.seconds / 20 : 0.1;
    struct timespec moment = {0, (long)(beat * 1e9)};
    for (double before = steady_seconds();;) {
        nanosleep(&moment, NULL);
        double now = steady_seconds();
        pthread_mutex_lock(&watch.lock);
        /* This process was stopped itself: what it missed is nobody's fault. */
        double missed = now - before > 4 * beat + 1 ? now - before : 0;
        watch.own.heard += missed;
        watch.own.went_on += missed;
        for (int r = 0; r < watch.ranks; r++) {
            watch.others[r].heard += missed;
            watch.others[r].went_on += missed;
        }
        look(now);
        pthread_mutex_unlock(&watch.lock);
        before = now;
    }
    return unused;
}

void watch_start(double seconds, int rank, int ranks)
{
    pthread_t thread;
    watch.seconds = seconds;
    watch.rank = rank;
    watch.ranks = ranks;
    watch.others = calloc((size_t)ranks, sizeof *watch.others);
    watch.seen = calloc((size_t)ranks, sizeof *watch.seen);
    watch.times = calloc((size_t)ranks, sizeof *watch.times);
    double now = steady_seconds();
    watch.own.heard = watch.own.went_on = now;
    if (seconds <= 0 || !watch.others || !watch.seen || !watch.times)
        return;
    if (pthread_create(&thread, NULL, watch_main, NULL) == 0)
        pthread_detach(thread);
}

void watch_cluster(ls_cluster *cluster)
{
    double now = steady_seconds();
    pthread_mutex_lock(&watch.lock);
    for (int r = 0; watch.others && r < watch.ranks; r++) {
        watched *w = &watch.others[r];
        w->heard = w->went_on = now;
        if (cluster) { /* for when it has ended */
            w->process = ls_cluster_process(cluster, r);
            snprintf(w->host, sizeof w->host, "%s", ls_cluster_host(cluster, r));
        }
    }
    watch.cluster = cluster;
    pthread_mutex_unlock(&watch.lock);
}

void watch_session(const ls_session *session)
{
    pthread_mutex_lock(&watch.lock);
    watch.session = session;
    pthread_mutex_unlock(&watch.lock);
}

void watch_end(void)
{
    pthread_mutex_lock(&watch.lock);
    ls_heartbeat mine = my_sign();
    if (watch.seen && watch.times)
        tell_verdict(&mine, watch.rank + 1);
    pthread_mutex_unlock(&watch.lock);
}

const char *watch_phase(const char *phase)
{
    return atomic_exchange(&watch.phase, phase);
}

void watch_step(int64_t finished)
{
    atomic_store(&watch.step, finished);
}
