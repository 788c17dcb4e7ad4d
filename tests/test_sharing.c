/* Parts of an operation that workers without a shard take: each is computed once, by somebody, and its owner waits for
 * all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/spin.h"
#include "base/timer.h"
#include "exec/sharing.h"

enum { WORKERS = 4, OPERATIONS = 20000, MOST = 7 };

/* What the kernel below adds to: each part has a number of its own, so that no two cores write the same. */
static int counts[MOST];
static atomic_int elsewhere;
static _Thread_local bool is_owner;

static void count(const ls_op_call *call)
{
    counts[call->part]++;
    if (!is_owner)
        atomic_fetch_add(&elsewhere, 1);
}

static int parts(const ls_op_call *call)
{
    return call->parts;
}

static const ls_backend with_parts = {.parts = parts}, without = {.parts = NULL};
static ls_executor core_unit = {.backend = &with_parts}, card_unit = {.backend = &without};
static ls_team team;
static ls_sharing sharings[WORKERS];
static ls_turn cores[WORKERS];
static char scratch[WORKERS];
static atomic_bool ended;

static void *helper(void *argument)
{
    ls_sharing *sharing = argument;
    ls_sharing_enter(sharing);
    while (!atomic_load(&ended))
        if (!ls_sharing_open(sharing) || !ls_sharing_take(sharing))
            ls_pause();
    ls_sharing_leave(sharing);
    return NULL;
}

static void make_team(int n_cores)
{
    memset(&team, 0, sizeof team);
    memset(sharings, 0, sizeof sharings);
    for (int i = 0; i < WORKERS; i++) {
        cores[i] = (ls_turn){.executor = &core_unit, .rooms = {{.scratch = &scratch[i]}}};
        ls_sharing_join(&sharings[i], &team, &cores[i % n_cores]);
    }
    atomic_store(&ended, false);
}

static void each_part_once(void **state)
{
    (void)state;
    pthread_t threads[WORKERS];
    ls_plan_step step = {.kernel = count};
    ls_plan plan = {.steps = &step, .n_steps = 1};
    ls_samples samples = {.count = 1};
    int helped = 0;
    make_team(WORKERS);
    is_owner = true;
    for (int i = 1; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, helper, &sharings[i]), 0);
    ls_helpers *helpers = ls_sharing_begin(&sharings[0], NULL);
    assert_non_null(helpers);
    while (helpers->ready(helpers) != WORKERS - 1)
        ls_pause();
    /* Until others have had their turn too, however few cores there are. */
    for (int n = 0; n < OPERATIONS || (helped == 0 && n < 1000 * OPERATIONS); n++) {
        ls_op_call call = {.samples = &samples, .scratch = &scratch[0], .parts = 2 + n % (MOST - 1)};
        ls_tally tally = {0};
        memset(counts, 0, sizeof counts);
        helpers->share(helpers, &plan, 0, &call, &(ls_probe){.tally = n % 2 ? &tally : NULL});
        for (int part = 0; part < MOST; part++)
            assert_int_equal(counts[part], part < call.parts);
        assert_true(tally.calls <= 1);
        assert_false(ls_sharing_open(&sharings[1]));
        helped = atomic_load(&elsewhere);
    }
    ls_sharing_end(&sharings[0]);
    assert_int_equal(helpers->ready(helpers), 0);
    atomic_store(&ended, true);
    for (int i = 1; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    assert_true(helped > 0);
    assert_int_equal(atomic_load(&team.idle), 0);
}

/* The idle are dealt out among those at work. Of those who share a core one helps; where ranks share cores nobody
 * does. */
static void who_is_ready(void **state)
{
    (void)state;
    make_team(WORKERS);
    ls_helpers *helpers = ls_sharing_begin(&sharings[0], NULL);
    assert_int_equal(helpers->ready(helpers), 0);
    ls_sharing_enter(&sharings[1]);
    assert_int_equal(helpers->ready(helpers), 1);
    ls_sharing_enter(&sharings[2]);
    assert_int_equal(helpers->ready(helpers), 2);
    ls_sharing_begin(&sharings[3], NULL);
    assert_int_equal(helpers->ready(helpers), 1);
    ls_sharing_leave(&sharings[2]);
    assert_int_equal(helpers->ready(helpers), 1);
    ls_sharing_leave(&sharings[1]);
    assert_int_equal(helpers->ready(helpers), 0);
    assert_false(ls_sharing_take(&sharings[1]));
    make_team(2);
    helpers = ls_sharing_begin(&sharings[0], NULL);
    ls_sharing_enter(&sharings[1]);
    ls_sharing_enter(&sharings[3]);
    assert_int_equal(helpers->ready(helpers), 1);
    ls_sharing_leave(&sharings[1]);
    assert_int_equal(helpers->ready(helpers), 0);
    ls_sharing_leave(&sharings[3]);
    ls_sharing_enter(&sharings[3]);
    assert_int_equal(helpers->ready(helpers), 1);
    ls_sharing_leave(&sharings[3]);
    ls_sharing_end(&sharings[0]);
    atomic_store(&team.crowded, true);
    assert_null(ls_sharing_begin(&sharings[0], NULL));
    ls_sharing_enter(&sharings[1]);
    assert_int_equal(atomic_load(&team.idle), 0);
    ls_sharing_leave(&sharings[1]);
    ls_sharing_end(&sharings[0]);
    assert_int_equal(atomic_load(&team.owners), 0);
}

static void late(const ls_op_call *call)
{
    (void)call;
    if (!is_owner)
        usleep(5000);
}

/* Where helpers cost more than they save, their owner goes on alone for a while, and then tries again. */
static void helping_must_pay(void **state)
{
    (void)state;
    pthread_t thread;
    ls_plan_step step = {.kernel = late};
    ls_plan plan = {.steps = &step, .n_steps = 1};
    ls_samples samples = {.count = 1};
    ls_probe probe = {.tally = NULL};
    make_team(WORKERS);
    is_owner = true;
    assert_int_equal(pthread_create(&thread, NULL, helper, &sharings[1]), 0);
    ls_helpers *helpers = ls_sharing_begin(&sharings[0], NULL);
    while (helpers->ready(helpers) == 0)
        ls_pause();
    for (int n = 0; n < 100000 && helpers->ready(helpers) > 0; n++)
        helpers->share(helpers, &plan, 0, &(ls_op_call){.samples = &samples, .scratch = &scratch[0], .parts = 64},
                       &probe);
    assert_int_equal(helpers->ready(helpers), 0);
    assert_int_equal(atomic_load(&team.idle), 1);
    double begin = ls_seconds();
    while (helpers->ready(helpers) == 0 && ls_seconds() < begin + 10)
        usleep(1000);
    assert_int_equal(helpers->ready(helpers), 1);
    ls_sharing_end(&sharings[0]);
    atomic_store(&ended, true);
    pthread_join(thread, NULL);
}

/* A card hands its operations in whole, and takes no part of others'. */
static void cards_keep_out(void **state)
{
    (void)state;
    make_team(WORKERS);
    cores[2].executor = cores[3].executor = &card_unit;
    assert_null(ls_sharing_begin(&sharings[3], NULL));
    ls_helpers *helpers = ls_sharing_begin(&sharings[0], NULL);
    ls_sharing_enter(&sharings[1]);
    ls_sharing_enter(&sharings[2]);
    assert_int_equal(helpers->ready(helpers), 1);
    assert_int_equal(atomic_load(&team.owners), 1);
    atomic_store(&sharings[0].state, (uint_fast64_t)1 << 32 | 2); /* two parts to be taken */
    assert_true(ls_sharing_open(&sharings[1]));
    assert_false(ls_sharing_open(&sharings[2]));
    assert_false(ls_sharing_take(&sharings[2]));
    atomic_store(&sharings[0].state, (uint_fast64_t)1 << 32);
    ls_sharing_leave(&sharings[2]);
    assert_int_equal(helpers->ready(helpers), 1);
    ls_sharing_leave(&sharings[1]);
    ls_sharing_end(&sharings[3]);
    ls_sharing_end(&sharings[0]);
    assert_int_equal(atomic_load(&team.owners), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_part_once), cmocka_unit_test(who_is_ready),
                                       cmocka_unit_test(cards_keep_out), cmocka_unit_test(helping_must_pay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
