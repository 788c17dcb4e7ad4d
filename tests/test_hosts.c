/* Ranks without an MPI: threads of this process, each with a session of its own. */
#include <lockstep_profile.h>
#include <lockstep_train.h>
#include <lockstep_trial.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/host.h"
#include "cluster/cluster.h"
#include "train/gathered.h"
#include "support.h"
#include "thread_wire.h"
#include "training.h"

enum { RANKS = 8, CLASSES = 3, NARROW = 40, WIDE = 6000, MOST_ASKED = (1 << 23) - 1 };

/* ---- A small run ---- */

typedef struct result {
    uint64_t sum, averages, moments, other;
    double losses[16];
    ls_metrics metrics;
    float logits[64 * CLASSES];
    ls_status status;
    char message[256];
    bool together, balanced;
    int asked, shares[RANKS];
    int balanced_from, measured; /* the first step that was cut by speed; shards that throughputs were measured of */
} result;

typedef struct plan {
    int ranks, batch, shard, rows, devices;
    int epochs; /* 0: 2 */
    ls_optimizer optimizer;
    double lr, momentum, clip;
    int ask_rank; /* asks for more than the others, from the start; -1: none asks for anything */
    uint64_t shuffle;
    int host_ranks; /* pretended by the option */
    int hosts;      /* pretended by names, in turn; 0: as it is */
    bool balance;
    double slow_seconds; /* of the last rank */
    double set;          /* the rate from the third step on; 0: it stays */
    bool wide;           /* enough weights for several buckets */
} plan;

typedef struct rank {
    const plan *plan;
    result result;
} rank;

static ls_module *small_net(ls_session *s, int width)
{
    ls_module *net = ls_sequential(s, NULL);
    ls_module_append(net, "conv", ls_nn_conv2d(s, 5, 3, &(ls_conv){.padding = 1}));
    ls_module_append(net, "bn", ls_nn_batch_norm(s));
    ls_module_append(net, "relu", ls_nn_fn(s, ls_relu));
    ls_module_append(net, "flat", ls_nn_fn(s, ls_flatten));
    ls_module_append(net, "fc", ls_nn_linear(s, width));
    ls_module_append(net, "fc2", ls_nn_linear(s, CLASSES));
    return net;
}

static ls_data *small_data(ls_session *s, const plan *p)
{
    static const ls_loader loader = {.shuffle = true};
    uint8_t images[64 * 36], labels[64];
    for (size_t i = 0; i < sizeof images; i++)
        images[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t i = 0; i < sizeof labels; i++)
        labels[i] = (uint8_t)(i * i % CLASSES);
    ls_loader own = loader;
    own.batch = p->batch;
    return ls_data_from_memory(s, images, labels, p->rows, 1, 6, 6, CLASSES, &own);
}

static void train_small(const plan *p, ls_cluster *cluster, int number, result *r)
{
    ls_session *s =
        ls_open(&(ls_options){.seed = 7,
                              .shard = p->shard,
                              .cluster = cluster,
                              .balance = p->balance,
                              .trial = &(ls_trial){.shuffle_pulls = p->shuffle,
                                                   .host_ranks = p->host_ranks,
                                                   .slow_seconds = number == p->ranks - 1 ? p->slow_seconds : 0}});
    ls_data *data = small_data(s, p);
    ls_module *net = small_net(s, p->wide ? WIDE : NARROW);
    ls_devices devices = {.n = p->devices};
    for (int d = 0; d < p->devices; d++)
        devices.at[d] = ls_cpu(d);
    ls_module_initialize(net, devices, &(ls_init){.kind = LS_XAVIER, .like = data});
    ls_trainer *trainer = ls_trainer_new(
        net, p->optimizer,
        &(ls_optim){.lr = p->lr, .momentum = p->momentum, .clip_norm = p->clip, .ema = p->momentum > 0 ? 0.75 : 0});
    ls_module *other = small_net(s, NARROW); /* a second network, whose steps come between */
    ls_module_initialize(other, devices, &(ls_init){.like = data});
    ls_trainer *second = ls_trainer_new(other, LS_SGD, &(ls_optim){.lr = 0.1});
    ls_report report;
    ls_trainer_vote(trainer, p->ask_rank == number ? MOST_ASKED : p->ask_rank >= 0 ? number + 1 : 0);
    for (int epoch = 0; epoch < (p->epochs ? p->epochs : 2); epoch++)
        for (ls_batch b; !r->asked && ls_data_next(data, &b);) {
            test_step(net, trainer, &b);
            test_step(other, second, &b);
            if (p->set > 0 && trainer->handed_in == 2)
                ls_trainer_set_lr(trainer, p->set);
            ls_trainer_vote(trainer, number % 2 ? -1 : MOST_ASKED + 1); /* of no account */
            r->asked = ls_trainer_voted(trainer);
            if (!r->balanced_from && ls_trainer_balanced(trainer, NULL))
                r->balanced_from = (int)trainer->handed_in;
        }
    ls_wait(s);
    while (ls_trainer_next_report(trainer, &report))
        if (report.step <= 16)
            r->losses[report.step - 1] = report.loss;
    ls_module_evaluate(net, data, &r->metrics);
    ls_module_predict(net, data, r->logits, CLASSES);
    if (p->momentum > 0)
        r->averages = test_average_checksum(net, trainer);
    r->sum = ls_module_checksum(net);
    r->balanced = ls_trainer_balanced(trainer, r->shares);
    for (int place = 0; trainer->throughputs && place < p->ranks; place++)
        r->measured += trainer->throughputs[place].shards;
    assert_true(net->network->flat.n_buckets == (p->wide ? 2 : 1));
    assert_true(!cluster || cluster->crowded == (p->ranks > 1)); /* threads of one process have the same cores */
    if (cluster && p->host_ranks)
        assert_int_equal(trainer->groups.groups, (p->ranks - 1) / p->host_ranks + 1);
    if (cluster && p->hosts && p->ranks >= 2 * p->hosts)
        assert_int_equal(trainer->groups.groups, p->hosts);
    if (trainer->moments) /* whole on rank 0, and from there on all */
        assert_int_equal(ls_gathered_moments(trainer, trainer->moments), LS_OK);
    size_t floats = (size_t)trainer->n_moments * net->network->flat.trainable;
    if (cluster && floats)
        ls_cluster_gather_from(cluster, &s->context, 0, trainer->moments, floats * sizeof(float));
    for (size_t i = 0; i < floats; i++) {
        uint32_t bits;
        memcpy(&bits, &trainer->moments[i], sizeof bits);
        r->moments = 31 * r->moments + bits;
    }
    r->other = ls_module_checksum(other);
    r->together = ls_failed_together(s);
    assert_true(ls_failed(s) || ls_work_done(s) > 0);
    snprintf(r->message, sizeof r->message, "%s", ls_message(s));
    r->status = ls_close(s);
    assert_true(!cluster || !cluster->stepping);
}

static void rank_main(ls_cluster *cluster, int number, void *user)
{
    rank *me = (rank *)user + number;
    assert_int_equal(ls_cluster_status(cluster), LS_OK);
    assert_int_equal(ls_cluster_rank(cluster), number);
    assert_int_equal(ls_cluster_ranks(cluster), me->plan->ranks);
    assert_true(*ls_cluster_host(cluster, 0));
    for (int r = 0; me->plan->hosts && r < me->plan->ranks;
         r++) { /* some differ in their names, some are of one name */
        snprintf(cluster->hosts[r], LS_HOST_NAME, "host%d", r % me->plan->hosts / 2);
        snprintf(cluster->boots[r], LS_HOST_BOOT, "boot%d", r % me->plan->hosts % 2);
    }
    train_small(me->plan, cluster, number, &me->result);
    ls_cluster_barrier(cluster);
}

static void on_ranks(const plan *p, rank ranks[], void (*run)(ls_cluster *cluster, int number, void *user))
{
    for (int r = 0; r < p->ranks; r++)
        ranks[r] = (rank){.plan = p};
    wire_run(p->ranks, run, ranks);
}

static void broken_rank(ls_cluster *cluster, int number, void *user)
{
    const rank *me = (rank *)user + number;
    const plan p = {.batch = 24, .rows = 48};
    ls_session *s = ls_open(
        &(ls_options){.shard = 4, .cluster = cluster, .trial = &(ls_trial){.host_ranks = me->plan->host_ranks}});
    ls_data *data = small_data(s, &p);
    ls_module *net = small_net(s, NARROW);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    for (ls_batch b; ls_data_next(data, &b);)
        test_step(net, trainer, &b);
    assert_int_equal(ls_wait(s), LS_IO);
    int done = 0;
    char words[80];
    for (ls_report report; ls_trainer_next_report(trainer, &report);)
        done++;
    snprintf(words, sizeof words, "rank %d: step %d: a transfer between ranks failed", number, done + 1);
    assert_string_equal(ls_message(s), words);
    assert_int_equal(wire_receiving(cluster), 0);
    ls_close(s);
}

/* A rank that has taken no step yet, and its first batch. */
typedef struct small {
    ls_session *s;
    ls_module *net;
    ls_trainer *trainer;
    ls_batch b;
} small;

static small begin_small(ls_cluster *cluster, const ls_optim *how)
{
    const plan p = {.batch = 24, .rows = 48};
    small t = {.s = ls_open(&(ls_options){.shard = 4, .cluster = cluster})};
    ls_data *data = small_data(t.s, &p);
    t.net = small_net(t.s, NARROW);
    ls_module_initialize(t.net, ls_parse_devices(t.s, "cpu:0"), &(ls_init){.like = data});
    t.trainer = ls_trainer_new(t.net, LS_SGD, how);
    assert_true(ls_data_next(data, &t.b));
    return t;
}

/* The last rank sets another rate: all are told, and keep the weights from before. */
static void other_rate(ls_cluster *cluster, int number, void *user)
{
    const int last = ((rank *)user + number)->plan->ranks - 1;
    small t = begin_small(cluster, &(ls_optim){.lr = 0.1});
    test_step(t.net, t.trainer, &t.b);
    assert_int_equal(ls_wait(t.s), LS_OK);
    const uint64_t sum = ls_module_checksum(t.net);
    float gradient[CLASSES];
    assert_int_equal(ls_trainer_set_lr(t.trainer, number == last ? 0.0500001 : 0.05), LS_OK);
    ls_backward(test_losses(t.net, &t.b));
    assert_int_equal(test_read_gradient(t.net, "fc2.bias", gradient, CLASSES), LS_OK); /* no rate is in it */
    assert_int_equal(ls_trainer_step(t.trainer), LS_OK);
    assert_int_equal(ls_wait(t.s), LS_DIFFERS);
    char words[256];
    snprintf(words, sizeof words,
             "step 2: rank %d on host %s has another learning rate or other options of the trainer than rank 0; give "
             "all ranks the same",
             last, ls_cluster_host(cluster, last));
    assert_string_equal(ls_message(t.s), words);
    assert_true(ls_failed_together(t.s) && ls_catch(t.s, LS_DIFFERS));
    assert_true(ls_module_checksum(t.net) == sum);
    assert_int_equal(ls_trainer_set_lr(t.trainer, 0.05), LS_OK);
    test_step(t.net, t.trainer, &t.b);
    assert_int_equal(ls_wait(t.s), LS_OK);
    assert_true(ls_module_checksum(t.net) != sum);
    ls_close(t.s);
}

/* A single weight has a new value that is none, which one rank alone updates; all others' values are fine. */
static void overflowing_rank(ls_cluster *cluster, int number, void *user)
{
    enum { WEIGHTS = 36 * CLASSES };
    (void)number, (void)user;
    const plan p = {.batch = 24, .rows = 48};
    const float weights[WEIGHTS] = {[WEIGHTS - 1] = 1};
    ls_session *s = ls_open(&(ls_options){.shard = 4, .cluster = cluster});
    ls_data *data = small_data(s, &p);
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), ls_nn_linear(s, CLASSES)));
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data});
    ls_module_write_parameter(net, "1.weight", weights, WEIGHTS);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 1e29, .weight_decay = 1e10});
    const uint64_t sum = ls_module_checksum(net);
    ls_batch b;
    assert_true(ls_data_next(data, &b));
    test_step(net, trainer, &b);
    assert_int_equal(ls_wait(s), LS_NOT_FINITE);
    assert_string_equal(ls_message(s), "step 1: the update of 1.weight is not finite; a lower learning rate may help");
    assert_true(ls_failed_together(s) && ls_catch(s, LS_NOT_FINITE));
    assert_true(ls_module_checksum(net) == sum);
    ls_close(s);
}

/* Another decay, which some of the parameters have nothing of. */
static void other_decay(ls_cluster *cluster, int number, void *user)
{
    (void)user;
    small t = begin_small(cluster, &(ls_optim){.lr = 0.1, .weight_decay = number == 1 ? 0.25 : 0.125});
    ls_trainer_set_group(t.trainer, "*", &(ls_param_group){.vectors = true, .no_decay = true});
    test_step(t.net, t.trainer, &t.b);
    assert_int_equal(ls_wait(t.s), LS_DIFFERS);
    assert_non_null(strstr(ls_message(t.s), "step 1: rank 1 on host "));
    ls_close(t.s);
}

static atomic_bool is_known; /* that rank 0 waits */

/* Rank 0 sums for the others what it has, and waits for one that is late; whoever watches it knows. */
static void measured_rank(ls_cluster *cluster, int number, void *user)
{
    (void)user;
    small t = begin_small(cluster, &(ls_optim){.lr = 0.1});
    test_step(t.net, t.trainer, &t.b);
    assert_int_equal(ls_wait(t.s), LS_OK);
    ls_profile *profile = ls_profile_start(t.trainer, 1000);
    if (number == 0)
        test_step(t.net, t.trainer, &t.b);
    for (int i = 0; i < 2000 && !atomic_load(&is_known); i++) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        if (number == 0 && atomic_load(&cluster->waiting))
            atomic_store(&is_known, true);
    }
    if (number)
        test_step(t.net, t.trainer, &t.b);
    assert_int_equal(ls_wait(t.s), LS_OK);
    assert_int_equal(ls_profile_stop(profile), LS_OK);
    int given = 0, reduced = 0;
    double waited = 0;
    for (int64_t i = 0; i < ls_profile_spans(profile); i++) {
        ls_span span;
        assert_int_equal(ls_profile_span_at(profile, i, &span), LS_OK);
        given += span.kind == LS_SPAN_GIVE && span.number == 0;
        reduced += span.kind == LS_SPAN_REDUCE && span.number == 0;
        waited += span.kind == LS_SPAN_WAIT_RANKS ? span.end - span.begin : 0;
    }
    if (number == 0 && !(atomic_load(&is_known) && waited > 0 && given && reduced))
        fail_msg("%d, %g s, %d given, %d reduced", atomic_load(&is_known), waited, given, reduced);
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* ---- Tests ---- */

static void any_number_of_ranks_gives_the_bits_of_one(void **state)
{
    (void)state;
    static const plan plans[] = {
        {.batch = 24, .shard = 4, .rows = 40, .devices = 1, .lr = 0.1, .momentum = 0.9, .ask_rank = -1},
        {.batch = 14, .shard = 2, .rows = 38, .devices = 2, .lr = 0.1, .ask_rank = -1},
        {.batch = 40, .shard = 3, .rows = 40, .devices = 2, .lr = 0.1, .momentum = 0.5, .ask_rank = -1, .shuffle = 3},
        {.batch = 3, .shard = 64, .rows = 7, .devices = 1, .lr = 0.1, .momentum = 0.9, .ask_rank = -1},
        {.batch = 14, .shard = 2, .rows = 38, .devices = 1, .optimizer = LS_ADAMW, .lr = 0.01, .ask_rank = -1},
        {.batch = 24, .shard = 4, .rows = 40, .devices = 2, .lr = 0.1, .momentum = 0.9, .clip = 0.4, .ask_rank = -1},
        {.batch = 14, .shard = 2, .rows = 38, .devices = 1, .lr = 0.1, .momentum = 0.9, .set = 0.02, .ask_rank = -1},
    };
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        result alone = {0};
        train_small(&plans[i], NULL, 0, &alone);
        assert_int_equal(alone.status, LS_OK);
        for (int n = i ? 2 + (int)i % 2 : 1; n <= 7; n += i ? 2 : 1) {
            rank ranks[RANKS];
            plan p = plans[i];
            p.ranks = n;
            wire_late = (n / 2 + (int)i) % 2 != 0;
            on_ranks(&p, ranks, rank_main);
            for (int r = 0; r < n; r++)
                assert_memory_equal(&ranks[r].result, &alone, sizeof alone);
        }
    }
    wire_late = true;
}

static void any_number_of_hosts_gives_the_bits_of_one(void **state)
{
    (void)state;
    static const plan plans[] = {
        {.batch = 24, .shard = 2, .rows = 40, .devices = 1, .lr = 0.1, .momentum = 0.9, .ask_rank = -1},
        {.batch = 14, .shard = 3, .rows = 38, .devices = 2, .lr = 0.1, .momentum = 0.5, .ask_rank = -1, .shuffle = 5},
        {.batch = 14, .shard = 2, .rows = 38, .devices = 1, .optimizer = LS_ADAM, .lr = 0.01, .ask_rank = -1},
        {.batch = 24, .shard = 4, .rows = 40, .devices = 2, .lr = 0.1, .momentum = 0.9, .clip = 0.4, .ask_rank = -1},
    };
    static const struct shape {
        int ranks, host_ranks, hosts;
    } shapes[] = {{2, 2, 0}, {3, 2, 0}, {4, 2, 0}, {5, 2, 0}, {5, 3, 0}, {6, 3, 0}, {7, 3, 0}, {7, 2, 0},
                  {8, 4, 0}, {4, 0, 2}, {6, 0, 2}, {7, 0, 2}, {7, 0, 3}, {8, 0, 4}, {3, 0, 2}};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        result alone = {0};
        train_small(&plans[i], NULL, 0, &alone);
        assert_int_equal(alone.status, LS_OK);
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            rank ranks[RANKS];
            plan p = plans[i];
            p.ranks = shapes[k].ranks;
            p.host_ranks = shapes[k].host_ranks;
            p.hosts = shapes[k].hosts;
            wire_late = k % 2 != 0;
            on_ranks(&p, ranks, rank_main);
            for (int r = 0; r < p.ranks; r++)
                assert_memory_equal(&ranks[r].result, &alone, sizeof alone);
        }
    }
    wire_late = true;
}

/* Several buckets, which come over the wire in any order. */
static void many_buckets_give_the_bits_of_one(void **state)
{
    (void)state;
    plan p = {.batch = 20,
              .shard = 4,
              .rows = 40,
              .devices = 2,
              .lr = 0.1,
              .momentum = 0.9,
              .ask_rank = -1,
              .epochs = 1,
              .wide = true};
    result alone = {0};
    train_small(&p, NULL, 0, &alone);
    assert_int_equal(alone.status, LS_OK);
    for (int host_ranks = 0; host_ranks < 3; host_ranks += 2) {
        rank ranks[RANKS];
        p.ranks = host_ranks ? 4 : 3;
        p.host_ranks = host_ranks;
        on_ranks(&p, ranks, rank_main);
        for (int r = 0; r < p.ranks; r++)
            assert_memory_equal(&ranks[r].result, &alone, sizeof alone);
    }
}

/* At whatever transfer it breaks, no slot is left that receives into what is freed. */
static void a_wire_that_breaks_in_a_step(void **state)
{
    (void)state;
    for (int host_ranks = 0; host_ranks < 3; host_ranks += 2)
        for (wire_fails = 1; wire_fails <= 9; wire_fails += 2) {
            plan p = {.ranks = 4, .host_ranks = host_ranks};
            rank ranks[RANKS];
            for (int r = 0; r < p.ranks; r++)
                ranks[r] = (rank){.plan = &p};
            assert_true(wire_run_torn(p.ranks, broken_rank, ranks) >= 0);
        }
    wire_fails = 0;
}

/* A slow rank gets fewer shards, all ranks say the same, and the bits are those of one process. */
static void shards_go_by_speed(void **state)
{
    (void)state;
    static const struct {
        int host_ranks, rows, last;
    } ways[] = {{0, 60, 6}, {2, 64, 8}}; /* the last batch is a smaller one, or as all */
    for (int i = 0; i < 2; i++) {
        plan p = {.batch = 16,
                  .shard = 2,
                  .rows = ways[i].rows,
                  .devices = 1,
                  .lr = 0.1,
                  .momentum = 0.9,
                  .ask_rank = -1,
                  .epochs = 4};
        result alone = {0};
        train_small(&p, NULL, 0, &alone);
        assert_int_equal(alone.status, LS_OK);
        rank ranks[RANKS];
        p.ranks = 3;
        p.slow_seconds = 0.02;
        p.balance = true;
        p.host_ranks = ways[i].host_ranks;
        on_ranks(&p, ranks, rank_main);
        for (int r = 0; r < p.ranks; r++) {
            result *found = &ranks[r].result;
            assert_true(found->balanced);
            assert_int_equal(found->shares[0] + found->shares[1] + found->shares[2], ways[i].last);
            assert_in_range(found->shares[2], 0, 1);
            /* Steps 2 to 9 are measured, and all ranks know it behind step 10. */
            assert_int_equal(found->balanced_from, 11);
            assert_int_equal(found->measured, 8 * 8 - 2 * (8 - ways[i].last));
            found->balanced = false;
            memset(found->shares, 0, sizeof found->shares);
            found->balanced_from = found->measured = 0;
            assert_memory_equal(found, &alone, sizeof alone);
        }
    }
}

static void what_is_not_finite_is_found_by_all(void **state)
{
    (void)state;
    plan p = {.ranks = 3, .batch = 24, .shard = 4, .rows = 40, .devices = 1, .lr = 1e25, .ask_rank = -1};
    rank ranks[RANKS];
    result alone = {0};
    train_small(&p, NULL, 0, &alone);
    on_ranks(&p, ranks, rank_main);
    assert_int_equal(alone.status, LS_NOT_FINITE);
    for (int r = 0; r < p.ranks; r++) {
        assert_true(ranks[r].result.together);
        assert_int_equal(ranks[r].result.status, LS_NOT_FINITE);
        assert_string_equal(ranks[r].result.message, alone.message);
    }
    for (p.ranks = 2; p.ranks <= 4; p.ranks++)
        on_ranks(&p, ranks, overflowing_rank);
}

/* The last image, which is the last rank's, has a label that the logits lack: a failure of one rank alone. */
static void mislabelled_rank(ls_cluster *cluster, int number, void *user)
{
    enum { ROWS = 24 };
    rank *me = (rank *)user + number;
    result *r = &me->result;
    static const uint8_t images[ROWS * 36] = {7, 200, 91}, labels[ROWS] = {[ROWS - 1] = 2};
    ls_session *s = ls_open(&(ls_options){.shard = 4, .cluster = cluster});
    ls_data *data = ls_data_from_memory(s, images, labels, ROWS, 1, 6, 6, CLASSES, &(ls_loader){.batch = ROWS});
    ls_module *net = ls_sequential(s, NULL);
    ls_module_append(net, NULL, ls_nn_fn(s, ls_flatten));
    ls_module_append(net, NULL, ls_nn_linear(s, 2));
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    ls_batch b;
    r->sum = ls_module_checksum(net);
    assert_int_equal(ls_module_evaluate(net, data, &r->metrics), LS_BAD_ARGUMENT);
    assert_true(isnan(r->metrics.loss) && ls_failed_together(s));
    assert_non_null(strstr(ls_message(s), " is 2; the logits have the classes 0 to 1"));
    assert_true(ls_catch(s, LS_BAD_ARGUMENT));
    if (number == 1)
        ls_interrupt(s);
    float logits[ROWS * 2];
    assert_int_equal(ls_module_predict(net, data, logits, 2), LS_INTERRUPTED);
    assert_true(ls_failed_together(s) && ls_catch(s, LS_INTERRUPTED));
    assert_int_equal(ls_module_predict(net, data, logits, 2), LS_OK);
    assert_true(ls_data_next(data, &b));
    test_step(net, trainer, &b);
    ls_wait(s);
    snprintf(r->message, sizeof r->message, "%s", ls_message(s));
    r->status = ls_status_of(s);
    r->together = ls_failed_together(s);
    assert_true(ls_catch(s, r->status));
    assert_int_equal(r->sum, ls_module_checksum(net)); /* no rank made the step */
    ls_close(s);
    ls_cluster_barrier(cluster);
}

static void what_one_rank_meets_ends_the_work_of_all(void **state)
{
    (void)state;
    plan p = {.ranks = 3};
    rank ranks[RANKS];
    char host[LS_HOST_NAME], words[256];
    ls_host_name(host);
    snprintf(words, sizeof words, "step 1: rank 2 on host %s failed; see its own message", host);
    on_ranks(&p, ranks, mislabelled_rank);
    for (int r = 0; r < p.ranks; r++) {
        const int own = r == p.ranks - 1;
        assert_int_equal(ranks[r].result.status, own ? LS_BAD_ARGUMENT : LS_IO);
        assert_int_equal(ranks[r].result.together, !own); /* it has to say why */
        if (own)
            assert_non_null(strstr(ranks[r].result.message, "the label of the data's image "));
        else
            assert_string_equal(ranks[r].result.message, words);
    }
}

static void a_failed_start_receives_no_more(void **state)
{
    (void)state;
    assert_int_equal(wire_failed_start(true), 0);
    assert_int_equal(wire_failed_start(false), 0);
}

static void a_stop_is_asked_for_by_one_and_known_to_all_at_one_step(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        plan p = {.ranks = 3, .batch = 4, .shard = 2, .rows = 40, .devices = 1, .lr = 0.1, .ask_rank = i % 3};
        p.host_ranks = i < 3 ? 0 : 2;
        rank ranks[RANKS];
        on_ranks(&p, ranks, rank_main);
        for (int r = 0; r < p.ranks; r++) {
            assert_int_equal(ranks[r].result.asked, MOST_ASKED);
            assert_int_equal(ranks[r].result.sum, ranks[0].result.sum);
        }
    }
}

/* What rank 2 lists where all others list seed 0, batch 256 and no weights; and what is said of it. */
static const struct difference {
    int n;
    ls_setting of_rank_2[4];
    const char *before, *behind; /* the rank and its host */
} differences[] = {
    {3, {{"seed", "1"}, {"batch", "256"}, {"weights", NULL}}, "seed differs: 1 on ", ", 0 on rank 0"},
    {3, {{"seed", "0"}, {"batch", "128"}, {"weights", NULL}}, "batch differs: 128 on ", ", 256 on rank 0"},
    {3, {{"seed", "0"}, {"batch", NULL}, {"weights", NULL}}, "batch differs: none on ", ", 256 on rank 0"},
    {3, {{"seed", "0"}, {"batch", "256"}, {"weights", "w"}}, "weights differs: w on ", ", none on rank 0"},
    {3, {{"seed", "0"}, {"batch", "256"}, {"shard", NULL}}, "", " lists other settings than rank 0"},
    {3, {{"batch", "256"}, {"seed", "0"}, {"weights", NULL}}, "", " lists other settings than rank 0"},
    {2, {{"seed", "0"}, {"batch", "256"}}, "", " lists other settings than rank 0"},
    {4, {{"seed", "0"}, {"batch", "256"}, {"weights", NULL}, {"shard", "8"}}, "", " lists other settings than rank 0"},
};
static const struct difference *difference; /* that is tried */

static void differing_rank(ls_cluster *cluster, int number, void *user)
{
    rank *me = (rank *)user + number;
    static const ls_setting settings[] = {{"seed", "0"}, {"batch", "256"}, {"weights", ""}};
    assert_int_equal(ls_cluster_agree(cluster, NULL, settings, 3), LS_OK);
    if (number == 2)
        ls_cluster_agree(cluster, NULL, difference->of_rank_2, difference->n);
    else
        ls_cluster_agree(cluster, NULL, settings, 3);
    snprintf(me->result.message, sizeof me->result.message, "%s", ls_cluster_message(cluster));
    me->result.status = ls_close(ls_open(&(ls_options){.cluster = cluster}));
}

static void failing_rank(ls_cluster *cluster, int number, void *user)
{
    rank *me = (rank *)user + number;
    ls_cluster_agree(cluster, number > 0 ? "no data" : NULL, NULL, 0);
    snprintf(me->result.message, sizeof me->result.message, "%s", ls_cluster_message(cluster));
}

static void listing_rank(ls_cluster *cluster, int number, void *user)
{
    rank *me = (rank *)user + number;
    ls_setting settings[] = {{"seed", "0"}, {number == 3 ? "bench" : "batch", "256"}};
    assert_int_equal(ls_cluster_agree(cluster, NULL, settings, 2), LS_BAD_ARGUMENT);
    snprintf(me->result.message, sizeof me->result.message, "%s", ls_cluster_message(cluster));
}

/* All but rank 0 fail, each for a reason of its own. */
static void failed_rank(ls_cluster *cluster, int number, void *user)
{
    rank *me = (rank *)user + number;
    ls_session *s = ls_open(&(ls_options){.cluster = cluster});
    if (number)
        ls_raise(&s->context, number == 1 ? LS_BAD_SHAPE : LS_BAD_FILE, "reason %d", number);
    ls_cluster_agree_error(s);
    me->result.status = ls_status_of(s);
    snprintf(me->result.message, sizeof me->result.message, "%s", ls_message(s));
    ls_close(s);
}

static void differences_name_setting_and_rank(void **state)
{
    (void)state;
    plan p = {.ranks = 4};
    rank ranks[RANKS];
    char host[LS_HOST_NAME], words[256];
    ls_host_name(host);
    for (size_t i = 0; i < sizeof differences / sizeof *differences; i++) {
        difference = &differences[i];
        on_ranks(&p, ranks, differing_rank);
        snprintf(words, sizeof words, "%srank 2 on host %s%s", difference->before, host, difference->behind);
        for (int r = 0; r < p.ranks; r++) {
            assert_string_equal(ranks[r].result.message, words);
            assert_int_equal(ranks[r].result.status, LS_BAD_ARGUMENT);
        }
    }
    on_ranks(&p, ranks, failing_rank);
    for (int r = 0; r < p.ranks; r++) {
        assert_non_null(strstr(ranks[r].result.message, "rank 1 on host "));
        assert_non_null(strstr(ranks[r].result.message, ": no data"));
    }
    on_ranks(&p, ranks, listing_rank);
    for (int r = 0; r < p.ranks; r++) {
        assert_non_null(strstr(ranks[r].result.message, "rank 3 on host "));
        assert_non_null(strstr(ranks[r].result.message, " lists other settings than rank 0"));
    }
    on_ranks(&p, ranks, failed_rank);
    assert_int_equal(ranks[0].result.status, LS_BAD_SHAPE);
    assert_non_null(strstr(ranks[0].result.message, "rank 1 on host "));
    assert_non_null(strstr(ranks[0].result.message, ": reason 1"));
}

static void a_self_test_says_the_same_on_all_devices(void **state)
{
    (void)state;
    uint64_t sums[3] = {0};
    for (int i = 0; i < 3; i++) {
        ls_session *s = ls_open(&(ls_options){.isa = i == 1 ? LS_ISA_PLAIN : LS_ISA_AUTO, .seed = (uint64_t)i});
        assert_int_equal(ls_self_test(s, ls_parse_devices(s, i == 2 ? "cpu:3" : "cpu:0-4"), &sums[i]), LS_OK);
        assert_int_equal(ls_close(s), LS_OK);
    }
    assert_true(sums[0] && sums[0] == sums[1] && sums[0] == sums[2]);
}

static void plugins_can_be_loaded(void **state)
{
    (void)state;
    char why[512];
    assert_null(ls_cluster_plugin(-1, why, sizeof why));
    int n = 0;
    for (const char *name; (name = ls_cluster_plugin(n, why, sizeof why)) != NULL; n++) {
        assert_true(strcmp(name, "openmpi") == 0 || strcmp(name, "mpich") == 0);
        assert_string_equal(why, ""); /* the tests' folder stands in the program's */
    }
    assert_true(n <= 2);
}

static void a_rank_with_another_rate_is_named(void **state)
{
    (void)state;
    rank ranks[RANKS];
    for (int n = 2; n <= 4; n++)
        on_ranks(&(plan){.ranks = n}, ranks, other_rate);
    on_ranks(&(plan){.ranks = 3}, ranks, other_decay);
}

static void what_a_rank_does_for_others_is_measured(void **state)
{
    (void)state;
    rank ranks[RANKS];
    atomic_store(&is_known, false);
    on_ranks(&(plan){.ranks = 2}, ranks, measured_rank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks_gives_the_bits_of_one),
        cmocka_unit_test(any_number_of_hosts_gives_the_bits_of_one),
        cmocka_unit_test(many_buckets_give_the_bits_of_one),
        cmocka_unit_test(a_wire_that_breaks_in_a_step),
        cmocka_unit_test(shards_go_by_speed),
        cmocka_unit_test(what_is_not_finite_is_found_by_all),
        cmocka_unit_test(what_one_rank_meets_ends_the_work_of_all),
        cmocka_unit_test(a_failed_start_receives_no_more),
        cmocka_unit_test(a_rank_with_another_rate_is_named),
        cmocka_unit_test(what_a_rank_does_for_others_is_measured),
        cmocka_unit_test(a_stop_is_asked_for_by_one_and_known_to_all_at_one_step),
        cmocka_unit_test(differences_name_setting_and_rank),
        cmocka_unit_test(a_self_test_says_the_same_on_all_devices),
        /* The last: an MPI leaves hooks in the ends of threads, where the thread sanitizer's are gone. */
        cmocka_unit_test(plugins_can_be_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
