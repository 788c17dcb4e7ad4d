/* The functions of one number against PyTorch's in float64 (tests/reference/make_functions.py, which says of what
 * numbers), and operations on pairs whose shapes are brought to one: each number against a plain loop, and the
 * gradients against plain sums. */
#include "reference_cases.h"

#include <lockstep_nn.h>

/* ---- PyTorch's figures ---- */

static ls_tensor *apply(const char *name, ls_tensor *x, const double arguments[2])
{
    static const struct {
        const char *name;
        ls_tensor *(*fn)(ls_tensor *);
        ls_tensor *(*fn_with)(ls_tensor *, double);
    } functions[] = {{"tanh", ls_tanh, NULL},
                     {"sigmoid", ls_sigmoid, NULL},
                     {"silu", ls_silu, NULL},
                     {"gelu", ls_gelu, NULL},
                     {"exp", ls_exp, NULL},
                     {"log", ls_log, NULL},
                     {"gelu_tanh", ls_gelu_tanh, NULL},
                     {"log_sigmoid", ls_log_sigmoid, NULL},
                     {"sqrt", ls_sqrt, NULL},
                     {"abs", ls_abs, NULL},
                     {"leaky_relu", NULL, ls_leaky_relu},
                     {"power", NULL, ls_power}};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0)
            return functions[i].fn ? functions[i].fn(x) : functions[i].fn_with(x, arguments[0]);
    assert_string_equal(name, "clamp");
    return ls_clamp(x, arguments[0], arguments[1]);
}

static void run_figures(ls_session *s, const json_t *one)
{
    int n;
    double *x = recorded_numbers(one, "x", &n), *arguments = recorded_numbers(one, "arguments", &(int){0}), dy[128];
    assert_true(n <= 128);
    for (int i = 0; i < n; i++)
        dy[i] = (7 * i % 11 - 5) / 4.0;
    ls_tensor *tracked = tracked_numbers(s, x, LS_SHAPE(n, 1)), *made = apply(recorded_name(one), tracked, arguments);
    const double forward = off_by_recorded(made, one, "y");
    assert_int_equal(ls_backward_from(made, tracked_numbers(s, dy, LS_SHAPE(n, 1))), LS_OK);
    const double backward = off_by_recorded(ls_grad(tracked), one, "dx");
    print_message("%-11s off by %.1e of the largest, the gradient by %.1e\n", recorded_name(one), forward, backward);
    assert_true(forward < 1e-7 && backward < 2e-7);
    free(x);
    free(arguments);
}

static void as_in_pytorch(void **state)
{
    (void)state;
    run_reference_cases("functions", 15, NULL, run_figures);
}

/* ---- Pairs ---- */

typedef ls_tensor *pair_function(ls_tensor *, ls_tensor *);
static pair_function *const pair_functions[] = {ls_add, ls_subtract, ls_multiply, ls_divide};
enum { ADD, SUBTRACT, MULTIPLY, DIVIDE, PAIRS, NUMBERS = 512 };

static float pair_of(int op, float a, float b)
{
    return op == ADD ? a + b : op == SUBTRACT ? a - b : op == MULTIPLY ? a * b : a / b;
}

/* The derivative with respect to an operand. */
static double slope_of(int op, int operand, double a, double b)
{
    if (op == ADD || op == SUBTRACT)
        return op == SUBTRACT && operand ? -1 : 1;
    if (op == MULTIPLY)
        return operand ? a : b;
    return operand ? -a / (b * b) : 1 / b;
}

typedef struct shapes {
    ls_shape a, b;
    ls_shape behind; /* b's as it meets a's, of a parameter's with 1 image */
} shapes;

#define SHAPE(...)                                                                                                     \
    {                                                                                                                  \
        sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                                                            \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

static const shapes pairs[] = {
    {SHAPE(5, 3, 2, 4), SHAPE(5, 3, 2, 4), SHAPE(5, 3, 2, 4)}, /* alike */
    {SHAPE(5, 3, 2, 4), SHAPE(5, 3, 1, 1), SHAPE(5, 3, 1, 1)},
    {SHAPE(5, 3, 2, 4), SHAPE(5, 1, 2, 4), SHAPE(5, 1, 2, 4)},
    {SHAPE(5, 1, 1, 1), SHAPE(5, 3, 2, 4), SHAPE(5, 3, 2, 4)},
    {SHAPE(37, 3, 1, 1), SHAPE(37, 1, 2, 2), SHAPE(37, 1, 2, 2)}, /* both are repeated */
    {SHAPE(5, 3, 1, 4), SHAPE(5, 3, 2, 1), SHAPE(5, 3, 2, 1)},
    {SHAPE(37, 7), SHAPE(37, 1), SHAPE(37, 1)},
    {SHAPE(37, 1), SHAPE(37, 7), SHAPE(37, 7)},
    {SHAPE(5, 3, 4), SHAPE(5, 1, 4), SHAPE(5, 1, 4)},
    {SHAPE(5, 3, 2, 4), SHAPE(3), SHAPE(1, 3, 1, 1)}, /* parameters from here on */
    {SHAPE(5, 3, 2, 4), SHAPE(1), SHAPE(1, 1, 1, 1)},
    {SHAPE(5, 3, 2, 4), SHAPE(3, 2, 4), SHAPE(1, 3, 2, 4)},
    {SHAPE(5, 3, 2, 4), SHAPE(2, 4), SHAPE(1, 1, 2, 4)},
    {SHAPE(5, 3, 2, 4), SHAPE(3, 1, 1), SHAPE(1, 3, 1, 1)},
    {SHAPE(5, 3, 2, 4), SHAPE(1, 4), SHAPE(1, 1, 1, 4)},
    {SHAPE(5, 1, 2, 4), SHAPE(3, 2, 1), SHAPE(1, 3, 2, 1)}, /* both again */
    {SHAPE(37, 7), SHAPE(7), SHAPE(1, 7)},
    {SHAPE(37, 1), SHAPE(1), SHAPE(1, 1)},
    {SHAPE(5, 3, 4), SHAPE(3), SHAPE(1, 3, 1)},
    {SHAPE(5, 3, 4), SHAPE(3, 4), SHAPE(1, 3, 4)},
};

static int64_t numbers_of(const ls_shape *shape)
{
    int64_t n = 1;
    for (int i = 0; i < shape->rank; i++)
        n *= shape->dim[i];
    return n;
}

/* The place of number i of `whole` in a shape that has 1 where it is repeated. */
static int64_t place_in(const ls_shape *shape, const ls_shape *whole, int64_t i)
{
    int64_t at[LS_MAX_RANK], place = 0;
    for (int k = whole->rank - 1; k >= 0; k--) {
        at[k] = i % whole->dim[k];
        i /= whole->dim[k];
    }
    for (int k = 0; k < shape->rank; k++)
        place = place * shape->dim[k] + (shape->dim[k] == 1 ? 0 : at[k]);
    return place;
}

/* Tracked, on the device, its numbers kept; none is near 0. */
static ls_tensor *numbered(ls_session *s, const ls_shape *shape, int from, float *values)
{
    for (int64_t i = 0; i < numbers_of(shape); i++)
        values[i] = (float)((i * 37 + from) % 64 + 16) / 32 * (i % 3 ? 1.0f : -1.0f);
    return ls_track(ls_clone(ls_values(s, values, *shape), ls_cpu(0)));
}

static void run_pair(ls_session *s, const shapes *p, int op)
{
    static float a[NUMBERS], b[NUMBERS], dy[NUMBERS];
    double wanted[NUMBERS], slope[2][NUMBERS] = {{0}};
    ls_shape whole = p->a;
    for (int k = 0; k < whole.rank; k++)
        whole.dim[k] = whole.dim[k] > p->behind.dim[k] ? whole.dim[k] : p->behind.dim[k];
    ls_tensor *in[2] = {numbered(s, &p->a, 1, a), numbered(s, &p->b, 9, b)};
    ls_tensor *y = pair_functions[op](in[0], in[1]), *gradient = numbered(s, &whole, 5, dy);
    assert_int_equal(numbers_of(&whole), test_numbers_of(y));
    float *got = test_read(y);
    for (int64_t i = 0; i < numbers_of(&whole); i++) {
        const int64_t at[2] = {place_in(&p->a, &whole, i), place_in(&p->behind, &whole, i)};
        wanted[i] = pair_of(op, a[at[0]], b[at[1]]);
        assert_true(got[i] == (float)wanted[i]);
        for (int k = 0; k < 2; k++)
            slope[k][at[k]] += dy[i] * slope_of(op, k, a[at[0]], b[at[1]]);
    }
    free(got);
    assert_int_equal(ls_backward_from(y, gradient), LS_OK);
    for (int k = 0; k < 2; k++)
        assert_true(off_by(ls_grad(in[k]), slope[k], (int)test_numbers_of(in[k])) < 1e-6);
}

static void pairs_are_repeated_to_one_shape(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int op = 0; op < PAIRS; op++) {
            ls_session *s = ls_open(&(ls_options){.shard = 20});
            run_pair(s, &pairs[i], op);
            if (ls_failed(s))
                fail_msg("pair %zu, operation %d: %s", i, op, ls_message(s));
            assert_int_equal(ls_close(s), LS_OK);
        }
}

static void others_are_refused(void **state)
{
    (void)state;
    static const struct {
        ls_shape a, b;
    } wrong[] = {
        {SHAPE(5, 3, 2, 4), SHAPE(4)}, /* one size meets the channels */
        {SHAPE(5, 3, 2, 4), SHAPE(3, 2)},
        {SHAPE(5, 3, 2, 4), SHAPE(5, 3, 2, 3)},
        {SHAPE(5, 7), SHAPE(1, 7)}, /* other images */
        {SHAPE(5, 7), SHAPE(5, 3)},
        {SHAPE(5, 7), SHAPE(5, 7, 1)},
        {SHAPE(5), SHAPE(1)},
    };
    ls_session *s = ls_open(NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (int op = 0; op < PAIRS; op++) {
            assert_null(pair_functions[op](ls_zeros(s, wrong[i].a), ls_zeros(s, wrong[i].b)));
            assert_caught(s, LS_BAD_SHAPE, ": operands must be (images, ...)");
        }
    ls_tensor *x = ls_zeros(s, LS_SHAPE(2, 3)), *none = ls_zeros(s, (ls_shape){.rank = 0});
    assert_null(ls_leaky_relu(x, INFINITY));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_leaky_relu: the slope must be finite");
    assert_null(ls_power(x, 1e39));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_power: the exponent must be finite");
    assert_null(ls_clamp(x, 1, 0.5));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_clamp: low must be a number that is not above high");
    assert_null(ls_clamp(x, NAN, 1));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_clamp: low must");
    assert_values(ls_clamp(x, -INFINITY, -1), (float[]){-1, -1, -1, -1, -1, -1});
    assert_null(ls_gelu(none));
    assert_caught(s, LS_BAD_SHAPE, "ls_gelu: x must be (images, ...)");
    assert_null(ls_nn_fn_with(s, NULL, 1));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_nn_fn_with: fn is NULL");
    assert_int_equal(ls_close(s), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_in_pytorch),
        cmocka_unit_test(pairs_are_repeated_to_one_shape),
        cmocka_unit_test(others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
