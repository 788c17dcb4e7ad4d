/* LSTM and GRU against PyTorch's float64, and equal bits of every instruction set and any number of devices. */
#include "reference_cases.h"
#include "sequence_bits.h"

#include <lockstep_nn.h>
#include <string.h>

/* ---- PyTorch's figures ---- */

typedef ls_tensor *layer(ls_tensor *x, ls_tensor *weight_ih, ls_tensor *weight_hh, ls_tensor *bias_ih,
                         ls_tensor *bias_hh, const ls_recurrent *options);

static ls_tensor *operand(ls_session *s, ls_shape shape, int k)
{
    return ls_track(numbers_by(s, shape, 37, 11 * k, 101, 50, 64));
}

/* (images), on the core where the others are. */
static ls_tensor *lengths_of(ls_session *s, const json_t *one)
{
    int n;
    double *numbers = recorded_numbers(one, "lengths", &n);
    float values[16] = {0};
    for (int i = 0; numbers && i < n; i++)
        values[i] = (float)numbers[i];
    free(numbers);
    return n ? ls_clone(ls_values(s, values, LS_SHAPE(n)), ls_cpu(0)) : NULL;
}

static void run_figures(ls_session *s, const json_t *one)
{
    const int lstm = strcmp(recorded_name(one), "lstm") == 0, gates = lstm ? 4 : 3;
    const int h = (int)json_integer_value(json_object_get(one, "hidden"));
    const ls_shape shape = recorded_shape(one, "x");
    ls_tensor *x[] = {operand(s, shape, 0), operand(s, LS_SHAPE(gates * h, shape.dim[2]), 1),
                      operand(s, LS_SHAPE(gates * h, h), 2), operand(s, LS_SHAPE(gates * h), 3),
                      operand(s, LS_SHAPE(gates * h), 4)};
    const ls_recurrent how = {.lengths = lengths_of(s, one),
                              .reverse = json_is_true(json_object_get(one, "reverse")),
                              .last = json_is_true(json_object_get(one, "last"))};
    layer *const made = lstm ? ls_lstm : ls_gru;
    ls_tensor *y = made(x[0], x[1], x[2], x[3], x[4], &how);
    const ls_shape to = assert_recorded_shape(s, y, one);
    const double forward = off_by_recorded(y, one, "y");
    double backward = 0;
    ls_backward_from(y, numbers_by(s, to, 7, 0, 11, 5, 4));
    for (int k = 0; k < 5; k++)
        backward = fmax(backward, off_by_recorded(ls_grad(x[k]), one, (char[]){'d', (char)('0' + k), 0}));
    print_message("%-5s%s%s%s off by %.1e of the largest, the gradients by %.1e\n", recorded_name(one),
                  how.lengths ? " of lengths" : "", how.reverse ? " in reverse" : "", how.last ? ", the last" : "",
                  forward, backward);
    assert_true(forward < 1e-6 && backward < 2e-6);
}

static void as_in_pytorch(void **state)
{
    (void)state;
    run_reference_cases("recurrent", 10, &(ls_options){.shard = 2}, run_figures);
}

/* ---- Networks in training ---- */

enum { TOKENS = 6, FEATURES = 5 };

/* 2 or 5, by an image's first number. */
static ls_tensor *lengths_by_image(ls_module *self, ls_tensor *x)
{
    ls_tensor *half = ls_full(ls_session_of(self), 0.5, LS_SHAPE(1)),
              *two = ls_full(ls_session_of(self), 2, LS_SHAPE(1));
    ls_tensor *first = ls_flatten(ls_slice(ls_slice(x, 1, 0, 1), 2, 0, 1));
    return ls_add(ls_scale(ls_clamp(ls_scale(ls_subtract(first, half), 1e9), 0, 1), 3), two);
}

/* Both operations, with lengths and without, both ways, one behind the other. */
static ls_tensor *reading(ls_module *self, ls_tensor *x)
{
    ls_tensor *tokens = ls_mean_over(x, 1); /* of one channel */
    ls_tensor *lengths = lengths_by_image(self, tokens);
    ls_tensor *y = ls_module_call_with_lengths(self, "first", tokens, lengths);
    y = ls_module_call(self, "second", y);
    ls_tensor *parts[] = {ls_last_token(y, lengths), ls_module_call(self, "third", y)};
    return ls_concat_along(parts, 2, 1);
}

static ls_module *network(ls_session *s)
{
    ls_module *block = ls_block(s, reading, NULL);
    ls_module_append(block, "first", ls_nn_lstm_with(s, 7, &(ls_recurrent_options){.bidirectional = true}));
    ls_module_append(block, "second", ls_nn_gru_with(s, 9, &(ls_recurrent_options){.layers = 2}));
    ls_module_append(block, "third", ls_nn_lstm_with(s, 3, &(ls_recurrent_options){.reverse = true, .last = true}));
    return ls_sequential(s, LS_LIST(block, ls_nn_linear(s, SEQUENCE_CLASSES)));
}

static void bits_do_not_depend_on_devices(void **state)
{
    (void)state;
    assert_sequence_bits(network, TOKENS, FEATURES);
}

/* ---- Lengths ---- */

/* States up to the length, zeros behind it, NaN of what is none. */
static void a_length_ends_its_sequence(void **state)
{
    (void)state;
    static const float lengths[] = {3, 1, 0, -1, 4, 2.5f, NAN, INFINITY, -0.0f, 2};
    static const int ends[] = {3, 1, 0, -1, -1, -1, -1, -1, 0, 2};
    enum { N = sizeof ends / sizeof *ends, T = 3, F = 2, H = 2 };
    ls_session *s = ls_open(NULL);
    ls_tensor *x = numbers_by(s, LS_SHAPE(N, T, F), 37, 0, 101, 50, 64);
    ls_tensor *w = numbers_by(s, LS_SHAPE(4 * H, F), 37, 1, 101, 50, 64);
    const ls_recurrent how = {.lengths = ls_clone(ls_values(s, lengths, LS_SHAPE(N, 1)), ls_cpu(0))};
    ls_tensor *made = ls_lstm(x, w, w, NULL, NULL, &how);
    float *whole = test_read(ls_lstm(x, w, w, NULL, NULL, NULL)), *y = test_read(made);
    float *last = test_read(ls_last_token(made, how.lengths)), *end = test_read(ls_last_token(made, NULL));
    for (int i = 0; i < N; i++)
        for (int k = 0; k < H; k++) {
            for (int t = 0; t < T; t++) {
                const float got = y[(i * T + t) * H + k];
                assert_true(ends[i] < 0 ? isnan(got) : got == (t < ends[i] ? whole[(i * T + t) * H + k] : 0));
            }
            const float wanted = ends[i] > 0 ? whole[(i * T + ends[i] - 1) * H + k] : 0;
            assert_true(ends[i] < 0 ? isnan(last[i * H + k]) : last[i * H + k] == wanted);
            assert_true(ends[i] < 0 ? isnan(end[i * H + k]) : end[i * H + k] == y[(i * T + T - 1) * H + k]);
        }
    free(whole);
    free(y);
    free(last);
    free(end);
    assert_int_equal(ls_close(s), LS_OK);
}

/* ---- Layers ---- */

static void within(const ls_parameter_info *info, float *values, void *user)
{
    const double bound = *(double *)user;
    double largest = 0;
    for (int64_t i = 0; i < info->numbers; i++)
        largest = fmax(largest, fabs(values[i]));
    assert_true(largest <= bound && largest > bound / 2);
}

static void names_and_first_values_are_pytorchs(void **state)
{
    (void)state;
    static const char *const what[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    ls_session *s = ls_open(NULL);
    ls_module *net = ls_nn_gru_with(s, 16, &(ls_recurrent_options){.layers = 2, .bidirectional = true, .last = true});
    assert_int_equal(ls_module_initialize(net, test_cpus(1), &(ls_init){.kind = LS_HE}), LS_OK);
    assert_int_equal(ls_dim(ls_module_infer(net, ls_zeros(s, LS_SHAPE(2, 3, 5))), 1), 32);
    assert_int_equal(ls_module_parameter_count(net), 16);
    for (int i = 0; i < 16; i++) {
        ls_parameter_info info;
        char name[64];
        snprintf(name, sizeof name, "%s_l%d%s", what[i % 4], i / 8, i / 4 % 2 ? "_reverse" : "");
        ls_module_parameter_at(net, i, &info);
        assert_string_equal(info.name, name);
        assert_int_equal(info.shape[0], 48);
        if (i % 4 < 2)
            assert_int_equal(info.shape[1], i % 4 ? 16 : i < 8 ? 5 : 32);
    }
    double bound = 0.25;
    ls_module_apply(net, within, &bound);
    ls_module *bare = ls_nn_lstm_with(s, 4, &(ls_recurrent_options){.reverse = true, .no_bias = true});
    assert_int_equal(ls_module_initialize(bare, test_cpus(1), NULL), LS_OK);
    ls_module_infer(bare, ls_zeros(s, LS_SHAPE(2, 3, 5)));
    assert_int_equal(ls_module_parameter_count(bare), 2);
    ls_parameter_info info;
    ls_module_parameter_at(bare, 0, &info);
    assert_string_equal(info.name, "weight_ih_l0_reverse");
    bound = 0.5;
    ls_module_apply(bare, within, &bound);
    ls_module *plain[] = {ls_nn_lstm(s, 3), ls_nn_gru(s, 3)};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ls_module_initialize(plain[i], test_cpus(1), NULL), LS_OK);
        ls_tensor *y = ls_module_infer(plain[i], ls_zeros(s, LS_SHAPE(2, 4, 5)));
        assert_int_equal(ls_dim(y, 1), 4);
        assert_int_equal(ls_dim(y, 2), 3);
    }
    assert_int_equal(ls_close(s), LS_OK);
}

/* ---- What is refused ---- */

static ls_tensor *with_lengths(ls_module *self, ls_tensor *x)
{
    return ls_module_call_with_lengths(self, "layer", x, x);
}

static void wrong_operands_are_refused(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_tensor *x = ls_zeros(s, LS_SHAPE(2, 3, 4)), *flat = ls_zeros(s, LS_SHAPE(2, 4));
    ls_tensor *ih = ls_zeros(s, LS_SHAPE(20, 4)), *hh = ls_zeros(s, LS_SHAPE(20, 5)), *b = ls_zeros(s, LS_SHAPE(20));
    ls_tensor *gru_ih = ls_zeros(s, LS_SHAPE(15, 4)), *gru_hh = ls_zeros(s, LS_SHAPE(15, 5));
    ls_tensor *three = ls_zeros(s, LS_SHAPE(3)), *two = ls_zeros(s, LS_SHAPE(2));
#define REFUSED(call, status, words)                                                                                   \
    do {                                                                                                               \
        assert_null(call);                                                                                             \
        assert_caught(s, status, words);                                                                               \
    } while (0)
    REFUSED(ls_lstm(flat, ih, hh, b, b, NULL), LS_BAD_SHAPE, "ls_lstm: x must be (images, tokens, features)");
    REFUSED(ls_lstm(x, gru_ih, gru_hh, NULL, NULL, NULL), LS_BAD_SHAPE, "(4 * hidden, features)");
    REFUSED(ls_lstm(x, hh, hh, b, b, NULL), LS_BAD_SHAPE, "ls_lstm: x must be");
    REFUSED(ls_lstm(x, ih, ih, b, b, NULL), LS_BAD_SHAPE, "ls_lstm: x must be");
    REFUSED(ls_lstm(x, ih, three, b, b, NULL), LS_BAD_SHAPE, "ls_lstm: x must be");
    REFUSED(ls_lstm(x, ih, hh, three, b, NULL), LS_BAD_SHAPE, "ls_lstm: a bias must be");
    REFUSED(ls_lstm(x, ih, hh, NULL, three, NULL), LS_BAD_SHAPE, "ls_lstm: a bias must be");
    REFUSED(ls_lstm(x, ih, NULL, b, b, NULL), LS_BAD_ARGUMENT, "ls_lstm: a tensor is NULL");
    REFUSED(ls_lstm(x, ih, hh, b, b, &(ls_recurrent){.lengths = three}), LS_BAD_SHAPE,
            "ls_lstm: lengths must be (images) or (images, 1)");
    REFUSED(ls_gru(x, ih, hh, b, b, NULL), LS_BAD_SHAPE, "(3 * hidden, features)");
    REFUSED(ls_gru(x, gru_ih, gru_hh, NULL, NULL, &(ls_recurrent){.lengths = flat}), LS_BAD_SHAPE,
            "ls_gru: lengths must be");
    REFUSED(ls_last_token(flat, two), LS_BAD_SHAPE, "ls_last_token: x must be (images, tokens, features)");
    REFUSED(ls_last_token(x, three), LS_BAD_SHAPE, "ls_last_token: x must be");
    REFUSED(ls_nn_lstm(s, 0), LS_BAD_ARGUMENT, "ls_nn_lstm: features must be at least 1");
    REFUSED(ls_nn_gru(s, -1), LS_BAD_ARGUMENT, "ls_nn_gru: features must be");
    REFUSED(ls_nn_lstm_with(s, 3, &(ls_recurrent_options){.layers = -1}), LS_BAD_ARGUMENT,
            "ls_nn_lstm_with: layers must be from 1 to 64");
    REFUSED(ls_nn_gru_with(s, 3, &(ls_recurrent_options){.reverse = true, .bidirectional = true}), LS_BAD_ARGUMENT,
            "ls_nn_gru_with: a layer that goes both ways");
    static const struct {
        int recurrent, rank;
        ls_status status;
        const char *words;
    } calls[] = {{0, 2, LS_BAD_ARGUMENT, "\"layer\" is neither a recurrent layer nor attention"},
                 {1, 2, LS_BAD_SHAPE, "ls_nn_lstm: x must be (images, tokens, features)"},
                 {1, 3, LS_BAD_SHAPE, "ls_lstm: lengths must be"}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        ls_module *net = ls_block(s, with_lengths, NULL);
        ls_module_append(net, "layer", calls[i].recurrent ? ls_nn_lstm(s, 3) : ls_nn_linear(s, 3));
        ls_module_initialize(net, test_cpus(1), NULL);
        REFUSED(ls_module_infer(net, calls[i].rank == 3 ? x : flat), calls[i].status, calls[i].words);
    }
    assert_int_equal(ls_close(s), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_in_pytorch),
        cmocka_unit_test(bits_do_not_depend_on_devices),
        cmocka_unit_test(a_length_ends_its_sequence),
        cmocka_unit_test(names_and_first_values_are_pytorchs),
        cmocka_unit_test(wrong_operands_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
