/* Reading while the system fails: every read fails, ends early, is interrupted or cut short, and every allocation
 * fails, those of libcrypto too. What is loaded is whole, or there is a failure by name and nothing left. */
#include "checkpoint_run.h"
#include "not_run.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

/* ---- Faults ---- */

typedef enum fault { NO_FAULT, FAILS, ENDS, INTERRUPTED, SHORT, FAULTS } fault;

static struct {
    fault kind;
    int at, reads; /* which read, from 1 */
} reading;

ssize_t __real_pread(int fd, void *into, size_t count, off_t offset);
ssize_t __wrap_pread(int fd, void *into, size_t count, off_t offset);

ssize_t __wrap_pread(int fd, void *into, size_t count, off_t offset)
{
    bool now = ++reading.reads == reading.at;
    if (now && reading.kind == ENDS) /* as where the file has become shorter meanwhile */
        return 0;
    if (now && (reading.kind == FAILS || reading.kind == INTERRUPTED)) {
        errno = reading.kind == FAILS ? EIO : EINTR;
        return -1;
    }
    return __real_pread(fd, into, reading.kind == SHORT && count > 1 ? (count + 1) / 2 : count, offset);
}

#if LOCKSTEP_HAVE_JANSSON && LOCKSTEP_HAVE_CRYPTO && LOCKSTEP_HAVE_ZLIB

#include "data/data.h"
#include "io/safetensors.h"

#include <openssl/crypto.h>
#include <zlib.h>

/* The allocations of libcrypto are counted with the session's. Those of jansson are not: its version 2.14 writes behind
 * its memory where one of them fails. */
static bool fails_now(void)
{
    return ++test_allocations.count == test_allocations.fail_at;
}

static void *crypto_malloc(size_t bytes, const char *file, int line)
{
    (void)file, (void)line;
    return bytes && fails_now() ? NULL : malloc(bytes);
}

static void *crypto_realloc(void *memory, size_t bytes, const char *file, int line)
{
    (void)file, (void)line;
    return bytes && fails_now() ? NULL : realloc(memory, bytes);
}

static void crypto_free(void *memory, const char *file, int line)
{
    (void)file, (void)line;
    free(memory);
}

/* ---- What is loaded ---- */

static void write_data(void)
{
    static unsigned char images[16 + 30 * 784], labels[8 + 30];
    memcpy(images, (unsigned char[]){0, 0, 8, 3, 0, 0, 0, 30, 0, 0, 0, 28, 0, 0, 0, 28}, 16);
    memcpy(labels, (unsigned char[]){0, 0, 8, 1, 0, 0, 0, 30}, 8);
    test_make_images(images + 16, sizeof images - 16, labels + 8, 30, 10);
    test_write_file("t10k-labels-idx1-ubyte", labels, sizeof labels);
    gzFile file = gzopen(test_path("t10k-images-idx3-ubyte.gz"), "wb");
    assert_int_equal(gzwrite(file, images, sizeof images), sizeof images);
    assert_int_equal(gzclose(file), Z_OK);
}

static char loaded[65];

/* Images from a gzip'ed file, labels from a plain one. */
static ls_status load_data(const ls_allocator *allocator)
{
    char about[64];
    ls_session *s = ls_open(&(ls_options){.allocator = allocator});
    ls_data *data = ls_data_fashion_mnist(s, LS_TEST, &(ls_loader){.directory = test_folder});
    if (data && ls_data_describe(data, about) == LS_OK)
        strcpy(loaded, about);
    return ls_close(s);
}

static ls_module *small_net(ls_session *s)
{
    ls_module *net = ls_sequential(s, NULL);
    ls_module_append(net, NULL, ls_nn_conv2d(s, 4, 3, NULL));
    ls_module_append(net, NULL, ls_nn_batch_norm(s));
    ls_module_append(net, NULL, ls_nn_fn(s, ls_flatten));
    ls_module_append(net, NULL, ls_nn_linear(s, 3));
    return net;
}

static void with_net(ls_session *s, ls_status (*use)(ls_module *net, const char *path))
{
    static const uint8_t image[36], label[1];
    ls_data *data = ls_data_from_memory(s, image, label, 1, 1, 6, 6, 3, NULL);
    ls_module *net = small_net(s);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data});
    use(net, test_path("w"));
    char digits[65];
    if (ls_module_fingerprint(net, digits) == LS_OK)
        strcpy(loaded, digits);
}

static ls_status load_weights(const ls_allocator *allocator)
{
    ls_session *s = ls_open(&(ls_options){.allocator = allocator});
    with_net(s, ls_module_load);
    return ls_close(s);
}

static ls_status load_checkpoint(const ls_allocator *allocator)
{
    how h = usual;
    h.allocator = allocator;
    run r = {.s = NULL};
    begin(&r, &h);
    if (r.s && !ls_failed(r.s) && load(&r) && r.steps == 6)
        ls_module_fingerprint(r.net, loaded);
    else if (r.s && !ls_failed(r.s)) /* passed over, which is told */
        ls_fail(r.s, LS_BAD_FILE, "%s", r.told);
    return r.s ? ls_close(r.s) : LS_OUT_OF_MEMORY;
}

static ls_status (*const loads[])(const ls_allocator *) = {load_data, load_weights, load_checkpoint};
enum { LOADS = sizeof loads / sizeof *loads };

static void write_all(void)
{
    write_data();
    ls_session *s = ls_open(NULL);
    with_net(s, ls_module_save);
    assert_int_equal(ls_close(s), LS_OK);
    save_at(&usual, 6, 0);
}

/* ---- Tests ---- */

/* A file whose arrays are the network's but for `change`. */
static void save_changed(const char *change)
{
    static float values[4 * 16 * 3];
    int64_t kernel[] = {4, 1, 3, 3}, four[] = {4}, linear[] = {3, 64}, turned[] = {64, 3}, three[] = {3};
    ls_named_array arrays[] = {
        {"0.bias", 1, four, values},         {"0.weight", 4, kernel, values},    {"1.bias", 1, four, values},
        {"1.running_mean", 1, four, values}, {"1.running_var", 1, four, values}, {"1.weight", 1, four, values},
        {"3.bias", 1, three, values},        {"3.weight", 2, linear, values},    {"3.weight.more", 1, three, values}};
    int n = 8;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        values[i] = 1;
    if (strcmp(change, "missing") == 0)
        arrays[4] = arrays[--n];
    if (strcmp(change, "extra") == 0)
        n++;
    if (strcmp(change, "shape") == 0)
        arrays[7].shape = turned;
    if (strcmp(change, "nan") == 0)
        values[30] = NAN; /* in the convolution's weights and in the last layer's */
    if (strcmp(change, "infinite") == 0)
        values[180] = -INFINITY;
    ls_context *context = test_context();
    assert_int_equal(ls_safetensors_save(context, test_path("w"), arrays, n, NULL, 0), LS_OK);
    test_context_done();
}

/* They are refused by name, and the network keeps its values. */
static void weights_that_do_not_fit(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"missing", "w: parameter 1.running_var is missing; is this a file of another model?"},
        {"extra", "w: the network has no parameter 3.weight.more; is this a file of another model?"},
        {"shape", "w: parameter 3.weight has shape (64, 3), the network needs (3, 64)"},
        {"nan", "w: the array '0.weight' holds NaN at number 30"},
        {"infinite", "w: the array '3.weight' holds infinity at number 180"},
        {"nothing", ""}};
    static const uint8_t image[36], label[1];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool good = !*cases[i][1];
        save_changed(cases[i][0]);
        ls_session *s = ls_open(NULL);
        ls_data *data = ls_data_from_memory(s, image, label, 1, 1, 6, 6, 3, NULL);
        ls_module *net = small_net(s);
        ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data});
        char before[65], after[65];
        ls_module_fingerprint(net, before);
        assert_int_equal(ls_module_load(net, test_path("w")), good ? LS_OK : LS_BAD_FILE);
        if (!strstr(ls_message(s), cases[i][1]))
            fail_msg("%s: %s", cases[i][0], ls_message(s));
        ls_catch(s, LS_BAD_FILE);
        assert_int_equal(ls_module_fingerprint(net, after), LS_OK);
        assert_int_equal(strcmp(before, after) == 0, !good);
        assert_int_equal(ls_close(s), LS_OK);
    }
}

/* A network is made for as many classes as the file has; who knows nothing of the file's kind has ten, and fails where
 * it is loaded. */
static void classes_of_a_file(void **state)
{
    (void)state;
    enum { SIDE = 28, MODELS = 2 };
    static const uint8_t image[SIDE * SIDE], label[1];
    static const char *const models[MODELS] = {"lenet", "resnet18"};
    for (int k = 0; k < MODELS; k++) {
        ls_session *s = ls_open(NULL);
        ls_data *data = ls_data_from_memory(s, image, label, 1, 1, SIDE, SIDE, 1, NULL);
        ls_module *net = ls_model_for(s, models[k], 23);
        ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data});
        assert_int_equal(ls_module_save(net, test_path("classes")), LS_OK);
        ls_module *again = ls_model_for_file(s, models[k], test_path("classes")),
                  *other = ls_model_for_file(s, models[1 - k], test_path("classes"));
        ls_module_initialize(again, ls_parse_devices(s, "cpu:0"), NULL);
        ls_module_initialize(other, ls_parse_devices(s, "cpu:0"), NULL);
        char digits[2][65];
        assert_int_equal(ls_module_load(again, test_path("classes")), LS_OK);
        assert_int_equal(ls_module_fingerprint(net, digits[0]), LS_OK);
        assert_int_equal(ls_module_fingerprint(again, digits[1]), LS_OK);
        assert_string_equal(digits[0], digits[1]);
        assert_int_equal(ls_module_load(other, test_path("classes")), LS_BAD_FILE);
        assert_true(ls_catch(s, LS_BAD_FILE));
        assert_null(ls_model_for_file(s, models[k], test_path("nowhere")));
        assert_true(ls_catch(s, LS_IO));
        assert_null(ls_model_for_file(s, models[k], NULL));
        assert_true(ls_catch(s, LS_BAD_ARGUMENT));
        assert_null(ls_model_for_file(s, "vgg", test_path("classes")));
        assert_true(ls_catch(s, LS_BAD_ARGUMENT));
        assert_int_equal(ls_close(s), LS_OK);
    }
    assert_null(ls_model_for_file(NULL, "lenet", "x"));
}

static void every_read_fails(void **state)
{
    (void)state;
    char whole[65];
    write_all();
    for (int i = 0; i < LOADS; i++) {
        reading.kind = NO_FAULT;
        reading.reads = 0;
        assert_int_equal(loads[i](NULL), LS_OK);
        strcpy(whole, loaded);
        int reads = reading.reads;
        assert_true(reads >= 3);
        for (fault kind = FAILS; kind < SHORT; kind++)
            for (int n = 1; n <= reads; n++) {
                reading.kind = kind;
                reading.at = n;
                reading.reads = 0;
                *loaded = 0;
                bool entry = loads[i] == load_checkpoint && n == 1; /* of the folder's lock, which may be empty */
                ls_status status = loads[i](NULL), wanted = kind == FAILS            ? LS_IO
                                                            : kind == ENDS && !entry ? LS_BAD_FILE
                                                                                     : LS_OK;
                if (status != wanted)
                    fail_msg("load %d, fault %d at read %d: %s", i, kind, n, ls_status_name(status));
                assert_string_equal(loaded, wanted == LS_OK ? whole : "");
            }
        reading.kind = SHORT;
        assert_int_equal(loads[i](NULL), LS_OK);
        assert_string_equal(loaded, whole);
        print_message("load %d: %d reads\n", i, reads);
    }
    reading.kind = NO_FAULT;
}

static void every_allocation_fails(void **state)
{
    (void)state;
    char whole[65];
    write_all();
    for (int i = 0; i < LOADS; i++) {
        int n = 1, refused = 0;
        assert_int_equal(loads[i](NULL), LS_OK);
        strcpy(whole, loaded);
        for (bool done = false; !done; n++) {
            ls_allocator allocator = test_allocator(n);
            *loaded = 0;
            ls_status status = loads[i](&allocator);
            done = test_allocations.count < n;
            test_allocations.fail_at = 0;
            /* A library may do without, and then the result is the right one. */
            bool good = status == LS_OK ? strcmp(loaded, whole) == 0 : status == LS_OUT_OF_MEMORY && !*loaded && !done;
            if (!good || test_allocations.live != 0)
                fail_msg("load %d, allocation %d of %d: %s, %d left, \"%s\" loaded", i, n, test_allocations.count,
                         ls_status_name(status), test_allocations.live, loaded);
            refused += status != LS_OK;
        }
        print_message("load %d: %d allocations failed in turn, %d of them by name\n", i, n - 2, refused);
        assert_true(refused > 10);
    }
}

static ls_status nothing(ls_module *net, const char *path)
{
    (void)net, (void)path;
    return LS_OK;
}

int main(void)
{
    if (!CRYPTO_set_mem_functions(crypto_malloc, crypto_realloc, crypto_free))
        print_message("libcrypto allocates by itself: its failures are not among these\n");
    /* What libcrypto keeps for good is made before anything fails. */
    ls_session *s = ls_open(NULL);
    with_net(s, nothing);
    ls_close(s);
#define test(name) cmocka_unit_test_setup_teardown(name, test_folder_make, test_folder_remove)
    const struct CMUnitTest tests[] = {
        test(weights_that_do_not_fit),
        test(classes_of_a_file),
        test(every_read_fails),
        test(every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return test_none_run("this build has no checkpoints or no zlib");
}

#endif
