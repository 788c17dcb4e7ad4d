/* Devices that are compared: agreeing ones train as ever, one that computes wrong numbers is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "training.h"

enum { IMAGES = 24, SIDE = 6, CLASSES = 3 };

/* An operation that passes on what it gets, but for the last bits on one thread: a device whose arithmetic is broken. */
static enum { RIGHT, ONE_THREAD, ONE_CALL } fault;
static atomic_int threads, calls;
static _Thread_local int thread_number;

static void copy(const ls_custom_call *call, const float *const in[], float *out)
{
    size_t n = (size_t)call->rows * call->out[0] * call->out[1] * call->out[2];
    memcpy(out, in[0], n * sizeof *out);
    if (!thread_number)
        thread_number = ++threads;
    if ((fault == ONE_THREAD && thread_number == 1) || (fault == ONE_CALL && ++calls == 2))
        for (size_t i = 0; i < n; i++)
            out[i] *= 1 + 0x1p-20f; /* a few of the last bits */
}

static void copy_back(const ls_custom_call *call, const float *const in[], const float *out, const float *dout,
                      float *const din[])
{
    (void)in, (void)out;
    size_t n = (size_t)call->rows * call->out[0] * call->out[1] * call->out[2];
    if (din[0])
        memcpy(din[0], dout, n * sizeof *dout);
}

static ls_tensor *passed_on(ls_tensor *x)
{
    return ls_custom_op(&(ls_custom){.name = "pass", .inputs = 1, .forward = copy, .backward = copy_back},
                        (ls_tensor *[]){x});
}

/* Trains six steps on a list of devices, comparing before each where asked to. The session, open. */
static ls_session *run(const char *devices, int kind, bool verify, char digits[65])
{
    static uint8_t images[IMAGES * SIDE * SIDE], labels[IMAGES];
    test_make_images(images, sizeof images, labels, IMAGES, CLASSES);
    threads = calls = 0;
    fault = kind;
    ls_session *s = ls_open(&(ls_options){.shard = 4});
    ls_data *data = ls_data_from_memory(s, images, labels, IMAGES, 1, SIDE, SIDE, CLASSES, &(ls_loader){.batch = 10});
    ls_module *net = ls_sequential(s, NULL);
    ls_append(net, NULL, ls_nn_conv2d(s, 4, 3, NULL));
    ls_append(net, NULL, ls_nn_batch_norm(s));
    ls_append(net, NULL, ls_nn_fn(s, ls_relu));
    ls_append(net, NULL, ls_nn_fn(s, passed_on));
    ls_append(net, NULL, ls_nn_dropout(s, 0.2));
    ls_append(net, NULL, ls_nn_fn(s, ls_flatten));
    ls_append(net, NULL, ls_nn_linear(s, CLASSES));
    ls_initialize(net, ls_parse_devices(s, devices), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1, .momentum = 0.9});
    ls_batch batch;
    for (int step = 0; step < 6 && !ls_failed(s);)
        if (ls_next(data, &batch)) {
            ls_backward(test_losses(net, &batch));
            if (verify)
                ls_verify(trainer);
            ls_step(trainer);
            step++;
        }
    ls_fingerprint(net, digits);
    return s;
}

static void they_agree(void **state)
{
    (void)state;
    static const char *const lists[] = {"cpu:0", "cpu:0-1", "cpu:0-4"};
    char plain[65], verified[65];
    assert_int_equal(ls_close(run("cpu:0", RIGHT, false, plain)), LS_OK);
    for (int i = 0; i < 3; i++) {
        ls_session *s = run(lists[i], RIGHT, true, verified);
        if (ls_failed(s))
            fail_msg("%s", ls_message(s));
        assert_int_equal(ls_close(s), LS_OK);
        assert_string_equal(verified, plain);
    }
}

static void assert_named(const char *devices, int kind, const char *words)
{
    char digits[65];
    ls_session *s = run(devices, kind, true, digits);
    if (!strstr(ls_message(s), words))
        fail_msg("on %s: %s", devices, ls_message(s));
    assert_non_null(strstr(ls_message(s), "ls_verify: step 1, shard 0: cpu("));
    assert_non_null(strstr(ls_message(s), ", first in the gradient of 0.weight"));
    assert_int_equal(ls_close(s), LS_DIFFERS);
}

static void one_is_wrong(void **state)
{
    (void)state;
    assert_named("cpu:0-2", ONE_THREAD, "computes other bits than 2 of the 3 devices");
    assert_named("cpu:0-6", ONE_CALL, "computes other bits than 6 of the 7 devices");
    assert_named("cpu:0-1", ONE_THREAD, "cpu(0) and cpu(1) compute different bits");
    assert_named("cpu:0", ONE_CALL, "cpu(0) computes other bits the second time");
}

static void wrong_calls(void **state)
{
    (void)state;
    assert_int_equal(ls_verify(NULL), LS_BAD_ARGUMENT);
    ls_session *s = ls_open(NULL);
    ls_module *net = ls_lenet(s);
    ls_initialize(net, ls_parse_devices(s, "cpu:0"), NULL);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    assert_int_equal(ls_verify(trainer), LS_STALE);
    assert_non_null(strstr(ls_message(s), "ls_verify: there is no fresh gradient"));
    assert_int_equal(ls_close(s), LS_STALE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_agree),
        cmocka_unit_test(one_is_wrong),
        cmocka_unit_test(wrong_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
