/* exp, log, tanh, sigmoid and a fused product: their accuracy against the C library's in a wider type, their special
 * values, and their bits, which are the same on every machine. */
#include "support.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/math.h"
#include "device/cpu/fma.h"

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
    for (uint32_t word = 0; word < 0x42b20000; word += 997) { /* 0 to 89, both signs */
        for (int sign = 0; sign < 2; sign++) {
            float x = number(word | (uint32_t)sign << 31), y = ls_expf(x);
            double right = exp((double)x);
            if (right <= FLT_MAX) {
                worst = fmax(worst, fabs(y - right) / float_unit(right));
            }
        }
    }
    for (float x = -104; x < -80; x += 0.0007f) {
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
    for (uint32_t word = 1; word < 0x7f800000; word += 4999) {
        float x = number(word);
        double right = log((double)x);
        worst = fmax(worst, right != 0 ? fabs(ls_logf(x) - right) / float_unit(right) : fabs((double)ls_logf(x)));
    }
    for (uint32_t word = bits(0.99f); word < bits(1.01f); word += 7) {
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
    for (uint32_t word = 0; word < 0x41400000; word += 499) { /* 0 to 12 */
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
    for (uint32_t word = 0; word < 0x42d00000; word += 997) { /* 0 to 104 */
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
    enum { EDGES = sizeof edges / sizeof *edges, CASES = 1000000 };
    for (int i = 0; i < EDGES * EDGES * EDGES * 8; i++) {
        const float a = edges[i / 8 % EDGES], b = edges[i / 8 / EDGES % EDGES], c = edges[i / 8 / EDGES / EDGES];
        assert_fused(i & 1 ? -a : a, i & 2 ? -b : b, i & 4 ? -c : c);
    }
    for (int i = 0; i < CASES; i++) {
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

int main(void)
{
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
        cmocka_unit_test(a_fused_product_is_rounded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
