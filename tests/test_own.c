/* Networks put together from single operations and the user's own: the gradients of all their parameters against finite
 * differences of the loss, the same bits on every backend, rows that come out as they went in, what is refused, and
 * memory that runs out. */
#include "support.h"
#include "training.h"

#include <lockstep.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 37, CHANNELS = 3, SIZE = 4, CLASSES = 5, SHARD = 20 };

static uint8_t images[ROWS * CHANNELS * SIZE * SIZE], labels[ROWS];

static int make_images(void **state)
{
    (void)state;
    test_make_images(images, sizeof images, labels, ROWS, CLASSES);
    return 0;
}

/* ---- A user's operation: x * w, one w for each number of an image ---- */

static size_t numbers_in(const ls_custom_call *call)
{
    return (size_t)call->rows * call->out[0] * call->out[1] * call->out[2];
}

static bool weigh_shape(ls_custom_call *call)
{
    return call->rows == 0 && call->in[1][0] == call->out[0] * call->out[1] * call->out[2];
}

static void weigh(const ls_custom_call *call, const float *const in[], float *out)
{
    for (size_t i = 0; i < numbers_in(call); i++) {
        out[i] = in[0][i] * in[1][i % call->in[1][0]];
    }
}

static void weigh_backward(const ls_custom_call *call, const float *const in[], const float *out, const float *dout,
                           float *const din[])
{
    (void)out;
    for (size_t i = 0; i < numbers_in(call); i++) {
        if (din[0]) {
            din[0][i] = dout[i] * in[1][i % call->in[1][0]];
        }
        din[1][i % call->in[1][0]] += dout[i] * in[0][i];
    }
}

static const ls_custom weighing = {
    .name = "weigh", .inputs = 2, .parameters = 2, .shape = weigh_shape, .forward = weigh, .backward = weigh_backward};

/* ---- A network of everything ---- */

static ls_tensor *parameter(ls_module *self, const char *name, int64_t outputs, int64_t inputs)
{
    return ls_module_parameter(self, name, LS_SHAPE(outputs, inputs));
}

static ls_tensor *everything(ls_module *self, ls_tensor *x)
{
    enum { MAPS = 6, JOINED = 2 * MAPS + CHANNELS, NUMBERS = JOINED * SIZE * SIZE };
    ls_tensor *kernel = ls_module_parameter(self, "kernel", LS_SHAPE(MAPS, CHANNELS, 3, 3));
    ls_tensor *y = ls_conv2d(x, kernel, NULL, &(ls_conv){.padding = 1});
    ls_tensor *bent = ls_tanh(y), *gate = ls_sigmoid(ls_scale(y, -1.5));
    ls_tensor *product = ls_multiply(bent, gate);
    ls_tensor *turned = ls_reshape(ls_tanh(ls_reshape(gate, SIZE, MAPS, SIZE)), MAPS, SIZE, SIZE);
    ls_tensor *joined = ls_concat((ls_tensor *[]){product, ls_subtract(bent, turned), x}, 3);
    ls_tensor *own = ls_custom_op(&weighing, (ls_tensor *[]){joined, parameter(self, "own", NUMBERS, 1)});
    ls_tensor *square = ls_multiply(own, own);
    ls_tensor *features = ls_linear(ls_flatten(square), parameter(self, "w", CLASSES, NUMBERS), NULL);
    ls_tensor *error = ls_mse(features, ls_softmax(features));
    ls_tensor *all =
        ls_concat((ls_tensor *[]){features, ls_flatten(error), ls_flatten(ls_scale(ls_sum_each(joined), 0.05)),
                                  ls_flatten(ls_mean_each(own))},
                  4);
    return ls_linear(all, parameter(self, "v", CLASSES, CLASSES + 3), NULL);
}

/* A pool reads the sum of a rectified map and the one that it is made of: the pool's gradient goes to both, and no mask
 * of one may lie on the other's. */
static ls_tensor *pooled(ls_module *self, ls_tensor *x, ls_tensor *(*pool)(ls_tensor *x, const ls_pool *how))
{
    enum { MAPS = 4 };
    ls_tensor *one = ls_tanh(
        ls_conv2d(x, ls_module_parameter(self, "one", LS_SHAPE(MAPS, CHANNELS, 3, 3)), NULL, &(ls_conv){.padding = 1}));
    ls_tensor *two = ls_relu(
        ls_conv2d(one, ls_module_parameter(self, "two", LS_SHAPE(MAPS, MAPS, 3, 3)), NULL, &(ls_conv){.padding = 1}));
    ls_tensor *y = ls_flatten(pool(ls_add(two, one), &(ls_pool){.kernel = 2, .stride = 2}));
    return ls_linear(y, parameter(self, "v", CLASSES, MAPS * SIZE), NULL);
}

static ls_tensor *average_of_a_sum(ls_module *self, ls_tensor *x)
{
    return pooled(self, x, ls_avg_pool2d);
}

static ls_tensor *largest_of_a_sum(ls_module *self, ls_tensor *x)
{
    return pooled(self, x, ls_max_pool2d);
}

/* And one of every function of one number, and of operands that are repeated; few numbers come near a corner. */
static ls_tensor *functions(ls_module *self, ls_tensor *x)
{
    enum { MAPS = 6 };
    ls_tensor *y = ls_conv2d(x, ls_module_parameter(self, "kernel", LS_SHAPE(MAPS, CHANNELS, 3, 3)), NULL,
                             &(ls_conv){.padding = 1});
    y = ls_subtract(y, ls_module_parameter(self, "places", LS_SHAPE(SIZE, SIZE)));
    ls_tensor *bent[] = {ls_silu(y), ls_gelu(ls_log_sigmoid(y)), ls_gelu_tanh(y), ls_module_call(self, "leaky", y)};
    ls_tensor *gate = ls_multiply(ls_concat(bent, 4), ls_module_parameter(self, "rows", LS_SHAPE(SIZE, 1)));
    ls_tensor *above = ls_add(ls_exp(ls_clamp(gate, -3, 3)), ls_module_parameter(self, "one", LS_SHAPE(1)));
    ls_tensor *deep = ls_sqrt(ls_add(ls_abs(ls_scale(above, -1)), ls_power(ls_exp(gate), -0.75)));
    ls_tensor *share = ls_divide(gate, ls_global_avg_pool2d(above));
    ls_tensor *all = ls_concat((ls_tensor *[]){share, deep, ls_log(above)}, 3);
    all = ls_multiply(all, ls_module_parameter(self, "spans", LS_SHAPE(12 * MAPS, 1, SIZE)));
    return ls_linear(ls_flatten(ls_global_avg_pool2d(ls_tanh(all))), parameter(self, "w", CLASSES, 12 * MAPS), NULL);
}

/* And one of convolutions that are no squares of neighbouring taps over all channels, and of transposed ones. */
static ls_tensor *convolutions(ls_module *self, ls_tensor *x)
{
    ls_tensor *y = ls_tanh(ls_module_call(self, "grouped", ls_module_call(self, "wide", x)));
    ls_tensor *deep = ls_tanh(ls_module_call(self, "depthwise", y));
    ls_tensor *up = ls_module_call(self, "up", ls_module_call(self, "dilated", ls_add(deep, y)));
    ls_tensor *more = ls_add(ls_module_call(self, "up_depthwise", ls_tanh(up)), up); /* one addition, backward too */
    return ls_module_call(self, "last", ls_flatten(ls_avg_pool2d(more, &(ls_pool){.kernel = 3})));
}

static void add_convolutions(ls_module *net)
{
    ls_session *s = ls_session_of(net);
    ls_module_append(net, "wide", ls_nn_conv2d(s, 6, 1, &(ls_conv){.kernel_w = 3, .padding_w = 1}));
    ls_module_append(net, "grouped", ls_nn_conv2d(s, 6, 3, &(ls_conv){.padding = 1, .groups = 2}));
    ls_module_append(net, "depthwise", ls_nn_conv2d(s, 6, 3, &(ls_conv){.padding = 1, .groups = 6}));
    ls_module_append(net, "dilated", ls_nn_conv2d(s, 4, 2, &(ls_conv){.dilation = 2, .stride = 2, .no_bias = true}));
    ls_module_append(net, "up", ls_nn_conv_transpose2d(s, 6, 3, &(ls_conv){.stride = 2, .output_padding = 1}));
    ls_module_append(net, "up_depthwise",
                     ls_nn_conv_transpose2d(s, 6, 3, &(ls_conv){.groups = 6, .padding = 1, .no_bias = true}));
    ls_module_append(net, "last", ls_nn_linear_with(s, CLASSES, &(ls_linear_options){.no_bias = true}));
}

typedef struct setup {
    ls_session *session;
    ls_data *data;
    ls_module *net;
    ls_trainer *trainer;
    ls_batch batch;
} setup;

static const ls_allocator *allocator; /* NULL: the C library's */

static setup open_setup(ls_isa isa, ls_forward *forward)
{
    setup s = {.session = ls_open(&(ls_options){.seed = 5, .shard = SHARD, .isa = isa, .allocator = allocator})};
    s.data = ls_data_from_memory(s.session, images, labels, ROWS, CHANNELS, SIZE, SIZE, CLASSES,
                                 &(ls_loader){.batch = ROWS});
    s.net = ls_block(s.session, forward, NULL);
    if (forward == functions)
        ls_module_append(s.net, "leaky", ls_nn_fn_with(s.session, ls_leaky_relu, 0.9));
    if (forward == convolutions)
        add_convolutions(s.net);
    ls_module_initialize(s.net, ls_parse_devices(s.session, "cpu:0"), &(ls_init){.scale = 0.3, .like = s.data});
    s.trainer = ls_trainer_new(s.net, LS_SGD, &(ls_optim){.lr = 0.05});
    return s;
}

static double loss_of(const setup *s)
{
    ls_metrics metrics = {0};
    assert_int_equal(ls_module_evaluate(s->net, s->data, &metrics), LS_OK);
    return metrics.loss * ROWS;
}

/* The loss along a random direction of +-1 against the gradient's product with it; the gradient's length is the
 * measure. */
static double slope_error(const setup *s, const ls_parameter_info *info, double length_of_step, const float *slope,
                          test_random *random)
{
    size_t n = (size_t)info->numbers;
    float *values = test_floats(n), *moved = test_floats(n), *direction = test_floats(n);
    double length = 0, product = 0, step = length_of_step / sqrt((double)n), difference = 0;
    assert_int_equal(ls_module_read_parameter(s->net, info->name, values, info->numbers), LS_OK);
    for (size_t i = 0; i < n; i++) {
        length += (double)slope[i] * slope[i];
    }
    length = sqrt(length);
    assert_true(length > 0);
    while (fabs(product) < 0.5 * length) {
        product = 0;
        for (size_t i = 0; i < n; i++) {
            direction[i] = test_u64(random) >> 40 & 1 ? 1.0f : -1.0f;
            product += (double)direction[i] * slope[i];
        }
    }
    for (int side = 1; side >= -1; side -= 2) {
        for (size_t i = 0; i < n; i++) {
            moved[i] = (float)(values[i] + side * step * direction[i]);
        }
        assert_int_equal(ls_module_write_parameter(s->net, info->name, moved, info->numbers), LS_OK);
        difference += side * loss_of(s);
    }
    assert_int_equal(ls_module_write_parameter(s->net, info->name, values, info->numbers), LS_OK);
    free(values);
    free(moved);
    free(direction);
    return fabs(difference / (2 * step) - product) / length;
}

static void assert_slopes(ls_forward *forward, double length_of_step)
{
    test_random random = {.state = 8};
    setup s = open_setup(LS_ISA_AUTO, forward);
    assert_true(ls_data_next(s.data, &s.batch));

    for (int i = 0; i < ls_module_parameter_count(s.net); i++) {
        ls_parameter_info info;
        assert_int_equal(ls_module_parameter_at(s.net, i, &info), LS_OK);
        float *slope = test_floats((size_t)info.numbers);
        ls_backward(test_losses(s.net, &s.batch));
        assert_int_equal(test_read_gradient(s.net, info.name, slope, info.numbers), LS_OK);
        ls_clear_grad(ls_module_param(s.net, info.name, ls_host()));
        double error = slope_error(&s, &info, length_of_step, slope, &random);
        print_message("%-8s off by %.1e of the gradient's length\n", info.name, error);
        assert_true(error < 2e-2);
        free(slope);
    }
    assert_int_equal(ls_close(s.session), LS_OK);
}

static void gradients_are_slopes(void **state)
{
    (void)state;
    assert_slopes(everything, 0.03);
    assert_slopes(functions, 0.03);
    assert_slopes(convolutions, 0.03);
    assert_slopes(average_of_a_sum, 0.0005); /* small steps cross few corners */
    assert_slopes(largest_of_a_sum, 0.0005);
}

static void bits_do_not_depend_on_the_backend(void **state)
{
    static const ls_isa isas[] = {LS_ISA_REFERENCE, LS_ISA_PLAIN, LS_ISA_AVX2, LS_ISA_AUTO};
    char first[65] = "";
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        char digits[65];
        setup s = open_setup(isas[i], *state);
        assert_true(ls_data_next(s.data, &s.batch));
        for (int step = 0; step < 3; step++) {
            assert_int_equal(test_step(s.net, s.trainer, &s.batch), LS_OK);
        }
        assert_int_equal(ls_module_fingerprint(s.net, digits), LS_OK);
        memcpy(first, *first ? first : digits, sizeof first);
        assert_string_equal(digits, first);
        assert_int_equal(ls_close(s.session), LS_OK);
    }
}

/* ---- Rows ---- */

static void copy(const ls_custom_call *call, const float *const in[], float *out)
{
    assert_memory_equal(in[0], call->user, numbers_in(call) * sizeof(float));
    memcpy(out, in[0], numbers_in(call) * sizeof(float));
}

/* INPUT and ROWS undo each other, and a user's function sees the same rows between them. */
static void rows_come_out_as_they_went_in(void **state)
{
    (void)state;
    enum { C = 3, H = 2, W = 5, NUMBERS = C * H * W, INPUT = LS_MAX_INPUTS - 1 };
    for (int count = 1; count <= 33; count += 4) {
        test_random random = {.state = (uint64_t)count};
        size_t n = (size_t)count * NUMBERS;
        test_batch batch = test_batch_new(count, 1, 1);
        float *rows = test_floats(n), *back = test_floats(n);
        ls_operand x = test_activation(&random, C, H, W, count), y = test_activation(&random, C, H, W, count);
        test_fill_normal(&random, rows, n);
        batch.samples.rows[INPUT] = rows;
        const ls_custom op = {.name = "copy", .inputs = 1, .forward = copy, .user = rows};
        ls_attributes how = {.op = LS_OP_INPUT, .input = INPUT, .custom = &op};
        ls_op_call call = {.attributes = &how, .samples = &batch.samples, .out = {x}};
        test_run(test_fastest(), &call);
        how.op = LS_OP_CUSTOM;
        call.in[0] = x;
        call.out[0] = y;
        test_run(test_fastest(), &call);
        how.op = LS_OP_ROWS;
        call.in[0] = y;
        call.out[0] = (ls_operand){back, (int)n, 1, 1};
        test_run(test_fastest(), &call);
        assert_memory_equal(back, rows, n * sizeof(float));
        free(rows);
        free(back);
        free(x.data);
        free(y.data);
        test_batch_free(&batch);
    }
}

/* ---- Refusals ---- */

static ls_tensor *unlike(ls_module *self, ls_tensor *x)
{
    (void)self;
    return ls_multiply(x, ls_flatten(x));
}

static ls_tensor *unlike_error(ls_module *self, ls_tensor *x)
{
    (void)self;
    return ls_mse(x, ls_sum_each(x));
}

static ls_tensor *scaled_by_nan(ls_module *self, ls_tensor *x)
{
    (void)self;
    return ls_scale(x, NAN);
}

static ls_tensor *softmax_of_maps(ls_module *self, ls_tensor *x)
{
    (void)self;
    return ls_softmax(x);
}

static ls_tensor *parts_of_two_sizes(ls_module *self, ls_tensor *x)
{
    (void)self;
    return ls_concat((ls_tensor *[]){x, ls_global_avg_pool2d(x)}, 2);
}

static ls_tensor *more_numbers(ls_module *self, ls_tensor *x)
{
    (void)self;
    return ls_reshape(x, CHANNELS, SIZE, SIZE + 1);
}

static ls_tensor *bent_parameter(ls_module *self, ls_tensor *x)
{
    (void)x;
    return ls_tanh(parameter(self, "w", 1, 1));
}

static ls_tensor *no_child(ls_module *self, ls_tensor *x)
{
    return ls_module_call(self, "deep", x);
}

static ls_tensor *no_child_with_lengths(ls_module *self, ls_tensor *x)
{
    return ls_module_call_with_lengths(self, "deep", x, NULL);
}

static ls_tensor *many_groups(ls_module *self, ls_tensor *x)
{
    return ls_group_norm(x, 2, parameter(self, "w", CHANNELS, 1), NULL, 1e-5);
}

static ls_tensor *long_slice(ls_module *self, ls_tensor *x)
{
    (void)self;
    return ls_slice(x, 2, 1, SIZE + 1);
}

static ls_tensor *own_of_wrong_shape(ls_module *self, ls_tensor *x)
{
    return ls_custom_op(&weighing, (ls_tensor *[]){x, parameter(self, "w", 1, 1)});
}

static ls_tensor *own_without_inputs(ls_module *self, ls_tensor *x)
{
    (void)self;
    return ls_custom_op(&(ls_custom){.name = "none", .forward = weigh}, &x);
}

static ls_tensor *own_without_backward(ls_module *self, ls_tensor *x)
{
    ls_tensor *y = ls_linear(ls_flatten(x), parameter(self, "w", CLASSES, CHANNELS * SIZE * SIZE), NULL);
    return ls_custom_op(&(ls_custom){.name = "one way", .inputs = 1, .forward = copy}, &y);
}

static void wrong_operands_are_refused(void **state)
{
    (void)state;
    static const struct {
        ls_forward *forward;
        ls_status status;
        const char *said;
    } cases[] = {
        {unlike, LS_BAD_SHAPE,
         "ls_multiply: operands must be (images, ...) of as many sizes, each equal to the other's or 1; the second may "
         "be a parameter of fewer, which meet the last ones, or (channels); a is (images, 3, 4, 4), b "
         "(images, 48)"},
        {unlike_error, LS_BAD_SHAPE,
         "ls_mse: both operands must be (images, ...) of one shape; a is (images, 3, 4, 4), b "
         "(images)"},
        {scaled_by_nan, LS_BAD_ARGUMENT, "ls_scale: the factor must be finite"},
        {softmax_of_maps, LS_BAD_SHAPE, "ls_softmax: x must be (images, features); x is (images, 3, 4, 4)"},
        {parts_of_two_sizes, LS_BAD_SHAPE,
         "ls_concat: all parts must be (images, ...) of equal sizes but in dimension 1; part 0 is (images, 3, 4, 4), "
         "part 1 (images, 3, 1, 1)"},
        {more_numbers, LS_BAD_SHAPE,
         "ls_reshape: x must be (images, ...) and keep an image's 48 numbers, not become 3 x 4 x 5; x is (images, 3, "
         "4, "
         "4)"},
        {no_child, LS_BAD_ARGUMENT,
         "ls_module_call: there is no child \"deep\" in the network, which has none; give it to ls_module_append by "
         "that "
         "name"},
        {no_child_with_lengths, LS_BAD_ARGUMENT,
         "ls_module_call_with_lengths: there is no child \"deep\" in the network, "},
        {many_groups, LS_BAD_SHAPE,
         "ls_group_norm: x must be (images, channels, ...) with channels that the 2 groups divide, and weight and bias "
         "parameters (channels); x is (images, 3, 4, 4), weight (3"},
        {long_slice, LS_BAD_SHAPE,
         "ls_slice: from must be at least 0, and to above it and at most the dimension's size, not 1 to 5 of dimension "
         "2's 4; x is (images, 3, 4, 4)"},
        {bent_parameter, LS_BAD_SHAPE, "ls_tanh: x must be (images, ...), not the parameter w"},
        {own_of_wrong_shape, LS_BAD_SHAPE,
         "weigh: its shape rule refuses the inputs; x is (images, 3, 4, 4), input 1 (1, 1)"},
        {own_without_inputs, LS_BAD_ARGUMENT, "ls_custom_op: an operation has a name, a forward and 1 to 3 inputs"},
        {own_without_backward, LS_UNSUPPORTED, "one way has no backward pass"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setup s = open_setup(LS_ISA_AUTO, cases[i].forward);
        ls_data_next(s.data, &s.batch);
        test_step(s.net, s.trainer, &s.batch);
        if (!strstr(ls_message(s.session), cases[i].said)) {
            fail_msg("it says \"%s\", not \"%s ...\"", ls_message(s.session), cases[i].said);
        }
        assert_int_equal(ls_close(s.session), cases[i].status);
    }
}

static void a_missing_child_is_said_with_those_that_are_there(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *block = ls_block(s, no_child, NULL), *net = ls_sequential(s, LS_LIST(block));
    ls_module_append(block, "stem", ls_nn_fn(s, ls_relu));
    ls_module_append(block, "head", ls_nn_fn(s, ls_tanh));
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL);
    ls_module_infer(net, ls_zeros(s, LS_SHAPE(1, 2)));
    assert_non_null(strstr(ls_message(s),
                           "ls_module_call: there is no child \"deep\" in 0, whose children are \"stem\", "
                           "\"head\"; give it to ls_module_append by that name"));
    assert_int_equal(ls_close(s), LS_BAD_ARGUMENT);
}

/* ---- Memory ---- */

typedef struct counted {
    atomic_long made, alive;
    long fail_at;
} counted;

static void *count_allocate(size_t bytes, size_t alignment, void *user)
{
    counted *c = user;
    void *memory = NULL;
    if (atomic_fetch_add(&c->made, 1) + 1 == c->fail_at || posix_memalign(&memory, alignment, bytes) != 0) {
        return NULL;
    }
    atomic_fetch_add(&c->alive, 1);
    return memory;
}

static void count_release(void *memory, void *user)
{
    counted *c = user;
    atomic_fetch_sub(&c->alive, 1);
    free(memory);
}

static ls_status step_once(void)
{
    setup s = open_setup(LS_ISA_AUTO, everything);
    ls_data_next(s.data, &s.batch);
    test_step(s.net, s.trainer, &s.batch);
    return ls_close(s.session);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    counted c = {.fail_at = 0};
    ls_allocator counting = {count_allocate, count_release, &c};
    allocator = &counting;
    assert_int_equal(step_once(), LS_OK);
    long all = c.made;
    for (long n = 1; n <= all; n++) {
        c.made = 0;
        c.fail_at = n;
        assert_int_equal(step_once(), LS_OUT_OF_MEMORY);
        assert_int_equal(c.alive, 0);
    }
    allocator = NULL;
    print_message("%ld allocations failed in turn\n", all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_slopes),
        {"bits_of_convolutions_do_not_depend_on_the_backend", bits_do_not_depend_on_the_backend, NULL, NULL,
         convolutions},
        {"bits_do_not_depend_on_the_backend", bits_do_not_depend_on_the_backend, NULL, NULL, everything},
        {"bits_of_functions_do_not_depend_on_the_backend", bits_do_not_depend_on_the_backend, NULL, NULL, functions},
        cmocka_unit_test(rows_come_out_as_they_went_in),
        cmocka_unit_test(wrong_operands_are_refused),
        cmocka_unit_test(a_missing_child_is_said_with_those_that_are_there),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_images, NULL);
}
