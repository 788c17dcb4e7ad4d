/* Networks called on tensors: training and inference on the devices' own parts, parameters as tensors, losses. */
#include "tensors.h"

#include <math.h>
#include <stdio.h>
#include <lockstep_data.h>
#include <lockstep_weights.h>

#include "training.h"

enum { BATCH = 64, SHARD = 16, ROWS = 2 * BATCH, SIZE = 28, CLASSES = 10, WHOLE_LENET = 8 };

static uint8_t pixels[ROWS * SIZE * SIZE], classes_of[ROWS];

static int make_images(void **state)
{
    (void)state;
    test_make_images(pixels, sizeof pixels, classes_of, sizeof classes_of, CLASSES);
    return 0;
}

typedef struct setup {
    ls_session *s;
    ls_data *data;
    ls_module *net;
    ls_trainer *trainer;
    ls_devices devices;
    ls_batch b;
} setup;

static setup open_setup(int devices, int batch, const ls_allocator *allocator)
{
    setup t = {.s = ls_open(&(ls_options){.seed = 7, .shard = SHARD, .allocator = allocator})};
    t.data = ls_data_from_memory(t.s, pixels, classes_of, ROWS, 1, SIZE, SIZE, CLASSES, &(ls_loader){.batch = batch});
    t.net = ls_lenet(t.s);
    t.devices = test_cpus(devices);
    ls_module_initialize(t.net, t.devices, &(ls_init){.kind = LS_XAVIER, .like = t.data});
    t.trainer = ls_trainer_new(t.net, LS_SGD, &(ls_optim){.lr = 0.1});
    ls_data_next(t.data, &t.b);
    return t;
}

static const char *name_of(ls_module *net, int i)
{
    ls_parameter_info info = {.name = ""};
    assert_int_equal(ls_module_parameter_at(net, i, &info), LS_OK);
    return info.name;
}

/* ---- From scratch and concise ---- */

static ls_tensor *lenet(ls_tensor *X, void *replica)
{
    ls_tensor **p = replica;
    const ls_pool halve = {.kernel = 2};
    ls_tensor *h1 = ls_avg_pool2d(ls_relu(ls_conv2d(X, p[0], p[1], NULL)), &halve);
    ls_tensor *h2 = ls_flatten(ls_avg_pool2d(ls_relu(ls_conv2d(h1, p[2], p[3], NULL)), &halve));
    return ls_add(ls_matmul(ls_relu(ls_add(ls_matmul(h2, p[4]), p[5])), p[6]), p[7]);
}

static void step_by_hand(ls_batch b, ls_tensor *replicas[][WHOLE_LENET], ls_devices devices)
{
    ls_tensor *X[16], *y[16], *loss[16];
    ls_scatter(b.X, devices, X);
    ls_scatter(b.y, devices, y);
    for (int d = 0; d < devices.n; d++)
        loss[d] = ls_sum(ls_cross_entropy(lenet(X[d], replicas[d]), y[d]));
    for (int d = 0; d < devices.n; d++)
        ls_backward(loss[d]);
    for (int i = 0; i < WHOLE_LENET; i++) {
        for (int gap = 1; gap < devices.n; gap *= 2)
            for (int d = 0; d + gap < devices.n; d += 2 * gap)
                ls_add_to(ls_grad(replicas[d][i]), ls_to(ls_grad(replicas[d + gap][i]), devices.at[d]));
        for (int d = 1; d < devices.n; d++)
            ls_assign(ls_grad(replicas[d][i]), ls_grad(replicas[0][i]));
    }
    for (int d = 0; d < devices.n; d++)
        ls_sgd_step(replicas[d], WHOLE_LENET, 0.1, ls_rows(b.X));
}

static void from_scratch_and_concise_agree(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++) {
        setup t = open_setup(n, BATCH, NULL);
        assert_int_equal(ls_module_parameter_count(t.net), WHOLE_LENET);
        ls_tensor *replicas[4][WHOLE_LENET];
        for (int d = 0; d < n; d++)
            for (int i = 0; i < WHOLE_LENET; i++)
                replicas[d][i] = ls_keep(
                    ls_track(ls_clone(ls_module_param(t.net, name_of(t.net, i), t.devices.at[d]), t.devices.at[d])));
        ls_data_seek(t.data, 0, 0);
        for (ls_batch b; ls_data_next(t.data, &b);) {
            assert_int_equal(test_step(t.net, t.trainer, &b), LS_OK);
            step_by_hand(b, replicas, t.devices);
            for (int i = 0; i < WHOLE_LENET; i++) {
                ls_tensor *concise = ls_module_param(t.net, name_of(t.net, i), ls_host());
                for (int d = 1; d < n; d++)
                    assert_same_bits(replicas[d][i], replicas[0][i]);
                if (n == 3) /* parts are no whole runs of shards */
                    assert_true(test_difference(replicas[0][i], concise) < 1e-4);
                else
                    assert_same_bits(replicas[0][i], concise);
            }
        }
        assert_int_equal(ls_close(t.s), LS_OK);
    }
}

/* ---- Training ---- */

typedef enum manner { WHOLE, WAITING, READ_BEFORE, READ_AFTER, PARTS, HALVES, QUARTERS } manner;

static void train(setup *t, manner how)
{
    ls_tensor *X[16], *y[16];
    ls_data_seek(t->data, 0, 0);
    for (ls_batch b, next; ls_data_next(t->data, &b);) {
        if (how == PARTS) {
            ls_scatter(b.X, t->devices, X);
            ls_scatter(b.y, t->devices, y);
            for (int d = 0; d < t->devices.n; d++)
                ls_backward(ls_sum(ls_cross_entropy(ls_module_forward(t->net, X[d]), y[d])));
        } else if (how == HALVES) {
            ls_tensor *first = ls_keep(b.X), *labels = ls_keep(b.y);
            ls_backward(ls_cross_entropy(ls_module_forward(t->net, first), labels));
            assert_true(ls_data_next(t->data, &next));
            ls_backward(test_losses(t->net, &next));
        } else if (how == QUARTERS) { /* nothing of a batch is kept when the next one comes */
            ls_backward(test_losses(t->net, &b));
            for (int i = 1; i < 4 && ls_data_next(t->data, &next); i++)
                ls_backward(test_losses(t->net, &next));
        } else {
            ls_tensor *loss = ls_mean(test_losses(t->net, &b));
            ls_tensor *sum = ls_sum(test_losses(t->net, &b));
            double before = how == READ_BEFORE ? ls_item(sum) : 0;
            ls_backward(sum);
            if (how == READ_BEFORE)
                assert_true(fabs(ls_item(loss) * (double)ls_rows(b.X) - before) < 1e-3);
            ls_trainer_step(t->trainer);
            if (how == READ_BEFORE || how == READ_AFTER)
                assert_true(ls_item(sum) > 0 && (how == READ_AFTER || ls_item(sum) == before));
            if (how == WAITING)
                ls_wait(t->s);
            continue;
        }
        ls_trainer_step(t->trainer);
    }
    ls_wait(t->s);
}

static void the_same_bits_in_any_manner(void **state)
{
    (void)state;
    char one[65], other[65];
    setup t = open_setup(1, BATCH, NULL);
    train(&t, WHOLE);
    assert_int_equal(ls_module_fingerprint(t.net, one), LS_OK);
    assert_int_equal(ls_close(t.s), LS_OK);
    for (manner how = WHOLE; how <= QUARTERS; how++)
        for (int n = 1; n <= 16; n *= how >= HALVES ? 16 : 4) {
            if (how == PARTS && n == 16) /* four images a part: no whole shards */
                continue;
            t = open_setup(n, how == HALVES ? BATCH / 2 : how == QUARTERS ? BATCH / 4 : BATCH, NULL);
            train(&t, how);
            assert_int_equal(ls_module_fingerprint(t.net, other), LS_OK);
            assert_string_equal(one, other);
            assert_int_equal(ls_close(t.s), LS_OK);
        }
}

/* What is read before a step shows the numbers that the step will drop, whoever computes it. */
static void dropout_before_a_step(void **state)
{
    (void)state;
    setup t = open_setup(2, BATCH, NULL);
    ls_module *net = ls_sequential(t.s, NULL);
    ls_module_append(net, NULL, ls_nn_dropout(t.s, 0.5));
    ls_module_append(net, NULL, ls_nn_fn(t.s, ls_flatten));
    ls_module_append(net, NULL, ls_nn_linear(t.s, CLASSES));
    ls_module_initialize(net, t.devices, &(ls_init){.kind = LS_XAVIER, .like = t.data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    for (int i = 0; i < 3; i++) {
        ls_tensor *X[2], *y[2];
        ls_scatter(t.b.X, t.devices, X);
        ls_scatter(t.b.y, t.devices, y);
        double parts = 0;
        for (int d = 0; d < 2; d++)
            parts += ls_item(ls_sum(ls_cross_entropy(ls_module_forward(net, X[d]), y[d])));
        double before = ls_item(ls_sum(test_losses(net, &t.b)));
        ls_tensor *loss = ls_sum(test_losses(net, &t.b));
        assert_int_equal(ls_backward(loss), LS_OK);
        assert_int_equal(ls_trainer_step(trainer), LS_OK);
        assert_true(ls_item(loss) == before && fabs(parts - before) < 1e-3);
    }
    assert_int_equal(ls_close(t.s), LS_OK);
}

static void losses_for_each_image(void **state)
{
    (void)state;
    setup t = open_setup(2, BATCH, NULL);
    ls_tensor *each = test_losses(t.net, &t.b), *never = test_losses(t.net, &t.b);
    float *before = test_read(each);
    assert_int_equal(ls_backward(each), LS_OK);
    assert_int_equal(ls_backward(never), LS_OK);
    assert_int_equal(ls_trainer_step(t.trainer), LS_OK);
    assert_values(each, before);
    free(before);
    ls_item(ls_sum(never));
    assert_caught(t.s, LS_STALE,
                  "the network was updated after this call of it was recorded; read the result before ls_trainer_step");
    ls_backward(never);
    assert_caught(t.s, LS_STALE,
                  "the network was updated after this call of it was recorded; read the result before ls_trainer_step");
    assert_int_equal(ls_close(t.s), LS_OK);
}

static void gradients(void **state)
{
    (void)state;
    setup t = open_setup(2, BATCH, NULL);
    const char *name = name_of(t.net, 0);
    ls_tensor *w = ls_module_param(t.net, name, ls_cpu(1)), *g = ls_grad(w);
    assert_string_equal(ls_str(g), "empty on cpu(1)");
    ls_trainer_step(t.trainer);
    assert_caught(t.s, LS_STALE,
                  "ls_trainer_step: there is no fresh gradient; call ls_backward on a loss of this network first");
    ls_backward(ls_mean(test_losses(t.net, &t.b)));
    assert_caught(t.s, LS_BAD_ARGUMENT,
                  "ls_backward: of a network's losses take the sum, or the losses as they are: ls_trainer_step divides "
                  "by the number of images, and a mean would be divided twice");
    ls_backward(test_losses(t.net, &t.b));
    ls_tensor *once = ls_clone(g, ls_host());
    ls_backward(test_losses(t.net, &t.b));
    assert_true(test_difference(ls_scale(once, 2), ls_to(g, ls_host())) < 1e-5);
    float *values = test_read(w);
    ls_module_write_parameter(t.net, name, values, test_numbers_of(w));
    assert_caught(t.s, LS_STALE,
                  "ls_module_write_parameter: the network has gradients that no update has used; call ls_trainer_step "
                  "or ls_clear_grad first");
    assert_int_equal(ls_clear_grad(w), LS_OK);
    assert_int_equal(ls_module_write_parameter(t.net, name, values, test_numbers_of(w)), LS_OK);
    free(values);
    ls_backward(test_losses(t.net, &t.b));
    assert_same_bits(g, once);
    ls_backward(ls_sum(ls_cross_entropy(ls_module_infer(t.net, t.b.X), t.b.y)));
    assert_caught(t.s, LS_BAD_ARGUMENT,
                  "ls_backward: nothing that trains or is tracked leads to this loss; call the network by "
                  "ls_module_forward, or track what it is called on");
    ls_backward_from(ls_relu(ls_module_forward(t.net, t.b.X)), ls_zeros(t.s, LS_SHAPE(BATCH, CLASSES)));
    assert_caught(t.s, LS_UNSUPPORTED,
                  "ls_backward_from: a network's backward pass starts from a loss; use ls_backward");
    assert_int_equal(ls_trainer_step(t.trainer), LS_OK); /* the one before is pending still */
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* Arrays that a step reads: written before it starts, and not changed under it. */
static void steps_and_copies_keep_their_order(void **state)
{
    (void)state;
    char digits[2][65];
    for (int round = 0; round < 2; round++) {
        setup t = open_setup(2, BATCH, NULL);
        ls_tensor *X = ls_uniform(t.s, "X", LS_SHAPE(BATCH, 1, SIZE, SIZE)), *part[2], *y[2], *loss[2];
        for (int step = 0; step < 4; step++) {
            ls_scatter(X, t.devices, part);
            ls_scatter(ls_clone(t.b.y, ls_host()), t.devices, y);
            for (int d = 0; d < 2; d++)
                ls_backward(loss[d] = ls_sum(ls_cross_entropy(ls_module_forward(t.net, part[d]), y[d])));
            assert_int_equal(ls_trainer_step(t.trainer), LS_OK);
            ls_tensor *copy = ls_clone(loss[1], ls_cpu(0));
            if (round)
                ls_wait(t.s);
            ls_assign(part[0], ls_to(ls_zeros(t.s, LS_SHAPE(BATCH / 2, 1, SIZE, SIZE)), ls_cpu(0)));
            assert_true(ls_item(copy) == ls_item(loss[1]));
        }
        ls_module_fingerprint(t.net, digits[round]);
        ls_backward(ls_sum(ls_cross_entropy(ls_module_forward(t.net, part[1]), y[1])));
        ls_assign(part[1], part[0]);
        ls_trainer_step(t.trainer);
        assert_caught(t.s, LS_STALE,
                      "ls_trainer_step: what a backward pass reads was changed after ls_backward; call ls_clear_grad, "
                      "and change it after ls_trainer_step");
        assert_int_equal(ls_close(t.s), LS_OK);
    }
    assert_string_equal(digits[0], digits[1]);
}

/* The gradient that was only looked at was not finite: what is pending is freed once. */
static void a_gradient_that_is_not_finite(void **state)
{
    (void)state;
    setup t = open_setup(1, BATCH, NULL);
    float bad[CLASSES] = {NAN};
    const char *bias = name_of(t.net, WHOLE_LENET - 1);
    assert_int_equal(ls_module_write_parameter(t.net, bias, bad, CLASSES), LS_OK);
    ls_backward(test_losses(t.net, &t.b));
    assert_int_equal(test_read_gradient(t.net, bias, bad, CLASSES), LS_NOT_FINITE);
    assert_int_equal(ls_close(t.s), LS_NOT_FINITE);
}

/* ---- Inference and parameters ---- */

static void inference_on_parts(void **state)
{
    (void)state;
    for (int n = 2; n <= 16; n *= 2) {
        setup t = open_setup(n, BATCH, NULL);
        ls_tensor *x = ls_uniform(t.s, "x", LS_SHAPE(4, 1, SIZE, SIZE)), *X[16], *Y[16];
        ls_tensor *whole = ls_module_infer(t.net, x);
        assert_int_equal(ls_device_of(whole).type, LS_HOST);
        assert_int_equal(ls_scatter(x, t.devices, X), LS_OK);
        for (int d = 0; d < n; d++) {
            Y[d] = ls_module_infer(t.net, X[d]);
            assert_int_equal(ls_device_of(Y[d]).index, d);
            assert_int_equal(ls_rows(Y[d]), ls_rows(X[d]));
            assert_int_equal(ls_dim(Y[d], 1), CLASSES);
        }
        assert_same_bits(ls_gather(Y, n, ls_host()), whole);
        for (int d = 1; d < n; d++)
            assert_same_bits(ls_module_param(t.net, name_of(t.net, 0), ls_cpu(d)),
                             ls_module_param(t.net, name_of(t.net, 0), ls_cpu(0)));
        assert_int_equal(ls_close(t.s), LS_OK);
    }
}

static void what_is_not_there_is_named(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *net = ls_lenet(s);
    ls_tensor *x = ls_uniform(s, "x", LS_SHAPE(4, 1, SIZE, SIZE));
    assert_null(ls_module_infer(net, x));
    assert_caught(s, LS_NOT_INITIALIZED,
                  "ls_module_infer: the network has no values yet; call ls_module_initialize first");
    assert_null(ls_module_param(net, "W1", ls_cpu(0)));
    assert_caught(s, LS_NOT_INITIALIZED,
                  "ls_module_param: the network has no values yet; call ls_module_initialize first");
    assert_int_equal(ls_module_initialize(net, test_cpus(2), NULL), LS_OK);
    ls_module_initialize(net, test_cpus(2), NULL);
    assert_caught(s, LS_BAD_ARGUMENT,
                  "ls_module_initialize: the network has values already; set init.force to draw them again");
    ls_module_param(net, "W1", ls_cpu(0));
    assert_caught(s, LS_SHAPE_UNKNOWN,
                  "ls_module_param: the shapes of the network's parameters are not known before its first images; call "
                  "the network once, or set init.shape or init.like");
    assert_int_equal(ls_module_parameter_count(net), 0);
    assert_true(ls_catch(s, LS_SHAPE_UNKNOWN));
    ls_module_forward(net, ls_zeros(s, LS_SHAPE(4)));
    assert_caught(s, LS_BAD_SHAPE,
                  "ls_module_forward: an input must be (images, features), (images, tokens, features) or (images, "
                  "channels, height, "
                  "width); a number for each image is (images, 1); x is (4)");
    ls_module_infer(net, ls_to(x, ls_cpu(7)));
    assert_caught(s, LS_NOT_INITIALIZED,
                  "ls_module_infer: the network was not initialized on cpu(7), only on [cpu(0), cpu(1)]");
    ls_module_infer(net, ls_zeros(s, LS_SHAPE(2, 3, 4, 4))); /* before any good one: nothing of it may stay */
    assert_caught(s, LS_BAD_SHAPE, "images of 4 x 4 are too small for lenet, which takes 14 x 14 and larger");
    ls_tensor *y = ls_module_infer(net, x);
    assert_int_equal(ls_rows(y), 4);
    const char *name = name_of(net, 0);
    ls_module_param(net, name, ls_cpu(7));
    assert_caught(s, LS_NOT_INITIALIZED,
                  "ls_module_param: parameter W1 was not initialized on cpu(7), only on [cpu(0), cpu(1)]");
    ls_module_param(net, "nobody", ls_cpu(0));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_module_param: there is no parameter \"nobody\"");
    ls_module_param(net, NULL, ls_host());
    assert_caught(s, LS_BAD_ARGUMENT, "ls_module_param: there is no parameter \"(null)\"");
    ls_module_infer(net, ls_zeros(s, LS_SHAPE(2, 3, SIZE, SIZE)));
    assert_caught(s, LS_BAD_SHAPE,
                  "ls_module_infer: images are (images, 3, 28, 28), the network takes (images, 1, 28, 28)");
    assert_true(isfinite(ls_item(ls_sum(y))));
    assert_null(ls_module_infer(net, NULL));
    assert_null(ls_module_forward(NULL, x));
    assert_int_equal(ls_close(s), LS_OK);
}

static ls_tensor *stolen;

static ls_tensor *steal(ls_module *self, ls_tensor *x)
{
    stolen = ls_module_parameter(self, "bias", LS_SHAPE(CLASSES));
    return ls_add(ls_module_call(self, "output", ls_flatten(x)), stolen);
}

/* A computation takes no tensor of another one's forward. */
static void misuse_is_told_as_what_it_is(void **state)
{
    (void)state;
    setup t = open_setup(1, BATCH, NULL);
    ls_tensor *x = ls_uniform(t.s, "x", LS_SHAPE(4, 1, SIZE, SIZE));
    ls_module *thief = ls_block(t.s, steal, NULL);
    ls_module_append(thief, "output", ls_nn_linear(t.s, CLASSES));
    ls_module_initialize(thief, t.devices, NULL);
    assert_true(isfinite(ls_item(ls_sum(ls_module_infer(thief, x)))));
    ls_item(ls_sum(ls_add(ls_module_infer(t.net, x), stolen)));
    assert_caught(t.s, LS_UNSUPPORTED,
                  "this computation cannot be run: it was recorded in a module's forward, which has no values");
    assert_int_equal(ls_close(t.s), LS_OK);
}

static ls_status infer_shortly(const ls_allocator *allocator)
{
    setup t = open_setup(2, BATCH, allocator);
    ls_tensor *X[2] = {NULL};
    ls_scatter(ls_uniform(t.s, "x", LS_SHAPE(3, 1, SIZE, SIZE)), t.devices, X);
    ls_str(ls_module_infer(t.net, X[0]));
    ls_item(ls_sum(ls_cross_entropy(ls_module_infer(t.net, t.b.X), t.b.y)));
    ls_str(ls_module_param(t.net, "W1", ls_cpu(1)));
    return ls_close(t.s);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(infer_shortly);
}

/* A failure that is taken back must not take the step along that was handed in before it. */
static void a_caught_failure_loses_no_step(void **state)
{
    (void)state;
    setup t = open_setup(1, BATCH, NULL);
    for (int round = 0; round < 10; round++) {
        assert_int_equal(test_step(t.net, t.trainer, &t.b), LS_OK);
        ls_module_param(t.net, "nobody", ls_cpu(0));
        assert_true(ls_catch(t.s, LS_BAD_ARGUMENT));
    }
    assert_int_equal(ls_wait(t.s), LS_OK);
    ls_report report;
    int reports = 0;
    while (ls_trainer_next_report(t.trainer, &report))
        reports++;
    assert_int_equal(reports, 10);
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* ---- Whole data sets, tables and files ---- */

static void predictions_and_accuracy(void **state)
{
    (void)state;
    setup t = open_setup(3, BATCH, NULL);
    float *logits = calloc((size_t)ROWS * CLASSES, sizeof *logits);
    assert_int_equal(ls_module_predict(t.net, t.data, logits, CLASSES), LS_OK);
    double right = 0;
    for (int i = 0; i < ROWS; i++) {
        const float *row = logits + (size_t)i * CLASSES;
        int best = 0;
        for (int k = 1; k < CLASSES; k++)
            best = row[k] > row[best] ? k : best;
        right += best == classes_of[i];
    }
    assert_true(ls_module_accuracy(t.net, t.data) == right / ROWS);
    ls_module_predict(t.net, t.data, logits, 3);
    assert_caught(t.s, LS_BAD_SHAPE, "ls_module_predict: the network has 10 classes, the caller's rows 3");
    ls_module_predict(t.net, t.data, NULL, CLASSES);
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_module_predict: an argument is NULL");
    assert_true(isnan(ls_module_accuracy(t.net, NULL)));
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_module_accuracy: an argument is NULL");
    ls_module *bare = ls_lenet(t.s);
    ls_module_accuracy(bare, t.data);
    assert_caught(t.s, LS_NOT_INITIALIZED, "ls_module_accuracy: the network has no values yet");
    ls_module_predict(bare, t.data, logits, CLASSES);
    assert_caught(t.s, LS_NOT_INITIALIZED, "ls_module_predict: the network has no values yet");
    free(logits);
    assert_int_equal(ls_close(t.s), LS_OK);
}

static void fill(const ls_parameter_info *info, float *values, void *user)
{
    for (int64_t i = 0; i < info->numbers; i++)
        values[i] = 0.5F;
    *(int64_t *)user += info->numbers;
}

static void tables(void **state)
{
    (void)state;
    setup t = open_setup(1, BATCH, NULL);
    assert_non_null(strstr(ls_module_summary(t.net), "129068 trainable numbers"));
    int64_t numbers = 0;
    assert_int_equal(ls_module_apply(t.net, fill, &numbers), LS_OK);
    assert_int_equal(numbers, 129068);
    assert_string_equal(ls_str(ls_row(ls_module_param(t.net, "b2", ls_cpu(0)), 49)), "0.5 on cpu(0)");
    ls_module_apply(t.net, NULL, NULL);
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_module_apply: fn is NULL");
    int user;
    ls_module *block = ls_block(t.s, NULL, &user);
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_block: forward is NULL");
    assert_null(ls_module_user(block));
    ls_module *net = ls_sequential(t.s, LS_LIST(ls_nn_fn(t.s, ls_relu)));
    assert_non_null(ls_module_child(net, "0"));
    assert_null(ls_module_child(net, "1"));
    assert_null(ls_module_child(net, NULL));
    ls_tensor *x = ls_arange(t.s, 0, LS_SHAPE(1, 1, 2, 2));
    assert_true(ls_item(ls_sum(ls_max_pool2d(x, &(ls_pool){.kernel = 2}))) == 3);
    ls_max_pool2d(x, NULL);
    assert_caught(t.s, LS_BAD_SHAPE,
                  "ls_max_pool2d: kernel must be at least 1, padding at most half of it; x is (1, 1, 2, 2)");
    assert_int_equal(ls_close(t.s), LS_OK);
}

static void devices_fall_back(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    const bool alone = ls_device_count(s, LS_CUDA) == 0; /* test_gpu_explicit has the others */
    assert_true(!alone || strcmp(ls_device_str(s, ls_try_gpu(s, 1)), "cpu(1)") == 0);
    assert_string_equal(ls_device_str(s, ls_gpu(1)), "gpu(1)");
    assert_string_equal(ls_device_str(s, ls_host()), "the host");
    assert_true(!alone || strcmp(ls_devices_str(s, ls_try_all_gpus(s)), "[cpu(0)]") == 0);
    ls_try_gpu(s, -1);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_try_gpu: there is no device -1");
    assert_int_equal(ls_try_devices(s, 0).n, 0);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_try_devices: 0 devices; 1 to 256 are possible");
    ls_timer timer = {0};
    assert_true(ls_timer_avg(&timer) == 0);
    ls_timer_start(&timer);
    ls_timer_stop(&timer);
    assert_true(timer.laps == 1 && ls_timer_avg(&timer) >= 0);
    char text[65];
    float number = 1;
    assert_int_not_equal(ls_file_model(s, NULL, text, sizeof text), LS_OK);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_file_model: path or name is NULL");
    assert_int_not_equal(ls_file_fingerprint(s, NULL, text), LS_OK);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_file_fingerprint: path or digits is NULL");
    assert_int_equal(ls_save_npy(s, "/nowhere/at/all.npy", &number, 1, 1), LS_IO);
    assert_true(ls_catch(s, LS_IO));
    assert_int_not_equal(ls_data_fetch(NULL, NULL, NULL, NULL, NULL), LS_OK);
    assert_int_equal(ls_close(s), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_scratch_and_concise_agree),
        cmocka_unit_test(the_same_bits_in_any_manner),
        cmocka_unit_test(dropout_before_a_step),
        cmocka_unit_test(losses_for_each_image),
        cmocka_unit_test(gradients),
        cmocka_unit_test(steps_and_copies_keep_their_order),
        cmocka_unit_test(a_gradient_that_is_not_finite),
        cmocka_unit_test(inference_on_parts),
        cmocka_unit_test(what_is_not_there_is_named),
        cmocka_unit_test(misuse_is_told_as_what_it_is),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_caught_failure_loses_no_step),
        cmocka_unit_test(predictions_and_accuracy),
        cmocka_unit_test(tables),
        cmocka_unit_test(devices_fall_back),
    };
    return cmocka_run_group_tests(tests, make_images, NULL);
}
