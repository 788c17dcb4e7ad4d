/* A stand-in for the part of cmocka that the tests use, for machines that cmocka is not packaged for: `./check` runs
 * the tests' aarch64 build with it. Everywhere else the tests use cmocka itself. */
#ifndef STAND_IN_CMOCKA_H
#define STAND_IN_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void CMUnitTestFunction(void **state);
typedef int CMFixtureFunction(void **state);

struct CMUnitTest {
    const char *name;
    CMUnitTestFunction *test_func;
    CMFixtureFunction *setup_func, *teardown_func;
    void *initial_state;
};

typedef enum stand_in_outcome { STAND_IN_PASSED = 0, STAND_IN_FAILED, STAND_IN_SKIPPED } stand_in_outcome;

/* One program holds one of these: of all units that include this header. */
__attribute__((weak)) jmp_buf stand_in_end_of_test;

__attribute__((unused, noreturn, format(printf, 3, 4))) static void stand_in_fail(const char *file, int line,
                                                                                  const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: error: ", file, line);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    longjmp(stand_in_end_of_test, STAND_IN_FAILED);
}

#define stand_in_check(good, ...)                                                                                      \
    do {                                                                                                               \
        if (!(good))                                                                                                   \
            stand_in_fail(__FILE__, __LINE__, __VA_ARGS__);                                                            \
    } while (0)

#define assert_true(c)  stand_in_check(!!(c), "%s", #c)
#define assert_false(c) stand_in_check(!(c), "not (%s)", #c)
/* Arguments are evaluated once, as cmocka does. */
#define stand_in_compare(a, b, equal)                                                                                  \
    stand_in_numbers((uintmax_t)(a), (uintmax_t)(b), equal, #a, #b, __FILE__, __LINE__)
__attribute__((unused)) static void stand_in_numbers(uintmax_t a, uintmax_t b, int equal, const char *a_text,
                                                     const char *b_text, const char *file, int line)
{
    if ((a == b) != equal)
        stand_in_fail(file, line, "%s %s %s: %lld, %lld", a_text, equal ? "==" : "!=", b_text, (long long)a,
                      (long long)b);
}

#define stand_in_bytes(a, b, size, equal) stand_in_memory(a, b, size, equal, #a, #b, __FILE__, __LINE__)
__attribute__((unused)) static void stand_in_memory(const void *a, const void *b, size_t size, int equal,
                                                    const char *a_text, const char *b_text, const char *file, int line)
{
    if ((memcmp(a, b, size) == 0) != equal)
        stand_in_fail(file, line, "%s and %s hold %s bytes", a_text, b_text, equal ? "other" : "the same");
}

#define stand_in_texts(a, b, equal) stand_in_strings(a, b, equal, __FILE__, __LINE__)
__attribute__((unused)) static void stand_in_strings(const char *a, const char *b, int equal, const char *file,
                                                     int line)
{
    if ((strcmp(a, b) == 0) != equal)
        stand_in_fail(file, line, "\"%s\" %s \"%s\"", a, equal ? "is not" : "is", b);
}

#define assert_int_equal(a, b)              stand_in_compare(a, b, 1)
#define assert_int_not_equal(a, b)          stand_in_compare(a, b, 0)
#define assert_in_range(v, least, most)     stand_in_check((v) >= (least) && (v) <= (most), "%s is out of its range", #v)
#define assert_float_equal(a, b, most)      stand_in_check((a) - (b) <= (most) && (b) - (a) <= (most), "%s == %s", #a, #b)
#define assert_null(p)                      stand_in_check((p) == NULL, "%s is not NULL", #p)
#define assert_non_null(p)                  stand_in_check((p) != NULL, "%s is NULL", #p)
#define assert_ptr_equal(a, b)              stand_in_check((const void *)(a) == (const void *)(b), "%s == %s", #a, #b)
#define assert_ptr_not_equal(a, b)          stand_in_check((const void *)(a) != (const void *)(b), "%s != %s", #a, #b)
#define assert_string_equal(a, b)           stand_in_texts(a, b, 1)
#define assert_string_not_equal(a, b)       stand_in_texts(a, b, 0)
#define assert_memory_equal(a, b, size)     stand_in_bytes(a, b, size, 1)
#define assert_memory_not_equal(a, b, size) stand_in_bytes(a, b, size, 0)
#define fail_msg(...)                       stand_in_fail(__FILE__, __LINE__, __VA_ARGS__)
#define fail()                              stand_in_fail(__FILE__, __LINE__, "failed")
#define skip()                              longjmp(stand_in_end_of_test, STAND_IN_SKIPPED)
#define print_message                       printf
#define print_error(...)                    fprintf(stderr, __VA_ARGS__)

/* clang-format off */
#define cmocka_unit_test(f)                                  {#f, f, NULL, NULL, NULL}
#define cmocka_unit_test_setup_teardown(f, setup, teardown)  {#f, f, setup, teardown, NULL}
#define cmocka_unit_test_setup(f, setup)                     {#f, f, setup, NULL, NULL}
#define cmocka_unit_test_teardown(f, teardown)               {#f, f, NULL, teardown, NULL}
#define cmocka_unit_test_prestate(f, state)                  {#f, f, NULL, NULL, state}
/* clang-format on */
#define cmocka_run_group_tests(tests, setup, teardown)                                                                 \
    stand_in_run(#tests, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown)                                                      \
    stand_in_run(name, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

__attribute__((unused)) static stand_in_outcome stand_in_run_one(const struct CMUnitTest *test, void *group_state)
{
    void *state = test->initial_state ? test->initial_state : group_state;
    if (test->setup_func && test->setup_func(&state) != 0)
        return STAND_IN_FAILED;
    volatile stand_in_outcome outcome = STAND_IN_PASSED;
    switch (setjmp(stand_in_end_of_test)) {
    case STAND_IN_PASSED:
        test->test_func(&state);
        break;
    case STAND_IN_SKIPPED:
        outcome = STAND_IN_SKIPPED;
        break;
    default:
        outcome = STAND_IN_FAILED;
    }
    if (test->teardown_func && test->teardown_func(&state) != 0)
        return STAND_IN_FAILED;
    return outcome;
}

/* Returns how many failed, as cmocka does. */
__attribute__((unused)) static int stand_in_run(const char *name, const struct CMUnitTest *tests, size_t count,
                                                CMFixtureFunction *setup, CMFixtureFunction *teardown)
{
    static const char *const words[] = {"OK", "FAILED", "SKIPPED"};
    void *state = NULL;
    int failures = 0;
    if (setup && setup(&state) != 0)
        return (int)count;
    for (size_t i = 0; i < count; i++) {
        stand_in_outcome outcome = stand_in_run_one(&tests[i], state);
        failures += outcome == STAND_IN_FAILED;
        printf("[ %s ] %s: %s\n", words[outcome], name, tests[i].name);
        fflush(stdout);
    }
    if (teardown && teardown(&state) != 0)
        failures++;
    return failures;
}

#endif
