/* Several cards in one process, and ranks that have cards: the bits of one card, wherever sums are made. Exit status 77
 * where there is no card; where there is one, it is shared by the ranks, and several in one process are not tested,
 * which is said. */
#include <lockstep_profile.h>
#include <lockstep_cluster.h>
#include <lockstep_checkpoint.h>
#include <lockstep_trial.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/cards.h"
#include "files.h"
#include "not_run.h"
#include "model/replica.h"
#include "support.h"
#include "tensors.h"
#include "thread_wire.h"
#include "gpu_network.h"

enum { STEPS = 5, RANKS = 3 };

static int cards;

/* Of a core and a card. */
typedef struct mix {
    int lost;          /* the type of device that fails in its first shard; 0: none */
    atomic_int at[3];  /* operations that devices of each type have begun */
    bool meet;         /* a device that begins waits for one of the other type */
    int64_t shards[2]; /* that each of the two has computed */
} mix;

typedef struct how {
    const char *devices; /* NULL: all there are */
    ls_dtype dtype;
    uint64_t shuffle;
    int lost; /* so many of the devices fail, each in its first shard */
    int replicas;
    double clip;
    bool host_sums, balance;
    int host_ranks;
    bool verify;        /* before the first step too */
    bool measured;      /* a profile, whose spans are looked at */
    const char *folder; /* goes on from the checkpoint there, if there is one, and leaves one; NULL: neither */
    int until;          /* steps; 0: STEPS */
    mix *mix;           /* NULL: the devices are of one kind */
} how;

typedef struct result {
    uint64_t sum;
    double losses[STEPS];
    ls_metrics metrics;
    float logits[ROWS * CLASSES], gradient[CLASSES];
} result;

/* The first devices of the list: cards, or parts of one. */
static bool fails(void *user, ls_device device, int shard, int operation)
{
    (void)shard;
    return ls_card_number(device) + ls_card_part(device) < *(const int *)user && operation == 3;
}

static bool mixed_fault(void *user, ls_device device, int shard, int operation)
{
    mix *m = user;
    const int other = device.type == LS_CPU ? LS_CUDA : LS_CPU;
    (void)shard;
    atomic_fetch_add(&m->at[device.type], 1);
    for (int i = 0; m->meet && i < 10000 && !atomic_load(&m->at[other]); i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    return (int)device.type == m->lost && operation == 3;
}

/* Ranks' cards are joined where each rank has its own and nothing forbids it. */
static void assert_meeting(ls_trainer *trainer, how h, const ls_cluster *cluster)
{
    bool direct;
    const int ranks = ls_cluster_ranks(cluster);
    const char *meeting = ls_trainer_transport(trainer, &direct);
    const bool can = ranks > 1 && cards >= ranks && !h.host_sums && strstr(ls_features(), "a plugin for NCCL");
    if (direct != can || (ranks > 1) != (*meeting != '\0'))
        fail_msg("%d ranks: cards are %sjoined: %s", ranks, direct ? "" : "not ", meeting);
}

/* On the cards' line of time, where they are joined: at least two groups of transfers a step, among its other work. */
static void assert_exchanges(ls_profile *profile, ls_trainer *trainer)
{
    bool direct;
    int transfers = 0, sums = 0;
    ls_span span, shard = {.end = 0};
    ls_trainer_transport(trainer, &direct);
    assert_int_equal(ls_profile_stop(profile), LS_OK);
    for (int64_t i = 0; i < ls_profile_spans(profile); i++) {
        assert_int_equal(ls_profile_span_at(profile, i, &span), LS_OK);
        if (span.kind == LS_SPAN_OPERATION)
            shard = span;
        sums += span.kind == LS_SPAN_CARD_SUM;
        transfers += span.kind == LS_SPAN_LINK;
        if (span.kind == LS_SPAN_LINK)
            assert_true(span.end >= span.begin && shard.end > 0);
    }
    if (direct ? transfers < 2 * STEPS || sums < STEPS : transfers > 0)
        fail_msg("%d spans of transfers, %d of sums", transfers, sums);
}

static result train(how h, ls_cluster *cluster)
{
    result r = {.sum = 0};
    ls_session *s =
        ls_open(&(ls_options){.shard = SHARD,
                              .dtype = h.dtype,
                              .cluster = cluster,
                              .host_sums = h.host_sums,
                              .balance = h.balance,
                              .trial = &(ls_trial){.shuffle_pulls = h.shuffle, .host_ranks = h.host_ranks}});
    ls_data *data = images(s);
    ls_module *net = network_of(s);
    ls_module_initialize(net, h.devices ? ls_parse_devices(s, h.devices) : ls_all_devices(s),
                         &(ls_init){.kind = LS_XAVIER, .like = data});
    if (ls_failed(s))
        fail_msg("%s", ls_message(s));
    assert_int_equal(net->network->n_replicas, h.replicas);
    assert_true(ls_network_mixed(net->network) == (h.mix != NULL));
    s->fault_user = h.mix ? (void *)h.mix : &h.lost;
    s->fault = h.mix ? mixed_fault : h.lost ? fails : NULL;
    ls_trainer *trainer = ls_trainer_new(
        net, LS_SGD, &(ls_optim){.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-4, .clip_norm = h.clip});
    float bias[CLASSES] = {0.5f, -0.5f};
    ls_checkpoints *kept = h.folder ? ls_checkpoints_open(trainer, data, h.folder, NULL) : NULL;
    ls_checkpoint from = {.step = 0};
    if (kept)
        ls_checkpoint_load(kept, &from);
    const int until = h.until ? h.until : STEPS;
    ls_profile *profile = h.measured ? ls_profile_start(trainer, 1 << 14) : NULL;
    for (int step = (int)from.step; step < until && !ls_failed(s);) {
        ls_batch b;
        while (step < until && ls_data_next(data, &b)) {
            if (step == 2) /* values that somebody writes reach every memory */
                ls_module_write_parameter(net, "fc.1.bias", bias, CLASSES);
            ls_backward(test_losses(net, &b));
            if ((step == 3 && !h.lost && !h.mix) || (step == 0 && h.verify))
                ls_trainer_verify(trainer);
            if (step == STEPS - 1)
                test_read_gradient(net, "fc.1.bias", r.gradient, CLASSES);
            ls_trainer_step(trainer);
            step++;
        }
    }
    if (kept)
        ls_checkpoint_save(kept, NULL);
    ls_wait(s);
    ls_report report;
    while (ls_trainer_next_report(trainer, &report))
        r.losses[report.step - 1] = report.loss;
    assert_meeting(trainer, h, cluster);
    if (profile)
        assert_exchanges(profile, trainer);
    for (int i = 0; h.mix && i < 2; i++) {
        ls_device_times times;
        assert_int_equal(ls_trainer_device_times(trainer, i, &times), LS_OK);
        h.mix->shards[i] = times.shards;
    }
    ls_module_evaluate(net, data, &r.metrics);
    ls_module_predict(net, data, r.logits, CLASSES);
    r.sum = ls_module_checksum(net);
    if (ls_failed(s))
        fail_msg("%s: %s", h.devices ? h.devices : "all", ls_message(s));
    assert_int_equal(ls_close(s), LS_OK);
    return r;
}

static void assert_same(const char *what, const result *a, const result *b)
{
    if (a->sum != b->sum || memcmp(a->losses, b->losses, sizeof a->losses) != 0 ||
        memcmp(a->logits, b->logits, sizeof a->logits) != 0 || a->metrics.loss != b->metrics.loss)
        fail_msg("%s: other bits; losses %.9g and %.9g at the end", what, a->losses[STEPS - 1], b->losses[STEPS - 1]);
    if (memcmp(a->gradient, b->gradient, sizeof a->gradient) != 0)
        fail_msg("%s: another gradient", what);
}

static void several_cards_have_the_bits_of_one(void **state)
{
    (void)state;
    if (cards < 3)
        test_not_run("there are %d cards", cards);
    for (int dtype = LS_F32; dtype <= LS_BF16; dtype += 2) {
        const ls_dtype type = (ls_dtype)dtype;
        const how ways[] = {{.devices = "cuda:0-1", .replicas = 1},
                            {.devices = "cuda:0-2", .replicas = 2},
                            {.replicas = 2},
                            {.devices = "cuda:1x2,cuda:2", .replicas = 1},
                            {.devices = "cuda:2,cuda:0", .replicas = 1},
                            {.devices = "cuda:0-2", .shuffle = 5, .replicas = 2},
                            {.devices = "cuda:0-2", .lost = 1, .replicas = 2}, /* the one that sums */
                            {.devices = "cuda:0-2", .lost = 2, .replicas = 2}};
        const result one = train((how){.devices = "cuda:0", .dtype = type}, NULL);
        assert_true(one.losses[0] > 0 && one.losses[STEPS - 1] > 0);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            how h = ways[i];
            h.dtype = type;
            const result many = train(h, NULL);
            assert_same(h.devices ? h.devices : "all", &one, &many);
        }
    }
}

typedef struct rank {
    how h;
    result result;
} rank;

static void rank_main(ls_cluster *cluster, int number, void *user)
{
    rank *me = (rank *)user + number;
    me->result = train(me->h, cluster);
    ls_cluster_barrier(cluster);
}

/* Over NCCL and by way of the hosts, in one level and in two, the gradient clipped or not. */
static void ranks_with_cards_have_the_bits_of_one(void **state)
{
    (void)state;
    const how ways[] = {{.host_sums = true},
                        {.host_sums = false},
                        {.dtype = LS_BF16},
                        {.host_ranks = 2, .measured = true},
                        {.host_sums = true, .measured = true},
                        {.verify = true, .shuffle = 3},
                        {.balance = true},
                        {.clip = 0.3}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const result one = train((how){.devices = "cuda:0", .dtype = ways[i].dtype, .clip = ways[i].clip}, NULL);
        for (int ranks = 2; ranks <= RANKS; ranks++) {
            rank each[RANKS] = {{.result = {.sum = 0}}};
            for (int r = 0; r < ranks; r++) { /* of three cards the second of two ranks has two */
                each[r].h = ways[i];
                each[r].h.devices = r ? NULL : "cuda:0";
                each[r].h.replicas = ranks == 2 && r && cards == 3 ? 2 : 1;
            }
            wire_run(ranks, rank_main, each);
            for (int r = 0; r < ranks; r++)
                assert_same("a rank", &one, &each[r].result);
        }
    }
}

/* Moments live with the owners of their pieces, on the cards; a run goes on over another number of ranks, joined or
 * not. */
static void ranks_with_cards_go_on_from_a_checkpoint(void **state)
{
    (void)state;
    if (!strstr(ls_features(), "weights files: jansson") || !strstr(ls_features(), "fingerprints: libcrypto"))
        test_not_run("this build has no checkpoints");
    const double clips[] = {0, 0.3};
    for (int i = 0; i < 2; i++) {
        char folder[32], name[64];
        snprintf(folder, sizeof folder, "kept-%d", i);
        snprintf(name, sizeof name, "%s", test_path(folder));
        const result one = train((how){.devices = "cuda:0", .clip = clips[i]}, NULL);
        for (int until = 2; until <= STEPS; until++) { /* by 2, 3, 2 and 3 ranks, the last ones by way of the hosts */
            rank each[RANKS] = {{.result = {.sum = 0}}};
            const int ranks = 2 + until % 2;
            for (int r = 0; r < ranks; r++)
                each[r].h = (how){.devices = "cuda:0",
                                  .replicas = 1,
                                  .clip = clips[i],
                                  .folder = name,
                                  .until = until,
                                  .host_sums = until == STEPS};
            wire_run(ranks, rank_main, each);
            for (int r = 0; r < ranks; r++)
                if (memcmp(&each[r].result.losses[until - 1], &one.losses[until - 1], sizeof *one.losses) != 0 ||
                    (until == STEPS && each[r].result.sum != one.sum))
                    fail_msg("clipping %g, after step %d: other bits", clips[i], until);
        }
    }
}

static void every_device_fails(void **state)
{
    (void)state;
    if (cards < 2)
        test_not_run("there is one card");
    ls_session *s = ls_open(&(ls_options){.shard = SHARD});
    ls_data *data = images(s);
    ls_module *net = network_of(s);
    ls_module_initialize(net, ls_parse_devices(s, "cuda:0-1"), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.05});
    const int all = 100;
    s->fault_user = (void *)&all;
    s->fault = fails;
    ls_batch b;
    assert_true(ls_data_next(data, &b));
    test_step(net, trainer, &b);
    ls_wait(s);
    assert_caught(s, LS_NO_DEVICE, "no other can go on");
    assert_int_equal(ls_close(s), LS_OK);
}

/* ---- CPUs and cards together ---- */

static bool near(const float *a, const float *b, int n, double within)
{
    for (int i = 0; i < n; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= within))
            return false;
    return true;
}

/* To rounding: which of them computes a shard is a matter of time. */
static void cpus_and_cards_train_together(void **state)
{
    (void)state;
    const result one = train((how){.devices = "cuda:0"}, NULL);
    const char *const lists[] = {"cpu:0,cuda:0", "cuda:0,cpu:0"};
    for (int i = 0; i < 2; i++) {
        mix m = {.meet = true};
        const result both = train((how){.devices = lists[i], .replicas = 1, .mix = &m}, NULL);
        assert_true(m.shards[0] > 0 && m.shards[1] > 0);
        for (int step = 0; step < STEPS; step++)
            if (!(fabs(both.losses[step] - one.losses[step]) <= 1e-4 * one.losses[step]))
                fail_msg("%s: the loss of step %d is %.9g, on the card %.9g", lists[i], step + 1, both.losses[step],
                         one.losses[step]);
        assert_true(near(both.gradient, one.gradient, CLASSES, 1e-4 * BATCH));
        assert_true(near(both.logits, one.logits, ROWS * CLASSES, 1e-3));
        assert_int_equal(both.metrics.rows, ROWS);
        assert_true(fabs(both.metrics.loss - one.metrics.loss) <= 1e-4 * one.metrics.loss);
    }
}

/* What the devices of one kind have begun and lost is done by the other, whose bits the run then has. */
static void one_kind_fails(void **state)
{
    (void)state;
    const how alone[] = {{.devices = "cuda:0"}, {.devices = "cpu:0"}};
    const int lost[] = {LS_CPU, LS_CUDA};
    for (int i = 0; i < 2; i++) {
        mix m = {.lost = lost[i], .meet = true};
        const result left = train((how){.devices = "cpu:0,cuda:0", .replicas = 1, .mix = &m}, NULL);
        const result one = train(alone[i], NULL);
        assert_same(alone[i].devices, &one, &left);
    }
}

/* A device that is far slower than another kind leaves shards to it, but not for ever. */
static void slow_devices_leave_shards(void **state)
{
    (void)state;
    ls_session *s = ls_open(&(ls_options){.shard = SHARD});
    ls_data *data = images(s);
    ls_module *net = network_of(s);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0,cuda:0"), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.05});
    ls_batch b;
    mix m = {.lost = 0};
    ls_worker *workers = net->network->engine->workers;
    s->fault_user = &m;
    s->fault = mixed_fault;
    for (int step = 0; step < 3; step++) {
        assert_true(ls_data_next(data, &b) || ls_data_next(data, &b));
        atomic_store(&workers[0].pace.seconds, step < 2 ? 1e6 : 1.0);
        atomic_store(&workers[1].pace.seconds, 1e-6);
        if (step == 2)
            m.lost = LS_CUDA;
        test_step(net, trainer, &b);
        ls_wait(s);
        assert_false(ls_failed(s));
        assert_int_equal(atomic_load(&m.at[LS_CPU]) > 0, step == 2);
    }
    assert_int_equal(ls_close(s), LS_OK);
}

static void what_cpus_and_cards_cannot_do_is_refused(void **state)
{
    (void)state;
    ls_session *s = ls_open(&(ls_options){.shard = SHARD, .dtype = LS_BF16});
    ls_module_initialize(network_of(s), ls_parse_devices(s, "cuda:0,cpu:0"), NULL);
    assert_caught(s, LS_UNSUPPORTED, "cpu");
    assert_int_equal(ls_close(s), LS_OK);
    s = ls_open(&(ls_options){.shard = SHARD});
    ls_data *data = images(s);
    ls_module *net = network_of(s);
    uint64_t sum = 0;
    assert_int_equal(ls_self_test(s, ls_parse_devices(s, "cpu:0,cuda:0"), &sum), LS_OK);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0,cuda:0"), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.05});
    ls_batch b;
    assert_true(ls_data_next(data, &b));
    ls_backward(test_losses(net, &b));
    ls_trainer_verify(trainer);
    assert_caught(s, LS_UNSUPPORTED, "round differently");
    assert_int_equal(ls_close(s), LS_OK);
}

/* A norm taken on the card is the one that the host takes of several cards' gradient. */
static void a_card_clips_as_the_host_does(void **state)
{
    (void)state;
    const result one = train((how){.devices = "cuda:0", .clip = 0.3}, NULL);
    const result other = train((how){.devices = "cuda:0"}, NULL);
    const result parts = train((how){.devices = "cuda:0x3", .clip = 0.3}, NULL);
    assert_same("cuda:0x3", &one, &parts);
    assert_true(one.sum != other.sum);
    if (cards < 2) {
        print_message("there are %d cards: not compared with the host\n", cards);
        return;
    }
    const result two = train((how){.devices = "cuda:0-1", .clip = 0.3, .replicas = 1}, NULL);
    assert_same("cuda:0-1", &one, &two);
    const how each = {.devices = "cuda:0", .clip = 0.3, .replicas = 1};
    rank pair[2] = {{.h = each}, {.h = each}};
    wire_run(2, rank_main, pair); /* these clip on the host */
    assert_same("two ranks", &one, &pair[0].result);
}

/* A network's shards are computed by any of its devices; a tensor of one's own lies on one. */
static void own_numbers_in_a_loss_are_refused(void **state)
{
    (void)state;
    ls_session *s = ls_open(&(ls_options){.shard = SHARD});
    ls_data *data = images(s);
    ls_module *net = network_of(s);
    ls_module_initialize(net, ls_parse_devices(s, "cuda:0"), &(ls_init){.like = data});
    ls_tensor *own = ls_zeros(s, LS_SHAPE(CLASSES));
    ls_track(own);
    ls_batch b;
    assert_true(ls_data_next(data, &b));
    ls_tensor *logits = ls_add(ls_module_infer(net, b.X), own);
    float values[BATCH * CLASSES];
    ls_read(logits, values, BATCH * CLASSES);
    assert_caught(s, LS_UNSUPPORTED, "one's own");
    assert_int_equal(ls_close(s), LS_OK);
}

int main(void)
{
    char why[256] = "";
    cards = ls_card_count(why, sizeof why);
    if (cards == 0)
        return test_none_run("%s", why);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_cards_have_the_bits_of_one),
        cmocka_unit_test(ranks_with_cards_have_the_bits_of_one),
        cmocka_unit_test_setup_teardown(ranks_with_cards_go_on_from_a_checkpoint, test_folder_make, test_folder_remove),
        cmocka_unit_test(every_device_fails),
        cmocka_unit_test(cpus_and_cards_train_together),
        cmocka_unit_test(one_kind_fails),
        cmocka_unit_test(slow_devices_leave_shards),
        cmocka_unit_test(what_cpus_and_cards_cannot_do_is_refused),
        cmocka_unit_test(a_card_clips_as_the_host_does),
        cmocka_unit_test(own_numbers_in_a_loss_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
