/* Devices that are compared: agreeing ones train as ever, one that computes wrong numbers is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "training.h"
#include "verify_run.h"

/* A device whose arithmetic is broken, or that errs once. */
static enum { RIGHT, ONE_THREAD, ONE_CALL } fault;
static int member; /* that comes out wrong */
static atomic_int threads, calls;
static _Thread_local int thread_number;

static int what_is_wrong(int rank, void *user)
{
    (void)rank, (void)user;
    if (!thread_number)
        thread_number = ++threads;
    const bool wrong = (fault == ONE_THREAD && thread_number == 1) || (fault == ONE_CALL && ++calls == 2);
    return wrong ? member : -1;
}

/* Trains six steps on a list of devices, comparing before each where asked to. The session, open. */
static ls_session *run(const char *devices, int kind, bool verify, char digits[65])
{
    threads = calls = 0;
    fault = kind;
    verify_make_wrong(what_is_wrong, NULL);
    verify_run r = verify_begin(devices, NULL);
    ls_batch batch;
    for (int step = 0; step < 6 && !ls_failed(r.s);)
        if (ls_data_next(r.data, &batch)) {
            ls_backward(test_losses(r.net, &batch));
            if (verify)
                ls_trainer_verify(r.trainer);
            ls_trainer_step(r.trainer);
            step++;
        }
    if (!ls_failed(r.s))
        assert_int_equal(ls_module_parameter_count(r.net), VERIFY_TENSORS); /* each is one of the members */
    ls_module_fingerprint(r.net, digits);
    return r.s;
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
    char digits[65], first[64];
    ls_session *s = run(devices, kind, true, digits);
    snprintf(first, sizeof first, ", first in %s; ", verify_members[member].words);
    if (!strstr(ls_message(s), "ls_trainer_verify: step 1, shard 0: cpu(") || !strstr(ls_message(s), words) ||
        !strstr(ls_message(s), first))
        fail_msg("on %s, wrong in %s: %s", devices, verify_members[member].words, ls_message(s));
    assert_int_equal(ls_close(s), LS_DIFFERS);
}

/* Whatever it is that comes out wrong. */
static void one_is_wrong(void **state)
{
    (void)state;
    for (member = 0; member < VERIFY_MEMBERS; member++) {
        assert_named("cpu:0-2", ONE_THREAD, "computes other bits than 2 of the 3 devices");
        assert_named("cpu:0-6", ONE_CALL, "computes other bits than 6 of the 7 devices");
        assert_named("cpu:0-1", ONE_THREAD, "cpu(0) and cpu(1) compute different bits");
        assert_named("cpu:0", ONE_CALL, "cpu(0) computes other bits the second time");
    }
}

static void wrong_calls(void **state)
{
    (void)state;
    assert_int_equal(ls_trainer_verify(NULL), LS_BAD_ARGUMENT);
    ls_session *s = ls_open(NULL);
    ls_module *net = ls_lenet(s);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    assert_int_equal(ls_trainer_verify(trainer), LS_STALE);
    assert_non_null(strstr(ls_message(s), "ls_trainer_verify: there is no fresh gradient"));
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
