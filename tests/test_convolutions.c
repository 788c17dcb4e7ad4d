/* Convolutions with groups, dilation, rectangles and strides, plain and transposed: PyTorch's figures in float64
 * (tests/reference/make_convolutions.py, which says of what numbers), which floats hold exactly, the layers, and what
 * is refused. */
#include "reference_cases.h"
#include "training.h"

#include <stdio.h>
#include <lockstep_data.h>
#include <lockstep_nn.h>

/* ---- PyTorch's figures ---- */

static ls_conv options_of(const json_t *one)
{
    const json_t *o = json_object_get(one, "options");
#define OPTION(name) .name = (int)json_integer_value(json_object_get(o, #name))
    return (ls_conv){OPTION(stride),   OPTION(padding),  OPTION(groups),    OPTION(dilation),  OPTION(output_padding),
                     OPTION(kernel_w), OPTION(stride_w), OPTION(padding_w), OPTION(dilation_w)};
}

static ls_tensor *numbered(ls_session *s, ls_shape shape, int factor, int begin)
{
    return numbers_by(s, shape, factor, begin, 64, 31, 32);
}

static void assert_figures(ls_tensor *tensor, const json_t *one, const char *key)
{
    if (off_by_recorded(tensor, one, key) != 0)
        fail_msg("%s: %s is another", recorded_name(one), key);
}

static void run_figures(ls_session *s, const json_t *one)
{
    const bool transposed = json_boolean_value(json_object_get(one, "transposed"));
    const int64_t outputs = (int64_t)json_array_size(json_object_get(one, "db"));
    const ls_conv options = options_of(one);
    ls_tensor *x = ls_track(numbered(s, recorded_shape(one, "x"), 37, 11));
    ls_tensor *w = ls_track(numbered(s, recorded_shape(one, "weight"), 29, 5));
    ls_tensor *b = ls_track(numbered(s, LS_SHAPE(outputs), 13, 3));
    ls_tensor *y = transposed ? ls_conv_transpose2d(x, w, b, &options) : ls_conv2d(x, w, b, &options);
    if (!y)
        fail_msg("%s: %s", recorded_name(one), ls_message(s));
    assert_figures(y, one, "y");
    assert_int_equal(
        ls_backward_from(y, numbered(s, LS_SHAPE(ls_dim(y, 0), ls_dim(y, 1), ls_dim(y, 2), ls_dim(y, 3)), 7, 2)),
        LS_OK);
    assert_figures(ls_grad(x), one, "dx");
    assert_figures(ls_grad(w), one, "dw");
    assert_figures(ls_grad(b), one, "db");
}

static void as_in_pytorch(void **state)
{
    (void)state;
    run_reference_cases("convolutions", 13, NULL, run_figures);
}

/* ---- Layers ---- */

static void assert_parameter(ls_module *net, int i, const char *name, ls_shape shape)
{
    ls_parameter_info info;
    assert_int_equal(ls_module_parameter_at(net, i, &info), LS_OK);
    assert_string_equal(info.name, name);
    assert_int_equal(info.rank, shape.rank);
    for (int k = 0; k < shape.rank; k++)
        assert_int_equal(info.shape[k], shape.dim[k]);
}

static void layers_have_pytorchs_parameters(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *net = ls_sequential(
        s, LS_LIST(ls_nn_conv2d(s, 6, 3, &(ls_conv){.kernel_w = 2, .groups = 3, .padding = 1, .padding_w = -1}),
                   ls_nn_conv2d(s, 6, 3, &(ls_conv){.groups = 6, .dilation = 2, .no_bias = true}),
                   ls_nn_conv_transpose2d(s, 4, 3, &(ls_conv){.kernel_w = 5, .groups = 2, .stride = 2}),
                   ls_nn_conv_transpose2d(s, 2, 2, &(ls_conv){.no_bias = true}), ls_nn_fn(s, ls_flatten),
                   ls_nn_linear_with(s, 7, &(ls_linear_options){.no_bias = true}), ls_nn_linear_with(s, 3, NULL)));
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL);
    ls_tensor *y = ls_module_infer(net, ls_full(s, 1, LS_SHAPE(2, 3, 9, 8)));
    assert_int_equal(ls_status_of(s), LS_OK);
    assert_int_equal(ls_dim(y, 1), 3);
    assert_int_equal(ls_module_parameter_count(net), 9);
    assert_parameter(net, 0, "0.weight", LS_SHAPE(6, 1, 3, 2));
    assert_parameter(net, 1, "0.bias", LS_SHAPE(6));
    assert_parameter(net, 2, "1.weight", LS_SHAPE(6, 1, 3, 3)); /* of 9 x 7 it makes 5 x 3 */
    assert_parameter(net, 3, "2.weight", LS_SHAPE(6, 2, 3, 5)); /* 11 x 9 */
    assert_parameter(net, 4, "2.bias", LS_SHAPE(4));
    assert_parameter(net, 5, "3.weight", LS_SHAPE(4, 2, 2, 2)); /* 12 x 10 */
    assert_parameter(net, 6, "5.weight", LS_SHAPE(7, 240));
    assert_parameter(net, 7, "6.weight", LS_SHAPE(3, 7));
    assert_parameter(net, 8, "6.bias", LS_SHAPE(3));
    assert_int_equal(ls_close(s), LS_OK);
}

/* A norm takes a constant away again: by definition the gradient is 0, and not by rounding. */
static void a_bias_in_front_of_a_norm_has_no_gradient(void **state)
{
    (void)state;
    for (int norm = 0; norm < 2; norm++) {
        ls_session *s = ls_open(NULL);
        ls_module *net =
            ls_sequential(s, LS_LIST(ls_nn_conv_transpose2d(s, 3, 3, &(ls_conv){.stride = 2}),
                                     norm ? ls_nn_batch_norm(s) : ls_nn_fn(s, ls_relu), ls_nn_fn(s, ls_tanh)));
        float slopes[3];
        ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.scale = 0.5});
        ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 1});
        ls_backward(ls_sum(ls_module_forward(net, ls_uniform(s, "x", LS_SHAPE(5, 2, 4, 3)))));
        test_read_gradient(net, "0.bias", slopes, 3);
        assert_string_equal(ls_message(s), "");
        for (int i = 0; i < 3; i++)
            assert_int_equal(slopes[i] == 0, norm);
        assert_int_equal(ls_close(s), LS_OK);
    }
}

/* ---- What is refused ---- */

static void options_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        ls_conv options;
        bool transposed;
        const char *said;
    } wrong[] = {
        {{.stride = -1}, false, "stride and dilation must be at least 1 and padding at least 0"},
        {{.stride_w = -1}, false, "stride and dilation must"},
        {{.stride = 1 << 25}, false, "stride and dilation must"},
        {{.dilation = -1}, false, "stride and dilation must"},
        {{.dilation_w = -2}, true, "stride and dilation must"},
        {{.padding = -1}, false, "stride and dilation must"},
        {{.padding_w = -2}, false, "padding_w must be at least -1, which is none"},
        {{.kernel_w = -1}, false, "kernel_w must be at least 0"},
        {{.groups = -1}, false, "groups must be at least 1 and divide the outputs' channels"},
        {{.groups = 4}, false, "groups must be at least 1 and divide the outputs' channels"},
        {{.groups = 4}, true, "groups must be at least 1 and divide the outputs' channels"},
        {{.output_padding = 1}, false, "output_padding is a transposed convolution's"},
        {{.output_padding = -1}, true, "output_padding must be at least 0, and less than the stride or the dilation"},
        {{.output_padding = 1}, true, "output_padding must be at least 0, and less than"},
        {{.stride = 2, .dilation = 3, .output_padding = 3}, true, "output_padding must be at least 0, and less than"},
        {{.stride = 2, .stride_w = 1, .output_padding = 1}, true, "output_padding must be at least 0, and less than"},
    };
    ls_session *s = ls_open(NULL);
    ls_tensor *x = ls_full(s, 1, LS_SHAPE(2, 6, 5, 5));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const ls_conv *o = &wrong[i].options;
        const int in_group = o->groups > 1 ? 1 : 6;
        char said[128];
        snprintf(said, sizeof said, "%s: %s", wrong[i].transposed ? "ls_nn_conv_transpose2d" : "ls_nn_conv2d",
                 wrong[i].said);
        assert_null(wrong[i].transposed ? ls_nn_conv_transpose2d(s, 6, 3, o) : ls_nn_conv2d(s, 6, 3, o));
        assert_caught(s, LS_BAD_ARGUMENT, said);
        ls_tensor *w =
            wrong[i].transposed ? ls_full(s, 1, LS_SHAPE(6, 6, 3, 3)) : ls_full(s, 1, LS_SHAPE(6, in_group, 3, 3));
        if (wrong[i].transposed && o->groups)
            continue; /* the weight alone says the outputs */
        snprintf(said, sizeof said, "%s: %s", wrong[i].transposed ? "ls_conv_transpose2d" : "ls_conv2d", wrong[i].said);
        assert_null(wrong[i].transposed ? ls_conv_transpose2d(x, w, NULL, o) : ls_conv2d(x, w, NULL, o));
        assert_caught(s, LS_BAD_SHAPE, said);
    }
    assert_int_equal(ls_close(s), LS_OK);
}

static void operands_are_refused_by_name(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_tensor *x = ls_full(s, 1, LS_SHAPE(2, 6, 5, 5)), *w = ls_full(s, 1, LS_SHAPE(4, 3, 3, 3));
    ls_tensor *flat = ls_full(s, 1, LS_SHAPE(2, 6)), *b = ls_full(s, 1, LS_SHAPE(4));
    const ls_conv halves = {.groups = 2};
    ls_conv2d(flat, w, NULL, &halves);
    assert_caught(s, LS_BAD_SHAPE,
                  "ls_conv2d: weight must be a parameter (outputs, channels of x / groups, kernel, kernel_w)");
    ls_conv2d(x, w, NULL, NULL);
    assert_caught(s, LS_BAD_SHAPE, "ls_conv2d: weight must be");
    ls_conv2d(x, w, ls_full(s, 1, LS_SHAPE(5)), &halves);
    assert_caught(s, LS_BAD_SHAPE, "ls_conv2d: bias must be a parameter (outputs)");
    ls_conv2d(x, w, b, &(ls_conv){.groups = 2, .no_bias = true});
    assert_caught(s, LS_BAD_SHAPE, "ls_conv2d: there is a bias, but the options say no_bias");
    ls_conv2d(x, w, NULL, &(ls_conv){.groups = 2, .kernel_w = 2});
    assert_caught(s, LS_BAD_SHAPE, "ls_conv2d: kernel_w must be 0 or the weight's width");
    ls_conv2d(x, w, NULL, &(ls_conv){.groups = 4});
    assert_caught(s, LS_BAD_SHAPE, "ls_conv2d: groups must divide the channels of x");
    ls_conv2d(x, w, NULL, &(ls_conv){.groups = 2, .dilation = 3});
    assert_caught(s, LS_BAD_SHAPE, "ls_conv2d: the kernel is larger than the padded map");
    ls_conv_transpose2d(x, w, NULL, NULL);
    assert_caught(
        s, LS_BAD_SHAPE,
        "ls_conv_transpose2d: weight must be a parameter (channels of x, outputs / groups, kernel, kernel_w)");
    w = ls_full(s, 1, LS_SHAPE(6, 2, 3, 3));
    ls_conv_transpose2d(x, w, ls_full(s, 1, LS_SHAPE(2)), &halves);
    assert_caught(s, LS_BAD_SHAPE, "ls_conv_transpose2d: bias must be a parameter (outputs)");
    ls_conv_transpose2d(x, w, NULL, &(ls_conv){.groups = 4});
    assert_caught(s, LS_BAD_SHAPE, "ls_conv_transpose2d: groups must divide the channels of x");
    ls_conv_transpose2d(x, w, NULL, &(ls_conv){.padding = 4});
    assert_caught(s, LS_BAD_SHAPE, "ls_conv_transpose2d: the padding takes away the whole map");
    ls_conv_transpose2d(x, w, NULL, &(ls_conv){.stride = 1 << 24});
    assert_caught(s, LS_BAD_SHAPE, "an image of the result would have too many numbers");
    ls_conv_transpose2d(x, w, NULL, &(ls_conv){.stride = 1 << 14});
    assert_caught(s, LS_BAD_SHAPE, "an image of the result would have too many numbers");
    assert_null(ls_nn_conv_transpose2d(s, 4, 0, NULL));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_nn_conv_transpose2d: channels and kernel must be at least 1");
    assert_null(ls_nn_linear(s, 0));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_nn_linear: features must be at least 1");
    assert_null(ls_nn_linear_with(s, 0, NULL));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_nn_linear_with: features must be at least 1");
    ls_module *net = ls_nn_conv2d(s, 4, 3, &(ls_conv){.groups = 4}); /* which only x shows to be wrong */
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL);
    ls_module_infer(net, x);
    assert_caught(s, LS_BAD_SHAPE, "ls_conv2d: groups must divide the channels of x");
    assert_int_equal(ls_close(s), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_in_pytorch),
        cmocka_unit_test(layers_have_pytorchs_parameters),
        cmocka_unit_test(a_bias_in_front_of_a_norm_has_no_gradient),
        cmocka_unit_test(options_are_refused_by_name),
        cmocka_unit_test(operands_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
