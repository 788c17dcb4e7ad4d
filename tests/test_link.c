/* Cards of several ranks that are connected, or are not, and what all ranks say of it. Cards and plugin are made up
 * here, so that each can fail where it is told to, and neither a card nor NCCL is needed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "comm/link.h"
#include "support.h"
#include "thread_wire.h"

enum { RANKS = 4, MOST_WORD = 4096, SECONDS = 30, NUMBER = 21805 };

typedef enum fault {
    NO_FAULT,
    NO_CARD,      /* of this rank, whose words say why */
    NO_PEERS,     /* it is of a kind that is never connected */
    NO_PLUGIN,    /* for NCCL */
    OTHER_NUMBER, /* of NCCL's version */
    SAME_CARD,    /* as rank 1 */
    ELSEWHERE,    /* it is connected already, and the others' are not */
    NO_NAME,
    NO_WAY, /* to the others */
    NO_MEMORY,
    NO_TRANSFER,
    ONE_BYTE,  /* of what the rank before sends it arrives as another */
    OTHER_WORD /* arrives than the rank before sends it: the first rank's */
} fault;

/* A meeting: what each rank meets in it, and what all ranks say. */
typedef struct meeting {
    const char *wanted;
    fault faults[RANKS];
    const char *why[RANKS]; /* of one without a card */
} meeting;

/* What is under way between two cards. */
typedef struct word {
    size_t bytes;
    bool sent;
    unsigned char data[MOST_WORD];
} word;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static word words[RANKS][RANKS]; /* [from][to] */

typedef struct card {
    ls_executor executor; /* first */
    ls_cluster *cluster;
    fault fault;
    int connects, disconnects, memories;
    bool in_group;
    void *into[RANKS]; /* what is received from each */
} card;

static _Thread_local card mine; /* the rank's */

/* ---- A plugin ---- */

static bool name_of_all(ls_link_name *name, char *why, size_t size)
{
    assert_int_equal(mine.cluster->rank, 0);
    snprintf(name->bytes, sizeof name->bytes, "these four");
    if (mine.fault == NO_NAME)
        snprintf(why, size, "no name");
    return mine.fault != NO_NAME;
}

const ls_plugin *__wrap_ls_plugin_table(const char *name, size_t expected, char *why, size_t size);

const ls_plugin *__wrap_ls_plugin_table(const char *name, size_t expected, char *why, size_t size)
{
    static const ls_links usual = {.number = NUMBER, .name = name_of_all},
                          other = {.number = NUMBER + 1, .name = name_of_all};
    assert_string_equal(name, "nccl");
    assert_int_equal(expected, sizeof usual);
    if (mine.fault == NO_PLUGIN)
        snprintf(why, size, "no such plugin");
    return mine.fault == NO_PLUGIN ? NULL : mine.fault == OTHER_NUMBER ? &other.plugin : &usual.plugin;
}

/* ---- Cards ---- */

static void *allocate(ls_executor *executor, size_t bytes)
{
    (void)executor;
    mine.memories += mine.fault != NO_MEMORY;
    return mine.fault == NO_MEMORY ? NULL : calloc(1, bytes);
}

static void release(ls_executor *executor, void *memory)
{
    (void)executor;
    mine.memories--;
    free(memory);
}

static void move(ls_executor *executor, void *to, const void *from, size_t bytes)
{
    (void)executor;
    memcpy(to, from, bytes);
}

static bool connect_all(ls_executor *executor, const ls_links *links, const ls_link_name *name, int rank, int ranks,
                        char *why, size_t why_size)
{
    assert_ptr_equal(executor, &mine.executor);
    assert_int_equal(links->number, NUMBER);
    assert_string_equal(name->bytes, "these four");
    assert_int_equal(rank, mine.cluster->rank);
    assert_int_equal(ranks, RANKS);
    assert_int_equal(mine.cluster->waiting, 1); /* it may take long, and nothing hangs */
    mine.connects++;
    if (mine.fault == NO_WAY)
        snprintf(why, why_size, "no way to the others");
    return mine.fault != NO_WAY;
}

static void disconnect(ls_executor *executor, bool good)
{
    (void)executor;
    assert_false(good);
    mine.disconnects++;
}

static void begin_group(ls_executor *executor)
{
    (void)executor;
    mine.in_group = true;
}

static void send_word(ls_executor *executor, int rank, const void *data, size_t bytes)
{
    (void)executor;
    assert_true(mine.in_group && bytes <= MOST_WORD);
    pthread_mutex_lock(&lock);
    word *w = &words[mine.cluster->rank][rank];
    w->bytes = bytes;
    w->sent = true;
    memcpy(w->data, data, bytes);
    pthread_cond_broadcast(&came);
    pthread_mutex_unlock(&lock);
}

static void receive_word(ls_executor *executor, int rank, void *data, size_t bytes)
{
    (void)executor, (void)bytes;
    assert_true(mine.in_group);
    mine.into[rank] = data;
}

static void end_group(ls_executor *executor)
{
    (void)executor;
    mine.in_group = false;
}

static const char *try_group(ls_executor *executor, double seconds)
{
    (void)executor;
    assert_true(!mine.in_group && seconds == SECONDS);
    assert_int_equal(mine.cluster->waiting, 1);
    pthread_mutex_lock(&lock);
    for (int r = 0; r < RANKS; r++) {
        word *w = &words[r][mine.cluster->rank];
        while (!w->sent)
            pthread_cond_wait(&came, &lock);
        memcpy(mine.into[r], w->data, w->bytes);
        if (r != mine.cluster->rank - 1)
            continue;
        if (mine.fault == ONE_BYTE)
            ((unsigned char *)mine.into[r])[w->bytes - 1]++;
        if (mine.fault == OTHER_WORD)
            memcpy(mine.into[r], words[0][mine.cluster->rank].data, w->bytes);
    }
    pthread_mutex_unlock(&lock);
    return mine.fault == NO_TRANSFER ? "a cable is out" : NULL;
}

/* ---- Meetings ---- */

static void meet(ls_cluster *cluster, int number, void *user)
{
    static const ls_executor_type never = {.peers = {.connect = NULL}};
    static const ls_executor_type type = {
        .memory = {.allocate = allocate, .release = release, .put = move, .get = move},
        .peers = {.connect = connect_all,
                  .disconnect = disconnect,
                  .begin_group = begin_group,
                  .send = send_word,
                  .receive = receive_word,
                  .end_group = end_group,
                  .try_group = try_group}};
    static const char *const names[RANKS] = {"card 0", "card 1", "card 2", "card 3"};
    const meeting *m = user;
    ls_context context;
    char why[LS_WHY] = "";
    mine = (card){.cluster = cluster, .fault = m->faults[number]};
    ls_executor *executor = &mine.executor;
    executor->type = mine.fault == NO_PEERS ? &never : &type;
    executor->name = names[number];
    memset(executor->identity, mine.fault == SAME_CARD ? 1 : number, sizeof executor->identity);
    executor->connected = mine.fault == ELSEWHERE;
    if (m->why[number])
        snprintf(why, sizeof why, "%s", m->why[number]);
    assert_int_equal(ls_context_init(&context, NULL), LS_OK);
    const bool good = ls_link_connect(cluster, &context, mine.fault == NO_CARD ? NULL : executor, why);
    assert_string_equal(why, m->wanted);
    assert_true(good == (strncmp(why, "NCCL ", 5) == 0));
    assert_true(mine.memories == 0 && cluster->waiting == 0);
    if (good) {
        assert_true(executor->connected == 1 && cluster->links == 1 && mine.connects == 1 && mine.disconnects == 0);
        executor->waits(executor->waits_user, true);
        assert_int_equal(cluster->waiting, 1);
        executor->waits(executor->waits_user, false);
        assert_int_equal(cluster->waiting, 0);
        /* Another network of theirs: they are connected already. */
        assert_true(ls_link_connect(cluster, &context, executor, why));
        assert_string_equal(why, m->wanted);
        assert_true(executor->connected == 1 && cluster->links == 1 && mine.connects == 1);
    } else {
        assert_true(executor->connected == (mine.fault == ELSEWHERE) && cluster->links == 0);
        /* Nothing that was begun is left: one whose transfers fail leaves before anybody waits for them, too. */
        assert_true(mine.disconnects >= mine.connects + (mine.fault == NO_TRANSFER));
    }
    ls_context_destroy(&context);
}

static void all_say_how_they_are_connected_or_why_not(void **state)
{
    (void)state;
    static const meeting meetings[] = {
        {.wanted = "NCCL 2.18.5", .faults = {NO_FAULT}},
        /* Nobody has cards: nothing to say. */
        {.wanted = "", .faults = {NO_CARD, NO_CARD, NO_CARD, NO_CARD}},
        {.wanted = "rank 0: no GPUs", .faults = {NO_CARD, NO_CARD, NO_PEERS, NO_CARD}},
        {.wanted = "rank 0: asked for", .faults = {NO_CARD, NO_CARD, NO_PEERS, NO_PEERS}, .why = {[0] = "asked for"}},
        {.wanted = "rank 1: asked for", .faults = {NO_FAULT, NO_CARD, NO_CARD, NO_PEERS}, .why = {[1] = "asked for"}},
        {.wanted = "rank 0: card 0 cannot be connected", .faults = {NO_PEERS, NO_PEERS, NO_CARD, NO_PEERS}},
        {.wanted = "rank 2: no such plugin", .faults = {NO_FAULT, NO_FAULT, NO_PLUGIN, NO_PLUGIN}},
        {.wanted = "ranks 1 and 3 share a card", .faults = {[3] = SAME_CARD}},
        {.wanted = "ranks 0 and 2 have other versions of NCCL", .faults = {[2] = OTHER_NUMBER, [3] = ELSEWHERE}},
        {.wanted = "the cards of ranks 0 and 3 are connected with others, for another network",
         .faults = {[3] = ELSEWHERE}},
        {.wanted = "rank 0: no name", .faults = {NO_NAME}},
        {.wanted = "rank 1: no way to the others", .faults = {[1] = NO_WAY, [3] = NO_WAY}},
        {.wanted = "rank 0: no memory on card 0", .faults = {NO_MEMORY, NO_MEMORY, NO_MEMORY, NO_MEMORY}},
        {.wanted = "rank 2: the first transfers from card 2: a cable is out", .faults = {[2] = NO_TRANSFER}},
        {.wanted = "rank 3: what rank 2's card sent arrived as something else", .faults = {[3] = ONE_BYTE}},
        {.wanted = "rank 2: what rank 1's card sent arrived as something else", .faults = {[2] = OTHER_WORD}},
    };
    for (size_t i = 0; i < sizeof meetings / sizeof *meetings; i++) {
        memset(words, 0, sizeof words);
        wire_run(RANKS, meet, (void *)&meetings[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_say_how_they_are_connected_or_why_not)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
