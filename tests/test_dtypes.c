/* Types of numbers in weights files that become float32: every number of two bytes, and how doubles are rounded. */
#include "typed_arrays.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/safetensors.h"
#include "not_run.h"

#if LOCKSTEP_HAVE_JANSSON

/* An array x of a type, n numbers of `width` bytes. They lie unaligned, behind a byte of another array. */
static void write_typed(const char *dtype, int n, const void *numbers, size_t width)
{
    const typed_array arrays[] = {{"a", "U8", 1, {1}, "\x05", 1}, {"x", dtype, 1, {n}, numbers, (size_t)n * width}};
    write_typed_arrays("w", arrays, 2);
}

static void read_typed(int n, float *values)
{
    ls_context *context = test_context();
    ls_safetensors *file = ls_safetensors_open(context, test_path("w"));
    assert_non_null(file);
    const ls_saved *saved = ls_safetensors_find(file, "x");
    assert_int_equal(saved->numbers, n);
    assert_false(ls_saved_is_float32(saved));
    assert_int_equal(ls_safetensors_read(file, saved, values), LS_OK);
    ls_safetensors_close(file);
    test_context_done();
}

static void refuse_typed(const char *dtype, int width, const void *number, const char *message_part)
{
    unsigned char two[16] = {0};
    memcpy(two + width, number, (size_t)width); /* the second of two, behind a zero */
    write_typed(dtype, 2, two, (size_t)width);
    ls_context *context = test_context();
    ls_safetensors *file = ls_safetensors_open(context, test_path("w"));
    float values[2];
    assert_int_equal(ls_safetensors_read(file, ls_safetensors_find(file, "x"), values), LS_BAD_FILE);
    test_expect(LS_BAD_FILE, message_part);
    ls_safetensors_close(file);
    test_context_done();
}

/* Every finite number of two bytes, by its exponent's and fraction's bits. */
static void every_number_of(const char *dtype, int exponent_bits, int fraction_bits)
{
    static uint16_t halves[1 << 16];
    static float values[1 << 16];
    const int all = (1 << exponent_bits) - 1, bias = all >> 1;
    int n = 0;
    for (int i = 0; i < 1 << 16; i++)
        if ((i >> fraction_bits & all) != all)
            halves[n++] = (uint16_t)i;
    assert_int_equal(n, (1 << 16) - (2 << fraction_bits));
    write_typed(dtype, n, halves, 2);
    read_typed(n, values);
    for (int i = 0; i < n; i++) {
        const int exponent = halves[i] >> fraction_bits & all, fraction = halves[i] & ((1 << fraction_bits) - 1);
        const double whole = exponent ? fraction + (1 << fraction_bits) : fraction;
        const double value = ldexp(whole, (exponent ? exponent : 1) - bias - fraction_bits);
        assert_true(values[i] == (halves[i] >> 15 ? -value : value));
        assert_int_equal(signbit(values[i]) != 0, halves[i] >> 15);
    }
}

static void half_numbers_are_read(void **state)
{
    (void)state;
    every_number_of("F16", 5, 10);
    every_number_of("BF16", 8, 7);
    refuse_typed("F16", 2, &(uint16_t){0x7c00}, "w: the array 'x' holds infinity at number 1");
    refuse_typed("F16", 2, &(uint16_t){0xfc00}, "w: the array 'x' holds infinity at number 1");
    refuse_typed("F16", 2, &(uint16_t){0x7c01}, "w: the array 'x' holds NaN at number 1");
    refuse_typed("BF16", 2, &(uint16_t){0xff80}, "w: the array 'x' holds infinity at number 1");
    refuse_typed("BF16", 2, &(uint16_t){0x7fc0}, "w: the array 'x' holds NaN at number 1");
}

static void double_numbers_are_read(void **state)
{
    (void)state;
    static const struct {
        double is;
        float read;
    } cases[] = {{0.0, 0.0f},
                 {-0.0, -0.0f},
                 {0.1, 0.1f},
                 {1 + 0x1p-24, 1.0f}, /* half-way, to the even one */
                 {1 + 0x1p-24 + 0x1p-52, 0x1.000002p0f},
                 {1 + 0x3p-24, 0x1.000004p0f}, /* half-way again */
                 {-1 - 0x3p-24, -0x1.000004p0f},
                 {0x1.fffffep127, 0x1.fffffep127f},
                 {0x1.fffffefffffffp127, 0x1.fffffep127f}, /* just below what rounds to infinity */
                 {0x1p-126, 0x1p-126f},
                 {0x1p-149, 0x1p-149f},
                 {0x1.8p-149, 0x1p-148f},
                 {0x1p-150, 0.0f},
                 {0x1.0000000000001p-150, 0x1p-149f},
                 {-1e-300, -0.0f}};
    enum { N = sizeof cases / sizeof *cases };
    double numbers[N];
    float values[N];
    for (int i = 0; i < N; i++)
        numbers[i] = cases[i].is;
    write_typed("F64", N, numbers, 8);
    read_typed(N, values);
    for (int i = 0; i < N; i++)
        assert_memory_equal(&values[i], &cases[i].read, sizeof *values);
    refuse_typed("F64", 8, &(double){1e300},
                 "w: the array 'x' holds 1e+300 at number 1, which is too large for float32");
    refuse_typed("F64", 8, &(double){-0x1.ffffffp127}, " at number 1, which is too large for float32");
    refuse_typed("F64", 8, &(double){INFINITY}, "w: the array 'x' holds infinity at number 1");
    refuse_typed("F64", 8, &(double){NAN}, "w: the array 'x' holds NaN at number 1");
}

#endif

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, test_folder_make, test_folder_remove)
#if LOCKSTEP_HAVE_JANSSON
    const struct CMUnitTest tests[] = {test(half_numbers_are_read), test(double_numbers_are_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    return test_none_run("this library was built without a JSON library");
#endif
}
