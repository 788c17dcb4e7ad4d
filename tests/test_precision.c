/* One layer at a time, on the shapes of the two networks with 64 images, against plain double loops: the relative error
 * (the length of the difference over the length of the result) stays below 2e-6, with Winograd below 2e-5. It runs on
 * the fastest backend, whose bits are the reference's.
 *
 * A convolution's double loops take eight of its channels, first and last among them: each is computed alike. */
#include "support.h"

#include "device/winograd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 64, GROUPS = COUNT / LS_LANES, SAMPLED = 8 };

typedef struct layer {
    int c, h, w, o, kernel, stride, padding, in_out;
} layer;

static const layer layers[] = {
    /* LeNet */
    {1, 28, 28, 20, 3, 1, 0, 0},
    {20, 13, 13, 50, 5, 1, 0, 0},
    {20, 12, 12, 50, 5, 1, 2, 0}, /* not LeNet's, but likely: maps that stay as large, and many channels */
    {128, 14, 14, 96, 5, 1, 2, 0},
    {800, 1, 1, 128, 1, 1, 0, 1},
    {128, 1, 1, 10, 1, 1, 0, 1},
    /* ResNet-18 */
    {1, 28, 28, 64, 3, 1, 1, 0},
    {64, 28, 28, 64, 3, 1, 1, 0},
    {64, 28, 28, 128, 3, 2, 1, 0},
    {64, 28, 28, 128, 1, 2, 0, 0},
    {128, 14, 14, 128, 3, 1, 1, 0},
    {128, 14, 14, 256, 3, 2, 1, 0},
    {128, 14, 14, 256, 1, 2, 0, 0},
    {256, 7, 7, 256, 3, 1, 1, 0},
    {256, 7, 7, 512, 3, 2, 1, 0},
    {256, 7, 7, 512, 1, 2, 0, 0},
    {512, 4, 4, 512, 3, 1, 1, 0},
    {512, 1, 1, 10, 1, 1, 0, 0},
};
enum { LAYERS = sizeof layers / sizeof *layers };

static const ls_backend *backend;
static test_batch batch;

static void run(const ls_attributes *how, const ls_operand in[LS_MAX_IN], const ls_operand out[LS_MAX_OUT])
{
    ls_op_call call = {.attributes = how, .samples = &batch.samples};
    memcpy(call.in, in, sizeof call.in);
    memcpy(call.out, out, sizeof call.out);
    test_run(backend, &call);
}

#define IN(...)  ((ls_operand[LS_MAX_IN]){__VA_ARGS__})
#define OUT(...) ((ls_operand[LS_MAX_OUT]){__VA_ARGS__})

/* ---- Sums over a sample of an operation's output ---- */

typedef struct errors {
    double difference, norm;
} errors;

static void add_error(errors *sum, double got, double want)
{
    sum->difference += (got - want) * (got - want);
    sum->norm += want * want;
}

static int failures;

/* Says the figure; a miss fails the test at its end, after all figures are said. */
static void judge(const char *what, const layer *l, const errors *sum, double limit)
{
    double error = sqrt(sum->difference / sum->norm);
    int fine = error <= limit;
    print_message("%-22s %3dx%2dx%2d to %3d, %dx%d/%d: %.2e of %.0e%s\n", what, l->c, l->h, l->w, l->o, l->kernel,
                  l->kernel, l->stride, error, limit, fine ? "" : "  TOO MUCH");
    failures += !fine;
}

/* The i-th sampled channel of `n`. */
static int sampled(int i, int n)
{
    return n <= SAMPLED ? i : (int)((long)i * (n - 1) / (SAMPLED - 1));
}

static int samples_of(int n)
{
    return n < SAMPLED ? n : SAMPLED;
}

/* ---- Convolutions in double ---- */

typedef struct conv {
    const layer *l;
    ls_operand x, w, b, y, dy, dx, dw, db;
} conv;

static const float *at(const ls_operand *t, int group, int c, int row, int column)
{
    return t->data + ((((size_t)group * t->c + c) * t->h + row) * t->w + column) * LS_LANES;
}

static int inside(const ls_operand *t, int row, int column)
{
    return row >= 0 && row < t->h && column >= 0 && column < t->w;
}

static size_t weight_at(const layer *l, int o, int c, int ky, int kx)
{
    size_t pair = l->in_out ? (size_t)c * l->o + o : (size_t)o * l->c + c;
    return (pair * l->kernel + ky) * l->kernel + kx;
}

static void add_taps(double acc[LS_LANES], double weight, const float *tap)
{
    for (int lane = 0; lane < LS_LANES; lane++) {
        acc[lane] += weight * tap[lane];
    }
}

static void forward_at(const conv *v, int group, int o, int row, int column, double acc[LS_LANES])
{
    const layer *l = v->l;
    for (int lane = 0; lane < LS_LANES; lane++) {
        acc[lane] = v->b.data[o];
    }
    for (int i = 0; i < l->c * l->kernel * l->kernel; i++) {
        int c = i / l->kernel / l->kernel, ky = i / l->kernel % l->kernel, kx = i % l->kernel;
        int tap_row = row * l->stride - l->padding + ky, tap_column = column * l->stride - l->padding + kx;
        if (inside(&v->x, tap_row, tap_column)) {
            add_taps(acc, v->w.data[weight_at(l, o, c, ky, kx)], at(&v->x, group, c, tap_row, tap_column));
        }
    }
}

static void data_at(const conv *v, int group, int c, int row, int column, double acc[LS_LANES])
{
    const layer *l = v->l;
    memset(acc, 0, LS_LANES * sizeof *acc);
    for (int i = 0; i < l->o * l->kernel * l->kernel; i++) {
        int o = i / l->kernel / l->kernel, ky = i / l->kernel % l->kernel, kx = i % l->kernel;
        int down = row + l->padding - ky, right = column + l->padding - kx;
        if (down % l->stride == 0 && right % l->stride == 0 && inside(&v->dy, down / l->stride, right / l->stride)) {
            add_taps(acc, v->w.data[weight_at(l, o, c, ky, kx)],
                     at(&v->dy, group, o, down / l->stride, right / l->stride));
        }
    }
}

typedef void conv_at(const conv *v, int group, int channel, int row, int column, double acc[LS_LANES]);

static void judge_map(const char *what, const conv *v, const ls_operand *got, conv_at *truth, double limit)
{
    errors sum = {0, 0};
    for (int i = 0; i < samples_of(got->c) * GROUPS * got->h * got->w; i++) {
        int column = i % got->w, row = i / got->w % got->h, group = i / got->w / got->h % GROUPS;
        int channel = sampled(i / got->w / got->h / GROUPS, got->c);
        double acc[LS_LANES];
        truth(v, group, channel, row, column, acc);
        for (int lane = 0; lane < LS_LANES; lane++) {
            add_error(&sum, at(got, group, channel, row, column)[lane], acc[lane]);
        }
    }
    judge(what, v->l, &sum, limit);
}

static double weight_truth(const conv *v, int o, int c, int ky, int kx)
{
    const layer *l = v->l;
    double acc[LS_LANES] = {0}, sum = 0;
    for (int i = 0; i < GROUPS * v->dy.h * v->dy.w; i++) {
        int column = i % v->dy.w, row = i / v->dy.w % v->dy.h, group = i / v->dy.w / v->dy.h;
        int tap_row = row * l->stride - l->padding + ky, tap_column = column * l->stride - l->padding + kx;
        if (inside(&v->x, tap_row, tap_column)) {
            const float *tap = at(&v->x, group, c, tap_row, tap_column), *slope = at(&v->dy, group, o, row, column);
            for (int lane = 0; lane < LS_LANES; lane++) {
                acc[lane] += (double)slope[lane] * tap[lane];
            }
        }
    }
    for (int lane = 0; lane < LS_LANES; lane++) {
        sum += acc[lane];
    }
    return sum;
}

static void judge_weight(const char *what, const conv *v, double limit)
{
    errors sum = {0, 0};
    const layer *l = v->l;
    for (int i = 0; i < samples_of(l->o); i++) {
        int o = sampled(i, l->o);
        for (int j = 0; j < l->c * l->kernel * l->kernel; j++) {
            int c = j / l->kernel / l->kernel, ky = j / l->kernel % l->kernel, kx = j % l->kernel;
            add_error(&sum, v->dw.data[weight_at(l, o, c, ky, kx)], weight_truth(v, o, c, ky, kx));
        }
    }
    judge(what, l, &sum, limit);
}

static void judge_channel_sum(const conv *v)
{
    errors sum = {0, 0};
    for (int o = 0; o < v->l->o; o++) {
        double truth = 0;
        for (int group = 0; group < GROUPS; group++) {
            for (int i = 0; i < v->dy.h * v->dy.w * LS_LANES; i++) {
                truth += at(&v->dy, group, o, 0, 0)[i];
            }
        }
        add_error(&sum, v->db.data[o], truth);
    }
    judge("channel_sum", v->l, &sum, 2e-6);
}

/* ---- Convolutions ---- */

static conv conv_new(const layer *l, uint64_t seed)
{
    test_random random = {.state = seed};
    int h = test_windows(l->h, l->kernel, l->stride, l->padding),
        w = test_windows(l->w, l->kernel, l->stride, l->padding);
    size_t weights = (size_t)l->o * l->c * l->kernel * l->kernel;
    conv v = {.l = l};
    v.x = test_activation(&random, l->c, l->h, l->w, COUNT);
    for (size_t i = 0; i < test_lane_numbers(&v.x, COUNT); i++) {
        v.x.data[i] = v.x.data[i] > 0 ? v.x.data[i] : 0; /* as behind a relu */
    }
    v.w = test_vector(&random, weights);
    v.b = test_vector(&random, (size_t)l->o);
    v.dy = test_activation(&random, l->o, h, w, COUNT);
    v.y = test_activation(&random, l->o, h, w, COUNT);
    v.dx = test_activation(&random, l->c, l->h, l->w, COUNT);
    v.dw = test_vector(&random, weights);
    v.db = test_vector(&random, (size_t)l->o);
    return v;
}

static void conv_free(conv *v)
{
    ls_operand *all[] = {&v->x, &v->w, &v->b, &v->y, &v->dy, &v->dx, &v->dw, &v->db};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]->data);
    }
}

static void test_convolutions(void **state)
{
    (void)state;
    failures = 0;
    for (int i = 0; i < LAYERS; i++) {
        const layer *l = &layers[i];
        ls_attributes how = {
            .kernel = l->kernel, .stride = l->stride, .padding = l->padding, .weight_in_out = l->in_out};
        conv v = conv_new(l, (uint64_t)i);
        how.op = LS_OP_CONV;
        run(&how, IN(v.x, v.w, v.b), OUT(v.y));
        judge_map("conv", &v, &v.y, forward_at, 2e-6);
        how.op = LS_OP_CONV_DATA;
        run(&how, IN(v.dy, v.w), OUT(v.dx));
        judge_map("conv_data", &v, &v.dx, data_at, 2e-6);
        how.op = LS_OP_CONV_WEIGHT;
        run(&how, IN(v.x, v.dy), OUT(v.dw));
        judge_weight("conv_weight", &v, 2e-6);
        how.op = LS_OP_CHANNEL_SUM;
        run(&how, IN(v.dy), OUT(v.db));
        judge_channel_sum(&v);
        if (ls_winograd_defined(l->kernel, l->stride, l->padding)) {
            how.op = LS_OP_WINOGRAD;
            run(&how, IN(v.x, v.w, v.b), OUT(v.y));
            judge_map("winograd", &v, &v.y, forward_at, 2e-5);
            how.op = LS_OP_WINOGRAD_DATA;
            run(&how, IN(v.dy, v.w), OUT(v.dx));
            judge_map("winograd_data", &v, &v.dx, data_at, 2e-5);
            how.op = LS_OP_WINOGRAD_WEIGHT;
            run(&how, IN(v.x, v.dy), OUT(v.dw));
            judge_weight("winograd_weight", &v, 2e-5);
        }
        conv_free(&v);
    }
    assert_int_equal(failures, 0);
}

/* ---- BatchNorm ---- */

typedef struct norm {
    layer l;
    ls_operand x, gamma, beta, dy, y, saved, statistics, dx, dgb;
    double *y_truth, *dx_truth, *dgb_truth, *statistics_truth;
} norm;

/* Calls for every number of channel `c`, as an offset. */
static size_t place(const norm *n, int c, int i)
{
    int inner = n->l.h * n->l.w * LS_LANES;
    return ((size_t)(i / inner) * n->l.c + c) * inner + i % inner;
}

static void norm_truth(norm *n, int c, double eps)
{
    int total = COUNT * n->l.h * n->l.w;
    double mean = 0, squares = 0, dbeta = 0, dgamma = 0;
    for (int i = 0; i < total; i++) {
        mean += n->x.data[place(n, c, i)] / (double)total;
    }
    for (int i = 0; i < total; i++) {
        squares += pow(n->x.data[place(n, c, i)] - mean, 2);
    }
    double inv = 1 / sqrt(squares / total + eps), gamma = n->gamma.data[c];
    for (int i = 0; i < total; i++) {
        size_t k = place(n, c, i);
        double xhat = (n->x.data[k] - mean) * inv;
        n->y_truth[k] = xhat * gamma + n->beta.data[c];
        dbeta += n->dy.data[k];
        dgamma += n->dy.data[k] * xhat;
    }
    for (int i = 0; i < total; i++) {
        size_t k = place(n, c, i);
        double xhat = (n->x.data[k] - mean) * inv;
        n->dx_truth[k] = gamma * inv * (n->dy.data[k] - dbeta / total - xhat * dgamma / total);
    }
    n->statistics_truth[c] = mean;
    n->statistics_truth[n->l.c + c] = squares / (total - 1);
    n->dgb_truth[c] = dgamma;
    n->dgb_truth[n->l.c + c] = dbeta;
}

static void judge_whole(const char *what, const norm *n, const float *got, const double *want, size_t size)
{
    errors sum = {0, 0};
    for (size_t i = 0; i < size; i++) {
        add_error(&sum, got[i], want[i]);
    }
    judge(what, &n->l, &sum, 2e-6);
}

static norm norm_new(int c, int size, double mean, test_random *random)
{
    norm n = {.l = {.c = c, .h = size, .w = size, .o = c}};
    n.x = test_activation(random, c, size, size, COUNT);
    n.dy = test_activation(random, c, size, size, COUNT);
    n.y = test_activation(random, c, size, size, COUNT);
    n.dx = test_activation(random, c, size, size, COUNT);
    n.gamma = test_vector(random, (size_t)c);
    n.beta = test_vector(random, (size_t)c);
    n.saved = test_vector(random, 2 * (size_t)c);
    n.statistics = test_vector(random, 2 * (size_t)c);
    n.dgb = test_vector(random, 2 * (size_t)c);
    size_t numbers = test_lane_numbers(&n.x, COUNT);
    for (size_t i = 0; i < numbers; i++) {
        n.x.data[i] += (float)mean;
    }
    n.y_truth = test_doubles(numbers);
    n.dx_truth = test_doubles(numbers);
    n.dgb_truth = test_doubles(2 * (size_t)c);
    n.statistics_truth = test_doubles(2 * (size_t)c);
    return n;
}

static void norm_free(norm *n)
{
    ls_operand *all[] = {&n->x, &n->gamma, &n->beta, &n->dy, &n->y, &n->saved, &n->statistics, &n->dx, &n->dgb};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]->data);
    }
    free(n->y_truth);
    free(n->dx_truth);
    free(n->dgb_truth);
    free(n->statistics_truth);
}

static void test_batch_norm(void **state)
{
    (void)state;
    static const int shapes[][2] = {{64, 28}, {128, 14}, {256, 7}, {512, 4}};
    failures = 0;
    for (int i = 0; i < 8; i++) {
        test_random random = {.state = 50 + (uint64_t)i};
        norm n = norm_new(shapes[i % 4][0], shapes[i % 4][1], i / 4 * 0.7, &random);
        ls_attributes how = {.op = LS_OP_BATCH_NORM, .eps = 1e-5f};
        size_t numbers = test_lane_numbers(&n.x, COUNT);
        for (int c = 0; c < n.l.c; c++) {
            norm_truth(&n, c, how.eps);
        }
        run(&how, IN(n.x, n.gamma, n.beta), OUT(n.y, n.saved, n.statistics));
        how.op = LS_OP_BATCH_NORM_BACKWARD;
        run(&how, IN(n.dy, n.x, n.gamma, n.saved), OUT(n.dx, n.dgb));
        judge_whole("batch_norm", &n, n.y.data, n.y_truth, numbers);
        judge_whole("batch_norm statistics", &n, n.statistics.data, n.statistics_truth, 2 * (size_t)n.l.c);
        judge_whole("batch_norm_backward", &n, n.dx.data, n.dx_truth, numbers);
        judge_whole("dgamma, dbeta", &n, n.dgb.data, n.dgb_truth, 2 * (size_t)n.l.c);
        norm_free(&n);
    }
    assert_int_equal(failures, 0);
}

/* ---- Pools ---- */

static void judge_avg_pool(const layer *l, test_random *random)
{
    ls_attributes how = {.op = LS_OP_AVG_POOL, .kernel = 2, .stride = 2};
    ls_operand x = test_activation(random, l->c, l->h, l->w, COUNT);
    ls_operand y = test_activation(random, l->c, l->h / 2, l->w / 2, COUNT);
    errors forward = {0, 0}, backward = {0, 0};
    run(&how, IN(x), OUT(y));
    for (int i = 0; i < GROUPS * y.c * y.h * y.w * LS_LANES; i++) {
        int lane = i % LS_LANES, column = i / LS_LANES % y.w, row = i / LS_LANES / y.w % y.h;
        int c = i / LS_LANES / y.w / y.h; /* the group's channels follow one another */
        const float *first = at(&x, 0, c, 2 * row, 2 * column) + lane;
        const float *second = at(&x, 0, c, 2 * row + 1, 2 * column) + lane;
        add_error(&forward, y.data[i], ((double)first[0] + first[LS_LANES] + second[0] + second[LS_LANES]) / 4);
    }
    how.op = LS_OP_AVG_POOL_BACKWARD;
    run(&how, IN(y), OUT(x)); /* y stands for dy */
    for (int i = 0; i < GROUPS * x.c * x.h * x.w * LS_LANES; i++) {
        int lane = i % LS_LANES, column = i / LS_LANES % x.w, row = i / LS_LANES / x.w % x.h;
        int c = i / LS_LANES / x.w / x.h;
        int covered = row / 2 < y.h && column / 2 < y.w;
        add_error(&backward, x.data[i], covered ? at(&y, 0, c, row / 2, column / 2)[lane] / 4.0 : 0);
    }
    judge("avg_pool", l, &forward, 2e-6);
    judge("avg_pool_backward", l, &backward, 2e-6);
    free(x.data);
    free(y.data);
}

static void judge_global_avg_pool(const layer *l, test_random *random)
{
    ls_attributes how = {.op = LS_OP_GLOBAL_AVG_POOL};
    ls_operand x = test_activation(random, l->c, l->h, l->w, COUNT), y = test_activation(random, l->c, 1, 1, COUNT);
    errors forward = {0, 0}, backward = {0, 0};
    int places = l->h * l->w;
    run(&how, IN(x), OUT(y));
    for (int i = 0; i < GROUPS * l->c * LS_LANES; i++) {
        double sum = 0;
        for (int j = 0; j < places; j++) {
            sum += x.data[(i / LS_LANES * places + j) * LS_LANES + i % LS_LANES];
        }
        add_error(&forward, y.data[i], sum / places);
    }
    how.op = LS_OP_GLOBAL_AVG_POOL_BACKWARD;
    run(&how, IN(y), OUT(x));
    for (int i = 0; i < GROUPS * l->c * places * LS_LANES; i++) {
        add_error(&backward, x.data[i], (double)y.data[i / LS_LANES / places * LS_LANES + i % LS_LANES] / places);
    }
    judge("global_avg_pool", l, &forward, 2e-6);
    judge("global_avg_pool_backward", l, &backward, 2e-6);
    free(x.data);
    free(y.data);
}

static void test_pools(void **state)
{
    (void)state;
    test_random random = {.state = 70};
    failures = 0;
    judge_avg_pool(&(layer){20, 26, 26, 20, 2, 2, 0, 0}, &random);
    judge_avg_pool(&(layer){50, 9, 9, 50, 2, 2, 0, 0}, &random);
    judge_global_avg_pool(&(layer){512, 4, 4, 512, 4, 1, 0, 0}, &random);
    assert_int_equal(failures, 0);
}

/* ---- Loss ---- */

static void judge_cross_entropy(float smoothing, test_random *random)
{
    ls_attributes how = {.op = LS_OP_CROSS_ENTROPY, .smoothing = smoothing};
    layer l = {.c = 10, .h = 1, .w = 1, .o = 1};
    ls_operand z = test_activation(random, 10, 1, 1, COUNT), p = test_activation(random, 10, 1, 1, COUNT);
    ls_operand dz = test_activation(random, 10, 1, 1, COUNT), loss = test_activation(random, 1, 1, 1, COUNT);
    ls_operand dloss = test_activation(random, 1, 1, 1, COUNT);
    errors losses = {0, 0}, slopes = {0, 0};
    run(&how, IN(z), OUT(loss, p));
    how.op = LS_OP_CROSS_ENTROPY_BACKWARD;
    run(&how, IN(dloss, p), OUT(dz));
    for (int i = 0; i < COUNT; i++) {
        const float *logits = at(&z, i / LS_LANES, 0, 0, 0) + i % LS_LANES;
        int label = batch.labels[i];
        double sum = 0, mean = 0;
        for (int c = 0; c < 10; c++) {
            sum += exp(logits[c * LS_LANES]);
            mean += logits[c * LS_LANES] / 10;
        }
        add_error(&losses, loss.data[i], log(sum) - (1.0 - smoothing) * logits[label * LS_LANES] - smoothing * mean);
        for (int c = 0; c < 10; c++) {
            double want =
                (exp(logits[c * LS_LANES]) / sum - (1.0 - smoothing) * (c == label) - smoothing / 10.0) * dloss.data[i];
            add_error(&slopes, at(&dz, i / LS_LANES, c, 0, 0)[i % LS_LANES], want);
        }
    }
    judge("cross_entropy", &l, &losses, 2e-6);
    judge("cross_entropy_backward", &l, &slopes, 2e-6);
    free(z.data);
    free(p.data);
    free(dz.data);
    free(loss.data);
    free(dloss.data);
}

static void test_cross_entropy(void **state)
{
    (void)state;
    test_random random = {.state = 90};
    failures = 0;
    judge_cross_entropy(0, &random);
    judge_cross_entropy(0.1f, &random);
    judge_cross_entropy(1, &random);
    assert_int_equal(failures, 0);
}

/* ---- Over the numbers of an image ---- */

/* Number i of image `image`. */
static double number_of(const ls_operand *t, int image, int i)
{
    return at(t, image / LS_LANES, 0, 0, 0)[(size_t)i * LS_LANES + image % LS_LANES];
}

static void judge_sums(const layer *l, test_random *random)
{
    int n = l->c * l->h * l->w;
    ls_attributes how = {.op = LS_OP_SUM, .factor = 1.0f / (float)n};
    ls_operand a = test_activation(random, l->c, l->h, l->w, COUNT),
               b = test_activation(random, l->c, l->h, l->w, COUNT);
    ls_operand mean = test_activation(random, 1, 1, 1, COUNT), error = test_activation(random, 1, 1, 1, COUNT);
    ls_operand da = test_activation(random, l->c, l->h, l->w, COUNT);
    errors means = {0, 0}, squares = {0, 0}, slopes = {0, 0};
    run(&how, IN(a), OUT(mean));
    how.op = LS_OP_SQUARED_ERROR;
    run(&how, IN(a, b), OUT(error));
    how.op = LS_OP_SQUARED_ERROR_BACKWARD;
    run(&how, IN(error, a, b), OUT(da)); /* `error` stands for its own slope */
    for (int image = 0; image < COUNT; image++) {
        double sum = 0, squared = 0;
        for (int i = 0; i < n; i++) {
            double d = number_of(&a, image, i) - number_of(&b, image, i);
            sum += number_of(&a, image, i);
            squared += d * d;
            add_error(&slopes, number_of(&da, image, i), 2 * d / n * number_of(&error, image, 0));
        }
        add_error(&means, number_of(&mean, image, 0), sum / n);
        add_error(&squares, number_of(&error, image, 0), squared / n);
    }
    judge("mean", l, &means, 2e-6);
    judge("squared_error", l, &squares, 2e-6);
    judge("squared_error_backward", l, &slopes, 2e-6);
    free(a.data);
    free(b.data);
    free(mean.data);
    free(error.data);
    free(da.data);
}

static void judge_softmax(const layer *l, test_random *random)
{
    ls_attributes how = {.op = LS_OP_SOFTMAX};
    ls_operand x = test_activation(random, l->c, 1, 1, COUNT), y = test_activation(random, l->c, 1, 1, COUNT);
    ls_operand dy = test_activation(random, l->c, 1, 1, COUNT), dx = test_activation(random, l->c, 1, 1, COUNT);
    errors shares = {0, 0}, slopes = {0, 0};
    run(&how, IN(x), OUT(y));
    how.op = LS_OP_SOFTMAX_BACKWARD;
    run(&how, IN(dy, y), OUT(dx));
    for (int image = 0; image < COUNT; image++) {
        double sum = 0, s = 0;
        for (int c = 0; c < l->c; c++) {
            sum += exp(number_of(&x, image, c));
            s += exp(number_of(&x, image, c)) * number_of(&dy, image, c);
        }
        for (int c = 0; c < l->c; c++) {
            double share = exp(number_of(&x, image, c)) / sum;
            add_error(&shares, number_of(&y, image, c), share);
            add_error(&slopes, number_of(&dx, image, c), share * (number_of(&dy, image, c) - s / sum));
        }
    }
    judge("softmax", l, &shares, 2e-6);
    judge("softmax_backward", l, &slopes, 2e-6);
    free(x.data);
    free(y.data);
    free(dy.data);
    free(dx.data);
}

static void test_images(void **state)
{
    (void)state;
    test_random random = {.state = 110};
    failures = 0;
    judge_sums(&(layer){64, 28, 28, 1, 0, 0, 0, 0}, &random);
    judge_sums(&(layer){10, 1, 1, 1, 0, 0, 0, 0}, &random);
    judge_softmax(&(layer){10, 1, 1, 10, 0, 0, 0, 0}, &random);
    judge_softmax(&(layer){1000, 1, 1, 1000, 0, 0, 0, 0}, &random);
    assert_int_equal(failures, 0);
}

int main(void)
{
    backend = test_fastest();
    batch = test_batch_new(COUNT, 1, 10);
    print_message("backend: %s\n", backend->name);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolutions),  cmocka_unit_test(test_batch_norm), cmocka_unit_test(test_pools),
        cmocka_unit_test(test_cross_entropy), cmocka_unit_test(test_images),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_batch_free(&batch);
    return failed;
}
