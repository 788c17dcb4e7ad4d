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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parameter_of_a_child),
        cmocka_unit_test(wrong_parameters_of_a_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
