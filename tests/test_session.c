/* The public interface: what sticks, what is refused, and with which words. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <lockstep_cluster.h>
#include <lockstep_profile.h>
#include <lockstep_trial.h>
#include <lockstep_weights.h>

#include "training.h"

static const uint8_t pixels[8 * 4 * 4] = {9, 8, 7}, classes_of[8] = {0, 1, 2, 0, 1, 2, 0, 1};

static ls_data *some_data(ls_session *s)
{
    return ls_data_from_memory(s, pixels, classes_of, 8, 1, 4, 4, 3, &(ls_loader){.batch = 3});
}

static ls_module *some_net(ls_session *s)
{
    ls_module *net = ls_sequential(s, NULL);
    ls_module_append(net, NULL, ls_nn_conv2d(s, 2, 3, NULL));
    ls_module_append(net, NULL, ls_nn_fn(s, ls_flatten));
    ls_module_append(net, NULL, ls_nn_linear(s, 3));
    return net;
}

/* Closes a session that must have failed as said. */
static void assert_failed(ls_session *s, ls_status status, const char *words)
{
    if (!strstr(ls_message(s), words))
        print_message("message: %s\n", ls_message(s));
    assert_true(ls_failed(s));
    assert_non_null(strstr(ls_message(s), words));
    assert_int_equal(ls_status_of(s), status);
    assert_int_equal(ls_close(s), status);
}

static void the_first_error_sticks(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    assert_false(ls_failed(s));
    assert_string_equal(ls_message(s), "");
    assert_null(ls_model(s, "alexnet"));
    assert_null(ls_lenet(s));
    assert_int_equal(ls_parse_devices(s, "cpu:0").n, 0);
    assert_int_equal(ls_module_append(NULL, NULL, NULL), LS_BAD_ARGUMENT);
    assert_failed(s, LS_BAD_ARGUMENT, "model \"alexnet\" is not known; there are lenet and resnet18");
}

/* One place for each module, known before the parameters are made. */
static void appended(ls_status (*wrongly)(ls_module *net, ls_session *s), const char *words)
{
    ls_session *s = ls_open(NULL);
    ls_module *net = some_net(s);
    ls_module_append(net, "fc", ls_sequential(s, LS_LIST(ls_nn_linear(s, 3))));
    assert_int_equal(ls_status_of(s), LS_OK);
    assert_int_equal(wrongly(net, s), LS_BAD_ARGUMENT);
    assert_failed(s, LS_BAD_ARGUMENT, words);
}

static ls_status in_itself(ls_module *net, ls_session *s)
{
    (void)s;
    return ls_module_append(net, "self", net);
}

static ls_status in_a_circle(ls_module *net, ls_session *s)
{
    (void)s;
    return ls_module_append(ls_module_child(net, "fc"), "round", net);
}

static ls_status to_a_layer(ls_module *net, ls_session *s)
{
    return ls_module_append(ls_module_child(net, "2"), "drop", ls_nn_dropout(s, 0.5));
}

static ls_status to_lenet(ls_module *net, ls_session *s)
{
    (void)net;
    return ls_module_append(ls_lenet(s), "drop", ls_nn_dropout(s, 0.5));
}

static ls_status after_like(ls_module *net, ls_session *s)
{
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = some_data(s)});
    assert_int_equal(ls_status_of(s), LS_OK);
    return ls_module_append(ls_module_child(net, "fc"), NULL, ls_nn_linear(s, 3));
}

static ls_status after_a_call(ls_module *net, ls_session *s)
{
    ls_batch batch;
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL);
    ls_module_append(net, "in time", ls_nn_linear(s, 3));
    assert_true(ls_data_next(some_data(s), &batch));
    ls_module_infer(net, batch.X);
    assert_int_equal(ls_module_parameter_count(net), 8);
    return ls_module_append(net, "late", ls_nn_linear(s, 3));
}

static ls_status with_values(ls_module *net, ls_session *s)
{
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL);
    return ls_module_append(ls_sequential(s, NULL), "net", net);
}

/* Parameters are there at once, and are those that data of the shape give. */
static void a_shape_tells_the_parameters(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    const ls_devices devices = ls_parse_devices(s, "cpu:0");
    ls_module *by_data = some_net(s), *by_shape = some_net(s),
              *features = ls_sequential(s, LS_LIST(ls_nn_linear(s, 3)));
    ls_module_initialize(by_data, devices, &(ls_init){.like = some_data(s)});
    ls_module_initialize(by_shape, devices, &(ls_init){.shape = LS_SHAPE(0, 1, 4, 4)});
    assert_true(ls_module_checksum(by_data) == ls_module_checksum(by_shape));
    assert_int_equal(ls_module_images_shape(by_shape).dim[0], -1);
    ls_module_initialize(features, devices, &(ls_init){.shape = LS_SHAPE(7, 5)});
    ls_parameter_info weight;
    assert_int_equal(ls_module_parameter_at(features, 0, &weight), LS_OK);
    assert_int_equal(weight.shape[1], 5);
    assert_int_equal(ls_dim(ls_module_infer(features, ls_zeros(s, LS_SHAPE(2, 5))), 1), 3);
    assert_int_equal(ls_close(s), LS_OK);
}

static void wrong_start(ls_init init, ls_status status, const char *words)
{
    ls_session *s = ls_open(NULL);
    assert_int_equal(ls_module_initialize(some_net(s), ls_parse_devices(s, "cpu:0"), &init), status);
    assert_failed(s, status, words);
}

static void wrong_shapes_are_refused(void **state)
{
    (void)state;
    const char *sizes = "ls_module_initialize: init.shape has a size that is not above 0, or more than 4 of them";
    wrong_start((ls_init){.shape = LS_SHAPE(1, 0)}, LS_BAD_ARGUMENT, sizes);
    wrong_start((ls_init){.shape = LS_SHAPE(1, 1, 4, -1)}, LS_BAD_ARGUMENT, sizes);
    wrong_start((ls_init){.shape = {.rank = 5}}, LS_BAD_ARGUMENT, sizes);
    wrong_start((ls_init){.shape = {.rank = -1}}, LS_BAD_ARGUMENT, sizes);
    wrong_start((ls_init){.shape = LS_SHAPE(1, 1, 2, 2)}, LS_BAD_SHAPE, "the kernel is larger than the padded map");
    ls_session *s = ls_open(NULL);
    const ls_init both = {.like = some_data(s), .shape = LS_SHAPE(1, 1, 4, 4)};
    assert_int_equal(ls_module_initialize(some_net(s), ls_parse_devices(s, "cpu:0"), &both), LS_BAD_ARGUMENT);
    assert_failed(s, LS_BAD_ARGUMENT, "init has like and shape, and either tells what is to come; set one of them");
}

static ls_status a_part_alone(ls_module *net, ls_session *s)
{
    return ls_module_initialize(ls_module_child(ls_module_child(net, "fc"), "0"), ls_parse_devices(s, "cpu:0"), NULL);
}

static void a_module_has_its_place_in_time(void **state)
{
    (void)state;
    appended(in_itself, "ls_module_append: \"self\" would be a part of itself");
    appended(in_a_circle, "ls_module_append: \"round\" would be a part of itself");
    appended(to_a_layer, "\"drop\": the parent, 2, is a layer");
    appended(to_lenet, "\"drop\": the parent, the network, is a layer or a whole network");
    appended(after_like,
             "ls_module_append: \"1\" comes too late to fc: the parameters were made when the images' shape became "
             "known; append before the first call, and before ls_module_initialize with init.shape or init.like");
    appended(after_a_call,
             "ls_module_append: \"late\" comes too late to the network: the parameters were made when the images' "
             "shape became known; append before the first call, and before ls_module_initialize with init.shape or "
             "init.like");
    appended(with_values,
             "ls_module_append: \"net\" has values of its own; append it first, then initialize the outermost module");
    appended(a_part_alone, "ls_module_initialize: \"fc.0\" is a part of another module; initialize the outermost one, "
                           "which has the values");
}

static void options_are_checked(void **state)
{
    (void)state;
    assert_failed(ls_open(&(ls_options){.shard = -1}), LS_BAD_ARGUMENT,
                  "ls_open: shard is -1; it must be from 1 to 1048576");
    assert_failed(ls_open(&(ls_options){.trial = &(ls_trial){.host_ranks = -1}}), LS_BAD_ARGUMENT,
                  "ls_open: host_ranks is -1; it must be at least 0");
    assert_failed(ls_open(&(ls_options){.allocator = &(ls_allocator){0}}), LS_BAD_ARGUMENT,
                  "ls_open: an allocator needs both functions, allocate and release");
    assert_failed(ls_open(&(ls_options){.isa = (ls_isa)99}), LS_BAD_ARGUMENT, "instruction set");
    assert_failed(ls_open(&(ls_options){.conv = (ls_algorithm)9}), LS_BAD_ARGUMENT, "algorithm");
#if defined __x86_64__
    assert_failed(ls_open(&(ls_options){.isa = LS_ISA_NEON}), LS_NO_DEVICE, "instruction set");
    /* A cap: what the machine lacks of it is no error. */
    ls_session *any = ls_open(NULL);
    static const ls_isa caps[] = {LS_ISA_AVX512, LS_ISA_AVX2};
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        ls_session *s = ls_open(&(ls_options){.isa = caps[i]});
        assert_string_equal(ls_message(s), "");
        if (i == 0)
            assert_string_equal(ls_isa_name(s), ls_isa_name(any));
        else
            assert_string_not_equal(ls_isa_name(s), "avx512");
        assert_int_equal(ls_close(s), LS_OK);
    }
    assert_int_equal(ls_close(any), LS_OK);
#endif
}

static void device_lists(void **state)
{
    (void)state;
    static const struct {
        const char *list, *shown;
    } good[] = {{"cpu:0", "[cpu(0)]"},
                {"cpu:0-0", "[cpu(0)]"},
                {"cpu:1,cpu:0", "[cpu(1), cpu(0)]"},
                {"cpu:0-2", "[cpu(0), cpu(1), cpu(2)]"},
                {"cpu:0-15", "[cpu(0), ..., cpu(15)]"},
                {"cpu:255", "[cpu(255)]"}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ls_session *s = ls_open(NULL);
        assert_string_equal(ls_devices_str(s, ls_parse_devices(s, good[i].list)), good[i].shown);
        assert_int_equal(ls_close(s), LS_OK);
    }
    static const struct {
        const char *list;
        ls_status status;
        const char *words;
    } bad[] = {
        {"", LS_BAD_ARGUMENT, "ls_parse_devices: the list is empty"},
        {"cpu", LS_BAD_ARGUMENT, "devices \"cpu\": \"cpu\" should be like cpu:0, cpu:0-3 or cuda:0"},
        {"cpu:0,cpu:", LS_BAD_ARGUMENT, "devices \"cpu:0,cpu:\": \"cpu:\" should be like cpu:0, cpu:0-3 or cuda:0"},
        {"cpu:0,", LS_BAD_ARGUMENT, "devices \"cpu:0,\": \"\" should be like cpu:0, cpu:0-3 or cuda:0"},
        {"cpu:2-1", LS_BAD_ARGUMENT, "devices \"cpu:2-1\": \"cpu:2-1\" should be like"},
        {"cpu:2-", LS_BAD_ARGUMENT, "devices \"cpu:2-\": \"cpu:2-\" should be like"},
        {"cpu:0x", LS_BAD_ARGUMENT, "devices \"cpu:0x\": \"cpu:0x\" should be like"},
        {"cpu:0x2", LS_BAD_ARGUMENT, "devices \"cpu:0x2\": \"cpu:0x2\" should be like"},
        {"cuda:0x0", LS_BAD_ARGUMENT, "devices \"cuda:0x0\": \"cuda:0x0\" should be like"},
        {"tpu:0", LS_BAD_ARGUMENT, "devices \"tpu:0\": \"tpu:0\" should be like"},
        {"cpu:0-3,cpu:2", LS_BAD_ARGUMENT, "devices \"cpu:0-3,cpu:2\": cpu:2 is named twice"},
        {"cpu:256", LS_NO_DEVICE, "devices \"cpu:256\": there is no cpu:256; the last is cpu:255"},
        {"cpu:0-99999999999999999999", LS_NO_DEVICE,
         "devices \"cpu:0-99999999999999999999\": there is no cpu:1000000; the last is cpu:255"},
        {"cuda:0", LS_NO_DEVICE, "devices \"cuda:0\": there is no cuda:0: "},
        {"gpu:1-2", LS_NO_DEVICE, "devices \"gpu:1-2\": there is no cuda:1: "},
        {"cuda:0x2", LS_NO_DEVICE, "devices \"cuda:0x2\": there is no cuda:0: "}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ls_session *s = ls_open(NULL);
        assert_int_equal(ls_parse_devices(s, bad[i].list).n, 0);
        assert_failed(s, bad[i].status, bad[i].words);
    }
}

/* What no list of devices can hold, as a caller's own structure may. */
static void devices_out_of_range(void **state)
{
    (void)state;
    uint64_t sum;
    ls_session *s = ls_open(NULL);
    ls_self_test(s, (ls_devices){.n = 1, .at = {{9, 9}}}, &sum);
    assert_failed(s, LS_BAD_ARGUMENT, "ls_module_initialize: type 9 is no type of device");
    s = ls_open(NULL);
    assert_string_equal(ls_devices_str(s, (ls_devices){.n = LS_MAX_DEVICES + 1}), "[]");
    assert_string_equal(ls_devices_str(s, (ls_devices){.n = -1}), "[]");
    assert_string_equal(ls_device_about(s, ls_host()), "the host");
    assert_int_equal(ls_close(s), LS_OK);
    static const ls_device none[] = {{LS_CPU, -1}, {LS_CPU, LS_MAX_DEVICES}, {9, 0}};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        s = ls_open(NULL);
        assert_string_equal(ls_device_about(s, none[i]), "");
        assert_failed(s, none[i].type == LS_CPU ? LS_NO_DEVICE : LS_BAD_ARGUMENT, "ls_device_about: ");
        assert_int_equal(ls_device_core(none[i]), -1);
    }
}

/* The smallest images of the book's networks: LeNet names its own, ResNet-18 takes any. */
static void images_may_be_too_small(void **state)
{
    (void)state;
    static const struct {
        const char *model, *words;
        int height, width;
    } rows[] = {{"lenet", NULL, 14, 14},
                {"lenet", "images of 13 x 14 are too small for lenet, which takes 14 x 14 and larger", 13, 14},
                {"lenet", "images of 28 x 8 are too small for lenet, which takes 14 x 14 and larger", 28, 8},
                {"resnet18", NULL, 1, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_session *s = ls_open(NULL);
        ls_module *net = ls_model(s, rows[i].model);
        ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL);
        ls_module_infer(net, ls_zeros(s, LS_SHAPE(1, 1, rows[i].height, rows[i].width)));
        if (rows[i].words)
            assert_failed(s, LS_BAD_SHAPE, rows[i].words);
        else
            assert_int_equal(ls_close(s), LS_OK);
    }
}

static void networks_need_values(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_data *data = some_data(s);
    ls_module *net = some_net(s);
    assert_null(ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1}));
    assert_failed(s, LS_NOT_INITIALIZED,
                  "ls_trainer_new: the network has no values yet; call ls_module_initialize first");

    s = ls_open(NULL);
    data = some_data(s);
    net = some_net(s);
    assert_int_equal(ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data}), LS_OK);
    assert_int_equal(ls_module_initialize(net, ls_parse_devices(s, "cpu:0-1"), &(ls_init){.force = true, .like = data}),
                     LS_OK);
    assert_int_equal(ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data}),
                     LS_BAD_ARGUMENT);
    assert_failed(s, LS_BAD_ARGUMENT,
                  "ls_module_initialize: the network has values already; set init.force to draw them again");
}

static ls_tensor *misfit(ls_module *self, ls_tensor *x)
{
    return ls_matmul(ls_flatten(x), ls_module_parameter(self, "W", LS_SHAPE(7, 3)));
}

static ls_tensor *too_many_numbers(ls_module *self, ls_tensor *x)
{
    return ls_matmul(ls_flatten(x), ls_module_parameter(self, "W", LS_SHAPE(1 << 24, 256)));
}

static ls_tensor *nothing(ls_module *self, ls_tensor *x)
{
    (void)self;
    (void)x;
    return NULL;
}

static void graphs_are_checked(void **state)
{
    (void)state;
    static const struct {
        ls_forward *forward;
        ls_status status;
        const char *words;
    } bad[] = {
        {misfit, LS_BAD_SHAPE, "ls_matmul"},
        {too_many_numbers, LS_BAD_SHAPE, "parameter W: more than 2147483647 numbers; make several of it"},
        {nothing, LS_BAD_SHAPE, "the network's forward must return what it made of its input, a row for each image"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ls_session *s = ls_open(NULL);
        ls_module_initialize(ls_block(s, bad[i].forward, NULL), ls_parse_devices(s, "cpu:0"),
                             &(ls_init){.like = some_data(s)});
        assert_failed(s, bad[i].status, bad[i].words);
    }
}

static void assert_refused(ls_optimizer kind, const ls_optim *optim, const char *words)
{
    ls_session *s = ls_open(NULL);
    ls_module *net = some_net(s);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = some_data(s)});
    assert_null(ls_trainer_new(net, kind, optim));
    assert_failed(s, LS_BAD_ARGUMENT, words);
}

static void trainers_are_checked(void **state)
{
    (void)state;
    static const struct {
        ls_optim optim;
        const char *words;
    } bad[] =
        {{{.lr = -1}, "ls_trainer_new: lr must be at least 0 and below 1e30"},
         {{.lr = NAN}, "ls_trainer_new: lr must be at least 0 and below 1e30"},
         {{.lr = 1e30}, "ls_trainer_new: lr must be at least 0 and below 1e30"},
         {{.lr = 1, .weight_decay = NAN},
          "ls_trainer_new: momentum and weight_decay must be at least 0 and below 1e30"},
         {{.lr = 1, .weight_decay = 1e30}, "ls_trainer_new: momentum and weight_decay must be"},
         {{.lr = 1, .weight_decay = -1e-9}, "ls_trainer_new: momentum and weight_decay must be"},
         {{.lr = 1, .momentum = 1e30}, "ls_trainer_new: momentum and weight_decay must be"},
         {{.lr = 1, .momentum = -0.5}, "ls_trainer_new: momentum and weight_decay must be"},
         {{.lr = 1, .nesterov = true}, "ls_trainer_new: nesterov needs a momentum"},
         {{.lr = 1, .schedule = LS_COSINE},
          "ls_trainer_new: the step, cosine, linear and one-cycle schedules need total, the steps of the whole run"},
         {{.lr = 1, .schedule = LS_STEP_SCHEDULE}, "one-cycle schedules need total"},
         {{.lr = 1, .warmup = -1}, "ls_trainer_new: warmup and total must be at least 0"},
         {{.lr = 1, .total = -1}, "ls_trainer_new: warmup and total must be at least 0"},
         {{.lr = 1, .clip_norm = -1e-9}, "ls_trainer_new: clip_norm must be at least 0 and below 1e30"},
         {{.lr = 1, .clip_norm = 1e30}, "ls_trainer_new: clip_norm must be at least 0 and below 1e30"},
         {{.lr = 1, .full_batch = -1}, "ls_trainer_new: full_batch must be at least 0"},
         {{.lr = 1, .schedule = (ls_schedule)-1}, "ls_trainer_new: there is no such schedule"},
         {{.lr = 1, .schedule = (ls_schedule)7, .total = 1}, "ls_trainer_new: there is no such schedule"},
         {{.lr = 1, .beta1 = 0.5}, "ls_trainer_new: beta1, beta2 and eps are Adam's"},
         {{.lr = 1, .beta2 = 0.5}, "ls_trainer_new: beta1, beta2 and eps are Adam's"},
         {{.lr = 1, .eps = 1e-8}, "ls_trainer_new: beta1, beta2 and eps are Adam's"}},
      rates[] = {{{.lr = 1, .schedule = LS_LINEAR}, "need total"},
                 {{.lr = 1, .schedule = LS_ONE_CYCLE}, "need total"},
                 {{.lr = 1, .schedule = LS_ONE_CYCLE, .total = 5, .warmup = 5}, "must be below total"},
                 {{.lr = 1, .after_warmup = true}, "after_warmup needs a warmup"},
                 {{.lr = 1, .schedule = LS_ONE_CYCLE, .total = 9, .warmup = 2, .after_warmup = true},
                  "the one-cycle schedule has its own"},
                 {{.lr = 1, .schedule = LS_COSINE, .total = 5, .warmup = 5, .after_warmup = true},
                  "with after_warmup warmup must be below total"},
                 {{.lr = 1, .schedule = LS_EXPONENTIAL}, "needs gamma"},
                 {{.lr = 1, .schedule = LS_EXPONENTIAL, .gamma = -1}, "needs gamma"},
                 {{.lr = 1, .schedule = LS_EXPONENTIAL, .gamma = INFINITY}, "needs gamma"},
                 {{.lr = 1, .schedule = LS_WARM_RESTARTS}, "warm restarts need period"},
                 {{.lr = 1, .schedule = LS_EXPONENTIAL, .gamma = 1, .period = -1},
                  "period of the exponential schedule must"},
                 {{.lr = 1, .schedule = LS_WARM_RESTARTS, .period = -1}, "warm restarts need period, above 0"},
                 {{.lr = 1, .schedule = LS_WARM_RESTARTS, .period = 2, .period_factor = -1}, "period_factor must"},
                 {{.lr = 1, .period = -1}, "period is of the exponential"},
                 {{.lr = 1, .schedule = LS_COSINE, .total = 2, .gamma = -1}, "gamma is the exponential"},
                 {{.lr = 1, .schedule = LS_LINEAR, .total = 2, .start_factor = -2}, "start_factor and end_factor"},
                 {{.lr = 1, .schedule = LS_LINEAR, .total = 2, .end_factor = NAN}, "start_factor and end_factor"},
                 {{.lr = 1, .gamma = 1}, "gamma is the exponential"},
                 {{.lr = 1, .schedule = LS_COSINE, .total = 2, .period = 1}, "period is of"},
                 {{.lr = 1, .schedule = LS_EXPONENTIAL, .gamma = 1, .period_factor = 1}, "period_factor is of"},
                 {{.lr = 1, .schedule = LS_COSINE, .total = 2, .start_factor = 1}, "start_factor is of"},
                 {{.lr = 1, .schedule = LS_STEP_SCHEDULE, .total = 2, .end_factor = 1}, "end_factor is of"}},
      adams[] = {
          {{.lr = 1, .momentum = 0.9}, "ls_trainer_new: momentum is SGD's; Adam has beta1"},
          {{.lr = 1, .beta1 = 1}, "ls_trainer_new: beta1 and beta2 must be below 1, and above 0 or -1, which is none"},
          {{.lr = 1, .beta2 = 1}, "ls_trainer_new: beta1 and beta2 must be below 1, and above 0 or -1, which is none"},
          {{.lr = 1, .beta1 = -0.1},
           "ls_trainer_new: beta1 and beta2 must be below 1, and above 0 or -1, which is none"},
          {{.lr = 1, .eps = 1e30}, "ls_trainer_new: eps must be below 1e30, no smaller than a float can be"},
          {{.lr = 1, .eps = -1e-8}, "ls_trainer_new: eps must be below 1e30, no smaller than a float can be"},
          {{.lr = 1, .beta2 = -0.1},
           "ls_trainer_new: beta1 and beta2 must be below 1, and above 0 or -1, which is none"},
          {{.lr = 1, .eps = 1e-60}, "ls_trainer_new: eps must be below 1e30, no smaller than a float can be"},
          {{.lr = 1, .eps = NAN}, "ls_trainer_new: eps must be below 1e30, no smaller than a float can be"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(LS_SGD, &bad[i].optim, bad[i].words);
    for (size_t i = 0; i < sizeof adams / sizeof *adams; i++)
        assert_refused(i % 2 ? LS_ADAM : LS_ADAMW, &adams[i].optim, adams[i].words);
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        assert_refused(i % 2 ? LS_SGD : LS_ADAM, &rates[i].optim, rates[i].words);
    assert_refused((ls_optimizer)3, &(ls_optim){.lr = 1}, "ls_trainer_new: there is no such optimizer");
    assert_refused((ls_optimizer)-1, &(ls_optim){.lr = 1}, "ls_trainer_new: there is no such optimizer");
    assert_refused(LS_ADAM, NULL, "ls_trainer_new: options are NULL");
    ls_session *s = ls_open(NULL);
    ls_module *net = some_net(s);
    ls_data *data = some_data(s);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    assert_null(ls_trainer_new(net, LS_ADAM, &(ls_optim){.lr = 0.1}));
    assert_non_null(
        strstr(ls_message(s), "ls_trainer_new: the network has a trainer already; ls_trainer_set_lr changes"));
    assert_true(ls_catch(s, LS_BAD_ARGUMENT));
    assert_int_equal(ls_trainer_step(trainer), LS_STALE);
    assert_failed(s, LS_STALE,
                  "ls_trainer_step: there is no fresh gradient; call ls_backward on a loss of this network first");
}

static void a_trainer_does_not_outlive_its_values(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *net = some_net(s);
    ls_data *data = some_data(s);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    ls_batch batch;
    assert_true(ls_data_next(data, &batch));
    assert_int_equal(test_step(net, trainer, &batch), LS_OK);
    assert_int_equal(ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.force = true, .like = data}),
                     LS_OK);
    assert_int_equal(test_step(net, trainer, &batch), LS_NOT_INITIALIZED);
    assert_failed(s, LS_NOT_INITIALIZED,
                  "ls_trainer_step: the network was initialized again after this trainer was made; make a new one");
}

static void data_from_memory(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_data *data = some_data(s);
    assert_int_equal(ls_data_rows(data), 8);
    assert_int_equal(ls_data_batches(data), 3);
    ls_batch batch;
    int rows[4] = {0};
    for (int i = 0; ls_data_next(data, &batch); i++)
        rows[i] = (int)ls_rows(batch.X);
    assert_int_equal(rows[0], 3);
    assert_int_equal(rows[2], 2);
    assert_true(ls_data_next(data, &batch));
    assert_int_equal(batch.epoch, 1);
    assert_null(ls_data_from_memory(s, pixels, classes_of, 8, 1, 4, 4, 2, NULL));
    assert_failed(s, LS_BAD_ARGUMENT, "ls_data_from_memory: the label of row 2 is 2; of 2 classes labels are 0 to 1");
}

static void parameters_by_name(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *net = ls_resnet18(s, 10);
    uint8_t *image = calloc(28 * 28, 1);
    ls_data *data = ls_data_from_memory(s, image, image, 1, 1, 28, 28, 10, NULL);
    assert_int_equal(ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data}), LS_OK);
    int64_t numbers = 0;
    bool found = false;
    for (int i = 0; i < ls_module_parameter_count(net); i++) {
        ls_parameter_info info;
        assert_int_equal(ls_module_parameter_at(net, i, &info), LS_OK);
        numbers += info.trainable ? info.numbers : 0;
        if (strcmp(info.name, "resnet_block2.0.conv3.weight") == 0)
            found = info.rank == 4 && info.shape[0] == 128 && info.shape[1] == 64 && info.shape[2] == 1;
    }
    assert_int_equal(numbers, 11175818);
    assert_true(found);
    float one[1];
    assert_int_equal(ls_module_read_parameter(net, "fc.1.bias", one, 1), LS_BAD_SHAPE);
    free(image);
    assert_failed(s, LS_BAD_SHAPE, "ls_module_read_parameter: parameter fc.1.bias has 10 numbers, not 1");
}

static void names_of_everything(void **state)
{
    (void)state;
    assert_true(strlen(ls_version()) > 0);
    assert_non_null(strstr(ls_features(), "fingerprints"));
    static const char *const names[] = {
        [LS_OK] = "ok",
        [LS_BAD_ARGUMENT] = "bad argument",
        [LS_BAD_SHAPE] = "bad shape",
        [LS_NO_DEVICE] = "no such device",
        [LS_BAD_FILE] = "bad file",
        [LS_IO] = "input/output error",
        [LS_NOT_INITIALIZED] = "not initialized",
        [LS_SHAPE_UNKNOWN] = "shape not known yet",
        [LS_STALE] = "stale",
        [LS_NOT_FINITE] = "not finite",
        [LS_OUT_OF_MEMORY] = "out of memory",
        [LS_UNSUPPORTED] = "unsupported",
        [LS_INTERNAL] = "internal error",
        [LS_BUSY] = "in use",
        [LS_CHANGED] = "other settings",
        [LS_DIFFERS] = "devices differ",
        [LS_INTERRUPTED] = "interrupted",
    };
    for (int i = 0; i <= LS_INTERRUPTED; i++)
        assert_string_equal(ls_status_name((ls_status)i), names[i]);
    assert_string_equal(ls_status_name((ls_status)99), "unknown status");
    ls_session *s = ls_open(NULL);
    assert_true(strlen(ls_isa_name(s)) > 0);
    assert_non_null(strstr(ls_device_about(s, (ls_device){LS_CPU, 0}), "core"));
    assert_true(ls_all_devices(s).n >= 1);
    assert_int_equal(ls_wait(s), LS_OK);
    assert_int_equal(ls_close(s), LS_OK);
}

static void null_is_survived(void **state)
{
    (void)state;
    assert_int_equal(ls_close(NULL), LS_OUT_OF_MEMORY);
    ls_cluster_launched(NULL, NULL, NULL);
    assert_true(ls_failed(NULL));
    assert_null(ls_lenet(NULL));
    assert_null(ls_data_fashion_mnist(NULL, LS_TRAIN, NULL));
    assert_int_equal(ls_module_initialize(NULL, (ls_devices){.n = 0}, NULL), LS_BAD_ARGUMENT);
    assert_int_equal(ls_trainer_step(NULL), LS_BAD_ARGUMENT);
    assert_int_equal(ls_trainer_check_batches(NULL, NULL), LS_BAD_ARGUMENT);
    bool direct = true;
    assert_string_equal(ls_trainer_transport(NULL, &direct), "");
    assert_false(direct || ls_trainer_balanced(NULL, NULL));
    ls_trainer_vote(NULL, 1);
    assert_int_equal(ls_trainer_voted(NULL), 0);
    assert_int_equal(ls_module_save(NULL, NULL), LS_BAD_ARGUMENT);
    assert_int_equal(ls_module_check_save(NULL, NULL), LS_BAD_ARGUMENT);
    assert_int_equal(ls_module_load(NULL, NULL), LS_BAD_ARGUMENT);
    assert_int_equal(ls_module_fingerprint(NULL, NULL), LS_BAD_ARGUMENT);
    assert_int_equal(ls_module_evaluate(NULL, NULL, NULL), LS_BAD_ARGUMENT);
    assert_int_equal(ls_wait(NULL), LS_BAD_ARGUMENT);
    assert_false(ls_data_next(NULL, NULL));
    assert_false(ls_trainer_next_report(NULL, NULL));
    assert_null(ls_relu(NULL));
    assert_null(ls_conv2d(NULL, NULL, NULL, NULL));
    assert_null(ls_module_call(NULL, NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_error_sticks),
        cmocka_unit_test(a_module_has_its_place_in_time),
        cmocka_unit_test(a_shape_tells_the_parameters),
        cmocka_unit_test(wrong_shapes_are_refused),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(device_lists),
        cmocka_unit_test(devices_out_of_range),
        cmocka_unit_test(images_may_be_too_small),
        cmocka_unit_test(networks_need_values),
        cmocka_unit_test(graphs_are_checked),
        cmocka_unit_test(trainers_are_checked),
        cmocka_unit_test(a_trainer_does_not_outlive_its_values),
        cmocka_unit_test(data_from_memory),
        cmocka_unit_test(parameters_by_name),
        cmocka_unit_test(names_of_everything),
        cmocka_unit_test(null_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
