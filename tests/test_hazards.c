/* What must not happen: stale numbers, operands that are gone, memory of others, and work that overtakes other work. */
#include "tensors.h"

#include <fenv.h>
#include <math.h>
#include <lockstep_nn.h>

static const float numbers[4] = {1, -2, 3, -4};
static const uint8_t pixels[8 * 4 * 4] = {9, 8, 7, 200}, classes_of[8] = {0, 1, 2, 0, 1, 2, 0, 1};

static ls_data *some_data(ls_session *s)
{
    return ls_data_from_memory(s, pixels, classes_of, 8, 1, 4, 4, 3, &(ls_loader){.batch = 8});
}

/* A network with BatchNorm, on one device. */
static ls_module *some_net(ls_session *s, int classes)
{
    ls_module *net = ls_sequential(s, NULL);
    ls_module_append(net, NULL, ls_nn_conv2d(s, 2, 3, NULL));
    ls_module_append(net, NULL, ls_nn_batch_norm(s));
    ls_module_append(net, NULL, ls_nn_fn(s, ls_flatten));
    ls_module_append(net, NULL, ls_nn_linear(s, classes));
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL);
    return net;
}

static ls_trainer *some_trainer(ls_module *net)
{
    return ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
}

static ls_tensor *loss_of(ls_module *net, ls_tensor *X, ls_tensor *y)
{
    return ls_sum(ls_cross_entropy(ls_module_forward(net, X), y));
}

static void assert_numbers(ls_tensor *t, float a, float b, float c, float d)
{
    float values[4] = {0}, wanted[4] = {a, b, c, d};
    assert_int_equal(ls_read(t, values, 4), LS_OK);
    assert_memory_equal(values, wanted, sizeof values);
}

static void assert_failed(ls_session *s, ls_status status, const char *words)
{
    assert_int_equal(ls_status_of(s), status);
    if (!strstr(ls_message(s), words))
        fail_msg("the message is \"%s\"", ls_message(s));
    assert_int_equal(ls_close(s), status);
}

/* Two computations that differ only in what was read before. */
static void a_read_operand(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_tensor *x = ls_values(s, numbers, LS_SHAPE(2, 2));
    assert_numbers(ls_add(x, ls_relu(x)), 2, -2, 6, -4);
    ls_tensor *y = ls_relu(x);
    assert_numbers(y, 1, 0, 3, 0);
    ls_assign(x, ls_full(s, 10, LS_SHAPE(2, 2)));
    assert_numbers(ls_add(x, y), 11, 10, 13, 10);
    assert_numbers(ls_add(x, ls_relu(x)), 20, 20, 20, 20);
    assert_int_equal(ls_close(s), LS_OK);
}

static void gradients_of_tensors_with_other_names(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_tensor *a = ls_track(ls_randn(s, "a", 1, LS_SHAPE(2, 2))), *b = ls_track(ls_randn(s, "b", 1, LS_SHAPE(2, 2)));
    ls_backward(ls_sum(ls_matmul(ls_full(s, 1, LS_SHAPE(2, 2)), a)));
    assert_numbers(ls_grad(a), 2, 2, 2, 2);
    ls_backward(ls_sum(ls_matmul(ls_full(s, 1, LS_SHAPE(50, 2)), b))); /* a larger plan of the same computation */
    assert_numbers(ls_grad(b), 50, 50, 50, 50);
    assert_int_equal(ls_close(s), LS_OK);
}

static void a_loss_for_each_image(void **state)
{
    (void)state;
    enum { ROWS = 40 };
    ls_session *s = ls_open(NULL);
    ls_tensor *w = ls_track(ls_values(s, numbers, LS_SHAPE(2, 2)));
    ls_tensor *loss = ls_sum_each(ls_matmul(ls_full(s, 1, LS_SHAPE(ROWS, 2)), w));
    ls_backward(loss);
    float values[ROWS];
    assert_int_equal(ls_read(loss, values, ROWS), LS_OK);
    for (int i = 0; i < ROWS; i++)
        assert_float_equal(values[i], -2, 0);
    assert_int_equal(ls_close(s), LS_OK);
}

static void the_gradient_of_no_images(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    int scope = ls_enter(s);
    for (int i = 0; i < 8; i++)
        ls_full(s, 777, LS_SHAPE(2, 2)); /* memory to be used again */
    ls_leave(s, scope);
    ls_tensor *w = ls_track(ls_values(s, numbers, LS_SHAPE(2, 2)));
    ls_backward(ls_sum(ls_matmul(ls_zeros(s, LS_SHAPE(0, 2)), w)));
    assert_numbers(ls_grad(w), 0, 0, 0, 0);
    assert_int_equal(ls_close(s), LS_OK);
}

static void a_gradient_that_is_not_finite(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *net = some_net(s, 3);
    some_trainer(net);
    ls_backward(loss_of(net, ls_full(s, INFINITY, LS_SHAPE(8, 1, 4, 4)), ls_zeros(s, LS_SHAPE(8))));
    assert_string_equal(ls_str(ls_grad(ls_module_param(net, "0.weight", ls_cpu(0)))), "");
    assert_failed(s, LS_NOT_FINITE, "step 1: the loss of shard 0 is not finite; a lower learning rate may help");
}

static void a_gradient_of_two_trainers(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *net = some_net(s, 3);
    int scope = ls_enter(s);
    some_trainer(net);
    ls_backward(loss_of(net, ls_full(s, 1, LS_SHAPE(8, 1, 4, 4)), ls_zeros(s, LS_SHAPE(8))));
    float first[3], second[3] = {0};
    ls_read(ls_grad(ls_module_param(net, "3.bias", ls_cpu(0))), first, 3);
    ls_leave(s, scope);
    some_trainer(net);
    ls_read(ls_grad(ls_module_param(net, "3.bias", ls_cpu(0))), second, 3);
    assert_memory_equal(first, second, sizeof first);
    assert_int_equal(ls_close(s), LS_OK);
}

static void statistics_on_a_device(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_batch b;
    assert_true(ls_data_next(some_data(s), &b));
    float values[24];
    assert_int_equal(ls_read(ls_module_forward(some_net(s, 3), ls_to(b.X, ls_cpu(0))), values, 24), LS_OK);
    assert_int_equal(ls_close(s), LS_OK);
}

/* The fingerprint after steps on copies that a device makes, which are written again where `again`. */
static void train(bool again, char digits[65])
{
    ls_session *s = ls_open(NULL);
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_linear(s, 3)));
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0,cpu:1"), NULL);
    ls_trainer *trainer = some_trainer(net);
    ls_tensor *from[] = {ls_full(s, 1, LS_SHAPE(6400, 100)), ls_full(s, 2, LS_SHAPE(6400, 100))};
    ls_tensor *y = ls_clone(ls_zeros(s, LS_SHAPE(6400)), ls_cpu(1));
    for (int i = 0; i < 10; i++) {
        ls_tensor *X = ls_clone(from[i % 2], ls_cpu(1));
        ls_backward(loss_of(net, X, y));
        ls_trainer_step(trainer);
        if (again)
            ls_assign(X, from[1 - i % 2]);
    }
    assert_int_equal(ls_module_fingerprint(net, digits), LS_OK);
    assert_int_equal(ls_close(s), LS_OK);
}

static void operands_of_steps_in_flight(void **state)
{
    (void)state;
    char once[65], again[65];
    train(false, once);
    train(true, again);
    assert_string_equal(once, again);
}

static void an_operand_changed_before_its_step(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *net = some_net(s, 3);
    ls_trainer *trainer = some_trainer(net);
    ls_tensor *X = ls_full(s, 1, LS_SHAPE(8, 1, 4, 4));
    ls_backward(loss_of(net, X, ls_zeros(s, LS_SHAPE(8))));
    ls_assign(X, ls_full(s, 2, LS_SHAPE(8, 1, 4, 4)));
    assert_int_equal(ls_trainer_step(trainer), LS_STALE);
    assert_failed(s, LS_STALE,
                  "ls_trainer_step: what a backward pass reads was changed after ls_backward; call ls_clear_grad, and "
                  "change it after ls_trainer_step");
}

static void data_that_a_step_outlives(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *net = some_net(s, 3);
    ls_trainer *trainer = some_trainer(net);
    int scope = ls_enter(s);
    ls_batch b;
    assert_true(ls_data_next(some_data(s), &b));
    ls_backward(loss_of(net, b.X, b.y));
    ls_tensor *X = ls_keep(ls_keep(b.X));
    ls_leave(s, scope);
    assert_int_equal(ls_trainer_step(trainer), LS_OK);
    float values[8 * 16];
    assert_int_equal(ls_read(X, values, 8 * 16), LS_OK);
    assert_float_equal(values[3], 200.0f / 255.0f, 0);
    assert_int_equal(ls_close(s), LS_OK);
}

static void tensors_that_outlive_their_network(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++) {
        ls_session *s = ls_open(NULL);
        ls_tensor *X = ls_full(s, 1, LS_SHAPE(8, 1, 4, 4));
        int scope = ls_enter(s);
        ls_module *net = some_net(s, 3);
        ls_tensor *call = ls_keep(ls_module_infer(net, X)), *sum = ls_keep(ls_sum(call));
        ls_tensor *weight = ls_keep(ls_module_param(net, "0.weight", ls_cpu(0)));
        ls_leave(s, scope);
        ls_tensor *all[] = {call, sum, weight};
        assert_string_equal(ls_str(all[which]), "");
        assert_failed(s, LS_STALE, "the values of the tensor's network went with their scope");
    }
}

static ls_tensor *leaked;

static ls_tensor *leaking(ls_module *self, ls_tensor *x)
{
    (void)self;
    return ls_flatten(leaked = ls_relu(x));
}

static void a_tensor_of_a_forward(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *net = ls_block(s, leaking, NULL);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL);
    ls_module_infer(net, ls_full(s, 1, LS_SHAPE(8, 1, 4, 4)));
    assert_string_equal(ls_str(leaked), "");
    assert_failed(s, LS_UNSUPPORTED, "forward");
}

static void images_that_do_not_fit_and_others_that_do(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *net = some_net(s, 3);
    assert_null(ls_module_infer(net, ls_full(s, 1, LS_SHAPE(2, 3, 2, 2))));
    assert_true(ls_catch(s, LS_BAD_SHAPE));
    float values[6];
    assert_int_equal(ls_read(ls_module_infer(net, ls_full(s, 1, LS_SHAPE(2, 1, 4, 4))), values, 6), LS_OK);
    assert_int_equal(ls_close(s), LS_OK);
}

static void copy_first(const ls_custom_call *call, const float *const in[], float *out)
{
    memcpy(out, in[0], (size_t)(call->rows * call->out[0]) * sizeof *out);
}

static ls_tensor *sums(ls_session *s)
{
    ls_tensor *x = ls_full(s, 1, LS_SHAPE(2, 2));
    return ls_add(ls_sum(x), ls_sum(x));
}

static ls_tensor *other_rows(ls_session *s)
{
    ls_tensor *in[] = {ls_full(s, 1, LS_SHAPE(4, 2)), ls_full(s, 1, LS_SHAPE(2, 2))};
    return ls_custom_op(&(ls_custom){.name = "own", .inputs = 2, .forward = copy_first}, in);
}

static ls_tensor *huge_map(ls_session *s)
{
    return ls_conv2d(ls_full(s, 1, LS_SHAPE(1, 1, 4, 4)), ls_full(s, 1, LS_SHAPE(1, 1, 1, 1)), NULL,
                     &(ls_conv){.padding = 1 << 24});
}

static ls_tensor *huge_window(ls_session *s)
{
    return ls_avg_pool2d(ls_full(s, 1, LS_SHAPE(1, 1, 4, 4)),
                         &(ls_pool){.kernel = INT32_MAX, .padding = INT32_MAX / 2});
}

static ls_tensor *huge_rows(ls_session *s)
{
    return ls_zeros(s, LS_SHAPE(0, INT32_MAX, INT32_MAX, INT32_MAX));
}

static void shapes_without_meaning(void **state)
{
    (void)state;
    ls_tensor *(*const makes[])(ls_session *) = {sums, other_rows, huge_map, huge_window, huge_rows};
    for (size_t i = 0; i < sizeof makes / sizeof *makes; i++) {
        ls_session *s = ls_open(NULL);
        assert_null(makes[i](s));
        assert_failed(s, LS_BAD_SHAPE, "");
    }
}

static void labels_beyond_the_logits(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_batch b;
    assert_true(ls_data_next(some_data(s), &b));
    ls_item(ls_sum(ls_cross_entropy(ls_module_infer(some_net(s, 2), b.X), b.y)));
    assert_failed(s, LS_BAD_ARGUMENT, " is 2; the logits have the classes 0 to 1");
}

/* A step with such a label changes nothing. */
static void labels_beyond_the_logits_in_a_step(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_batch b;
    char before[65], after[65];
    assert_true(ls_data_next(some_data(s), &b));
    ls_module *net = some_net(s, 2);
    ls_trainer *trainer = some_trainer(net);
    ls_item(ls_sum(ls_module_infer(net, b.X))); /* it learns its shapes */
    assert_int_equal(ls_module_fingerprint(net, before), LS_OK);
    ls_backward(loss_of(net, b.X, b.y));
    ls_trainer_step(trainer);
    ls_wait(s);
    assert_caught(s, LS_BAD_ARGUMENT, " is 2; the logits have the classes 0 to 1");
    assert_int_equal(ls_module_fingerprint(net, after), LS_OK);
    assert_string_equal(before, after);
    assert_int_equal(ls_close(s), LS_OK);
}

/* More classes than a byte can tell apart. */
static void labels_of_a_thousand_classes(void **state)
{
    (void)state;
    enum { ROWS = 3, WIDE = 1000 };
    static const float labels[ROWS] = {0, 300, 999};
    static float logits[ROWS][WIDE];
    ls_session *s = ls_open(NULL);
    for (int i = 0; i < ROWS; i++)
        logits[i][(int)labels[i]] = 50;
    ls_tensor *x = ls_track(ls_values(s, logits[0], LS_SHAPE(ROWS, WIDE))), *y = ls_values(s, labels, LS_SHAPE(ROWS));
    ls_tensor *loss = ls_sum(ls_cross_entropy(x, y));
    assert_true(ls_item(loss) < 1e-6);
    ls_backward(loss);
    float *gradient = test_read(ls_grad(x));
    for (int i = 0; i < ROWS * WIDE; i++)
        assert_true(fabsf(gradient[i]) < 1e-6f);
    free(gradient);
    assert_int_equal(ls_close(s), LS_OK);
}

static void devices_that_do_not_compute(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_batch b;
    ls_tensor *parts[1];
    assert_true(ls_data_next(some_data(s), &b));
    assert_int_equal(ls_scatter(b.X, (ls_devices){1, {{LS_CPU, -3}}}, parts), LS_NO_DEVICE);
    assert_failed(s, LS_NO_DEVICE, "cpu(-3)");
    s = ls_open(NULL);
    assert_null(ls_to(ls_values(s, numbers, LS_SHAPE(2, 2)), ls_cpu(65536)));
    assert_failed(s, LS_NO_DEVICE, "ls_to: there is no cpu(-1); CPU devices go from 0 to 255");
    s = ls_open(NULL);
    assert_int_equal(ls_module_initialize(ls_lenet(s), (ls_devices){1, {ls_host()}}, NULL), LS_BAD_ARGUMENT);
    assert_failed(s, LS_BAD_ARGUMENT, "host");
}

static void a_gradient_as_an_operand(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_tensor *w = ls_track(ls_values(s, numbers, LS_SHAPE(2, 2))), *x = ls_full(s, 1, LS_SHAPE(2, 2));
    ls_backward(ls_sum(ls_matmul(x, w)));
    ls_tensor *twice = ls_scale(ls_grad(w), 2);
    ls_backward(ls_sum(ls_matmul(x, w)));
    assert_string_equal(ls_str(twice), "");
    assert_failed(s, LS_STALE, "changed");
}

static void a_networks_parameter_as_an_operand(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_linear(s, 3)));
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    ls_tensor *X = ls_full(s, 1, LS_SHAPE(2, 4)), *y = ls_zeros(s, LS_SHAPE(2));
    ls_backward(loss_of(net, X, y));
    ls_tensor *before = ls_scale(ls_module_param(net, "0.weight", ls_host()), 1), *late = ls_scale(before, 2);
    assert_string_not_equal(ls_str(before), "");
    assert_int_equal(ls_trainer_step(trainer), LS_OK);
    ls_tensor *after = ls_scale(ls_module_param(net, "0.weight", ls_host()), 1);
    assert_true(ls_item(ls_sum(after)) != ls_item(ls_sum(before))); /* which was computed in time */
    assert_true(ls_item(ls_sum(late)) == 2 * ls_item(ls_sum(before)));
    ls_tensor *never = ls_scale(ls_module_param(net, "0.weight", ls_host()), 3);
    ls_backward(loss_of(net, X, y));
    ls_trainer_step(trainer);
    ls_item(ls_sum(never));
    assert_failed(s, LS_STALE, "changed");
}

/* The fingerprint after a step that fails, and one more that is handed in meanwhile or refused. */
static void train_on(bool wait, char digits[65])
{
    ls_session *s = ls_open(NULL);
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_linear(s, 3)));
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL);
    ls_trainer *trainer =
        ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1, .momentum = 0.9, .schedule = LS_STEP_SCHEDULE, .total = 4});
    ls_tensor *X = ls_full(s, 1, LS_SHAPE(640, 200)), *y = ls_zeros(s, LS_SHAPE(640));
    ls_tensor *bad = ls_full(s, INFINITY, LS_SHAPE(640, 200)), *in_turn[] = {X, bad, X, X};
    for (int i = 0; i < 4; i++) {
        if (i == 3) {
            ls_wait(s);
            assert_true(ls_catch(s, LS_NOT_FINITE));
            ls_clear_grad(ls_module_param(net, "0.weight", ls_cpu(0)));
        }
        ls_backward(loss_of(net, in_turn[i], y));
        ls_trainer_step(trainer);
        if (wait)
            ls_wait(s);
    }
    assert_int_equal(ls_module_fingerprint(net, digits), LS_OK);
    assert_int_equal(ls_close(s), LS_OK);
}

static void training_on_after_a_failure(void **state)
{
    (void)state;
    char waited[65], not_waited[65];
    train_on(true, waited);
    train_on(false, not_waited);
    assert_string_equal(waited, not_waited);
}

static void more_shards_than_a_sum_takes(void **state)
{
    (void)state;
    ls_session *s = ls_open(&(ls_options){.shard = 1});
    ls_tensor *x = ls_clone(ls_zeros(s, LS_SHAPE((1 << 23) + 1, 1)), ls_cpu(0));
    ls_item(ls_sum(ls_relu(x)));
    assert_caught(s, LS_UNSUPPORTED,
                  "8388609 shards are more than the 8388608 that a sum takes; larger ones are fewer");
    assert_int_equal(ls_close(s), LS_OK);
}

/* A factor that changes makes a new computation each time; what is kept of them has an end. */
static void computations_that_never_come_again(void **state)
{
    (void)state;
    counted c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    ls_allocator allocator = {count_allocate, count_release, &c};
    ls_session *s = ls_open(&(ls_options){.allocator = &allocator});
    ls_tensor *x = ls_clone(ls_full(s, 1, LS_SHAPE(4, 4)), ls_cpu(0));
    long alive = 0, again = 0;
    for (int i = 0; i < 1500; i++) {
        int scope = ls_enter(s);
        if (i % 50 == 0) { /* what does come again is not made again, however many came between */
            assert_int_equal(ls_wait(s), LS_OK);
            const long made = test_made(&c);
            assert_true(ls_item(ls_sum(ls_scale(x, 7))) == 112);
            assert_int_equal(ls_wait(s), LS_OK);
            const long now = test_made(&c) - made;
            assert_true(i <= 50 || now <= again);
            again = i == 50 ? now : again;
        }
        ls_tensor *y = ls_scale(x, 1 + i / 1024.0);
        if (i % 4 == 0)
            assert_true(ls_item(ls_sum(y)) == 16 + i / 64.0);
        else
            ls_backward(ls_sum(ls_matmul(y, ls_track(ls_clone(ls_full(s, 1, LS_SHAPE(4, 1)), ls_cpu(0))))));
        ls_leave(s, scope);
        if (i == 700) {
            assert_int_equal(ls_wait(s), LS_OK);
            alive = test_alive(&c);
        }
    }
    assert_int_equal(ls_wait(s), LS_OK);
    assert_true(test_alive(&c) <= alive + alive / 10);
    assert_int_equal(ls_close(s), LS_OK);
    assert_int_equal(c.alive, 0);
}

/* The caller may round as it likes; numbers on the host are added as everywhere else. */
static void the_callers_arithmetic(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_tensor *sum = ls_full(s, 1, LS_SHAPE(1)), *little = ls_full(s, 0x1p-30, LS_SHAPE(1));
    assert_int_equal(fesetround(FE_UPWARD), 0);
    ls_add_to(sum, little);
    assert_int_equal(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
    assert_true(ls_item(sum) == 1);
    assert_int_equal(ls_close(s), LS_OK);
}

/* No chain of operations is longer than the stack is deep. */
static void long_chains(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_tensor *total = ls_full(s, 1, LS_SHAPE(1, 1)), *one = ls_full(s, 1, LS_SHAPE(1, 1));
    int scope = ls_enter(s);
    ls_tensor *sum = total;
    for (int i = 0; i < 300000; i++)
        sum = ls_add(sum, one);
    ls_str(sum);
    assert_caught(s, LS_UNSUPPORTED,
                  "this computation cannot be run: more than 4096 operations lead to it, one after another; read a "
                  "number on the way");
    ls_leave(s, scope);
    for (int i = 0; i < 4000; i++)
        total = ls_add(total, one);
    assert_true(ls_item(total) == 4001);
    assert_int_equal(ls_close(s), LS_OK);
}

/* A label that is none fails on the device; what was to be computed then is never shown as a number. */
static void numbers_lost_with_a_failure(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    const ls_device device = ls_cpu(0);
    ls_tensor *w = ls_track(ls_clone(ls_randn(s, "w", 0.1, LS_SHAPE(4, 3)), device));
    ls_tensor *x = ls_clone(ls_uniform(s, "x", LS_SHAPE(2, 4)), device);
    float right[] = {0, 2}, wrong[] = {0, 7};
    double expected =
        ls_item(ls_sum(ls_cross_entropy(ls_matmul(x, w), ls_clone(ls_values(s, right, LS_SHAPE(2)), device))));
    assert_int_equal(ls_wait(s), LS_OK);
    ls_tensor *loss = ls_sum(ls_cross_entropy(ls_matmul(x, w), ls_clone(ls_values(s, wrong, LS_SHAPE(2)), device)));
    ls_backward(loss);
    assert_int_equal(ls_wait(s), LS_BAD_ARGUMENT);
    assert_true(ls_catch(s, LS_BAD_ARGUMENT));
    ls_str(ls_grad(w));
    assert_true(ls_catch(s, LS_STALE));
    ls_sgd_step(&w, 1, 0.1, 2);
    assert_true(ls_catch(s, LS_STALE));
    ls_assign(w, ls_randn(s, "w", 0.1, LS_SHAPE(4, 3)));
    ls_assign(x, ls_uniform(s, "x", LS_SHAPE(2, 4)));
    loss = ls_sum(ls_cross_entropy(ls_matmul(x, w), ls_clone(ls_values(s, right, LS_SHAPE(2)), device)));
    ls_backward(loss);
    assert_true(ls_item(loss) == expected);
    assert_int_equal(ls_sgd_step(&w, 1, 0.1, 2), LS_OK);
    assert_int_equal(ls_close(s), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_operand),
        cmocka_unit_test(gradients_of_tensors_with_other_names),
        cmocka_unit_test(a_loss_for_each_image),
        cmocka_unit_test(the_gradient_of_no_images),
        cmocka_unit_test(a_gradient_that_is_not_finite),
        cmocka_unit_test(a_gradient_of_two_trainers),
        cmocka_unit_test(statistics_on_a_device),
        cmocka_unit_test(operands_of_steps_in_flight),
        cmocka_unit_test(an_operand_changed_before_its_step),
        cmocka_unit_test(data_that_a_step_outlives),
        cmocka_unit_test(tensors_that_outlive_their_network),
        cmocka_unit_test(a_tensor_of_a_forward),
        cmocka_unit_test(images_that_do_not_fit_and_others_that_do),
        cmocka_unit_test(shapes_without_meaning),
        cmocka_unit_test(labels_beyond_the_logits),
        cmocka_unit_test(labels_beyond_the_logits_in_a_step),
        cmocka_unit_test(labels_of_a_thousand_classes),
        cmocka_unit_test(devices_that_do_not_compute),
        cmocka_unit_test(a_gradient_as_an_operand),
        cmocka_unit_test(a_networks_parameter_as_an_operand),
        cmocka_unit_test(training_on_after_a_failure),
        cmocka_unit_test(more_shards_than_a_sum_takes),
        cmocka_unit_test(computations_that_never_come_again),
        cmocka_unit_test(the_callers_arithmetic),
        cmocka_unit_test(long_chains),
        cmocka_unit_test(numbers_lost_with_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
