/* What ranks tell of themselves, beside their work. Ranks are threads of this process. */
#include <sched.h>
#include <string.h>
#include <time.h>

#include "cluster/cluster.h"
#include "support.h"
#include "thread_wire.h"

enum { RANKS = 5 };

/* Returns once all ranks have come here. */
static void meet_others(ls_cluster *cluster)
{
    char all[RANKS] = {0};
    assert_int_equal(ls_cluster_gather_each(cluster, &cluster->context, all, 1), LS_OK);
}

static void telling_rank(ls_cluster *cluster, int number, void *user)
{
    (void)user;
    ls_heartbeat seen[RANKS] = {{0}};
    int64_t times[RANKS] = {0};
    for (bool heard = false; !heard;) {
        ls_heartbeat mine = {.step = 10 + number, .phase = "data"};
        ls_cluster_tell(cluster, &mine, seen, times);
        heard = true;
        for (int r = 0; r < RANKS; r++)
            heard &= r == number || (number > 0 && r > 0) || times[r] != 0;
    }
    meet_others(cluster);
    for (int i = 0; i < 3; i++) /* whatever was sent is there by now */
        ls_cluster_tell(cluster, &(ls_heartbeat){.step = 10 + number, .phase = "data"}, seen, times);
    for (int r = 0; r < RANKS; r++) {
        assert_true((times[r] > 0) == (r != number && (number == 0 || r == 0)));
        assert_int_equal(seen[r].step, times[r] > 0 ? 10 + r : 0);
        assert_string_equal(seen[r].phase, times[r] > 0 ? "data" : "");
    }
    meet_others(cluster);
    ls_cluster_barrier(cluster);
}

static void heartbeats_reach_rank_0_and_come_from_it(void **state)
{
    (void)state;
    wire_run(RANKS, telling_rank, NULL);
}

/* Rank 1 tells more often than rank 0 listens. */
static void often_telling_rank(ls_cluster *cluster, int number, void *user)
{
    (void)user;
    ls_heartbeat seen[2] = {{0}};
    int64_t times[2] = {0};
    for (int i = 1; i <= 20 && number == 1; i++)
        ls_cluster_tell(cluster, &(ls_heartbeat){.step = i, .phase = "step"}, seen, times);
    meet_others(cluster);
    if (number == 0) {
        ls_cluster_tell(cluster, &(ls_heartbeat){.phase = "step"}, seen, times);
        assert_int_equal(seen[1].step, 20);
        assert_int_equal(times[1], 20);
    }
    meet_others(cluster);
    ls_cluster_barrier(cluster);
}

static void the_latest_heartbeat_is_heard(void **state)
{
    (void)state;
    wire_late = false;
    wire_run(2, often_telling_rank, NULL);
    wire_late = true;
}

/* Rank 0 listens until it has heard so many times. */
static void listen(ls_cluster *cluster, int64_t heard, int step)
{
    ls_heartbeat seen[2] = {{0}};
    int64_t times[2] = {0};
    for (int i = 0; i < 3 && times[1] < heard; i++)
        ls_cluster_tell(cluster, &(ls_heartbeat){.phase = "step"}, seen, times);
    assert_int_equal(times[1], heard);
    assert_int_equal(seen[1].step, step);
}

/* What rank 1 says while its first heartbeat is under way is not said; what it says after that is. */
static void early_telling_rank(ls_cluster *cluster, int number, void *user)
{
    (void)user;
    ls_heartbeat seen[2] = {{0}};
    int64_t times[2] = {0};
    for (int step = 1; step <= 5; step++) {
        if (number == 1)
            ls_cluster_tell(cluster, &(ls_heartbeat){.step = step, .phase = "step"}, seen, times);
        meet_others(cluster);
        if (number == 0 && step >= 3)
            listen(cluster, step - 2, step == 3 ? 1 : step);
        meet_others(cluster);
    }
    ls_cluster_barrier(cluster);
}

static void no_heartbeat_is_changed_under_way(void **state)
{
    (void)state;
    wire_run(2, early_telling_rank, NULL);
}

static void *say_until_known(void *user)
{
    ls_cluster *cluster = user;
    ls_heartbeat seen[2] = {{0}};
    int64_t times[2] = {0};
    while (seen[0].step == 0) /* rank 0 has seen it */
        ls_cluster_tell(cluster, &(ls_heartbeat){.step = 1, .phase = "step"}, seen, times);
    return NULL;
}

/* Rank 1 waits for rank 0, which comes once it has been told so; and is told when it has waited. */
static void waiting_rank(ls_cluster *cluster, int number, void *user)
{
    atomic_bool *came = user;
    ls_heartbeat seen[2] = {{0}};
    int64_t times[2] = {0};
    pthread_t sayer;
    if (number == 1)
        assert_int_equal(pthread_create(&sayer, NULL, say_until_known, cluster), 0);
    while (number == 0 && !seen[1].waiting)
        ls_cluster_tell(cluster, &(ls_heartbeat){.step = 0, .phase = "step"}, seen, times);
    meet_others(cluster);
    if (number == 1) {
        atomic_store(&came[0], true);
        pthread_join(sayer, NULL);
        atomic_store(&came[1], true);
    } else {
        while (!atomic_load(&came[0]))
            sched_yield();
        /* One heartbeat may be under way, and one be there, that are older. */
        for (int64_t heard = times[1]; times[1] < heard + 3;)
            ls_cluster_tell(cluster, &(ls_heartbeat){.step = 0, .phase = "step"}, seen, times);
        assert_int_equal(seen[1].waiting, 0);
        while (!atomic_load(&came[1])) /* its heartbeat before may be under way */
            ls_cluster_tell(cluster, &(ls_heartbeat){.step = 1, .phase = "step"}, seen, times);
    }
    ls_cluster_barrier(cluster);
}

static void who_waits_for_others_is_told(void **state)
{
    (void)state;
    atomic_bool came[2] = {false, false}; /* rank 1 to where it waited for rank 0, and its thread to its end */
    wire_run(2, waiting_rank, came);
}

/* As a worker has the wire between two looks at the clock. */
static void *hold_the_wire(void *user)
{
    ls_cluster *cluster = user;
    const struct timespec moment = {0, 2000000};
    pthread_mutex_lock(&cluster->lock);
    atomic_store(&cluster->waiting, 2);
    nanosleep(&moment, NULL);
    pthread_mutex_unlock(&cluster->lock);
    return NULL;
}

static void busy_rank(ls_cluster *cluster, int number, void *user)
{
    (void)user;
    ls_heartbeat seen[2] = {{0}};
    int64_t times[2] = {0};
    for (int i = 0; i < 10 && number == 1; i++) { /* on a busy machine the holder may sleep for longer than is waited */
        pthread_t holder;
        atomic_store(&cluster->waiting, 0);
        assert_int_equal(pthread_create(&holder, NULL, hold_the_wire, cluster), 0);
        while (atomic_load(&cluster->waiting) == 0)
            sched_yield();
        ls_cluster_tell(cluster, &(ls_heartbeat){.step = 1, .phase = "step"}, seen, times);
        pthread_join(holder, NULL);
    }
    meet_others(cluster);
    if (number == 0) {
        ls_cluster_tell(cluster, &(ls_heartbeat){.phase = "step"}, seen, times);
        assert_true(times[1] > 0 && seen[1].step == 1);
    }
    meet_others(cluster);
    ls_cluster_barrier(cluster);
}

static void heartbeats_travel_while_the_wire_is_in_use(void **state)
{
    (void)state;
    wire_late = false;
    wire_run(2, busy_rank, NULL);
    wire_late = true;
}

typedef struct torn {
    bool tells;
    atomic_int met;
} torn;

/* Nobody waits for heartbeats that cannot come any more. */
static void torn_rank(ls_cluster *cluster, int number, void *user)
{
    torn *t = user;
    ls_heartbeat seen[RANKS] = {{0}};
    int64_t times[RANKS] = {0};
    if (t->tells)
        ls_cluster_tell(cluster, &(ls_heartbeat){.step = number, .phase = "step"}, seen, times);
    meet_others(cluster);
    atomic_fetch_add(&t->met, 1);
    while (number == 1 && atomic_load(&t->met) < 3)
        sched_yield();
    if (number == 1)
        wire_break(cluster);
    ls_cluster_barrier(cluster);
}

static void a_broken_wire_lets_ranks_part(void **state)
{
    (void)state;
    for (int tells = 0; tells < 2; tells++) {
        torn t = {.tells = tells};
        assert_true(wire_run_torn(3, torn_rank, &t) >= 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heartbeats_reach_rank_0_and_come_from_it),   cmocka_unit_test(the_latest_heartbeat_is_heard),
        cmocka_unit_test(no_heartbeat_is_changed_under_way),          cmocka_unit_test(who_waits_for_others_is_told),
        cmocka_unit_test(heartbeats_travel_while_the_wire_is_in_use), cmocka_unit_test(a_broken_wire_lets_ranks_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
