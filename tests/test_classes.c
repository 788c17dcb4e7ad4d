/* Weights know the names of their classes: where they come from, what bears them, and what is refused. */
#include "checkpoint_run.h"

#include "base/session.h"
#include "data/data.h"
#include "io/classes.h"
#include "io/safetensors.h"

#include <lockstep_weights.h>
#include <math.h>
#include <stdlib.h>

#include "tensors.h"

#if LOCKSTEP_HAVE_JANSSON && LOCKSTEP_HAVE_CRYPTO

#include <jansson.h>

static const char *const names[] = {"T-shirt", "sac \xc3\xa0 dos", "a \"b\"\\\n"}, *const swapped[] = {
                                                                                       "T-shirt", "a \"b\"\\\n",
                                                                                       "sac \xc3\xa0 dos"};

static void save_named(const char *file, const char *const as[], int n, char digits[65])
{
    run r;
    begin(&r, &usual);
    ls_module_name_classes(r.net, as, n);
    ls_module_save(r.net, test_path(file));
    ls_module_fingerprint(r.net, digits);
    ls_checkpoint_save(r.kept, NULL);
    ls_checkpoint_wait(r.kept);
    assert_ok(&r);
    end(&r);
}

static void assert_says(const char *file, const char *classes)
{
    ls_context *context = test_context();
    ls_safetensors *opened = ls_safetensors_open(context, test_path(file));
    const char *found = ls_safetensors_metadata(opened, "classes");
    if (classes)
        assert_string_equal(found, classes);
    else
        assert_null(found);
    ls_safetensors_close(opened);
    test_context_done();
}

static void files_bear_them(void **state)
{
    (void)state;
    char named[65], nameless[65];
    save_named("named", names, 3, named);
    assert_says("named", "[\"T-shirt\",\"sac \xc3\xa0 dos\",\"a \\\"b\\\"\\\\\\n\"]");
    assert_says("kept/checkpoint-000001.safetensors", "[\"T-shirt\",\"sac \xc3\xa0 dos\",\"a \\\"b\\\"\\\\\\n\"]");
    save_named("bytes", (const char *const[]){"\xff\xfe", "\xc3\xa0", "caf\xe9"}, 3, nameless);
    assert_says("bytes", "[\"??\",\"\xc3\xa0\",\"caf?\"]");
    save_named("nameless", NULL, 0, nameless);
    assert_says("nameless", NULL);
    assert_string_equal(named, nameless); /* fingerprints are of the tensors alone */
}

static void loading_tells_them(void **state)
{
    (void)state;
    char digits[65];
    run r;
    save_named("named", names, 3, digits);
    save_named("swapped", swapped, 3, digits);
    begin(&r, &usual);
    assert_int_equal(ls_module_images_shape(NULL).rank, 0);
    assert_int_equal(ls_module_images_shape(r.net).rank, 4); /* the data have told */
    assert_null(ls_module_class_name(r.net, 0));
    ls_module_load(r.net, test_path("named"));
    for (int i = 0; i < 3; i++)
        assert_string_equal(ls_module_class_name(r.net, i), names[i]);
    assert_null(ls_module_class_name(r.net, 3));
    assert_null(ls_module_class_name(r.net, -1));
    assert_int_equal(ls_module_load(r.net, test_path("swapped")), LS_OK); /* no one but a file gave the others */
    assert_string_equal(ls_module_class_name(r.net, 1), swapped[1]);
    assert_ok(&r);
    end(&r);
}

static void others_are_refused(void **state)
{
    (void)state;
    char digits[65], before[65], after[65];
    run r;
    save_named("swapped", swapped, 3, digits);
    save_named("nameless", NULL, 0, digits);
    begin(&r, &usual);
    ls_module_name_classes(r.net, names, 3);
    train(&r, 1);
    ls_module_fingerprint(r.net, before);
    assert_int_equal(ls_module_load(r.net, test_path("swapped")), LS_CHANGED);
    assert_non_null(
        strstr(ls_message(r.s), "swapped: class 1 is 'a \"b\"\\?' in the weights, but 'sac ?? dos' in the data"));
    assert_true(ls_catch(r.s, LS_CHANGED));
    ls_module_fingerprint(r.net, after);
    assert_string_equal(before, after);
    assert_int_equal(ls_module_load(r.net, test_path("nameless")), LS_OK);
    assert_string_equal(ls_module_class_name(r.net, 1), names[1]);
    ls_module_name_classes(r.net, NULL, 0); /* they are taken as they are */
    assert_int_equal(ls_module_load(r.net, test_path("swapped")), LS_OK);
    assert_string_equal(ls_module_class_name(r.net, 1), swapped[1]);
    assert_ok(&r);
    end(&r);
}

/* Whoever was told no data before has the file's names alone to go by. */
static void other_data_are_refused(void **state)
{
    (void)state;
    char digits[65];
    float logits[64 * 3];
    ls_metrics metrics = {.loss = 0};
    run r;
    save_named("named", names, 3, digits);
    begin(&r, &usual);
    ls_module_load(r.net, test_path("named"));
    assert_int_equal(ls_module_evaluate(r.net, r.data, &metrics), LS_OK); /* they have no names */
    ls_images_name(&r.s->context, &r.data->of, names);
    assert_int_equal(ls_module_evaluate(r.net, r.data, &metrics), LS_OK);
    ls_images_name(&r.s->context, &r.data->of, swapped);
    assert_int_equal(ls_module_evaluate(r.net, r.data, &metrics), LS_CHANGED);
    assert_true(isnan(metrics.loss));
    assert_caught(r.s, LS_CHANGED,
                  "ls_module_evaluate: class 1 is 'sac ?? dos' in the weights, but 'a \"b\"\\?' in the data");
    assert_int_equal(ls_module_predict(r.net, r.data, logits, 3), LS_CHANGED);
    assert_caught(r.s, LS_CHANGED, "ls_module_predict: class 1 is");
    ls_module_name_classes(r.net, NULL, 0);
    assert_int_equal(ls_module_evaluate(r.net, r.data, &metrics), LS_OK);
    assert_ok(&r);
    end(&r);
}

/* A network for `classes` of the data's images, which may be of other channels. */
static void refuse(const char *file, int classes, int channels, const char *words)
{
    uint8_t pixels[3 * 36] = {0}, labels[1] = {0};
    ls_session *s = ls_open(NULL);
    ls_data *data = ls_data_from_memory(s, pixels, labels, 1, channels, 6, 6, classes, NULL);
    ls_module *net = ls_sequential(s, NULL);
    ls_module_append(net, NULL, ls_nn_conv2d(s, 4, 3, NULL));
    ls_module_append(net, NULL, ls_nn_batch_norm(s));
    ls_module_append(net, NULL, ls_nn_fn(s, ls_relu));
    ls_module_append(net, NULL, ls_nn_fn(s, ls_flatten));
    ls_module_append(net, NULL, ls_nn_linear(s, classes));
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data});
    assert_int_equal(ls_module_load(net, test_path(file)), LS_BAD_FILE);
    if (!strstr(ls_message(s), words))
        fail_msg("%s", ls_message(s));
    ls_close(s);
}

static void other_counts_are_said_as_classes(void **state)
{
    (void)state;
    char digits[65];
    save_named("three", NULL, 0, digits);
    refuse("three", 12, 1,
           "three: the weights have 3 classes, the data 12: parameter 4.weight has shape (3, 64), the network needs "
           "(12, 64)");
    refuse("three", 3, 3, "three: parameter 0.weight has shape (4, 1, 3, 3), the network needs (4, 3, 3, 3)");
}

static void what_is_no_list_of_names(void **state)
{
    (void)state;
    static const char *const others[] = {NULL, "",   "10",     "cat,dog",       "[\"a\",1]",
                                         "{}", "[]", "[\"a\"", "[\"a\\u0000\"]"};
    ls_context *context = test_context();
    ls_classes read = {.names = NULL};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(ls_classes_read(context, &read, others[i]), LS_OK);
        assert_int_equal(read.n, 0);
        assert_null(ls_classes_write(context, &read));
    }
    assert_int_equal(ls_classes_read(context, &read, "[\"a\", \"\"]"), LS_OK);
    assert_string_equal(ls_classes_at(&read, 0), "a");
    assert_string_equal(ls_classes_at(&read, 1), "");
    ls_classes_free(context, &read);
    test_context_done();
}

static void wrong_calls(void **state)
{
    (void)state;
    run r;
    assert_int_equal(ls_module_name_classes(NULL, names, 3), LS_BAD_ARGUMENT);
    assert_null(ls_module_class_name(NULL, 0));
    begin(&r, &usual);
    ls_module_name_classes(r.net, names, 2);
    assert_fails(&r, LS_BAD_ARGUMENT, "ls_module_name_classes: 2 names, but the network has 3 classes");
    begin(&r, &usual);
    ls_module_name_classes(r.net, (const char *const[]){"a", NULL, "b"}, 3);
    assert_fails(&r, LS_BAD_ARGUMENT, "ls_module_name_classes: 3 names, one of which is NULL");
    ls_session *s = ls_open(NULL);
    assert_int_equal(ls_module_name_classes(ls_lenet(s), names, 3), LS_NOT_INITIALIZED);
    ls_close(s);
}

/* Each allocation on the way fails once, and nothing is lost. */
static void without_memory(void **state)
{
    (void)state;
    char digits[65];
    save_named("named", names, 3, digits);
    for (int fail_at = 1, done = 0; !done; fail_at++) {
        ls_allocator allocator = test_allocator(0);
        how h = usual;
        h.allocator = &allocator;
        run r;
        begin(&r, &h);
        test_allocations.fail_at = test_allocations.count + fail_at;
        ls_module_name_classes(r.net, names, 3);
        ls_module_load(r.net, test_path("named"));
        ls_module_save(r.net, test_path("again"));
        done = test_allocations.count < test_allocations.fail_at;
        test_allocations.fail_at = 0;
        assert_int_equal(end(&r), done ? LS_OK : LS_OUT_OF_MEMORY);
        assert_int_equal(test_allocations.live, 0);
    }
}

/* jansson's own: what it has, how often it asked, and which time there is none. */
static struct {
    int live, count, fail_at;
} json;

static void *json_allocate(size_t bytes)
{
    if (++json.count == json.fail_at)
        return NULL;
    json.live++;
    return malloc(bytes);
}

static void json_release(void *memory)
{
    json.live -= memory != NULL;
    free(memory);
}

/* The same of what jansson allocates, where names become a text and a text becomes names. */
static void without_memory_for_json(void **state)
{
    (void)state;
    for (int reads = 0; reads < 2; reads++) {
        int tries = 0;
        json_set_alloc_funcs(json_allocate, json_release);
        for (bool done = false; !done; tries++) {
            ls_context *context = test_context();
            ls_classes classes = {.names = NULL};
            if (!reads)
                ls_classes_set(context, &classes, names, 3);
            json.count = 0;
            json.fail_at = tries + 1;
            if (reads)
                ls_classes_read(context, &classes, "[\"one\",\"two\",\"three\"]");
            char *text = reads ? NULL : ls_classes_write(context, &classes);
            done = json.count < json.fail_at;
            json.fail_at = 0;
            assert_true(reads || (text != NULL) == done);
            assert_int_equal(ls_context_status(context), reads || done ? LS_OK : LS_OUT_OF_MEMORY);
            assert_int_equal(json.live, 0);
            ls_release(context, text);
            ls_classes_free(context, &classes);
            test_context_done();
        }
        json_set_alloc_funcs(malloc, free);
        assert_true(tries > 5);
    }
}

#endif

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, test_folder_make, test_folder_remove)
#if LOCKSTEP_HAVE_JANSSON && LOCKSTEP_HAVE_CRYPTO
    const struct CMUnitTest tests[] = {test(files_bear_them),
                                       test(loading_tells_them),
                                       test(others_are_refused),
                                       test(other_data_are_refused),
                                       test(other_counts_are_said_as_classes),
                                       test(what_is_no_list_of_names),
                                       test(wrong_calls),
                                       test(without_memory),
                                       test(without_memory_for_json)};
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    return 0; /* there are no weights files */
#endif
}
