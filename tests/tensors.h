/* What the tests of tensors share: failures that are expected, numbers compared bit for bit, memory that is counted. */
#ifndef TEST_TENSORS_H
#define TEST_TENSORS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <lockstep.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The session has failed as said; takes the failure back, so that the session goes on. */
static inline void assert_caught(ls_session *s, ls_status status, const char *words)
{
    if (!ls_failed(s) || !strstr(ls_message(s), words))
        print_message("wanted \"%s\", message: %s\n", words, ls_message(s));
    assert_int_equal(ls_status_of(s), status);
    assert_non_null(strstr(ls_message(s), words));
    assert_true(ls_catch(s, status));
    assert_int_equal(ls_wait(s), LS_OK);
}

/* The first n CPUs, whatever else there is. */
static inline ls_devices test_cpus(int n)
{
    ls_devices devices = {.n = n};
    for (int i = 0; i < n; i++)
        devices.at[i] = ls_cpu(i);
    return devices;
}

static inline int64_t test_numbers_of(const ls_tensor *tensor)
{
    int64_t numbers = 1;
    for (int i = 0; i < ls_rank(tensor); i++)
        numbers *= ls_dim(tensor, i);
    return numbers;
}

/* To be freed. */
static inline float *test_read(ls_tensor *tensor)
{
    int64_t numbers = test_numbers_of(tensor);
    float *values = calloc((size_t)numbers + 1, sizeof *values);
    if (ls_read(tensor, values, numbers) != LS_OK)
        fail_msg("%s", ls_message(ls_session_of(tensor)));
    return values;
}

static inline void assert_values(ls_tensor *tensor, const float *wanted)
{
    float *values = test_read(tensor);
    assert_memory_equal(values, wanted, (size_t)test_numbers_of(tensor) * sizeof *values);
    free(values);
}

static inline void assert_same_bits(ls_tensor *a, ls_tensor *b)
{
    assert_int_equal(test_numbers_of(a), test_numbers_of(b));
    float *values = test_read(b);
    assert_values(a, values);
    free(values);
}

/* The largest difference, relative to the largest number. */
static inline double test_difference(ls_tensor *a, ls_tensor *b)
{
    float *x = test_read(a), *y = test_read(b);
    double most = 0, largest = 1e-30;
    for (int64_t i = 0; i < test_numbers_of(a); i++) {
        double difference = (double)x[i] - (double)y[i], size = y[i];
        most = difference > most ? difference : -difference > most ? -difference : most;
        largest = size > largest ? size : -size > largest ? -size : largest;
    }
    free(x);
    free(y);
    return most / largest;
}

/* ---- Memory ---- */

typedef struct counted {
    pthread_mutex_t lock;
    long made, alive, fail_at;
} counted;

static inline void *count_allocate(size_t bytes, size_t alignment, void *user)
{
    counted *c = user;
    pthread_mutex_lock(&c->lock);
    bool fail = ++c->made == c->fail_at;
    pthread_mutex_unlock(&c->lock);
    void *memory = NULL;
    if (fail || posix_memalign(&memory, alignment, bytes) != 0)
        return NULL;
    pthread_mutex_lock(&c->lock);
    c->alive++;
    pthread_mutex_unlock(&c->lock);
    return memory;
}

static inline void count_release(void *memory, void *user)
{
    counted *c = user;
    pthread_mutex_lock(&c->lock);
    c->alive--;
    pthread_mutex_unlock(&c->lock);
    free(memory);
}

static inline long test_alive(counted *c)
{
    pthread_mutex_lock(&c->lock);
    long alive = c->alive;
    pthread_mutex_unlock(&c->lock);
    return alive;
}

/* Whether rounds that ran since `before` were alive left less than a thing each. A few stay in any case: tasks that
 * have run are kept for later ones, and how many there are depends on how many were under way at once. */
static inline bool test_rounds_leave_nothing(counted *c, long before, int rounds)
{
    return test_alive(c) < before + rounds;
}

static inline long test_made(counted *c)
{
    pthread_mutex_lock(&c->lock);
    long made = c->made;
    pthread_mutex_unlock(&c->lock);
    return made;
}

/* Runs `work` once whole, then once for each of its allocations with that one failing: each time LS_OUT_OF_MEMORY, and
 * nothing left. */
static inline void assert_every_allocation_may_fail(ls_status (*work)(const ls_allocator *allocator))
{
    counted c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    ls_allocator allocator = {count_allocate, count_release, &c};
    assert_int_equal(work(&allocator), LS_OK);
    assert_int_equal(c.alive, 0);
    long all = c.made;
    for (long n = 1; n <= all; n++) {
        c.made = 0;
        c.fail_at = n;
        ls_status status = work(&allocator);
        if (c.alive)
            print_message("allocation %ld of %ld: %s\n", n, all, ls_status_name(status));
        assert_int_equal(status, c.made < n ? LS_OK : LS_OUT_OF_MEMORY); /* how many there are is a matter of time */
        assert_int_equal(c.alive, 0);
    }
    print_message("%ld allocations failed in turn\n", all);
}

#endif
