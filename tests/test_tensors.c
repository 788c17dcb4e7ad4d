/* Tensors with values: made, copied, cut, joined, changed, printed, and gone with their scope. */
#include "tensors.h"

#include <math.h>
#include <stdio.h>
#include <lockstep_lifetime.h>
#include <lockstep_nn.h>

#include "base/random.h"

static const ls_device wrong_devices[] = {{LS_CPU, -1}, {LS_CPU, LS_MAX_DEVICES}, {LS_CUDA, 0}, {9, 0}};
static const ls_status wrong_status[] = {LS_NO_DEVICE, LS_NO_DEVICE, LS_NO_DEVICE, LS_BAD_ARGUMENT};
enum { WRONG = sizeof wrong_devices / sizeof *wrong_devices };

static const uint8_t pixels[8 * 4 * 4] = {9, 8, 7, 255}, classes_of[8] = {0, 1, 2, 0, 1, 2, 0, 1};

static ls_data *some_data(ls_session *s, int batch)
{
    return ls_data_from_memory(s, pixels, classes_of, 8, 1, 4, 4, 3, &(ls_loader){.batch = batch});
}

static void making(void **state)
{
    (void)state;
    ls_session *s = ls_open(&(ls_options){.seed = 3});
    ls_session *other = ls_open(&(ls_options){.seed = 4});
    ls_tensor *counting = ls_arange(s, 2, LS_SHAPE(2, 3));
    assert_values(counting, (float[]){2, 3, 4, 5, 6, 7});
    assert_values(ls_zeros(s, LS_SHAPE(2)), (float[]){0, 0});
    assert_values(ls_full(s, -1.5, LS_SHAPE(1, 2)), (float[]){-1.5f, -1.5f});
    assert_values(ls_values(s, (float[]){1, 9}, LS_SHAPE(2)), (float[]){1, 9});
    assert_true(ls_item(ls_full(s, 7, (ls_shape){.rank = 0})) == 7);
    assert_int_equal(ls_rank(counting), 2);
    assert_int_equal(ls_rows(counting), 2);
    assert_int_equal(ls_dim(counting, 1), 3);
    assert_int_equal(ls_dim(counting, 2), 0);
    assert_int_equal(ls_device_of(counting).type, ls_host().type);
    assert_true(ls_session_of(counting) == s);
    float drawn[4];
    assert_int_equal(ls_read(ls_randn(s, "W", 0.5, LS_SHAPE(4)), drawn, 4), LS_OK);
    assert_values(ls_randn(s, "W", 0.5, LS_SHAPE(2, 2)), drawn);
    assert_true(test_difference(ls_randn(s, "V", 0.5, LS_SHAPE(4)), ls_values(s, drawn, LS_SHAPE(4))) > 0);
    assert_true(test_difference(ls_randn(other, "W", 0.5, LS_SHAPE(4)), ls_values(s, drawn, LS_SHAPE(4))) > 0);
    const ls_random_stream normal = {3, LS_FOR_WEIGHTS, ls_hash_name("W"), 0},
                           even = {3, LS_FOR_WEIGHTS, ls_hash_name("x"), 0};
    float uniform[4];
    assert_int_equal(ls_read(ls_uniform(s, "x", LS_SHAPE(4)), uniform, 4), LS_OK);
    for (uint64_t i = 0; i < 4; i++) {
        assert_true(drawn[i] == (float)(0.5 * ls_random_normal(&normal, i)));
        assert_true(uniform[i] == (float)ls_random_uniform(&even, i));
    }
    assert_int_equal(ls_close(other), LS_OK);
    assert_int_equal(ls_close(s), LS_OK);
}

static void making_refuses(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    assert_null(ls_zeros(s, LS_SHAPE(2, -1)));
    assert_caught(s, LS_BAD_SHAPE, "ls_zeros: dimension 1 of the shape is -1; 0 to 2147483647 are possible");
    assert_null(ls_zeros(s, LS_SHAPE(INT64_C(1) << 31)));
    assert_caught(s, LS_BAD_SHAPE, "ls_zeros: dimension 0 of the shape is 2147483648; 0 to 2147483647 are possible");
    assert_null(ls_arange(s, 0, (ls_shape){.rank = 5}));
    assert_caught(s, LS_BAD_SHAPE, "ls_arange: a shape of 5 sizes; 0 to 4 are possible");
    assert_null(ls_full(s, 0, (ls_shape){.rank = -1}));
    assert_caught(s, LS_BAD_SHAPE, "ls_full: a shape of -1 sizes; 0 to 4 are possible");
    assert_null(ls_zeros(s, LS_SHAPE(65536, 65536, 64, 1024)));
    assert_caught(
        s, LS_BAD_SHAPE,
        "ls_zeros: a tensor of shape (65536, 65536, 64, 1024) has too many numbers; there may be 1099511627775");
    assert_null(ls_uniform(s, "x", LS_SHAPE(INT32_MAX, INT32_MAX, INT32_MAX)));
    assert_caught(s, LS_BAD_SHAPE, "ls_uniform: a tensor of shape (2147483647, 2147483647, 2147483647) has too many");
    assert_null(ls_uniform(s, NULL, LS_SHAPE(1)));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_uniform: random numbers need a key; equal keys give equal numbers");
    assert_null(ls_randn(s, "", 1, LS_SHAPE(1)));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_randn: random numbers need a key; equal keys give equal numbers");
    assert_null(ls_values(s, NULL, LS_SHAPE(1)));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_values: values is NULL");
    assert_int_equal(ls_close(s), LS_OK);
}

static void null_and_failed_sessions_are_inert(void **state)
{
    (void)state;
    ls_tensor *parts[2] = {(ls_tensor *)parts, (ls_tensor *)parts};
    const ls_devices two = {2, {{LS_CPU, 0}, {LS_CPU, 1}}};
    assert_null(ls_zeros(NULL, LS_SHAPE(1)));
    assert_null(ls_values(NULL, NULL, LS_SHAPE(1)));
    assert_null(ls_randn(NULL, NULL, 1, LS_SHAPE(1)));
    ls_session *s = ls_open(NULL);
    ls_tensor *kept = ls_zeros(s, LS_SHAPE(4));
    ls_fail(s, LS_IO, "the disk is %d%% full", 100);
    assert_int_equal(ls_fail(s, LS_STALE, "later"), LS_IO);
    assert_string_equal(ls_message(s), "the disk is 100% full");
    assert_false(ls_catch(s, LS_STALE));
    assert_int_equal(ls_enter(s), -1);
    for (int failed = 0; failed < 2; failed++) { /* of NULL, then after a failure */
        ls_tensor *t = failed ? kept : NULL;
        float number;
        assert_null(ls_track(t));
        assert_null(ls_grad(t));
        assert_null(ls_to(t, ls_cpu(0)));
        assert_null(ls_clone(t, ls_cpu(0)));
        assert_null(ls_row(t, 0));
        assert_true(ls_named(t, "x") == t);
        assert_true(ls_keep(t) == t);
        assert_int_not_equal(ls_scatter(t, two, parts), LS_OK);
        assert_true(!parts[0] && !parts[1]); /* not what was in memory: a program checks at its end */
        parts[0] = parts[1] = (ls_tensor *)parts;
        assert_null(ls_gather((ls_tensor *[]){t, t}, 2, ls_host()));
        assert_int_not_equal(ls_assign(t, t), LS_OK);
        assert_int_not_equal(ls_add_to(t, t), LS_OK);
        assert_int_not_equal(ls_clear_grad(t), LS_OK);
        assert_int_not_equal(ls_backward(t), LS_OK);
        assert_int_not_equal(ls_backward_from(t, t), LS_OK);
        assert_int_not_equal(ls_sgd_step(&t, 1, 0.1, 1), LS_OK);
        assert_int_not_equal(ls_read(t, &number, 1), LS_OK);
        assert_true(isnan(ls_item(t)));
        assert_string_equal(ls_str(t), "");
        assert_null(ls_sum(t));
        assert_null(ls_mean(t));
        assert_null(ls_matmul(t, t));
        assert_null(ls_cross_entropy(t, t));
    }
    assert_int_equal(ls_rank(NULL), 0);
    assert_int_equal(ls_rows(NULL), 0);
    assert_int_equal(ls_device_of(NULL).type, LS_HOST);
    assert_null(ls_session_of(NULL));
    assert_true(ls_bytes_moved(NULL) == 0);
    assert_int_equal(ls_enter(NULL), -1);
    ls_leave(NULL, 0);
    assert_false(ls_catch(NULL, LS_OK));
    assert_int_equal(ls_close(s), LS_IO);
}

static void copying(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_tensor *x = ls_arange(s, 0, LS_SHAPE(2, 3)), *there = ls_to(x, ls_cpu(1));
    assert_true(ls_to(there, ls_cpu(1)) == there);
    assert_int_equal(ls_device_of(there).index, 1);
    assert_true(ls_bytes_moved(s) == 24);
    ls_tensor *copy = ls_clone(there, ls_cpu(1));
    assert_true(ls_bytes_moved(s) == 24);
    ls_assign(there, ls_to(ls_full(s, 5, LS_SHAPE(2, 3)), ls_cpu(0)));
    assert_same_bits(copy, x);
    assert_same_bits(there, ls_full(s, 5, LS_SHAPE(2, 3)));
    ls_tensor *row = ls_row(copy, 1);
    assert_int_equal(ls_rank(row), 1);
    assert_values(row, (float[]){3, 4, 5});
    ls_assign(row, ls_zeros(s, LS_SHAPE(3))); /* it shares its tensor's numbers */
    assert_values(copy, (float[]){0, 1, 2, 0, 0, 0});
    assert_true(ls_item(ls_row(ls_row(copy, 0), 2)) == 2);
    ls_add_to(copy, copy);
    assert_values(copy, (float[]){0, 2, 4, 0, 0, 0});
    ls_add_to(ls_row(copy, 1), ls_row(copy, 0));
    assert_values(copy, (float[]){0, 2, 4, 0, 2, 4});
    assert_int_equal(ls_close(s), LS_OK);
}

static void copying_refuses(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL), *other = ls_open(NULL);
    ls_tensor *x = ls_named(ls_zeros(s, LS_SHAPE(2, 3)), "x"), *there = ls_clone(x, ls_cpu(1));
    for (int i = 0; i < WRONG; i++) {
        assert_null(ls_to(x, wrong_devices[i]));
        assert_caught(s, wrong_status[i], "ls_to: ");
        assert_null(ls_clone(x, wrong_devices[i]));
        assert_caught(s, wrong_status[i], "ls_clone: ");
        assert_null(ls_gather(&x, 1, wrong_devices[i]));
        assert_caught(s, wrong_status[i], "ls_gather: ");
    }
    assert_null(ls_row(x, 2));
    assert_caught(s, LS_BAD_SHAPE, "ls_row: there is no row 2 in a tensor of shape (2, 3)");
    assert_null(ls_row(x, -1));
    assert_caught(s, LS_BAD_SHAPE, "ls_row: there is no row -1 in a tensor of shape (2, 3)");
    ls_assign(x, ls_zeros(s, LS_SHAPE(3, 2)));
    assert_caught(s, LS_BAD_SHAPE, "ls_assign: x on the host has shape (2, 3), the other tensor (3, 2)");
    ls_assign(x, NULL);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_assign: the second tensor is NULL or of another session");
    ls_assign(x, ls_zeros(other, LS_SHAPE(2, 3)));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_assign: the second tensor is NULL or of another session");
    ls_assign(ls_relu(x), x);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_assign: a tensor on the host was computed and cannot be written");
    ls_add_to(x, there);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_add_to: x on the host and x on cpu(1); copy one with ls_to");
    ls_relu(ls_add(x, there));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_add: one operand is x on the host, another x on cpu(1); copy one with ls_to");
    ls_add(x, ls_zeros(other, LS_SHAPE(2, 3)));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_add: the tensors belong to different sessions");
    assert_int_equal(ls_close(other), LS_OK);
    assert_int_equal(ls_close(s), LS_OK);
}

static void cutting_and_joining(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_tensor *x = ls_arange(s, 0, LS_SHAPE(4, 5)), *part[16];
    ls_devices two = test_cpus(2), three = test_cpus(3), many = test_cpus(16);
    assert_int_equal(ls_scatter(x, two, part), LS_OK);
    assert_string_equal(ls_str(part[0]), "[[0, 1, 2, 3, 4],\n [5, 6, 7, 8, 9]] on cpu(0)");
    assert_string_equal(ls_str(part[1]), "[[10, 11, 12, 13, 14],\n [15, 16, 17, 18, 19]] on cpu(1)");
    assert_string_equal(ls_devices_str(s, two), "[cpu(0), cpu(1)]");
    assert_int_equal(ls_scatter(x, three, part), LS_OK);
    assert_int_equal(ls_rows(part[0]), 2);
    assert_int_equal(ls_rows(part[1]), 1);
    assert_int_equal(ls_rows(part[2]), 1);
    ls_tensor *again = ls_gather(part, 3, ls_cpu(2));
    assert_same_bits(again, x);
    assert_int_equal(ls_device_of(again).index, 2);
    assert_int_equal(ls_scatter(x, many, part), LS_OK);
    assert_int_equal(ls_rows(part[3]), 1);
    assert_int_equal(ls_rows(part[15]), 0); /* empty, and legal */
    assert_string_equal(ls_str(part[15]), "[] on cpu(15)");
    assert_same_bits(ls_gather(part, 16, ls_host()), x);
    ls_scatter(x, (ls_devices){0}, part);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_scatter: needs devices, room for a part on each, and a tensor with rows");
    ls_scatter(ls_full(s, 1, (ls_shape){.rank = 0}), two, part);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_scatter: needs devices, room for a part on each, and a tensor with rows");
    ls_scatter(x, two, NULL);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_scatter: needs devices, room for a part on each, and a tensor with rows");
    ls_gather((ls_tensor *[]){x, NULL}, 2, ls_host());
    assert_caught(s, LS_BAD_ARGUMENT, "ls_gather: tensor 2 of 2 is NULL");
    ls_gather((ls_tensor *[]){NULL, x}, 2, ls_host());
    assert_caught(s, LS_BAD_ARGUMENT, "ls_gather: tensor 1 of 2 is NULL");
    ls_tensor *number = ls_full(s, 1, (ls_shape){.rank = 0});
    ls_gather((ls_tensor *[]){number, number}, 2, ls_host());
    assert_caught(s, LS_BAD_SHAPE, "ls_gather: all parts must have rows of one shape, and be of one session");
    ls_gather((ls_tensor *[]){x, ls_zeros(s, LS_SHAPE(4, 4))}, 2, ls_host());
    assert_caught(
        s, LS_BAD_SHAPE,
        "ls_gather: all parts must have rows of one shape, and be of one session; part 0 is (4, 5), part 1 (4, 4)");
    assert_int_equal(ls_close(s), LS_OK);
}

/* Images of a batch are not copied when they are cut, so that a wrong device has to be found before any work is done
 * there. */
static void cutting_batches(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_data *data = some_data(s, 3);
    ls_batch b;
    assert_true(ls_data_next(data, &b));
    ls_tensor *X[3], *y[3], *whole = ls_clone(b.X, ls_host());
    assert_true(ls_item(ls_row(ls_row(ls_row(ls_row(b.X, 0), 0), 0), 3)) == 1);
    assert_int_equal(ls_scatter(b.X, test_cpus(3), X), LS_OK);
    assert_int_equal(ls_scatter(b.y, test_cpus(3), y), LS_OK);
    assert_same_bits(ls_gather(X, 3, ls_host()), whole);
    assert_true(ls_item(y[2]) == 2);
    assert_same_bits(ls_to(ls_to(b.X, ls_cpu(1)), ls_host()), whole);
    for (int i = 0; i < WRONG; i++) {
        ls_scatter(b.y, (ls_devices){2, {{LS_CPU, 0}, wrong_devices[i]}}, y);
        assert_caught(s, wrong_status[i], "ls_scatter: ");
        assert_true(!y[0] && !y[1]);
    }
    ls_assign(b.X, whole);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_assign: a batch's images on the host was computed and cannot be written");
    assert_int_equal(ls_close(s), LS_OK);
}

static void reading(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_tensor *x = ls_arange(s, 0, LS_SHAPE(12));
    float values[12];
    assert_string_equal(ls_str(x), "[0, 1, 2, ..., 9, 10, 11] on the host");
    assert_string_equal(ls_str(ls_full(s, 2, (ls_shape){.rank = 0})), "2 on the host");
    ls_read(x, values, 11);
    assert_caught(s, LS_BAD_SHAPE, "ls_read: a tensor of shape (12) has 12 numbers, not 11");
    ls_read(x, NULL, 12);
    assert_caught(s, LS_BAD_SHAPE, "ls_read: a tensor of shape (12) has 12 numbers, not 12, and values is NULL");
    assert_true(isnan(ls_item(x)));
    assert_caught(
        s, LS_BAD_SHAPE,
        "ls_item: x must have one number; ls_mean makes one of a loss, which is one for each image; x is (12)");
    assert_int_equal(ls_close(s), LS_OK);
}

/* A single number has no images to compute over. */
static void computing_needs_images(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_tensor *x = ls_arange(s, 1, LS_SHAPE(2, 2)), *total = ls_sum(x);
    assert_true(ls_item(total) == 10 && ls_item(ls_mean(x)) == 2.5);
    ls_relu(total);
    assert_caught(s, LS_BAD_SHAPE, "ls_relu");
    ls_add(total, total);
    assert_caught(s, LS_BAD_SHAPE, "ls_add");
    ls_multiply(total, total);
    assert_caught(s, LS_BAD_SHAPE, "ls_multiply");
    ls_sum(total);
    assert_caught(s, LS_BAD_SHAPE, "ls_sum");
    ls_matmul(x, ls_zeros(s, LS_SHAPE(3, 2)));
    assert_caught(s, LS_BAD_SHAPE,
                  "ls_matmul: x must be flat or (images, tokens, features), and weight a parameter (features of x, "
                  "outputs), as ls_linear takes (outputs, features of x); x is (2, 2), weight (3, 2)");
    ls_conv2d(x, x, NULL, NULL);
    assert_caught(s, LS_BAD_SHAPE,
                  "ls_conv2d: weight must be a parameter (outputs, channels of x / groups, kernel, kernel_w); "
                  "x is (2, 2), weight (2, 2)");
    ls_relu(NULL);
    ls_add(x, NULL);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_add: a tensor is NULL");
    ls_item(ls_sum(ls_cross_entropy(x, ls_values(s, (float[]){0, 2}, LS_SHAPE(2)))));
    assert_caught(s, LS_BAD_ARGUMENT, "the label of row 1 is 2; the logits have the classes 0 to 1");
    assert_int_equal(ls_close(s), LS_OK);
}

static void changed_operands_are_stale(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_tensor *x = ls_named(ls_arange(s, -1, LS_SHAPE(3, 1)), "x"), *before = ls_relu(x), *read = ls_relu(x);
    assert_values(read, (float[]){0, 0, 1});
    ls_assign(x, ls_full(s, 4, LS_SHAPE(3, 1)));
    assert_values(read, (float[]){0, 0, 1});
    assert_string_equal(ls_str(before), "");
    assert_caught(
        s, LS_STALE,
        "x on the host was changed after a computation with it was recorded; read or run that before the change");
    assert_values(ls_relu(x), (float[]){4, 4, 4});
    before = ls_relu(x);
    ls_assign(ls_row(x, 0), ls_row(x, 1)); /* through a row as well */
    ls_sum(before);
    ls_item(ls_sum(before));
    assert_caught(
        s, LS_STALE,
        "x on the host was changed after a computation with it was recorded; read or run that before the change");
    ls_tensor *w = ls_track(ls_named(ls_full(s, 1, LS_SHAPE(1, 1)), "w"));
    ls_tensor *g = ls_grad(w);
    ls_backward(ls_sum(ls_matmul(x, w)));
    before = ls_relu(g);
    ls_backward(ls_sum(ls_matmul(x, w)));
    ls_item(ls_sum(before));
    assert_caught(s, LS_STALE,
                  "the gradient of w on the host was changed after a computation with it was recorded; read or run "
                  "that before the change");
    assert_int_equal(ls_close(s), LS_OK);
}

/* ---- Scopes ---- */

static void scopes(void **state)
{
    (void)state;
    counted c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    ls_session *s = ls_open(&(ls_options){.allocator = &(ls_allocator){count_allocate, count_release, &c}});
    ls_tensor *outer = ls_arange(s, 0, LS_SHAPE(3)), *kept = NULL, *twice = NULL;
    for (int round = 0; round < 3; round++) {
        int one = ls_enter(s), two = ls_enter(s);
        assert_true(one > 0 && two > one);
        kept = ls_keep(ls_full(s, round, LS_SHAPE(3)));
        twice = ls_keep(ls_keep(ls_full(s, round, LS_SHAPE(3))));
        ls_full(s, 9, LS_SHAPE(3));
        ls_leave(s, two);
        assert_true(ls_item(ls_row(kept, 2)) == round);
        ls_leave(s, one);
        assert_true(ls_item(ls_row(twice, 1)) == round);
    }
    assert_same_bits(outer, ls_arange(s, 0, LS_SHAPE(3)));
    int one = ls_enter(s);
    ls_enter(s);
    ls_leave(s, one); /* those inside go with it */
    ls_leave(s, one);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_leave: there is no scope 1; it was left already");
    ls_leave(s, 0);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_leave: there is no scope 0; it was left already");
    assert_true(ls_keep(outer) == outer);
    assert_int_equal(ls_close(s), LS_OK);
    assert_int_equal(c.alive, 0);
}

enum { ROUNDS = 80, EARLY = 9 };

static void data_goes_with_its_scope(void **state)
{
    (void)state;
    counted c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    ls_session *s = ls_open(&(ls_options){.allocator = &(ls_allocator){count_allocate, count_release, &c}});
    ls_tensor *X[2];
    long alive = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int scope = ls_enter(s);
        ls_data *data = some_data(s, 3);
        assert_true(ls_session_of(data) == s);
        for (ls_batch b; ls_data_next(data, &b);) { /* left early: the batch goes with the next one, or the scope */
            ls_scatter(b.X, test_cpus(2), X);
            assert_true(ls_item(ls_sum(ls_relu(X[0]))) >= 0);
            if (round % 2)
                break;
        }
        if (round % 2) {
            ls_batch b;
            assert_true(ls_data_next(data, &b));
        }
        ls_leave(s, scope);
        if (round == EARLY)
            alive = test_alive(&c);
    }
    assert_true(test_rounds_leave_nothing(&c, alive, ROUNDS - 1 - EARLY));
    assert_int_equal(ls_close(s), LS_OK);
    assert_int_equal(c.alive, 0);
}

static void batches_are_scopes(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_data *data = some_data(s, 3), *inner = some_data(s, 4);
    ls_tensor *kept[8];
    int n = 0;
    for (ls_batch a; ls_data_next(data, &a);)
        for (ls_batch b; ls_data_next(inner, &b);) {
            assert_int_equal(b.epoch, n / 2);
            kept[n++] = ls_keep(ls_keep(ls_clone(b.y, ls_cpu(1))));
        }
    assert_int_equal(n, 6);
    for (int i = 0; i < n; i++)
        assert_true(ls_item(ls_row(kept[i], 1)) == classes_of[4 * (i % 2) + 1]);
    assert_int_equal(ls_close(s), LS_OK);
}

/* Those that the caller holds outlive scopes and batches, and go when they are let go of. */
static void held_tensors(void **state)
{
    (void)state;
    counted c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    ls_session *s = ls_open(&(ls_options){.allocator = &(ls_allocator){count_allocate, count_release, &c}});
    ls_data *data = some_data(s, 3);
    ls_tensor *X[3], *made = NULL;
    long alive = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0, scope = ls_enter(s);
        for (ls_batch b; ls_data_next(data, &b);)
            X[n++] = ls_hold(b.X);
        made = ls_hold(ls_relu(ls_clone(X[0], ls_cpu(0))));
        ls_tensor *outer = ls_hold(ls_hold(ls_full(s, round, LS_SHAPE(3))));
        ls_leave(s, scope);
        scope = ls_enter(s);
        assert_int_equal(ls_rows(X[2]), 2);
        assert_true(ls_item(ls_sum(ls_row(made, 0))) > 1);
        assert_true(ls_keep(outer) == outer);
        ls_drop(outer);
        assert_true(ls_item(ls_row(outer, 2)) == round);
        ls_drop(outer);
        for (int i = 0; i < n; i++)
            ls_drop(X[i]);
        ls_drop(made);
        ls_leave(s, scope);
        if (round == EARLY)
            alive = test_alive(&c);
    }
    assert_true(test_rounds_leave_nothing(&c, alive, ROUNDS - 1 - EARLY));
    ls_drop(NULL);
    assert_null(ls_hold(NULL));
    ls_tensor *scoped = ls_zeros(s, LS_SHAPE(2));
    ls_drop(scoped); /* which nobody holds */
    assert_true(ls_item(ls_row(scoped, 1)) == 0);
    for (int i = 0; i < 3; i++)
        X[i] = ls_hold(ls_zeros(s, LS_SHAPE(2)));
    ls_drop(X[1]);
    ls_drop(X[2]);
    assert_int_equal(ls_close(s), LS_OK); /* those that are held still go too */
    assert_int_equal(c.alive, 0);
}

static void count_end(void *user)
{
    ++*(int *)user;
}

/* Numbers in a caller's memory are read and written there, and given back once: when the last that needs them has gone,
 * at the session's end, or at once after a failure. */
static void numbers_lie_in_the_callers_memory(void **state)
{
    (void)state;
    float *memory = malloc(6 * sizeof *memory); /* of just that size, for what looks beyond it */
    int ended = 0;
    for (int i = 0; i < 6; i++)
        memory[i] = (float)i;
    ls_session *s = ls_open(NULL);
    int scope = ls_enter(s);
    ls_tensor *x = ls_hold(ls_values_at(s, memory, LS_SHAPE(3, 2), count_end, &ended));
    assert_ptr_equal(ls_numbers(x), memory);
    assert_ptr_equal(ls_numbers(ls_row(x, 2)), memory + 4);
    ls_tensor *later = ls_hold(ls_relu(ls_to(x, ls_cpu(0)))), *row = ls_hold(ls_row(x, 1));
    ls_wait(s); /* for the copy */
    memory[5] = -7;
    assert_true(ls_item(ls_row(ls_row(x, 2), 1)) == -7);
    ls_assign(x, ls_full(s, 8, LS_SHAPE(3, 2)));
    ls_wait(s);
    assert_true(memory[0] == 8 && memory[5] == 8);
    ls_leave(s, scope);
    ls_drop(x);
    float values[6];
    assert_int_equal(ls_read(later, values, 6), LS_OK);
    ls_drop(later);
    assert_int_equal(ended, 0); /* the row has them */
    ls_drop(row);
    ls_wait(s);
    assert_int_equal(ended, 1);
    assert_non_null(ls_values_at(s, memory, LS_SHAPE(6), count_end, &ended));
    ls_tensor *here = ls_zeros(s, LS_SHAPE(4));
    ls_numbers(here)[3] = 5;
    assert_true(ls_item(ls_row(here, 3)) == 5);
    assert_null(ls_numbers(ls_to(here, ls_cpu(0))));
    assert_int_equal(ls_status_of(s), LS_BAD_ARGUMENT);
    assert_string_equal(ls_message(s),
                        "ls_numbers: the tensor is on cpu(0); ls_to(tensor, ls_host()) brings it to the host");
    assert_null(ls_values_at(s, memory, LS_SHAPE(6), count_end, &ended));
    assert_int_equal(ended, 2);
    ls_catch(s, LS_BAD_ARGUMENT);
    assert_null(ls_values_at(s, memory, LS_SHAPE(-6), count_end, &ended));
    assert_int_equal(ended, 3);
    ls_catch(s, LS_BAD_SHAPE);
    assert_null(ls_values_at(s, NULL, LS_SHAPE(6), count_end, &ended));
    assert_int_equal(ended, 4);
    assert_int_equal(ls_status_of(s), LS_BAD_ARGUMENT);
    ls_close(s);
    assert_int_equal(ended, 5);
    assert_null(ls_values_at(NULL, memory, LS_SHAPE(6), count_end, &ended));
    assert_null(ls_numbers(NULL));
    free(memory);
}

static void data_ends(void **state)
{
    (void)state;
    counted c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    ls_session *s = ls_open(&(ls_options){.allocator = &(ls_allocator){count_allocate, count_release, &c}});
    ls_data *first = some_data(s, 3);
    long alive = 0;
    for (int round = 0; round < ROUNDS; round++) {
        ls_data *data = some_data(s, 3);
        int scope = ls_enter(s); /* whose end is told by the data, the youngest then */
        ls_batch b;
        assert_true(ls_data_next(data, &b));
        ls_tensor *X = ls_hold(b.X);
        assert_int_equal(ls_end(data), LS_OK);
        assert_true(ls_item(ls_sum(ls_relu(X))) > 0);
        ls_drop(X);
        ls_leave(s, scope);
        assert_int_equal(ls_data_rows(first), 8);
        if (round == EARLY)
            alive = test_alive(&c);
    }
    assert_true(test_rounds_leave_nothing(&c, alive, ROUNDS - 1 - EARLY));
    assert_int_equal(ls_end(NULL), LS_BAD_ARGUMENT);
    ls_end(ls_zeros(s, LS_SHAPE(1)));
    assert_caught(s, LS_BAD_ARGUMENT,
                  "ls_end: this is no data set, trainer, profile or folder of checkpoints of the "
                  "session, or a trainer whose profile or checkpoints are still there");
    ls_fail(s, LS_IO, "a failure");
    assert_int_equal(ls_end(first), LS_IO);
    assert_int_equal(ls_close(s), LS_IO);
    assert_int_equal(c.alive, 0);
}

static void values_end(void **state)
{
    (void)state;
    counted c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    ls_session *s = ls_open(&(ls_options){.allocator = &(ls_allocator){count_allocate, count_release, &c}});
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), ls_nn_linear(s, 3)));
    long alive = 0;
    assert_int_equal(ls_module_end(net), LS_OK); /* which has none */
    for (int round = 0; round < ROUNDS; round++) {
        int scope = ls_enter(s);
        ls_module_initialize(net, test_cpus(2), NULL);
        ls_tensor *y = ls_module_infer(net, ls_zeros(s, LS_SHAPE(2, 1, 4, 4)));
        ls_tensor *weight = ls_module_param(net, "1.weight", ls_cpu(0));
        assert_int_equal(ls_dim(weight, 1), 16);
        ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
        assert_int_equal(ls_module_end(net), LS_BAD_ARGUMENT);
        assert_caught(s, LS_BAD_ARGUMENT, "ls_module_end: the network has a trainer; ls_end ends it");
        assert_int_equal(ls_end(trainer), LS_OK);
        assert_int_equal(ls_module_end(net), LS_OK);
        ls_tensor *stale[] = {y, weight};
        for (int i = 0; i < 2; i++) {
            assert_int_equal(ls_read(stale[i], (float[48]){0}, i ? 48 : 6), LS_STALE);
            assert_true(ls_catch(s, LS_STALE));
        }
        ls_leave(s, scope);
        if (round == EARLY)
            alive = test_alive(&c);
    }
    assert_true(test_rounds_leave_nothing(&c, alive, ROUNDS - 1 - EARLY));
    assert_int_equal(ls_module_end(NULL), LS_BAD_ARGUMENT);
    assert_int_equal(ls_close(s), LS_OK);
    assert_int_equal(c.alive, 0);
}

/* A loop that draws by a new key each time holds no more after it; a copy bears the name on. */
static void names_go_with_their_tensors(void **state)
{
    (void)state;
    counted c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    ls_allocator allocator = {count_allocate, count_release, &c};
    ls_session *s = ls_open(&(ls_options){.allocator = &allocator});
    ls_tensor *last = ls_track(ls_randn(s, "weights", 1, LS_SHAPE(2)));
    long before = 0;
    for (int i = 0; i < 1000; i++) {
        char key[48];
        if (i == 1)
            before = test_alive(&c);
        int scope = ls_enter(s);
        snprintf(key, sizeof key, "noise %d", i);
        ls_tensor *noise = ls_randn(s, key, 1, LS_SHAPE(2)), *again = ls_uniform(s, key, LS_SHAPE(2));
        ls_tensor *copy = ls_clone(noise, ls_cpu(0));
        snprintf(key, sizeof key, "a part %d", i);
        ls_named(ls_row(noise, 1), key);
        ls_named(again, "the same");
        assert_null(ls_grad(copy));
        snprintf(key, sizeof key, "ls_grad: noise %d on cpu(0)", i);
        assert_caught(s, LS_BAD_ARGUMENT, key);
        ls_leave(s, scope);
    }
    assert_true(test_rounds_leave_nothing(&c, before, 999));
    ls_tensor *gradient = ls_grad(last);
    ls_named(last, "others");
    ls_read(gradient, (float[2]){0}, 2);
    assert_caught(s, LS_STALE, "ls_read: the gradient of others on the host is empty; no backward pass has reached it");
    assert_int_equal(ls_close(s), LS_OK);
    assert_int_equal(c.alive, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(making),
        cmocka_unit_test(making_refuses),
        cmocka_unit_test(null_and_failed_sessions_are_inert),
        cmocka_unit_test(copying),
        cmocka_unit_test(copying_refuses),
        cmocka_unit_test(cutting_and_joining),
        cmocka_unit_test(cutting_batches),
        cmocka_unit_test(reading),
        cmocka_unit_test(computing_needs_images),
        cmocka_unit_test(changed_operands_are_stale),
        cmocka_unit_test(scopes),
        cmocka_unit_test(data_goes_with_its_scope),
        cmocka_unit_test(batches_are_scopes),
        cmocka_unit_test(held_tensors),
        cmocka_unit_test(numbers_lie_in_the_callers_memory),
        cmocka_unit_test(data_ends),
        cmocka_unit_test(values_end),
        cmocka_unit_test(names_go_with_their_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
