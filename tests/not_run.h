/* What this machine or this build cannot run is no test that passed: it is said by name and with the reason, in a line
 * that `./check` reads and counts. */
#ifndef LOCKSTEP_TESTS_NOT_RUN_H
#define LOCKSTEP_TESTS_NOT_RUN_H

/* A part of a case that is not run; the rest of it is. */
__attribute__((format(printf, 2, 3))) void test_part_not_run(const char *part, const char *why, ...);

/* Ends the case that it stands in. Takes the reason as printf does. */
#define test_not_run(...)                                                                                              \
    do {                                                                                                               \
        test_part_not_run(__func__, __VA_ARGS__);                                                                      \
        skip();                                                                                                        \
    } while (0)

/* No case of the program is run; returns the status that main ends with. lockstep_may_not_run in CMakeLists.txt names
 * the programs that may. */
__attribute__((format(printf, 1, 2))) int test_none_run(const char *why, ...);

#endif
