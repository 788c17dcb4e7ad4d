/* What a backend does with flat vectors, against the reference, bit for bit: sums and updates, of any length. */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const ls_backend *backends[8];
static int backend_count;

static const size_t lengths[] = {0, 1, 15, 16, 17, 63, 1000};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static float *salted_vector(test_random *random, size_t n, int finite)
{
    float *x = test_floats(n + 1);
    test_fill_normal(random, x, n);
    for (size_t i = 0; i < n; i++) {
        x[i] = test_salt(random, x[i], finite);
    }
    return x;
}

static void assert_same_vector(const char *what, const ls_backend *backend, const float *want, const float *got,
                               size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!test_same_bits(want[i], got[i])) {
            fail_msg("%s: %s of %zu: number %zu: %a, not %a", backend->name, what, n, i, (double)got[i],
                     (double)want[i]);
        }
    }
}

static void add_once(const ls_backend *backend, size_t n, int alias, test_random *random)
{
    float *a = salted_vector(random, n + 1, 0), *b = salted_vector(random, n + 1, 0);
    float *want = test_floats(n + 1), *other = test_floats(n + 2);
    ls_backend_ref()->add(want, a + 1, b, n);
    float *out = alias == 1 ? a + 1 : alias == 2 ? b : other + 1;
    out[n] = 42;
    backend->add(out, a + 1, b, n);
    assert_same_vector("add", backend, want, out, n);
    assert_true(out[n] == 42);
    free(a);
    free(b);
    free(want);
    free(other);
}

static void test_vector_add(void **state)
{
    (void)state;
    test_random random = {.state = 5};
    for (int k = 0; k < backend_count; k++) {
        for (int i = 0; i < LENGTHS; i++) {
            for (int alias = 0; alias < 3; alias++) {
                add_once(backends[k], lengths[i], alias, &random);
            }
        }
    }
}

static void sgd_once(const ls_backend *backend, size_t n, const ls_sgd *how, int finite, test_random *random)
{
    float *w = salted_vector(random, n + 1, 1), *g = salted_vector(random, n + 1, finite);
    float *v = salted_vector(random, n + 1, 1), *own_v = test_floats(n + 1);
    float *want = test_floats(n + 1), *out = test_floats(n + 2);
    memcpy(own_v, v, n * sizeof(float));
    int without = how->momentum == 0;
    int fine = ls_backend_ref()->sgd(want, w + 1, without ? NULL : v, g, n, how);
    int own_fine = backend->sgd(out + 1, w + 1, without ? NULL : own_v, g, n, how);
    assert_same_vector("sgd", backend, want, out + 1, n);
    assert_same_vector("sgd's v", backend, v, own_v, n);
    assert_int_equal(!!fine, !!own_fine);
    int really = 1;
    for (size_t i = 0; i < n; i++) {
        really = really && isfinite(want[i]);
    }
    assert_int_equal(!!fine, really);
    free(w);
    free(g);
    free(v);
    free(own_v);
    free(want);
    free(out);
}

static void test_vector_sgd(void **state)
{
    (void)state;
    test_random random = {.state = 6};
    for (int k = 0; k < backend_count; k++) {
        for (int i = 0; i < LENGTHS; i++) {
            for (int variant = 0; variant < 32; variant++) {
                ls_sgd how = {.divisor = 96, .lr = 0.2f};
                how.momentum = variant & 1 ? 0.9f : 0;
                how.weight_decay = variant & 2 ? 5e-4f : 0;
                how.nesterov = variant >> 2 & 1;
                how.first = variant >> 3 & 1;
                sgd_once(backends[k], lengths[i], &how, variant >> 4 & 1, &random);
            }
        }
    }
}

/* A number that is not finite is found wherever it stands. */
static void test_vector_sgd_finds(void **state)
{
    (void)state;
    enum { N = 83 };
    float w[N] = {0}, g[N] = {0}, v[N], out[N];
    const ls_sgd how = {.divisor = 1, .lr = 0.1f, .momentum = 0.9f, .first = 1};
    for (int k = -1; k < backend_count; k++) {
        const ls_backend *backend = k < 0 ? ls_backend_ref() : backends[k];
        for (int i = 0; i < N; i++) {
            g[i] = i % 2 ? NAN : -INFINITY;
            assert_false(backend->sgd(out, w, v, g, N, &how));
            g[i] = 0;
            assert_true(backend->sgd(out, w, v, g, N, &how));
        }
    }
}

static void average_once(const ls_backend *backend, size_t n, const ls_averaging *how, int finite, test_random *random)
{
    float *out = salted_vector(random, n + 1, finite);
    test_random again = *random;
    float *want = salted_vector(random, n + 1, 1), *own = salted_vector(&again, n + 1, 1);
    own[n] = 42;
    const int fine = ls_backend_ref()->average(want, out + 1, n, how),
              own_fine = backend->average(own, out + 1, n, how);
    assert_same_vector("average", backend, want, own, n);
    assert_true(own[n] == 42);
    int really = 1;
    for (size_t i = 0; i < n; i++)
        really = really && isfinite(want[i]);
    assert_int_equal(!!fine, really);
    assert_int_equal(!!own_fine, really);
    free(out);
    free(want);
    free(own);
}

static void test_vector_average(void **state)
{
    (void)state;
    test_random random = {.state = 8};
    for (int k = 0; k < backend_count; k++)
        for (int i = 0; i < LENGTHS; i++)
            for (int variant = 0; variant < 8; variant++)
                average_once(backends[k], lengths[i],
                             &(ls_averaging){.share = variant & 1 ? 1e-3f : 0.9f, .first = variant >> 1 & 1},
                             variant >> 2 & 1, &random);
}

/* One rounding of the difference, and one of the rest. */
static void test_vector_average_rounds(void **state)
{
    (void)state;
    const float out = 1.5f, was = 0x1.000002p-12f, share = 0.1f, difference = out - was;
    for (int k = -1; k < backend_count; k++) {
        const ls_backend *backend = k < 0 ? ls_backend_ref() : backends[k];
        float average = was;
        assert_true(backend->average(&average, &out, 1, &(ls_averaging){.share = share}));
        assert_true(average == fmaf(share, difference, was));
        average = NAN; /* what was there before the first is not read */
        assert_true(backend->average(&average, &out, 1, &(ls_averaging){.share = share, .first = 1}));
        assert_true(average == out);
        average = -3e38f; /* a difference that overflows is told */
        assert_false(backend->average(&average, (const float[]){3e38f}, 1, &(ls_averaging){.share = share}));
    }
}

enum { WEIGHT, FIRST, SECOND, GRADIENT, NEW, VECTORS };

static void adam_once(const ls_backend *backend, size_t n, const ls_adam *how, float wild, test_random *random)
{
    static const char *const names[VECTORS] = {"adam's w", "adam's m", "adam's v", "adam's g", "adam"};
    float *want[VECTORS], *own[VECTORS];
    for (int k = 0; k < VECTORS; k++) {
        want[k] = salted_vector(random, n + 2, 1);
        own[k] = test_floats(n + 2);
    }
    for (size_t i = 0; i < n + 2; i++)
        want[SECOND][i] = fabsf(want[SECOND][i]);
    if (n)
        want[GRADIENT][1 + test_u64(random) % n] += wild;
    for (int k = 0; k < VECTORS; k++)
        memcpy(own[k], want[k], (n + 2) * sizeof(float));
    int fine = ls_backend_ref()->adam(want[NEW] + 1, want[WEIGHT] + 1, want[FIRST] + 1, want[SECOND] + 1,
                                      want[GRADIENT] + 1, n, how);
    int own_fine =
        backend->adam(own[NEW] + 1, own[WEIGHT] + 1, own[FIRST] + 1, own[SECOND] + 1, own[GRADIENT] + 1, n, how);
    assert_int_equal(!!fine, !!own_fine);
    assert_int_equal(!!fine, n == 0 || wild == 0);
    for (int k = 0; k < VECTORS; k++) {
        assert_same_vector(names[k], backend, want[k], own[k], n + 2); /* with what lies around them */
        free(want[k]);
        free(own[k]);
    }
}

static void test_vector_adam(void **state)
{
    (void)state;
    static const float wild[] = {0, INFINITY, NAN, 1e30f};
    test_random random = {.state = 8};
    for (int k = 0; k < backend_count; k++)
        for (int i = 0; i < LENGTHS; i++)
            for (int variant = 0; variant < 32; variant++)
                adam_once(backends[k], lengths[i],
                          &(ls_adam){.divisor = 96,
                                     .share1 = 0.1f,
                                     .share2 = 0.001f,
                                     .rate = 0.02f,
                                     .scale = 3,
                                     .eps = 1e-8f,
                                     .weight_decay = variant & 1 ? 0.01f : 0,
                                     .decay = variant & 2 ? 1e-5f : 0,
                                     .first = variant >> 2 & 1},
                          wild[variant >> 3], &random);
}

/* However small a second moment is, and whatever its rounding, it has a root. */
static void test_vector_adam_roots(void **state)
{
    (void)state;
    enum { N = 64 };
    static const ls_adam how = {.divisor = 1, .share1 = 0.1f, .share2 = 0.9f, .rate = 1, .scale = 1, .eps = 1e-8f};
    float w[N] = {0}, m[N] = {0}, v[N], g[N] = {0}, out[N];
    for (int k = -1; k < backend_count; k++) {
        const ls_backend *backend = k < 0 ? ls_backend_ref() : backends[k];
        for (int i = 0; i < N; i++)
            v[i] = ldexpf(1, i - 149);
        for (int step = 0; step < 300; step++)
            assert_true(backend->adam(out, w, m, v, g, N, &how));
        for (int i = 0; i < N; i++)
            assert_true(v[i] >= 0 && v[i] <= ldexpf(1, i - 149));
    }
}

int main(void)
{
    backend_count = test_backends(backends);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vector_add),        cmocka_unit_test(test_vector_sgd),
        cmocka_unit_test(test_vector_sgd_finds),  cmocka_unit_test(test_vector_average),
        cmocka_unit_test(test_vector_adam),       cmocka_unit_test(test_vector_average_rounds),
        cmocka_unit_test(test_vector_adam_roots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
