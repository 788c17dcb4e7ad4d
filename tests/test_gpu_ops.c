/* Every operation of a card against the CPU's fastest backend, which has the reference's bits (test_ops), from the
 * table of shapes that the CPU's backends are tested by: in float32 bit for bit, in other dtypes to rounding.
 * Exit status 77 where there is no card. */
#include "not_run.h"
#include "op_table.h"

#include <lockstep.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/session.h"
#include "device/cards.h"
#include "device/open.h"

/* How far a result may be off, as the norm of the difference relative to the norm: TF32 has 10 bits behind the
 * point, bfloat16 7, and what goes in is rounded alike. */
static const double allowed[] = {[LS_F32] = 0, [LS_TF32] = 3e-3, [LS_BF16] = 1.5e-2};
static const char *const dtype_name[] = {"f32", "tf32", "bf16"};

typedef struct bench {
    ls_context context;
    ls_executor *executor;
    ls_dtype dtype;
    long cases;
    double worst;
    char worst_of[256];
    struct owner *owners;
} bench;

/* Of a case's images, which the card may keep until it is closed: no two cases' owners lie at the same place. */
typedef struct owner {
    ls_counted counted; /* first */
    struct owner *next;
} owner;

static ls_counted *owner_new(bench *b)
{
    owner *made = calloc(1, sizeof *made);
    *made = (owner){.counted = {.holders = 1000000}, .next = b->owners}; /* never the last */
    b->owners = made;
    return &made->counted;
}

/* The card is the host, where all this takes long: of what is tested besides the table the largest rows are left
 * out, and with `few` of the table each operation takes one in so many of them, and fewer rows run in every variant. */
static bool small;
static int every = 1;

static bool is_left_out(const row *r)
{
    return small && work_of(r) >= LARGE;
}

/* ---- Numbers, there and back ---- */

static float to_half(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* One activation: as rows of images in C order, in lanes, and on the card. */
typedef struct value {
    float *rows, *lanes; /* of what is no activation the same numbers twice */
    void *card;
    size_t n, bytes; /* numbers without padding; of one on the card */
    size_t padded;   /* numbers in the lanes */
    int count;
    ls_operand shape;
    int activation;
} value;

static size_t turned(const ls_operand *s, size_t i)
{
    const size_t places = (size_t)s->h * s->w, numbers = places * s->c, left = i % numbers;
    return i / numbers * numbers + left % s->c * places + left / s->c;
}

/* The card's order: the lanes where it is exact, else channels innermost. */
static void put(bench *b, const value *v)
{
    if (b->executor->backend->exact) {
        b->executor->type->memory.put(b->executor, v->card, v->lanes, v->padded * sizeof(float));
        return;
    }
    unsigned char *memory = malloc(v->n * v->bytes + 1);
    for (size_t i = 0; i < v->n; i++) {
        const float x = v->rows[v->activation ? turned(&v->shape, i) : i];
        memcpy(memory + i * v->bytes, (const unsigned char *)&x + 4 - v->bytes, v->bytes);
    }
    b->executor->type->memory.put(b->executor, v->card, memory, v->n * v->bytes);
    assert_true(b->executor->type->completion.finish(b->executor));
    free(memory);
}

static void get(bench *b, const value *v)
{
    if (b->executor->backend->exact) {
        float *const lanes = test_floats(v->padded + 1);
        b->executor->type->memory.get(b->executor, lanes, v->card, v->padded * sizeof(float));
        if (v->activation)
            test_unpack(v->rows, lanes, &v->shape, v->count);
        else
            memcpy(v->rows, lanes, v->n * sizeof(float));
        free(lanes);
        return;
    }
    unsigned char *memory = malloc(v->n * v->bytes + 1);
    b->executor->type->memory.get(b->executor, memory, v->card, v->n * v->bytes);
    for (size_t i = 0; i < v->n; i++) {
        float x = 0;
        memcpy((unsigned char *)&x + 4 - v->bytes, memory + i * v->bytes, v->bytes);
        v->rows[v->activation ? turned(&v->shape, i) : i] = x;
    }
    free(memory);
}

static value value_new(bench *b, const row *r, kind what, size_t bytes)
{
    const int activation = by_image(what);
    value v = {.shape = shape_of(r, what), .bytes = activation ? bytes : sizeof(float), .activation = activation};
    v.n = test_numbers(&v.shape) * (activation ? (size_t)r->count : 1);
    v.padded = size_of(r, what);
    v.count = r->count;
    v.rows = test_floats(v.n + 1);
    v.lanes = test_floats(v.padded + 1);
    v.card = ls_executor_alloc(b->executor, (v.padded > v.n ? v.padded : v.n) + 64, sizeof(float), "a test");
    assert_non_null(v.card);
    return v;
}

static void value_free(bench *b, value *v)
{
    free(v->rows);
    free(v->lanes);
    ls_executor_release(b->executor, v->card);
    *v = (value){.rows = NULL};
}

/* Operands by whose order, or sign, an operation decides: they have equal numbers, and zeros. */
static bool decides(ls_op op, int k)
{
    static const int operands[LS_OP_COUNT] = {
        [LS_OP_COUNT_CORRECT] = 1,     [LS_OP_MAX_POOL] = 1,      [LS_OP_MAX_POOL_BACKWARD] = 2,
        [LS_OP_AVG_POOL_BACKWARD] = 2, [LS_OP_RELU_BACKWARD] = 2, [LS_OP_BATCH_NORM_BACKWARD] = 16,
    };
    return operands[op] >> k & 1;
}

/* Operand k of an operation. Statistics are taken of numbers far from zero, where what holds them can tell them
 * apart. */
static void fill(bench *b, const row *r, ls_op op, int k, value *v, test_random *random)
{
    const kind what = operands_of[op].in[k];
    const float offset = op == LS_OP_BATCH_NORM && k == 0 && v->bytes == 4 ? 1000 : 0;
    test_fill_normal(random, v->rows, v->n);
    for (size_t i = 0; i < v->n; i++) {
        v->rows[i] = decides(op, k) ? roundf(2 * v->rows[i]) / 2 : v->rows[i] + offset;
        if (what == STATISTICS && i >= v->n / 2)
            v->rows[i] = 0.5f + fabsf(v->rows[i]);
        if (v->bytes == 2)
            v->rows[i] = to_half(v->rows[i]);
    }
    if (by_image(what))
        test_pack(v->lanes, v->rows, &v->shape, r->count, 0);
    else
        memcpy(v->lanes, v->rows, v->n * sizeof(float));
    put(b, v);
}

/* ---- One case ---- */

static double off_by(const float *a, const float *b, size_t n)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += (double)b[i] * b[i];
    }
    return sqrt(difference / (norm > 0 ? norm : 1e-30));
}

static void compare(bench *b, const test_case *one, const value *v, kind what, int k)
{
    char text[256];
    float *expected = test_floats(v->n + 1);
    if (by_image(what))
        test_unpack(expected, v->lanes, &v->shape, one->row->count);
    else
        memcpy(expected, v->lanes, v->n * sizeof(float));
    for (size_t i = 0; i < v->n; i++)
        if ((isnan(expected[i]) && isnan(v->rows[i])) || /* the variance of a single number */
            (isinf(expected[i]) && expected[i] == v->rows[i]))
            expected[i] = v->rows[i] = 0;
        else if (b->executor->backend->exact && !test_same_bits(expected[i], v->rows[i])) {
            describe(one, text, sizeof text);
            fail_msg("%s: out[%d] number %zu: %a, not %a", text, k, i, (double)v->rows[i], (double)expected[i]);
        }
    const double off = off_by(v->rows, expected, v->n);
    free(expected);
    describe(one, text, sizeof text);
    if (!(off <= allowed[b->dtype])) /* NaN too */
        fail_msg("%s: %s: out[%d] is off by %.2g, more than %.2g", dtype_name[b->dtype], text, k, off,
                 allowed[b->dtype]);
    if (off > b->worst) {
        b->worst = off;
        snprintf(b->worst_of, sizeof b->worst_of, "%s", text);
    }
}

/* Has the card do it; data pointers are the card's. */
static void hand_in(bench *b, const test_case *one, const ls_samples *samples, ls_op_call *call)
{
    const ls_backend *backend = b->executor->backend;
    ls_samples there = *samples;
    const ls_form form = {.plan = 1, .count = one->row->count};
    call->executor = b->executor;
    const size_t bytes = backend->scratch(call);
    call->scratch = bytes ? ls_executor_alloc(b->executor, bytes, 1, "a test") : NULL;
    if (b->executor->type->compute.begin(b->executor, &form, samples, &there))
        fail_msg("%s", b->executor->message);
    call->samples = &there;
    backend->kernel[one->attributes.op](call);
    b->executor->type->compute.end(b->executor);
    b->executor->type->completion.finish(b->executor);
    if (b->executor->status != LS_OK) {
        char text[256];
        describe(one, text, sizeof text);
        fail_msg("%s: %s: %s", dtype_name[b->dtype], text, b->executor->message);
    }
    ls_executor_release(b->executor, call->scratch);
}

static void run_case(bench *b, const test_case *one)
{
    const row *r = one->row;
    const ls_op op = one->attributes.op;
    const ls_backend *backend = b->executor->backend;
    test_random random = {.state = (uint64_t)b->cases * 1000 + op};
    const size_t image = (size_t)r->c * r->h * r->w;
    test_batch batch = batch_of(one);
    batch.samples.owner = owner_new(b);
    float *rows = test_floats((size_t)r->count * image);
    test_fill_normal(&random, rows, (size_t)r->count * image);
    for (size_t i = 0; b->dtype == LS_BF16 && i < (size_t)r->count * image; i++)
        rows[i] = to_half(rows[i]);
    batch.samples.rows[one->attributes.input] = op == LS_OP_INPUT ? rows : NULL;

    value in[LS_MAX_IN] = {{0}}, out[LS_MAX_OUT] = {{0}};
    ls_op_call reference = {.attributes = &one->attributes, .samples = &batch.samples}, call = reference;
    for (int k = 0; k < LS_MAX_IN; k++) {
        const kind what = operands_of[op].in[k];
        reference.in[k] = call.in[k] = shape_of(r, what);
        if (what == NONE || !present(one, what, k))
            continue;
        in[k] = value_new(b, r, what, backend->read ? backend->read(op, k) : 4);
        fill(b, r, op, k, &in[k], &random);
        reference.in[k].data = in[k].lanes;
        call.in[k].data = in[k].card;
    }
    for (int k = 0; k < LS_MAX_OUT; k++) {
        const kind what = operands_of[op].out[k];
        reference.out[k] = call.out[k] = shape_of(r, what);
        if (what == NONE)
            continue;
        out[k] = value_new(b, r, what, backend->made ? backend->made(op, k) : 4);
        reference.out[k].data = out[k].lanes;
        call.out[k].data = out[k].card;
    }
    test_run(test_fastest(), &reference);

    call.groups = reference.groups;
    hand_in(b, one, &batch.samples, &call);
    for (int k = 0; k < LS_MAX_OUT; k++) {
        const kind what = operands_of[op].out[k];
        if (!makes_output(one, k))
            continue;
        get(b, &out[k]);
        compare(b, one, &out[k], what, k);
    }
    for (int k = 0; k < LS_MAX_IN; k++)
        value_free(b, &in[k]);
    for (int k = 0; k < LS_MAX_OUT; k++)
        value_free(b, &out[k]);
    free(rows);
    test_batch_free(&batch);
    b->cases++;
}

/* ---- Operands that a CPU's backends do not take: as without them, and what they stand for by itself ---- */

/* Runs an operation of a row: `in` and `out` are filled, or NULL where there is none. */
static void run_on_card(bench *b, const test_case *one, value *const in[LS_MAX_IN], value *const out[LS_MAX_OUT])
{
    test_batch batch = batch_of(one);
    ls_op_call call = {.attributes = &one->attributes, .samples = &batch.samples};
    for (int k = 0; k < LS_MAX_IN; k++)
        if (in[k]) {
            call.in[k] = in[k]->shape;
            call.in[k].data = in[k]->card;
        }
    for (int k = 0; k < LS_MAX_OUT; k++)
        if (out[k]) {
            call.out[k] = out[k]->shape;
            call.out[k].data = out[k]->card;
        }
    hand_in(b, one, &batch.samples, &call);
    for (int k = 0; k < LS_MAX_OUT; k++)
        if (out[k])
            get(b, out[k]);
    test_batch_free(&batch);
}

/* A gradient of images that is added to another one, which lies elsewhere, or where it is to be. */
static void run_accumulating(bench *b, const row *r)
{
    test_case one = case_of(r, LS_OP_CONV_DATA, 0, 0, 0, ORDINARY);
    const ls_backend *backend = b->executor->backend;
    const size_t bytes = backend->made ? backend->made(LS_OP_CONV_DATA, 0) : 4;
    test_random random = {.state = 77};
    const kind *in = operands_of[LS_OP_CONV_DATA].in;
    value dy = value_new(b, r, in[0], bytes), w = value_new(b, r, in[1], 4), more = value_new(b, r, X_SLOPE, bytes),
          alone = value_new(b, r, X_SLOPE, bytes), together = value_new(b, r, X_SLOPE, bytes);
    fill(b, r, LS_OP_CONV_DATA, 0, &dy, &random);
    fill(b, r, LS_OP_CONV_DATA, 1, &w, &random);
    fill(b, r, LS_OP_RELU_BACKWARD, 0, &more, &random);
    run_on_card(b, &one, (value *[LS_MAX_IN]){&dy, &w}, (value *[LS_MAX_OUT]){&alone});
    for (size_t i = 0; i < alone.n; i++)
        alone.rows[i] += more.rows[i];
    run_on_card(b, &one, (value *[LS_MAX_IN]){&dy, &w, &more}, (value *[LS_MAX_OUT]){&together});
    double off = off_by(together.rows, alone.rows, alone.n);
    run_on_card(b, &one, (value *[LS_MAX_IN]){&dy, &w, &more}, (value *[LS_MAX_OUT]){&more});
    const double in_place = off_by(more.rows, alone.rows, alone.n);
    off = in_place > off ? in_place : off;
    if (!(off <= allowed[b->dtype])) {
        char text[256];
        describe(&one, text, sizeof text);
        fail_msg("%s: %s: added to another gradient it is off by %.2g", dtype_name[b->dtype], text, off);
    }
    b->worst = off > b->worst ? off : b->worst;
    b->cases++;
    value_free(b, &dy);
    value_free(b, &w);
    value_free(b, &more);
    value_free(b, &alone);
    value_free(b, &together);
}

/* Where a relu let pass, found from its output and from what the BatchNorm read: the same bits. */
static void run_masking(bench *b, const row *r)
{
    test_case norm = case_of(r, LS_OP_BATCH_NORM, 1, 0, 0, ORDINARY),
              back = case_of(r, LS_OP_BATCH_NORM_BACKWARD, 1, 0, 0, ORDINARY);
    const ls_backend *backend = b->executor->backend;
    const size_t bytes = backend->made ? backend->made(LS_OP_BATCH_NORM, 0) : 4;
    test_random random = {.state = 78};
    value x = value_new(b, r, X, bytes), gamma = value_new(b, r, CHANNEL, 4), beta = value_new(b, r, CHANNEL, 4),
          y = value_new(b, r, X, bytes), saved = value_new(b, r, STATISTICS, 4), dy = value_new(b, r, X, bytes),
          statistics = value_new(b, r, STATISTICS, 4), dx[2], dgb[2];
    fill(b, r, LS_OP_BATCH_NORM_BACKWARD, 1, &x, &random);
    fill(b, r, LS_OP_BATCH_NORM_BACKWARD, 0, &dy, &random);
    fill(b, r, LS_OP_BATCH_NORM, 1, &gamma, &random);
    fill(b, r, LS_OP_BATCH_NORM, 2, &beta, &random);
    run_on_card(b, &norm, (value *[LS_MAX_IN]){&x, &gamma, &beta}, (value *[LS_MAX_OUT]){&y, &saved, &statistics});
    for (int by_x = 0; by_x < 2; by_x++) {
        dx[by_x] = value_new(b, r, X, bytes);
        dgb[by_x] = value_new(b, r, STATISTICS, 4);
        run_on_card(b, &back, (value *[LS_MAX_IN]){&dy, &x, &gamma, &saved, &y, by_x ? &beta : NULL},
                    (value *[LS_MAX_OUT]){&dx[by_x], &dgb[by_x]});
    }
    if (memcmp(dx[0].rows, dx[1].rows, dx[0].n * sizeof(float)) != 0 ||
        memcmp(dgb[0].rows, dgb[1].rows, dgb[0].n * sizeof(float)) != 0)
        fail_msg("%s: %d images of %dx%dx%d: a relu's gradient found from x has other bits", dtype_name[b->dtype],
                 r->count, r->c, r->h, r->w);
    b->cases++;
    value *const all[] = {&x, &gamma, &beta, &y, &saved, &dy, &statistics, &dx[0], &dx[1], &dgb[0], &dgb[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        value_free(b, all[i]);
}

/* ---- The table ---- */

static void run_op(bench *b, ls_op op, int family)
{
    int large = 0;
    for (size_t i = 0; i < op_rows; i++) {
        const row *r = &op_table[i];
        if (r->family != family || !suits(r, op) || (work_of(r) >= LARGE && (large++ + (int)op) % every != 0))
            continue;
        for (int variant = 0; variant < 8; variant++) {
            int relu = variant & 1, add = variant >> 1 & 1, bias = variant >> 2 & 1;
            const int full = relu == takes_relu(op) && add == takes_add(op) && bias == takes_bias(op);
            if ((relu && !takes_relu(op)) || (add && !takes_add(op)) || (bias && !takes_bias(op)) ||
                (!full && work_of(r) >= SMALL / every))
                continue;
            const test_case one = case_of(r, op, relu, add, bias, ORDINARY);
            run_case(b, &one);
        }
    }
}

static void operations_agree(void **state)
{
    bench b = {.dtype = (ls_dtype)(intptr_t)*state};
    assert_int_equal(ls_context_init(&b.context, NULL), LS_OK);
    b.executor = ls_executor_open(&b.context, &(ls_options){.dtype = b.dtype}, ls_gpu(0));
    if (!b.executor)
        fail_msg("%s", b.context.message);
    b.executor->plain = true;
    for (int family = 0; family < FAMILIES; family++)
        for (int k = 0; families[family][k] != LS_OP_COUNT; k++) {
            const ls_op op = families[family][k];
            if (op == LS_OP_CUSTOM || op == LS_OP_CUSTOM_BACKWARD)
                continue; /* test_gpu_own has kernels for one */
            if (!b.executor->backend->kernel[op]) {
                if (family != CROPPED)
                    print_message("%s: not there on a card, and refused in a plan: %s\n", dtype_name[b.dtype],
                                  ls_op_name(op));
                continue;
            }
            const long before = b.cases;
            b.worst = 0;
            snprintf(b.worst_of, sizeof b.worst_of, "no number is another");
            run_op(&b, op, family);
            print_message("%s: %-24s %4ld cases, the worst off by %.1e: %s\n", dtype_name[b.dtype], ls_op_name(op),
                          b.cases - before, b.worst, b.worst_of);
        }
    b.worst = 0;
    for (size_t i = 0; i < op_rows && b.executor->backend->accumulates; i++)
        if ((op_table[i].family == CONVS || op_table[i].family == CROPPED) && !is_left_out(&op_table[i]))
            run_accumulating(&b, &op_table[i]);
        else if (op_table[i].family == MAPS)
            run_masking(&b, &op_table[i]);
    if (b.executor->backend->accumulates)
        print_message("%s: gradients of images added to others, the worst off by %.1e; relus found from x\n",
                      dtype_name[b.dtype], b.worst);
    assert_true(b.cases > 0);
    ls_executor_close(b.executor);
    while (b.owners) {
        owner *first = b.owners;
        b.owners = first->next;
        free(first);
    }
    ls_context_destroy(&b.context);
}

/* ---- Sums in the tree's order, and updates: bit for bit, because both add the same numbers in the same order ---- */

static void sums_and_updates_have_the_cpus_bits(void **state)
{
    (void)state;
    enum { N = 5000, VECTORS = 5, RULES = 4, RESULTS = 4 };
    ls_context context;
    assert_int_equal(ls_context_init(&context, NULL), LS_OK);
    ls_executor *executors[2] = {ls_executor_open(&context, &(ls_options){.shard = 1}, ls_gpu(0)),
                                 ls_executor_open(&context, &(ls_options){.shard = 1}, ls_cpu(0))};
    const ls_update rules[RULES] = {
        {.rule = LS_RULE_SGD,
         .sgd = {.divisor = 37, .lr = 0.1f, .momentum = 0.9f, .weight_decay = 1e-3f, .nesterov = 1}},
        {.rule = LS_RULE_ADAM,
         .stride = N,
         .adam = {.divisor = 37,
                  .share1 = 0.1f,
                  .share2 = 1e-3f,
                  .rate = 0.01f,
                  .scale = 31.6f,
                  .eps = 1e-8f,
                  .weight_decay = 1e-3f,
                  .decay = 1e-4f,
                  .first = 1}},
        {.rule = LS_RULE_SGD,
         .average_at = 2 * N,
         .averaging = {.share = 0.1f, .first = 1},
         .sgd = {.divisor = 37, .lr = 0.1f, .momentum = 0.9f}},
        {.rule = LS_RULE_ADAM,
         .stride = N,
         .average_at = 2 * N,
         .averaging = {.share = 0.1f},
         .adam = {.divisor = 37, .share1 = 0.1f, .share2 = 1e-3f, .rate = 0.01f, .scale = 31.6f, .eps = 1e-8f}}};
    float *results[2][RULES][RESULTS];
    if (!executors[0] || !executors[1])
        fail_msg("%s", context.message);
    for (int u = 0; u < 2; u++) {
        test_random random = {.state = 5};
        ls_executor *executor = executors[u];
        float *there[VECTORS + 2], *host = test_floats(3 * N);
        for (int i = 0; i < VECTORS + 2; i++) {
            /* Two moments and an average are the longest. */
            there[i] = ls_executor_alloc(executor, 3 * N, sizeof *host, "a test");
            test_fill_normal(&random, host, 3 * N);
            executor->type->memory.put(executor, there[i], host, 3 * N * sizeof *host);
        }
        /* ((0 + 1) + (2 + 3)) + 4, as five shards are summed */
        const ls_terms terms = {9, {there[0], there[1], NULL, there[2], there[3], NULL, NULL, there[4], NULL}};
        float *w = there[VECTORS], *moments = there[VECTORS + 1],
              *out = ls_executor_alloc(executor, N, sizeof *out, "a test");
        for (int r = 0; r < RULES; r++) {
            assert_true(executor->type->compute.update(executor, &terms, out, w, moments, N, &rules[r]));
            const float *const seen[RESULTS] = {out, moments, moments + N, moments + 2 * N};
            for (int i = 0; i < RESULTS; i++) {
                results[u][r][i] = test_floats(N);
                executor->type->memory.get(executor, results[u][r][i], seen[i], N * sizeof *host);
            }
        }
        float *sum = test_floats(N);
        executor->type->compute.sum(executor, &terms, there[0], N);
        executor->type->memory.get(executor, sum, there[0], N * sizeof *sum);
        free(results[u][0][2]); /* SGD has one moment: the sum in its place */
        results[u][0][2] = sum;
        /* What is not finite is told, once. */
        host[17] = INFINITY;
        executor->type->memory.put(executor, there[2], host, N * sizeof *host);
        bool told = !executor->type->compute.update(executor, &terms, out, w, moments, N, &rules[0]);
        told |= !executor->type->completion.finish(executor);
        assert_true(told);
        assert_true(executor->type->completion.finish(executor));
        for (int i = 0; i < VECTORS + 2; i++)
            ls_executor_release(executor, there[i]);
        ls_executor_release(executor, out);
        free(host);
    }
    for (int r = 0; r < RULES; r++)
        for (int i = 0; i < RESULTS; i++) {
            assert_memory_equal(results[0][r][i], results[1][r][i], N * sizeof(float));
            free(results[0][r][i]);
            free(results[1][r][i]);
        }
    ls_executor_close(executors[0]);
    ls_executor_close(executors[1]);
    ls_context_destroy(&context);
}

/* `small`, and `few`: without float32, whose kernels test_card_lanes tries on the host. */
int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "few") == 0)
        every = 11;
    small = every > 1 || (argc > 1 && strcmp(argv[1], "small") == 0);
    char why[256] = "";
    if (ls_card_count(why, sizeof why) == 0)
        return test_none_run("%s", why);
    const struct CMUnitTest all[] = {
        cmocka_unit_test(sums_and_updates_have_the_cpus_bits),
        {"operations in f32", operations_agree, NULL, NULL, (void *)LS_F32},
        {"operations in bf16", operations_agree, NULL, NULL, (void *)LS_BF16},
        {"operations in tf32", operations_agree, NULL, NULL, (void *)LS_TF32},
    };
    const struct CMUnitTest few[] = {all[0], all[2], all[3]};
    return small ? cmocka_run_group_tests(few, NULL, NULL) : cmocka_run_group_tests(all, NULL, NULL);
}
