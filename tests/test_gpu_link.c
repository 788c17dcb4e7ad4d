/* A card that is connected with itself, as the only rank: what is sent is received, in the order of the card's other
 * work, and whoever waits for it waits for that; a connection that was lost leaves nothing behind. All of NCCL that a
 * single card can show. Exit status 77 where there is no card or no plugin. */
#include <stdlib.h>
#include <string.h>

#include "base/timer.h"
#include "comm/link.h"
#include "device/cards.h"
#include "device/open.h"
#include "not_run.h"
#include "support.h"
#include "thread_wire.h"

enum { N = 1 << 20, ROUNDS = 3, GROUP = 40 };

static float *random_floats(test_random *random)
{
    float *x = test_floats(N);
    test_fill_normal(random, x, N);
    return x;
}

/* a + b goes out, and what comes back gets b once more; three times, without a wait. */
static void exchange(ls_executor *executor)
{
    const ls_executor_type *type = executor->type;
    test_random random = {5};
    float *a = random_floats(&random), *b = random_floats(&random), *got = test_floats(N);
    float *there[4];
    for (int i = 0; i < 4; i++)
        there[i] = type->memory.allocate(executor, N * sizeof(float));
    type->memory.put(executor, there[0], a, N * sizeof *a);
    type->memory.put(executor, there[1], b, N * sizeof *b);
    for (int round = 0; round < ROUNDS; round++) {
        const ls_terms sum = {.n = 3, .at = {there[0], there[1], NULL}};
        type->compute.sum(executor, &sum, there[2], N);
        type->peers.begin_group(executor);
        for (int i = 0; i < GROUP; i++) { /* many at once, as a network's buckets are */
            const size_t begin = (size_t)N * i / GROUP, end = (size_t)N * (i + 1) / GROUP;
            type->peers.receive(executor, 0, there[3] + begin, (end - begin) * sizeof(float));
            type->peers.send(executor, 0, there[2] + begin, (end - begin) * sizeof(float));
        }
        type->peers.end_group(executor);
        const ls_terms again = {.n = 3, .at = {there[3], there[1], NULL}};
        type->compute.sum(executor, &again, there[0], N);
    }
    type->memory.get(executor, got, there[0], N * sizeof *got);
    assert_int_equal(ls_executor_check(executor), LS_OK);
    for (int i = 0; i < N; i++) {
        float x = a[i];
        for (int k = 0; k < 2 * ROUNDS; k++)
            x += b[i];
        if (memcmp(&x, &got[i], sizeof x) != 0)
            fail_msg("number %d is %.9g, not %.9g", i, got[i], x);
    }
    bool finite = true;
    double begun = ls_seconds();
    for (int round = 0; round < 10; round++) {
        type->peers.begin_group(executor);
        type->peers.receive(executor, 0, there[3], N * sizeof(float));
        type->peers.send(executor, 0, there[2], N * sizeof(float));
        type->peers.end_group(executor);
    }
    assert_int_equal(ls_executor_finish(executor, &finite), LS_OK);
    print_message("a transfer of %d MiB to itself: %.0f us\n", N >> 18, (ls_seconds() - begun) / 10 * 1e6);
    for (int i = 0; i < 4; i++)
        ls_executor_release(executor, there[i]);
    free(a);
    free(b);
    free(got);
}

static void rank_main(ls_cluster *cluster, int number, void *user)
{
    ls_context context;
    char why[LS_WHY] = "";
    (void)number, (void)user;
    assert_int_equal(ls_context_init(&context, NULL), LS_OK);
    ls_executor *executor = ls_executor_open(&context, &(ls_options){.dtype = LS_F32}, ls_gpu(0));
    if (!executor)
        fail_msg("%s", context.message);
    for (int times = 0; times < 2; times++) {
        double begun = ls_seconds();
        if (!ls_link_connect(cluster, &context, executor, why))
            fail_msg("not connected: %s", why);
        print_message("connected by %s in %.2f s\n", why, ls_seconds() - begun);
        assert_true(executor->connected);
        exchange(executor);
        /* As in a step that has lost its connection: a group begins nothing that the next connection would wait for. */
        executor->type->peers.disconnect(executor, true);
        executor->connected = 0;
        executor->type->peers.begin_group(executor);
        executor->type->peers.end_group(executor);
    }
    ls_executor_close(executor);
    ls_context_destroy(&context);
}

static void a_card_sends_to_itself(void **state)
{
    (void)state;
    wire_run(1, rank_main, NULL);
}

int main(void)
{
    char why[256] = "";
    if (ls_card_count(why, sizeof why) == 0 || !strstr(ls_features(), "a plugin for NCCL"))
        return test_none_run("%s", *why ? why : "NCCL is not built in");
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_card_sends_to_itself)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
