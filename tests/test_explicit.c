/* Explicit parameters: tracked tensors, their gradients and updates, a replica of them on each device. */
#include "explicit_network.h"
#include "tensors.h"

#include <lockstep_data.h>
#include <math.h>
#include <stdio.h>

#include "training.h"

enum { BATCH = 32, SHARD = 4, ROWS = 3 * BATCH, SIZE = 6, MAPS = 2, POOLED = 4 };

static uint8_t pixels[ROWS * SIZE * SIZE], classes_of[ROWS];

static int make_images(void **state)
{
    (void)state;
    test_make_images(pixels, sizeof pixels, classes_of, sizeof classes_of, CLASSES);
    return 0;
}

/* ---- The book's loop ---- */

typedef enum waiting { NEVER, EACH_EPOCH, EACH_BATCH, READ_LOSSES } waiting;

static void train_batch(ls_batch b, params replicas[], ls_devices devices, waiting wait)
{
    ls_tensor *X[16], *y[16], *loss[16] = {NULL}, *g[16];
    ls_scatter(b.X, devices, X);
    ls_scatter(b.y, devices, y);
    for (int d = 0; d < devices.n; d++)
        loss[d] = loss_of(X[d], y[d], &replicas[d]);
    if (wait == READ_LOSSES)
        ls_item(loss[0]);
    for (int d = 0; d < devices.n; d++)
        ls_backward(loss[d]);
    for (int i = 0; i < N; i++) {
        for (int d = 0; d < devices.n; d++)
            g[d] = ls_grad(replicas[d].at[i]);
        allreduce(g, devices.n);
    }
    for (int d = 0; d < devices.n; d++)
        ls_sgd_step(replicas[d].at, N, 0.5, ls_rows(b.X));
    if (wait == READ_LOSSES)
        ls_item(loss[devices.n - 1]);
    if (wait == EACH_BATCH)
        ls_wait(ls_session_of(b.X));
}

/* Trains and leaves the parameters of the first replica in `result`; replicas must be equal after each step. */
static ls_status train(int n, waiting wait, int epochs, float *result, const ls_allocator *allocator)
{
    ls_session *s = ls_open(&(ls_options){.seed = 2, .shard = SHARD, .allocator = allocator});
    ls_data *data = ls_data_from_memory(s, pixels, classes_of, ROWS, 1, SIZE, SIZE, CLASSES,
                                        &(ls_loader){.batch = BATCH, .shuffle = true});
    ls_devices devices = test_cpus(n);
    params initial = draw(s, MAPS, POOLED), replicas[16];
    void *replica[16];
    for (int d = 0; d < devices.n; d++) {
        replicas[d] = replica_on(&initial, devices.at[d]);
        replica[d] = &replicas[d];
    }
    for (int epoch = 0; epoch < epochs && !ls_failed(s); epoch++) {
        for (ls_batch b; ls_data_next(data, &b);) {
            train_batch(b, replicas, devices, wait);
            for (int i = 0; i < N && wait == EACH_BATCH && !ls_failed(s); i++)
                for (int d = 1; d < n; d++)
                    assert_same_bits(replicas[d].at[i], replicas[0].at[i]);
        }
        if (wait == EACH_EPOCH)
            ls_wait(s);
    }
    ls_accuracy_fn(net, replica, data, devices);
    for (int i = 0; i < N && result && !ls_failed(s); i++) {
        assert_int_equal(ls_read(replicas[0].at[i], result, test_numbers_of(replicas[0].at[i])), LS_OK);
        result += test_numbers_of(replicas[0].at[i]);
    }
    return ls_close(s);
}

enum { NUMBERS = MAPS * 9 + MAPS + MAPS * POOLED * HIDDEN + HIDDEN + CLASSES * HIDDEN };

static void the_same_bits_on_aligned_devices(void **state)
{
    (void)state;
    float one[NUMBERS], other[NUMBERS];
    assert_int_equal(train(1, NEVER, 2, one, NULL), LS_OK);
    for (int n = 2; n <= 8; n *= 2) {
        assert_int_equal(train(n, EACH_BATCH, 2, other, NULL), LS_OK);
        assert_memory_equal(one, other, sizeof one);
    }
    assert_int_equal(train(3, EACH_BATCH, 2, other, NULL), LS_OK); /* not aligned: to rounding */
    for (int i = 0; i < NUMBERS; i++)
        assert_true(fabsf(one[i] - other[i]) < 1e-5F);
    assert_int_equal(train(16, EACH_BATCH, 1, other, NULL), LS_OK);
}

/* A pool of 2 x 2 leaves the last of 7 rows and columns out, and the convolution in front of it then does not compute
 * them; behind a scaling by 1 it does. */
static void what_no_pool_reads_changes_nothing(void **state)
{
    (void)state;
    ls_session *s = ls_open(&(ls_options){.seed = 2, .shard = SHARD, .conv = LS_CONV_DIRECT});
    ls_tensor *start[] = {ls_randn(s, "X", 1, LS_SHAPE(5, 2, 9, 9)), ls_randn(s, "W", 1, LS_SHAPE(MAPS, 2, 3, 3)),
                          ls_randn(s, "b", 1, LS_SHAPE(MAPS))};
    ls_tensor *operand[2][3], *pooled[2];
    for (int all = 0; all < 2; all++) {
        for (int i = 0; i < 3; i++)
            operand[all][i] = ls_track(ls_clone(start[i], ls_device_of(start[i])));
        ls_tensor *maps = ls_relu(ls_conv2d(operand[all][0], operand[all][1], operand[all][2], NULL));
        pooled[all] = ls_avg_pool2d(all ? ls_scale(maps, 1) : maps, &(ls_pool){.kernel = 2});
        ls_backward(ls_sum(ls_multiply(pooled[all], pooled[all])));
    }
    assert_same_bits(pooled[0], pooled[1]);
    for (int i = 0; i < 3; i++)
        assert_same_bits(ls_grad(operand[0][i]), ls_grad(operand[1][i]));
    assert_int_equal(ls_close(s), LS_OK);
}

static void the_same_bits_however_one_waits(void **state)
{
    (void)state;
    for (int n = 1; n <= 2; n++) {
        float never[NUMBERS], other[NUMBERS];
        assert_int_equal(train(n, NEVER, 2, never, NULL), LS_OK);
        for (waiting wait = EACH_EPOCH; wait <= READ_LOSSES; wait++) {
            assert_int_equal(train(n, wait, 2, other, NULL), LS_OK);
            assert_memory_equal(never, other, sizeof never);
        }
    }
}

static ls_status train_shortly(const ls_allocator *allocator)
{
    return train(2, NEVER, 1, NULL, allocator);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(train_shortly);
}

static void nothing_is_allocated_while_running(void **state)
{
    (void)state;
    counted c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    ls_session *s =
        ls_open(&(ls_options){.shard = SHARD, .allocator = &(ls_allocator){count_allocate, count_release, &c}});
    ls_data *data = ls_data_from_memory(s, pixels, classes_of, ROWS - 5, 1, SIZE, SIZE, CLASSES,
                                        &(ls_loader){.batch = BATCH, .shuffle = true});
    ls_devices devices = test_cpus(2);
    params initial = draw(s, MAPS, POOLED),
           replicas[2] = {replica_on(&initial, ls_cpu(0)), replica_on(&initial, ls_cpu(1))};
    long before = 0;
    for (int epoch = 0; epoch < 24;
         epoch++) { /* arrays and tasks go round: each must have played its largest part once */
        for (ls_batch b; ls_data_next(data, &b);)
            train_batch(b, replicas, devices, EACH_BATCH);
        before = epoch == 11 ? test_made(&c) : before;
    }
    assert_int_equal(ls_wait(s), LS_OK);
    assert_in_range(test_made(&c), before, before + 8); /* 36 steps; what is in flight is a matter of time */
    assert_int_equal(ls_close(s), LS_OK);
    assert_int_equal(c.alive, 0);
}

/* ---- Gradients ---- */

typedef struct setup {
    ls_session *s;
    ls_data *data;
    ls_batch b;
    params p;
} setup;

static setup open_setup(ls_device device)
{
    setup t = {.s = ls_open(&(ls_options){.seed = 2, .shard = SHARD})};
    t.data = ls_data_from_memory(t.s, pixels, classes_of, ROWS, 1, SIZE, SIZE, CLASSES, &(ls_loader){.batch = BATCH});
    params initial = draw(t.s, MAPS, POOLED);
    t.p = replica_on(&initial, device);
    assert_true(ls_data_next(t.data, &t.b));
    t.b.X = ls_to(t.b.X, device);
    t.b.y = ls_to(t.b.y, device);
    return t;
}

static void finite_differences(void **state)
{
    (void)state;
    setup t = open_setup(ls_cpu(1));
    ls_tensor *X = ls_track(ls_clone(t.b.X, ls_cpu(1))), *moved[N + 1];
    assert_int_equal(ls_backward(loss_of(X, t.b.y, &t.p)), LS_OK);
    memcpy(moved, t.p.at, sizeof t.p);
    moved[N] = X; /* an input that is tracked as well */
    for (int i = 0; i <= N; i++) {
        int64_t numbers = test_numbers_of(moved[i]);
        float *w = test_read(moved[i]), *g = test_read(ls_grad(moved[i])), *to = test_read(moved[i]);
        double square = 0, loss[2];
        for (int64_t k = 0; k < numbers; k++)
            square += (double)g[k] * g[k];
        assert_true(square > 1e-6);
        double step = 1e-2 / sqrt(square);
        for (int side = 0; side < 2; side++) { /* along the gradient itself, so that sign and factor both show */
            for (int64_t k = 0; k < numbers; k++)
                to[k] = w[k] + (float)((side ? -step : step) * g[k]);
            ls_shape shape = {.rank = ls_rank(moved[i])};
            for (int k = 0; k < shape.rank; k++)
                shape.dim[k] = ls_dim(moved[i], k);
            ls_assign(moved[i], ls_values(t.s, to, shape));
            loss[side] = ls_item(loss_of(X, t.b.y, &t.p));
            ls_assign(moved[i], ls_values(t.s, w, shape));
        }
        double slope = (loss[0] - loss[1]) / (2 * step);
        if (fabs(slope - square) > 0.02 * square)
            print_message("%d: slope %.6g, gradient's square %.6g\n", i, slope, square);
        assert_true(fabs(slope - square) <= 0.02 * square);
        free(w);
        free(g);
        free(to);
    }
    assert_int_equal(ls_close(t.s), LS_OK);
}

static void a_gradients_life(void **state)
{
    (void)state;
    setup t = open_setup(ls_cpu(0));
    ls_tensor *w = t.p.at[b2], *g = ls_grad(w);
    assert_true(ls_track(w) == w);
    assert_string_equal(ls_str(w), "[0, 0, 0, 0, 0] on cpu(0)");
    assert_string_equal(ls_str(g), "empty on cpu(0)");
    float values[HIDDEN];
    ls_read(g, values, HIDDEN);
    assert_caught(t.s, LS_STALE, "ls_read: the gradient of b2 on cpu(0) is empty");
    ls_add_to(g, g);
    assert_caught(t.s, LS_STALE, "ls_add_to: the gradient of b2 on cpu(0) is empty");
    ls_sgd_step(t.p.at, N, 0.1, BATCH);
    assert_caught(t.s, LS_STALE, "ls_sgd_step: the gradient of W1 on cpu(0) is empty; call ls_backward first");
    ls_tensor *loss = loss_of(t.b.X, t.b.y, &t.p);
    assert_int_equal(ls_backward(loss), LS_OK);
    ls_tensor *once = ls_clone(g, ls_host());
    double lost = ls_item(loss);
    assert_int_equal(ls_backward(loss_of(t.b.X, t.b.y, &t.p)), LS_OK); /* adds */
    ls_tensor *twice = ls_clone(once, ls_host());
    ls_add_to(twice, once);
    assert_same_bits(g, twice);
    assert_int_equal(ls_clear_grad(w), LS_OK);
    assert_string_equal(ls_str(g), "empty on cpu(0)");
    assert_int_equal(ls_backward(loss), LS_OK); /* again, from a loss that was read */
    assert_same_bits(g, once);
    assert_true(ls_item(loss) == lost);
    ls_tensor *before = ls_clone(w, ls_host()), *pending = loss_of(t.b.X, t.b.y, &t.p);
    assert_int_equal(ls_sgd_step(t.p.at, N, 0.25, BATCH), LS_OK);
    float *old = test_read(before), *slope = test_read(once), *is = test_read(w);
    for (int i = 0; i < HIDDEN; i++)
        assert_true(fabsf(is[i] - (old[i] - 0.25F * (slope[i] / BATCH))) < 1e-7F);
    free(old);
    free(slope);
    free(is);
    ls_sgd_step(t.p.at, N, 0.25, BATCH);
    assert_caught(t.s, LS_STALE, "ls_sgd_step: the gradient of W1 on cpu(0) was used up by an update");
    ls_item(pending);
    assert_caught(t.s, LS_STALE, "on cpu(0) was changed after a computation with it was recorded");
    ls_backward(loss);
    assert_caught(t.s, LS_STALE, "on cpu(0) was changed after a computation with it was recorded");
    ls_assign(g, ls_full(t.s, 1, LS_SHAPE(HIDDEN))); /* a gradient from elsewhere is fresh */
    assert_int_equal(ls_sgd_step(&w, 1, 0.1, 1), LS_OK);
    assert_int_equal(ls_close(t.s), LS_OK);
}

static void losses(void **state)
{
    (void)state;
    setup t = open_setup(ls_cpu(0));
    ls_tensor *each = ls_cross_entropy(net(t.b.X, &t.p), t.b.y), *sum = ls_sum(each), *mean = ls_mean(each);
    assert_int_equal(ls_backward(each), LS_OK);
    float *before = test_read(each);
    ls_tensor *of_each = ls_clone(ls_grad(t.p.at[W1]), ls_host());
    double total = 0;
    for (int i = 0; i < BATCH; i++)
        total += (double)before[i];
    free(before);
    assert_true(fabs(ls_item(sum) - total) < 1e-4 * total);
    assert_true(fabs(ls_item(mean) - total / BATCH) < 1e-4 * total);
    ls_clear_grad(t.p.at[W1]);
    assert_int_equal(ls_backward(sum), LS_OK);
    assert_same_bits(ls_grad(t.p.at[W1]), of_each);
    ls_clear_grad(t.p.at[W1]);
    assert_int_equal(ls_backward(mean), LS_OK);
    assert_true(test_difference(ls_scale(ls_to(ls_grad(t.p.at[W1]), ls_host()), BATCH), of_each) < 1e-5);
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* Layers on two devices: what comes after a cut hands the cut's gradient back. */
static void backward_across_devices(void **state)
{
    (void)state;
    setup t = open_setup(ls_cpu(0));
    assert_int_equal(ls_backward(loss_of(t.b.X, t.b.y, &t.p)), LS_OK);
    params there = replica_on(&t.p, ls_cpu(1));
    ls_tensor *whole = ls_clone(ls_grad(t.p.at[W1]), ls_host()), *last = ls_clone(ls_grad(t.p.at[W3]), ls_host());
    ls_clear_grad(t.p.at[W1]);
    ls_tensor *cut = features(t.b.X, &t.p), *X = ls_track(ls_clone(cut, ls_cpu(1)));
    assert_int_equal(ls_backward(ls_sum(ls_cross_entropy(classify(X, &there), ls_to(t.b.y, ls_cpu(1))))), LS_OK);
    assert_int_equal(ls_backward_from(cut, ls_to(ls_grad(X), ls_cpu(0))), LS_OK);
    assert_same_bits(ls_grad(t.p.at[W1]), whole);
    assert_same_bits(ls_grad(there.at[W3]), last);
    ls_backward_from(cut, ls_grad(X));
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_backward_from: y is a tensor on cpu(0), dy");
    ls_backward_from(cut, ls_zeros(t.s, LS_SHAPE(1, 2)));
    assert_caught(t.s, LS_BAD_SHAPE, "ls_backward_from: y must be computed, and dy a tensor of its shape");
    ls_backward_from(cut, NULL);
    assert_caught(t.s, LS_BAD_SHAPE, "ls_backward_from: ");
    ls_backward_from(X, X);
    assert_caught(t.s, LS_BAD_SHAPE, "ls_backward_from: y must be computed");
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* More devices than images: an empty part adds nothing. */
static void an_empty_part_has_a_zero_gradient(void **state)
{
    (void)state;
    setup t = open_setup(ls_cpu(0));
    ls_tensor *none[3], *labels[3], *w = t.p.at[W1];
    ls_scatter(ls_arange(t.s, 0, LS_SHAPE(1, 1, SIZE, SIZE)), test_cpus(2), none);
    ls_scatter(ls_zeros(t.s, LS_SHAPE(1)), test_cpus(2), labels);
    assert_int_equal(ls_backward(loss_of(t.b.X, t.b.y, &t.p)), LS_OK); /* leaves its numbers in memory */
    ls_clear_grad(w);
    ls_tensor *X = ls_to(none[1], ls_cpu(0)), *y = ls_to(labels[1], ls_cpu(0)), *loss = loss_of(X, y, &t.p);
    assert_int_equal(ls_backward(loss), LS_OK);
    assert_same_bits(ls_grad(w), ls_zeros(t.s, LS_SHAPE(MAPS, 1, 3, 3)));
    assert_true(ls_item(loss) == 0);
    assert_int_equal(ls_close(t.s), LS_OK);
}

static void misuse_is_named(void **state)
{
    (void)state;
    setup t = open_setup(ls_cpu(0));
    ls_tensor *plain = ls_named(ls_zeros(t.s, LS_SHAPE(2, 2)), "plain"), *w = t.p.at[b2];
    ls_tensor *foreign = ls_track(ls_clone(plain, ls_cpu(1)));
    ls_grad(plain);
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_grad: plain on the host has no gradient; see ls_track");
    ls_clear_grad(plain);
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_clear_grad: plain on the host has no gradient");
    ls_track(ls_relu(plain));
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_track: only a tensor with numbers of its own");
    ls_track(ls_row(plain, 1));
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_track: only a tensor with numbers of its own");
    ls_backward(plain);
    assert_caught(t.s, LS_BAD_SHAPE, "ls_backward: the loss must be computed");
    ls_backward(ls_relu(plain));
    assert_caught(t.s, LS_BAD_SHAPE, "ls_backward: the loss must be computed, one number or one for each image");
    ls_backward(ls_sum(plain));
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_backward: nothing tracked leads to this tensor");
    assert_int_equal(ls_backward(loss_of(t.b.X, t.b.y, &t.p)), LS_OK);
    assert_int_equal(ls_backward(ls_sum(ls_matmul(ls_clone(plain, ls_cpu(1)), foreign))), LS_OK);
    ls_sgd_step((ls_tensor *[]){w, foreign}, 2, 0.1, 1);
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_sgd_step: plain on cpu(1), but b2 on cpu(0)");
    ls_sgd_step((ls_tensor *[]){w, NULL}, 2, 0.1, 1);
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_sgd_step: tensor 2 of 2 is NULL");
    ls_sgd_step((ls_tensor *[]){NULL, w}, 2, 0.1, 1);
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_sgd_step: tensor 1 of 2 is NULL");
    ls_sgd_step((ls_tensor *[]){w, plain}, 2, 0.1, 1);
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_sgd_step: parameter 1 is not tracked");
    ls_sgd_step((ls_tensor *[]){w, w}, 2, 0.1, 1);
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_sgd_step: b2 on cpu(0) is given twice");
    ls_sgd_step(&w, 1, NAN, 1);
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_sgd_step: lr is nan");
    ls_sgd_step(&w, 1, 0.1, 0);
    assert_caught(t.s, LS_BAD_ARGUMENT, "rows 0");
    assert_int_not_equal(ls_sgd_step(NULL, 1, 0.1, 1), LS_OK);
    void *replica[] = {&t.p};
    assert_true(isnan(ls_accuracy_fn(net, replica, NULL, test_cpus(1))));
    ls_accuracy_fn(NULL, replica, t.data, test_cpus(1));
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_accuracy_fn: needs a function");
    ls_accuracy_fn(net, replica, t.data, (ls_devices){0});
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_accuracy_fn: needs a function");
    ls_accuracy_fn(net, replica, t.data, (ls_devices){1, {{LS_CUDA, 0}}});
    assert_caught(t.s, LS_NO_DEVICE, "there is no gpu(0) here");
    assert_int_equal(ls_close(t.s), LS_OK);
}

static ls_tensor *nothing(ls_tensor *X, void *replica)
{
    (void)X;
    return replica;
}

static void accuracy(void **state)
{
    (void)state;
    setup t = open_setup(ls_host());
    void *replica[16];
    params replicas[16];
    ls_data *data =
        ls_data_from_memory(t.s, pixels, classes_of, ROWS - 7, 1, SIZE, SIZE, CLASSES, &(ls_loader){.batch = BATCH});
    double right = 0;
    for (ls_batch b; ls_data_next(data, &b);) {
        float *rows = test_read(net(b.X, &t.p)), *y = test_read(b.y);
        for (int i = 0; i < ls_rows(b.X); i++) {
            const float *r = rows + (size_t)i * CLASSES;
            int best = 0;
            for (int k = 1; k < CLASSES; k++)
                best = r[k] > r[best] ? k : best;
            right += best == (int)y[i];
        }
        free(rows);
        free(y);
    }
    for (int d = 0; d < 16; d++) {
        replicas[d] = replica_on(&t.p, ls_cpu(d));
        replica[d] = &replicas[d];
    }
    ls_batch b;
    ls_data_seek(data, 3, 1);
    for (int n = 1; n <= 16; n *= 2)
        assert_true(ls_accuracy_fn(net, replica, data, test_cpus(n)) == right / (ROWS - 7));
    assert_true(ls_data_next(data, &b) && b.epoch == 3); /* the place in the data is kept */
    ls_data *augmented =
        ls_data_from_memory(t.s, pixels, classes_of, ROWS - 7, 1, SIZE, SIZE, CLASSES,
                            &(ls_loader){.batch = BATCH, .augment = {.flip = true, .crop = 3, .erase = 1}});
    assert_true(ls_accuracy_fn(net, replica, augmented, test_cpus(2)) == right / (ROWS - 7));
    ls_assign(replicas[1].at[W3], ls_full(t.s, INFINITY, LS_SHAPE(CLASSES, HIDDEN)));
    ls_accuracy_fn(net, replica, data, test_cpus(2));
    assert_caught(t.s, LS_NOT_FINITE, "ls_accuracy_fn: the loss of a batch is not finite");
    replica[0] = NULL;
    ls_accuracy_fn(nothing, replica, data, test_cpus(1));
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_cross_entropy: a tensor is NULL");
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* A failure that is taken back must not take the work along that was handed in before it. */
static void a_caught_failure_loses_no_work(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        setup t = open_setup(ls_cpu(0));
        assert_int_equal(ls_backward(loss_of(t.b.X, t.b.y, &t.p)), LS_OK);
        ls_tensor *g = ls_grad(t.p.at[W1]), *once = ls_clone(g, ls_cpu(1));
        ls_clear_grad(t.p.at[W1]);
        assert_int_equal(ls_backward(loss_of(t.b.X, t.b.y, &t.p)), LS_OK);
        ls_row(g, -1);
        assert_true(ls_catch(t.s, LS_BAD_SHAPE));
        assert_same_bits(g, once);
        assert_int_equal(ls_close(t.s), LS_OK);
    }
}

static void an_update_that_is_not_finite(void **state)
{
    (void)state;
    setup t = open_setup(ls_cpu(0));
    params before = replica_on(&t.p, ls_host());
    for (int i = 0; i < 3; i++) {
        ls_backward(loss_of(t.b.X, t.b.y, &t.p));
        ls_assign(ls_row(ls_grad(t.p.at[W3]), 0), ls_full(t.s, INFINITY, LS_SHAPE(HIDDEN)));
        ls_sgd_step(t.p.at, N, 0.1, BATCH);
    }
    ls_wait(t.s);
    assert_caught(t.s, LS_NOT_FINITE, "ls_sgd_step: the update of W3 is not finite");
    for (int i = 0; i < N; i++)
        assert_same_bits(t.p.at[i], before.at[i]);
    assert_int_equal(ls_backward(loss_of(t.b.X, t.b.y, &t.p)), LS_OK);
    assert_int_equal(ls_sgd_step(t.p.at, N, 0.1, BATCH), LS_OK);
    assert_true(test_difference(t.p.at[W3], before.at[W3]) > 0);
    assert_int_equal(ls_close(t.s), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits_on_aligned_devices),
        cmocka_unit_test(what_no_pool_reads_changes_nothing),
        cmocka_unit_test(the_same_bits_however_one_waits),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(nothing_is_allocated_while_running),
        cmocka_unit_test(finite_differences),
        cmocka_unit_test(a_gradients_life),
        cmocka_unit_test(losses),
        cmocka_unit_test(backward_across_devices),
        cmocka_unit_test(an_empty_part_has_a_zero_gradient),
        cmocka_unit_test(misuse_is_named),
        cmocka_unit_test(accuracy),
        cmocka_unit_test(a_caught_failure_loses_no_work),
        cmocka_unit_test(an_update_that_is_not_finite),
    };
    return cmocka_run_group_tests(tests, make_images, NULL);
}
