/* What a program means that is written by one who comes from PyTorch: done, or refused with what to write. */
#include "files.h"
#include "tensors.h"
#include "training.h"

#include <lockstep_data.h>
#include <lockstep_weights.h>
#include <math.h>

enum { ROWS = 12, FEATURES = 6, MIDDLE = 4, BATCH = 6 };

static float numbers[ROWS * FEATURES];

static ls_session *open_session(void)
{
    for (int i = 0; i < ROWS * FEATURES; i++)
        numbers[i] = (float)(i * 7 % 11) / 11;
    return ls_open(NULL);
}

static ls_data *open_data(ls_session *s)
{
    return ls_data_from_floats(s, numbers, LS_SHAPE(ROWS, FEATURES), &(ls_loader){.batch = BATCH});
}

/* ---- A parameter of a child ---- */

/* How a decoder says the encoder's weight. */
typedef enum saying { APART, BY_CHILD, BY_CHILD_BEFORE, BY_DOTS, BY_DOTS_BEFORE, BY_OTHER_PLACE, SAYINGS } saying;

static ls_tensor *decoder_weight(ls_module *self, saying how)
{
    const ls_shape shape = LS_SHAPE(MIDDLE, FEATURES);
    switch (how) {
    case APART:
        return ls_module_parameter(self, "weight", shape);
    case BY_CHILD:
    case BY_CHILD_BEFORE:
        return ls_module_parameter(ls_module_child(self, "encoder"), "weight", shape);
    case BY_OTHER_PLACE:
        return ls_module_parameter(self, "again.weight", shape);
    default:
        return ls_module_parameter(self, "encoder.weight", shape);
    }
}

static ls_tensor *tied_forward(ls_module *self, ls_tensor *x)
{
    const saying how = *(const saying *)ls_module_user(self);
    ls_tensor *w = how == BY_CHILD_BEFORE || how == BY_DOTS_BEFORE ? decoder_weight(self, how) : NULL;
    ls_tensor *z = ls_tanh(ls_module_call(self, "encoder", x));
    return ls_matmul(z, w ? w : decoder_weight(self, how));
}

static ls_module *tied(ls_session *s, ls_forward *forward, const void *user)
{
    ls_module *net = ls_block(s, forward, (void *)user), *encoder = ls_nn_linear(s, MIDDLE);
    ls_module_append(net, "encoder", encoder);
    ls_module_append(net, "again", encoder);
    return net;
}

static void a_parameter_of_a_child(void **state)
{
    (void)state;
    char digits[SAYINGS][65];
    for (saying how = APART; how < SAYINGS; how++) {
        ls_session *s = open_session();
        ls_data *data = open_data(s);
        ls_module *net = tied(s, tied_forward, &how);
        ls_module_initialize(net, test_cpus(2), &(ls_init){.like = data, .kind = LS_HE});
        assert_int_equal(ls_module_parameter_count(net), how == APART ? 3 : 2);
        ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
        for (ls_batch b; ls_data_next(data, &b);) {
            ls_backward(ls_mse(ls_module_forward(net, b.X), b.X));
            ls_trainer_step(trainer);
        }
        ls_module_fingerprint(net, digits[how]);
        assert_int_equal(ls_close(s), LS_OK);
        if (how > BY_CHILD)
            assert_string_equal(digits[how], digits[BY_CHILD]);
    }
    assert_string_not_equal(digits[APART], digits[BY_CHILD]);
}

static ls_tensor *misspelt(ls_module *self, ls_tensor *x)
{
    ls_tensor *h = ls_module_call(self, "encoder", x);
    return ls_matmul(h, ls_module_parameter(self, "encoder.weights", LS_SHAPE(MIDDLE, FEATURES)));
}

static ls_tensor *transposed(ls_module *self, ls_tensor *x)
{
    ls_tensor *h = ls_module_call(self, "encoder", x);
    return ls_linear(h, ls_module_parameter(self, "encoder.weight", LS_SHAPE(FEATURES, MIDDLE)), NULL);
}

static ls_tensor *of_another(ls_module *self, ls_tensor *x)
{
    ls_module *other = ls_module_user(self);
    ls_tensor *h = ls_module_call(self, "encoder", x);
    return ls_matmul(h, ls_module_parameter(other, "weight", LS_SHAPE(MIDDLE, FEATURES)));
}

static ls_tensor *transposes_it(ls_module *self, ls_tensor *x)
{
    ls_tensor *h = ls_module_call(self, "encoder", x);
    return ls_linear(h, ls_transpose(ls_module_parameter(self, "encoder.weight", LS_SHAPE(MIDDLE, FEATURES)), 0, 1),
                     NULL);
}

static ls_tensor *as_it_is(ls_module *self, ls_tensor *x)
{
    ls_tensor *h = ls_module_call(self, "encoder", x);
    return ls_linear(h, ls_module_parameter(self, "encoder.weight", LS_SHAPE(MIDDLE, FEATURES)), NULL);
}

static void wrong_parameters_of_a_child(void **state)
{
    (void)state;
    static const struct {
        ls_forward *forward;
        ls_status status;
        const char *words;
    } wrong[] = {
        {misspelt, LS_BAD_ARGUMENT,
         "ls_module_parameter: \"encoder\" has no parameter \"weights\"; it has \"weight\", \"bias\""},
        {transposed, LS_BAD_SHAPE, "parameter encoder.weight: asked for as (6, 4), it has the shape (4, 6)"},
        {of_another, LS_BAD_ARGUMENT, "ls_module_parameter: \"weight\" is asked of a module of another network"},
        {transposes_it, LS_BAD_SHAPE,
         "ls_transpose: x must be (images, ...), not the parameter encoder.weight, (4, 6); ls_matmul takes a weight as "
         "(inputs, outputs), ls_linear as (outputs, inputs)"},
        {as_it_is, LS_BAD_SHAPE,
         "ls_linear: x must be flat or (images, tokens, features), and weight a parameter (outputs, features of x), as "
         "ls_matmul takes (features of x, outputs); x is (images, 4), weight (4, 6)"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ls_session *s = open_session();
        ls_module *net = tied(s, wrong[i].forward, ls_nn_linear(s, MIDDLE));
        ls_module_initialize(net, test_cpus(1), &(ls_init){.like = open_data(s)});
        assert_null(strstr(ls_message(s), "\"\""));
        assert_caught(s, wrong[i].status, wrong[i].words);
        assert_int_equal(ls_close(s), LS_OK);
    }
}

/* ---- An explicit zero, and a zero that means nothing ---- */

static ls_tensor *mse(ls_tensor *outputs, ls_tensor *y, void *user)
{
    (void)user;
    return ls_mse(outputs, y);
}

/* A small network that is trained to give its own images; with `how` NULL it has no trainer. */
typedef struct line {
    ls_session *s;
    ls_data *data;
    ls_module *net;
    ls_trainer *trainer;
} line;

static line open_line(ls_optimizer kind, const ls_optim *how)
{
    line l = {.s = open_session()};
    l.data = open_data(l.s);
    l.net = ls_sequential(l.s, LS_LIST(ls_nn_linear(l.s, MIDDLE), ls_nn_fn(l.s, ls_tanh), ls_nn_linear(l.s, FEATURES)));
    ls_module_initialize(l.net, test_cpus(1), &(ls_init){.like = l.data, .kind = LS_HE});
    l.trainer = how ? ls_trainer_new(l.net, kind, how) : NULL;
    return l;
}

static void take_steps(const line *l, int steps)
{
    for (ls_batch b; steps-- && test_next(l->data, &b);) {
        ls_backward(ls_mse(ls_module_forward(l->net, b.X), b.X));
        ls_trainer_step(l->trainer);
    }
    ls_wait(l->s);
}

static void none_is_as_good_as_nothing(void **state)
{
    (void)state;
    static const ls_optim hows[][2] = {
        {{.lr = 0.125, .beta1 = -1}, {.lr = 0.125, .beta1 = 1e-300}},
        {{.lr = 0.125, .beta2 = -1, .eps = 0.5}, {.lr = 0.125, .beta2 = 1e-300, .eps = 0.5}},
        {{.lr = 0.125, .schedule = LS_LINEAR, .total = 8, .start_factor = -1, .end_factor = 1},
         {.lr = 0.125, .schedule = LS_LINEAR, .total = 8, .start_factor = 1e-300, .end_factor = 1}},
        {{.lr = 0.125, .schedule = LS_ONE_CYCLE, .total = 4, .end_factor = -1},
         {.lr = 0.125, .schedule = LS_ONE_CYCLE, .total = 4, .end_factor = 1e-300}}};
    for (size_t k = 0; k < sizeof hows / sizeof *hows; k++) {
        char digits[3][65];
        for (int i = 0; i < 3; i++) {
            ls_optim how = hows[k][i % 2];
            if (i == 2)
                how.beta1 = how.beta2 = how.eps = how.start_factor = how.end_factor = 0;
            line l = open_line(LS_ADAM, &how);
            take_steps(&l, 3);
            ls_module_fingerprint(l.net, digits[i]);
            assert_int_equal(ls_close(l.s), LS_OK);
        }
        assert_string_equal(digits[0], digits[1]);
        if (k < 3) /* one-cycle's end is near 0 as it is */
            assert_string_not_equal(digits[0], digits[2]);
    }
}

static void none_of_layers_and_groups(void **state)
{
    (void)state;
    float x[6] = {1, 2, 3, -1, 0, 5}, before[4], after[4];
    ls_session *s = open_session();
    ls_tensor *q = ls_values(s, x, LS_SHAPE(1, 3, 2)), *nothing = ls_scale(q, 0);
    assert_same_bits(ls_attention(q, q, q, &(ls_attention_options){.scale = -1}), ls_attention(nothing, q, q, NULL));
    ls_data *data = open_data(s);
    ls_module *net =
        ls_sequential(s, LS_LIST(ls_nn_linear(s, MIDDLE), ls_nn_batch_norm_with(s, &(ls_norm){.momentum = -1}),
                                 ls_nn_linear(s, FEATURES)));
    ls_module_initialize(net, test_cpus(1), &(ls_init){.like = data, .scale = -1});
    for (int k = 0; k < 4; k++)
        before[k] = 1;
    ls_module_read_parameter(net, "1.running_var", after, 4);
    assert_memory_equal(before, after, sizeof before);
    float weight[MIDDLE * FEATURES];
    ls_module_read_parameter(net, "0.weight", weight, MIDDLE * FEATURES);
    for (int k = 0; k < MIDDLE * FEATURES; k++)
        assert_true(weight[k] == 0);
    line l = {s, data, net, ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.5, .weight_decay = 0.5})};
    ls_trainer_set_group(l.trainer, "1.*", &(ls_param_group){.lr = -1});
    ls_trainer_set_group(l.trainer, "2.*", &(ls_param_group){.weight_decay = -1});
    take_steps(&l, 2);
    ls_module_read_parameter(net, "1.running_var", after, 4);
    assert_memory_equal(before, after, sizeof before);
    ls_module_read_parameter(net, "1.weight", after, 4);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(ls_close(s), LS_OK);
}

/* A rate that nobody has given is no rate; one of 0 that somebody sets is. */
static void a_rate_that_was_left_out(void **state)
{
    (void)state;
    static const char *const words = "ls_trainer_step: there is no learning rate, as ls_optim.lr is 0";
    line l = open_line(LS_SGD, &(ls_optim){0});
    take_steps(&l, 1);
    assert_caught(l.s, LS_BAD_ARGUMENT, words);
    const uint64_t start = ls_module_checksum(l.net);
    ls_trainer_set_lr(l.trainer, 0);
    take_steps(&l, 1);
    assert_int_equal(ls_status_of(l.s), LS_OK);
    assert_true(ls_module_checksum(l.net) == start);
    ls_trainer_set_lr(l.trainer, 0.5);
    take_steps(&l, 1);
    assert_true(ls_module_checksum(l.net) != start);
    ls_trainer_set_options(l.trainer, &(ls_optim){0});
    take_steps(&l, 1);
    assert_caught(l.s, LS_BAD_ARGUMENT, words);
    assert_int_equal(ls_close(l.s), LS_OK);
}

/* ---- What a failure leaves ---- */

static void a_failure_leaves_no_numbers(void **state)
{
    (void)state;
    line l = open_line(LS_SGD, NULL);
    ls_metrics metrics = {1, 2, 3};
    double means[2] = {1, 2};
    float rows[ROWS * FEATURES] = {1}, bias[FEATURES] = {1}, read[2] = {1, 1};
    ls_parameter_info info = {.rank = 7};
    assert_int_equal(ls_module_evaluate(l.net, l.data, &metrics), LS_BAD_ARGUMENT);
    assert_true(isnan(metrics.loss) && metrics.correct == 0 && metrics.rows == 0);
    assert_caught(l.s, LS_BAD_ARGUMENT, "ls_module_evaluate: the data have neither labels nor targets");
    ls_tensor *two = ls_full(l.s, 2, LS_SHAPE(1));
    assert_true(ls_item(two) == 2);
    ls_fail(l.s, LS_IO, "the caller's");
    assert_true(isnan(ls_item(two)) && isnan(ls_item(NULL)) && isnan(ls_module_accuracy(l.net, l.data)));
    metrics = (ls_metrics){1, 2, 3};
    ls_module_evaluate_with(l.net, l.data, mse, NULL, &metrics);
    assert_true(isnan(metrics.loss) && metrics.correct == 0 && metrics.rows == 0);
    ls_module_measure(l.net, l.data, mse, NULL, means, 2);
    assert_true(isnan(means[0]) && isnan(means[1]));
    ls_module_predict(l.net, l.data, rows, FEATURES);
    assert_true(isnan(rows[0]) && isnan(rows[ROWS * FEATURES - 1]));
    ls_module_read_parameter(l.net, "2.bias", bias, FEATURES);
    assert_true(isnan(bias[0]) && isnan(bias[FEATURES - 1]));
    ls_read(NULL, read, 2);
    assert_true(isnan(read[0]) && isnan(read[1]));
    ls_module_parameter_at(l.net, 0, &info);
    assert_int_equal(info.rank, 0);
    assert_int_equal(ls_close(l.s), LS_IO);
}

/* ---- The loss that a step takes ---- */

/* Two losses of a batch: by two passes the step takes their mean, with full_batch = batch their sum; by one pass their
 * sum. The report has what the step took; of a smaller last batch it has the mean. */
static void the_report_has_the_loss_of_the_step(void **state)
{
    (void)state;
    enum { ONE_PASS, TWO_PASSES, TWO_PASSES_OF_BATCH, ONE_OF_TWICE, WAYS };
    double losses[WAYS];
    char digits[WAYS][65];
    for (int way = 0; way < WAYS; way++) {
        line l = open_line(LS_SGD, &(ls_optim){.lr = 0.5,
                                               .full_batch = way == TWO_PASSES_OF_BATCH ? BATCH
                                                             : way == ONE_OF_TWICE      ? 2 * BATCH
                                                                                        : 0});
        ls_batch b;
        assert_true(ls_data_next(l.data, &b));
        ls_tensor *first = ls_mse(ls_module_forward(l.net, b.X), b.X);
        ls_tensor *second = ls_mse(ls_module_forward(l.net, ls_tanh(b.X)), b.X);
        if (way == ONE_PASS || way == ONE_OF_TWICE) {
            ls_backward(ls_add(first, second));
        } else {
            ls_backward(first);
            ls_backward(second);
        }
        ls_trainer_step(l.trainer);
        ls_wait(l.s);
        ls_report report;
        assert_true(ls_trainer_next_report(l.trainer, &report));
        losses[way] = report.loss;
        ls_module_fingerprint(l.net, digits[way]);
        assert_int_equal(ls_close(l.s), LS_OK);
    }
    assert_true(fabs(losses[TWO_PASSES_OF_BATCH] / losses[ONE_PASS] - 1) < 1e-6);
    assert_true(fabs(losses[ONE_OF_TWICE] / losses[ONE_PASS] - 1) < 1e-6);
    assert_true(fabs(2 * losses[TWO_PASSES] / losses[ONE_PASS] - 1) < 1e-6);
    assert_string_not_equal(digits[TWO_PASSES], digits[TWO_PASSES_OF_BATCH]);
}

/* ---- Files ---- */

static void a_file_of_a_part(void **state)
{
    (void)state;
    line l = open_line(LS_SGD, NULL);
    const char *head = test_path("head"), *report;
    ls_module *alone = ls_nn_linear(l.s, FEATURES), *part = ls_module_child(l.net, "2");
    ls_data *middle = ls_data_from_floats(l.s, numbers, LS_SHAPE(ROWS, MIDDLE), NULL);
    ls_module_initialize(alone, test_cpus(1), &(ls_init){.like = middle, .kind = LS_XAVIER});
    ls_module_save(alone, head);
    float wanted[MIDDLE * FEATURES], is[MIDDLE * FEATURES], other[MIDDLE * FEATURES], still[MIDDLE * FEATURES];
    ls_module_read_parameter(alone, "weight", wanted, MIDDLE * FEATURES);
    ls_module_read_parameter(l.net, "0.weight", other, MIDDLE * FEATURES);
    assert_int_equal(ls_module_load(part, head), LS_OK);
    ls_module_read_parameter(l.net, "2.weight", is, MIDDLE * FEATURES);
    ls_module_read_parameter(l.net, "0.weight", still, MIDDLE * FEATURES);
    assert_memory_equal(is, wanted, sizeof is);
    assert_memory_equal(still, other, sizeof still);
    assert_int_equal(
        ls_module_load_with(part, head, &(ls_load_options){.skip = (const char *[]){"bias", NULL}}, &report), LS_OK);
    assert_string_equal(report, "read 1 of 2 parameters\nkept, skipped: 2.bias");
    ls_module_load_with(part, head, &(ls_load_options){.skip = (const char *[]){"2.bias", NULL}}, &report);
    assert_caught(l.s, LS_BAD_ARGUMENT, "nothing in it or in the network is called \"2.2.bias\"");
    ls_module_load(l.net, head);
    assert_caught(l.s, LS_BAD_FILE,
                  "parameter 0.weight is missing; is this a file of another model? Its first name is "
                  "\"bias\"");
    ls_module_load_with(l.net, head, &(ls_load_options){.partial = true}, NULL);
    assert_caught(l.s, LS_BAD_FILE,
                  "no parameter of the network would be read from it: the network's first is called "
                  "\"0.weight\", the file's \"bias\"");
    ls_module_load_with(l.net, head, &(ls_load_options){.strip = "module."}, NULL);
    assert_caught(l.s, LS_BAD_FILE, "does not begin with 'module.', which is to be left out of all names");
    ls_module_load(ls_module_child(l.net, "0"), head);
    assert_caught(l.s, LS_BAD_FILE,
                  "parameter 0.weight has shape (6, 4), the network needs (4, 6); ls_module_load_with "
                  "takes a file without it");
    ls_module_save(part, head);
    assert_caught(l.s, LS_NOT_INITIALIZED,
                  "ls_module_save: \"2\" is a part of another module and has no values of its "
                  "own; call it with the outermost one");
    ls_module *fresh = ls_sequential(l.s, LS_LIST(ls_nn_linear(l.s, FEATURES)));
    ls_module_load(ls_module_child(fresh, "0"), head);
    assert_caught(l.s, LS_NOT_INITIALIZED, "ls_module_load: the network has no values yet");
    ls_module_initialize(fresh, test_cpus(1), NULL);
    ls_module_load(ls_module_child(fresh, "0"), head);
    assert_caught(l.s, LS_SHAPE_UNKNOWN, "ls_module_load: the shapes of the network's parameters are not known");
    assert_int_equal(ls_close(l.s), LS_OK);
}

/* ---- Messages that name the call that is meant ---- */

static ls_tensor *of_two(ls_module *self, ls_tensor *x)
{
    return ls_sum_each(ls_multiply(x, ls_module_input(self, 1)));
}

static void the_call_that_is_meant(void **state)
{
    (void)state;
    static const float ones[ROWS] = {1};
    ls_session *s = open_session();
    ls_data *data = open_data(s);
    ls_module *net = ls_block(s, of_two, NULL);
    ls_data_add_input(data, numbers, LS_SHAPE(ROWS, FEATURES));
    ls_data_set_targets(data, ones, LS_SHAPE(ROWS));
    ls_module_initialize(net, test_cpus(1), &(ls_init){.like = data});
    ls_module_forward(net, ls_zeros(s, LS_SHAPE(2, FEATURES)));
    assert_caught(s, LS_BAD_SHAPE,
                  "ls_module_forward: called with 1 input, the network takes 2, which "
                  "ls_module_forward_all and ls_module_infer_all give it");
    ls_metrics metrics;
    ls_module_evaluate(net, data, &metrics);
    assert_caught(s, LS_BAD_SHAPE,
                  "ls_module_evaluate: its loss is ls_cross_entropy, of outputs (images, classes, ...); "
                  "for another loss there is ls_module_evaluate_with");
    ls_tensor *x = ls_zeros(s, LS_SHAPE(2, 3));
    ls_cross_entropy(x, NULL);
    assert_caught(s, LS_BAD_ARGUMENT,
                  "ls_cross_entropy: the second tensor is NULL; a batch has a y where "
                  "ls_data_set_labels or ls_data_set_targets has given its data one");
    ls_bce(x, NULL, NULL);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_bce: the second tensor is NULL");
    ls_bce(x, ls_zeros(s, LS_SHAPE(2, 1)), NULL);
    assert_caught(s, LS_BAD_SHAPE, "a is (2, 3), b (2, 1)");
    assert_int_equal(ls_close(s), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parameter_of_a_child),
        cmocka_unit_test(wrong_parameters_of_a_child),
        cmocka_unit_test(none_is_as_good_as_nothing),
        cmocka_unit_test(none_of_layers_and_groups),
        cmocka_unit_test(a_rate_that_was_left_out),
        cmocka_unit_test(a_failure_leaves_no_numbers),
        cmocka_unit_test(the_report_has_the_loss_of_the_step),
        cmocka_unit_test_setup_teardown(a_file_of_a_part, test_folder_make, test_folder_remove),
        cmocka_unit_test(the_call_that_is_meant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
