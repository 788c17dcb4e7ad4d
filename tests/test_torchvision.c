/* What PyTorch saves of torchvision's networks loads by name into the same networks of lockstep_nn.h's layers
 * (examples/torchvision.h). The names and shapes are recorded (tests/reference/make_torchvision.py); the files are made
 * here, with values by a formula. */
#include "typed_arrays.h"

#include "../examples/torchvision.h"

#include <stdlib.h>
#include <string.h>
#include <lockstep_weights.h>

#include "not_run.h"
#include "tensors.h"

#if LOCKSTEP_HAVE_JANSSON

/* VGG-11's first linear layer has 103 million weights; so its two wide layers are narrow here, in file and network. */
enum { MOST = 400, WIDE = 4096, NARROW = 16, CLASSES = 1000 };

typedef struct entry {
    char name[64], dtype[16];
    int rank;
    int64_t shape[4];
    size_t numbers;
} entry;

static int read_names(const char *model, entry *entries, bool narrow)
{
    char path[512], line[256];
    int n = 0;
    snprintf(path, sizeof path, REFERENCE "/torchvision_%s.txt", model);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        entry *e = &entries[n++];
        int used;
        assert_true(n <= MOST);
        *e = (entry){.numbers = 1};
        assert_int_equal(sscanf(line, "%63s %15s%n", e->name, e->dtype, &used), 2);
        for (char *at = line + used, *end; *at && *at != '\n' && e->rank < 4; at = end) {
            const int64_t size = strtoll(at, &end, 10);
            e->shape[e->rank++] = narrow && size == WIDE ? NARROW : size;
            e->numbers *= (size_t)e->shape[e->rank - 1];
        }
    }
    fclose(file);
    return n;
}

static bool is_counter(const entry *e)
{
    return strcmp(e->dtype, "int64") == 0;
}

/* Number k of array i, above 0 and of eight bits, which all types have. */
static float value_of(int i, size_t k)
{
    return (float)(128 + (k * 37 + (size_t)i * 11) % 128) / 4096;
}

/* A state_dict as safetensors, its floats in this type. */
static void save(const entry *entries, int n, const char *dtype)
{
    static typed_array arrays[MOST];
    static const int64_t counter = 7;
    const bool full = strcmp(dtype, "F32") == 0, half = strcmp(dtype, "F16") == 0;
    for (int i = 0; i < n; i++) {
        const entry *e = &entries[i];
        arrays[i] = (typed_array){e->name, "I64", 0, {0}, &counter, sizeof counter};
        if (is_counter(e))
            continue;
        const size_t width = full ? sizeof(float) : sizeof(uint16_t);
        unsigned char *bytes = malloc(e->numbers * width);
        for (size_t k = 0; k < e->numbers; k++) {
            const float value = value_of(i, k);
            const uint16_t two = half ? half_of(value) : bfloat_of(value);
            memcpy(bytes + k * width, full ? (const void *)&value : (const void *)&two, width);
        }
        arrays[i] = (typed_array){e->name, dtype, e->rank, {0}, bytes, e->numbers * width};
        memcpy(arrays[i].shape, e->shape, sizeof e->shape);
    }
    write_typed_arrays("theirs", arrays, n);
    for (int i = 0; i < n; i++)
        if (!is_counter(&entries[i]))
            free((void *)arrays[i].bytes);
}

static void see_images(ls_session *s, ls_module *net)
{
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL);
    ls_module_infer(net, ls_zeros(s, LS_SHAPE(1, 3, 32, 32)));
    if (ls_wait(s) != LS_OK)
        fail_msg("%s", ls_message(s));
}

/* Every array of the list is a parameter of the network, of that shape, and has the file's values. */
static void assert_loaded(ls_module *net, const entry *entries, int n)
{
    for (int i = 0; i < n; i++) {
        const entry *e = &entries[i];
        if (is_counter(e))
            continue;
        float *values = malloc(e->numbers * sizeof *values);
        assert_int_equal(ls_module_read_parameter(net, e->name, values, (int64_t)e->numbers), LS_OK);
        for (size_t k = 0; k < e->numbers; k++)
            if (values[k] != value_of(i, k))
                fail_msg("%s: number %zu is %g", e->name, k, (double)values[k]);
        free(values);
    }
}

static entry entries[MOST];

/* Writes a file of this model and loads it. Gives the number of its names. */
static int assert_loads(const char *model, ls_module *make(ls_session *s, int classes), const char *dtype)
{
    char expected[200];
    int counters = 0;
    const char *report;
    const int n = read_names(model, entries, strcmp(model, "vgg11") == 0);
    for (int i = 0; i < n; i++)
        counters += is_counter(&entries[i]);
    save(entries, n, dtype);
    ls_session *s = ls_open(&(ls_options){.seed = 1});
    ls_module *net = make(s, CLASSES);
    see_images(s, net);
    assert_int_equal(ls_module_parameter_count(net), n - counters);
    if (ls_module_load_with(net, test_path("theirs"), NULL, &report) != LS_OK)
        fail_msg("%s", ls_message(s));
    int length = snprintf(expected, sizeof expected, "read %d of %d parameters", n - counters, n - counters);
    if (counters)
        length += snprintf(expected + length, sizeof expected - (size_t)length,
                           "; %d num_batches_tracked say nothing and are passed over", counters);
    if (strcmp(dtype, "F32") != 0)
        snprintf(expected + length, sizeof expected - (size_t)length, "\nconverted from %s to float32: all", dtype);
    assert_string_equal(report, expected);
    assert_loaded(net, entries, n);
    assert_int_equal(ls_close(s), LS_OK);
    return n;
}

/* For other classes: all but the last layer, which keeps its first values. Of the n names of that file. */
static void assert_loads_but(const char *last, ls_module *make(ls_session *s, int classes), int n)
{
    char expected[200];
    const char *report, *const skip[] = {last, NULL};
    ls_session *s = ls_open(&(ls_options){.seed = 1});
    ls_module *net = make(s, 10);
    see_images(s, net);
    assert_int_equal(ls_module_load(net, test_path("theirs")), LS_BAD_FILE);
    assert_caught(s, LS_BAD_FILE, "theirs: the weights have 1000 classes, the network 10: parameter ");
    assert_int_equal(ls_module_load_with(net, test_path("theirs"), &(ls_load_options){.skip = skip}, &report), LS_OK);
    const int parameters = ls_module_parameter_count(net);
    snprintf(expected, sizeof expected, "read %d of %d parameters", parameters - 2, parameters);
    assert_int_equal(strncmp(report, expected, strlen(expected)), 0);
    snprintf(expected, sizeof expected, "\nkept, skipped: %.*sweight, %.*sbias", (int)strlen(last) - 1, last,
             (int)strlen(last) - 1, last);
    assert_non_null(strstr(report, expected));
    assert_loaded(net, entries, n - 2);
    assert_int_equal(ls_close(s), LS_OK);
}

static ls_module *make_resnet18(ls_session *s, int classes)
{
    return resnet(s, (const int[]){2, 2, 2, 2}, false, classes);
}

static ls_module *make_resnet50(ls_session *s, int classes)
{
    return resnet(s, (const int[]){3, 4, 6, 3}, true, classes);
}

static ls_module *make_vgg11(ls_session *s, int classes)
{
    return vgg11(s, NARROW, classes);
}

static void resnet18_loads(void **state)
{
    (void)state;
    assert_loads_but("fc.*", make_resnet18, assert_loads("resnet18", make_resnet18, "F32"));
}

static void resnet50_loads(void **state)
{
    (void)state;
    assert_loads("resnet50", make_resnet50, "BF16");
}

static void vgg11_loads(void **state)
{
    (void)state;
    assert_loads_but("classifier.6.*", make_vgg11, assert_loads("vgg11", make_vgg11, "F16"));
}

#endif

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, test_folder_make, test_folder_remove)
#if LOCKSTEP_HAVE_JANSSON
    const struct CMUnitTest tests[] = {test(resnet18_loads), test(resnet50_loads), test(vgg11_loads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    return test_none_run("this library was built without a JSON library");
#endif
}
