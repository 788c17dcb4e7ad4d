/* Training as a whole: the same bits whoever computes, nothing allocated while running, every failure a status. */
#include <lockstep_train.h>
#include <lockstep_trial.h>
#include "tensors.h"

#include <math.h>
#include <stdio.h>

#include "training.h"

enum { ROWS = 90, CHANNELS = 3, SIZE = 9, CLASSES = 5 };

/* ---- A small network with every kind of layer, and data from memory ---- */

static ls_tensor *residual(ls_module *self, ls_tensor *x)
{
    ls_tensor *y = ls_module_call(self, "bn", ls_module_call(self, "conv", x));
    return ls_relu(ls_add(y, x));
}

static ls_module *small_network(ls_session *s)
{
    ls_module *net = ls_sequential(s, NULL);
    ls_module_append(net, NULL, ls_nn_conv2d(s, 16, 3, &(ls_conv){.padding = 1}));
    ls_module_append(net, NULL, ls_nn_batch_norm(s));
    ls_module_append(net, NULL, ls_nn_fn(s, ls_relu));
    ls_module *block = ls_block(s, residual, NULL);
    ls_module_append(block, "conv", ls_nn_conv2d(s, 16, 3, &(ls_conv){.padding = 1}));
    ls_module_append(block, "bn", ls_nn_batch_norm(s));
    ls_module_append(net, "block", block);
    ls_module_append(net, NULL, ls_nn_max_pool2d(s, &(ls_pool){.kernel = 3, .stride = 2, .padding = 1}));
    ls_module_append(net, NULL, ls_nn_conv2d(s, 7, 3, &(ls_conv){.stride = 2, .padding = 1}));
    ls_module_append(net, NULL, ls_nn_fn(s, ls_relu));
    ls_module_append(net, NULL, ls_nn_dropout(s, 0.25));
    ls_module_append(net, NULL, ls_nn_avg_pool2d(s, &(ls_pool){.kernel = 2, .stride = 1}));
    ls_module_append(net, NULL, ls_nn_fn(s, ls_flatten));
    ls_module_append(net, NULL, ls_nn_linear(s, CLASSES));
    return net;
}

static ls_module *linear_network(ls_session *s)
{
    return ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), ls_nn_linear(s, CLASSES)));
}

static uint8_t images[ROWS * CHANNELS * SIZE * SIZE], labels[ROWS];

static int make_images(void **state)
{
    (void)state;
    test_make_images(images, sizeof images, labels, sizeof labels, CLASSES);
    return 0;
}

typedef struct setup {
    const char *devices;
    ls_isa isa;
    uint64_t shuffle_pulls;
    int batch, shard, epochs;
    bool wait; /* after every step */
    bool linear;
    double lr;
    ls_optimizer optimizer;
    double clip;
    const ls_allocator *allocator;
} setup;

typedef struct outcome {
    char fingerprint[65], message[1024];
    double losses[64];
    int steps;
    ls_status status;
    ls_metrics metrics;
} outcome;

static outcome train(setup how)
{
    outcome out = {.steps = 0};
    ls_session *s = ls_open(&(ls_options){.seed = 5,
                                          .shard = how.shard,
                                          .isa = how.isa,
                                          .trial = &(ls_trial){.shuffle_pulls = how.shuffle_pulls},
                                          .allocator = how.allocator});
    ls_data *data = ls_data_from_memory(s, images, labels, ROWS, CHANNELS, SIZE, SIZE, CLASSES,
                                        &(ls_loader){.batch = how.batch, .shuffle = true});
    ls_module *net = how.linear ? linear_network(s) : small_network(s);
    ls_module_initialize(net, ls_parse_devices(s, how.devices), &(ls_init){.kind = LS_HE, .like = data});
    double momentum = how.optimizer == LS_SGD ? 0.9 : 0;
    ls_trainer *trainer =
        ls_trainer_new(net, how.optimizer,
                       &(ls_optim){.lr = how.lr, .momentum = momentum, .weight_decay = 1e-3, .clip_norm = how.clip});
    ls_trainer_check_batches(trainer, data);
    ls_batch batch;
    ls_report report;
    for (int epoch = 0; epoch < how.epochs && s; epoch++)
        while (ls_data_next(data, &batch)) {
            test_step(net, trainer, &batch);
            if (how.wait)
                ls_wait(s);
        }
    ls_wait(s);
    while (ls_trainer_next_report(trainer, &report))
        out.losses[out.steps++ % 64] = report.loss;
    ls_module_evaluate(net, data, &out.metrics);
    ls_module_fingerprint(net, out.fingerprint);
    snprintf(out.message, sizeof out.message, "%s", ls_message(s));
    out.status = ls_close(s);
    return out;
}

static const setup usual = {.devices = "cpu:0", .batch = 40, .shard = 6, .epochs = 2, .lr = 0.02};

static void assert_same(const outcome *a, const outcome *b)
{
    assert_string_equal(b->message, "");
    assert_int_equal(a->steps, b->steps);
    assert_memory_equal(a->losses, b->losses, sizeof a->losses);
    assert_string_equal(a->fingerprint, b->fingerprint);
    assert_int_equal(a->metrics.correct, b->metrics.correct);
    assert_true(a->metrics.loss == b->metrics.loss);
}

/* ---- The same bits ---- */

static const struct rule {
    ls_optimizer optimizer;
    double clip;
} rules[] = {{LS_SGD, 0}, {LS_ADAM, 0}, {LS_ADAMW, 0}, {LS_SGD, 0.5}};
enum { RULES = sizeof rules / sizeof *rules };

static void same_bits_on_any_devices(void **state)
{
    (void)state;
    static const char *const lists[] = {"cpu:0", "cpu:1", "cpu:0-1", "cpu:0-2", "cpu:3,cpu:1", "cpu:0-6", "cpu:0-15"};
    for (int k = 0; k < RULES; k++) {
        setup how = usual;
        how.optimizer = rules[k].optimizer;
        how.clip = rules[k].clip;
        outcome one = train(how);
        assert_string_equal(one.message, "");
        assert_int_equal(one.steps, 6);
        assert_true(isfinite(one.losses[5]) && one.metrics.rows == ROWS);
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i += k ? 3 : 1) { /* every list under one rule */
            how.devices = lists[i];
            outcome other = train(how);
            assert_same(&one, &other);
        }
    }
}

/* Images that are numbers, of no data set: what dropout drops must depend on their place alone, and not on what the
 * cores did before. */
static void same_bits_of_images_that_are_numbers(void **state)
{
    (void)state;
    static const char *const lists[] = {"cpu:0", "cpu:0-1", "cpu:0-4"};
    static float rows[ROWS * CHANNELS * SIZE * SIZE], classes[ROWS];
    char one[65] = "", other[65];
    for (size_t i = 0; i < sizeof images; i++)
        rows[i] = (float)images[i] / 255;
    for (int i = 0; i < ROWS; i++)
        classes[i] = labels[i];
    for (int i = 0; i < 6; i++) {
        ls_session *s =
            ls_open(&(ls_options){.seed = 5, .shard = 6, .trial = &(ls_trial){.shuffle_pulls = (uint64_t)i}});
        ls_data *data =
            ls_data_from_memory(s, images, labels, ROWS, CHANNELS, SIZE, SIZE, CLASSES, &(ls_loader){.batch = 40});
        ls_module *net = small_network(s);
        ls_module_initialize(net, ls_parse_devices(s, lists[i % 3]), &(ls_init){.kind = LS_HE, .like = data});
        ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.02});
        ls_batch batch = {.X = ls_values(s, rows, LS_SHAPE(ROWS, CHANNELS, SIZE, SIZE)),
                          .y = ls_values(s, classes, LS_SHAPE(ROWS))};
        for (int step = 0; step < 3; step++) {
            ls_metrics metrics;
            if (i > 2)
                ls_module_evaluate(net, data, &metrics);
            test_step(net, trainer, &batch);
        }
        ls_module_fingerprint(net, i ? other : one);
        assert_int_equal(ls_close(s), LS_OK);
        if (i)
            assert_string_equal(one, other);
    }
}

static void same_bits_in_any_pull_order(void **state)
{
    (void)state;
    outcome one = train(usual);
    for (uint64_t order = 1; order <= 4; order++) {
        setup how = usual;
        how.shuffle_pulls = order;
        how.devices = "cpu:0-2";
        outcome other = train(how);
        assert_same(&one, &other);
    }
}

static void same_bits_however_one_waits(void **state)
{
    (void)state;
    outcome one = train(usual);
    setup how = usual;
    how.wait = true;
    how.devices = "cpu:0-1";
    outcome other = train(how);
    assert_same(&one, &other);
}

static void same_bits_with_any_instructions(void **state)
{
    (void)state;
    static const ls_isa all[] = {LS_ISA_REFERENCE, LS_ISA_PLAIN, LS_ISA_NEON, LS_ISA_AVX2, LS_ISA_AVX512};
    for (int k = 0; k < RULES; k++) {
        setup how = usual;
        how.optimizer = rules[k].optimizer;
        how.clip = rules[k].clip;
        how.epochs = 1;
        how.linear = k > 0; /* the rules differ in the optimizer alone */
        outcome one = train(how);
        int ran = 0;
        how.devices = "cpu:0-1";
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            how.isa = all[i];
            outcome other = train(how);
            if (other.status == LS_NO_DEVICE)
                continue;
            assert_same(&one, &other);
            ran++;
        }
        print_message("%d instruction sets agree\n", ran);
        assert_true(ran >= 2);
    }
}

/* More shards than partial gradients may live: folding frees buffers, and changes nothing. */
static void same_bits_when_folding(void **state)
{
    (void)state;
    setup how = usual;
    how.batch = 90;
    how.shard = 1;
    outcome one = train(how);
    assert_string_equal(one.message, "");
    how.devices = "cpu:0-4";
    outcome other = train(how);
    assert_same(&one, &other);
    how.shuffle_pulls = 3; /* every shard has a buffer: nothing is folded */
    outcome unfolded = train(how);
    assert_same(&one, &unfolded);
}

/* Fewer shards than devices: those without one take parts of the operations. */
static void same_bits_when_helping(void **state)
{
    (void)state;
    setup how = usual;
    how.batch = how.shard = 90;
    outcome one = train(how);
    assert_string_equal(one.message, "");
    for (int i = 0; i < 4; i++) {
        how.devices = i % 2 ? "cpu:0-2" : "cpu:0-1";
        outcome other = train(how);
        assert_same(&one, &other);
    }
}

/* BatchNorm takes the mean away, and a bias with it: not almost zero, however the sums round. */
static void a_bias_in_front_of_a_norm_stays_zero(void **state)
{
    (void)state;
    ls_session *s = ls_open(&(ls_options){.shard = 6});
    ls_data *data =
        ls_data_from_memory(s, images, labels, ROWS, CHANNELS, SIZE, SIZE, CLASSES, &(ls_loader){.batch = 40});
    ls_module *net = small_network(s);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0-1"), &(ls_init){.kind = LS_HE, .like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1, .momentum = 0.9});
    float values[16], zeros[16] = {0};
    ls_batch batch;
    ls_data_next(data, &batch);
    ls_backward(test_losses(net, &batch));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(test_read_gradient(net, i ? "block.conv.bias" : "0.bias", values, 16), LS_OK);
        assert_memory_equal(values, zeros, sizeof zeros);
    }
    assert_int_equal(test_read_gradient(net, "5.bias", values, 7), LS_OK); /* in front of none */
    assert_true(values[0] != 0);
    assert_int_equal(ls_trainer_step(trainer), LS_OK);
    while (ls_data_next(data, &batch))
        test_step(net, trainer, &batch);
    assert_int_equal(ls_module_read_parameter(net, "0.bias", values, 16), LS_OK);
    assert_memory_equal(values, zeros, sizeof zeros);
    assert_int_equal(ls_close(s), LS_OK);
}

/* Of any tensor, the running statistics too; and the checksum that ranks compare. */
static void one_bit_changes_the_fingerprint(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_data *data = ls_data_from_memory(s, images, labels, ROWS, CHANNELS, SIZE, SIZE, CLASSES, NULL);
    ls_module *net = small_network(s);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data});
    char before[65], after[65];
    ls_module_fingerprint(net, before);
    const uint64_t sum = ls_module_checksum(net);
    for (int k = 0; k < ls_module_parameter_count(net); k++) {
        ls_parameter_info info;
        assert_int_equal(ls_module_parameter_at(net, k, &info), LS_OK);
        float *values = calloc((size_t)info.numbers, sizeof *values);
        unsigned char *bits = (unsigned char *)(values + info.numbers - 1);
        assert_int_equal(ls_module_read_parameter(net, info.name, values, info.numbers), LS_OK);
        for (int changed = 1; changed >= 0; changed--) {
            *bits ^= 1;
            assert_int_equal(ls_module_write_parameter(net, info.name, values, info.numbers), LS_OK);
            ls_module_fingerprint(net, after);
            assert_int_equal(strcmp(before, after) != 0, changed);
            assert_int_equal(ls_module_checksum(net) != sum, changed);
        }
        free(values);
    }
    assert_int_equal(ls_close(s), LS_OK);
}

/* Numbers that a program gets beside the weights, of every path that sums them. The norm is over more blocks than can
 * be summed in one way only. Frozen as the weights are: another order of additions is another version. */
static void bits_of_losses_and_norms_are_frozen(void **state)
{
    (void)state;
    enum { IMAGES = 40, PIXELS = 28 * 28 };
    static uint8_t pictures[IMAGES * PIXELS], classes[IMAGES];
    test_make_images(pictures, sizeof pictures, classes, IMAGES, 10);
    ls_session *s = ls_open(&(ls_options){.shard = 5});
    ls_data *data = ls_data_from_memory(s, pictures, classes, IMAGES, 1, 28, 28, 10, &(ls_loader){.batch = 24});
    ls_module *net = ls_lenet(s);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0-1"), &(ls_init){.kind = LS_HE, .like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1, .clip_norm = 1});
    ls_report reports[2];
    ls_metrics metrics;
    ls_batch batch;
    float summary = 0;
    for (int k = 0; k < 2 && ls_data_next(data, &batch); k++) {
        ls_tensor *sum = ls_sum(test_losses(net, &batch));
        ls_backward(sum);
        ls_trainer_step(trainer);
        summary = (float)ls_item(sum);
        assert_true(ls_trainer_next_report(trainer, &reports[k]));
    }
    assert_int_equal(ls_module_evaluate(net, data, &metrics), LS_OK);
    print_message("losses %a %a, norms %a %a, sum %a, evaluated %a %d\n", reports[0].loss, reports[1].loss,
                  reports[0].norm, reports[1].norm, summary, metrics.loss, (int)metrics.correct);
    assert_true(reports[0].loss == 0x1.fb64395555555p+1 && reports[1].loss == 0x1.46ba7e4p+1);
    assert_true(reports[0].norm == 0x1.8b50e542f7d5cp+4 && reports[1].norm == 0x1.9d7290cecf5f8p+2);
    assert_true(summary == 0x1.46ba7ep+5f);
    assert_true(metrics.loss == 0x1.28457b999999ap+1 && metrics.correct == 4);
    assert_int_equal(ls_close(s), LS_OK);
}

static void a_name_changes_the_fingerprint(void **state)
{
    (void)state;
    static const float zeros[2 * CHANNELS * SIZE * SIZE];
    uint64_t sums[2];
    char digits[2][65];
    ls_session *s = ls_open(NULL);
    ls_data *data = ls_data_from_memory(s, images, labels, ROWS, CHANNELS, SIZE, SIZE, CLASSES, NULL);
    for (int i = 0; i < 2; i++) {
        ls_module *net = ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten)));
        ls_module_append(net, i ? "b" : "a", ls_nn_linear(s, 2));
        ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data});
        ls_module_write_parameter(net, i ? "b.weight" : "a.weight", zeros, sizeof zeros / sizeof *zeros);
        sums[i] = ls_module_checksum(net);
        ls_module_fingerprint(net, digits[i]);
    }
    assert_string_equal(ls_message(s), "");
    assert_true(sums[0] != sums[1]);
    assert_string_not_equal(digits[0], digits[1]);
    assert_int_equal(ls_close(s), LS_OK);
}

/* ---- Memory ---- */

static void nothing_is_allocated_while_running(void **state)
{
    (void)state;
    counted c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    ls_allocator allocator = {count_allocate, count_release, &c};
    ls_session *s = ls_open(&(ls_options){.shard = 6, .allocator = &allocator});
    ls_data *data = ls_data_from_memory(s, images, labels, ROWS, CHANNELS, SIZE, SIZE, CLASSES,
                                        &(ls_loader){.batch = 40, .shuffle = true});
    ls_module *net = small_network(s);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0-1"), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.01, .momentum = 0.9});
    ls_batch batch;
    while (ls_data_next(data, &batch)) /* batches of all sizes, and as many in flight as there can be */
        test_step(net, trainer, &batch);
    ls_wait(s);
    long before = c.made;
    for (int epoch = 0; epoch < 4; epoch++)
        while (ls_data_next(data, &batch))
            test_step(net, trainer, &batch);
    assert_int_equal(ls_wait(s), LS_OK);
    assert_int_equal(c.made, before);
    assert_int_equal(ls_close(s), LS_OK);
    assert_int_equal(c.alive, 0);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    counted c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    ls_allocator allocator = {count_allocate, count_release, &c};
    setup how = usual;
    how.allocator = &allocator;
    how.devices = "cpu:0-1";
    how.epochs = 1;
    outcome good = train(how);
    assert_string_equal(good.message, "");
    long all = c.made;
    for (long n = 1; n <= all; n++) {
        c.made = 0;
        c.fail_at = n;
        outcome failed = train(how);
        if (failed.status != LS_OUT_OF_MEMORY)
            print_message("allocation %ld of %ld: %s: %s\n", n, all, ls_status_name(failed.status), failed.message);
        assert_int_equal(failed.status, LS_OUT_OF_MEMORY);
        assert_true(strstr(failed.message, "no memory for ") && !strstr(failed.message, "for  (")); /* for what */
        assert_int_equal(c.alive, 0);
    }
    print_message("%ld allocations failed in turn\n", all);
}

/* ---- What is not finite, and what cannot be ---- */

static void an_overflow_is_named_and_keeps_the_weights(void **state)
{
    (void)state;
    setup how = usual;
    how.lr = 1e20;
    outcome broken = train(how);
    assert_int_equal(broken.status, LS_NOT_FINITE);
    assert_non_null(strstr(broken.message, "not finite"));
    ls_session *s = ls_open(NULL);
    ls_data *data = ls_data_from_memory(s, images, labels, ROWS, CHANNELS, SIZE, SIZE, CLASSES, NULL);
    ls_module *net = small_network(s);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data});
    float bad[CLASSES] = {NAN};
    ls_parameter_info info;
    ls_module_parameter_at(net, ls_module_parameter_count(net) - 1, &info);
    ls_module_write_parameter(net, info.name, bad, CLASSES);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    ls_batch batch;
    ls_data_next(data, &batch);
    assert_int_equal(test_step(net, trainer, &batch), LS_OK);
    assert_int_equal(ls_wait(s), LS_NOT_FINITE);
    assert_non_null(strstr(ls_message(s), "step 1: the loss of shard 0"));
    assert_int_equal(test_step(net, trainer, &batch), LS_NOT_FINITE);
    ls_close(s);
}

/* The last update of a run may leave weights that are finite, and nothing that can be computed from them. */
static void what_is_inferred_is_finite(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_data *data = ls_data_from_memory(s, images, labels, ROWS, CHANNELS, SIZE, SIZE, CLASSES, NULL);
    ls_module *net = small_network(s);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0-1"), &(ls_init){.like = data});
    ls_parameter_info info;
    ls_module_parameter_at(net, ls_module_parameter_count(net) - 1, &info);
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        float numbers[CLASSES] = {bad[i]}, logits[ROWS][CLASSES];
        ls_metrics metrics;
        ls_module_write_parameter(net, info.name, numbers, CLASSES);
        assert_int_equal(ls_module_evaluate(net, data, &metrics), LS_NOT_FINITE);
        assert_non_null(strstr(ls_message(s), "ls_module_evaluate: the loss over "));
        assert_true(ls_catch(s, LS_NOT_FINITE));
        assert_int_equal(ls_module_predict(net, data, *logits, CLASSES), LS_NOT_FINITE);
        assert_non_null(strstr(ls_message(s), "ls_module_predict: what the network makes of image 0 is not finite"));
        assert_true(ls_catch(s, LS_NOT_FINITE));
    }
    float numbers[CLASSES] = {1}, logits[ROWS][CLASSES];
    ls_module_write_parameter(net, info.name, numbers, CLASSES);
    assert_int_equal(ls_module_predict(net, data, *logits, CLASSES), LS_OK);
    assert_int_equal(ls_close(s), LS_OK);
}

/* The one under way or the next, and no other; no step. */
static void an_inference_may_be_interrupted(void **state)
{
    (void)state;
    ls_interrupt(NULL);
    ls_session *s = ls_open(NULL);
    ls_data *data = ls_data_from_memory(s, images, labels, ROWS, CHANNELS, SIZE, SIZE, CLASSES, NULL);
    ls_module *net = small_network(s);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0-1"), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    float whole[ROWS][CLASSES], logits[ROWS][CLASSES];
    ls_metrics want, metrics;
    ls_batch batch;
    assert_true(ls_data_next(data, &batch));
    ls_interrupt(s);
    assert_int_equal(test_step(net, trainer, &batch), LS_OK);
    assert_int_equal(ls_wait(s), LS_OK);
    assert_int_equal(ls_module_evaluate(net, data, &metrics), LS_INTERRUPTED); /* the call was not the step's */
    assert_string_equal(ls_message(s), "ls_interrupt ended an inference over 90 images");
    assert_true(isnan(metrics.loss) && metrics.correct == 0);
    assert_true(ls_catch(s, LS_INTERRUPTED));
    assert_int_equal(ls_module_evaluate(net, data, &want), LS_OK);
    assert_int_equal(ls_module_predict(net, data, *whole, CLASSES), LS_OK);
    ls_interrupt(s);
    assert_int_equal(ls_module_predict(net, data, *logits, CLASSES), LS_INTERRUPTED);
    assert_true(isnan(logits[0][0]) && isnan(logits[ROWS - 1][CLASSES - 1]));
    assert_true(ls_catch(s, LS_INTERRUPTED));
    ls_interrupt(s);
    assert_int_equal(ls_read(ls_module_infer(net, batch.X), *logits, ls_rows(batch.X) * CLASSES), LS_INTERRUPTED);
    assert_true(ls_catch(s, LS_INTERRUPTED));
    assert_int_equal(ls_module_evaluate(net, data, &metrics), LS_OK);
    assert_true(metrics.loss == want.loss && metrics.correct == want.correct);
    assert_int_equal(ls_module_predict(net, data, *logits, CLASSES), LS_OK);
    assert_memory_equal(logits, whole, sizeof whole);
    assert_int_equal(ls_close(s), LS_OK);
}

/* Of numbers so close together that what is added to the variance counts, as the header says it: 1e-5; with and without
 * the images' own statistics. */
static void a_norm_is_the_headers_formula(void **state)
{
    (void)state;
    enum { IMAGES = 6, MAPS = 2, PLACES = 2, ALL = IMAGES * MAPS * PLACES };
    static const float weight[MAPS] = {2, -0.5f}, bias[MAPS] = {0.25f, 3}, mean[MAPS] = {0.125f, 0},
                       variance[MAPS] = {0, 4e-5f};
    float x[ALL], y[2][ALL];
    for (int i = 0; i < ALL; i++)
        x[i] = 0.002f * (float)(i * 7 % 11);
    ls_session *s = ls_open(NULL);
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_batch_norm(s)));
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL);
    ls_tensor *X = ls_values(s, x, LS_SHAPE(IMAGES, MAPS, 1, PLACES));
    ls_module_infer(net, X); /* tells the shapes */
    ls_module_write_parameter(net, "0.weight", weight, MAPS);
    ls_module_write_parameter(net, "0.bias", bias, MAPS);
    ls_module_write_parameter(net, "0.running_mean", mean, MAPS);
    ls_module_write_parameter(net, "0.running_var", variance, MAPS);
    ls_read(ls_module_forward(net, X), y[0], ALL);
    ls_read(ls_module_infer(net, X), y[1], ALL);
    assert_string_equal(ls_message(s), "");
    for (int c = 0; c < MAPS; c++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < IMAGES * PLACES; i++)
            sum += x[i / PLACES * MAPS * PLACES + c * PLACES + i % PLACES];
        const double own = sum / (IMAGES * PLACES);
        for (int i = 0; i < IMAGES * PLACES; i++) {
            const double off = x[i / PLACES * MAPS * PLACES + c * PLACES + i % PLACES] - own;
            squares += off * off;
        }
        for (int i = 0; i < IMAGES * PLACES; i++)
            for (int inferred = 0; inferred < 2; inferred++) {
                const int at = i / PLACES * MAPS * PLACES + c * PLACES + i % PLACES;
                const double from = inferred ? mean[c] : own,
                             spread = inferred ? variance[c] : squares / (IMAGES * PLACES),
                             wanted = weight[c] * (x[at] - from) / sqrt(spread + 1e-5) + bias[c];
                assert_true(fabs(y[inferred][at] - wanted) < 2e-6 * (1 + fabs(wanted)));
            }
    }
    assert_int_equal(ls_close(s), LS_OK);
}

static void a_norm_of_one_value_is_refused(void **state)
{
    (void)state;
    enum { DOTS = 65 };
    static const uint8_t dots[DOTS] = {1, 2, 3}, zeros[DOTS];
    static const struct {
        int shard, batch, refused; /* 0: none is */
    } cuts[] = {{1, 64, 64}, {64, 64, 1}, {4, 5, 5}, {4, 6, 5}, {64, 70, DOTS}, {4, 63, 0}};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        char words[160];
        ls_session *s = ls_open(&(ls_options){.shard = cuts[i].shard});
        ls_data *data = ls_data_from_memory(s, dots, zeros, DOTS, 1, 1, 1, 2, &(ls_loader){.batch = cuts[i].batch});
        ls_module *net = ls_sequential(s, NULL);
        ls_module_append(net, "first", ls_nn_conv2d(s, 4, 1, NULL));
        ls_module_append(net, "norm", ls_nn_batch_norm(s));
        ls_module_append(net, "flat", ls_nn_fn(s, ls_flatten));
        ls_module_append(net, "last", ls_nn_linear(s, 2));
        ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data});
        ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
        snprintf(words, sizeof words,
                 "ls_trainer_check_batches: a batch of %d in shards of %d leaves a shard of one image, and BatchNorm "
                 "norm would see",
                 cuts[i].refused, cuts[i].shard);
        assert_int_equal(ls_trainer_check_batches(trainer, data), cuts[i].refused ? LS_BAD_SHAPE : LS_OK);
        assert_true(!cuts[i].refused || strncmp(ls_message(s), words, strlen(words)) == 0);
        ls_close(s);
    }
}

/* Each parameter has a slope, but for a bias in front of a norm, which has none at all. */
static void the_gradient_is_the_losses_slope(void **state)
{
    (void)state;
    ls_session *s = ls_open(&(ls_options){.shard = 6});
    ls_data *data =
        ls_data_from_memory(s, images, labels, ROWS, CHANNELS, SIZE, SIZE, CLASSES, &(ls_loader){.batch = 20});
    ls_module *net = small_network(s);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0-1"), &(ls_init){.kind = LS_HE, .like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    ls_batch batch;
    ls_data_next(data, &batch);
    assert_non_null(trainer);
    int sloping = 0, flat = 0;
    for (int k = 0; k < ls_module_parameter_count(net); k++) {
        ls_parameter_info info;
        ls_module_parameter_at(net, k, &info);
        if (!info.trainable)
            continue;
        const bool in_front = strcmp(info.name, "0.bias") == 0 || strcmp(info.name, "block.conv.bias") == 0;
        float *g = calloc((size_t)info.numbers, sizeof *g), *w = calloc((size_t)info.numbers, sizeof *w);
        float *moved = calloc((size_t)info.numbers, sizeof *moved);
        ls_backward(test_losses(net, &batch));
        assert_int_equal(test_read_gradient(net, info.name, g, info.numbers), LS_OK);
        ls_clear_grad(ls_module_param(net, info.name, ls_host()));
        ls_module_read_parameter(net, info.name, w, info.numbers);
        double square = 0, loss[2];
        for (int64_t i = 0; i < info.numbers; i++)
            square += (double)g[i] * g[i];
        double step = square > 0 ? 2e-3 / sqrt(square) : 1;
        for (int side = 0; side < 2; side++) { /* along the gradient itself, so that sign and factor both show */
            for (int64_t i = 0; i < info.numbers; i++)
                moved[i] = w[i] + (float)((side ? -step : step) * g[i]);
            ls_module_write_parameter(net, info.name, moved, info.numbers);
            loss[side] = ls_item(ls_sum(test_losses(net, &batch)));
        }
        ls_module_write_parameter(net, info.name, w, info.numbers);
        double slope = (loss[0] - loss[1]) / (2 * step);
        if (in_front ? square != 0 : !(square > 1e-6 && fabs(slope - square) <= 0.01 * square))
            fail_msg("%s: slope %.6g, gradient's square %.6g", info.name, slope, square);
        in_front ? flat++ : sloping++;
        free(g);
        free(w);
        free(moved);
    }
    assert_true(sloping == 10 && flat == 2);
    assert_int_equal(ls_close(s), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_on_any_devices),
        cmocka_unit_test(same_bits_in_any_pull_order),
        cmocka_unit_test(same_bits_of_images_that_are_numbers),
        cmocka_unit_test(same_bits_however_one_waits),
        cmocka_unit_test(same_bits_with_any_instructions),
        cmocka_unit_test(same_bits_when_folding),
        cmocka_unit_test(same_bits_when_helping),
        cmocka_unit_test(a_bias_in_front_of_a_norm_stays_zero),
        cmocka_unit_test(one_bit_changes_the_fingerprint),
        cmocka_unit_test(a_name_changes_the_fingerprint),
        cmocka_unit_test(bits_of_losses_and_norms_are_frozen),
        cmocka_unit_test(nothing_is_allocated_while_running),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(an_overflow_is_named_and_keeps_the_weights),
        cmocka_unit_test(what_is_inferred_is_finite),
        cmocka_unit_test(an_inference_may_be_interrupted),
        cmocka_unit_test(a_norm_is_the_headers_formula),
        cmocka_unit_test(a_norm_of_one_value_is_refused),
        cmocka_unit_test(the_gradient_is_the_losses_slope),
    };
    return cmocka_run_group_tests(tests, make_images, NULL);
}
