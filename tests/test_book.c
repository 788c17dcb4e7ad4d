/* What the book's chapters show of data, parts, networks on several devices and trainers, row by row of
 * docs/book.md. */
#include "support.h"
#include "tensors.h"
#include "training.h"

#include <lockstep.h>
#include <math.h>
#include <string.h>

enum { IMAGES = 70, SIZE = 8, CLASSES = 10 };
static uint8_t images[IMAGES * SIZE * SIZE], labels[IMAGES];

static int make_images(void **state)
{
    (void)state;
    test_make_images(images, sizeof images, labels, IMAGES, CLASSES);
    return 0;
}

static ls_data *data_of(ls_session *s, int batch)
{
    return ls_data_from_memory(s, images, labels, IMAGES, 1, SIZE, SIZE, CLASSES, &(ls_loader){.batch = batch});
}

static ls_module *network(ls_session *s)
{
    return ls_sequential(s, LS_LIST(ls_nn_conv2d(s, 4, 3, NULL), ls_nn_batch_norm(s), ls_nn_fn(s, ls_relu),
                                    ls_nn_fn(s, ls_flatten), ls_nn_linear(s, CLASSES)));
}

/* Rows 1 and 2: without GPUs, CPUs take their places and are printed as such; by name a GPU must be there. */
static void devices(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    for (int i = 0; i < 2; i++) {
        ls_device device = ls_try_gpu(s, i);
        const char *said = device.type == LS_CUDA ? ""
                           : i                    ? "there is no gpu(1) here: cpu(1) in its place"
                                                  : "there is no gpu(0) here: cpu(0) in its place";
        assert_ptr_equal(strstr(ls_notice(s), said), ls_notice(s));
        assert_true(device.type == LS_CUDA ? !*ls_notice(s) : strstr(ls_notice(s), "in its place") != NULL);
        assert_string_equal(ls_device_str(s, device),
                            device.type == LS_CUDA ? (i ? "gpu(1)" : "gpu(0)") : (i ? "cpu(1)" : "cpu(0)"));
    }
    ls_devices all = ls_try_all_gpus(s), two = ls_try_devices(s, 2);
    assert_true(all.n >= 1 && (all.at[0].type == LS_CUDA || all.n == 1));
    assert_string_equal(ls_devices_str(s, two), two.at[0].type == LS_CUDA ? "[gpu(0), gpu(1)]" : "[cpu(0), cpu(1)]");
    ls_parse_devices(s, "gpu:0,gpu:200");
    assert_true(ls_failed(s));
    assert_non_null(strstr(ls_message(s), "gpu"));
    assert_true(ls_catch(s, ls_status_of(s)));
    assert_int_equal(ls_close(s), LS_OK);
}

/* Rows 7 and 13: the sizes of the two networks, and their summaries. */
static void the_two_networks(void **state)
{
    (void)state;
    static const uint8_t image[28 * 28], label[1];
    const struct {
        const char *model, *numbers, *row;
    } expected[] = {{"lenet", "129068 trainable numbers", "W1"},
                    {"resnet18", "11175818 trainable numbers", "resnet_block4"}};
    ls_session *s = ls_open(NULL);
    ls_data *data = ls_data_from_memory(s, image, label, 1, 1, 28, 28, 10, NULL);
    for (int i = 0; i < 2; i++) {
        ls_module *net = ls_model(s, expected[i].model);
        ls_module_initialize(net, test_cpus(1), &(ls_init){.like = data});
        const char *summary = ls_module_summary(net);
        assert_non_null(strstr(summary, expected[i].row));
        assert_non_null(strstr(summary, expected[i].numbers));
    }
    assert_int_equal(ls_close(s), LS_OK);
}

/* Row 3: 60,000 images in batches of 256 are 235 steps, the last with 96; of 512, 118. */
static void steps_of_an_epoch(void **state)
{
    (void)state;
    enum { ALL = 60000 };
    static uint8_t one[ALL];
    ls_session *s = ls_open(NULL);
    for (int batch = 256; batch <= 512; batch *= 2) {
        ls_data *data =
            ls_data_from_memory(s, one, one, ALL, 1, 1, 1, 1, &(ls_loader){.batch = batch, .shuffle = true});
        int steps = 0;
        int64_t last = 0, all = 0;
        for (ls_batch b; ls_data_next(data, &b); steps++) {
            last = ls_rows(b.X);
            all += last;
        }
        assert_int_equal(steps, batch == 256 ? 235 : 118);
        assert_int_equal(steps, ls_data_batches(data));
        assert_int_equal(last, 96);
        assert_int_equal(all, ALL);
    }
    assert_int_equal(ls_close(s), LS_OK);
}

/* Row 5: sizes differ by at most one, nothing is dropped, empty parts are legal; a failure of the caller's own
 * sticks. */
static void parts_of_a_batch(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    for (int n = 1; n <= 9; n++) {
        for (int rows = 0; rows <= 7; rows++) {
            ls_tensor *parts[9], *all = ls_arange(s, 0, LS_SHAPE(rows, 2));
            ls_scatter(all, test_cpus(n), parts);
            int64_t total = 0;
            for (int d = 0; d < n; d++) {
                assert_true(ls_rows(parts[d]) == rows / n || ls_rows(parts[d]) == rows / n + 1);
                assert_int_equal(ls_device_of(parts[d]).index, d);
                total += ls_rows(parts[d]);
            }
            assert_int_equal(total, rows);
            float back[14];
            ls_read(ls_gather(parts, n, ls_host()), back, 2 * rows);
            for (int i = 0; i < 2 * rows; i++) {
                assert_true(back[i] == (float)i);
            }
        }
    }
    assert_int_equal(ls_fail(s, LS_BAD_SHAPE, "split_batch: X has %d rows, y %d", 3, 4), LS_BAD_SHAPE);
    assert_string_equal(ls_message(s), "split_batch: X has 3 rows, y 4");
    assert_int_equal(ls_fail(s, LS_IO, "later"), LS_BAD_SHAPE);
    assert_int_equal(ls_close(s), LS_BAD_SHAPE);
}

/* Rows 6 and 19: the forward of each part lies where the part lies and equals its rows of the undivided forward. */
static void forward_on_parts(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_devices devices = test_cpus(4);
    ls_module *net = network(s);
    ls_module_initialize(net, devices, NULL);
    ls_tensor *x = ls_uniform(s, "x", LS_SHAPE(4, 1, SIZE, SIZE)), *parts[4];
    float whole[4 * CLASSES], row[2 * CLASSES];
    ls_read(ls_module_infer(net, x), whole, 4 * CLASSES);
    for (int n = 2; n <= 4; n += 2) {
        ls_scatter(x, test_cpus(n), parts);
        for (int d = 0; d < n; d++) {
            ls_tensor *y = ls_module_infer(net, parts[d]);
            assert_int_equal(ls_rows(y), 4 / n);
            assert_int_equal(ls_device_of(y).index, d);
            ls_read(y, row, ls_rows(y) * CLASSES);
            assert_memory_equal(row, whole + d * 4 / n * CLASSES, (size_t)(4 / n * CLASSES) * sizeof *row);
        }
    }
    assert_int_equal(ls_status_of(s), LS_OK);
    ls_module_infer(net, ls_to(x, ls_cpu(7)));
    assert_true(ls_catch(s, LS_NOT_INITIALIZED));
    assert_int_equal(ls_close(s), LS_OK);
}

/* Rows 14 and 15: the same values on all devices; again only with force; reading where they are not. */
static void values_on_devices(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *net = network(s);
    ls_module_param(net, "0.weight", ls_cpu(0));
    assert_true(ls_catch(s, LS_NOT_INITIALIZED));
    ls_module_initialize(net, test_cpus(2), NULL);
    ls_module_param(net, "0.weight", ls_cpu(0));
    assert_true(ls_catch(s, LS_SHAPE_UNKNOWN));
    ls_wait(s);
    ls_str(ls_module_infer(net, ls_uniform(s, "x", LS_SHAPE(1, 1, SIZE, SIZE))));
    float first[36], second[36];
    ls_read(ls_module_param(net, "0.weight", ls_cpu(0)), first, 36);
    ls_read(ls_module_param(net, "0.weight", ls_cpu(1)), second, 36);
    assert_int_equal(ls_status_of(s), LS_OK);
    assert_memory_equal(first, second, sizeof first);
    ls_module_param(net, "0.weight", ls_cpu(2));
    assert_non_null(strstr(ls_message(s), "0.weight"));
    assert_non_null(strstr(
        ls_message(s), "ls_module_param: parameter 0.weight was not initialized on cpu(2), only on [cpu(0), cpu(1)]"));
    assert_true(ls_catch(s, LS_NOT_INITIALIZED));
    ls_module_initialize(net, test_cpus(2), NULL);
    assert_non_null(strstr(ls_message(s), "force"));
    assert_true(ls_catch(s, ls_status_of(s)));
    ls_module_initialize(net, test_cpus(3), &(ls_init){.force = true});
    assert_int_equal(ls_close(s), LS_OK);
}

/* Rows 16, 17 and 19: the same loop on any devices; every test image counts once; a step needs a fresh gradient. */
static void the_same_loop(void **state)
{
    (void)state;
    ls_metrics one = {0};
    char first[65], other[65];
    for (int n = 1; n <= 4; n++) {
        ls_session *s = ls_open(&(ls_options){.shard = 8});
        ls_data *data = data_of(s, 32);
        ls_module *net = network(s);
        ls_module_initialize(net, test_cpus(n), &(ls_init){.kind = LS_HE});
        ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
        for (ls_batch b; ls_data_next(data, &b);) {
            ls_backward(ls_cross_entropy(ls_module_forward(net, b.X), b.y));
            ls_trainer_step(trainer);
        }
        ls_metrics metrics = {0};
        ls_module_evaluate(net, data, &metrics);
        assert_int_equal(metrics.rows, IMAGES);
        ls_module_fingerprint(net, n == 1 ? first : other);
        one = n == 1 ? metrics : one;
        assert_int_equal(metrics.correct, one.correct);
        assert_true(ls_module_accuracy(net, data) == (double)one.correct / IMAGES);
        assert_true(n == 1 || strcmp(first, other) == 0);
        assert_int_equal(ls_status_of(s), LS_OK);
        assert_int_equal(ls_trainer_step(trainer), LS_STALE);
        ls_close(s);
    }
}

/* Row 10: a step on parts equals the undivided one, and leaves equal replicas. */
static void a_step_on_replicas(void **state)
{
    (void)state;
    float one[CLASSES * SIZE * SIZE], w[CLASSES * SIZE * SIZE], again[CLASSES * SIZE * SIZE];
    for (int n = 1; n <= 3; n++) { /* 64 images in shards of 8: aligned for 1 and 2 devices, not for 3 */
        ls_session *s = ls_open(&(ls_options){.shard = 8});
        ls_devices devices = test_cpus(n);
        ls_tensor *weight = ls_randn(s, "w", 0.1, LS_SHAPE(CLASSES, SIZE * SIZE)), *replica[3];
        for (int d = 0; d < n; d++) {
            replica[d] = ls_track(ls_clone(weight, devices.at[d]));
        }
        ls_data *data = data_of(s, 64);
        ls_batch b;
        assert_true(ls_data_next(data, &b));
        ls_tensor *X[3], *y[3];
        ls_scatter(b.X, devices, X);
        ls_scatter(b.y, devices, y);
        for (int d = 0; d < n; d++) {
            ls_backward(ls_sum(ls_cross_entropy(ls_linear(ls_flatten(X[d]), replica[d], NULL), y[d])));
        }
        for (int d = 1; d < n; d++) {
            ls_add_to(ls_grad(replica[0]), ls_to(ls_grad(replica[d]), devices.at[0]));
        }
        for (int d = 0; d < n; d++) {
            ls_assign(ls_grad(replica[d]), ls_grad(replica[0]));
            ls_sgd_step(&replica[d], 1, 0.5, ls_rows(b.X));
        }
        ls_read(replica[0], n == 1 ? one : w, CLASSES * SIZE * SIZE);
        if (n == 2) {
            assert_memory_equal(w, one, sizeof w);
        }
        for (int i = 0; n == 3 && i < CLASSES * SIZE * SIZE; i++) {
            assert_true(fabsf(w[i] - one[i]) < 1e-6F);
        }
        for (int d = 1; d < n; d++) {
            ls_read(replica[d], again, CLASSES * SIZE * SIZE);
            assert_memory_equal(again, w, sizeof w);
        }
        assert_int_equal(ls_close(s), LS_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices),          cmocka_unit_test(the_two_networks),   cmocka_unit_test(steps_of_an_epoch),
        cmocka_unit_test(parts_of_a_batch), cmocka_unit_test(forward_on_parts),   cmocka_unit_test(values_on_devices),
        cmocka_unit_test(the_same_loop),    cmocka_unit_test(a_step_on_replicas),
    };
    return cmocka_run_group_tests(tests, make_images, NULL);
}
