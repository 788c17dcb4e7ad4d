#include "thread_wire.h"

#include <pthread.h>
#include <stdatomic.h>
/* cmocka wants these before its own header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"

typedef struct wire_message {
    struct wire_message *next;
    int from, tag;
    int looks;        /* of its receiver, before it is there */
    bool held, taken; /* by its sender's slot, which then frees it; by its receiver */
    size_t bytes;
    char data[];
} wire_message;

typedef struct wire_slot {
    bool receiving;
    int from, tag;
    void *data;
    size_t bytes;
    const void *from_data; /* of what is being sent */
    wire_message *sent;    /* not yet taken when last looked at; NULL: none */
} wire_slot;

typedef struct wire_net {
    pthread_mutex_t lock;
    struct wire_message *inbox[WIRE_RANKS]; /* in the order sent */
    atomic_bool broken;                     /* for steps; what ranks say of it gets through */
    atomic_bool dead;                       /* nothing goes any more */
} wire_net;

typedef struct wire_end {
    wire_net *net;
    int rank, ranks, n, sends, step_sends;
    int dropped;             /* sends under way that were cancelled, but for those of steps */
    struct wire_slot *slots; /* [n] */
} wire_end;

bool wire_late = true;
int wire_fails;

static bool on_reserve(void *user, int slots)
{
    wire_end *e = user;
    e->slots = realloc(e->slots, (size_t)slots * sizeof *e->slots);
    memset(e->slots + e->n, 0, (size_t)(slots - e->n) * sizeof *e->slots);
    e->n = slots;
    return true;
}

/* Nobody may use a slot again before what it does is done. */
static wire_slot *free_slot(wire_end *e, int number, int other)
{
    assert_true(number < e->n && other != e->rank);
    wire_slot *s = &e->slots[number];
    assert_true(!s->receiving && !s->sent);
    return s;
}

static bool on_send(void *user, int number, int to, int tag, const void *data, size_t bytes)
{
    wire_end *e = user;
    wire_slot *slot = free_slot(e, number, to);
    if (atomic_load(&e->net->dead))
        return false;
    if (tag >= LS_TAG_END && (atomic_load(&e->net->broken) || (wire_fails && ++e->step_sends == wire_fails))) {
        atomic_store(&e->net->broken, true);
        return false;
    }
    wire_message *sent = malloc(sizeof *sent + bytes);
    *sent = (wire_message){
        .from = e->rank, .tag = tag, .looks = wire_late ? e->sends++ % 3 : 0, .held = wire_late, .bytes = bytes};
    memcpy(sent->data, data, bytes);
    if (wire_late)
        *slot = (wire_slot){.from_data = data, .sent = sent};
    pthread_mutex_lock(&e->net->lock);
    wire_message **at = &e->net->inbox[to];
    while (*at)
        at = &(*at)->next;
    *at = sent;
    pthread_mutex_unlock(&e->net->lock);
    return true;
}

static bool on_receive(void *user, int number, int from, int tag, void *data, size_t bytes)
{
    wire_end *e = user;
    if (atomic_load(&e->net->dead))
        return false;
    *free_slot(e, number, from) =
        (wire_slot){.receiving = true, .from = from, .tag = tag, .data = data, .bytes = bytes};
    return true;
}

static void take_message(wire_slot *s, wire_message **at)
{
    wire_message *came = *at;
    assert_int_equal(came->bytes, s->bytes);
    memcpy(s->data, came->data, came->bytes);
    *at = came->next;
    came->taken = true;
    if (!came->held)
        free(came);
    s->receiving = false;
}

/* What is under way stays as it is. */
static void look_at_sent(wire_slot *s)
{
    if (!s->sent || !s->sent->taken)
        return;
    assert_memory_equal(s->sent->data, s->from_data, s->sent->bytes);
    free(s->sent);
    s->sent = NULL;
}

/* Slots are looked at in their order, which is the order they were posted in. What one waits for, no later one
 * takes. */
static bool is_next(const wire_slot *first, const wire_slot *s)
{
    for (; first < s; first++)
        if (first->receiving && first->from == s->from && first->tag == s->tag)
            return false;
    return s->receiving;
}

static int on_test(void *user, int first, int n)
{
    wire_end *e = user;
    int done = 1;
    if (atomic_load(&e->net->dead) || (first >= 4 * e->ranks && atomic_load(&e->net->broken)))
        return -1;
    pthread_mutex_lock(&e->net->lock);
    for (wire_slot *s = e->slots + first; s < e->slots + first + n; s++) {
        wire_message **at = &e->net->inbox[e->rank];
        const bool next = is_next(e->slots + first, s);
        while (next && *at && ((*at)->from != s->from || (*at)->tag != s->tag))
            at = &(*at)->next;
        if (next && *at && (*at)->looks-- <= 0)
            take_message(s, at);
        look_at_sent(s);
        done &= !s->receiving && !s->sent;
    }
    pthread_mutex_unlock(&e->net->lock);
    return done;
}

static void on_cancel(void *user, int first, int n)
{
    wire_end *e = user;
    pthread_mutex_lock(&e->net->lock);
    for (wire_slot *s = e->slots + first; s < e->slots + first + n; s++) {
        s->receiving = false;
        if (s->sent && s->sent->taken)
            free(s->sent);
        else if (s->sent) {
            s->sent->held = false;
            e->dropped += s < e->slots + 4 * e->ranks;
        }
        s->sent = NULL;
    }
    pthread_mutex_unlock(&e->net->lock);
}

static ls_wire wire_of(wire_end *e, wire_net *n, int rank, int ranks)
{
    *e = (wire_end){.net = n, .rank = rank, .ranks = ranks};
    return (ls_wire){.size = sizeof(ls_wire),
                     .rank = rank,
                     .ranks = ranks,
                     .user = e,
                     .reserve = on_reserve,
                     .send = on_send,
                     .receive = on_receive,
                     .test = on_test,
                     .cancel = on_cancel};
}

/* Takes what is left; returns how many messages that were. */
static int wire_empty(wire_net *n)
{
    int left = 0;
    for (int r = 0; r < WIRE_RANKS; r++)
        while (n->inbox[r]) {
            wire_message *first = n->inbox[r];
            n->inbox[r] = first->next;
            free(first);
            left++;
        }
    return left;
}

static bool fail_to_send(void *user, int number, int to, int tag, const void *data, size_t bytes)
{
    (void)user, (void)number, (void)to, (void)tag, (void)data, (void)bytes;
    return false;
}

static int fail_at_test(void *user, int first, int n)
{
    (void)user, (void)first, (void)n;
    return -1;
}

int wire_receiving(const ls_cluster *cluster)
{
    const wire_end *e = cluster->wire.user;
    int receiving = 0;
    for (int i = 0; i < e->n; i++)
        receiving += e->slots[i].receiving;
    return receiving;
}

int wire_failed_start(bool at_send)
{
    wire_net net = {.lock = PTHREAD_MUTEX_INITIALIZER};
    wire_end e;
    ls_wire wire = wire_of(&e, &net, 0, 2);
    if (at_send)
        wire.send = fail_to_send;
    else
        wire.test = fail_at_test;
    ls_cluster *cluster = ls_cluster_on(&wire);
    assert_int_equal(ls_cluster_status(cluster), LS_IO);
    const int receiving = wire_receiving(cluster);
    ls_cluster_end(cluster);
    free(e.slots);
    wire_empty(&net);
    return receiving;
}

typedef struct rank {
    pthread_t thread;
    wire_net *net;
    int number, ranks;
    ls_cluster *(*start)(const ls_wire *wire, int rank, void *user); /* NULL: ls_cluster_on */
    void (*run)(ls_cluster *cluster, int rank, void *user);
    void *of_start, *user;
} rank;

static void *rank_main(void *argument)
{
    rank *me = argument;
    wire_end e;
    ls_wire wire = wire_of(&e, me->net, me->number, me->ranks);
    ls_cluster *cluster = me->start ? me->start(&wire, me->number, me->of_start) : ls_cluster_on(&wire);
    me->run(cluster, me->number, me->user);
    ls_cluster_end(cluster);
    assert_true(e.dropped == 0 || atomic_load(&me->net->dead));
    free(e.slots);
    return NULL;
}

void wire_run(int ranks, void (*run)(ls_cluster *cluster, int rank, void *user), void *user)
{
    assert_int_equal(wire_run_torn(ranks, run, user), 0);
}

void wire_break(const ls_cluster *cluster)
{
    const wire_end *e = cluster->wire.user;
    atomic_store(&e->net->dead, true);
}

static int run_ranks(const rank *how)
{
    wire_net net = {.lock = PTHREAD_MUTEX_INITIALIZER};
    rank all[WIRE_RANKS];
    assert_in_range(how->ranks, 1, WIRE_RANKS);
    for (int r = 0; r < how->ranks; r++) {
        all[r] = *how;
        all[r].net = &net;
        all[r].number = r;
        assert_int_equal(pthread_create(&all[r].thread, NULL, rank_main, &all[r]), 0);
    }
    for (int r = 0; r < how->ranks; r++)
        pthread_join(all[r].thread, NULL);
    return wire_empty(&net);
}

int wire_run_torn(int ranks, void (*run)(ls_cluster *cluster, int rank, void *user), void *user)
{
    return run_ranks(&(rank){.ranks = ranks, .run = run, .user = user});
}

void wire_start(int ranks, ls_cluster *(*start)(const ls_wire *wire, int rank, void *user), void *of_start,
                void (*run)(ls_cluster *cluster, int rank, void *user), void *user)
{
    assert_int_equal(run_ranks(&(rank){.ranks = ranks, .start = start, .of_start = of_start, .run = run, .user = user}),
                     0);
}
