/* Operations on sequences against PyTorch's float64, and equal bits of every instruction set and any number of
 * devices. */
#include "reference_cases.h"
#include "sequence_bits.h"

#include <lockstep_nn.h>

enum { MOST = 5 };

/* ---- PyTorch's figures ---- */

/* Operand k: numbers that are tracked, or whole ones below a count. */
static ls_tensor *operand(ls_session *s, const json_t *shapes, int k)
{
    const json_t *list = json_array_get(shapes, (size_t)k);
    const size_t first = json_is_string(json_array_get(list, 0)) ? 2 : 0;
    ls_shape shape = {.rank = (int)(json_array_size(list) - first)};
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = json_integer_value(json_array_get(list, (size_t)i + first));
    if (!first)
        return ls_track(numbers_by(s, shape, 37, 11 * k, 101, 50, 32));
    ls_tensor *ids = numbers_by(s, shape, 37, 11 * k, 101, 0, 1);
    float *values = test_read(ids);
    for (int64_t i = 0; i < test_numbers_of(ids); i++)
        values[i] = (float)((int)values[i] % (int)json_integer_value(json_array_get(list, 1)));
    ids = ls_clone(ls_values(s, values, shape), ls_cpu(0));
    free(values);
    return ids;
}

static ls_tensor *apply(const char *name, ls_tensor *const x[MOST])
{
    if (strcmp(name, "linear") == 0)
        return ls_linear(x[0], x[1], x[2]);
    if (strcmp(name, "embedding") == 0)
        return ls_embedding(x[0], x[1]);
    if (strcmp(name, "batch_matmul") == 0)
        return ls_batch_matmul(x[0], x[1]);
    assert_string_equal(name, "matmul");
    return ls_matmul(x[0], x[1]);
}

static void run_figures(ls_session *s, const json_t *one)
{
    const json_t *shapes = json_object_get(one, "shapes");
    ls_tensor *x[MOST] = {NULL};
    const int n = (int)json_array_size(shapes);
    assert_true(n <= MOST);
    for (int k = 0; k < n; k++)
        x[k] = operand(s, shapes, k);
    ls_tensor *y = apply(recorded_name(one), x);
    const ls_shape to = assert_recorded_shape(s, y, one);
    const double forward = off_by_recorded(y, one, "y");
    double backward = 0;
    ls_backward_from(y, numbers_by(s, to, 7, 0, 11, 5, 4));
    for (int k = 0; k < n; k++) {
        char key[3] = {'d', (char)('0' + k)};
        if (json_object_get(one, key))
            backward = fmax(backward, off_by_recorded(ls_grad(x[k]), one, key));
    }
    print_message("%-10s off by %.1e of the largest, the gradients by %.1e\n", recorded_name(one), forward, backward);
    assert_true(forward < 1e-6 && backward < 2e-6);
}

static void as_in_pytorch(void **state)
{
    (void)state;
    run_reference_cases("sequences", 6, &(ls_options){.shard = 2}, run_figures);
}

/* ---- Networks in training ---- */

enum { TOKENS = 6, FEATURES = 9 };

static ls_tensor *rows_of(ls_tensor *x)
{
    return ls_mean_over(ls_transpose(x, 1, 3), 3); /* (images, FEATURES, TOKENS) */
}

/* Two layers one after the other, one that two others read, and an addition around two. */
static ls_tensor *mixed(ls_module *self, ls_tensor *x)
{
    ls_tensor *y = ls_relu(ls_module_call(self, "first", rows_of(x)));
    y = ls_module_call(self, "second", y);
    y = ls_add(y, ls_module_call(self, "inner", ls_gelu(ls_module_call(self, "wide", y))));
    ls_tensor *pairs = ls_batch_matmul(y, ls_transpose(y, 1, 2)); /* the same operand twice */
    y = ls_matmul(ls_batch_matmul(pairs, y), ls_module_parameter(self, "turning", LS_SHAPE(5, 3)));
    return ls_flatten(ls_tanh(y));
}

/* The numbers of an image's first row as a text, whose places are constants. */
static ls_tensor *text(ls_module *self, ls_tensor *x)
{
    ls_tensor *ids = ls_flatten(ls_scale(ls_slice(x, 2, 0, 1), 255));
    ls_tensor *places = ls_randn(ls_session_of(self), "places", 1, LS_SHAPE(FEATURES, 5));
    ls_tensor *y = ls_add(ls_module_call(self, "table", ids), places);
    return ls_mean_over(ls_gelu(ls_module_call(self, "inner", y)), 1);
}

static ls_module *reader(ls_session *s)
{
    ls_module *block = ls_block(s, text, NULL);
    ls_module_append(block, "table", ls_nn_embedding(s, 256, 5));
    ls_module_append(block, "inner", ls_nn_linear(s, 11));
    return ls_sequential(s, LS_LIST(block, ls_nn_linear(s, SEQUENCE_CLASSES)));
}

static ls_module *network(ls_session *s)
{
    ls_module *block = ls_block(s, mixed, NULL);
    ls_module_append(block, "first", ls_nn_linear(s, 17));
    ls_module_append(block, "second", ls_nn_linear_with(s, 5, &(ls_linear_options){.no_bias = true}));
    ls_module_append(block, "wide", ls_nn_linear(s, 20));
    ls_module_append(block, "inner", ls_nn_linear(s, 5));
    return ls_sequential(s, LS_LIST(block, ls_nn_linear(s, SEQUENCE_CLASSES)));
}

static void bits_do_not_depend_on_devices(void **state)
{
    (void)state;
    assert_sequence_bits(network, TOKENS, FEATURES);
    assert_sequence_bits(reader, TOKENS, FEATURES);
}

/* ---- Ids ---- */

/* A row for each id, NaN for what is none and was computed, which ends a step. */
static void an_id_has_its_row(void **state)
{
    (void)state;
    static const float ids[] = {0, 6, 3, -1, 7, 2.5f, NAN, INFINITY, -0.0f, 0x1p31f};
    static const int rows[] = {0, 6, 3, -1, -1, -1, -1, -1, 0, -1};
    enum { N = sizeof ids / sizeof *ids };
    ls_session *s = ls_open(NULL);
    ls_tensor *table = ls_track(ls_clone(ls_arange(s, 1, LS_SHAPE(7, 3)), ls_cpu(0)));
    ls_tensor *computed = ls_scale(ls_clone(ls_values(s, ids, LS_SHAPE(2, N / 2)), ls_cpu(0)), 1);
    ls_tensor *y = ls_embedding(computed, table);
    float *values = test_read(y);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 3; k++)
            assert_true(rows[i] < 0 ? isnan(values[3 * i + k]) : values[3 * i + k] == (float)(1 + 3 * rows[i] + k));
    free(values);
    assert_int_equal(ls_backward(ls_sum(y)), LS_OK);
    static const float times[] = {2, 2, 2, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1};
    assert_values(ls_grad(table), times);
    assert_int_equal(ls_close(s), LS_OK);
}

/* ---- What is refused ---- */

static void wrong_shapes_are_refused(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_tensor *x = ls_zeros(s, LS_SHAPE(2, 3, 4)), *maps = ls_zeros(s, LS_SHAPE(2, 3, 4, 5));
    ls_tensor *three = ls_zeros(s, LS_SHAPE(3, 3)), *five = ls_zeros(s, LS_SHAPE(5, 5));
#define REFUSED(call, status, words)                                                                                   \
    do {                                                                                                               \
        assert_null(call);                                                                                             \
        assert_caught(s, status, words);                                                                               \
    } while (0)
    REFUSED(ls_linear(x, three, NULL), LS_BAD_SHAPE, "ls_linear: x must be flat or (images, tokens, features)");
    REFUSED(ls_matmul(x, three), LS_BAD_SHAPE, "ls_matmul: x must be flat or (images, tokens, features)");
    REFUSED(ls_embedding(x, three), LS_BAD_SHAPE, "ls_embedding: ids must be (images, tokens)");
    REFUSED(ls_embedding(ls_zeros(s, LS_SHAPE(2, 3)), x), LS_BAD_SHAPE, "ls_embedding: ids must be");
    REFUSED(ls_nn_embedding(s, 0, 4), LS_BAD_ARGUMENT, "ls_nn_embedding: rows and features must be at least 1");
    REFUSED(ls_nn_embedding(s, 4, 0), LS_BAD_ARGUMENT, "ls_nn_embedding: rows");
    REFUSED(ls_batch_matmul(x, x), LS_BAD_SHAPE, "ls_batch_matmul: a must be (images, rows, inner)");
    REFUSED(ls_batch_matmul(x, maps), LS_BAD_SHAPE, "ls_batch_matmul: a must be");
    REFUSED(ls_batch_matmul(ls_zeros(s, LS_SHAPE(2, 1, 4, 5)), ls_transpose(maps, 2, 3)), LS_BAD_SHAPE,
            "ls_batch_matmul: a must be");
    REFUSED(ls_linear(maps, five, NULL), LS_BAD_SHAPE, "ls_linear: x must");
    assert_int_equal(ls_close(s), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_in_pytorch),
        cmocka_unit_test(bits_do_not_depend_on_devices),
        cmocka_unit_test(an_id_has_its_row),
        cmocka_unit_test(wrong_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
