/* BatchNorm in pieces: a shard by itself has BATCH_NORM's bits, and sums over several shards are those of all numbers.
 * BatchNorm with a clamp has the bits of the two. */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/norm_sums.h"

enum { C = 5, H = 6, W = 7, MOST = 6 };

/* One shard, forward and backward, by a backend. */
typedef struct shard {
    test_batch batch;
    ls_operand x, dy, y, dx, residual, dresidual, saved, statistics, dgb, sums, slopes;
} shard;

static ls_operand like(const ls_operand *x, int count)
{
    ls_operand made = *x;
    made.data = test_floats(test_lane_numbers(x, count));
    return made;
}

static shard shard_new(test_random *random, int count, float offset)
{
    shard s = {.batch = test_batch_new(count, 1, 1)};
    s.x = test_activation(random, C, H, W, count);
    for (size_t i = 0; i < test_lane_numbers(&s.x, count); i++)
        s.x.data[i] += offset;
    s.dy = test_activation(random, C, H, W, count);
    s.residual = test_activation(random, C, H, W, count);
    s.y = like(&s.x, count);
    s.dx = like(&s.x, count);
    s.dresidual = like(&s.x, count);
    s.saved = test_vector(random, (size_t)2 * C);
    s.statistics = test_vector(random, (size_t)2 * C);
    s.dgb = test_vector(random, (size_t)2 * C);
    s.sums = test_vector(random, ls_norm_sums_floats(C));
    s.slopes = test_vector(random, ls_norm_sums_floats(C));
    return s;
}

static void shard_free(shard *s)
{
    const ls_operand all[] = {s->x,     s->dy,         s->y,   s->dx,   s->residual, s->dresidual,
                              s->saved, s->statistics, s->dgb, s->sums, s->slopes};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i].data);
    test_batch_free(&s->batch);
}

#define IN(...)  ((const ls_operand[LS_MAX_IN]){__VA_ARGS__})
#define OUT(...) ((const ls_operand[LS_MAX_OUT]){__VA_ARGS__})

static void run_as(const ls_backend *backend, const shard *s, ls_attributes how, const ls_operand in[LS_MAX_IN],
                   const ls_operand out[LS_MAX_OUT])
{
    how.eps = 1e-5f;
    ls_op_call call = {.attributes = &how, .samples = &s->batch.samples};
    memcpy(call.in, in, sizeof call.in);
    memcpy(call.out, out, sizeof call.out);
    test_run(backend, &call);
}

static void run(const ls_backend *backend, const shard *s, ls_op op, int fused, const ls_operand in[LS_MAX_IN],
                const ls_operand out[LS_MAX_OUT])
{
    run_as(backend, s, (ls_attributes){.op = op, .fused_relu = fused, .fused_add = fused}, in, out);
}

static void same(const char *what, const ls_backend *backend, const ls_operand *a, const ls_operand *b, int count)
{
    const size_t n = count ? test_lane_numbers(a, count) : test_numbers(a);
    for (size_t i = 0; i < n; i++)
        if (!test_same_bits(a->data[i], b->data[i]) &&
            (!count || (int)(i / LS_LANES / test_numbers(a) * LS_LANES + i % LS_LANES) < count))
            fail_msg("%s by %s: number %zu is %a, not %a", what, backend->name, i, (double)b->data[i],
                     (double)a->data[i]);
}

static void check_alone(const ls_backend *backend, int count, int fused)
{
    test_random random = {.state = (uint64_t)count};
    const ls_operand gamma = test_vector(&random, C), beta = test_vector(&random, C), none = {0};
    test_random again = random;
    shard whole = shard_new(&random, count, 3), parts = shard_new(&again, count, 3);
    const ls_operand add = fused ? whole.residual : none;
    run(backend, &whole, LS_OP_BATCH_NORM, fused, IN(whole.x, gamma, beta, add),
        OUT(whole.y, whole.saved, whole.statistics));
    run(backend, &whole, LS_OP_BATCH_NORM_BACKWARD, fused,
        IN(whole.dy, whole.x, gamma, whole.saved, fused ? whole.y : none),
        OUT(whole.dx, whole.dgb, fused ? whole.dresidual : none));
    run(backend, &parts, LS_OP_NORM_SUMS, fused, IN(parts.x), OUT(parts.sums));
    run(backend, &parts, LS_OP_NORM_APPLY, fused, IN(parts.x, gamma, beta, add, parts.sums),
        OUT(parts.y, parts.saved, parts.statistics));
    run(backend, &parts, LS_OP_NORM_SLOPES, fused, IN(parts.dy, parts.x, parts.saved, fused ? parts.y : none),
        OUT(parts.slopes, parts.dgb));
    run(backend, &parts, LS_OP_NORM_DATA, fused,
        IN(parts.dy, parts.x, gamma, parts.saved, fused ? parts.y : none, parts.slopes),
        OUT(parts.dx, fused ? parts.dresidual : none));
    same("y", backend, &whole.y, &parts.y, count);
    same("saved", backend, &whole.saved, &parts.saved, 0);
    same("statistics", backend, &whole.statistics, &parts.statistics, 0);
    same("dgb", backend, &whole.dgb, &parts.dgb, 0);
    same("dx", backend, &whole.dx, &parts.dx, count);
    if (fused)
        same("dresidual", backend, &whole.dresidual, &parts.dresidual, count);
    shard_free(&whole);
    shard_free(&parts);
    free(gamma.data);
    free(beta.data);
}

static void a_shard_alone_has_its_bits(void **state)
{
    (void)state;
    const ls_backend *backends[8];
    const int n = test_backends(backends);
    static const int counts[] = {1, 16, 21, 48};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int fused = 0; fused < 2; fused++) {
            check_alone(ls_backend_ref(), counts[i], fused);
            for (int k = 0; k < n; k++)
                check_alone(backends[k], counts[i], fused);
        }
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The edges of a clamp, of what a BatchNorm made of the first image of all groups: each is one of these numbers. */
static void set_edges(ls_attributes *how, const ls_operand *z)
{
    enum { N = C * H * W };
    float sorted[N];
    for (int i = 0; i < N; i++)
        sorted[i] = z->data[(size_t)i * LS_LANES];
    qsort(sorted, N, sizeof *sorted, by_value);
    how->low = sorted[N / 4];
    how->high = sorted[3 * N / 4];
}

/* Whether dy passed where the header says so, at the edges too, and elsewhere not. */
static void check_slopes(const ls_attributes *how, const ls_operand *z, const ls_operand *dy, const ls_operand *d)
{
    size_t passed = 0, stopped = 0, edges = 0;
    for (size_t i = 0; i < test_numbers(z) * LS_LANES; i += LS_LANES) {
        const float at = z->data[i];
        const bool passes = how->low <= at && at <= how->high;
        assert_true(d->data[i] == (passes ? dy->data[i] : 0));
        *(passes ? &passed : &stopped) += 1;
        edges += at == how->low || at == how->high;
    }
    assert_true(edges >= 2 && passed > stopped / 2 && stopped > passed / 2);
}

static void check_clamped(const ls_backend *backend, int count, bool infer)
{
    test_random random = {.state = (uint64_t)count};
    const ls_operand gamma = test_vector(&random, C), beta = test_vector(&random, C), none = {0};
    ls_operand running = test_vector(&random, (size_t)2 * C);
    for (int c = 0; c < C; c++)
        running.data[C + c] = 0.5f + fabsf(running.data[C + c]);
    shard apart = shard_new(&random, count, 3), joined = shard_new(&random, count, 3);
    const ls_op op = infer ? LS_OP_BATCH_NORM_INFER : LS_OP_BATCH_NORM;
    ls_operand z = like(&apart.x, count), d = like(&apart.x, count);
    run_as(backend, &apart, (ls_attributes){.op = op}, IN(apart.x, gamma, beta, none, infer ? running : none),
           OUT(z, apart.saved, apart.statistics));
    ls_attributes how = {.op = LS_OP_CLAMP};
    set_edges(&how, &z);
    run_as(backend, &apart, how, IN(z), OUT(apart.y));
    how.op = LS_OP_CLAMP_BACKWARD;
    run_as(backend, &apart, how, IN(apart.dy, z), OUT(d));
    how.op = op;
    how.fused_clamp = 1;
    run_as(backend, &apart, how, IN(apart.x, gamma, beta, none, infer ? running : none),
           OUT(joined.y, joined.saved, joined.statistics));
    same("y", backend, &apart.y, &joined.y, count);
    if (!infer) {
        same("saved", backend, &apart.saved, &joined.saved, 0);
        same("statistics", backend, &apart.statistics, &joined.statistics, 0);
        run_as(backend, &apart, (ls_attributes){.op = LS_OP_BATCH_NORM_BACKWARD}, IN(d, apart.x, gamma, apart.saved),
               OUT(apart.dx, apart.dgb));
        how.op = LS_OP_BATCH_NORM_BACKWARD;
        run_as(backend, &apart, how, IN(apart.dy, apart.x, gamma, apart.saved, none, beta), OUT(joined.dx, joined.dgb));
        same("dx", backend, &apart.dx, &joined.dx, count);
        same("dgb", backend, &apart.dgb, &joined.dgb, 0);
        check_slopes(&how, &z, &apart.dy, &d);
    }
    shard_free(&apart);
    shard_free(&joined);
    const ls_operand all[] = {gamma, beta, running, z, d};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i].data);
}

static void a_clamp_that_is_joined_has_its_bits(void **state)
{
    (void)state;
    const ls_backend *backends[8];
    const int n = test_backends(backends);
    static const int counts[] = {1, 16, 21, 48};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int infer = 0; infer < 2; infer++) {
            check_clamped(ls_backend_ref(), counts[i], infer);
            for (int k = 0; k < n; k++)
                check_clamped(backends[k], counts[i], infer);
        }
}

/* The sum of rows in the order of the tree. */
static void sum_rows(float *rows, int n, size_t floats, void (*merge)(float *, const float *, const float *, size_t))
{
    for (int gap = 1; gap < n; gap *= 2)
        for (int i = 0; i + gap < n; i += 2 * gap)
            merge(rows + (size_t)i * floats, rows + (size_t)i * floats, rows + (size_t)(i + gap) * floats, floats);
}

/* Of all images of all shards, where lane numbers hold one. */
static long double sum_over(const shard *shards, int n, int channel, long double mean, int power)
{
    long double sum = 0;
    for (int j = 0; j < n; j++)
        for (int image = 0; image < shards[j].batch.samples.count; image++)
            for (int place = 0; place < H * W; place++) {
                const int group = image / LS_LANES, lane = image % LS_LANES;
                const long double d =
                    shards[j].x.data[((group * C + channel) * H * W + place) * LS_LANES + lane] - mean;
                sum += power == 2 ? d * d : d;
            }
    return sum;
}

/* Sums of shards of which some are smaller, with a mean of so many deviations, beside long double. */
static void check_merged(int shards, int count, int last, float offset, double limit)
{
    test_random random = {.state = (uint64_t)(shards * 1000 + count)};
    const size_t floats = ls_norm_sums_floats(C);
    shard all[MOST];
    float *rows = test_floats((size_t)shards * floats);
    for (int j = 0; j < shards; j++) {
        all[j] = shard_new(&random, j == shards - 1 ? last : count, offset * (1 + 0.001f * (float)j));
        run(test_fastest(), &all[j], LS_OP_NORM_SUMS, 0, IN(all[j].x), OUT(all[j].sums));
        memcpy(rows + (size_t)j * floats, all[j].sums.data, floats * sizeof *rows);
    }
    sum_rows(rows, shards, floats, ls_norm_merge);
    const int images = (shards - 1) * count + last;
    assert_true(rows[LS_NORM_IMAGES] == (float)images && rows[LS_NORM_PLACES] == H * W);
    for (int c = 0; c < C; c++) {
        const long double n = (long double)images * H * W, mean = sum_over(all, shards, c, 0, 1) / n,
                          squares = sum_over(all, shards, c, mean, 2);
        const long double of_mean = fabsl((long double)rows[LS_NORM_FIRST + c] / n - mean) / sqrtl(squares / n),
                          of_squares = fabsl((long double)rows[LS_NORM_FIRST + C + c] - squares) / squares;
        if (of_squares > limit || of_mean > limit)
            fail_msg("%d shards of %d, offset %g: the mean is off by %Lg deviations, the squares by %Lg", shards, count,
                     (double)offset, of_mean, of_squares);
    }
    for (int j = 0; j < shards; j++)
        shard_free(&all[j]);
    free(rows);
}

static void sums_are_those_of_all_numbers(void **state)
{
    (void)state;
    check_merged(1, 48, 48, 1, 2e-6);
    check_merged(4, 16, 16, 1, 2e-6);
    check_merged(5, 32, 3, 10, 1e-5);
    check_merged(6, 17, 1, 100, 1e-4);
    check_merged(4, 48, 48, 1e4f, 2e-2); /* what the numbers themselves are rounded to is 1e-3 deviations */
}

/* dgamma and dbeta are sums, images too, places not. */
static void slopes_are_added(void **state)
{
    (void)state;
    float a[] = {64, 49, 1, 2}, b[] = {10, 49, 0.5f, -3};
    ls_norm_add(a, a, b, 4);
    assert_true(a[0] == 74 && a[1] == 49 && a[2] == 1.5f && a[3] == -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shard_alone_has_its_bits),
        cmocka_unit_test(a_clamp_that_is_joined_has_its_bits),
        cmocka_unit_test(sums_are_those_of_all_numbers),
        cmocka_unit_test(slopes_are_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
