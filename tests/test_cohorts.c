/* BatchNorm's statistics over several shards: the same bits on any number of devices and ranks, in whatever order
 * shards are computed; numbers as of one shard; what is refused. */
#include "support.h"
#include "thread_wire.h"

#include <lockstep_nn.h>
#include <lockstep_profile.h>
#include <lockstep_train.h>
#include <lockstep_trial.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/session.h"
#include "device/cards.h"
#include "model/network.h"
#include "train/job.h"
#include "not_run.h"
#include "training.h"

enum { ROWS = 44, BATCH = 22, SIDE = 6, CLASSES = 3, STEPS = 4, MOST_RANKS = 7 };

typedef enum kind { PLAIN, MIXED, RECOMPUTED, SHARED, FROZEN, KINDS } kind;

static int cards; /* of this machine */

typedef struct how {
    kind kind;
    int shard, batch_norm, devices, ranks;
    uint64_t shuffle;
    double slow_seconds, patience; /* patience 0: as usual */
    int host_ranks;
    bool halves, placed; /* two backward passes to a step; each on a device of its own */
    bool verify;
    int cards;  /* in front of the CPUs, which then may be none */
    bool parts; /* of one card, in place of cards */
    ls_isa isa;
} how;

typedef struct result {
    uint64_t sum;
    double losses[STEPS];
    float mean[4], variance[4];
} result;

typedef struct rank {
    const how *how;
    result result;
} rank;

static ls_tensor *forward(ls_module *self, ls_tensor *x)
{
    const kind *k = ls_module_user(self);
    x = ls_relu(ls_module_call(self, "bn1", ls_module_call(self, "conv1", x)));
    ls_tensor *y = ls_module_call(self, "block", x);
    y = ls_relu(ls_add(ls_module_call(self, "bn2", ls_module_call(self, "conv2", y)), x));
    if (*k == SHARED)
        y = ls_module_call(self, "bn1", ls_tanh(y));
    return ls_module_call(self, "fc", ls_flatten(y));
}

static ls_module *network(ls_session *s, kind *k)
{
    const ls_conv same = {.padding = 1};
    const ls_norm of_two = {.by_shard = *k == MIXED, .frozen = *k == FROZEN};
    ls_module *block = ls_sequential(s, NULL), *net = ls_block(s, forward, k);
    ls_module_append(block, "conv", ls_nn_conv2d(s, 4, 3, &same));
    ls_module_append(block, "bn", ls_nn_batch_norm(s));
    ls_module_append(block, "tanh", ls_nn_fn(s, ls_tanh));
    if (*k == MIXED)
        ls_module_append(block, "gn", ls_nn_group_norm(s, 2, NULL));
    ls_module_append(net, "conv1", ls_nn_conv2d(s, 4, 3, &same));
    ls_module_append(net, "bn1", ls_nn_batch_norm(s));
    ls_module_append(net, "block", block);
    ls_module_append(net, "conv2", ls_nn_conv2d(s, 4, 3, &same));
    ls_module_append(net, "bn2", ls_nn_batch_norm_with(s, &of_two));
    ls_module_append(net, "fc", ls_nn_linear(s, CLASSES));
    if (*k == RECOMPUTED)
        ls_module_recompute(block, true);
    return net;
}

static void train(const how *h, ls_cluster *cluster, int number, result *r)
{
    ls_session *s = ls_open(&(ls_options){
        .seed = 3,
        .shard = h->shard,
        .batch_norm = h->batch_norm,
        .isa = h->isa,
        .cluster = cluster,
        .trial = &(ls_trial){
            .shuffle_pulls = h->shuffle, .host_ranks = h->host_ranks, .slow_cpu = 1, .slow_seconds = h->slow_seconds}});
    if (h->patience > 0)
        s->patience = h->patience;
    kind k = h->kind;
    uint8_t pixels[ROWS * SIDE * SIDE], labels[ROWS];
    test_make_images(pixels, sizeof pixels, labels, ROWS, CLASSES);
    ls_data *data = ls_data_from_memory(s, pixels, labels, ROWS, 1, SIDE, SIDE, CLASSES,
                                        &(ls_loader){.batch = h->halves ? BATCH / 2 : BATCH, .shuffle = true});
    ls_module *net = network(s, &k);
    ls_devices devices = {.n = h->cards + h->devices};
    for (int d = 0; d < h->cards; d++)
        devices.at[d] = (ls_device){LS_CUDA, h->parts ? 0 : d};
    for (int d = 0; d < h->devices; d++)
        devices.at[h->cards + d] = ls_cpu(d);
    ls_module_initialize(net, devices, &(ls_init){.kind = LS_XAVIER, .like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.0625, .momentum = 0.9});
    ls_batch b;
    for (int i = 0; i < STEPS && !ls_failed(s); i++) {
        for (int half = 0; half < (h->halves ? 2 : 1); half++) {
            test_next(data, &b);
            ls_tensor *X = h->placed ? ls_to(b.X, ls_cpu(half)) : b.X, *y = h->placed ? ls_to(b.y, ls_cpu(half)) : b.y;
            ls_backward(ls_cross_entropy(ls_module_forward(net, X), y));
        }
        if (h->verify)
            ls_trainer_verify(trainer);
        ls_trainer_step(trainer);
    }
    if (ls_wait(s) != LS_OK)
        fail_msg("rank %d: %s", number, ls_message(s));
    ls_report report;
    while (ls_trainer_next_report(trainer, &report))
        r->losses[report.step - 1] = report.loss;
    ls_read(ls_module_param(net, "bn1.running_mean", ls_host()), r->mean, 4);
    ls_read(ls_module_param(net, "bn1.running_var", ls_host()), r->variance, 4);
    r->sum = ls_module_checksum(net);
    assert_int_equal(ls_close(s), LS_OK);
}

static void rank_main(ls_cluster *cluster, int number, void *user)
{
    rank *me = (rank *)user + number;
    train(me->how, cluster, number, &me->result);
}

static result run(how h)
{
    rank ranks[MOST_RANKS] = {{0}};
    if (!h.devices && !h.cards)
        h.devices = 1;
    if (!h.ranks) {
        train(&h, NULL, 0, &ranks[0].result);
        return ranks[0].result;
    }
    for (int i = 0; i < h.ranks; i++)
        ranks[i].how = &h;
    wire_run(h.ranks, rank_main, ranks);
    for (int i = 1; i < h.ranks; i++)
        assert_true(ranks[i].result.sum == ranks[0].result.sum);
    return ranks[0].result;
}

static void expect(const result *want, how h)
{
    const result got = run(h);
    if (got.sum != want->sum || memcmp(got.losses, want->losses, sizeof got.losses) != 0)
        fail_msg("network %d, shard %d, batch_norm %d, %d cards, %d CPUs, %d ranks, order %d, isa %d: other bits",
                 (int)h.kind, h.shard, h.batch_norm, h.cards, h.devices, h.ranks, (int)h.shuffle, (int)h.isa);
}

/* ---- Bits ---- */

static const int sizes[] = {-1, 8, 12}; /* of shards of 4: all 6 of them, two, three */
enum { SIZES = sizeof sizes / sizeof *sizes };

static void any_devices_have_the_same_bits(void **state)
{
    (void)state;
    for (kind k = 0; k < KINDS; k++)
        for (int i = 0; i < SIZES; i++) {
            how h = {.kind = k, .shard = 4, .batch_norm = sizes[i], .devices = 1};
            const result one = run(h);
            for (h.devices = 2; h.devices <= 3; h.devices++)
                expect(&one, h);
            h.devices = 16;
            expect(&one, h);
            h.devices = 2;
            h.shuffle = 5;
            expect(&one, h);
        }
}

static void any_ranks_have_the_same_bits(void **state)
{
    (void)state;
    static const int numbers[] = {1, 2, 3, 5, 7}; /* 6 shards: one of 7 ranks has none */
    for (int i = 0; i < SIZES; i++)
        for (kind k = 0; k < KINDS; k++) {
            how h = {.kind = k, .shard = 4, .batch_norm = sizes[i], .devices = 1};
            const result one = run(h);
            for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
                h.ranks = numbers[n];
                h.devices = 1 + (int)n % 2;
                h.shuffle = n == 2 ? 9 : 0;
                h.host_ranks = n == 3 ? 2 : 0;
                expect(&one, h);
            }
        }
}

static void several_passes_are_batches_of_their_own(void **state)
{
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        how h = {.shard = 4, .batch_norm = sizes[i], .halves = true};
        const result one = run(h);
        h.devices = 3;
        expect(&one, h);
        h.placed = true;
        expect(&one, h);
        h.placed = false;
        h.ranks = 2;
        expect(&one, h);
        h.ranks = 3;
        h.devices = 1;
        expect(&one, h);
    }
}

static void several_passes_may_be_one_batch(void **state)
{
    (void)state;
    for (kind k = 0; k < KINDS; k++) {
        how h = {.kind = k, .shard = BATCH / 2, .batch_norm = -1};
        const result whole = run(h);
        h.batch_norm = -2;
        expect(&whole, h);
        h.halves = true;
        expect(&whole, h);
        h.shard = 4; /* the halves' last shards are smaller */
        const result one = run(h);
        h.devices = 3;
        h.placed = true;
        expect(&one, h);
        h.ranks = 2;
        h.devices = 2;
        expect(&one, h);
    }
}

static void a_slow_device_changes_nothing(void **state)
{
    (void)state;
    how h = {.shard = 4, .batch_norm = -1};
    const result one = run(h);
    h.devices = 2;
    h.slow_seconds = 0.01;
    expect(&one, h);
}

/* Others stand in for it, on each rank. */
static void a_late_device_changes_nothing(void **state)
{
    (void)state;
    for (kind k = 0; k < KINDS; k++)
        for (int i = 0; i < SIZES; i++) {
            how h = {.kind = k, .shard = 4, .batch_norm = sizes[i]};
            const result one = run(h);
            h.slow_seconds = 0.03;
            h.patience = 0.001;
            for (h.devices = 2; h.devices <= 3; h.devices++)
                expect(&one, h);
            h.ranks = 2;
            expect(&one, h);
        }
}

static void instruction_sets_have_the_same_bits(void **state)
{
    (void)state;
    how h = {.shard = 4, .batch_norm = 12, .isa = LS_ISA_REFERENCE};
    const result one = run(h);
    h.isa = LS_ISA_PLAIN;
    expect(&one, h);
    h.isa = LS_ISA_AUTO;
    expect(&one, h);
}

static void verifying_changes_nothing(void **state)
{
    (void)state;
    how h = {.shard = 4, .batch_norm = -1, .devices = 2};
    const result one = run(h);
    h.verify = true;
    expect(&one, h);
    h.ranks = 2;
    expect(&one, h);
}

/* ---- Numbers ---- */

static void assert_near(const char *what, double a, double b)
{
    if (!(fabs(a - b) <= 1e-5 * fmax(fabs(a), fabs(b))))
        fail_msg("%s: %.9g, not %.9g", what, a, b);
}

/* One shard that is the batch has statistics of the batch; so do shards of it, but for rounding. Those of each shard
 * are others. */
static void numbers_are_those_of_one_shard(void **state)
{
    (void)state;
    for (kind k = 0; k < KINDS; k++) {
        if (k == MIXED) /* has statistics of shards too */
            continue;
        const result whole = run((how){.kind = k, .shard = BATCH}),
                     parts = run((how){.kind = k, .shard = 4, .batch_norm = -1}),
                     shards = run((how){.kind = k, .shard = 4});
        for (int i = 0; i < STEPS; i++)
            assert_near("loss", parts.losses[i], whole.losses[i]);
        for (int c = 0; c < 4; c++) {
            assert_near("mean", parts.mean[c], whole.mean[c]);
            assert_near("variance", parts.variance[c], whole.variance[c]);
        }
        assert_true(fabs(shards.losses[STEPS - 1] / whole.losses[STEPS - 1] - 1) > 1e-4);
    }
}

static void as_many_as_a_shard_are_a_shards(void **state)
{
    (void)state;
    const result one = run((how){.shard = 4});
    expect(&one, (how){.shard = 4, .batch_norm = 4, .devices = 2});
    const result whole = run((how){.shard = BATCH});
    expect(&whole, (how){.shard = BATCH, .batch_norm = -1});
    expect(&whole, (how){.shard = BATCH, .batch_norm = 4 * BATCH, .devices = 2});
}

/* ---- Memory ---- */

typedef struct counted {
    int until_failure, held;
} counted;

static void *allocate(size_t bytes, size_t alignment, void *user)
{
    counted *c = user;
    if (c->until_failure && --c->until_failure == 0)
        return NULL;
    c->held++;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void release(void *memory, void *user)
{
    ((counted *)user)->held -= memory != NULL;
    free(memory);
}

/* One step, with whose allocation of that number there is no memory; 0: of none. */
static ls_status step_without(int number)
{
    counted c = {.until_failure = number};
    const ls_allocator allocator = {allocate, release, &c};
    ls_session *s = ls_open(&(ls_options){.shard = 4, .batch_norm = -1, .allocator = &allocator});
    if (!s)
        return LS_OUT_OF_MEMORY;
    kind k = PLAIN;
    uint8_t pixels[ROWS * SIDE * SIDE], labels[ROWS];
    test_make_images(pixels, sizeof pixels, labels, ROWS, CLASSES);
    ls_data *data = ls_data_from_memory(s, pixels, labels, ROWS, 1, SIDE, SIDE, CLASSES, &(ls_loader){.batch = BATCH});
    ls_module *net = network(s, &k);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0-1"), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.0625});
    ls_batch b;
    if (!ls_failed(s) && ls_data_next(data, &b))
        test_step(net, trainer, &b);
    const ls_status status = ls_wait(s);
    ls_close(s);
    assert_int_equal(c.held, 0);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    int number = 1;
    while (step_without(number) == LS_OUT_OF_MEMORY)
        number++;
    assert_true(number > 100);
    assert_int_equal(step_without(0), LS_OK);
}

/* ---- Refused ---- */

static void what_cannot_meet_is_refused(void **state)
{
    (void)state;
    ls_session *s = ls_open(&(ls_options){.shard = 4, .batch_norm = 6});
    assert_int_equal(ls_status_of(s), LS_BAD_ARGUMENT);
    assert_non_null(strstr(ls_message(s), "batch_norm is 6; it must be a multiple of the shard's 4 images"));
    ls_close(s);
    s = ls_open(&(ls_options){.shard = 4, .batch_norm = -1});
    kind k = PLAIN;
    uint8_t pixels[ROWS * SIDE * SIDE], labels[ROWS];
    test_make_images(pixels, sizeof pixels, labels, ROWS, CLASSES);
    ls_data *data = ls_data_from_memory(s, pixels, labels, ROWS, 1, SIDE, SIDE, CLASSES, &(ls_loader){.batch = BATCH});
    ls_module *net = network(s, &k);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data});
    ls_batch b;
    float rows[BATCH * CLASSES];
    ls_metrics metrics;
    test_next(data, &b);
    assert_int_equal(ls_read(ls_module_infer(net, b.X), rows, BATCH * CLASSES), LS_OK);
    assert_int_equal(ls_module_evaluate(net, data, &metrics), LS_OK);
    test_next(data, &b);
    assert_int_equal(ls_read(ls_module_forward(net, b.X), rows, BATCH * CLASSES), LS_UNSUPPORTED);
    assert_non_null(strstr(ls_message(s), "bn1: statistics over the batch, or over shards of it, are for ls_backward"));
    ls_close(s);
}

/* ---- Cards ---- */

/* The plain network on one, two and three cards, the others on one of these numbers. */
static void cards_have_these_bits(void **state)
{
    (void)state;
    for (kind k = 0; k < KINDS; k++)
        for (int i = 0; i < SIZES; i++) {
            how h = {.kind = k, .shard = 4, .batch_norm = sizes[i]};
            const result one = run(h);
            const int most = cards < 3 ? cards : 3, few = 1 + ((int)k + i) % most;
            for (h.cards = k == PLAIN ? 1 : few; h.cards <= (k == PLAIN ? most : few); h.cards++) {
                h.devices = (int)k % 2 * 2;
                expect(&one, h);
            }
            h.parts = true;
            h.cards = 2;
            h.devices = 2 - h.devices;
            h.shuffle = 5;
            h.verify = true;
            expect(&one, h);
        }
}

static void cards_of_several_ranks_have_these_bits(void **state)
{
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        how h = {.shard = 4, .batch_norm = sizes[i]};
        const result one = run(h);
        h.cards = 1;
        /* Joined, where there are so many; with a core they meet on the host. */
        for (h.ranks = 2; h.ranks <= 3; h.ranks++)
            for (h.devices = 0; h.devices <= 1; h.devices++)
                expect(&one, h);
    }
}

static void passes_on_cards_are_batches_of_their_own(void **state)
{
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        how h = {.shard = 4, .batch_norm = sizes[i], .halves = true};
        const result one = run(h);
        h.cards = 1;
        expect(&one, h);
        h.devices = 1;
        expect(&one, h);
    }
}

static int test_on_cards(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cards_have_these_bits),
        cmocka_unit_test(cards_of_several_ranks_have_these_bits),
        cmocka_unit_test(passes_on_cards_are_batches_of_their_own),
    };
    char why[256] = "";
    cards = ls_card_count(why, sizeof why);
    if (cards == 0)
        return test_none_run("%s", why);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "cards") == 0)
        return test_on_cards();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_devices_have_the_same_bits),
        cmocka_unit_test(any_ranks_have_the_same_bits),
        cmocka_unit_test(several_passes_are_batches_of_their_own),
        cmocka_unit_test(several_passes_may_be_one_batch),
        cmocka_unit_test(a_slow_device_changes_nothing),
        cmocka_unit_test(a_late_device_changes_nothing),
        cmocka_unit_test(instruction_sets_have_the_same_bits),
        cmocka_unit_test(verifying_changes_nothing),
        cmocka_unit_test(numbers_are_those_of_one_shard),
        cmocka_unit_test(as_many_as_a_shard_are_a_shards),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(what_cannot_meet_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
