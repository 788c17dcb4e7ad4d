/* Every operation of every backend against the reference, bit for bit, from one table of shapes. */
#include "op_table.h"

#include <float.h>
#include <lockstep.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Numbers for the operands ---- */

static float salt(test_random *random, float x, int finite)
{
    static const float mild[] = {0.0f, -0.0f, 0x1p-149f, -0x1p-149f, 1e-39f, -1e-39f, 1, -1};
    static const float wild[] = {NAN, INFINITY, -INFINITY, FLT_MAX};
    uint64_t draw = test_u64(random);
    if (draw % 8 == 0) {
        return mild[draw / 8 % 8];
    }
    return !finite && draw % 257 == 1 ? wild[draw / 257 % 4] : x;
}

static void fill(test_random *random, const test_case *one, kind what, float *x, size_t n)
{
    test_fill_normal(random, x, n);
    for (size_t i = 0; i < n; i++) {
        if (one->values == SALTED && what != STATISTICS) {
            x[i] = salt(random, x[i], !by_image(what));
        } else if (one->values == TINY && by_image(what)) {
            x[i] *= 1e-39f;
        }
        if (what == STATISTICS && i >= n / 2) {
            x[i] = 0.5f + fabsf(x[i]);
        }
    }
    if (by_image(what)) {
        ls_operand shape = shape_of(one->row, what);
        test_pad(x, &shape, one->row->count, is_slope(what) ? NULL : random);
    }
}

/* ---- Calls ---- */

/* Vectors and weights lie anywhere in the flat buckets, activations at multiples of 64 bytes: `shift` says which. What
 * follows a buffer must stay as it was. */
enum { GUARD = 16 };

typedef struct buffer {
    float *memory, *data;
    size_t n;
} buffer;

static buffer buffer_new(const row *r, kind what, unsigned char content)
{
    buffer made = {.n = size_of(r, what)};
    int shift = by_image(what) ? 0 : 1;
    made.memory = test_floats(made.n + GUARD + 1);
    memset(made.memory, content, (made.n + GUARD + 1) * sizeof(float));
    made.data = made.memory + shift;
    return made;
}

static int guard_intact(const buffer *b, unsigned char content)
{
    const unsigned char *after = (const unsigned char *)(b->data + b->n);
    for (size_t i = 0; i < (GUARD - 1) * sizeof(float); i++) {
        if (after[i] != content) {
            return 0;
        }
    }
    return 1;
}

typedef struct operands {
    buffer in[LS_MAX_IN], out[LS_MAX_OUT];
} operands;

static void free_all(buffer *buffers, int n)
{
    for (int i = 0; i < n; i++) {
        free(buffers[i].memory);
    }
}

static void make_inputs(const test_case *one, operands *all, test_random *random)
{
    for (int i = 0; i < LS_MAX_IN; i++) {
        kind what = operands_of[one->attributes.op].in[i];
        all->in[i] = (buffer){0};
        if (what != NONE && present(one, what, i)) {
            all->in[i] = buffer_new(one->row, what, 0);
            fill(random, one, what, all->in[i].data, all->in[i].n);
        }
    }
}

static void compute(const ls_backend *backend, const test_case *one, const test_batch *batch, operands *all, int parts,
                    unsigned char canary)
{
    ls_op op = one->attributes.op;
    ls_op_call call = {.attributes = &one->attributes, .samples = &batch->samples};
    for (int i = 0; i < LS_MAX_IN; i++) {
        call.in[i] = shape_of(one->row, operands_of[op].in[i]);
        call.in[i].data = all->in[i].data;
    }
    for (int i = 0; i < LS_MAX_OUT; i++) {
        kind what = operands_of[op].out[i];
        all->out[i] = what == NONE ? (buffer){0} : buffer_new(one->row, what, canary);
        call.out[i] = shape_of(one->row, what);
        call.out[i].data = all->out[i].data;
    }
    call.parts = parts;
    for (int i = 0; i < parts; i++) {
        call.part = (i + 1) % parts; /* in another order than the whole has */
        test_run(backend, &call);
    }
}

/* Garbage in the lanes without an image must not show: each backend gets its own. */
static void change_garbage(const test_case *one, operands *all, test_random *random)
{
    for (int i = 0; i < LS_MAX_IN; i++) {
        kind what = operands_of[one->attributes.op].in[i];
        if (all->in[i].data && by_image(what) && !is_slope(what)) {
            ls_operand shape = shape_of(one->row, what);
            test_pad(all->in[i].data, &shape, one->row->count, random);
        }
    }
}

/* ---- Comparison ---- */

static void compare_output(const ls_backend *backend, const test_case *one, int k, const buffer *want,
                           const buffer *got, unsigned char canary)
{
    char text[256];
    kind what = operands_of[one->attributes.op].out[k];
    int dresidual = one->attributes.op == LS_OP_BATCH_NORM_BACKWARD && k == 2;
    if (what == NONE || (dresidual && !one->attributes.fused_add)) {
        return;
    }
    ls_operand shape = shape_of(one->row, what);
    size_t numbers = test_numbers(&shape);
    describe(one, text, sizeof text);
    for (size_t i = 0; i < want->n; i++) {
        int image = by_image(what) ? (int)(i / LS_LANES / numbers * LS_LANES + i % LS_LANES) : 0;
        int real = image < one->row->count;
        if (real && !test_same_bits(want->data[i], got->data[i])) {
            fail_msg("%s: %s: out[%d] number %zu: %a, not %a", backend->name, text, k, i, (double)got->data[i],
                     (double)want->data[i]);
        }
        if (!real && is_slope(what) && got->data[i] != 0) {
            fail_msg("%s: %s: out[%d] number %zu of a lane without an image: %a, not 0", backend->name, text, k, i,
                     (double)got->data[i]);
        }
    }
    if (!guard_intact(got, canary)) {
        fail_msg("%s: %s: out[%d] is overrun", backend->name, text, k);
    }
}

static float *copy_of(const buffer *b)
{
    float *copy = test_floats(b->n);
    if (b->data) {
        memcpy(copy, b->data, b->n * sizeof(float));
    }
    return copy;
}

static void check_backend(const ls_backend *backend, const test_case *one, const test_batch *batch, operands *all,
                          int parts)
{
    operands own;
    float *before[LS_MAX_IN];
    memcpy(own.in, all->in, sizeof own.in);
    for (int i = 0; i < LS_MAX_IN; i++) {
        before[i] = copy_of(&own.in[i]);
    }
    compute(backend, one, batch, &own, parts, 0xa5);
    for (int i = 0; i < LS_MAX_OUT; i++) {
        compare_output(backend, one, i, &all->out[i], &own.out[i], 0xa5);
    }
    for (int i = 0; i < LS_MAX_IN; i++) {
        if (own.in[i].data) {
            assert_memory_equal(before[i], own.in[i].data, own.in[i].n * sizeof(float));
        }
        free(before[i]);
    }
    free_all(own.out, LS_MAX_OUT);
}

/* ---- Running the table ---- */

static const ls_backend *backends[8];
static int backend_count;
static long cases_run;

static void run_case(const test_case *one)
{
    const row *r = one->row;
    test_random random = {.state = (uint64_t)cases_run * 1000 + one->attributes.op};
    test_batch batch = test_batch_new(r->count, (size_t)r->c * r->h * r->w, r->c);
    operands all;
    float *rows = test_floats((size_t)r->count * r->c * r->h * r->w);
    test_fill_normal(&random, rows, (size_t)r->count * r->c * r->h * r->w);
    batch.samples.rows[one->attributes.input] = rows;
    make_inputs(one, &all, &random);
    compute(ls_backend_ref(), one, &batch, &all, 1, 0x5a);
    for (int i = 0; i < LS_MAX_OUT; i++) {
        /* Against itself: the zeros of the lanes without an image, and the guards. */
        compare_output(ls_backend_ref(), one, i, &all.out[i], &all.out[i], 0x5a);
    }
    for (int i = 0; i < backend_count; i++) {
        change_garbage(one, &all, &random);
        check_backend(backends[i], one, &batch, &all, 1);
        if (one->in_parts) {
            check_backend(backends[i], one, &batch, &all, 3);
        }
    }
    free_all(all.in, LS_MAX_IN);
    free_all(all.out, LS_MAX_OUT);
    free(rows);
    test_batch_free(&batch);
    cases_run++;
}

static void run_row(const row *r, ls_op op)
{
    for (int variant = 0; variant < 8 * VALUES; variant++) {
        int relu = variant & 1, add = variant >> 1 & 1, bias = variant >> 2 & 1, values = variant / 8;
        if ((relu && !takes_relu(op)) || (add && !takes_add(op)) || (bias && !takes_bias(op))) {
            continue;
        }
        int full = relu == takes_relu(op) && add == takes_add(op) && bias == takes_bias(op) && values == ORDINARY;
        if (!full && !is_small(r)) {
            continue;
        }
        test_case one = case_of(r, op, relu, add, bias, values);
        one.in_parts = full;
        run_case(&one);
    }
}

static void run_family(int family)
{
    long before = cases_run;
    for (size_t i = 0; i < op_rows; i++) {
        for (int j = 0; op_table[i].family == family && families[family][j] != LS_OP_COUNT; j++) {
            if (suits(&op_table[i], families[family][j])) {
                run_row(&op_table[i], families[family][j]);
            }
        }
    }
    print_message("%ld cases, each on %d backends\n", cases_run - before, backend_count);
    assert_true(cases_run > before);
}

static void test_families(void **state)
{
    for (const int *family = *state; *family < FAMILIES; family++) {
        run_family(*family);
    }
}

/* ---- Flat vectors ---- */

static const size_t lengths[] = {0, 1, 15, 16, 17, 63, 1000};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static float *salted_vector(test_random *random, size_t n, int finite)
{
    float *x = test_floats(n + 1);
    test_fill_normal(random, x, n);
    for (size_t i = 0; i < n; i++) {
        x[i] = salt(random, x[i], finite);
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
                ls_sgd how = {.rows = 96, .lr = 0.2f};
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
    const ls_sgd how = {.rows = 1, .lr = 0.1f, .momentum = 0.9f, .first = 1};
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

/* ---- */

static void test_slots(void **state)
{
    (void)state;
    assert_true(backend_count > 0);
    for (int op = 0; op < LS_OP_COUNT; op++) {
        assert_non_null(ls_backend_ref()->kernel[op]);
        assert_string_not_equal(ls_op_name((ls_op)op), "unknown");
        for (int k = 0; k < backend_count; k++) {
            assert_non_null(backends[k]->kernel[op]);
            if (backends[k]->kernel[op] == ls_backend_ref()->kernel[op]) {
                print_message("%s: %s is the reference's\n", backends[k]->name, ls_op_name((ls_op)op));
            }
        }
    }
    assert_string_equal(ls_op_name(LS_OP_COUNT), "unknown");
}

int main(void)
{
    backend_count = test_backends(backends);
    print_message("backends compared with the reference:");
    for (int i = 0; i < backend_count; i++) {
        print_message(" %s", backends[i]->name);
    }
    print_message("%s\n", backend_count ? "" : " none");
    int convolutions[] = {CONVS, CROPPED, FAMILIES}, pools[] = {POOLS, FAMILIES}, maps[] = {MAPS, FAMILIES};
    int classes[] = {CLASSES, COUNTS, CONCATS, FAMILIES};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots),
        {"convolutions", test_families, NULL, NULL, convolutions},
        {"pools", test_families, NULL, NULL, pools},
        {"maps", test_families, NULL, NULL, maps},
        {"classes", test_families, NULL, NULL, classes},
        cmocka_unit_test(test_vector_add),
        cmocka_unit_test(test_vector_sgd),
        cmocka_unit_test(test_vector_sgd_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
