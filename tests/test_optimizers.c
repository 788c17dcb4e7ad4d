/* Twenty steps of every optimizer and schedule against PyTorch's in float64 (tests/reference/make_optimizers.py, which
 * says what is trained). The largest difference may be twice that of PyTorch's own float32 run, and is never asked to
 * be below 4e-7 of the largest weight. And the formulas of the header, each step by itself, where what is small in them
 * counts: eps, the 1e-6 of clipping, the moments' beginning, the first and last steps of a schedule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>

#include <jansson.h>
#include <lockstep_train.h>
#include "base/random.h"
#include "optim/schedule.h"
#include "training.h"

enum { ROWS = 60, HEIGHT = 3, WIDTH = 4, INPUTS = HEIGHT * WIDTH, CLASSES = 5, BATCH = 20, STEPS = 20 };

static double number_at(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key)); /* 0 where there is none */
}

static int choice_at(const json_t *object, const char *key, const char *const names[])
{
    const char *name = json_string_value(json_object_get(object, key));
    int i = 0;
    while (names[i] && strcmp(names[i], name) != 0)
        i++;
    assert_non_null(names[i]);
    return i;
}

static ls_optim optim_of(const json_t *figures)
{
    /* A warm-up's schedule is constant behind it. */
    static const char *const schedules[] = {"constant",  "step",          "cosine", "linear", "exponential",
                                            "one_cycle", "warm_restarts", "warmup", NULL};
    int schedule = choice_at(figures, "schedule", schedules);
    const json_t *betas = json_object_get(figures, "betas");
    return (ls_optim){.lr = number_at(figures, "lr"),
                      .momentum = number_at(figures, "momentum"),
                      .weight_decay = number_at(figures, "weight_decay"),
                      .nesterov = json_is_true(json_object_get(figures, "nesterov")),
                      .schedule = schedule == 7 ? LS_CONSTANT : (ls_schedule)schedule,
                      .warmup = (int64_t)number_at(figures, "warmup"),
                      .total = (int64_t)number_at(figures, "total"),
                      .beta1 = json_number_value(json_array_get(betas, 0)),
                      .beta2 = json_number_value(json_array_get(betas, 1)),
                      .eps = number_at(figures, "eps"),
                      .clip_norm = number_at(figures, "clip_norm"),
                      .full_batch = (int64_t)number_at(figures, "full_batch"),
                      .start_factor = number_at(figures, "start_factor"),
                      .end_factor = number_at(figures, "end_factor"),
                      .gamma = number_at(figures, "gamma"),
                      .period = (int64_t)number_at(figures, "period"),
                      .period_factor = (int)number_at(figures, "period_factor")};
}

static void start_at(ls_module *net, const char *name, const json_t *list)
{
    float values[INPUTS * CLASSES];
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++)
        values[i] = (float)json_number_value(json_array_get(list, i));
    assert_int_equal(ls_module_write_parameter(net, name, values, (int64_t)n), LS_OK);
}

/* The largest difference, and the largest number that was to be there. */
static void compare(ls_module *net, const char *name, const json_t *list, double *off, double *largest)
{
    float values[INPUTS * CLASSES];
    size_t n = json_array_size(list);
    assert_int_equal(ls_module_read_parameter(net, name, values, (int64_t)n), LS_OK);
    for (size_t i = 0; i < n; i++) {
        double wanted = json_number_value(json_array_get(list, i));
        *off = fmax(*off, fabs(values[i] - wanted));
        *largest = fmax(*largest, fabs(wanted));
    }
}

static void run_case(const json_t *start, const json_t *figures)
{
    static const char *const optimizers[] = {"SGD", "Adam", "AdamW", NULL};
    uint8_t images[ROWS * INPUTS], labels[ROWS];
    test_make_images(images, sizeof images, labels, ROWS, CLASSES);
    ls_session *s = ls_open(&(ls_options){.shard = 8});
    const int batch_given = (int)number_at(figures, "batch");
    ls_data *data = ls_data_from_memory(s, images, labels, ROWS, 1, HEIGHT, WIDTH, CLASSES,
                                        &(ls_loader){.batch = batch_given ? batch_given : BATCH});
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), ls_nn_linear(s, CLASSES)));
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0-1"), &(ls_init){.like = data});
    start_at(net, "1.weight", json_object_get(start, "weight"));
    start_at(net, "1.bias", json_object_get(start, "bias"));
    ls_optim optim = optim_of(figures);
    ls_trainer *trainer = ls_trainer_new(net, (ls_optimizer)choice_at(figures, "optimizer", optimizers), &optim);
    const json_t *losses = json_object_get(figures, "losses"), *norms = json_object_get(figures, "norms"),
                 *rates = json_object_get(figures, "rates");
    double smoothing = number_at(figures, "label_smoothing"), worst = 0, off = 0, largest = 0;
    ls_batch batch;
    ls_report report;
    for (int k = 0; k < STEPS; k++) {
        if (!test_next(data, &batch))
            fail_msg("%s: %s", json_string_value(json_object_get(figures, "name")), ls_message(s));
        const double rate = json_number_value(json_array_get(rates, (size_t)k));
        if (!(fabs(ls_trainer_lr(trainer) - rate) <= 1e-14 * optim.lr))
            fail_msg("%s: the rate of step %d is %.17g and not %.17g",
                     json_string_value(json_object_get(figures, "name")), k, ls_trainer_lr(trainer), rate);
        ls_backward(ls_cross_entropy_smooth(ls_module_forward(net, batch.X), batch.y, smoothing));
        assert_int_equal(ls_trainer_step(trainer), LS_OK);
    }
    assert_int_equal(ls_wait(s), LS_OK);
    for (size_t k = 0; k < STEPS; k++) {
        assert_true(ls_trainer_next_report(trainer, &report));
        worst = fmax(worst, fabs(report.loss - json_number_value(json_array_get(losses, k))));
        if (norms)
            worst = fmax(worst, fabs(report.norm - json_number_value(json_array_get(norms, k))));
    }
    compare(net, "1.weight", json_object_get(figures, "weight"), &off, &largest);
    compare(net, "1.bias", json_object_get(figures, "bias"), &off, &largest);
    double allowed = fmax(2 * number_at(figures, "float32_yardstick"), 4e-7);
    print_message("%s: off by %.2g of the largest weight, %.2g allowed; losses by %.2g\n",
                  json_string_value(json_object_get(figures, "name")), off / largest, allowed, worst);
    assert_true(off / largest <= allowed);
    assert_true(worst <= 2e-7);
    assert_int_equal(ls_close(s), LS_OK);
}

static void as_in_pytorch(void **state)
{
    (void)state;
    json_error_t error;
    json_t *whole = json_load_file(REFERENCE "/optimizers.json", 0, &error);
    assert_non_null(whole);
    size_t i;
    const json_t *figures, *cases = json_object_get(whole, "cases");
    assert_int_equal(json_array_size(cases), 32);
    json_array_foreach(cases, i, figures) run_case(json_object_get(whole, "start"), figures);
    json_decref(whole);
}

/* ---- Step by step ---- */

enum { WEIGHTS = CLASSES * INPUTS, NUMBERS = WEIGHTS + CLASSES, SHORT = 7 };

/* What an optimizer knows, in double: weights, then biases. */
typedef struct kept {
    double w[NUMBERS], m[NUMBERS], v[NUMBERS];
} kept;

/* Of step k, from 0. */
static double rate_of(const ls_optim *o, int k)
{
    const double share = o->total ? (double)k / (double)o->total : 0;
    if (k < o->warmup)
        return o->lr * (k + 1) / (double)o->warmup;
    if (o->schedule == LS_STEP_SCHEDULE)
        return share >= 0.75 ? o->lr / 100 : share >= 0.5 ? o->lr / 10 : o->lr;
    if (o->schedule == LS_COSINE)
        return share < 1 ? o->lr * (1 + cos(acos(-1) * share)) / 2 : 0;
    return o->lr;
}

/* The header's formulas; `g` is the gradient's mean, clipped. */
static void update(kept *now, ls_optimizer kind, const ls_optim *o, double lr, int k, const double g[])
{
    const double t = k + 1;
    const double beta1 = o->beta1 > 0 ? o->beta1 : 0.9, beta2 = o->beta2 > 0 ? o->beta2 : 0.999;
    const double eps = o->eps > 0 ? o->eps : 1e-8;
    for (int i = 0; i < NUMBERS; i++) {
        double *w = &now->w[i], *m = &now->m[i], *v = &now->v[i];
        const double d = g[i] + (kind == LS_ADAMW ? 0 : o->weight_decay * *w);
        if (kind == LS_SGD) {
            *v = k > 0 ? o->momentum * *v + d : d;
            *w -= lr * (o->nesterov ? d + o->momentum * *v : *v);
            continue;
        }
        *m = beta1 * *m + (1 - beta1) * d;
        *v = beta2 * *v + (1 - beta2) * d * d;
        if (kind == LS_ADAMW)
            *w -= lr * o->weight_decay * *w;
        *w -= lr * (*m / (1 - pow(beta1, t))) / (sqrt(*v / (1 - pow(beta2, t))) + eps);
    }
}

static void read_both(ls_module *net, double numbers[], bool gradient)
{
    float weight[WEIGHTS], bias[CLASSES];
    if (gradient) {
        assert_int_equal(test_read_gradient(net, "1.weight", weight, WEIGHTS), LS_OK);
        assert_int_equal(test_read_gradient(net, "1.bias", bias, CLASSES), LS_OK);
    } else {
        assert_int_equal(ls_module_read_parameter(net, "1.weight", weight, WEIGHTS), LS_OK);
        assert_int_equal(ls_module_read_parameter(net, "1.bias", bias, CLASSES), LS_OK);
    }
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = i < WEIGHTS ? weight[i] : bias[i - WEIGHTS];
}

/* The sums over the images to means, clipped as PyTorch's clip_grad_norm_ does. Returns the norm before, 0 where it is
 * not asked for. */
static double take_mean(double g[], const ls_optim *o, int rows)
{
    double square = 0;
    for (int i = 0; i < NUMBERS; i++) {
        g[i] /= o->full_batch ? (double)o->full_batch : rows;
        square += g[i] * g[i];
    }
    const double norm = sqrt(square), factor = o->clip_norm > 0 ? fmin(1, o->clip_norm / (norm + 1e-6)) : 1;
    for (int i = 0; i < NUMBERS; i++)
        g[i] *= factor;
    return o->clip_norm > 0 ? norm : 0;
}

/* A full batch of a million makes gradients small: their norms are 4.1e-6 to 4.9e-6. */
enum { SMALL = 1000000 };
static const struct formula {
    ls_optimizer kind;
    ls_optim o;
} formulas[] = {
    {LS_SGD, {.lr = 1}},
    {LS_SGD, {.lr = 1, .momentum = 0.7, .weight_decay = 0.3}},
    {LS_SGD, {.lr = 1, .momentum = 0.7, .weight_decay = 0.3, .nesterov = true}},
    {LS_SGD, {.lr = 1e4, .full_batch = SMALL, .clip_norm = 1e-3}}, /* never clipped */
    {LS_SGD, {.lr = 1e4, .full_batch = SMALL, .clip_norm = 5e-6}}, /* between the norm and what is added to it */
    {LS_SGD, {.lr = 1e4, .full_batch = SMALL, .clip_norm = 1e-6, .momentum = 0.5, .weight_decay = 1e-6}},
    {LS_ADAM, {.lr = 0.01, .full_batch = SMALL}},
    {LS_ADAM, {.lr = 0.01, .full_batch = SMALL, .clip_norm = 1e-7, .weight_decay = 1e-7}},
    {LS_ADAM, {.lr = 0.01, .beta1 = 0.5, .beta2 = 0.8, .eps = 0.1, .weight_decay = 0.2}},
    {LS_ADAMW, {.lr = 0.01, .full_batch = SMALL, .weight_decay = 3}},
    {LS_ADAMW, {.lr = 0.01, .eps = 0.01, .clip_norm = 0.1, .weight_decay = 3}},
    {LS_SGD, {.lr = 1, .schedule = LS_STEP_SCHEDULE, .total = SHORT}},
    {LS_SGD, {.lr = 1, .schedule = LS_STEP_SCHEDULE, .total = 4, .warmup = 1}},
    {LS_SGD, {.lr = 1, .schedule = LS_COSINE, .total = SHORT - 1, .warmup = 2}},
    {LS_ADAMW, {.lr = 0.01, .schedule = LS_COSINE, .total = 2 * SHORT, .weight_decay = 3}},
    {LS_ADAM, {.lr = 0.01, .schedule = LS_STEP_SCHEDULE, .total = SHORT, .warmup = 3}},
    {LS_SGD, {.lr = 1, .warmup = SHORT + 1}},
};
/* With a rate that is set from step 3 on. */
static const struct set {
    struct formula from;
    double lr;
} sets[] = {{{LS_SGD, {.lr = 1, .momentum = 0.7, .weight_decay = 0.3}}, 0.25},
            {{LS_SGD, {.lr = 1, .schedule = LS_COSINE, .total = SHORT, .warmup = 5}}, 0.125},
            {{LS_ADAMW, {.lr = 0.01, .schedule = LS_STEP_SCHEDULE, .total = SHORT, .weight_decay = 3}}, 0.05}};
/* As which it goes on, with the moments that it has. */
static const struct changed {
    struct formula from;
    ls_optim to;
} changes[] = {{{LS_SGD, {.lr = 1, .momentum = 0.7, .weight_decay = 0.3}},
                {.lr = 0.5, .momentum = 0.9, .nesterov = true, .schedule = LS_COSINE, .total = SHORT}},
               {{LS_ADAM, {.lr = 0.01, .clip_norm = 0.5}},
                {.lr = 0.05, .beta1 = 0.5, .eps = 1e-3, .clip_norm = 0.125, .weight_decay = 0.5}}};

/* What a step is to report of its images, by the logits of the weights that it begins with. */
static ls_report judge(ls_module *net, const ls_batch *b)
{
    float logits[ROWS * CLASSES], labels[ROWS];
    ls_report r = {.rows = (int)ls_rows(b->y)};
    assert_int_equal(ls_read(ls_module_infer(net, b->X), logits, r.rows * CLASSES), LS_OK);
    assert_int_equal(ls_read(b->y, labels, r.rows), LS_OK);
    for (int i = 0; i < r.rows; i++) {
        const float *row = logits + i * CLASSES;
        double sum = 0;
        int best = 0;
        for (int c = 0; c < CLASSES; c++) {
            sum += exp(row[c]);
            best = row[c] > row[best] ? c : best;
        }
        r.loss += (log(sum) - row[(int)labels[i]]) / r.rows;
        r.correct += best == (int)labels[i];
    }
    return r;
}

static void run_formula(int number, const struct formula *f, double set, const ls_optim *to)
{
    uint8_t images[ROWS * INPUTS], labels[ROWS];
    kept now = {{0}, {0}, {0}};
    double g[NUMBERS], got[NUMBERS];
    ls_optim o = f->o;
    test_make_images(images, sizeof images, labels, ROWS, CLASSES);
    ls_session *s = ls_open(&(ls_options){.shard = 8});
    ls_data *data = ls_data_from_memory(s, images, labels, ROWS, 1, HEIGHT, WIDTH, CLASSES, &(ls_loader){.batch = 24});
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), ls_nn_linear(s, CLASSES)));
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, f->kind, &f->o);
    read_both(net, now.w, false);
    ls_batch batch;
    ls_report report;
    for (int k = 0; k < SHORT; k++) {
        if (!test_next(data, &batch))
            fail_msg("formula %d: %s", number, ls_message(s));
        const ls_report wanted = judge(net, &batch);
        ls_backward(test_losses(net, &batch));
        read_both(net, g, true);
        if (k == 3 && to) {
            o = *to;
            assert_int_equal(ls_trainer_set_options(trainer, to), LS_OK);
        }
        const double norm = take_mean(g, &o, (int)ls_rows(batch.y));
        kept before = now;
        if (k == 3 && set > 0)
            assert_int_equal(ls_trainer_set_lr(trainer, o.lr = set), LS_OK);
        update(&now, f->kind, &o, rate_of(&o, k), k, g);
        assert_true(fabs(ls_trainer_lr(trainer) - rate_of(&o, k)) <= 1e-15 * o.lr);
        assert_int_equal(ls_trainer_step(trainer), LS_OK);
        read_both(net, got, false);
        assert_true(ls_trainer_next_report(trainer, &report) && fabs(report.norm - norm) <= 1e-12 * norm);
        assert_true(report.step == k + 1 && report.rows == wanted.rows && report.correct == wanted.correct);
        assert_true(fabs(report.loss - wanted.loss) <= 1e-6 * (1 + wanted.loss));
        for (int i = 0; i < NUMBERS; i++) {
            if (fabs(got[i] - now.w[i]) > 2e-6 * fabs(now.w[i] - before.w[i]) + 1.2e-7 * fabs(now.w[i]))
                fail_msg("formula %d, step %d, number %d: from %.9g to %.9g, wanted %.9g", number, k, i, before.w[i],
                         got[i], now.w[i]);
            now.w[i] = got[i]; /* the next step by itself */
        }
    }
    assert_int_equal(ls_close(s), LS_OK);
}

static void each_step_is_the_headers_formula(void **state)
{
    (void)state;
    for (int i = 0; i < (int)(sizeof formulas / sizeof *formulas); i++)
        run_formula(i, &formulas[i], 0, NULL);
    for (int i = 0; i < (int)(sizeof sets / sizeof *sets); i++)
        run_formula(i, &sets[i].from, sets[i].lr, NULL);
    for (int i = 0; i < (int)(sizeof changes / sizeof *changes); i++)
        run_formula(i, &changes[i].from, 0, &changes[i].to);
}

/* Moments that an update which was not finite may have half changed: the next one begins as a new trainer's first does,
 * also where its gradient was read before. */
static void after_a_failed_update_moments_begin_anew(void **state)
{
    (void)state;
    uint8_t images[ROWS * INPUTS], labels[ROWS];
    test_make_images(images, sizeof images, labels, ROWS, CLASSES);
    for (int kind = LS_SGD; kind <= LS_ADAMW; kind++) {
        double got[2][NUMBERS];
        for (int anew = 0; anew < 2; anew++) {
            /* The decay takes a tenth of each weight, until the rate is huge. */
            const ls_optim o = {.lr = 1e-10, .weight_decay = 1e9, .momentum = kind == LS_SGD ? 0.9 : 0};
            float weight[WEIGHTS], gradient[CLASSES];
            int done = 0;
            ls_session *s = ls_open(NULL);
            ls_data *data =
                ls_data_from_memory(s, images, labels, ROWS, 1, HEIGHT, WIDTH, CLASSES, &(ls_loader){.batch = ROWS});
            ls_module *net = ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), ls_nn_linear(s, CLASSES)));
            ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.kind = LS_XAVIER, .like = data});
            ls_module_read_parameter(net, "1.weight", weight, WEIGHTS);
            int scope = ls_enter(s);
            ls_trainer *trainer = ls_trainer_new(net, (ls_optimizer)kind, &o);
            assert_int_equal(test_train(s, net, trainer, data, &done, 3), LS_OK);
            ls_trainer_set_lr(trainer, 9e29);
            while (test_train(s, net, trainer, data, &done, done + 1) == LS_OK && ls_wait(s) == LS_OK)
                assert_true(done < 10);
            assert_true(ls_catch(s, LS_NOT_FINITE));
            if (anew) {
                ls_leave(s, scope);
                scope = ls_enter(s);
                trainer = ls_trainer_new(net, (ls_optimizer)kind, &o);
            }
            assert_int_equal(ls_trainer_set_lr(trainer, o.lr), LS_OK);
            assert_int_equal(ls_module_write_parameter(net, "1.weight", weight, WEIGHTS), LS_OK);
            assert_int_equal(ls_module_write_parameter(net, "1.bias", weight, CLASSES), LS_OK);
            ls_batch b;
            assert_true(test_next(data, &b));
            ls_backward(test_losses(net, &b));
            if (!anew)
                assert_int_equal(test_read_gradient(net, "1.bias", gradient, CLASSES), LS_OK);
            assert_int_equal(ls_trainer_step(trainer), LS_OK);
            read_both(net, got[anew], false);
            ls_leave(s, scope);
            assert_int_equal(ls_close(s), LS_OK);
        }
        assert_memory_equal(got[0], got[1], sizeof got[0]);
    }
}

/* 1024 wait; of those before, nothing is left. */
static void the_oldest_reports_are_dropped(void **state)
{
    (void)state;
    enum { WAIT = 1024, DONE = WAIT + 7 };
    static const uint8_t images[2] = {3, 200}, labels[2] = {0, 1};
    ls_session *s = ls_open(NULL);
    ls_data *data = ls_data_from_memory(s, images, labels, 2, 1, 1, 1, 2, &(ls_loader){.batch = 2});
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), ls_nn_linear(s, 2)));
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    ls_report report;
    int done = 0;
    for (int step = 1; step <= 2; step++) {
        assert_int_equal(test_train(s, net, trainer, data, &done, 3), LS_OK);
        assert_int_equal(ls_wait(s), LS_OK);
        assert_true(ls_trainer_next_report(trainer, &report) && report.step == step);
    }
    assert_int_equal(ls_trainer_reports_lost(trainer), 0);
    assert_int_equal(test_train(s, net, trainer, data, &done, DONE), LS_OK);
    assert_int_equal(ls_wait(s), LS_OK);
    for (int step = DONE - WAIT + 1; step <= DONE; step++)
        assert_true(ls_trainer_next_report(trainer, &report) && report.step == step);
    assert_false(ls_trainer_next_report(trainer, &report));
    assert_int_equal(ls_trainer_reports_lost(trainer), DONE - 2 - WAIT);
    assert_int_equal(ls_trainer_reports_lost(NULL), 0);
    assert_int_equal(ls_close(s), LS_OK);
}

/* ---- Rates ---- */

static void options_that_cannot_change(void **state)
{
    (void)state;
    static const struct {
        ls_optim o;
        const char *says;
    } refused[] = {{{.lr = 1, .momentum = 0.5, .clip_norm = 1, .ema = 0.5}, NULL},
                   {{.lr = 1, .clip_norm = 1, .ema = 0.5}, "a momentum can neither begin nor end"},
                   {{.lr = 1, .momentum = 0.5, .ema = 0.5}, "a clip_norm can neither begin nor end"},
                   {{.lr = 1, .momentum = 0.5, .clip_norm = 1}, "an ema can neither begin nor end"},
                   {{.lr = -1, .momentum = 0.5, .clip_norm = 1, .ema = 0.5}, "lr must be at least 0"},
                   {{.lr = 1, .momentum = 0.5, .clip_norm = 1, .ema = 0.5, .beta1 = 0.5}, "are Adam's"}};
    ls_session *s = ls_open(NULL);
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), ls_nn_linear(s, CLASSES)));
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &refused[0].o);
    assert_int_equal(ls_trainer_set_options(NULL, &refused[0].o), LS_BAD_ARGUMENT);
    assert_int_equal(ls_trainer_set_options(trainer, NULL), LS_BAD_ARGUMENT);
    assert_true(ls_catch(s, LS_BAD_ARGUMENT));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const ls_status status = ls_trainer_set_options(trainer, &refused[i].o);
        assert_int_equal(status, refused[i].says ? LS_BAD_ARGUMENT : LS_OK);
        if (refused[i].says && !strstr(ls_message(s), refused[i].says))
            fail_msg("%s", ls_message(s));
        assert_true(!refused[i].says || ls_catch(s, LS_BAD_ARGUMENT));
    }
    assert_true(ls_trainer_lr(trainer) == 1);
    assert_int_equal(ls_close(s), LS_OK);
}

/* Where a schedule is short, over, or longer than any run. */
static void schedules_have_ends(void **state)
{
    (void)state;
    const int64_t far = (int64_t)1 << 53;
    static const struct {
        ls_optim o;
        double rates[5]; /* of the steps from 0 on, with a rate of 8 */
    } ends[] = {
        {{.schedule = LS_ONE_CYCLE, .total = 1}, {8e-4 / 25, 8e-4 / 25, 8e-4 / 25, 8e-4 / 25, 8e-4 / 25}},
        {{.schedule = LS_ONE_CYCLE, .total = 2, .warmup = 1, .end_factor = 0.5}, {8, 4, 4, 4, 4}},
        {{.schedule = LS_ONE_CYCLE, .total = 3, .warmup = 2, .start_factor = 0.25, .end_factor = 0.5}, {2, 8, 4, 4, 4}},
        {{.schedule = LS_LINEAR, .total = 2, .end_factor = 0.5}, {8, 6, 4, 4, 4}},
        {{.schedule = LS_LINEAR, .total = 4, .warmup = 2}, {4, 8, 4, 2, 0}},
        {{.schedule = LS_LINEAR, .total = 1, .end_factor = 0.5}, {8, 4, 4, 4, 4}},
        {{.schedule = LS_STEP_SCHEDULE, .total = 1}, {8, 0.08, 0.08, 0.08, 0.08}},
        {{.schedule = LS_COSINE, .total = 2, .end_factor = 0.5}, {8, 6, 4, 4, 4}},
        {{.schedule = LS_WARM_RESTARTS, .period = 1}, {8, 8, 8, 8, 8}},
        {{.schedule = LS_WARM_RESTARTS, .period = 2, .warmup = 1}, {8, 4, 8, 4, 8}},
        {{.schedule = LS_EXPONENTIAL, .gamma = 0.5, .period = 3}, {8, 8, 8, 4, 4}},
        {{.schedule = LS_EXPONENTIAL, .gamma = 2}, {8, 16, 32, 64, 128}},
        {{.schedule = LS_LINEAR, .total = 4, .warmup = 2, .after_warmup = true}, {4, 8, 8, 4, 0}},
        {{.schedule = LS_COSINE, .total = 4, .warmup = 2, .after_warmup = true}, {4, 8, 8, 4, 0}},
        {{.schedule = LS_EXPONENTIAL, .gamma = 0.5, .warmup = 1, .after_warmup = true}, {8, 8, 4, 2, 1}},
        {{.schedule = LS_WARM_RESTARTS, .period = 2, .warmup = 1, .after_warmup = true}, {8, 8, 4, 8, 4}},
        {{.warmup = 4, .after_warmup = true}, {2, 4, 6, 8, 8}},
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        for (int k = 0; k < 5; k++)
            if (!(fabs(ls_learning_rate(&ends[i].o, 8, k) - ends[i].rates[k]) <= 1e-14))
                fail_msg("schedule %d, step %d: %.17g", (int)i, k, ls_learning_rate(&ends[i].o, 8, k));
    const ls_optim restarts = {.schedule = LS_WARM_RESTARTS, .period = 1, .period_factor = INT32_MAX};
    assert_true(ls_learning_rate(&restarts, 8, 1) == 8);
    const double rate = ls_learning_rate(&restarts, 8, far); /* 2^53 - 2^31 steps into 2^62 of them */
    assert_true(rate < 8 && rate > 8 - 1e-4);
    const ls_optim longer = {.schedule = LS_WARM_RESTARTS, .period = (int64_t)1 << 40, .period_factor = INT32_MAX};
    const double first = ls_learning_rate(&longer, 8, far); /* into the second period, which is as long as can be */
    assert_true(first < 8 && first > 8 - 4e-5);
    assert_true(ls_learning_rate(&(ls_optim){.schedule = LS_EXPONENTIAL, .gamma = 0.5}, 8, far) == 0);
}

static void a_rate_is_read_and_set(void **state)
{
    (void)state;
    uint8_t images[ROWS * INPUTS], labels[ROWS];
    test_make_images(images, sizeof images, labels, ROWS, CLASSES);
    assert_true(isnan(ls_trainer_lr(NULL)));
    assert_int_equal(ls_trainer_set_lr(NULL, 1), LS_BAD_ARGUMENT);
    ls_session *s = ls_open(NULL);
    ls_data *data =
        ls_data_from_memory(s, images, labels, ROWS, 1, HEIGHT, WIDTH, CLASSES, &(ls_loader){.batch = BATCH});
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), ls_nn_linear(s, CLASSES)));
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0-1"), &(ls_init){.like = data});
    ls_trainer *trainer =
        ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 1, .schedule = LS_LINEAR, .total = 8, .weight_decay = 1e10});
    static const double wrong[] = {-1e-300, 1e30, INFINITY, NAN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(ls_trainer_set_lr(trainer, wrong[i]), LS_BAD_ARGUMENT);
        assert_non_null(strstr(ls_message(s), "ls_trainer_set_lr: lr is "));
        assert_int_equal(ls_trainer_set_lr(trainer, 0.5), LS_BAD_ARGUMENT);
        assert_true(ls_catch(s, LS_BAD_ARGUMENT) && ls_trainer_lr(trainer) == 1);
    }
    ls_batch b;
    assert_true(ls_data_next(data, &b) && test_step(net, trainer, &b) == LS_OK);
    assert_true(ls_trainer_lr(trainer) == 0.875);
    /* A step that is not finite is none, nor is the one behind it. */
    assert_int_equal(ls_trainer_set_lr(trainer, 9e29), LS_OK);
    for (int k = 0; k < 4 && ls_data_next(data, &b); k++)
        test_step(net, trainer, &b);
    assert_int_equal(ls_wait(s), LS_NOT_FINITE);
    assert_true(ls_catch(s, LS_NOT_FINITE));
    ls_report report = {.step = 0};
    while (ls_trainer_next_report(trainer, &report))
        ;
    assert_int_equal(ls_trainer_set_lr(trainer, 1), LS_OK);
    assert_true(ls_trainer_lr(trainer) == 1 - (double)report.step / 8);
    assert_int_equal(ls_close(s), LS_OK);
}

/* Each step of a long run: cosine's series is summed about another point in each quarter. The bits are fixed too, as
 * the training's are. */
static void rates_follow_their_schedule(void **state)
{
    (void)state;
    enum { LONG = 1000 };
    static const struct {
        ls_optim o;
        uint64_t hash;
    } runs[] = {
        {{.lr = 0.3, .schedule = LS_COSINE, .total = LONG, .warmup = 10}, 0xae962e8bfe08d44d},
        {{.lr = 0.3, .schedule = LS_STEP_SCHEDULE, .total = LONG}, 0x9c1c999ac98ea6fd},
        {{.lr = 0.3, .schedule = LS_LINEAR, .total = LONG, .start_factor = 0.1, .end_factor = 1.7}, 0x9b3f2ebc755af48b},
        {{.lr = 0.3, .schedule = LS_EXPONENTIAL, .gamma = 0.97, .period = 7}, 0x5e6a0185b3bf3047},
        {{.lr = 0.3, .schedule = LS_ONE_CYCLE, .total = LONG}, 0x85ea4ad9f67c2ab3},
        {{.lr = 0.3, .schedule = LS_WARM_RESTARTS, .period = 9, .period_factor = 2, .end_factor = 0.01},
         0x40416e74eeb873b},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        double rates[LONG + 10];
        for (int step = 0; step < LONG + 10; step++) {
            rates[step] = ls_learning_rate(&runs[i].o, runs[i].o.lr, step);
            if (i < 2 && !(fabs(rates[step] - rate_of(&runs[i].o, step)) <= 2e-16))
                fail_msg("step %d: %.17g, not %.17g", step, rates[step], rate_of(&runs[i].o, step));
        }
        const uint64_t hash = ls_hash_bytes(rates, sizeof rates);
        if (hash != runs[i].hash)
            fail_msg("run %d: the rates' bits have become others, of hash %#llx", (int)i, (unsigned long long)hash);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_in_pytorch),
                                       cmocka_unit_test(each_step_is_the_headers_formula),
                                       cmocka_unit_test(after_a_failed_update_moments_begin_anew),
                                       cmocka_unit_test(the_oldest_reports_are_dropped),
                                       cmocka_unit_test(rates_follow_their_schedule),
                                       cmocka_unit_test(schedules_have_ends),
                                       cmocka_unit_test(a_rate_is_read_and_set),
                                       cmocka_unit_test(options_that_cannot_change)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
