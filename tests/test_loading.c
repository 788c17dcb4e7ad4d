/* Weights into networks: what a file tells a network that has seen no images, prefixes of names, what is skipped and
 * what is partial, types that are converted, and what is said of it. A failure leaves the network as it was. */
#include "typed_arrays.h"

#include <fenv.h>
#include <lockstep_data.h>
#include <lockstep_nn.h>
#include <lockstep_train.h>
#include <lockstep_weights.h>
#include <stdlib.h>
#include <string.h>

#include "io/safetensors.h"
#include "not_run.h"
#include "tensors.h"

#if LOCKSTEP_HAVE_JANSSON

/* ---- Networks that have seen no images ---- */

static ls_module *unseen(ls_session *s, const char *model)
{
    ls_module *net = ls_model(s, model);
    assert_int_equal(ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.kind = LS_XAVIER}), LS_OK);
    return net;
}

static void images_told_by_a_file(void **state)
{
    (void)state;
    ls_session *s = ls_open(&(ls_options){.seed = 3});
    ls_module *saved = unseen(s, "lenet"), *loaded = unseen(s, "lenet"), *other = unseen(s, "resnet18");
    ls_module_infer(saved, ls_zeros(s, LS_SHAPE(1, 3, 28, 28)));
    assert_int_equal(ls_module_check_save(saved, test_path("w")), LS_OK); /* leaves nothing */
    assert_int_equal(test_files_in_folder(), 0);
    assert_int_equal(ls_module_check_save(saved, test_path("none/w")), LS_IO);
    assert_non_null(strstr(ls_message(s), "none/w: cannot be written: No such file or directory"));
    assert_true(ls_catch(s, LS_IO));
    assert_int_equal(ls_module_check_save(saved, NULL), LS_BAD_ARGUMENT);
    assert_true(ls_catch(s, LS_BAD_ARGUMENT));
    assert_int_equal(ls_module_save(saved, test_path("w")), LS_OK);
    assert_int_equal(ls_module_load(loaded, test_path("w")), LS_OK);
    assert_int_equal(ls_module_checksum(loaded), ls_module_checksum(saved));
    assert_non_null(ls_module_infer(loaded, ls_zeros(s, LS_SHAPE(2, 3, 28, 28))));
    ls_module_infer(loaded, ls_zeros(s, LS_SHAPE(2, 1, 28, 28)));
    assert_true(ls_catch(s, LS_BAD_SHAPE));
    /* Another network's file leaves nothing behind: images of any shape may come. */
    assert_int_equal(ls_module_load(other, test_path("w")), LS_BAD_FILE);
    assert_true(ls_catch(s, LS_BAD_FILE));
    assert_int_equal(ls_module_parameter_count(other), 0);
    assert_true(ls_catch(s, LS_SHAPE_UNKNOWN));
    static const char *const wrong[] = {
        "28", "1x28", "0x28x28", "1x28x", "x1x28x28", "1x28x28x1", "-1x28x28", "1x28x28 ", "1x28x99999999999999999999"};
    const ls_named_array one = {"x", 0, NULL, &(float){1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *const metadata[][2] = {{"images", wrong[i]}};
        assert_int_equal(ls_safetensors_save(test_context(), test_path("w"), &one, 1, metadata, 1), LS_OK);
        bool flat = i < 2; /* features, which are no images of ResNet's */
        assert_int_equal(ls_module_load(other, test_path("w")), flat ? LS_BAD_SHAPE : LS_SHAPE_UNKNOWN);
        assert_true(ls_catch(s, flat ? LS_BAD_SHAPE : LS_SHAPE_UNKNOWN));
    }
    /* 7 GB of weights, of which the file has none: no memory is asked for. */
    const char *const vast[][2] = {{"images", "3000000x1x1"}};
    assert_int_equal(ls_safetensors_save(test_context(), test_path("w"), &one, 1, vast, 1), LS_OK);
    assert_int_equal(ls_module_load(other, test_path("w")), LS_BAD_FILE);
    assert_true(ls_catch(s, LS_BAD_FILE));
    assert_non_null(ls_module_infer(other, ls_zeros(s, LS_SHAPE(2, 1, 32, 32))));
    assert_int_equal(ls_close(s), LS_OK);
}

/* Writes `w` again with this in front of each name, and without the metadata of its images where they are of no use. */
static void save_prefixed(const char *prefix, const char *odd)
{
    ls_safetensors *file = ls_safetensors_open(test_context(), test_path("w"));
    ls_named_array arrays[8];
    char names[8][64];
    float *values[8];
    ls_context context;
    assert_int_equal(ls_context_init(&context, NULL), LS_OK);
    for (int i = 0; i < 8; i++) {
        const ls_saved *saved = ls_safetensors_at(file, i);
        snprintf(names[i], sizeof names[i], "%s%s", odd && strcmp(odd, saved->name) == 0 ? "" : prefix, saved->name);
        values[i] = malloc(saved->n_bytes);
        assert_int_equal(ls_safetensors_read(file, saved, values[i]), LS_OK);
        arrays[i] = (ls_named_array){names[i], saved->rank, saved->shape, values[i]};
    }
    assert_int_equal(ls_safetensors_save(&context, test_path("prefixed"), arrays, 8, NULL, 0), LS_OK);
    for (int i = 0; i < 8; i++)
        free(values[i]);
    ls_context_destroy(&context);
    ls_safetensors_close(file);
    test_context_done();
}

static ls_status load_stripped(ls_module *net, const char *strip)
{
    return ls_module_load_with(net, test_path("prefixed"), &(ls_load_options){.strip = strip}, NULL);
}

/* What PyTorch's wrappers put in front of every name is told, and left out where it is asked for. */
static void names_with_a_prefix(void **state)
{
    (void)state;
    static const char *const prefixes[] = {"module.", "_orig_mod.", "module._orig_mod."};
    ls_session *s = ls_open(&(ls_options){.seed = 3});
    ls_module *saved = unseen(s, "lenet");
    ls_module_infer(saved, ls_zeros(s, LS_SHAPE(1, 1, 28, 28)));
    assert_int_equal(ls_module_save(saved, test_path("w")), LS_OK);
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        char expected[96];
        save_prefixed(prefixes[i], NULL);
        ls_module *net = ls_model_for_file(s, "lenet", test_path("prefixed"));
        ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL);
        ls_module_infer(net, ls_zeros(s, LS_SHAPE(1, 1, 28, 28)));
        assert_int_equal(ls_module_load(net, test_path("prefixed")), LS_BAD_FILE);
        snprintf(expected, sizeof expected,
                 "all names begin with '%s'; give that as ls_load_options.strip to leave it out", prefixes[i]);
        assert_non_null(strstr(ls_message(s), expected));
        assert_true(ls_catch(s, LS_BAD_FILE));
        for (size_t n = 1; n < strlen(prefixes[i]); n++) { /* too little of it */
            char part[32];
            snprintf(part, sizeof part, "%.*s", (int)n, prefixes[i]);
            assert_int_equal(load_stripped(net, part), LS_BAD_FILE);
            assert_non_null(strstr(ls_message(s), expected));
            assert_true(ls_catch(s, LS_BAD_FILE));
        }
        assert_int_equal(load_stripped(net, prefixes[i]), LS_OK);
        assert_int_equal(ls_module_checksum(net), ls_module_checksum(saved));
        assert_int_equal(load_stripped(net, "model."), LS_BAD_FILE);
        assert_true(ls_catch(s, LS_BAD_FILE));
    }
    save_prefixed("module.", "b4"); /* not all of them */
    assert_int_equal(ls_module_load(saved, test_path("prefixed")), LS_BAD_FILE);
    assert_non_null(strstr(ls_message(s), "prefixed: parameter W1 is missing; is this a file of another model?"));
    assert_true(ls_catch(s, LS_BAD_FILE));
    assert_int_equal(load_stripped(saved, "module."), LS_BAD_FILE);
    assert_non_null(strstr(ls_message(s), "prefixed: the array 'b4' does not begin with '"));
    assert_true(ls_catch(s, LS_BAD_FILE));
    save_prefixed("a.", NULL);
    assert_int_equal(load_stripped(saved, "a.W1"), LS_BAD_FILE);
    assert_int_equal(ls_close(s), LS_BAD_FILE);
}

/* ---- What is skipped, and partial files ---- */

enum { CLASSES = 3, SIDE = 6, LONGEST = 4 * 4 * 2 * 5 };

/* 0.weight, 0.bias, 1.weight, 1.bias, 1.running_mean, 1.running_var, 4.weight, 4.bias; another seed, other values. */
static ls_module *small(ls_session *s, int classes)
{
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_conv2d(s, 2, 3, NULL), ls_nn_batch_norm(s), ls_nn_fn(s, ls_relu),
                                              ls_nn_fn(s, ls_flatten), ls_nn_linear(s, classes)));
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.kind = LS_XAVIER});
    ls_module_infer(net, ls_zeros(s, LS_SHAPE(1, 1, SIDE, SIDE)));
    assert_int_equal(ls_wait(s), LS_OK);
    return net;
}

/* Saves what `small` makes of the seed. */
static void save_small(const char *file, uint64_t seed, int classes, const char *const names[])
{
    ls_session *s = ls_open(&(ls_options){.seed = seed});
    ls_module *net = small(s, classes);
    ls_module_name_classes(net, names, names ? classes : 0);
    ls_module_save(net, test_path(file));
    assert_int_equal(ls_close(s), LS_OK);
}

static ls_status load_with(ls_module *net, const char *file, ls_load_options options, const char **report)
{
    return ls_module_load_with(net, test_path(file), &options, report);
}

/* The tensor has what the file has under its name. */
static bool is_of_file(ls_module *net, const char *file, const char *name)
{
    float is[LONGEST], read[LONGEST];
    ls_safetensors *open = ls_safetensors_open(test_context(), test_path(file));
    const ls_saved *saved = ls_safetensors_find(open, name);
    assert_non_null(saved);
    assert_true(saved->numbers <= LONGEST);
    assert_int_equal(ls_safetensors_read(open, saved, read), LS_OK);
    assert_int_equal(ls_module_read_parameter(net, name, is, saved->numbers), LS_OK);
    const bool same = memcmp(is, read, (size_t)saved->numbers * sizeof *is) == 0;
    ls_safetensors_close(open);
    test_context_done();
    return same;
}

static void expect_refused(ls_module *net, const char *file, ls_load_options options, ls_status status,
                           const char *words)
{
    const uint64_t before = ls_module_checksum(net);
    const char *report = "left";
    assert_int_equal(load_with(net, file, options, &report), status);
    assert_null(report);
    assert_caught(ls_session_of(net), status, words);
    assert_int_equal(ls_module_checksum(net), before);
}

static void skipped_names_keep_their_values(void **state)
{
    (void)state;
    static const char *const last[] = {"4.*", NULL}, *const misspelt[] = {"4.*", "fc.*", NULL},
                             *const all[] = {"*", NULL}, *const none[] = {NULL};
    const char *report;
    save_small("w", 1, CLASSES, NULL);
    save_small("own", 2, CLASSES + 2, NULL);
    ls_session *s = ls_open(&(ls_options){.seed = 2});
    ls_module *net = small(s, CLASSES + 2);
    expect_refused(net, "w", (ls_load_options){.strip = NULL}, LS_BAD_FILE,
                   "w: the weights have 3 classes, the network 5: parameter 4.weight has shape (3, 32), the network "
                   "needs (5, 32)");
    expect_refused(net, "w", (ls_load_options){.partial = true}, LS_BAD_FILE,
                   "needs (5, 32); ls_load_options.skip leaves it out");
    expect_refused(net, "w", (ls_load_options){.skip = misspelt}, LS_BAD_ARGUMENT,
                   "w: nothing in it or in the network is called \"fc.*\", which is to be skipped; the network's first "
                   "parameter is \"0.weight\", and * stands for any part of a name");
    expect_refused(net, "w", (ls_load_options){.skip = all}, LS_BAD_FILE,
                   "w: no parameter of the network would be read from it");
    assert_true(is_of_file(net, "own", "0.weight"));
    assert_int_equal(load_with(net, "w", (ls_load_options){.skip = last}, &report), LS_OK);
    assert_string_equal(report, "read 6 of 8 parameters\nkept, skipped: 4.weight, 4.bias");
    static const char *const names[] = {"0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(is_of_file(net, "w", names[i]));
    assert_true(is_of_file(net, "own", "4.weight") && is_of_file(net, "own", "4.bias"));
    assert_int_equal(load_with(net, "own", (ls_load_options){.skip = none}, &report), LS_OK);
    assert_string_equal(report, "read 8 of 8 parameters");
    const char *again;
    assert_int_equal(ls_module_load_with(net, test_path("own"), NULL, &again), LS_OK);
    assert_ptr_equal(again, report); /* no text is kept twice */
    assert_int_equal(ls_module_load_with(net, NULL, NULL, &again), LS_BAD_ARGUMENT);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_module_load_with: path is NULL");
    assert_int_equal(ls_module_load_with(NULL, test_path("own"), NULL, &again), LS_BAD_ARGUMENT);
    assert_null(again);
    assert_int_equal(ls_close(s), LS_OK);
}

/* The first three arrays of a file of `small`, in byte order of their names, under these, and one more. */
static void save_part(const char *file, const char *const names[4])
{
    static const float odd[2] = {7, 8};
    static const int64_t two[] = {2};
    float values[3][LONGEST];
    ls_named_array arrays[4] = {[3] = {names[3], 1, two, odd}};
    ls_context context;
    assert_int_equal(ls_context_init(&context, NULL), LS_OK);
    ls_safetensors *open = ls_safetensors_open(&context, test_path("w"));
    for (int i = 0; i < 3; i++) {
        const ls_saved *saved = ls_safetensors_at(open, i); /* 0.bias, 0.weight, 1.bias */
        assert_int_equal(ls_safetensors_read(open, saved, values[i]), LS_OK);
        arrays[i] = (ls_named_array){names[i], saved->rank, saved->shape, values[i]};
    }
    assert_int_equal(ls_safetensors_save(&context, test_path(file), arrays, 4, NULL, 0), LS_OK);
    ls_safetensors_close(open);
    ls_context_destroy(&context);
}

static void partial_files_are_taken_where_that_is_said(void **state)
{
    (void)state;
    static const char *const aux[] = {"aux.*", "1.b*", NULL};
    const char *report;
    save_small("w", 1, CLASSES, NULL);
    save_small("own", 2, CLASSES, NULL);
    save_part("part", (const char *const[]){"0.bias", "0.weight", "1.bias", "aux.bias"});
    save_part("wrapped", (const char *const[]){"m.0.bias", "m.0.weight", "m.1.bias", "m.aux.bias"});
    save_part("other", (const char *const[]){"a", "b", "c", "d"});
    ls_session *s = ls_open(&(ls_options){.seed = 2});
    ls_module *net = small(s, CLASSES);
    expect_refused(net, "part", (ls_load_options){.strip = NULL}, LS_BAD_FILE,
                   "part: parameter 1.weight is missing; is this a file of another model?");
    expect_refused(net, "other", (ls_load_options){.partial = true}, LS_BAD_FILE,
                   "other: no parameter of the network would be read from it");
    expect_refused(net, "wrapped", (ls_load_options){.partial = true}, LS_BAD_FILE,
                   "wrapped: all names begin with 'm.'; give that as ls_load_options.strip to leave it out");
    assert_int_equal(load_with(net, "part", (ls_load_options){.partial = true}, &report), LS_OK);
    assert_string_equal(report, "read 3 of 8 parameters\n"
                                "kept, not in the file: 1.weight, 1.running_mean, 1.running_var, 4.weight, 4.bias\n"
                                "passed over, not in the network: aux.bias");
    assert_true(is_of_file(net, "w", "0.weight") && is_of_file(net, "w", "0.bias"));
    assert_true(is_of_file(net, "own", "4.weight") && is_of_file(net, "own", "1.running_var"));
    ls_module_load(net, test_path("own"));
    assert_int_equal(load_with(net, "wrapped", (ls_load_options){.strip = "m.", .skip = aux, .partial = true}, &report),
                     LS_OK);
    assert_string_equal(report, "read 2 of 8 parameters\n"
                                "kept, skipped: 1.bias\n"
                                "kept, not in the file: 1.weight, 1.running_mean, 1.running_var, 4.weight, 4.bias\n"
                                "passed over, skipped: aux.bias");
    assert_true(is_of_file(net, "w", "0.weight") && is_of_file(net, "own", "1.bias"));
    /* A file that tells the images' shape to a network that has seen none: what is kept are its first values. */
    ls_session *fresh = ls_open(&(ls_options){.seed = 2});
    ls_module *first =
        ls_sequential(fresh, LS_LIST(ls_nn_conv2d(fresh, 2, 3, NULL), ls_nn_batch_norm(fresh), ls_nn_fn(fresh, ls_relu),
                                     ls_nn_fn(fresh, ls_flatten), ls_nn_linear(fresh, CLASSES)));
    ls_module_initialize(first, ls_parse_devices(fresh, "cpu:0"), &(ls_init){.kind = LS_XAVIER});
    static const char *const last[] = {"4.*", NULL};
    assert_int_equal(load_with(first, "w", (ls_load_options){.skip = last}, NULL), LS_OK);
    assert_true(is_of_file(first, "w", "0.weight") && is_of_file(first, "own", "4.weight"));
    assert_int_equal(ls_close(fresh), LS_OK);
    assert_int_equal(ls_close(s), LS_OK);
}

/* Steps after a load go on from what was kept as from what was read. */
static void training_goes_on_from_what_is_kept(void **state)
{
    (void)state;
    static const char *const some[] = {"1.*", "4.bias", NULL};
    uint8_t pixels[8 * SIDE * SIDE], labels[8];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 37 % 251);
    for (int i = 0; i < 8; i++)
        labels[i] = (uint8_t)(i % CLASSES);
    uint64_t sums[2];
    save_small("w", 1, CLASSES, NULL);
    for (int way = 0; way < 2; way++) {
        ls_session *s = ls_open(&(ls_options){.seed = 2});
        ls_module *net = small(s, CLASSES);
        ls_data *data = ls_data_from_memory(s, pixels, labels, 8, 1, SIDE, SIDE, CLASSES, &(ls_loader){.batch = 4});
        assert_int_equal(ls_module_freeze(net, "1.*", true), LS_OK);
        ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
        for (int step = 0; step < 4; step++) {
            ls_batch b;
            if (step == 2 && way == 0)
                load_with(net, "w", (ls_load_options){.skip = some}, NULL);
            for (int i = 0; step == 2 && way == 1 && i < ls_module_parameter_count(net); i++) {
                static const char *const read[] = {"0.weight", "0.bias", "4.weight"};
                float values[LONGEST];
                ls_parameter_info info;
                ls_module_parameter_at(net, i, &info);
                for (int k = 0; k < 3; k++)
                    if (strcmp(info.name, read[k]) == 0) {
                        ls_safetensors *open = ls_safetensors_open(test_context(), test_path("w"));
                        ls_safetensors_read(open, ls_safetensors_find(open, info.name), values);
                        ls_safetensors_close(open);
                        test_context_done();
                        ls_module_write_parameter(net, info.name, values, info.numbers);
                    }
            }
            assert_true(ls_data_next(data, &b) || ls_data_next(data, &b));
            ls_backward(ls_cross_entropy(ls_module_forward(net, b.X), b.y));
            ls_trainer_step(trainer);
        }
        sums[way] = ls_module_checksum(net);
        assert_int_equal(ls_close(s), LS_OK);
    }
    assert_int_equal(sums[0], sums[1]);
}

/* The names of another data set's classes say nothing of a last layer that is not read. */
static void names_of_classes_come_with_the_last_layer(void **state)
{
    (void)state;
    static const char *const theirs[] = {"cat", "dog", "cow"}, *const ours[] = {"a", "b", "c"};
    static const char *const last[] = {"4.bias", NULL}, *const first[] = {"0.*", NULL};
    save_small("w", 1, CLASSES, theirs);
    ls_session *s = ls_open(&(ls_options){.seed = 2});
    ls_module *net = small(s, CLASSES);
    assert_int_equal(load_with(net, "w", (ls_load_options){.skip = last}, NULL), LS_OK);
    assert_null(ls_module_class_name(net, 0));
    assert_int_equal(load_with(net, "w", (ls_load_options){.skip = first}, NULL), LS_OK);
    assert_string_equal(ls_module_class_name(net, 0), "cat");
    ls_module_name_classes(net, ours, CLASSES);
    expect_refused(net, "w", (ls_load_options){.skip = first}, LS_CHANGED, "class 0 is 'cat' in the weights");
    assert_int_equal(load_with(net, "w", (ls_load_options){.skip = last}, NULL), LS_OK);
    assert_string_equal(ls_module_class_name(net, 0), "a");
    assert_int_equal(ls_close(s), LS_OK);
}

/* ---- Types ---- */

/* What `small` has, in types by turns, and a counter; array `nan` ends with what is no number. */
static void save_typed(const char *file, const char *const dtypes[8], int nan)
{
    static const struct {
        const char *name;
        int rank;
        int64_t shape[4];
    } tensors[] = {{"0.weight", 4, {2, 1, 3, 3}},  {"0.bias", 1, {2}},
                   {"1.weight", 1, {2}},           {"1.bias", 1, {2}},
                   {"1.running_mean", 1, {2}},     {"1.running_var", 1, {2}},
                   {"4.weight", 2, {CLASSES, 32}}, {"4.bias", 1, {CLASSES}}};
    static const int64_t counter = 5;
    static double doubles[8][LONGEST];
    static float floats[8][LONGEST];
    static uint16_t halves[8][LONGEST];
    typed_array arrays[9] = {[8] = {"1.num_batches_tracked", "I64", 0, {0}, &counter, sizeof counter}};
    for (int i = 0; i < 8; i++) {
        int n = 1;
        arrays[i] = (typed_array){tensors[i].name, dtypes[i], tensors[i].rank, {0}, NULL, 0};
        for (int k = 0; k < tensors[i].rank; k++)
            n *= (int)(arrays[i].shape[k] = tensors[i].shape[k]);
        for (int k = 0; k < n; k++) {
            const float value = (float)((i + 1) * 16 + k % 16) / 256; /* eight bits, which all types have */
            const bool half = strcmp(dtypes[i], "F16") == 0;
            doubles[i][k] = i == nan && k == n - 1 ? 1e39 : value;
            floats[i][k] = value;
            halves[i][k] = half ? half_of(value) : bfloat_of(value);
        }
        const bool wide = strcmp(dtypes[i], "F64") == 0, full = strcmp(dtypes[i], "F32") == 0;
        arrays[i].bytes = wide ? (const void *)doubles[i] : full ? (const void *)floats[i] : halves[i];
        arrays[i].n_bytes = (size_t)n * (wide ? 8 : full ? 4 : 2);
    }
    write_typed_arrays(file, arrays, 9);
}

static void types_are_converted_and_said(void **state)
{
    (void)state;
    static const struct {
        const char *dtypes[8], *report;
    } cases[] = {
        {{"F32", "F32", "F32", "F32", "F32", "F32", "F32", "F32"}, ""},
        {{"F16", "F16", "F16", "F16", "F16", "F16", "F16", "F16"}, "\nconverted from F16 to float32: all"},
        {{"BF16", "BF16", "BF16", "BF16", "BF16", "BF16", "BF16", "BF16"}, "\nconverted from BF16 to float32: all"},
        {{"F64", "F64", "F64", "F64", "F64", "F64", "F64", "F64"}, "\nconverted from F64 to float32: all"},
        {{"F16", "F16", "BF16", "F32", "F32", "F64", "F16", "F32"},
         "\nconverted from F16 to float32: 0.weight, 0.bias, 4.weight\nconverted from BF16 to float32: 1.weight\n"
         "converted from F64 to float32: 1.running_var"}};
    char wanted[65] = "", digits[65];
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[300];
        const char *report;
        ls_session *s = ls_open(&(ls_options){.seed = 2});
        ls_module *net = small(s, CLASSES);
        save_typed("w", cases[i].dtypes, -1);
        snprintf(expected, sizeof expected,
                 "read 8 of 8 parameters; 1 num_batches_tracked say nothing and are passed over%s", cases[i].report);
        fesetround(FE_UPWARD); /* the caller's own */
        assert_int_equal(ls_module_load_with(net, test_path("w"), NULL, &report), LS_OK);
        fesetround(FE_TONEAREST);
        assert_string_equal(report, expected);
        sum = i ? sum : ls_module_checksum(net);
        assert_int_equal(ls_module_checksum(net), sum);
#if LOCKSTEP_HAVE_CRYPTO /* of the file and of the network, whatever the types */
        assert_int_equal(ls_module_fingerprint(net, i ? digits : wanted), LS_OK);
        assert_int_equal(ls_file_fingerprint(s, test_path("w"), digits), LS_OK);
        assert_string_equal(digits, wanted);
#else
        (void)wanted, (void)digits;
#endif
        assert_int_equal(ls_close(s), LS_OK);
    }
}

/* The last array that is read has what float32 has not: all the others are as they were too. */
static void what_float32_has_not_is_refused(void **state)
{
    (void)state;
    static const char *const last[] = {"4.bias", NULL}, *const other[] = {"0.bias", NULL};
    const char *const dtypes[] = {"F16", "F32", "F32", "F32", "F32", "F32", "F32", "F64"};
    ls_session *s = ls_open(&(ls_options){.seed = 2});
    ls_module *net = small(s, CLASSES);
    save_typed("w", dtypes, 7);
    expect_refused(net, "w", (ls_load_options){.skip = other}, LS_BAD_FILE,
                   "w: the array '4.bias' holds 1e+39 at number 2, which is too large for float32");
    assert_int_equal(load_with(net, "w", (ls_load_options){.skip = last}, NULL), LS_OK);
#if LOCKSTEP_HAVE_CRYPTO
    char digits[65];
    assert_int_equal(ls_file_fingerprint(s, test_path("w"), digits), LS_BAD_FILE);
    assert_caught(s, LS_BAD_FILE, "w: the array '4.bias' holds 1e+39 at number 2, which is too large for float32");
    assert_string_equal(digits, "");
#endif
    assert_int_equal(ls_close(s), LS_OK);
}

/* Each allocation on the way fails once: the network is as it was, and nothing is lost. */
static void without_memory(void **state)
{
    (void)state;
    static const char *const last[] = {"4.*", NULL};
    const char *const dtypes[] = {"F16", "F32", "F64", "F32", "F32", "F32", "F32", "F64"};
    save_typed("w", dtypes, -1);
    int failures = 0;
    for (int fail_at = 1, done = 0; !done; fail_at++) {
        ls_allocator allocator = test_allocator(0);
        ls_session *s = ls_open(&(ls_options){.seed = 2, .allocator = &allocator});
        ls_module *net = small(s, CLASSES);
        const uint64_t before = ls_module_checksum(net);
        const char *report;
        test_allocations.fail_at = test_allocations.count + fail_at;
        const ls_status status = load_with(net, "w", (ls_load_options){.skip = last}, &report);
        done = test_allocations.count < test_allocations.fail_at;
        test_allocations.fail_at = 0;
        assert_int_equal(status, done ? LS_OK : LS_OUT_OF_MEMORY);
        assert_true((report != NULL) == done);
        assert_true(done || ls_catch(s, LS_OUT_OF_MEMORY));
        assert_true((ls_module_checksum(net) == before) == !done);
        failures += !done;
        assert_int_equal(ls_close(s), LS_OK);
        assert_int_equal(test_allocations.live, 0);
    }
    assert_true(failures > 5);
}

#endif

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, test_folder_make, test_folder_remove)
#if LOCKSTEP_HAVE_JANSSON
    const struct CMUnitTest tests[] = {test(images_told_by_a_file),
                                       test(names_with_a_prefix),
                                       test(skipped_names_keep_their_values),
                                       test(partial_files_are_taken_where_that_is_said),
                                       test(training_goes_on_from_what_is_kept),
                                       test(names_of_classes_come_with_the_last_layer),
                                       test(types_are_converted_and_said),
                                       test(what_float32_has_not_is_refused),
                                       test(without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    return test_none_run("this library was built without a JSON library");
#endif
}
