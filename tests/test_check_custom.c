/* ls_custom_check: right backwards pass, and each way to be wrong is seen; what is refused, by name. */
#include "support.h"

#include <lockstep.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* y = x^2 * w, one w for each channel; `user` says what is wrong with it. */
typedef enum fault {
    NONE,
    SIGN,
    FACTOR,
    PARAMETER_SIGN,
    ONE_PLACE,
    FORGETS_ROWS,
    NOT_A_NUMBER,
    RESTLESS,
    RESTLESS_BACKWARD,
    ADDS
} fault;

static fault fault_of(const ls_custom_call *call)
{
    return *(const fault *)call->user;
}

static int numbers_in(const ls_custom_call *call)
{
    return call->rows * call->in[0][0] * call->in[0][1] * call->in[0][2];
}

static int channel_of(const ls_custom_call *call, int i)
{
    return i / (call->in[0][1] * call->in[0][2]) % call->in[0][0];
}

static void square(const ls_custom_call *call, const float *const in[], float *out)
{
    static int calls;
    for (int i = 0; i < numbers_in(call); i++) {
        float y = in[0][i] * in[0][i] * in[1][channel_of(call, i)];
        out[i] = fault_of(call) == ADDS ? out[i] + y : y;
    }
    if (fault_of(call) == NOT_A_NUMBER) {
        out[1] = NAN;
    }
    if (fault_of(call) == RESTLESS) {
        out[0] = (float)calls++;
    }
}

static void square_backward(const ls_custom_call *call, const float *const in[], const float *out, const float *dout,
                            float *const din[])
{
    static int calls;
    (void)out;
    fault wrong = fault_of(call);
    float factor = wrong == SIGN ? -2 : wrong == FACTOR ? 1.9F : 2, sign = wrong == PARAMETER_SIGN ? -1 : 1;
    int n = numbers_in(call);
    for (int i = 0; i < n; i++) {
        int c = channel_of(call, i);
        float dx = factor * dout[i] * in[0][i] * in[1][c];
        din[0][i] = wrong == ADDS ? din[0][i] + dx : dx;
        if (wrong != FORGETS_ROWS || i < n / call->rows) {
            din[1][c] += sign * dout[i] * in[0][i] * in[0][i];
        }
    }
    if (wrong == RESTLESS_BACKWARD) {
        din[1][0] += (float)calls++;
    }
    if (wrong == ONE_PLACE) {
        din[0][n / 2] = -din[0][n / 2];
    }
}

static bool a_number_a_channel(ls_custom_call *call)
{
    return call->in[1][0] == call->in[0][0];
}

static ls_custom squaring(fault *wrong)
{
    return (ls_custom){.name = "square",
                       .inputs = 2,
                       .parameters = 2,
                       .shape = a_number_a_channel,
                       .forward = square,
                       .backward = square_backward,
                       .user = wrong};
}

static const int shapes[][3] = {{3, 2, 5}, {3, 1, 1}};

static double check(fault wrong, uint64_t seed, ls_status expected)
{
    ls_session *session = ls_open(&(ls_options){.seed = seed});
    ls_custom op = squaring(&wrong);
    double error = ls_custom_check(session, &op, shapes, 6);
    assert_int_equal(ls_status_of(session), expected);
    if (expected != LS_OK) {
        assert_true(isnan(error));
        assert_non_null(strstr(ls_message(session), "ls_custom_check: square"));
    }
    ls_close(session);
    return error;
}

static void right_ones_pass_and_wrong_ones_show(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++) {
        assert_true(check(NONE, seed, LS_OK) < 1e-4);
        assert_true(check(SIGN, seed, LS_OK) > 1);
        assert_true(check(PARAMETER_SIGN, seed, LS_OK) > 1);
        assert_true(check(FACTOR, seed, LS_OK) > 0.01);
        assert_true(check(ONE_PLACE, seed, LS_OK) > 1e-3);
        assert_true(check(FORGETS_ROWS, seed, LS_OK) > 0.1);
    }
    assert_true(check(ADDS, 0, LS_OK) < 1e-4); /* results come all zero, as in training */
    double once = check(NONE, 3, LS_OK), again = check(NONE, 3, LS_OK);
    assert_memory_equal(&once, &again, sizeof once);
}

static void what_is_not_a_slope_is_said(void **state)
{
    (void)state;
    check(NOT_A_NUMBER, 0, LS_NOT_FINITE);
    check(RESTLESS, 0, LS_BAD_ARGUMENT);
    check(RESTLESS_BACKWARD, 0, LS_BAD_ARGUMENT);
}

static void refused(const ls_custom *op, const int sizes[][3], int rows, ls_status status, const char *message)
{
    ls_session *session = ls_open(NULL);
    assert_true(isnan(ls_custom_check(session, op, sizes, rows)));
    assert_int_equal(ls_status_of(session), status);
    assert_non_null(strstr(ls_message(session), message));
    assert_true(isnan(ls_custom_check(session, op, sizes, rows)));
    ls_close(session);
}

static void misuse_is_refused(void **state)
{
    (void)state;
    fault none = NONE;
    const ls_custom good = squaring(&none);
    ls_custom op = good;
    assert_true(isnan(ls_custom_check(NULL, &good, shapes, 6)));
    refused(NULL, shapes, 6, LS_BAD_ARGUMENT, "ls_custom_check: an operation has a name, a forward and 1 to 3 inputs");
    refused(&good, NULL, 6, LS_BAD_ARGUMENT, "ls_custom_check: needs the inputs' shapes and at least one row");
    refused(&good, shapes, 0, LS_BAD_ARGUMENT, "ls_custom_check: needs the inputs' shapes and at least one row");
    refused(&good, (const int[][3]){{3, 0, 5}, {3, 1, 1}}, 6, LS_BAD_SHAPE,
            "ls_custom_check: shapes[0] is {3, 0, 5} with 6 rows: all must be at least 1, and not too large");
    refused(&good, (const int[][3]){{3, 2, 5}, {3, 2, 1}}, 6, LS_BAD_SHAPE,
            "ls_custom_check: shapes[1] is {3, 2, 1} with 6 rows: a parameter is {numbers, 1, 1}");
    refused(
        &good, (const int[][3]){{1 << 20, 1 << 20, 5}, {3, 1, 1}}, 6, LS_BAD_SHAPE,
        "ls_custom_check: shapes[0] is {1048576, 1048576, 5} with 6 rows: all must be at least 1, and not too large");
    refused(&good, (const int[][3]){{3, 2, 5}, {4, 1, 1}}, 6, LS_BAD_SHAPE,
            "ls_custom_check: square: its shape rule refuses the inputs");
    op.parameters = 1;
    refused(&op, shapes, 6, LS_BAD_ARGUMENT,
            "ls_custom_check: `parameters` names the first input, which is (images, ...), or one that is not there");
    op = good;
    op.backward = NULL;
    refused(&op, shapes, 6, LS_UNSUPPORTED, "ls_custom_check: square has no backward");
}

/* Lines for ONNX are read, whoever writes the model. */
static void lines_for_onnx_are_read(void **state)
{
    (void)state;
    static const char *const good[] = {
        "y = Mul(x0,x1)", "\n a = Softplus (x0) ; b=Tanh(a)\n\ny = Mul (x0, b);\n",
        "p.1 = Transpose <perm = [0, 2, -1]> (x0)\r\ny = Op<a=1,b = -0.5, c = \"linear\", d = [], e = 1e3>(p.1, x1)",
        "half = Constant <value_float = 0.5> (); y = Mul (x0, half)"};
    static const struct {
        const char *text, *said;
    } bad[] = {
        {"", "line 1 of its onnx: there is no line"},
        {"y Mul (x0)", "line 1 of its onnx: a line must be NAME = OPERATOR"},
        {"y = (x0)", "line 1 of its onnx: an operator must follow ="},
        {"y = Mul", "line 1 of its onnx: the operands must stand in (...)"},
        {"y = Mul (x0", "line 1 of its onnx: the operands must end with )"},
        {"y = Mul (x0, x2)", "line 1 of its onnx: an operand must be x0, x1, ... or the name of a line above"},
        {"a = Tanh (x0)\n\ny = Mul (b)", "line 3 of its onnx: an operand must be x0"},
        {"a = Tanh (x0); a = Tanh (x0)", "line 2 of its onnx: its name is that of an input or of a line above"},
        {"x1 = Tanh (x0)", "line 1 of its onnx: its name is that of an input"},
        {"y = Tanh (x0) x1", "line 1 of its onnx: something stands behind the operands"},
        {"y = Tanh <a = > (x0)", "line 1 of its onnx: a value must be a finite number"},
        {"y = Tanh <a = nan> (x0)", "line 1 of its onnx: a value must be a finite number"},
        {"y = Tanh <a = 1e99> (x0)", "line 1 of its onnx: a value must be a finite number"},
        {"y = Tanh <1 = 2> (x0)", "line 1 of its onnx: an attribute must have a name"},
        {"y = Tanh <a 2> (x0)", "line 1 of its onnx: an attribute must be NAME = VALUE"},
        {"y = Tanh <a = 2 (x0)", "line 1 of its onnx: the attributes must end with >"},
        {"y = Tanh <a = [1, 2> (x0)", "line 1 of its onnx: a list must end with ]"},
        {"y = Tanh <a = [1, 2.5]> (x0)", "line 1 of its onnx: a list has whole numbers alone"},
        {"y = Tanh <a = [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]> (x0)", "a list has more than 16 numbers"},
        {"y = Tanh <a = \"open> (x0)", "line 1 of its onnx: a text must end with"},
        {"y = Tanh <a=1,b=1,c=1,d=1,e=1,f=1,g=1> (x0)", "an operator has at most 6 attributes"},
        {"y = Sum (x0,x0,x0,x0,x0,x0,x0,x0,x0)", "an operator has at most 8 operands"},
        {"y = Tanhxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx (x0)", "more than 63 letters"}};
    fault none = NONE;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ls_session *session = ls_open(NULL);
        ls_custom op = squaring(&none);
        op.onnx = good[i];
        assert_true(ls_custom_check(session, &op, shapes, 6) < 1e-4);
        assert_int_equal(ls_close(session), LS_OK);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ls_custom op = squaring(&none);
        op.onnx = bad[i].text;
        refused(&op, shapes, 6, LS_BAD_ARGUMENT, bad[i].said);
    }
    char many[33 * 16] = "";
    for (int i = 0; i < 33; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "y%d=Tanh(x0);", i);
    ls_custom op = squaring(&none);
    op.onnx = many;
    refused(&op, shapes, 6, LS_BAD_ARGUMENT, "line 33 of its onnx: there are at most 32 lines");
}

/* Memory that runs out at any point of it. */
static long made, fail_at;

static void *allocate(size_t bytes, size_t alignment, void *user)
{
    (void)user;
    return ++made == fail_at ? NULL : aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void release(void *memory, void *user)
{
    (void)user;
    free(memory);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fault none = NONE;
    ls_custom op = squaring(&none);
    op.onnx = "y = Mul (x0, x1)";
    for (fail_at = 1;; fail_at++) {
        made = 0;
        ls_session *session = ls_open(&(ls_options){.allocator = &(ls_allocator){allocate, release, NULL}});
        double error = ls_custom_check(session, &op, shapes, 6);
        if (ls_close(session) == LS_OK) {
            assert_true(error < 1e-4);
            break;
        }
        assert_true(isnan(error));
    }
    assert_true(fail_at > 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_ones_pass_and_wrong_ones_show),
        cmocka_unit_test(what_is_not_a_slope_is_said),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(lines_for_onnx_are_read),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
