/* exp, log, tanh, sigmoid and a fused product: their accuracy against the C library's in a wider type, their special
 * values, and their bits, which are the same on every machine. */
#include "support.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "device/cpu/fma.h"
#include "device/function.h"

/* Of the numbers that accuracy is measured at, and of fused products, one in so many. */
static uint32_t every = 1;

static uint32_t bits(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    return word;
}

static float number(uint32_t word)
{
    float x;
    memcpy(&x, &word, sizeof x);
    return x;
}

/* The size of a unit in the last place of the float nearest to x, also among the subnormal ones. */
static double float_unit(double x)
{
    int exponent;
    frexp(x, &exponent);
    return ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

static void expf_is_accurate(void **state)
{
    (void)state;
    double worst = 0;
    for (uint32_t word = 0; word < 0x42b20000; word += 997 * every) { /* 0 to 89, both signs */
        for (int sign = 0; sign < 2; sign++) {
            float x = number(word | (uint32_t)sign << 31), y = ls_expf(x);
            double right = exp((double)x);
            if (right <= FLT_MAX) {
                worst = fmax(worst, fabs(y - right) / float_unit(right));
            }
        }
    }
    for (float x = -104; x < -80; x += 0.0007f * (float)every) {
        double right = exp((double)x);
        worst = fmax(worst, fabs(ls_expf(x) - right) / float_unit(right));
    }
    printf("ls_expf: %.4f units in the last place\n", worst);
    assert_true(worst <= 0.5001);
}

static void expf_at_the_edges(void **state)
{
    (void)state;
    assert_true(ls_expf(0) == 1 && ls_expf(-0.0f) == 1);
    assert_true(bits(ls_expf(-INFINITY)) == 0 && isinf(ls_expf(INFINITY)));
    assert_true(isnan(ls_expf(NAN)));
    assert_true(ls_expf(-1e30f) == 0 && isinf(ls_expf(1e30f)));
    assert_true(ls_expf(0x1.62e42ep6f) <= FLT_MAX && isinf(ls_expf(0x1.62e430p6f))); /* log(FLT_MAX) lies between */
    assert_true(bits(ls_expf(-103.5f)) == 1);                                        /* the smallest subnormal */
}

static void logf_is_accurate(void **state)
{
    (void)state;
    double worst = 0;
    for (uint32_t word = 1; word < 0x7f800000; word += 4999 * every) {
        float x = number(word);
        double right = log((double)x);
        worst = fmax(worst, right != 0 ? fabs(ls_logf(x) - right) / float_unit(right) : fabs((double)ls_logf(x)));
    }
    for (uint32_t word = bits(0.99f); word < bits(1.01f); word += 7 * every) {
        double right = log((double)number(word));
        worst = fmax(worst, right != 0 ? fabs(ls_logf(number(word)) - right) / float_unit(right) : 0);
    }
    printf("ls_logf: %.4f units in the last place\n", worst);
    assert_true(worst <= 0.5001);
}

static void log_is_accurate(void **state)
{
    (void)state;
    double worst = 0;
    test_random random = {17};
    for (int i = 0; i < 400000; i++) {
        double x = i % 2 ? ldexp(1.5 + test_uniform(&random) / 2, (int)(test_uniform(&random) * 1000))
                         : 1 + test_uniform(&random) * 0.4;
        long double right = logl((long double)x);
        int exponent;
        frexp((double)right, &exponent);
        if (right != 0) {
            worst = fmax(worst, (double)fabsl(ls_logd(x) - right) / ldexp(1, exponent - 53));
        }
    }
    printf("ls_logd: %.4f units in the last place\n", worst);
    assert_true(worst < 1.5);
}

static void log_at_the_edges(void **state)
{
    (void)state;
    assert_true(ls_logd(1) == 0 && ls_logf(1) == 0);
    assert_true(ls_logd(0) == -INFINITY && ls_logf(0) == -INFINITY && ls_logf(-0.0f) == -INFINITY);
    assert_true(isnan(ls_logd(-1)) && isnan(ls_logf(-1e-45f)) && isnan(ls_logf(-INFINITY)));
    assert_true(ls_logd(INFINITY) == INFINITY && ls_logf(INFINITY) == INFINITY);
    assert_true(isnan(ls_logd(NAN)) && isnan(ls_logf(NAN)));
    assert_true(fabs(ls_logd(0x1p-1074) - log(0x1p-1074)) < 2e-13);
    assert_true(ls_logd(DBL_MAX) == log(DBL_MAX));
}

/* Both signs, all magnitudes. */
static void tanhf_is_accurate(void **state)
{
    (void)state;
    double worst = 0;
    for (uint32_t word = 0; word < 0x41400000; word += 499 * every) { /* 0 to 12 */
        float x = number(word), y = ls_tanhf(x);
        long double right = tanhl((long double)x);
        worst = fmax(worst, (double)fabsl(y - right) / float_unit((double)right));
        assert_true(bits(ls_tanhf(-x)) == (bits(y) | 0x80000000u));
    }
    printf("ls_tanhf: %.4f units in the last place\n", worst);
    assert_true(worst <= 0.5001);
}

static void sigmoidf_is_accurate(void **state)
{
    (void)state;
    double worst = 0;
    for (uint32_t word = 0; word < 0x42d00000; word += 997 * every) { /* 0 to 104 */
        for (int sign = 0; sign < 2; sign++) {
            float x = number(word | (uint32_t)sign << 31);
            long double right = 1 / (1 + expl(-(long double)x));
            worst = fmax(worst, (double)fabsl(ls_sigmoidf(x) - right) / float_unit((double)right));
        }
    }
    printf("ls_sigmoidf: %.4f units in the last place\n", worst);
    assert_true(worst <= 0.5001);
}

static void tanhf_and_sigmoidf_at_the_edges(void **state)
{
    (void)state;
    assert_true(bits(ls_tanhf(0)) == 0 && bits(ls_tanhf(-0.0f)) == 0x80000000u);
    assert_true(ls_tanhf(INFINITY) == 1 && ls_tanhf(-INFINITY) == -1 && ls_tanhf(1e30f) == 1);
    assert_true(bits(ls_tanhf(number(1))) == 1 && ls_tanhf(FLT_MIN) == FLT_MIN);
    assert_true(ls_sigmoidf(0) == 0.5f && ls_sigmoidf(-0.0f) == 0.5f);
    assert_true(ls_sigmoidf(INFINITY) == 1 && bits(ls_sigmoidf(-INFINITY)) == 0 && ls_sigmoidf(1e30f) == 1);
    assert_true(bits(ls_sigmoidf(-103.5f)) == 1);
    assert_true(isnan(ls_tanhf(NAN)) && isnan(ls_sigmoidf(NAN)));
    for (uint32_t word = 0x3a800000 - 1000; word < 0x3a800000 + 1000; word++) { /* where the series ends */
        assert_true(ls_tanhf(number(word)) <= ls_tanhf(number(word + 1)));
    }
}

/* ---- The functions of one number and their gradients ---- */

/* What an operation makes of numbers: one of its attributes may be `factor`. */
static float made(ls_op op, float factor, float x)
{
    const ls_attributes how = {.op = op, .factor = factor, .low = -1, .high = 2};
    return ls_function(op, x, ls_function_how_of(&how));
}

static float slope(ls_op op, float factor, float x)
{
    const ls_attributes how = {.op = op, .factor = factor, .low = -1, .high = 2};
    return ls_function_backward(op, 1, x, ls_function_how_of(&how));
}

static long double normal(long double x)
{
    return erfcl(-x / sqrtl(2)) / 2;
}

static long double density(long double x)
{
    return expl(-x * x / 2) / sqrtl(2 * acosl(-1));
}

static long double sigmoid(long double x)
{
    return 1 / (1 + expl(-x));
}

/* Of PyTorch's tanh form: 2 u, and its derivative. */
static long double gelu_inside(long double x)
{
    return 2 * sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x);
}

static long double gelu_inside_slope(long double x)
{
    return 2 * sqrtl(2 / acosl(-1)) * (1 + 3 * 0.044715L * x * x);
}

static long double right(ls_op op, long double p, long double x)
{
    const long double s = sigmoid(op == LS_OP_GELU_TANH || op == LS_OP_GELU_TANH_BACKWARD ? gelu_inside(x) : x);
    switch (op) {
    case LS_OP_POWER:
        return powl(x, p);
    case LS_OP_POWER_BACKWARD:
        return p * powl(x, p - 1);
    case LS_OP_SILU:
    case LS_OP_GELU_TANH:
        return x * s;
    case LS_OP_SILU_BACKWARD:
        return s + x * s * (1 - s);
    case LS_OP_GELU_TANH_BACKWARD:
        return s + x * s * (1 - s) * gelu_inside_slope(x);
    case LS_OP_LOG_SIGMOID:
        return fminl(x, 0) - log1pl(expl(-fabsl(x)));
    case LS_OP_LOG_SIGMOID_BACKWARD:
        return sigmoid(-x);
    case LS_OP_GELU:
        return x * normal(x);
    default:
        return normal(x) + x * density(x);
    }
}

/* Where a slope is a sum that goes through zero the error is measured in units of its parts, which are about 1. */
static void functions_are_accurate(void **state)
{
    (void)state;
    static const struct {
        ls_op op;
        float factor;
        int slope, positive;
    } cases[] = {{LS_OP_SILU, 0, 0, 0},
                 {LS_OP_GELU, 0, 0, 0},
                 {LS_OP_GELU_TANH, 0, 0, 0},
                 {LS_OP_POWER, 0.7f, 0, 1},
                 {LS_OP_POWER, -3, 0, 0},
                 {LS_OP_POWER, 2, 0, 0},
                 {LS_OP_POWER, 0x1.fffffep+23f, 0, 0},
                 {LS_OP_LOG_SIGMOID, 0, 0, 0},
                 {LS_OP_LOG_SIGMOID_BACKWARD, 0, 1, 0},
                 {LS_OP_SILU_BACKWARD, 0, 1, 0},
                 {LS_OP_GELU_BACKWARD, 0, 1, 0},
                 {LS_OP_GELU_TANH_BACKWARD, 0, 1, 0},
                 {LS_OP_POWER_BACKWARD, 0.7f, 1, 1},
                 {LS_OP_POWER_BACKWARD, 3, 1, 0}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const ls_op op = cases[k].op;
        const int sum = cases[k].slope && op != LS_OP_POWER_BACKWARD;
        double worst = 0;
        for (uint32_t word = 0; word < 0x7f800000; word += 65521 * every) {
            for (int sign = 0; sign < 2 - cases[k].positive; sign++) {
                const float x = number(word | (uint32_t)sign << 31);
                const float y = cases[k].slope ? slope(op, cases[k].factor, x) : made(op, cases[k].factor, x);
                const double wanted = (double)right(op, (long double)cases[k].factor, (long double)x);
                if (fabs(wanted) <= FLT_MAX)
                    worst = fmax(worst, fabs(y - wanted) / (sum ? 0x1p-24 : float_unit(wanted)));
                else if (!isnan(wanted)) /* the largest float's middle to infinity is a matter of rounding */
                    assert_true(isinf(y) || fabs(y) >= 0x1.fffffep+127);
            }
        }
        printf("%s by %g: %.4f units in the last place\n", ls_op_name(op), (double)cases[k].factor, worst);
        assert_true(worst <= (sum ? 1.01 : 0.5002));
    }
}

/* What PyTorch defines there: its functions, and the formulas of its gradients. */
static void functions_at_the_edges(void **state)
{
    (void)state;
    const float inf = INFINITY;
    enum { NUMBERS = 6 };
    static const float x[NUMBERS] = {0, -0.0f, INFINITY, -INFINITY, 0x1p-149f, NAN};
    const struct {
        ls_op op;
        float factor, wanted[NUMBERS];
    } cases[] = {
        {LS_OP_EXP, 0, {1, 1, inf, 0, 1, NAN}},
        {LS_OP_LOG, 0, {-inf, -inf, inf, NAN, -103.2789307f, NAN}},
        {LS_OP_LOG_SIGMOID, 0, {-0x1.62e43p-1f, -0x1.62e43p-1f, 0, -inf, -0x1.62e43p-1f, NAN}},
        {LS_OP_SQRT, 0, {0, -0.0f, inf, NAN, 0x1.6a09e6p-75f, NAN}},
        {LS_OP_ABS, 0, {0, 0, inf, inf, 0x1p-149f, NAN}},
        {LS_OP_CLAMP, 0, {0, -0.0f, 2, -1, 0x1p-149f, NAN}},
        {LS_OP_LEAKY_RELU, 0.25f, {0, -0.0f, inf, -inf, 0x1p-149f, NAN}},
        {LS_OP_SILU, 0, {0, -0.0f, inf, NAN, 0, NAN}},
        {LS_OP_GELU, 0, {0, -0.0f, inf, NAN, 0x1p-149f, NAN}}, /* just above half of it */
        {LS_OP_GELU_TANH, 0, {0, -0.0f, inf, NAN, 0, NAN}},
        {LS_OP_POWER, 0, {1, 1, 1, 1, 1, 1}},
        {LS_OP_POWER, 3, {0, -0.0f, inf, -inf, 0, NAN}},
        {LS_OP_POWER, 2, {0, 0, inf, inf, 0, NAN}},
        {LS_OP_POWER, -1, {inf, -inf, 0, -0.0f, inf, NAN}},
        {LS_OP_POWER, 0.5f, {0, 0, inf, inf, 0x1.6a09e6p-75f, NAN}},
        {LS_OP_POWER, -0.5f, {inf, inf, 0, 0, 0x1.6a09e6p+74f, NAN}},
    };
    const struct {
        ls_op op;
        float factor, wanted[NUMBERS];
    } slopes[] = {
        {LS_OP_SQRT_BACKWARD, 0, {inf, -inf, 0, -0.0f, inf, NAN}}, /* of y */
        {LS_OP_ABS_BACKWARD, 0, {0, 0, 1, -1, 1, 0}},
        {LS_OP_CLAMP_BACKWARD, 0, {1, 1, 0, 0, 1, 0}},
        {LS_OP_LEAKY_RELU_BACKWARD, 0.25f, {0.25f, 0.25f, 1, 0.25f, 1, 0.25f}},
        {LS_OP_LOG_SIGMOID_BACKWARD, 0, {0.5f, 0.5f, 0, 1, 0.5f, NAN}},
        {LS_OP_SILU_BACKWARD, 0, {0.5f, 0.5f, NAN, NAN, 0.5f, NAN}},
        {LS_OP_GELU_BACKWARD, 0, {0.5f, 0.5f, NAN, NAN, 0.5f, NAN}},
        {LS_OP_GELU_TANH_BACKWARD, 0, {0.5f, 0.5f, NAN, NAN, 0.5f, NAN}},
        {LS_OP_POWER_BACKWARD, 0, {0, 0, 0, 0, 0, 0}},
        {LS_OP_POWER_BACKWARD, 1, {1, 1, 1, 1, 1, 1}},
        {LS_OP_POWER_BACKWARD, 2, {0, -0.0f, inf, -inf, 0x1p-148f, NAN}},
        {LS_OP_POWER_BACKWARD, -1, {-inf, -inf, -0.0f, -0.0f, -inf, NAN}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int i = 0; i < NUMBERS; i++)
            if (!test_same_bits(made(cases[k].op, cases[k].factor, x[i]), cases[k].wanted[i]))
                fail_msg("%s of %g by %g is %a, not %a", ls_op_name(cases[k].op), (double)x[i], (double)cases[k].factor,
                         (double)made(cases[k].op, cases[k].factor, x[i]), (double)cases[k].wanted[i]);
    for (size_t k = 0; k < sizeof slopes / sizeof *slopes; k++)
        for (int i = 0; i < NUMBERS; i++)
            if (!test_same_bits(slope(slopes[k].op, slopes[k].factor, x[i]), slopes[k].wanted[i]))
                fail_msg("%s at %g by %g is %a, not %a", ls_op_name(slopes[k].op), (double)x[i],
                         (double)slopes[k].factor, (double)slope(slopes[k].op, slopes[k].factor, x[i]),
                         (double)slopes[k].wanted[i]);
    assert_true(isnan(made(LS_OP_POWER, 0.5f, -2)) && isnan(made(LS_OP_LOG, 0, -0x1p-149f)));
    assert_true(isnan(ls_function_backward(LS_OP_SQRT_BACKWARD, 0, 0, (ls_function_how){.factor = 0})));
    assert_true(made(LS_OP_GELU, 0, -1e30f) == 0 && signbit(made(LS_OP_GELU, 0, -1e30f)));
}

static void bits_of_functions_are_frozen(void **state)
{
    (void)state;
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint32_t word = 0; word < 0x7f800000; word += 65537) {
        for (int sign = 0; sign < 2; sign++) {
            const float x = number(word | (uint32_t)sign << 31);
            for (int op = LS_OP_TANH; op <= LS_OP_GELU_TANH; op++) {
                const float y = made((ls_op)op, -1.5f, x);
                hash = (hash ^ (isnan(y) ? 0x7fc00000u : bits(y))) * 0x100000001b3u;
            }
            for (int op = LS_OP_SQRT_BACKWARD; op <= LS_OP_GELU_TANH_BACKWARD; op++) {
                const float y = slope((ls_op)op, 3, x);
                hash = (hash ^ (isnan(y) ? 0x7fc00000u : bits(y))) * 0x100000001b3u;
            }
        }
    }
    printf("bits: 0x%016llx\n", (unsigned long long)hash);
    assert_true(hash == 0x4eadb2abcb8c7182u);
}

/* FNV-1a over the results: a compiler that changes one bit changes this. */
static void bits_are_frozen(void **state)
{
    (void)state;
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint32_t word = 0; word < 0x7f800000; word += 65537) {
        float e = ls_expf(-number(word)), l = ls_logf(number(word));
        double wide = ls_logd((double)number(word) * 1.1);
        uint64_t wide_bits;
        memcpy(&wide_bits, &wide, sizeof wide_bits);
        hash = (hash ^ bits(e)) * 0x100000001b3u;
        hash = (hash ^ bits(l)) * 0x100000001b3u;
        hash = (hash ^ wide_bits) * 0x100000001b3u;
    }
    printf("bits: 0x%016llx\n", (unsigned long long)hash);
    assert_true(hash == 0x44db34b30eb12842u);
}

static void bits_of_tanhf_and_sigmoidf_are_frozen(void **state)
{
    (void)state;
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint32_t word = 0; word < 0x42d00000; word += 65537) {
        hash = (hash ^ bits(ls_tanhf(number(word)))) * 0x100000001b3u;
        hash = (hash ^ bits(ls_sigmoidf(number(word)))) * 0x100000001b3u;
        hash = (hash ^ bits(ls_sigmoidf(-number(word)))) * 0x100000001b3u;
    }
    printf("bits: 0x%016llx\n", (unsigned long long)hash);
    assert_true(hash == 0xeea2240535fd4acdu);
}

static void assert_fused(float a, float b, float c)
{
    const float is = ls_fma_by_double(a, b, c), right = fmaf(a, b, c);
    if (!test_same_bits(is, right))
        fail_msg("%a * %a + %a is %a, not %a", (double)a, (double)b, (double)c, (double)is, (double)right);
}

/* One with so many digits behind the point in base 2, the last of them a one, times a power of two. */
static float with_digits(test_random *random, int digits, int exponent)
{
    const uint32_t fraction = (uint32_t)test_u64(random) & ((1u << digits) - 1);
    return ldexpf(1 + ldexpf((float)(fraction | 1), -digits), exponent);
}

static int between(test_random *random, int from, int to)
{
    return from + (int)(test_u64(random) % (uint64_t)(to - from + 1));
}

static float with_sign(test_random *random, float x)
{
    return test_u64(random) & 1 ? -x : x;
}

/* What the machine's own instruction, or the C library, makes of it. */
static void a_fused_product_is_rounded_once(void **state)
{
    (void)state;
    test_random random = {5};
    const float edges[] = {0,       1,        0x1p-149f, 0x1.fffffcp-127f, FLT_MIN, 0x1p-125f, 0x1.000002p0f,
                           FLT_MAX, INFINITY, NAN};
    enum { EDGES = sizeof edges / sizeof *edges };
    const int cases = 1000000 / (int)every;
    for (int i = 0; i < EDGES * EDGES * EDGES * 8; i++) {
        const float a = edges[i / 8 % EDGES], b = edges[i / 8 / EDGES % EDGES], c = edges[i / 8 / EDGES / EDGES];
        assert_fused(i & 1 ? -a : a, i & 2 ? -b : b, i & 4 ? -c : c);
    }
    for (int i = 0; i < cases; i++) {
        const uint64_t two = test_u64(&random), third = test_u64(&random);
        const float a = number((uint32_t)two), b = number((uint32_t)(two >> 32)), c = number((uint32_t)third);
        assert_fused(a, b, c);
        assert_fused(a, b, -(float)((double)a * (double)b)); /* what is left is the product's own end */
        assert_fused(a, b, number(bits(-a * b) + (uint32_t)(third >> 60)));
        /* A product in the middle between two floats, and what decides far behind it; of all sizes, also beyond the
         * largest. */
        const int digits = between(&random, 2, 22), size = between(&random, -125, 127),
                  part = between(&random, -70, 70);
        const float half = with_digits(&random, digits, size - part), other = with_digits(&random, 24 - digits, part);
        assert_fused(half, with_sign(&random, other), with_sign(&random, ldexpf(1, between(&random, -149, size - 24))));
        /* The middle between two subnormal floats, or so near it that a double does not tell. */
        const float little = ldexpf((float)between(&random, 0, 64), -98), low = 0x1p-75f - little;
        const float whole = number(0x00400000 | ((uint32_t)two & 0x003fffff));
        assert_fused(0x1p-75f + little, with_sign(&random, low), with_sign(&random, whole));
        assert_fused(low, with_sign(&random, low), with_sign(&random, number((uint32_t)two & 0x00ffffff)));
    }
}

/* test_math [every] */
int main(int argc, char **argv)
{
    if (argc > 1)
        every = (uint32_t)atoi(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expf_is_accurate),
        cmocka_unit_test(expf_at_the_edges),
        cmocka_unit_test(logf_is_accurate),
        cmocka_unit_test(log_is_accurate),
        cmocka_unit_test(log_at_the_edges),
        cmocka_unit_test(bits_are_frozen),
        cmocka_unit_test(tanhf_is_accurate),
        cmocka_unit_test(sigmoidf_is_accurate),
        cmocka_unit_test(tanhf_and_sigmoidf_at_the_edges),
        cmocka_unit_test(bits_of_tanhf_and_sigmoidf_are_frozen),
        cmocka_unit_test(functions_are_accurate),
        cmocka_unit_test(functions_at_the_edges),
        cmocka_unit_test(bits_of_functions_are_frozen),
        cmocka_unit_test(a_fused_product_is_rounded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
