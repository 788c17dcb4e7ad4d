/* Twenty steps of every optimizer and schedule against PyTorch's in float64 (tests/reference/make_optimizers.py, which says what is
 * trained). The largest difference may be 8 times that of PyTorch's own float32 run, and is never asked to be below 2e-6 of the largest
 * weight. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>

#include <jansson.h>
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
    static const char *const schedules[] = {"constant", "step", "cosine", "warmup", NULL};
    int schedule = choice_at(figures, "schedule", schedules);
    const json_t *betas = json_object_get(figures, "betas");
    return (ls_optim){.lr = number_at(figures, "lr"),
                      .momentum = number_at(figures, "momentum"),
                      .weight_decay = number_at(figures, "weight_decay"),
                      .nesterov = json_is_true(json_object_get(figures, "nesterov")),
                      .schedule = schedule == 3 ? LS_CONSTANT : (ls_schedule)schedule,
                      .warmup = (int64_t)number_at(figures, "warmup"),
                      .total = (int64_t)number_at(figures, "total"),
                      .beta1 = json_number_value(json_array_get(betas, 0)),
                      .beta2 = json_number_value(json_array_get(betas, 1)),
                      .eps = number_at(figures, "eps"),
                      .clip_norm = number_at(figures, "clip_norm"),
                      .full_batch = (int64_t)number_at(figures, "full_batch")};
}

static void start_at(ls_module *net, const char *name, const json_t *list)
{
    float values[INPUTS * CLASSES];
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++)
        values[i] = (float)json_number_value(json_array_get(list, i));
    assert_int_equal(ls_write_parameter(net, name, values, (int64_t)n), LS_OK);
}

/* The largest difference, and the largest number that was to be there. */
static void compare(ls_module *net, const char *name, const json_t *list, double *off, double *largest)
{
    float values[INPUTS * CLASSES];
    size_t n = json_array_size(list);
    assert_int_equal(ls_read_parameter(net, name, values, (int64_t)n), LS_OK);
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
    ls_initialize(net, ls_parse_devices(s, "cpu:0-1"), &(ls_init){.like = data});
    start_at(net, "1.weight", json_object_get(start, "weight"));
    start_at(net, "1.bias", json_object_get(start, "bias"));
    ls_optim optim = optim_of(figures);
    ls_trainer *trainer = ls_trainer_new(net, (ls_optimizer)choice_at(figures, "optimizer", optimizers), &optim);
    const json_t *losses = json_object_get(figures, "losses"), *norms = json_object_get(figures, "norms");
    double smoothing = number_at(figures, "label_smoothing"), worst = 0, off = 0, largest = 0;
    ls_batch batch;
    ls_report report;
    for (int k = 0; k < STEPS;)
        if (ls_next(data, &batch)) {
            ls_backward(ls_cross_entropy_smooth(ls_train(net, batch.X), batch.y, smoothing));
            assert_int_equal(ls_step(trainer), LS_OK);
            k++;
        }
    assert_int_equal(ls_wait(s), LS_OK);
    for (size_t k = 0; k < STEPS; k++) {
        assert_true(ls_next_report(trainer, &report));
        worst = fmax(worst, fabs(report.loss - json_number_value(json_array_get(losses, k))));
        if (norms)
            worst = fmax(worst, fabs(report.norm - json_number_value(json_array_get(norms, k))));
    }
    compare(net, "1.weight", json_object_get(figures, "weight"), &off, &largest);
    compare(net, "1.bias", json_object_get(figures, "bias"), &off, &largest);
    double allowed = fmax(8 * number_at(figures, "float32_yardstick"), 2e-6);
    print_message("%s: off by %.2g of the largest weight, %.2g allowed; losses by %.2g\n",
                  json_string_value(json_object_get(figures, "name")), off / largest, allowed, worst);
    assert_true(off / largest <= allowed);
    assert_true(worst <= 1e-5);
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
    assert_int_equal(json_array_size(cases), 22);
    json_array_foreach(cases, i, figures) run_case(json_object_get(whole, "start"), figures);
    json_decref(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_in_pytorch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
