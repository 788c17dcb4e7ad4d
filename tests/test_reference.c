/* Whole training steps against figures computed in float64 (tests/reference, with the script that made them).
 *
 * A difference of norms or of projections is taken relative to the parameter's norm or to a thousandth of the norm of
 * all parameters together, whichever is larger, as the script's yardsticks are. It may be 8 times the larger of the
 * parameter's and the case's median yardstick, and is never asked to be below 4e-6. Winograd may be 5 times as far
 * off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>

#include <jansson.h>
#include "training.h"

static const char *directory; /* of the figures */
static double lenience;       /* 1, and 5 with Winograd */

static uint64_t splitmix64(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* Element i of the stream that belongs to a name, in [-1, 1). */
static double signed_uniform(const char *name, const char *ending, int64_t i)
{
    uint64_t h = 14695981039346656037u;
    for (const char *p = name; *p; p++)
        h = (h ^ (unsigned char)*p) * 1099511628211u;
    for (const char *p = ending; *p; p++)
        h = (h ^ (unsigned char)*p) * 1099511628211u;
    return 2 * ((double)(splitmix64(h + (uint64_t)i) >> 11) / 9007199254740992.0) - 1;
}

static bool ends_with(const char *text, const char *ending)
{
    size_t n = strlen(text), m = strlen(ending);
    return n >= m && strcmp(text + n - m, ending) == 0;
}

static bool is_norm(const char *name)
{
    return strncmp(name, "1.", 2) == 0 || strstr(name, ".bn1.") || strstr(name, ".bn2.");
}

static float start_of(const ls_parameter_info *info, int64_t i)
{
    const char *name = info->name;
    if (ends_with(name, "running_mean"))
        return 0;
    if (ends_with(name, "running_var"))
        return 1;
    double u = signed_uniform(name, "", i);
    if (is_norm(name) && ends_with(name, "weight"))
        return (float)(1 + 0.05 * u);
    if (info->rank == 1)
        return (float)(0.05 * u);
    int64_t fan = info->numbers / info->shape[0];
    if (strcmp(name, "W3") == 0 || strcmp(name, "W4") == 0)
        fan = info->shape[0];
    return (float)(sqrt(6.0 / (double)fan) * u);
}

static void set_start(ls_module *net)
{
    for (int k = 0; k < ls_module_parameter_count(net); k++) {
        ls_parameter_info info;
        assert_int_equal(ls_module_parameter_at(net, k, &info), LS_OK);
        float *values = calloc((size_t)info.numbers, sizeof *values);
        for (int64_t i = 0; i < info.numbers; i++)
            values[i] = start_of(&info, i);
        assert_int_equal(ls_module_write_parameter(net, info.name, values, info.numbers), LS_OK);
        free(values);
    }
}

static double number_at(json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_yardstick(json_t *figures)
{
    double all[512];
    size_t n = 0;
    const char *name;
    json_t *figure;
    json_object_foreach(figures, name, figure) if (n < 512) all[n++] = number_at(figure, "float32_yardstick");
    qsort(all, n, sizeof *all, compare_doubles);
    return n % 2 ? all[n / 2] : (all[n / 2 - 1] + all[n / 2]) / 2;
}

typedef ls_status reader(ls_module *net, const char *name, float *values, int64_t numbers);

/* Returns how many figures miss, and notes the worst share of what is allowed. */
static int compare(ls_module *net, json_t *figures, reader *read, const char *what, double *worst)
{
    double median = median_yardstick(figures), squares = 0;
    int misses = 0;
    const char *name;
    json_t *figure;
    json_object_foreach(figures, name, figure) squares += number_at(figure, "norm") * number_at(figure, "norm");
    json_object_foreach(figures, name, figure)
    {
        int64_t numbers = 1;
        size_t d;
        json_t *dimension;
        json_array_foreach(json_object_get(figure, "shape"), d, dimension) numbers *= json_integer_value(dimension);
        float *values = calloc((size_t)numbers, sizeof *values);
        assert_int_equal(read(net, name, values, numbers), LS_OK);
        double sum = 0, projection = 0;
        for (int64_t i = 0; i < numbers; i++) {
            sum += (double)values[i] * values[i];
            projection += (double)values[i] * signed_uniform(name, "#probe", i);
        }
        free(values);
        double norm = number_at(figure, "norm"), floor = 1e-3 * sqrt(squares), scale = norm > floor ? norm : floor;
        double off = fmax(fabs(sqrt(sum) - norm), fabs(projection - number_at(figure, "projection"))) / scale;
        double allowed = lenience * fmax(8 * fmax(number_at(figure, "float32_yardstick"), median), 4e-6);
        *worst = fmax(*worst, off / allowed);
        if (!(off <= allowed)) {
            print_message("%s of %s: off by %.3g, allowed %.3g\n", what, name, off, allowed);
            misses++;
        }
    }
    return misses;
}

static int check_losses(ls_trainer *trainer, json_t *figures, double *worst)
{
    json_t *losses = json_object_get(figures, "losses"),
           *yardsticks = json_object_get(figures, "loss_float32_yardstick");
    double median[64];
    size_t n = json_array_size(losses);
    int misses = 0;
    for (size_t k = 0; k < n; k++)
        median[k] = json_number_value(json_array_get(yardsticks, k));
    qsort(median, n, sizeof *median, compare_doubles);
    for (size_t k = 0; k < n; k++) {
        ls_report report;
        assert_true(ls_trainer_next_report(trainer, &report));
        double loss = json_number_value(json_array_get(losses, k)), off = fabs(report.loss - loss);
        double yardstick = fmax(json_number_value(json_array_get(yardsticks, k)), median[n / 2]);
        double allowed = lenience * fmax(8 * yardstick, 4e-6 * loss);
        *worst = fmax(*worst, off / allowed);
        if (!(off <= allowed)) {
            print_message("loss of step %zu: off by %.3g, allowed %.3g\n", k, off, allowed);
            misses++;
        }
    }
    return misses;
}

/* In so many shards for each one of the figures', whose BatchNorm statistics are taken together. */
static void run_case(const char *file, ls_algorithm conv, int parts)
{
    char path[4096];
    lenience = conv == LS_CONV_DIRECT ? 1 : 5;
    snprintf(path, sizeof path, "%s/%s.json", directory, file);
    json_error_t error;
    json_t *figures = json_load_file(path, 0, &error);
    assert_non_null(figures);
    const int together = (int)number_at(figures, "shard");
    ls_session *session = ls_open(&(ls_options){.shard = together / parts, .batch_norm = together, .conv = conv});
    ls_loader loader = {.batch = (int)number_at(figures, "batch")};
    ls_data *data = ls_data_fashion_mnist(session, LS_TRAIN, &loader);
    ls_module *net = ls_model(session, json_string_value(json_object_get(figures, "model")));
    ls_module_initialize(net, ls_all_devices(session), &(ls_init){.like = data});
    set_start(net);
    ls_optim optim = {.lr = number_at(figures, "lr"),
                      .momentum = number_at(figures, "momentum"),
                      .weight_decay = number_at(figures, "weight_decay"),
                      .nesterov = json_is_true(json_object_get(figures, "nesterov"))};
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &optim);
    double worst = 0;
    int misses = 0, steps = (int)number_at(figures, "steps");
    for (int k = 0; k < steps; k++) {
        ls_batch batch;
        assert_true(ls_data_next(data, &batch));
        if (k == 0) {
            ls_backward(test_losses(net, &batch));
            misses += compare(net, json_object_get(figures, "gradient_step0"), test_read_gradient, "gradient", &worst);
            ls_parameter_info any;
            ls_module_parameter_at(net, 0, &any);
            ls_clear_grad(ls_module_param(net, any.name, ls_host()));
        }
        assert_int_equal(test_step(net, trainer, &batch), LS_OK);
    }
    assert_int_equal(ls_wait(session), LS_OK);
    misses += check_losses(trainer, figures, &worst);
    misses += compare(net, json_object_get(figures, "weights_final"), ls_module_read_parameter, "weight", &worst);
    print_message("%s%s%s: %d misses, the worst at %.2f of what is allowed\n", file,
                  conv == LS_CONV_DIRECT ? "" : " (winograd)", parts > 1 ? " (in parts)" : "", misses, worst);
    assert_string_equal(ls_message(session), "");
    ls_close(session);
    json_decref(figures);
    assert_int_equal(misses, 0);
}

static void direct(void **state)
{
    run_case(*state, LS_CONV_DIRECT, 1);
}

static void in_parts(void **state)
{
    run_case(*state, LS_CONV_AUTO, 2);
}

static void in_five(void **state)
{
    run_case(*state, LS_CONV_AUTO, 5);
}

static void winograd(void **state)
{
    run_case(*state, LS_CONV_AUTO, 1);
}

/* `test_reference [DIRECTORY [short]]`: shortly, ResNet-18 takes the smallest of its cases alone, whose last shard is
 * no whole one; what its other cases vary LeNet's do too. */
int main(int argc, char **argv)
{
    directory = argc > 1 ? argv[1] : REFERENCE;
    const struct CMUnitTest few[] = {
        {"lenet_b64_s64", direct, NULL, NULL, "lenet_b64_s64"},
        {"lenet_b50_s16", direct, NULL, NULL, "lenet_b50_s16"},
        {"lenet_b64_s16_m0.9", direct, NULL, NULL, "lenet_b64_s16_m0.9"},
        {"lenet_b64_s32_m0.9_nesterov", direct, NULL, NULL, "lenet_b64_s32_m0.9_nesterov"},
        {"lenet_b64_s64, winograd", winograd, NULL, NULL, "lenet_b64_s64"},
        {"lenet_b50_s16, winograd", winograd, NULL, NULL, "lenet_b50_s16"},
        {"lenet_b64_s16_m0.9, winograd", winograd, NULL, NULL, "lenet_b64_s16_m0.9"},
        {"lenet_b64_s32_m0.9_nesterov, winograd", winograd, NULL, NULL, "lenet_b64_s32_m0.9_nesterov"},
        {"resnet18_b20_s8", direct, NULL, NULL, "resnet18_b20_s8"},
        {"resnet18_b20_s8, winograd", winograd, NULL, NULL, "resnet18_b20_s8"},
        {"resnet18_b20_s8, in parts", in_parts, NULL, NULL, "resnet18_b20_s8"},
    };
    const struct CMUnitTest others[] = {
        {"resnet18_b32_s32", direct, NULL, NULL, "resnet18_b32_s32"},
        {"resnet18_b32_s8", direct, NULL, NULL, "resnet18_b32_s8"},
        {"resnet18_b48_s16", direct, NULL, NULL, "resnet18_b48_s16"},
        {"resnet18_b32_s16_m0.9", direct, NULL, NULL, "resnet18_b32_s16_m0.9"},
        {"resnet18_b32_s32, winograd", winograd, NULL, NULL, "resnet18_b32_s32"},
        {"resnet18_b48_s16, winograd", winograd, NULL, NULL, "resnet18_b48_s16"},
        {"resnet18_b32_s16_m0.9, winograd", winograd, NULL, NULL, "resnet18_b32_s16_m0.9"},
        {"resnet18_b32_s32, in parts", in_parts, NULL, NULL, "resnet18_b32_s32"},
        {"resnet18_b32_s16_m0.9, in parts", in_parts, NULL, NULL, "resnet18_b32_s16_m0.9"},
        {"resnet18_b20_s20, in parts", in_parts, NULL, NULL, "resnet18_b20_s20"},
        {"resnet18_b20_s20, in five", in_five, NULL, NULL, "resnet18_b20_s20"},
    };
    const int failed = cmocka_run_group_tests(few, NULL, NULL);
    if (argc > 2 && strcmp(argv[2], "short") == 0)
        return failed;
    return failed + cmocka_run_group_tests(others, NULL, NULL);
}
