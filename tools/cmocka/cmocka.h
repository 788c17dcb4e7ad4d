/* A stand-in for the part of cmocka that the tests use, for machines that cmocka is not packaged for: `./check` runs the
 * tests' aarch64 build with it. Everywhere else the tests use cmocka itself. */
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

typedef enum stand_in_outcome { STAND_IN_PASSED, STAND_IN_FAILED, STAND_IN_SKIPPED } stand_in_outcome;

/* One program holds one of these: of all units that include this header. */
__attribute__((weak)) jmp_buf stand_in_end_of_test;

__attribute__((unused, noreturn, format(printf, 3, 4))) static void stand_in_fail(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: error: ", file, line);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    longjmp(stand_in_end_of_test, STAND_IN_FAILED);
}

#define stand_in_check(good, ...)                                                                                                \
    do {                                                                                                                         \
        if (!(good))                                                                                                             \
            stand_in_fail(__FILE__, __LINE__, __VA_ARGS__);                                                                      \
    } while (0)

#define assert_true(c) stand_in_check(!!(c), "%s", #c)
#define assert_false(c) stand_in_check(!(c), "not (%s)", #c)
#define assert_int_equal(a, b)                                                                                                   \
    stand_in_check((uintmax_t)(a) == (uintmax_t)(b), "%s == %s: %lld, %lld", #a, #b, (long long)(a), (long long)(b))
#define assert_int_not_equal(a, b) stand_in_check((uintmax_t)(a) != (uintmax_t)(b), "%s != %s: %lld", #a, #b, (long long)(a))
#define assert_in_range(a, least, most)                                                                                          \
    stand_in_check((uintmax_t)(a) >= (uintmax_t)(least) && (uintmax_t)(a) <= (uintmax_t)(most), "%s: %lld", #a, (long long)(a))
#define assert_null(p) stand_in_check((p) == NULL, "%s is not NULL", #p)
#define assert_non_null(p) stand_in_check((p) != NULL, "%s is NULL", #p)
#define assert_ptr_equal(a, b) stand_in_check((const void *)(a) == (const void *)(b), "%s == %s", #a, #b)
#define assert_ptr_not_equal(a, b) stand_in_check((const void *)(a) != (const void *)(b), "%s != %s", #a, #b)
#define assert_string_equal(a, b) stand_in_check(strcmp((a), (b)) == 0, "\"%s\" is not \"%s\"", (a), (b))
#define assert_string_not_equal(a, b) stand_in_check(strcmp((a), (b)) != 0, "both \"%s\"", (a))
#define assert_memory_equal(a, b, size) stand_in_check(memcmp((a), (b), (size)) == 0, "%s and %s hold other bytes", #a, #b)
#define assert_memory_not_equal(a, b, size) stand_in_check(memcmp((a), (b), (size)) != 0, "%s and %s hold the same bytes", #a, #b)
#define fail_msg(...) stand_in_fail(__FILE__, __LINE__, __VA_ARGS__)
#define fail() stand_in_fail(__FILE__, __LINE__, "failed")
#define skip() longjmp(stand_in_end_of_test, STAND_IN_SKIPPED)
#define print_message printf
#define print_error(...) fprintf(stderr, __VA_ARGS__)

#define cmocka_unit_test(f) {#f, f, NULL, NULL, NULL}
#define cmocka_unit_test_setup_teardown(f, setup, teardown) {#f, f, setup, teardown, NULL}
#define cmocka_unit_test_setup(f, setup) {#f, f, setup, NULL, NULL}
#define cmocka_unit_test_teardown(f, teardown) {#f, f, NULL, teardown, NULL}
#define cmocka_unit_test_prestate(f, state) {#f, f, NULL, NULL, state}
#define cmocka_run_group_tests(tests, setup, teardown)                                                                           \
    stand_in_run(#tests, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown)                                                                \
    stand_in_run(name, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

__attribute__((unused)) static int stand_in_run_one(const struct CMUnitTest *test, void *group_state)
{
    void *state = test->initial_state ? test->initial_state : group_state;
    if (test->setup_func && test->setup_func(&state) != 0)
        return STAND_IN_FAILED;
    int outcome = setjmp(stand_in_end_of_test);
    if (outcome == STAND_IN_PASSED)
        test->test_func(&state);
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
        int outcome = stand_in_run_one(&tests[i], state);
        failures += outcome == STAND_IN_FAILED;
        printf("[ %s ] %s: %s\n", words[outcome], name, tests[i].name);
        fflush(stdout);
    }
    if (teardown && teardown(&state) != 0)
        failures++;
    return failures;
}

#endif
