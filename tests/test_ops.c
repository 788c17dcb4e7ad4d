/* Every operation of every backend against the reference, bit for bit, from one table of shapes. `test_ops I/S` runs
 * the Ith of S shares of it, which cores take at the same time. `test_ops I/S N` takes less time: of the largest rows
 * each operation takes every Nth, beginning elsewhere than its neighbours; fewer rows run in every variant; and what is
 * left out is said. */
#include "op_table.h"

#include <lockstep.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Numbers for the operands ---- */

static void fill(test_random *random, const test_case *one, kind what, float *x, size_t n)
{
    test_fill_normal(random, x, n);
    const int sums = what == STATISTICS || what == NORM_SUMS;
    for (size_t i = 0; i < n; i++) {
        x[i] = operand_number(one, what, x[i]);
        if (one->values == SALTED && !sums) {
            x[i] = test_salt(random, x[i], !by_image(what));
        } else if (one->values == TINY && by_image(what)) {
            x[i] *= 1e-39f;
        } else if (one->values == FAINT && !sums) {
            x[i] = test_salt(random, x[i], 1) * 1e-30f;
        }
        x[i] = counted_number(what, x[i], i, n);
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
    for (int i = 0; i < n; i++)
        free(buffers[i].memory);
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

/* `over`: which operand the first output lies over, -1 for none. */
static void compute(const ls_backend *backend, const test_case *one, const test_batch *batch, operands *all, int parts,
                    unsigned char canary, int over)
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
    if (over >= 0)
        call.in[over].data = memcpy(all->out[0].data, all->in[over].data, all->in[over].n * sizeof(float));
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
    if (!makes_output(one, k)) {
        return;
    }
    ls_operand shape = shape_of(one->row, what);
    size_t numbers = test_numbers(&shape);
    describe(one, text, sizeof text);
    for (size_t i = 0; i < want->n; i++) {
        if (!is_slope(what) && test_same_bits(want->data[i], got->data[i]))
            continue; /* whichever image's it is */
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
    if (b->data)
        memcpy(copy, b->data, b->n * sizeof(float));
    return copy;
}

static void check_backend(const ls_backend *backend, const test_case *one, const test_batch *batch, operands *all,
                          int parts, int over)
{
    operands own;
    float *before[LS_MAX_IN];
    memcpy(own.in, all->in, sizeof own.in);
    for (int i = 0; i < LS_MAX_IN; i++)
        before[i] = copy_of(&own.in[i]);
    compute(backend, one, batch, &own, parts, 0xa5, over);
    for (int i = 0; i < LS_MAX_OUT; i++)
        compare_output(backend, one, i, &all->out[i], &own.out[i], 0xa5);
    for (int i = 0; i < LS_MAX_IN; i++) {
        if (own.in[i].data && memcmp(before[i], own.in[i].data, own.in[i].n * sizeof(float)) != 0)
            fail_msg("%s writes to operand %d", backend->name, i);
        free(before[i]);
    }
    free_all(own.out, LS_MAX_OUT);
}

/* Whether cores may share the operation where there are many images; a kernel that is never cut computes all in every
 * part. */
static int is_cut(const ls_backend *backend, const test_case *one)
{
    const op_operands *kinds = &operands_of[one->attributes.op];
    const ls_samples many = {.count = 1 << 20};
    ls_op_call call = {.attributes = &one->attributes, .samples = &many, .groups = many.count / LS_LANES};
    for (int i = 0; i < LS_MAX_IN; i++)
        call.in[i] = shape_of(one->row, kinds->in[i]);
    for (int i = 0; i < LS_MAX_OUT; i++)
        call.out[i] = shape_of(one->row, kinds->out[i]);
    return backend->parts && backend->parts(&call) > 1;
}

/* Wherever the first output may lie over an operand. */
static void check_over_operands(const ls_backend *backend, const test_case *one, const test_batch *batch, operands *all,
                                int parts)
{
    const op_operands *kinds = &operands_of[one->attributes.op];
    for (int k = 0; k < LS_MAX_IN; k++)
        if (ls_op_overwrites(one->attributes.op) >> k & 1 && all->in[k].data && by_image(kinds->in[k]) &&
            all->in[k].n == all->out[0].n)
            check_backend(backend, one, batch, all, parts, k);
}

/* ---- Running the table ---- */

static const ls_backend *backends[8];
static int backend_count;
static long cases_seen, cases_run;
static int share = 1, shares = 1; /* which cases are this run's */
static int every = 1;             /* 1: nothing is left out */

static void run_case(const test_case *one)
{
    const row *r = one->row;
    test_random random = {.state = (uint64_t)cases_seen * 1000 + one->attributes.op};
    test_batch batch = batch_of(one);
    operands all;
    float *rows = test_floats((size_t)r->count * r->c * r->h * r->w);
    test_fill_normal(&random, rows, (size_t)r->count * r->c * r->h * r->w);
    batch.samples.rows[one->attributes.input] = rows;
    make_inputs(one, &all, &random);
    compute(ls_backend_ref(), one, &batch, &all, 1, 0x5a, -1);
    for (int i = 0; i < LS_MAX_OUT; i++) {
        /* Against itself: the zeros of the lanes without an image, and the guards. */
        compare_output(ls_backend_ref(), one, i, &all.out[i], &all.out[i], 0x5a);
    }
    check_over_operands(ls_backend_ref(), one, &batch, &all, 1);
    for (int i = 0; i < backend_count; i++) {
        change_garbage(one, &all, &random);
        check_backend(backends[i], one, &batch, &all, 1, -1);
        check_over_operands(backends[i], one, &batch, &all, 1);
        if (one->in_parts)
            check_backend(backends[i], one, &batch, &all, 3, -1);
        if (one->in_parts && is_cut(backends[i], one))
            check_over_operands(backends[i], one, &batch, &all, 3);
    }
    free_all(all.in, LS_MAX_IN);
    free_all(all.out, LS_MAX_OUT);
    free(rows);
    test_batch_free(&batch);
    cases_run++;
}

static void say_left_out(const row *r, ls_op op, const char *what)
{
    char text[224];
    describe_row(r, op, text, sizeof text);
    print_message("left out: %s of %s\n", what, text);
}

/* Whether it is the operation's turn to take this row. */
static int takes(const row *r, ls_op op)
{
    static int large[LS_OP_COUNT];
    if (work_of(r) < LARGE || (large[op]++ + (int)op) % every == 0)
        return 1;
    say_left_out(r, op, "all");
    return 0;
}

static void run_row(const row *r, ls_op op)
{
    const int all_variants = work_of(r) < SMALL / every;
    if (!all_variants && work_of(r) < SMALL)
        say_left_out(r, op, "all variants but one");
    for (int variant = 0; variant < 8 * VALUES; variant++) {
        int relu = variant & 1, add = variant >> 1 & 1, bias = variant >> 2 & 1, values = variant / 8;
        if ((relu && !takes_relu(op)) || (add && !takes_add(op)) || (bias && !takes_bias(op))) {
            continue;
        }
        if (values == FAINT && (add || bias)) { /* which hide the signs of zeros */
            continue;
        }
        int full = relu == takes_relu(op) && add == takes_add(op) && bias == takes_bias(op) && values == ORDINARY;
        if (!full && !all_variants) {
            continue;
        }
        test_case one = case_of(r, op, relu, add, bias, values);
        one.in_parts = full;
        if (cases_seen++ % shares == share - 1)
            run_case(&one);
    }
}

static void run_family(int family)
{
    long before = cases_run;
    for (size_t i = 0; i < op_rows; i++) {
        for (int j = 0; op_table[i].family == family && families[family][j] != LS_OP_COUNT; j++) {
            if (suits(&op_table[i], families[family][j]) && takes(&op_table[i], families[family][j])) {
                run_row(&op_table[i], families[family][j]);
            }
        }
    }
    print_message("%ld cases, each on %d backends\n", cases_run - before, backend_count);
    assert_true(cases_run > before);
}

static void test_families(void **state)
{
    for (const int *family = *state; *family < FAMILIES; family++)
        run_family(*family);
}

/* ---- The table of kernels ---- */

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

int main(int argc, char **argv)
{
    if ((argc > 1 && (sscanf(argv[1], "%d/%d", &share, &shares) != 2 || share < 1 || share > shares)) ||
        (argc > 2 && (every = atoi(argv[2])) < 1)) {
        print_error("usage: test_ops [I/S [N]], I from 1 to S, N at least 1\n");
        return 2;
    }
    backend_count = test_backends(backends);
    print_message("backends compared with the reference:");
    for (int i = 0; i < backend_count; i++) {
        print_message(" %s", backends[i]->name);
    }
    print_message("%s\n", backend_count ? "" : " none");
    int convolutions[] = {CONVS, CROPPED, GENERAL, POOLED, FAMILIES}, pools[] = {POOLS, FAMILIES};
    int maps[] = {MAPS, FAMILIES};
    int classes[] = {CLASSES, COUNTS, CONCATS, FAMILIES}, functions[] = {FUNCTIONS, EXPANDS, FAMILIES};
    int shapes[] = {VIEWS, SETS, RESIZES, FAMILIES},
        sequences[] = {PRODUCTS, EMBEDDINGS, RECURRENT, ATTENTIONS, FAMILIES};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots),
        {"convolutions", test_families, NULL, NULL, convolutions},
        {"pools", test_families, NULL, NULL, pools},
        {"maps", test_families, NULL, NULL, maps},
        {"classes", test_families, NULL, NULL, classes},
        {"functions", test_families, NULL, NULL, functions},
        {"shapes", test_families, NULL, NULL, shapes},
        {"sequences", test_families, NULL, NULL, sequences},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
