/* Attention against PyTorch's float64, as an operation and as a layer; equal bits of every instruction set and any
 * number of devices; what lengths leave out, and what is refused. */
#include "reference_cases.h"
#include "sequence_bits.h"

#include <lockstep_nn.h>

enum { MOST = 5 };

/* ---- PyTorch's figures ---- */

static ls_tensor *operand(ls_session *s, const json_t *one, int k)
{
    const json_t *list = json_array_get(json_object_get(one, "shapes"), (size_t)k);
    ls_shape shape = {.rank = (int)json_array_size(list)};
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = json_integer_value(json_array_get(list, (size_t)i));
    return ls_track(numbers_by(s, shape, 37, 11 * k, 101, 50, 32));
}

static ls_tensor *lengths_of(ls_session *s, const json_t *one)
{
    int n;
    double *values = recorded_numbers(one, "lengths", &n);
    float floats[MOST] = {0};
    assert_true(n <= MOST);
    for (int i = 0; values && i < n; i++)
        floats[i] = (float)values[i];
    ls_tensor *made = values ? ls_clone(ls_values(s, floats, LS_SHAPE(n)), ls_cpu(0)) : NULL;
    free(values);
    return made;
}

static ls_attention_options options_of(const json_t *one)
{
    return (ls_attention_options){.causal = json_is_true(json_object_get(one, "causal")),
                                  .scale = json_number_value(json_object_get(one, "scale"))};
}

static void run_operation(ls_session *s, const json_t *one)
{
    const int n = (int)json_array_size(json_object_get(one, "shapes"));
    ls_tensor *x[3];
    for (int k = 0; k < n; k++)
        x[k] = operand(s, one, k);
    x[2] = n > 2 ? x[2] : x[1];
    ls_attention_options o = options_of(one);
    o.lengths = lengths_of(s, one);
    ls_tensor *y = ls_attention(x[0], x[1], x[2], &o);
    const ls_shape to = assert_recorded_shape(s, y, one);
    const double forward = off_by_recorded(y, one, "y");
    double backward = 0;
    if (ls_backward_from(y, numbers_by(s, to, 7, 0, 11, 5, 4)) != LS_OK)
        fail_msg("%s", ls_message(s));
    for (int k = 0; k < n; k++)
        backward = fmax(backward, off_by_recorded(ls_grad(x[k]), one, (char[]){'d', (char)('0' + k), '\0'}));
    print_message("%-10s off by %.1e of the largest, the gradients by %.1e\n", recorded_name(one), forward, backward);
    assert_true(forward < 1e-6 && backward < 2e-6);
}

/* (images, 1, tokens, features) as a sequence. */
static ls_tensor *as_sequence(ls_module *self, ls_tensor *x)
{
    (void)self;
    return ls_mean_over(x, 1);
}

/* The numbers of each operand of the case, in the order of their names. */
static void as_recorded(const ls_parameter_info *info, float *values, void *user)
{
    static const char *const names[] = {"1.in_proj_weight", "1.in_proj_bias", "1.out_proj.weight", "1.out_proj.bias"};
    int k = 0;
    while (k < 4 && strcmp(names[k], info->name) != 0)
        k++;
    assert_true(k < 4);
    for (int64_t i = 0; i < info->numbers; i++)
        values[i] = (float)((int)((37 * i + 11 * k) % 101) - 50) / 32;
    ++*(int *)user;
}

/* The layer over (images, 1, tokens, features), with lengths where the network has a second input. */
static ls_tensor *over_layer(ls_module *self, ls_tensor *x)
{
    ls_tensor *lengths = *(int *)ls_module_user(self) > 1 ? ls_module_input(self, 1) : NULL;
    return ls_flatten(ls_module_call_with_lengths(self, "1", ls_mean_over(x, 1), lengths));
}

static void run_layer(ls_session *s, const json_t *one)
{
    int heads = (int)json_integer_value(json_object_get(one, "heads")), named = 0;
    const ls_attention_options o = options_of(one);
    ls_tensor *x = operand(s, one, 4), *lengths = lengths_of(s, one);
    int inputs = lengths ? 2 : 1;
    ls_module *net = ls_block(s, over_layer, &inputs);
    ls_module_append(net, "1", ls_nn_attention(s, heads, &o));
    ls_tensor *images = ls_reshape(x, 1, (int)ls_dim(x, 1), (int)ls_dim(x, 2));
    float *numbers = test_read(images);
    images = ls_values(s, numbers, LS_SHAPE(ls_dim(x, 0), 1, ls_dim(x, 1), ls_dim(x, 2)));
    free(numbers);
    assert_int_equal(ls_module_initialize(net, test_cpus(1), &(ls_init){.scale = 1}), LS_OK);
    if (lengths) {
        numbers = test_read(lengths);
        lengths = ls_values(s, numbers, LS_SHAPE(ls_dim(x, 0), 1));
        free(numbers);
    }
    ls_tensor *const all[] = {images, lengths};
    ls_module_infer_all(net, all, inputs);
    assert_int_equal(ls_module_apply(net, as_recorded, &named), LS_OK);
    assert_int_equal(named, 4);
    const double off = off_by_recorded(ls_module_infer_all(net, all, inputs), one, "y");
    print_message("%-10s off by %.1e of the largest\n", recorded_name(one), off);
    assert_true(off < 2e-6);
}

static void run_figures(ls_session *s, const json_t *one)
{
    if (strcmp(recorded_name(one), "layer") == 0)
        run_layer(s, one);
    else
        run_operation(s, one);
}

static void as_in_pytorch(void **state)
{
    (void)state;
    run_reference_cases("attention", 11, &(ls_options){.shard = 2}, run_figures);
}

/* ---- Networks in training ---- */

enum { TOKENS = 37, FEATURES = 8 };

static ls_tensor *reader(ls_module *self, ls_tensor *x)
{
    ls_tensor *y = ls_module_call(self, "inner", ls_mean_over(x, 1));
    y = ls_add(y, ls_module_call(self, "shared", y));
    ls_tensor *first = ls_flatten(ls_scale(ls_slice(ls_slice(x, 2, 0, 1), 3, 0, 1), 40));
    y = ls_add(y, ls_module_call_with_lengths(self, "dropping", y, first));
    const ls_attention_options o = {.lengths = first, .causal = true};
    return ls_mean_over(ls_attention(ls_slice(y, 2, 0, 3), ls_slice(y, 2, 3, 6), y, &o), 1);
}

static ls_module *network(ls_session *s)
{
    ls_module *block = ls_block(s, reader, NULL);
    ls_module_append(block, "inner", ls_nn_linear(s, 8));
    ls_module_append(block, "shared", ls_nn_attention(s, 4, &(ls_attention_options){.kv_heads = 2, .causal = true}));
    ls_module_append(block, "dropping", ls_nn_attention(s, 2, &(ls_attention_options){.dropout = 0.25, .scale = 0.3}));
    return ls_sequential(s, LS_LIST(block, ls_nn_linear(s, SEQUENCE_CLASSES)));
}

static void bits_do_not_depend_on_devices(void **state)
{
    (void)state;
    assert_sequence_bits(network, TOKENS, FEATURES);
}

/* ---- Lengths ---- */

/* Whatever stands behind the length, NaN too, is seen by nobody. */
static void what_is_behind_the_length_is_left_out(void **state)
{
    (void)state;
    static const float lengths[] = {2, 0, 3.5f, NAN, -1, 9};
    static const int seen[] = {2, 0, 4, 0, 0, 5};
    enum { N = 6, ROWS = 5, EACH = 3 };
    float numbers[N * ROWS * EACH];
    for (int i = 0; i < N * ROWS * EACH; i++)
        numbers[i] = i / EACH % ROWS < seen[i / EACH / ROWS] ? (float)(i % 7) / 4 : NAN;
    ls_session *s = ls_open(NULL);
    ls_tensor *x = ls_track(ls_clone(ls_values(s, numbers, LS_SHAPE(N, ROWS, EACH)), ls_cpu(0)));
    const ls_attention_options o = {.lengths = ls_clone(ls_values(s, lengths, LS_SHAPE(N, 1)), ls_cpu(0))};
    ls_tensor *y = ls_attention(x, x, x, &o);
    assert_int_equal(ls_backward(ls_sum(y)), LS_OK);
    float *values = test_read(y), *slopes = test_read(ls_grad(x));
    for (int i = 0; i < N * ROWS * EACH; i++) {
        const int there = i / EACH % ROWS < seen[i / EACH / ROWS];
        assert_true(there ? isfinite(values[i]) && isfinite(slopes[i]) : values[i] == 0 && slopes[i] == 0);
    }
    free(values);
    free(slopes);
    assert_int_equal(ls_close(s), LS_OK);
}

/* ---- What is refused ---- */

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_tensor *x = ls_zeros(s, LS_SHAPE(2, 6, 4)), *heads = ls_zeros(s, LS_SHAPE(2, 4, 6, 4));
    ls_tensor *three = ls_zeros(s, LS_SHAPE(2, 3, 6, 4)), *longer = ls_zeros(s, LS_SHAPE(2, 7, 4));
#define REFUSED(call, status, words)                                                                                   \
    do {                                                                                                               \
        assert_null(call);                                                                                             \
        assert_caught(s, status, words);                                                                               \
    } while (0)
#define TOLD(...) &(ls_attention_options){__VA_ARGS__}
    REFUSED(ls_attention(x, heads, heads, NULL), LS_BAD_SHAPE, "ls_attention: q must be (images, tokens, features)");
    REFUSED(ls_attention(x, x, longer, NULL), LS_BAD_SHAPE, "ls_attention: q must be (images, tokens");
    REFUSED(ls_attention(x, ls_zeros(s, LS_SHAPE(2, 6, 5)), x, NULL), LS_BAD_SHAPE, "ls_attention: q must be");
    REFUSED(ls_attention(x, ls_zeros(s, LS_SHAPE(1, 6, 4)), x, NULL), LS_BAD_SHAPE, "ls_attention: q must be");
    REFUSED(ls_attention(heads, three, three, NULL), LS_BAD_SHAPE, "ls_attention: k and v must have equal heads");
    REFUSED(ls_attention(heads, heads, three, NULL), LS_BAD_SHAPE, "ls_attention: k and v must have equal heads");
    REFUSED(ls_attention(x, x, x, TOLD(.dropout = 1)), LS_BAD_ARGUMENT, "ls_attention: dropout must be at least 0");
    REFUSED(ls_attention(x, x, x, TOLD(.dropout = NAN)), LS_BAD_ARGUMENT, "ls_attention: dropout must be at least 0");
    REFUSED(ls_attention(x, x, x, TOLD(.dropout = 0.5)), LS_BAD_ARGUMENT, "ls_attention: dropout is for the forward");
    REFUSED(ls_attention(x, x, x, TOLD(.scale = -2)), LS_BAD_ARGUMENT, "ls_attention: scale must be a number above 0");
    REFUSED(ls_attention(x, x, x, TOLD(.scale = 1e39)), LS_BAD_ARGUMENT, "ls_attention: scale must be a number");
    REFUSED(ls_attention(heads, heads, heads, TOLD(.kv_heads = 2)), LS_BAD_ARGUMENT,
            "ls_attention: kv_heads is 2, and k has 4 heads");
    REFUSED(ls_attention(x, x, x, TOLD(.lengths = ls_zeros(s, LS_SHAPE(3)))), LS_BAD_SHAPE,
            "ls_attention: lengths must be (images) or (images, 1)");
    REFUSED(ls_attention(x, x, x, TOLD(.lengths = ls_zeros(s, LS_SHAPE(2, 2)))), LS_BAD_SHAPE,
            "ls_attention: lengths must be");
    REFUSED(ls_nn_attention(s, 0, NULL), LS_BAD_ARGUMENT, "ls_nn_attention: heads must be at least 1");
    REFUSED(ls_nn_attention(s, 4, TOLD(.kv_heads = 3)), LS_BAD_ARGUMENT, "ls_nn_attention: heads must be at least 1");
    REFUSED(ls_nn_attention(s, 4, TOLD(.kv_heads = -1)), LS_BAD_ARGUMENT, "ls_nn_attention: heads");
    REFUSED(ls_nn_attention(s, 4, TOLD(.dropout = -0.1)), LS_BAD_ARGUMENT, "ls_nn_attention: dropout must be");
    REFUSED(ls_nn_attention(s, 4, TOLD(.scale = NAN)), LS_BAD_ARGUMENT, "ls_nn_attention: scale must be");
    REFUSED(ls_nn_attention(s, 4, TOLD(.lengths = x)), LS_BAD_ARGUMENT, "ls_nn_attention: lengths belong to a call");
    ls_module *net = ls_sequential(s, LS_LIST(ls_block(s, as_sequence, NULL), ls_nn_attention(s, 3, NULL)));
    ls_module_initialize(net, test_cpus(1), NULL);
    assert_null(ls_module_infer(net, ls_zeros(s, LS_SHAPE(2, 1, 5, 4))));
    assert_caught(s, LS_BAD_SHAPE, "ls_nn_attention: x must be (images, tokens, features), whose number");
    assert_int_equal(ls_close(s), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_in_pytorch),
        cmocka_unit_test(bits_do_not_depend_on_devices),
        cmocka_unit_test(what_is_behind_the_length_is_left_out),
        cmocka_unit_test(wrong_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
