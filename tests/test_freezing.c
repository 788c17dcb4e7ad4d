/* Frozen parts of a network and groups of parameters: against PyTorch's figures in float64
 * (tests/reference/make_freezing.py), against a run in which all trains, on any number of devices and ranks; what is
 * not computed for what is frozen; what is refused. Runs that go on from checkpoints are in the tests of those. */
#include "reference_network.h"
#include "thread_wire.h"

#include <lockstep_checkpoint.h>
#include <lockstep_cluster.h>
#include <lockstep_nn.h>
#include <lockstep_train.h>

#include "graph/plan.h"
#include "train/job.h"
#include "train/trainer.h"
#include "training.h"

#include <stdatomic.h>

enum { LONGEST = 4096 };

/* ---- PyTorch's figures ---- */

static double distance(ls_module *net, const json_t *one)
{
    double worst = 0;
    for (int i = 0; i < NAMES; i++)
        worst = fmax(worst, off_by_recorded(ls_module_param(net, names[i], ls_host()), one, names[i]));
    return worst;
}

static void run_figures(ls_session *s, const json_t *one)
{
    const int scope = ls_enter(s);
    ls_data *data;
    ls_module *net;
    ls_trainer *trainer = begin_recorded(s, one, &net, &data);
    int done = 0, n, norms;
    double *losses = recorded_numbers(one, "losses", &n), *norm = recorded_numbers(one, "norms", &norms), worst = 0;
    test_train(s, net, trainer, data, &done, n);
    assert_done(s);
    ls_report report;
    for (int k = 0; ls_trainer_next_report(trainer, &report); k++) {
        worst = fmax(worst, fabs(report.loss / losses[k] - 1));
        worst = norms ? fmax(worst, fabs(report.norm / norm[k] - 1)) : worst;
    }
    worst = fmax(worst, distance(net, one));
    if (worst > 2e-6)
        fail_msg("%s: off by %.2g", recorded_name(one), worst);
    free(losses);
    free(norm);
    ls_leave(s, scope);
}

static void as_in_pytorch(void **state)
{
    (void)state;
    run_reference_cases("freezing", 13, &(ls_options){.shard = BATCH}, run_figures);
}

/* ---- One step, beside one in which all trains ---- */

/* Layers of all kinds that have parameters. */
static ls_tensor *dense(ls_module *self, ls_tensor *x)
{
    ls_tensor *weight = ls_module_parameter(self, "W", LS_SHAPE(ls_dim(x, 1), 5));
    return ls_add(ls_matmul(x, weight), ls_module_parameter(self, "b", LS_SHAPE(5)));
}

static ls_module *many_layers(ls_session *s)
{
    ls_module *net = ls_sequential(
        s, LS_LIST(ls_nn_conv2d(s, 3, 3, NULL), ls_nn_fn(s, ls_relu), ls_nn_avg_pool2d(s, &(ls_pool){.kernel = 2})));
    ls_module_append(net, "norm", ls_nn_batch_norm(s));
    ls_module_append(net, "relu", ls_nn_fn(s, ls_relu));
    ls_module_append(net, "spread", ls_nn_conv_transpose2d(s, 4, 2, &(ls_conv){.stride = 2}));
    ls_module_append(net, "sets", ls_nn_layer_norm(s, NULL));
    ls_module_append(net, "flat", ls_nn_fn(s, ls_flatten));
    ls_module_append(net, "dense", ls_block(s, dense, NULL));
    ls_module_append(net, "tanh", ls_nn_fn(s, ls_tanh));
    ls_module_append(net, "fc", ls_nn_linear(s, CLASSES));
    return net;
}
static const char *const parts[] = {"0.weight",    "0.bias",    "norm.*",  "spread.*",
                                    "sets.weight", "sets.bias", "dense.?", "fc.*"};
enum { PARTS = sizeof parts / sizeof *parts, ALL = (1 << PARTS) - 1 };

/* A network of the tensors' values, one after another, by name. */
typedef struct values {
    ls_parameter_info info[32];
    char name[32][32]; /* that outlives the network */
    float at[32][LONGEST];
    int n;
} values;

static void take(ls_module *net, values *v)
{
    v->n = ls_module_parameter_count(net);
    assert_true(v->n <= 32);
    for (int i = 0; i < v->n; i++) {
        assert_int_equal(ls_module_parameter_at(net, i, &v->info[i]), LS_OK);
        assert_true(v->info[i].numbers <= LONGEST);
        snprintf(v->name[i], sizeof v->name[i], "%s", v->info[i].name);
        assert_int_equal(ls_module_read_parameter(net, v->info[i].name, v->at[i], v->info[i].numbers), LS_OK);
    }
}

typedef struct way {
    int frozen; /* bit k: of parts[k] */
    bool statistics_move, late, group;
    int devices, steps, optimizer;
    int together; /* rank 1's ls_options.batch_norm */
    double clip;
    ls_cluster *cluster;
} way;

static void freeze(ls_module *net, const way *w)
{
    for (int k = 0; k < PARTS; k++)
        if (w->frozen >> k & 1)
            ls_module_freeze(net, parts[k], true);
    if (w->statistics_move)
        ls_module_freeze(net, "*.running_*", false);
}

/* Trains, and keeps what there was before and after. */
static void go(const way *w, values *before, values *after, char digits[65])
{
    ls_session *s = ls_open(&(ls_options){.shard = 2, .cluster = w->cluster});
    ls_data *data = open_images(s, 12, BATCH);
    ls_module *net = many_layers(s);
    if (!w->late)
        freeze(net, w);
    ls_module_initialize(net, test_cpus(w->devices), &(ls_init){.kind = LS_XAVIER, .like = data});
    if (w->late)
        freeze(net, w);
    const double momentum = w->optimizer == LS_SGD && w->steps > 1 ? 0.9 : 0;
    ls_trainer *trainer =
        ls_trainer_new(net, (ls_optimizer)w->optimizer,
                       &(ls_optim){.lr = 0.125, .momentum = momentum, .weight_decay = 0.25, .clip_norm = w->clip});
    if (w->group) {
        ls_trainer_set_group(trainer, "*", &(ls_param_group){.no_decay = true, .vectors = true});
        ls_trainer_set_group(trainer, "fc.*", &(ls_param_group){.lr = 2});
    }
    if (before)
        take(net, before);
    int done = 0;
    test_train(s, net, trainer, data, &done, w->steps);
    assert_done(s);
    if (after)
        take(net, after);
    if (digits)
        assert_int_equal(ls_module_fingerprint(net, digits), LS_OK);
    assert_int_equal(ls_close(s), LS_OK);
}

static bool moved(const values *a, const values *b, int i)
{
    return memcmp(a->at[i], b->at[i], (size_t)a->info[i].numbers * sizeof(float)) != 0;
}

/* What trains gets the bits that it gets where all trains; what is frozen keeps its own. BatchNorm's statistics are the
 * shards' in all of them. Every set of parts, so that each operation's gradient is asked for without each of the
 * others'. */
static void others_train_as_ever(void **state)
{
    (void)state;
    static values start, all, before, after;
    go(&(way){.devices = 1, .steps = 1}, &start, &all, NULL);
    for (int frozen = 1; frozen < ALL; frozen += frozen < 16 ? 1 : 7) {
        const way w = {
            .frozen = frozen, .statistics_move = true, .late = frozen % 2, .devices = 1 + frozen % 3, .steps = 1};
        go(&w, &before, &after, NULL);
        for (int i = 0; i < start.n; i++) {
            const bool statistics = strstr(start.name[i], "running");
            assert_string_equal(start.name[i], after.name[i]);
            assert_false(moved(&start, &before, i));
            assert_int_equal(after.info[i].trainable, !after.info[i].frozen && !statistics);
            assert_false(after.info[i].frozen && statistics);
            if (moved(after.info[i].frozen ? &start : &all, &after, i))
                fail_msg("frozen 0x%x: %s", (unsigned)frozen, start.name[i]);
        }
    }
}

static void bits_do_not_depend_on_devices(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        char first[65] = "", digits[65];
        for (int devices = 1; devices <= 3; devices++) {
            const way w = {.frozen = k == 3 ? 0 : 7,
                           .late = devices == 2,
                           .group = k > 0,
                           .devices = devices,
                           .steps = 5,
                           .optimizer = k == 1 ? LS_ADAMW : LS_SGD,
                           .clip = k == 2 ? 0.5 : 0};
            go(&w, NULL, NULL, digits);
            memcpy(first, *first ? first : digits, sizeof first);
            assert_string_equal(digits, first);
        }
    }
}

/* ---- Ranks ---- */

typedef struct over {
    way w;
    char digits[WIRE_RANKS][65], message[WIRE_RANKS][256];
    bool together[WIRE_RANKS];
} over;

static void run_rank(ls_cluster *cluster, int rank, void *user)
{
    over *o = user;
    way w = o->w;
    w.cluster = cluster;
    w.devices = 1 + rank % 2;
    go(&w, NULL, NULL, o->digits[rank]);
}

static void bits_do_not_depend_on_ranks(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        static over o;
        char first[65];
        o.w = (way){.frozen = k == 2 ? 0 : 7,
                    .group = k > 0,
                    .devices = 1,
                    .steps = 4,
                    .optimizer = k == 1 ? LS_ADAM : LS_SGD,
                    .clip = k == 2 ? 0.5 : 0};
        go(&o.w, NULL, NULL, first);
        for (int ranks = 2; ranks <= 3; ranks++) {
            wire_run(ranks, run_rank, &o);
            for (int r = 0; r < ranks; r++)
                assert_string_equal(o.digits[r], first);
        }
    }
}

/* Rank 1 does otherwise. All hear of it before anything is exchanged, whose sizes would not fit. */
static void run_other(ls_cluster *cluster, int rank, void *user)
{
    over *o = user;
    const int together = rank == 1 ? o->w.together : 0;
    ls_session *s = ls_open(&(ls_options){.shard = 2, .cluster = cluster, .batch_norm = together});
    ls_data *data = open_images(s, 12, BATCH);
    /* Without a BatchNorm, whose ranks would wait for each other where they were let begin. */
    ls_module *net =
        o->w.together
            ? ls_sequential(s, LS_LIST(ls_nn_conv2d(s, 3, 3, NULL), ls_nn_fn(s, ls_flatten), ls_nn_linear(s, CLASSES)))
            : many_layers(s);
    ls_module_initialize(net, test_cpus(1), &(ls_init){.like = data});
    if (o->w.frozen || rank == 1)
        ls_module_freeze(net, rank == 1 && !o->w.frozen ? "fc.*" : "0.*", true);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    if (o->w.group)
        ls_trainer_set_group(trainer, "fc.*", &(ls_param_group){.lr = rank == 1 ? 2.5 : 2});
    ls_batch b;
    if (ls_data_next(data, &b))
        test_step(net, trainer, &b);
    ls_wait(s);
    o->together[rank] = ls_failed_together(s);
    snprintf(o->message[rank], sizeof o->message[rank], "%s", ls_message(s));
    assert_int_equal(ls_close(s), LS_DIFFERS);
}

static void ranks_that_differ_are_named(void **state)
{
    (void)state;
    static const struct {
        way w;
        const char *words;
    } differ[] = {{{.frozen = 0}, "frozen differs: fc.* on rank 1 on host "},
                  {{.frozen = 1, .group = true}, "groups differs: fc.*: lr 2.5, weight_decay 1 on rank 1 on host "},
                  {{.frozen = 1, .together = -1}, "batch_norm differs: -1 on rank 1 on host "}};
    const char *const others[] = {", none", ", fc.*: lr 2, weight_decay 1", ", 0"};
    for (size_t k = 0; k < sizeof differ / sizeof *differ; k++) {
        static over o;
        o.w = differ[k].w;
        wire_run(3, run_other, &o);
        for (int r = 0; r < 3; r++) {
            if (strncmp(o.message[r], differ[k].words, strlen(differ[k].words)) != 0)
                fail_msg("%s", o.message[r]);
            assert_true(o.together[r]);
            assert_string_equal(o.message[r], o.message[0]);
        }
        char words[96];
        snprintf(words, sizeof words, "%s on rank 0; give all ranks the same", others[k]);
        assert_non_null(strstr(o.message[0], words));
    }
}

static _Atomic(bool (*)(void *, int, int, int, const void *, size_t)) real_send;
static atomic_llong sent;

static bool count_sent(void *user, int slot, int to, int tag, const void *data, size_t bytes)
{
    atomic_fetch_add(&sent, (long long)bytes);
    return atomic_load(&real_send)(user, slot, to, tag, data, bytes);
}

static ls_cluster *counted_wire(const ls_wire *wire, int rank, void *user)
{
    (void)rank, (void)user;
    ls_wire counts = *wire;
    atomic_store(&real_send, wire->send);
    counts.send = count_sent;
    return ls_cluster_on(&counts);
}

/* Of two ranks, each with half of the images: what two steps more have both send. */
static int64_t sent_by_two_steps(const way *w)
{
    int64_t bytes[2];
    for (int more = 0; more < 2; more++) {
        static over o;
        o.w = *w;
        o.w.steps = more ? 6 : 4;
        atomic_store(&sent, 0);
        wire_start(2, counted_wire, NULL, run_rank, &o);
        bytes[more] = atomic_load(&sent);
    }
    return bytes[1] - bytes[0];
}

/* Each rank sends half of the gradient's sums, and half of the sums that both then have: in all twice the gradient. */
static void ranks_exchange_what_trains(void **state)
{
    (void)state;
    enum { LITTLE = 2000 }; /* of a step: losses, statistics, whether all is finite */
    static values before;
    const way all = {.devices = 1, .steps = 1}, head = {.devices = 1, .steps = 1, .frozen = ALL & ~(1 << (PARTS - 1))};
    go(&all, &before, NULL, NULL);
    int64_t everything = 0, last = 0;
    for (int i = 0; i < before.n; i++) {
        everything += before.info[i].trainable ? before.info[i].numbers : 0;
        last += strncmp(before.name[i], "fc.", 3) == 0 ? before.info[i].numbers : 0;
    }
    const int64_t of_all = sent_by_two_steps(&all), of_head = sent_by_two_steps(&head);
    print_message("two steps send %lld bytes for %lld numbers, %lld for %lld\n", (long long)of_all,
                  (long long)everything, (long long)of_head, (long long)last);
    assert_true(of_head < 2 * (8 * last + LITTLE));
    assert_true(of_all - of_head >= 2 * 8 * (everything - last));
}

/* ---- What is not computed ---- */

/* Behind the first step of the backward pass: whether any is of that layer. */
static bool differentiates(const ls_plan *plan, const char *layer)
{
    bool backward = false, any = false;
    for (int i = 0; i < plan->n_steps; i++) {
        backward |= plan->steps[i].attributes.op == LS_OP_ONES;
        any |= backward && strcmp(plan->steps[i].layer, layer) == 0;
    }
    assert_true(backward);
    return any;
}

static bool computes(const ls_plan *plan, ls_op op)
{
    bool any = false;
    for (int i = 0; i < plan->n_steps; i++)
        any |= plan->steps[i].attributes.op == op;
    return any;
}

static void below_what_trains_nothing_is_differentiated(void **state)
{
    (void)state;
    static const char *const layers[] = {"0", "norm", "spread", "sets", "dense", "fc"};
    static const char *const patterns[] = {"[0n]*", "s*", "dense*"};
    ls_session *s = ls_open(&(ls_options){.shard = 2});
    ls_data *data = open_images(s, 12, BATCH);
    for (int below = 0; below <= 3; below++) {
        const int scope = ls_enter(s), first = (int[]){0, 2, 4, 5}[below];
        ls_module *net = many_layers(s);
        ls_module_initialize(net, test_cpus(1), &(ls_init){.like = data});
        for (int k = 0; k < below; k++)
            ls_module_freeze(net, patterns[k], true);
        ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1, .momentum = 0.9});
        const ls_plan *plan = ls_trainer_plan(trainer, data, 2);
        for (int k = 0; k < (int)(sizeof layers / sizeof *layers); k++)
            assert_int_equal(differentiates(plan, layers[k]), k >= first);
        /* A frozen BatchNorm takes its ReLU in, and one that trains takes its own statistics. */
        assert_int_equal(computes(plan, LS_OP_BATCH_NORM), below == 0);
        assert_int_equal(computes(plan, LS_OP_BATCH_NORM_INFER), below > 0);
        assert_false(computes(plan, LS_OP_RELU));
        int done = 0;
        test_train(s, net, trainer, data, &done, 1);
        assert_done(s);
        int64_t trained = 0, all = 0;
        ls_parameter_info info;
        for (int i = 0; i < ls_module_parameter_count(net); i++) {
            ls_module_parameter_at(net, i, &info);
            trained += info.trainable ? (info.numbers + 15) / 16 * 16 : 0;
            all += info.numbers;
        }
        assert_true(trained < all + 16 * 16 && trainer->network->flat.trainable <= (size_t)trained);
        assert_true(trainer->network->flat.parameters >= trainer->network->flat.trainable + (below > 0));
        ls_leave(s, scope);
    }
    assert_int_equal(ls_close(s), LS_OK);
}

/* ---- There and back ---- */

static void freezing_changes_no_value(void **state)
{
    (void)state;
    char first[65], digits[65], trained[65], again[65];
    ls_session *s = ls_open(&(ls_options){.shard = 2});
    for (int back = 0; back < 2; back++) {
        const int scope = ls_enter(s);
        ls_data *data = open_images(s, 12, BATCH);
        ls_module *net = many_layers(s);
        ls_module_initialize(net, test_cpus(2), &(ls_init){.like = data});
        ls_module_fingerprint(net, first);
        for (int k = 0; back && k < PARTS; k++) {
            assert_int_equal(ls_module_freeze(net, parts[k], true), LS_OK);
            ls_module_fingerprint(net, digits);
            assert_string_equal(digits, first);
        }
        if (back) {
            assert_non_null(strstr(ls_module_summary(net), " (frozen)\n0 trainable numbers\n"));
            assert_int_equal(ls_module_freeze(net, "*", false), LS_OK);
            assert_null(strstr(ls_module_summary(net), "frozen"));
        }
        ls_module_fingerprint(net, digits);
        assert_string_equal(digits, first);
        ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1, .momentum = 0.9});
        int done = 0;
        test_train(s, net, trainer, data, &done, 3);
        ls_module_fingerprint(net, back ? again : trained);
        ls_leave(s, scope);
    }
    assert_string_equal(again, trained);
    assert_int_equal(ls_close(s), LS_OK);
}

/* Trained, frozen and trained on, with new moments, has the bits of a network that begins with these values. */
static void freezing_comes_between_trainers(void **state)
{
    (void)state;
    static values middle;
    char digits[2][65];
    ls_session *s = ls_open(&(ls_options){.shard = 2});
    for (int anew = 0; anew < 2; anew++) {
        ls_data *data = open_images(s, 12, BATCH);
        ls_module *net = many_layers(s);
        ls_module_initialize(net, test_cpus(2), &(ls_init){.like = data});
        for (int part = anew; part < 2; part++) {
            const int scope = ls_enter(s);
            if (part == 1) {
                for (int i = 0; anew && i < middle.n; i++)
                    ls_module_write_parameter(net, middle.name[i], middle.at[i], middle.info[i].numbers);
                take(net, &middle);
                ls_module_freeze(net, "[0n]*", true);
                ls_module_freeze(net, "fc.*", true);
            }
            ls_trainer *trainer = ls_trainer_new(net, LS_ADAM, &(ls_optim){.lr = 0.01});
            int done = 0;
            test_train(s, net, trainer, data, &done, 2); /* an epoch */
            ls_leave(s, scope);
        }
        assert_int_equal(ls_module_fingerprint(net, digits[anew]), LS_OK);
    }
    assert_string_equal(digits[0], digits[1]);
    assert_int_equal(ls_close(s), LS_OK);
}

/* In either copy of the weights, wherever they came from. */
static void frozen_values_may_be_set(void **state)
{
    (void)state;
    const float set[3] = {7, 8, 9};
    float got[3];
    ls_session *s = ls_open(&(ls_options){.shard = 2});
    ls_data *data = open_images(s, 12, BATCH);
    ls_module *net = many_layers(s);
    ls_module_initialize(net, test_cpus(1), &(ls_init){.like = data});
    ls_module_freeze(net, "0.*", true);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1, .momentum = 0.9});
    int done = 0;
    for (int steps = 1; steps <= 3; steps++) {
        float other[3];
        for (int i = 0; i < 3; i++)
            other[i] = set[i] + (float)steps;
        assert_int_equal(ls_module_write_parameter(net, "0.bias", other, 3), LS_OK);
        for (int k = 0; k < 2; k++) {
            test_train(s, net, trainer, data, &done, done + steps);
            assert_int_equal(ls_module_read_parameter(net, "0.bias", got, 3), LS_OK);
            assert_memory_equal(got, other, sizeof got);
        }
    }
    assert_int_equal(ls_trainer_remember(trainer), LS_OK);
    assert_int_equal(ls_module_write_parameter(net, "0.bias", set, 3), LS_OK);
    test_train(s, net, trainer, data, &done, done + 1);
    assert_int_equal(ls_trainer_recall(trainer), LS_OK);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(ls_module_read_parameter(net, "0.bias", got, 3), LS_OK);
        assert_true(got[0] == set[0] + 3);
        test_train(s, net, trainer, data, &done, done + 1);
    }
    assert_int_equal(ls_close(s), LS_OK);
}

static bool is_frozen(ls_module *net, const char *name)
{
    ls_parameter_info info = {.name = ""};
    for (int i = 0; strcmp(info.name, name) != 0; i++)
        assert_int_equal(ls_module_parameter_at(net, i, &info), LS_OK);
    return info.frozen;
}

/* Before shapes are known, of a part, and of a part before it is one. */
static void rules_wait_for_names(void **state)
{
    (void)state;
    ls_session *s = ls_open(&(ls_options){.shard = 2});
    ls_data *data = open_images(s, 12, BATCH);
    ls_module *stem = ls_sequential(s, LS_LIST(ls_nn_conv2d(s, 3, 3, NULL), ls_nn_batch_norm(s)));
    assert_int_equal(ls_module_freeze(stem, "*", true), LS_OK);
    assert_int_equal(ls_module_freeze(stem, "1.running_*", false), LS_OK);
    ls_module *body = ls_sequential(s, LS_LIST(stem, ls_nn_fn(s, ls_relu), ls_nn_fn(s, ls_flatten)));
    ls_module *head = ls_sequential(s, LS_LIST(ls_nn_linear(s, 4), ls_nn_linear(s, CLASSES)));
    ls_module *net = ls_sequential(s, LS_LIST(body, head));
    assert_int_equal(ls_module_freeze(head, "0.weight", true), LS_OK);
    ls_module_initialize(net, test_cpus(1), NULL);
    assert_int_equal(ls_module_freeze(ls_module_child(head, "1"), "bias", true), LS_OK);
    ls_batch b;
    assert_true(ls_data_next(data, &b));
    ls_module_infer(net, b.X);
    static const struct {
        const char *name;
        bool frozen;
    } wanted[] = {{"0.0.0.weight", true}, {"0.0.0.bias", true},          {"0.0.1.weight", true},
                  {"0.0.1.bias", true},   {"0.0.1.running_mean", false}, {"0.0.1.running_var", false},
                  {"1.0.weight", true},   {"1.0.bias", false},           {"1.1.weight", false},
                  {"1.1.bias", true}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        assert_int_equal(is_frozen(net, wanted[i].name), wanted[i].frozen);
    ls_module_initialize(net, test_cpus(1), &(ls_init){.force = true, .like = data});
    assert_true(is_frozen(net, "1.0.weight"));
    assert_done(s);
    /* A pattern that fits nothing is told as soon as that is known, and may be taken back. */
    ls_module *late = figures_network(s);
    ls_module_initialize(late, test_cpus(1), NULL);
    assert_int_equal(ls_module_freeze(late, "layer1.*", true), LS_OK);
    assert_null(ls_module_infer(late, b.X));
    assert_caught(s, LS_BAD_ARGUMENT,
                  "ls_module_freeze: no parameter is called \"layer1.*\"; the first one is \"0.weight\"");
    assert_int_equal(ls_close(s), LS_OK);
}

/* ---- What is refused ---- */

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    ls_session *s = ls_open(&(ls_options){.shard = 2});
    ls_data *data = open_images(s, SIDE, BATCH);
    ls_module *net = figures_network(s);
    ls_module_initialize(net, test_cpus(1), &(ls_init){.like = data});
    assert_int_equal(ls_module_freeze(NULL, "*", true), LS_BAD_ARGUMENT);
    assert_int_equal(ls_module_freeze(net, NULL, true), LS_BAD_ARGUMENT);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_module_freeze: the pattern is empty");
    assert_int_equal(ls_module_freeze(net, "fc.*", true), LS_BAD_ARGUMENT);
    assert_caught(s, LS_BAD_ARGUMENT, "no parameter is called \"fc.*\"");
    /* The pattern is forgotten; half a BatchNorm waits for the other half. */
    assert_int_equal(ls_module_freeze(net, "1.weight", true), LS_OK);
    assert_false(is_frozen(net, "1.weight"));
    assert_null(ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1}));
    assert_caught(s, LS_BAD_ARGUMENT, "1.weight is frozen and 1.bias is not; of a BatchNorm freeze both or neither");
    assert_int_equal(ls_module_freeze(net, "1.bias", true), LS_OK);
    assert_true(is_frozen(net, "1.weight") && is_frozen(net, "1.bias"));
    ls_batch b;
    assert_true(ls_data_next(data, &b));
    ls_tensor *bias = ls_module_param(net, "1.bias", ls_host());
    assert_null(ls_grad(bias));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_grad: 1.bias on the host has no gradient");
    ls_tensor *gradient = ls_grad(ls_module_param(net, "4.bias", ls_host()));
    ls_backward(test_losses(net, &b));
    assert_int_equal(ls_module_freeze(net, "4.bias", true), LS_STALE);
    assert_caught(s, LS_STALE, "ls_module_freeze: the network has gradients that no update has used");
    ls_clear_grad(ls_module_param(net, "4.bias", ls_host()));
    assert_int_equal(ls_module_freeze(net, "4.bias", true), LS_OK);
    const int scope = ls_enter(s);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    float numbers[CLASSES];
    assert_int_equal(ls_read(gradient, numbers, CLASSES), LS_STALE);
    assert_caught(s, LS_STALE, "ls_grad: 4.bias was frozen meanwhile");
    assert_int_equal(ls_module_freeze(net, "4.*", false), LS_BAD_ARGUMENT);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_module_freeze: the network has a trainer");
    ls_leave(s, scope);
    assert_int_equal(ls_module_freeze(net, "*", true), LS_OK);
    trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    test_step(net, trainer, &b);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_trainer_step: the network has no parameter that trains");
    assert_int_equal(ls_close(s), LS_OK);
}

static void wrong_groups_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        ls_param_group group;
        const char *words;
    } wrong[] = {{"", {.lr = 2}, "ls_trainer_set_group: the pattern is empty"},
                 {"fc.*", {.lr = 2}, "ls_trainer_set_group: no parameter is called \"fc.*\""},
                 {"*.running_mean", {.lr = 2}, "no parameter is called \"*.running_mean\""},
                 {"4.weight", {.lr = 2, .vectors = true}, "no parameter of one dimension is called \"4.weight\""},
                 {"*", {.lr = -2}, "lr and weight_decay, which are factors, must be below 1e30"},
                 {"*", {.weight_decay = 1e30}, "must be below 1e30, and above 0 or -1, which is 0"},
                 {"*", {.vectors = true}, "it changes nothing: lr and weight_decay are factors, of which 0 is 1"},
                 {"*", {.weight_decay = 5}, "weight_decay is a factor on the trainer's, which is 0"},
                 {"*", {.weight_decay = 2, .no_decay = true}, "no_decay leaves no factor of weight_decay"}};
    ls_session *s = ls_open(&(ls_options){.shard = 2});
    ls_data *data = open_images(s, SIDE, BATCH);
    ls_module *net = figures_network(s);
    ls_module_initialize(net, test_cpus(1), NULL);
    int scope = ls_enter(s);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    assert_int_equal(ls_trainer_set_group(NULL, "*", &wrong[0].group), LS_BAD_ARGUMENT);
    assert_int_equal(ls_trainer_set_group(trainer, "*", NULL), LS_BAD_ARGUMENT);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_trainer_set_group: the group is NULL");
    /* Before the shapes are known names are not looked at, but in the first step. */
    assert_int_equal(ls_trainer_set_group(trainer, "fc.*", &(ls_param_group){.lr = 2}), LS_OK);
    ls_batch b;
    assert_true(ls_data_next(data, &b));
    test_step(net, trainer, &b);
    assert_caught(s, LS_BAD_ARGUMENT, wrong[1].words);
    ls_clear_grad(ls_module_param(net, "4.bias", ls_host()));
    ls_leave(s, scope);
    scope = ls_enter(s);
    assert_true(ls_data_next(data, &b));
    trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(ls_trainer_set_group(trainer, wrong[i].pattern, &wrong[i].group), LS_BAD_ARGUMENT);
        assert_caught(s, LS_BAD_ARGUMENT, wrong[i].words);
    }
    test_step(net, trainer, &b);
    assert_int_equal(ls_trainer_set_group(trainer, "*", &(ls_param_group){.lr = 2}), LS_BAD_ARGUMENT);
    assert_caught(s, LS_BAD_ARGUMENT, "groups are set before the first step");
    ls_leave(s, scope);
    assert_int_equal(ls_close(s), LS_OK);
}

/* A later call with the same pattern takes the earlier one's place: as if it had been the only one. */
static void a_group_is_replaced(void **state)
{
    (void)state;
    char digits[2][65];
    for (int plain = 0; plain < 2; plain++) {
        ls_session *s = ls_open(&(ls_options){.shard = 2});
        ls_data *data = open_images(s, SIDE, BATCH);
        ls_module *net = figures_network(s);
        ls_module_initialize(net, test_cpus(1), &(ls_init){.like = data});
        ls_trainer *trainer =
            ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = plain ? 0.25 : 0.5, .weight_decay = plain ? 0.25 : 0.125});
        for (int k = 0; k < 20 && !plain; k++) /* more than there is room for at first */
            ls_trainer_set_group(trainer, k % 2 ? "*" : "0.*", &(ls_param_group){.lr = 7});
        if (!plain) {
            ls_trainer_set_group(trainer, "*", &(ls_param_group){.lr = 0.5, .weight_decay = 2});
            ls_trainer_set_group(trainer, "0.*", &(ls_param_group){.lr = 1});
        }
        int done = 0;
        test_train(s, net, trainer, data, &done, 3);
        ls_module_fingerprint(net, digits[plain]);
        assert_int_equal(ls_close(s), LS_OK);
    }
    assert_string_equal(digits[0], digits[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_in_pytorch),
        cmocka_unit_test(others_train_as_ever),
        cmocka_unit_test(bits_do_not_depend_on_devices),
        cmocka_unit_test(bits_do_not_depend_on_ranks),
        cmocka_unit_test(ranks_that_differ_are_named),
        cmocka_unit_test(ranks_exchange_what_trains),
        cmocka_unit_test(below_what_trains_nothing_is_differentiated),
        cmocka_unit_test(freezing_changes_no_value),
        cmocka_unit_test(freezing_comes_between_trainers),
        cmocka_unit_test(frozen_values_may_be_set),
        cmocka_unit_test(rules_wait_for_names),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(wrong_groups_are_refused),
        cmocka_unit_test(a_group_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
