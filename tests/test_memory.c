/* What training is said to hold, beside what it is seen to hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <lockstep_nn.h>
#include <lockstep_profile.h>
#include <lockstep_train.h>

#include "graph/plan.h"
#include "tensors.h"
#include "training.h"

enum { SIDE = 28, ROWS = 96, CLASSES = 10, HEADER = 4096 };

/* Counts what is held, and the most of it. */
typedef struct counting {
    atomic_llong held, most;
} counting;

static void *allocate(size_t bytes, size_t alignment, void *user)
{
    counting *c = user;
    char *memory = NULL;
    (void)alignment;
    if (posix_memalign((void **)&memory, HEADER, HEADER + bytes) != 0)
        return NULL;
    memcpy(memory, &bytes, sizeof bytes);
    long long held = atomic_fetch_add(&c->held, (long long)bytes) + (long long)bytes, most = atomic_load(&c->most);
    while (held > most && !atomic_compare_exchange_weak(&c->most, &most, held))
        ;
    return memory + HEADER;
}

static void release(void *memory, void *user)
{
    counting *c = user;
    size_t bytes;
    memcpy(&bytes, (char *)memory - HEADER, sizeof bytes);
    atomic_fetch_sub(&c->held, (long long)bytes);
    free((char *)memory - HEADER);
}

/* Not told are the records of network and plans, in all no more than `records` bytes. Returns what is told. */
static int64_t check_frozen(const char *model, const char *devices, int batch, int shard, ls_optimizer kind,
                            ls_optim how, int records, const char *frozen)
{
    static uint8_t images[ROWS * SIDE * SIDE], labels[ROWS];
    counting c = {0};
    ls_allocator allocator = {allocate, release, &c};
    test_make_images(images, sizeof images, labels, ROWS, CLASSES);
    ls_session *s = ls_open(&(ls_options){.shard = shard, .allocator = &allocator});
    ls_data *data = ls_data_from_memory(s, images, labels, ROWS, 1, SIDE, SIDE, CLASSES, &(ls_loader){.batch = batch});
    long long before = c.held;
    ls_module *net = ls_model(s, model);
    ls_module_initialize(net, ls_parse_devices(s, devices), &(ls_init){.kind = LS_HE, .like = data});
    if (frozen)
        assert_int_equal(ls_module_freeze(net, frozen, true), LS_OK);
    ls_trainer *trainer = ls_trainer_new(net, kind, &how);
    int64_t needed = 0;
    assert_int_equal(ls_trainer_memory_needed(trainer, data, &needed), LS_OK);
    atomic_store(&c.most, 0);
    ls_batch batch_of;
    for (int epoch = 0; epoch < 2; epoch++)
        while (ls_data_next(data, &batch_of))
            test_step(net, trainer, &batch_of);
    ls_wait(s);
    assert_string_equal(ls_message(s), "");
    const int64_t held = c.most - before;
    print_message("%s on %s, batch %d, shard %d: said %.2f MB, held %.2f MB\n", model, devices, batch, shard,
                  (double)needed / 1e6, (double)held / 1e6);
    assert_true(held >= needed && held - needed < records);
    assert_int_equal(ls_close(s), LS_OK);
    return needed;
}

static void check(const char *model, const char *devices, int batch, int shard, ls_optimizer kind, ls_optim how,
                  int records)
{
    check_frozen(model, devices, batch, shard, kind, how, records, NULL);
}

static void it_is_what_is_held(void **state)
{
    (void)state;
    enum { LENET = 200000, RESNET = 600000 }; /* a gradient of LeNet is 0.5 MB, a shard's room 0.6 MB */
    check("lenet", "cpu:0", 48, 16, LS_SGD, (ls_optim){.lr = 0.01}, LENET);
    check("lenet", "cpu:0-1", 96, 16, LS_SGD, (ls_optim){.lr = 0.01, .momentum = 0.9}, LENET);
    check("lenet", "cpu:0", 48, 16, LS_ADAM, (ls_optim){.lr = 0.01}, LENET);
    check("lenet", "cpu:0", 48, 16, LS_SGD, (ls_optim){.lr = 0.01, .clip_norm = 1}, LENET);
    check("lenet", "cpu:0-4", 96, 32, LS_SGD, (ls_optim){.lr = 0.01}, LENET);
    check("resnet18", "cpu:0-1", 32, 16, LS_SGD, (ls_optim){.lr = 0.01, .momentum = 0.9}, RESNET);
}

/* Nor a moment: of three shards, on a core, that is four times as many numbers less. */
static void what_is_frozen_has_no_gradient(void **state)
{
    (void)state;
    enum { RECORDS = 200000, BELOW = 20 * 9 + 20 + 50 * 20 * 25 + 50 + 800 * 128 + 128 };
    const ls_optim how = {.lr = 0.01, .momentum = 0.9};
    const int64_t all = check_frozen("lenet", "cpu:0", 48, 16, LS_SGD, how, RECORDS, NULL);
    const int64_t head = check_frozen("lenet", "cpu:0", 48, 16, LS_SGD, how, RECORDS, "?[123]");
    assert_true(all - head >= (int64_t)sizeof(float) * 4 * BELOW);
}

typedef struct deep {
    int64_t needed, numbers; /* bytes; numbers of the network */
} deep;

/* So many convolutions below a head. Adam, which has two moments; a core; two shards of 16 images. */
static deep measure_deep(int layers, bool frozen)
{
    enum { CHANNELS = 8, RECORDS = 250000 };
    static uint8_t images[ROWS * SIDE * SIDE], labels[ROWS];
    counting c = {0};
    ls_allocator allocator = {allocate, release, &c};
    test_make_images(images, sizeof images, labels, ROWS, CLASSES);
    ls_session *s = ls_open(&(ls_options){.shard = 16, .allocator = &allocator});
    ls_data *data = ls_data_from_memory(s, images, labels, ROWS, 1, SIDE, SIDE, CLASSES, &(ls_loader){.batch = 32});
    const long long before = c.held;
    ls_module *stem = ls_sequential(s, NULL), *net = ls_sequential(s, NULL);
    for (int i = 0; i < layers; i++) {
        ls_module_append(stem, NULL, ls_nn_conv2d(s, CHANNELS, 3, &(ls_conv){.padding = 1}));
        ls_module_append(stem, NULL, ls_nn_fn(s, ls_tanh));
    }
    ls_module_append(net, "stem", stem);
    ls_module_append(net, "pool", ls_nn_fn(s, ls_global_avg_pool2d));
    ls_module_append(net, "flat", ls_nn_fn(s, ls_flatten));
    ls_module_append(net, "head", ls_nn_linear(s, CLASSES));
    ls_module_initialize(net, test_cpus(1), &(ls_init){.kind = LS_HE, .like = data});
    if (frozen)
        ls_module_freeze(net, "stem.*", true);
    ls_trainer *trainer = ls_trainer_new(net, LS_ADAM, &(ls_optim){.lr = 0.01});
    deep d = {.numbers = 0};
    assert_int_equal(ls_trainer_memory_needed(trainer, data, &d.needed), LS_OK);
    ls_batch b;
    while (ls_data_next(data, &b))
        test_step(net, trainer, &b);
    ls_wait(s);
    const int64_t held = c.most - before;
    ls_parameter_info info;
    for (int i = 0; i < ls_module_parameter_count(net); i++)
        d.numbers += ls_module_parameter_at(net, i, &info) == LS_OK ? info.numbers : 0;
    print_message("%d layers%s: said %.2f MB, held %.2f MB\n", layers, frozen ? ", frozen" : "", (double)d.needed / 1e6,
                  (double)held / 1e6);
    assert_true(held >= d.needed && held - d.needed < RECORDS);
    assert_int_equal(ls_close(s), LS_OK);
    return d;
}

/* Of a layer that trains there are the values, twice, the gradient's sums, the moments, and what it makes of each
 * image, which its backward pass reads. Of a frozen one there are the values. */
static void a_frozen_layer_keeps_its_values_alone(void **state)
{
    (void)state;
    enum { MAPS = 8 * SIDE * SIDE * 16, PADDED = 32 };
    const deep few = measure_deep(4, true), many = measure_deep(8, true);
    const deep few_train = measure_deep(4, false), many_train = measure_deep(8, false);
    const int64_t numbers = many.numbers - few.numbers, floats = (int64_t)sizeof(float);
    const int64_t frozen = many.needed - few.needed, trains = many_train.needed - few_train.needed;
    print_message("four layers more, %lld numbers: %lld bytes, frozen %lld\n", (long long)numbers, (long long)trains,
                  (long long)frozen);
    assert_true(frozen >= 2 * numbers * floats && frozen <= (2 * numbers + 8 * PADDED) * floats);
    assert_true(trains >= (6 * numbers + 4 * MAPS) * floats);
}

/* Of a network so small that most of it is what a core keeps of each image: number, change and label. */
static void measure_tiny(int images, int64_t *said, int64_t *held)
{
    counting c = {0};
    ls_allocator allocator = {allocate, release, &c};
    uint8_t *bytes = calloc((size_t)images, 1);
    ls_session *s = ls_open(&(ls_options){.shard = images, .allocator = &allocator});
    ls_data *data = ls_data_from_memory(s, bytes, bytes, images, 1, 1, 1, 2, &(ls_loader){.batch = images});
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), ls_nn_linear(s, 2)));
    ls_module_initialize(net, test_cpus(1), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.01});
    ls_batch batch;
    ls_data_next(data, &batch);
    *held = -c.held;
    assert_int_equal(ls_trainer_memory_needed(trainer, data, said), LS_OK);
    test_step(net, trainer, &batch);
    ls_wait(s);
    *held += c.held;
    assert_int_equal(ls_close(s), LS_OK);
    free(bytes);
}

static void labels_count_too(void **state)
{
    (void)state;
    enum { IMAGES = 8192 };
    int64_t said[2], held[2];
    for (int i = 0; i < 2; i++)
        measure_tiny((i + 1) * IMAGES, &said[i], &held[i]);
    print_message("an image more: said %g, held %g\n", (double)(said[1] - said[0]) / IMAGES,
                  (double)(held[1] - held[0]) / IMAGES);
    assert_int_equal(said[1] - said[0], held[1] - held[0]);
}

/* Of a network whose statistics are most of what there is of each shard. */
static void measure_states(int shards, int64_t *said, int64_t *held)
{
    enum { CHANNELS = 2048, SHARD = 2 };
    const int rows = SHARD * shards;
    counting c = {0};
    ls_allocator allocator = {allocate, release, &c};
    uint8_t *pixels = calloc((size_t)rows * CHANNELS, 1), *classes = calloc((size_t)rows, 1);
    ls_session *s = ls_open(&(ls_options){.shard = SHARD, .allocator = &allocator});
    ls_data *data = ls_data_from_memory(s, pixels, classes, rows, CHANNELS, 1, 1, 2, &(ls_loader){.batch = rows});
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_batch_norm(s), ls_nn_fn(s, ls_flatten), ls_nn_linear(s, 2)));
    ls_module_initialize(net, test_cpus(1), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.01});
    ls_batch batch;
    *held = -c.held;
    assert_int_equal(ls_trainer_memory_needed(trainer, data, said), LS_OK);
    for (int epoch = 0; epoch < 3; epoch++) /* as many steps as are under way at once, and one more */
        while (ls_data_next(data, &batch))
            test_step(net, trainer, &batch);
    ls_wait(s);
    *held += c.held;
    assert_int_equal(ls_close(s), LS_OK);
    free(pixels);
    free(classes);
}

static void statistics_count_too(void **state)
{
    (void)state;
    enum { SHARDS = 16, RECORDS = 500 };
    int64_t said[2], held[2];
    for (int i = 0; i < 2; i++)
        measure_states((i + 1) * SHARDS, &said[i], &held[i]);
    const double more = (double)(said[1] - said[0]) / SHARDS, is = (double)(held[1] - held[0]) / SHARDS;
    print_message("a shard more: said %g, held %g\n", more, is);
    assert_true(is >= more && is - more < RECORDS);
}

/* Read before the first step, and clipped by it. */
static void a_gradient_lies_in_one_place(void **state)
{
    (void)state;
    static uint8_t images[ROWS], labels[ROWS];
    counting c = {0};
    ls_allocator allocator = {allocate, release, &c};
    ls_session *s = ls_open(&(ls_options){.allocator = &allocator});
    ls_data *data = ls_data_from_memory(s, images, labels, ROWS, 1, 1, 1, 2, &(ls_loader){.batch = ROWS});
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), ls_nn_linear(s, 2)));
    ls_module_initialize(net, test_cpus(1), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1, .clip_norm = 0.1});
    ls_batch batch;
    float bias[2];
    ls_data_next(data, &batch);
    ls_backward(test_losses(net, &batch));
    assert_int_equal(test_read_gradient(net, "1.bias", bias, 2), LS_OK);
    ls_trainer_step(trainer);
    assert_int_equal(ls_close(s), LS_OK);
    assert_int_equal(c.held, 0);
}

static void wrong_calls(void **state)
{
    (void)state;
    int64_t bytes;
    assert_int_equal(ls_trainer_memory_needed(NULL, NULL, &bytes), LS_BAD_ARGUMENT);
    ls_session *s = ls_open(NULL);
    ls_module *net = ls_lenet(s);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    assert_int_equal(ls_trainer_memory_needed(trainer, NULL, &bytes), LS_BAD_ARGUMENT);
    assert_int_equal(ls_close(s), LS_BAD_ARGUMENT);
}

static void devices_have_cores(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    int cores = ls_all_devices(s).n;
    assert_true(ls_device_core(ls_cpu(0)) >= 0);
    assert_int_equal(ls_device_core(ls_cpu(cores)), ls_device_core(ls_cpu(0)));
    assert_int_equal(ls_device_core(ls_host()), -1);
    assert_int_equal(ls_close(s), LS_OK);
}

/* A kernel that needs most for two groups of images. */
static size_t scratch_of_two(const ls_op_call *call)
{
    return call->groups == 2 ? 1000 : 10;
}

static size_t scratch_for(int capacity)
{
    ls_session *s = ls_open(NULL);
    ls_flat flat;
    ls_backend backend = *ls_backend_ref();
    backend.scratch = scratch_of_two;
    ls_flat_init(&flat, &s->context);
    ls_graph *graph = ls_graph_new(s, &backend, &flat, false);
    ls_value *x = ls_graph_value(graph, LS_IN_ARENA, 3, 4, 4, true);
    ls_graph_node(graph, LS_OP_INPUT, "")->out[0] = x;
    assert_int_equal(ls_flat_close(&flat), LS_OK);
    ls_plan *plan = ls_plan_new(graph, capacity);
    assert_non_null(plan);
    const size_t bytes = plan->scratch_bytes;
    ls_plan_free(plan);
    ls_graph_free(graph);
    ls_flat_destroy(&flat);
    assert_int_equal(ls_close(s), LS_OK);
    return bytes;
}

static void a_plan_has_the_scratch_of_every_shard(void **state)
{
    (void)state;
    assert_int_equal(scratch_for(16), 10);
    assert_int_equal(scratch_for(17), 1000);
    assert_int_equal(scratch_for(32), 1000);
    assert_int_equal(scratch_for(64), 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_what_is_held),
        cmocka_unit_test(what_is_frozen_has_no_gradient),
        cmocka_unit_test(a_frozen_layer_keeps_its_values_alone),
        cmocka_unit_test(labels_count_too),
        cmocka_unit_test(statistics_count_too),
        cmocka_unit_test(a_gradient_lies_in_one_place),
        cmocka_unit_test(wrong_calls),
        cmocka_unit_test(devices_have_cores),
        cmocka_unit_test(a_plan_has_the_scratch_of_every_shard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
