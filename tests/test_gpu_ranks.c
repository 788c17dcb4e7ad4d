/* Ranks whose cards are joined: steps behind one another, ranks that come late, gradients before the first step, two
 * networks, and transfers that fail. Exit status 77 where there are fewer than two cards, or no NCCL. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/cards.h"
#include "gpu_network.h"
#include "not_run.h"
#include "observed.h"
#include "train/job.h"
#include "support.h"
#include "tensors.h"
#include "thread_wire.h"

enum { STEPS = 5, RANKS = 3 };

static int cards;

/* NULL, or why so many cannot. */
static const char *cannot_join(int ranks)
{
    if (!strstr(ls_features(), "a plugin for NCCL"))
        return "NCCL is not built in";
    return cards < ranks ? "there are fewer cards than ranks" : NULL;
}

/* ---- Joined cards go ahead ---- */

typedef struct ahead {
    ls_trainer *trainer;
    int shards_of_step, shards; /* the rank's; so far */
    int64_t begun;              /* steps */
    int steps;                  /* that began before the one in front of them was known to be good on all ranks */
    bool at_once;               /* nobody waits for a step */
    int spoiled;                /* the number of the step whose rate is infinite; 0: none */
    int late;                   /* milliseconds that the rank comes later to the step behind that one */
    bool done;
    uint64_t sum;
    ls_metrics metrics;
} ahead;

/* At each shard's beginning; of every step the rank computes as many. */
static bool note_ahead(void *user, ls_executor *executor, const char *call)
{
    ahead *a = user;
    (void)executor;
    if (a->done || strcmp(call, "begin") != 0 || a->shards++ % a->shards_of_step)
        return true;
    pthread_mutex_lock(&a->trainer->lock);
    a->steps += a->trainer->reported < a->begun++;
    pthread_mutex_unlock(&a->trainer->lock);
    return true;
}

static void ahead_main(ls_cluster *cluster, int number, void *user)
{
    enum { MANY = 8 };
    ahead *a = (ahead *)user + number;
    ls_session *s = ls_open(&(ls_options){.shard = SHARD, .cluster = cluster});
    ls_data *data = images(s);
    ls_module *net = network_of(s);
    ls_module_initialize(net, ls_parse_devices(s, "cuda:0"), &(ls_init){.kind = LS_XAVIER, .like = data});
    a->trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.05, .momentum = 0.9});
    a->shards_of_step = BATCH / SHARD / ls_cluster_ranks(cluster);
    test_observe(ls_turn_of(s, net->network->devices.at[0])->executor, note_ahead, a);
    ls_batch b;
    assert_true(ls_data_next(data, &b));
    for (int step = 1; step <= (a->spoiled && !a->at_once ? a->spoiled - 1 : MANY); step++) {
        if (a->late && step == a->spoiled + 1)
            nanosleep(&(struct timespec){0, 1000000L * a->late}, NULL);
        a->trainer->lr = a->at_once && step == a->spoiled ? HUGE_VAL : 0.05;
        test_step(net, a->trainer, &b);
        if (!a->at_once)
            ls_wait(s);
    }
    ls_wait(s);
    a->done = true;
    if (a->spoiled && a->at_once) {
        assert_true(ls_failed_together(s));
        assert_true(ls_catch(s, LS_NOT_FINITE));
    }
    a->sum = ls_module_checksum(net);
    ls_module_evaluate(net, data, &a->metrics);
    if (ls_failed(s))
        fail_msg("%s", ls_message(s));
    assert_int_equal(ls_close(s), LS_OK);
    ls_cluster_barrier(cluster);
}

/* A step is handed in behind one that other ranks are not done with; where that one is not finite it is dropped, by all
 * of them. */
static void ranks_begin_a_step_behind_another(void **state)
{
    (void)state;
    if (cannot_join(RANKS))
        test_not_run("%s", cannot_join(RANKS));
    const int spoiled[] = {0, 1, 4};
    for (int i = 0; i < 3; i++)
        for (int ranks = 2; ranks <= RANKS; ranks++) {
            ahead waits[RANKS] = {{.spoiled = spoiled[i]}}, goes[RANKS] = {{.spoiled = 0}};
            for (int r = 0; r < ranks; r++) {
                waits[r].spoiled = goes[r].spoiled = spoiled[i];
                goes[r].at_once = true;
                goes[r].late = 100 * (r > 0); /* the first one has handed in what is to be dropped */
            }
            wire_run(ranks, ahead_main, waits);
            wire_run(ranks, ahead_main, goes);
            for (int r = 0; r < ranks; r++) {
                assert_true(waits[r].sum == waits[0].sum && goes[r].sum == waits[0].sum);
                assert_true(goes[r].metrics.loss == waits[0].metrics.loss);
                assert_int_equal(waits[r].steps, 0);
                if (!spoiled[i] && goes[r].steps == 0)
                    fail_msg("rank %d of %d began no step behind another", r, ranks);
            }
        }
}

/* ---- What comes before the first step, and between the steps of another network ---- */

typedef struct pair {
    bool connected, late;
    uint64_t sums[2];
    float gradient[CLASSES];
} pair;

static void pair_main(ls_cluster *cluster, int number, void *user)
{
    pair *p = (pair *)user + number;
    ls_session *s = ls_open(&(ls_options){.shard = SHARD, .cluster = cluster, .host_sums = !p->connected});
    ls_data *data = images(s);
    ls_module *net[2] = {network_of(s), network_of(s)};
    ls_trainer *trainers[2];
    for (int i = 0; i < 2; i++) {
        ls_module_initialize(net[i], ls_parse_devices(s, "cuda:0"), &(ls_init){.kind = LS_XAVIER, .like = data});
        trainers[i] = ls_trainer_new(net[i], LS_SGD, &(ls_optim){.lr = 0.05, .momentum = 0.9});
    }
    ls_batch b;
    assert_true(ls_data_next(data, &b));
    ls_backward(test_losses(net[0], &b));
    test_read_gradient(net[0], "fc.1.bias", p->gradient, CLASSES);
    ls_trainer_step(trainers[0]);
    for (int step = 0; step < 3; step++) {
        test_step(net[0], trainers[0], &b);
        if (p->late && number > 0) /* while the others begin with the other network */
            nanosleep(&(struct timespec){0, 100000000}, NULL);
        test_step(net[1], trainers[1], &b);
    }
    for (int i = 0; i < 2; i++)
        p->sums[i] = ls_module_checksum(net[i]);
    if (ls_failed(s))
        fail_msg("%s", ls_message(s));
    assert_int_equal(ls_close(s), LS_OK);
    ls_cluster_barrier(cluster);
}

static void two_networks_take_turns(void **state)
{
    (void)state;
    if (cannot_join(2))
        test_not_run("%s", cannot_join(2));
    pair hosts[2] = {{.connected = false}}, connected[2] = {{.connected = true}, {.connected = true}};
    wire_run(2, pair_main, hosts);
    for (int late = 0; late < 2; late++) {
        connected[0].late = connected[1].late = late;
        wire_run(2, pair_main, connected);
        for (int r = 0; r < 2; r++) {
            assert_memory_equal(connected[r].sums, hosts[0].sums, sizeof hosts->sums);
            assert_memory_equal(connected[r].gradient, hosts[0].gradient, sizeof hosts->gradient);
        }
    }
}

/* ---- Failures ---- */

static void failing_main(ls_cluster *cluster, int number, void *user)
{
    const bool *first_word = user; /* is what fails: there is another way */
    (void)number;
    ls_session *s = ls_open(&(ls_options){.shard = SHARD, .cluster = cluster});
    ls_data *data = images(s);
    ls_module *net = network_of(s);
    ls_module_initialize(net, ls_parse_devices(s, "cuda:0"), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.05, .momentum = 0.9});
    int done = 0;
    test_train(s, net, trainer, data, &done, STEPS);
    ls_wait(s);
    if (*first_word) {
        bool direct;
        assert_non_null(strstr(ls_trainer_transport(trainer, &direct), "the first transfers from cuda:"));
        assert_false(direct);
        assert_int_equal(ls_close(s), LS_OK);
        ls_cluster_barrier(cluster);
        return;
    }
    if (ls_status_of(s) != LS_IO || !strstr(ls_message(s), "a transfer between ranks' cards failed"))
        fail_msg("%d: %s", ls_status_of(s), ls_message(s));
    assert_int_equal(ls_close(s), LS_IO);
}

/* What an emulated card meets, where the cards are emulated. */
static void transfers_that_fail_are_named(void **state)
{
    (void)state;
    char why[256], about[64] = "";
    const ls_cards *plugin = ls_cards_load(why, sizeof why);
    if (plugin)
        plugin->about(0, about, sizeof about);
    if (strcmp(about, "the host") != 0 || !strstr(ls_features(), "a plugin for NCCL"))
        test_not_run("only an NCCL that is emulated fails where it is told to");
    for (int at_once = 0; at_once < 2; at_once++)
        for (int late = 0; late < 2; late++) { /* the others wait for it, or have their numbers already */
            bool first_word = at_once;
            setenv("LOCKSTEP_EMULATED_NCCL", at_once ? late ? "0,1,50" : "1,1,0" : late ? "1,6,50" : "0,7,0", 1);
            first_word ? wire_run(2, failing_main, &first_word) : (void)wire_run_torn(2, failing_main, &first_word);
        }
    unsetenv("LOCKSTEP_EMULATED_NCCL");
}

int main(void)
{
    char why[256] = "";
    cards = ls_card_count(why, sizeof why);
    if (cards == 0 || cannot_join(2))
        return test_none_run("%s", cards == 0 ? why : cannot_join(2));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_begin_a_step_behind_another),
        cmocka_unit_test(two_networks_take_turns),
        cmocka_unit_test(transfers_that_fail_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
