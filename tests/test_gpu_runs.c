/* Training on a card: the same bits on 1, 2 and 4 logical devices, in any order of pulls, with graphs and without, and
 * where steps begin behind one another; in float32 a core's bits, else close to them; errors by name. Exit status 77
 * where there is no card. With the argument `small` networks of a few channels stand in for both, for a card
 * that is the host (tests/emulated). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <lockstep_checkpoint.h>
#include <lockstep_profile.h>
#include <lockstep_train.h>
#include <lockstep_trial.h>

#include "device/cards.h"
#include "not_run.h"
#include "model/network.h"
#include "observed.h"
#include "train/job.h"
#include "tensors.h"
#include "training.h"

enum { SIZE = 28, ROWS = 200, BATCH = 72, CLASSES = 10, STEPS = 6, SHARD = 16 };

static const char *models[] = {"lenet", "resnet18"};
static bool small; /* TF32 is then as exact as f32 */

/* What ResNet-18 consists of, with few channels, and a max pool besides. */
static ls_tensor *residual(ls_module *self, ls_tensor *x)
{
    ls_tensor *y = ls_relu(ls_module_call(self, "bn1", ls_module_call(self, "conv1", x)));
    y = ls_module_call(self, "bn2", ls_module_call(self, "conv2", y));
    return ls_relu(ls_add(y, ls_module_child(self, "conv3") ? ls_module_call(self, "conv3", x) : x));
}

static ls_module *residual_block(ls_session *s, int channels, int strides)
{
    ls_module *block = ls_block(s, residual, NULL);
    ls_module_append(block, "conv1", ls_nn_conv2d(s, channels, 3, &(ls_conv){.padding = 1, .stride = strides}));
    ls_module_append(block, "bn1", ls_nn_batch_norm(s));
    ls_module_append(block, "conv2", ls_nn_conv2d(s, channels, 3, &(ls_conv){.padding = 1}));
    ls_module_append(block, "bn2", ls_nn_batch_norm(s));
    if (strides > 1)
        ls_module_append(block, "conv3", ls_nn_conv2d(s, channels, 1, &(ls_conv){.stride = strides}));
    return block;
}

/* LeNet's layers, with few channels. */
static ls_module *few_maps(ls_session *s)
{
    ls_module *net = ls_sequential(
        s, LS_LIST(ls_nn_conv2d(s, 4, 3, NULL), ls_nn_fn(s, ls_relu), ls_nn_avg_pool2d(s, &(ls_pool){.kernel = 2})));
    ls_module_append(net, "conv2", ls_nn_conv2d(s, 6, 5, NULL));
    ls_module_append(net, "relu2", ls_nn_fn(s, ls_relu));
    ls_module_append(net, "pool2", ls_nn_avg_pool2d(s, &(ls_pool){.kernel = 2}));
    ls_module_append(net, "flat", ls_nn_fn(s, ls_flatten));
    ls_module_append(net, "fc", ls_sequential(s, LS_LIST(ls_nn_linear(s, 16), ls_nn_fn(s, ls_relu))));
    ls_module_append(net, "out", ls_nn_linear(s, CLASSES));
    return net;
}

static ls_module *network_of(ls_session *s, const char *name)
{
    if (strcmp(name, "few") == 0)
        return few_maps(s);
    if (strcmp(name, "small") != 0)
        return ls_model(s, name);
    ls_module *net = ls_sequential(
        s, LS_LIST(ls_nn_conv2d(s, 8, 3, &(ls_conv){.padding = 1}), ls_nn_batch_norm(s), ls_nn_fn(s, ls_relu)));
    ls_module_append(net, "pool", ls_nn_max_pool2d(s, &(ls_pool){.kernel = 2}));
    ls_module_append(net, "block1", residual_block(s, 8, 1));
    ls_module_append(net, "block2", residual_block(s, 12, 2));
    ls_module_append(net, "average", ls_nn_fn(s, ls_global_avg_pool2d));
    ls_module_append(net, "fc", ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), ls_nn_linear(s, CLASSES))));
    return net;
}

typedef struct how {
    const char *model, *devices;
    ls_dtype dtype;
    bool plain;
    uint64_t shuffle;
    int in_flight;
    bool gently;        /* with a low rate */
    bool winograd;      /* where it suits */
    const char *frozen; /* a pattern; then vectors have no decay, too. NULL: neither */
} how;

typedef struct result {
    uint64_t sum, averages;
    double losses[STEPS];
    float *logits; /* [ROWS][CLASSES]; to be freed */
} result;

static ls_data *images(ls_session *s, int batch)
{
    static uint8_t pixels[ROWS * SIZE * SIZE], labels[ROWS];
    test_make_images(pixels, sizeof pixels, labels, ROWS, CLASSES);
    return ls_data_from_memory(s, pixels, labels, ROWS, 1, SIZE, SIZE, CLASSES,
                               &(ls_loader){.batch = batch, .shuffle = true});
}

static result train(how h)
{
    result r = {.sum = 0};
    ls_session *s = ls_open(&(ls_options){.shard = SHARD,
                                          .dtype = h.dtype,
                                          .in_flight = h.in_flight,
                                          .trial = &(ls_trial){.shuffle_pulls = h.shuffle},
                                          .conv = h.winograd ? LS_CONV_AUTO : LS_CONV_DIRECT});
    ls_data *data = images(s, BATCH);
    ls_module *net = network_of(s, h.model);
    ls_module_initialize(net, ls_parse_devices(s, h.devices), &(ls_init){.kind = LS_XAVIER, .like = data});
    for (ls_turn *core = s->turns; core; core = core->next_turn)
        core->executor->plain = h.plain;
    if (h.frozen)
        ls_module_freeze(net, h.frozen, true);
    ls_trainer *trainer = ls_trainer_new(
        net, LS_SGD, &(ls_optim){.lr = h.gently ? 0.001f : 0.05f, .momentum = 0.9, .weight_decay = 1e-4, .ema = 0.75});
    if (h.frozen)
        ls_trainer_set_group(trainer, "*", &(ls_param_group){.lr = 0.5, .no_decay = true, .vectors = true});
    for (int step = 0; step < STEPS && !ls_failed(s);) {
        ls_batch b; /* the last of an epoch is smaller, and so is its last shard */
        while (step < STEPS && ls_data_next(data, &b)) {
            test_step(net, trainer, &b);
            step++;
        }
    }
    ls_wait(s);
    ls_report report;
    while (ls_trainer_next_report(trainer, &report))
        r.losses[report.step - 1] = report.loss;
    r.averages = test_average_checksum(net, trainer);
    r.sum = ls_module_checksum(net);
    r.logits = calloc(ROWS * CLASSES, sizeof *r.logits);
    ls_module_predict(net, data, r.logits, CLASSES);
    if (ls_failed(s))
        fail_msg("%s on %s: %s", h.model, h.devices, ls_message(s));
    assert_int_equal(ls_close(s), LS_OK);
    return r;
}

static void assert_same(const char *what, result a, result b)
{
    if (a.sum != b.sum || a.averages != b.averages || memcmp(a.losses, b.losses, sizeof a.losses) != 0 ||
        memcmp(a.logits, b.logits, ROWS * CLASSES * sizeof *a.logits) != 0)
        fail_msg("%s: other bits; losses %.9g and %.9g at the end", what, a.losses[STEPS - 1], b.losses[STEPS - 1]);
    free(b.logits);
}

static void logical_devices_have_the_same_bits(void **state)
{
    (void)state;
    for (size_t m = 0; m < 2; m++)
        for (int dtype = LS_F32; dtype <= LS_BF16; dtype += small ? 2 : 1) {
            const how one = {.model = models[m], .devices = "cuda:0", .dtype = (ls_dtype)dtype};
            how other = one;
            result first = train(one);
            assert_same("again", first, train(one));
            other.in_flight = 1;
            assert_same("shards one after another", first, train(other));
            other.in_flight = 3;
            assert_same("three shards beside one another", first, train(other));
            other.in_flight = 0;
            other.devices = "cuda:0x2";
            assert_same("two devices", first, train(other));
            other.devices = "cuda:0x4";
            assert_same("four devices", first, train(other));
            other.shuffle = 5;
            assert_same("four devices, shuffled", first, train(other));
            other = one;
            other.plain = true;
            assert_same("without graphs", first, train(other));
            print_message("%s, dtype %d: loss %.6f to %.6f, sum %016llx\n", models[m], dtype, first.losses[0],
                          first.losses[STEPS - 1], (unsigned long long)first.sum);
            free(first.logits);
        }
}

/* In float32 a device is a device. */
static void cores_and_cards_have_the_same_bits(void **state)
{
    (void)state;
    for (size_t m = 0; m < 2; m++)
        for (int winograd = 0; winograd < 2; winograd++) {
            how h = {.model = models[m], .devices = "cpu:0-1", .winograd = winograd};
            result core = train(h);
            h.devices = "cuda:0";
            assert_same("a card", core, train(h));
            h.devices = "cpu:0-1,cuda:0x2";
            assert_same("cores and a card", core, train(h));
            h.devices = "cuda:0,cpu:0";
            h.shuffle = 7;
            assert_same("a card and a core, shuffled", core, train(h));
            print_message("%s%s: on cores, a card and both: %016llx\n", models[m], winograd ? " by Winograd" : "",
                          (unsigned long long)core.sum);
            free(core.logits);
        }
}

/* Also where BatchNorm takes running statistics, in either copy of them, and trains or has a backward pass below. */
static void frozen_parts_and_groups_have_the_same_bits(void **state)
{
    (void)state;
    const how ways[] = {{.model = models[0], .frozen = small ? "0.*" : "?1"},
                        {.model = models[1], .frozen = "[01].*"},
                        {.model = models[1], .frozen = "*1.*"},
                        {.model = models[1], .frozen = "*running_*"},
                        {.model = models[1], .frozen = "[01].*", .dtype = LS_BF16}};
    static const char *const lists[] = {"cuda:0", "cuda:0x4", "cuda:0,cpu:0"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        how h = ways[i];
        h.devices = h.dtype == LS_F32 ? "cpu:0-1" : "cuda:0x2";
        result first = train(h);
        for (int k = 0; k < (h.dtype == LS_F32 ? 3 : 2); k++) {
            h.devices = lists[k];
            assert_same(h.frozen, first, train(h));
        }
        print_message("%s, dtype %d, without %s: loss %.6f to %.6f\n", h.model, (int)h.dtype, h.frozen, first.losses[0],
                      first.losses[STEPS - 1]);
        free(first.logits);
    }
}

static double distance(const float *a, const float *b, size_t n)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += (double)b[i] * b[i];
    }
    return sqrt(difference / norm);
}

/* At a high rate ResNet-18's six steps make rounding large: a CPU's logits by Winograd and by direct convolution are 14
 * % apart then. */
static void numbers_are_close_to_the_cpus(void **state)
{
    (void)state;
    static const double allowed[] = {[LS_TF32] = 0.05, [LS_BF16] = 0.3};
    for (size_t m = 0; m < 2; m++) {
        result cpu = train((how){.model = models[m], .devices = "cpu:0-1", .gently = true});
        for (int dtype = small ? LS_BF16 : LS_TF32; dtype <= LS_BF16; dtype++) {
            result gpu =
                train((how){.model = models[m], .devices = "cuda:0", .dtype = (ls_dtype)dtype, .gently = true});
            double first = fabs(gpu.losses[0] / cpu.losses[0] - 1),
                   last = fabs(gpu.losses[STEPS - 1] / cpu.losses[STEPS - 1] - 1);
            double logits = distance(gpu.logits, cpu.logits, ROWS * CLASSES);
            print_message("%s, dtype %d: off from the CPU: loss %.1e at first, %.1e at the end; logits %.1e\n",
                          models[m], dtype, first, last, logits);
            if (!(first <= allowed[dtype] / 20 && logits <= allowed[dtype]))
                fail_msg("%s, dtype %d: further from the CPU's numbers than rounding", models[m], dtype);
            free(gpu.logits);
        }
        free(cpu.logits);
    }
}

static void values_go_there_and_back(void **state)
{
    (void)state;
    ls_session *s = ls_open(&(ls_options){.shard = SHARD});
    ls_data *data = images(s, BATCH);
    ls_module *net = ls_model(s, "lenet");
    ls_module_initialize(net, ls_parse_devices(s, "cuda:0"), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.05, .momentum = 0.9});
    static float bias[10], seen[10];
    for (int i = 0; i < 10; i++)
        bias[i] = (float)i;
    ls_module_write_parameter(net, "b4", bias, 10);
    ls_module_read_parameter(net, "b4", seen, 10);
    assert_memory_equal(bias, seen, sizeof bias);
    ls_metrics before, after;
    ls_module_evaluate(net, data, &before);
    assert_true(before.loss > 4); /* the bias counts: most images are taken for the last class */
    ls_batch b;
    assert_true(ls_data_next(data, &b));
    ls_backward(test_losses(net, &b));
    assert_int_equal(ls_trainer_verify(trainer), LS_OK);
    static float gradient[10];
    assert_int_equal(test_read_gradient(net, "b4", gradient, 10), LS_OK);
    ls_trainer_step(trainer);
    ls_module_read_parameter(net, "b4", seen, 10);
    for (int i = 0; i < 10; i++)
        assert_true(fabs(seen[i] - (bias[i] - 0.05 * gradient[i] / BATCH)) < 1e-3);
    ls_module_evaluate(net, data, &after);
    assert_true(after.loss < before.loss);
    if (ls_failed(s))
        fail_msg("%s", ls_message(s));
    assert_int_equal(ls_close(s), LS_OK);
}

/* The step fails by name, the weights of the step before stay, and training goes on. */
static void what_is_not_finite_is_an_error(void **state)
{
    (void)state;
    ls_session *s = ls_open(&(ls_options){.shard = SHARD});
    ls_data *data = images(s, BATCH);
    ls_module *net = ls_model(s, "lenet");
    ls_module_initialize(net, ls_parse_devices(s, "cuda:0"), &(ls_init){.kind = LS_XAVIER, .like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 1e29});
    uint64_t before = ls_module_checksum(net);
    ls_batch b;
    for (int i = 0; i < 4 && !ls_failed(s) && ls_data_next(data, &b); i++) {
        test_step(net, trainer, &b);
        ls_wait(s);
        if (!ls_failed(s))
            before = ls_module_checksum(net);
    }
    assert_true(ls_failed(s));
    print_message("%s\n", ls_message(s));
    assert_true(ls_catch(s, LS_NOT_FINITE));
    assert_int_equal(ls_module_checksum(net), before);
    assert_int_equal(ls_close(s), LS_OK);
}

/* The copy that is not current lies on the card too. */
static void one_step_back(void **state)
{
    (void)state;
    ls_session *s = ls_open(&(ls_options){.shard = SHARD});
    ls_data *data = images(s, BATCH);
    ls_module *net = ls_model(s, "lenet");
    ls_module_initialize(net, ls_parse_devices(s, "cuda:0"), &(ls_init){.kind = LS_XAVIER, .like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    ls_batch b;
    int64_t step = -1;
    ls_data_next(data, &b);
    test_step(net, trainer, &b);
    ls_wait(s);
    const uint64_t before = ls_module_checksum(net);
    test_step(net, trainer, &b);
    assert_int_equal(ls_wait(s), LS_OK);
    assert_int_not_equal(ls_module_checksum(net), before);
    assert_int_equal(ls_trainer_step_back(trainer, &step), LS_OK);
    assert_int_equal(step, 1);
    assert_int_equal(ls_module_checksum(net), before);
    assert_int_equal(ls_close(s), LS_OK);
}

/* ---- Steps behind one another ---- */

typedef struct ahead {
    ls_trainer *trainer;
    int64_t number; /* of shards so far */
    int steps;      /* that began before the one in front of them was known to be good */
    bool done;
} ahead;

enum { PARTS = (BATCH - 1) / SHARD + 1 };

/* At each shard's beginning, by the device's thread. */
static bool note_ahead(void *user, ls_executor *executor, const char *call)
{
    ahead *a = user;
    (void)executor;
    if (!a->done && strcmp(call, "begin") == 0 && a->number++ % PARTS == 0) {
        pthread_mutex_lock(&a->trainer->lock);
        a->steps += a->trainer->reported < (a->number - 1) / PARTS;
        pthread_mutex_unlock(&a->trainer->lock);
    }
    return true;
}

/* So many steps with the same images: at once, or each one waited for; `spoiled` is the number of the one whose rate is
 * infinite. */
static uint64_t follow(bool at_once, int steps, int spoiled, ls_metrics *metrics, int *ahead_of)
{
    ls_session *s = ls_open(&(ls_options){.shard = SHARD, .conv = LS_CONV_DIRECT});
    ls_data *data = images(s, BATCH);
    ls_module *net = network_of(s, models[1]);
    ls_module_initialize(net, ls_parse_devices(s, "cuda:0"), &(ls_init){.kind = LS_XAVIER, .like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.01});
    ahead a = {.trainer = trainer};
    test_observe(net->network->master, note_ahead, &a);
    ls_batch b;
    assert_true(ls_data_next(data, &b));
    for (int step = 1; step <= steps; step++) {
        trainer->lr = step == spoiled ? HUGE_VAL : 0.01;
        test_step(net, trainer, &b);
        if (!at_once)
            ls_wait(s);
        if (step == steps / 2 && !spoiled) { /* the running statistics are read between two steps */
            ls_wait(s);
            a.done = true;
            ls_module_evaluate(net, data, metrics);
            a.done = false;
        }
    }
    ls_wait(s);
    a.done = true;
    if (spoiled)
        assert_true(ls_catch(s, LS_NOT_FINITE));
    uint64_t sum = ls_module_checksum(net);
    ls_module_evaluate(net, data, metrics + 1);
    if (ls_failed(s))
        fail_msg("%s", ls_message(s));
    assert_int_equal(ls_close(s), LS_OK);
    *ahead_of = a.steps;
    return sum;
}

static void a_step_begins_behind_another(void **state)
{
    (void)state;
    enum { MANY = 8 };
    ls_metrics one[2], other[2];
    int ahead_of;
    const uint64_t sum = follow(false, MANY, 0, one, &ahead_of);
    assert_int_equal(ahead_of, 0);
    assert_true(follow(true, MANY, 0, other, &ahead_of) == sum);
    print_message("%d of %d steps began before the one in front was known to be good\n", ahead_of, MANY);
    assert_true(ahead_of > 0);
    for (int i = 0; i < 2; i++)
        assert_true(one[i].loss == other[i].loss && one[i].correct == other[i].correct);
}

/* What had begun behind it is dropped, and the weights in front of it stay. */
static void a_step_behind_one_that_fails_is_dropped(void **state)
{
    (void)state;
    ls_metrics one[2], other[2];
    int ahead_of;
    for (int good = 0; good < 4; good += 3) {
        const uint64_t sum = follow(false, good, 0, one, &ahead_of);
        assert_true(follow(true, 6, good + 1, other, &ahead_of) == sum);
        assert_true(one[1].loss == other[1].loss && one[1].correct == other[1].correct);
    }
}

/* ---- What the card does, and when ---- */

enum { MEASURED = 4, SPANS = 20000, SHARDS = (BATCH - 1) / SHARD + 1 };

static int by_begin(const void *a, const void *b)
{
    const ls_span *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Of one card: in the order handed in, however many devices it is. The moments of one step and the next are found
 * apart. */
static void assert_in_order(const ls_profile *profile, double tolerance)
{
    double behind = 0;
    int64_t n = ls_profile_spans(profile), own = 0;
    ls_span *spans = calloc((size_t)n + 1, sizeof *spans);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(ls_profile_span_at(profile, i, &spans[own]), LS_OK);
        const ls_span_kind kind = spans[own].kind;
        own += kind == LS_SPAN_OPERATION || kind > LS_SPAN_CHECKPOINT;
    }
    qsort(spans, (size_t)own, sizeof *spans, by_begin);
    for (int64_t i = 0; i < own; i++) {
        assert_true(spans[i].begin <= spans[i].end && spans[i].begin > behind - tolerance);
        behind = spans[i].end;
    }
    free(spans);
}

static void check_profile(const ls_profile *profile, int devices)
{
    const double tolerance = 2e-4;
    int64_t n = ls_profile_spans(profile), kinds[LS_SPAN_CARD_SUM + 1] = {0}, rows = 0, gathered = 0;
    double begin = 0, end = 0, operations = 0;
    ls_span span;
    ls_profile_row row;
    ls_profile_sum sum;
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(ls_profile_span_at(profile, i, &span), LS_OK);
        kinds[span.kind]++;
        assert_true(span.device >= -1 && span.device < devices);
        if (span.kind == LS_SPAN_STEP && span.step == 1 + 2)
            begin = span.begin;
        if (span.kind == LS_SPAN_STEP)
            end = span.end;
        gathered += span.kind == LS_SPAN_OPERATION && span.row < 0;
    }
    for (int64_t i = 0; i < n; i++) {
        ls_profile_span_at(profile, i, &span);
        if (span.kind == LS_SPAN_OPERATION || span.kind > LS_SPAN_CHECKPOINT) {
            assert_true(span.begin >= begin - tolerance && span.end <= end + tolerance);
            assert_true(span.device >= 0 && span.step > 2 && span.step <= 2 + MEASURED);
        }
    }
    for (int i = 0; i < ls_profile_rows(profile); i++) {
        assert_int_equal(ls_profile_at(profile, i, &row), LS_OK);
        assert_int_equal(row.calls, MEASURED * SHARDS);
        assert_true(row.seconds > 0);
        operations += row.seconds;
        rows++;
    }
    assert_int_equal(kinds[LS_SPAN_STEP], MEASURED);
    assert_int_equal(kinds[LS_SPAN_SHARD], MEASURED * SHARDS);
    assert_int_equal(gathered, MEASURED * SHARDS);
    assert_int_equal(kinds[LS_SPAN_OPERATION], (rows + 1) * MEASURED * SHARDS);
    assert_int_equal(kinds[LS_SPAN_TO_CARD], MEASURED * SHARDS);
    assert_int_equal(kinds[LS_SPAN_FROM_CARD], MEASURED * SHARDS);
    assert_true(kinds[LS_SPAN_CARD_SUM] >= MEASURED);
    assert_in_order(profile, tolerance);
    assert_int_equal(ls_profile_total(profile, &sum), LS_OK);
    assert_int_equal(sum.steps, MEASURED);
    assert_int_equal(sum.cores, 1);
    assert_float_equal(operations, sum.operations, 1e-9);
    assert_true(sum.gathering > 0 && sum.reducing > 0 && sum.between > 0 && sum.elsewhere == 0);
    assert_float_equal(sum.operations + sum.gathering + sum.reducing + sum.between + sum.waiting, sum.seconds,
                       1e-6 * sum.seconds);
    ls_device_times all = {.shards = 0}, times;
    for (int i = 0; i < devices; i++) {
        assert_int_equal(ls_profile_device(profile, i, &times), LS_OK);
        all.shards += times.shards;
        all.computing += times.computing;
    }
    assert_int_equal(all.shards, MEASURED * SHARDS);
    assert_float_equal(all.computing, sum.operations + sum.gathering, 1e-9);
}

static void a_profile_shows_what_the_card_does(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        int n;
    } devices[] = {{"cuda:0", 1}, {"cuda:0x2", 2}};
    uint64_t checksums[2][2];
    for (int i = 0; i < 2; i++)
        for (int measured = 0; measured < 2; measured++) {
            ls_session *s = ls_open(&(ls_options){.shard = SHARD, .conv = LS_CONV_DIRECT});
            ls_data *data = images(s, BATCH);
            ls_module *net = network_of(s, models[0]);
            ls_module_initialize(net, ls_parse_devices(s, devices[i].list),
                                 &(ls_init){.kind = LS_XAVIER, .like = data});
            ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.05, .momentum = 0.9});
            ls_batch b;
            ls_profile *profile = NULL;
            assert_true(ls_data_next(data, &b)); /* the same images each time */
            for (int step = 0; step < 2 + MEASURED + 2; step++) {
                if (measured && step == 2)
                    profile = ls_profile_start(trainer, SPANS);
                if (measured && step == 2 + MEASURED)
                    assert_int_equal(ls_profile_stop(profile), LS_OK);
                test_step(net, trainer, &b);
            }
            assert_int_equal(ls_wait(s), LS_OK);
            checksums[i][measured] = ls_module_checksum(net);
            if (measured)
                check_profile(profile, devices[i].n);
            assert_int_equal(ls_close(s), LS_OK);
        }
    assert_true(checksums[0][0] == checksums[0][1] && checksums[0][0] == checksums[1][0] &&
                checksums[0][0] == checksums[1][1]);
}

int main(int argc, char **argv)
{
    char why[256] = "";
    if (argc > 1) {
        models[0] = "few";
        models[1] = argv[1];
        small = true;
    }
    if (ls_card_count(why, sizeof why) == 0)
        return test_none_run("%s", why);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_profile_shows_what_the_card_does),
        cmocka_unit_test(values_go_there_and_back),
        cmocka_unit_test(cores_and_cards_have_the_same_bits),
        cmocka_unit_test(frozen_parts_and_groups_have_the_same_bits),
        cmocka_unit_test(numbers_are_close_to_the_cpus),
        cmocka_unit_test(logical_devices_have_the_same_bits),
        cmocka_unit_test(what_is_not_finite_is_an_error),
        cmocka_unit_test(one_step_back),
        cmocka_unit_test(a_step_begins_behind_another),
        cmocka_unit_test(a_step_behind_one_that_fails_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
