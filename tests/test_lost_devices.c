/* Devices that fail in the middle of a shard, do not come back from it, or are slow: the others compute what they left,
 * and the bits are the same. */
#include <lockstep_trial.h>
#include "not_run.h"
#include "tensors.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "base/cores.h"
#include "base/session.h"
#include "training.h"

enum { ROWS = 16, BATCH = 8, SHARD = 2, SIDE = 12, CLASSES = 4, STEPS = 4, WIDE = 2700 };

static uint8_t images[ROWS * SIDE * SIDE], labels[ROWS];

typedef struct run {
    ls_session *s;
    ls_data *data;
    ls_module *net;
    ls_trainer *trainer;
    int steps;
} run;

/* With dropout and BatchNorm, and a layer that makes a bucket by itself. */
static run begin(const char *devices, const ls_options *options)
{
    test_make_images(images, sizeof images, labels, ROWS, CLASSES);
    run r = {.s = ls_open(options)};
    r.data = ls_data_from_memory(r.s, images, labels, ROWS, 1, SIDE, SIDE, CLASSES,
                                 &(ls_loader){.batch = BATCH, .shuffle = true});
    r.net = ls_sequential(r.s, NULL);
    ls_module_append(r.net, "conv", ls_nn_conv2d(r.s, 4, 3, NULL));
    ls_module_append(r.net, "norm", ls_nn_batch_norm(r.s));
    ls_module_append(r.net, "relu", ls_nn_fn(r.s, ls_relu));
    ls_module_append(r.net, "flat", ls_nn_fn(r.s, ls_flatten));
    ls_module_append(r.net, "wide", ls_nn_linear(r.s, WIDE));
    ls_module_append(r.net, "drop", ls_nn_dropout(r.s, 0.2));
    ls_module_append(r.net, "last", ls_nn_linear(r.s, CLASSES));
    ls_module_initialize(r.net, ls_parse_devices(r.s, devices), &(ls_init){.kind = LS_HE, .like = r.data});
    r.trainer = ls_trainer_new(r.net, LS_SGD, &(ls_optim){.lr = 0.05, .momentum = 0.9});
    return r;
}

static ls_status train(run *r, int steps)
{
    return test_train(r->s, r->net, r->trainer, r->data, &r->steps, steps);
}

/* The rest of the run gives the bits of a run without a fault. */
static void assert_goes_on(run *r)
{
    static char reference[65];
    char digits[65];
    ls_metrics metrics;
    ls_report report;
    const ls_options options = {.shard = SHARD};
    if (!*reference) {
        run whole = begin("cpu:0", &options);
        train(&whole, STEPS);
        ls_module_fingerprint(whole.net, reference);
        assert_int_equal(ls_close(whole.s), LS_OK);
    }
    train(r, STEPS);
    ls_module_evaluate(r->net, r->data, &metrics);
    ls_module_fingerprint(r->net, digits);
    if (ls_failed(r->s))
        fail_msg("%s", ls_message(r->s));
    assert_int_equal(metrics.rows, ROWS);
    assert_string_equal(digits, reference);
    while (ls_trainer_next_report(r->trainer, &report))
        assert_true(isfinite(report.loss) && report.step <= STEPS);
    assert_int_equal(ls_close(r->s), LS_OK);
}

/* ---- Failing ---- */

/* The devices up to `last` fail once each, when they come to this operation of any shard. */
typedef struct failing {
    int first, last, operation;
    atomic_int failed, longest; /* the most operations seen */
} failing;

static bool fails(void *user, ls_device device, int shard, int operation)
{
    failing *f = user;
    (void)shard;
    if (operation > atomic_load(&f->longest))
        atomic_store(&f->longest, operation);
    if (device.index < f->first || device.index > f->last || operation != f->operation)
        return false;
    atomic_fetch_add(&f->failed, 1);
    return true;
}

static run begin_failing(const char *devices, failing *f)
{
    run r = begin(devices, &(ls_options){.shard = SHARD});
    train(&r, 2);
    assert_int_equal(ls_wait(r.s), LS_OK);
    r.s->fault_user = f;
    r.s->fault = fails;
    return r;
}

static void a_device_fails_at_each_operation(void **state)
{
    (void)state;
    int failed = 0;
    failing f = {.first = 1, .last = 1};
    for (f.operation = 0; f.operation <= f.longest; f.operation++) {
        f.failed = 0;
        run r = begin_failing("cpu:0-2", &f);
        assert_goes_on(&r);
        assert_true(f.failed <= 1); /* a lost device gets nothing more */
        failed += f.failed;
    }
    print_message("%d of %d times in the middle of a shard\n", failed, f.longest + 1);
    assert_true(f.longest > 8 && failed > f.longest / 2);
}

static void all_devices_but_one_fail(void **state)
{
    (void)state;
    for (int operation = 0; operation < 12; operation += 4) {
        failing f = {.first = 0, .last = 3, .operation = operation};
        run r = begin_failing("cpu:0-4", &f);
        assert_goes_on(&r);
    }
}

static void every_device_fails(void **state)
{
    (void)state;
    failing f = {.first = 0, .last = 255, .operation = 3};
    run r = begin_failing("cpu:0-2", &f);
    train(&r, 3);
    assert_int_equal(ls_wait(r.s), LS_NO_DEVICE);
    assert_non_null(strstr(ls_message(r.s), "step 3: cpu("));
    assert_non_null(strstr(ls_message(r.s), "and no other can go on with it"));
    assert_true(ls_catch(r.s, LS_NO_DEVICE));
    ls_metrics metrics;
    ls_module_evaluate(r.net, r.data, &metrics);
    assert_true(ls_catch(r.s, LS_NO_DEVICE));
    train(&r, 5);
    assert_int_equal(ls_status_of(r.s), LS_NO_DEVICE);
    assert_non_null(strstr(ls_message(r.s), "every device of the network has failed"));
    assert_int_equal(ls_close(r.s), LS_NO_DEVICE);
}

/* Those that are left are compared, and the lost one is not. */
static void lost_devices_are_not_verified(void **state)
{
    (void)state;
    failing f = {.first = 1, .last = 1, .operation = 2};
    run r = begin_failing("cpu:0-2", &f);
    for (int step = 0; step < 2; step++) {
        ls_batch batch;
        while (!ls_data_next(r.data, &batch))
            ;
        ls_backward(test_losses(r.net, &batch));
        if (ls_trainer_verify(r.trainer) != LS_OK)
            fail_msg("%s", ls_message(r.s));
        ls_trainer_step(r.trainer);
        r.steps++;
    }
    assert_goes_on(&r);
}

/* Parts that lie on a device that has failed are computed by the others. */
static void parts_of_a_lost_device(void **state)
{
    (void)state;
    char digits[2][65];
    for (int lost = 0; lost < 2; lost++) {
        failing f = {.first = 1, .last = 1, .operation = 1};
        run r = begin("cpu:0-1", &(ls_options){.shard = SHARD});
        ls_devices devices = ls_parse_devices(r.s, "cpu:0-1");
        if (lost) {
            r.s->fault_user = &f;
            r.s->fault = fails;
        }
        for (int step = 0; step < 4; step++) {
            ls_batch b;
            while (!ls_data_next(r.data, &b))
                ;
            ls_tensor *X[2], *y[2];
            ls_scatter(b.X, devices, X);
            ls_scatter(b.y, devices, y);
            for (int i = 0; i < 2; i++)
                ls_backward(ls_cross_entropy(ls_module_forward(r.net, X[i]), y[i]));
            ls_trainer_step(r.trainer);
        }
        ls_module_fingerprint(r.net, digits[lost]);
        if (ls_failed(r.s))
            fail_msg("%s", ls_message(r.s));
        assert_int_equal(ls_close(r.s), LS_OK);
    }
    assert_string_equal(digits[0], digits[1]);
}

/* ---- Not coming back ---- */

/* cpu(1) stands still before this operation until it is let go; once. */
typedef struct stalling {
    int operation;
    atomic_int longest;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stalled, let_go;
} stalling;

static bool stalls(void *user, ls_device device, int shard, int operation)
{
    stalling *st = user;
    (void)shard;
    if (operation > atomic_load(&st->longest))
        atomic_store(&st->longest, operation);
    pthread_mutex_lock(&st->lock);
    if (device.index == 1 && operation == st->operation && !st->stalled) {
        st->stalled = true;
        while (!st->let_go)
            pthread_cond_wait(&st->changed, &st->lock);
    }
    pthread_mutex_unlock(&st->lock);
    return false;
}

static void let_go(stalling *st)
{
    pthread_mutex_lock(&st->lock);
    st->let_go = true;
    pthread_cond_broadcast(&st->changed);
    pthread_mutex_unlock(&st->lock);
}

/* Hands one more step in and waits for its report, while the device stands still. */
static bool step_is_reported(run *r)
{
    ls_report report;
    struct timespec moment = {0, 1000000};
    int before = r->steps;
    while (ls_trainer_next_report(r->trainer, &report))
        ;
    train(r, before + 1);
    for (int i = 0; i < 60000; i++) {
        if (ls_trainer_next_report(r->trainer, &report))
            return report.step == before + 1;
        nanosleep(&moment, NULL);
    }
    return false;
}

static void a_device_stalls_at_each_operation(void **state)
{
    (void)state;
    if (ls_core_count() < 2)
        test_not_run("one core: a device that does not come back keeps it, and there is no other");
    int stalled = 0;
    stalling st = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    for (st.operation = 0; st.operation <= st.longest; st.operation++) {
        st.stalled = st.let_go = false;
        run r = begin("cpu:0-1", &(ls_options){.shard = SHARD});
        train(&r, 2);
        assert_int_equal(ls_wait(r.s), LS_OK);
        r.s->patience = 0.02;
        r.s->fault_user = &st;
        r.s->fault = stalls;
        bool reported = step_is_reported(&r);
        bool next = step_is_reported(&r); /* the run goes on for one step more without it */
        let_go(&st);
        assert_true(reported && next);
        stalled += st.stalled;
        assert_goes_on(&r);
    }
    print_message("%d of %d times in the middle of a shard\n", stalled, st.longest + 1);
    assert_true(st.longest > 8 && stalled > st.longest / 2);
}

/* ---- Not there ---- */

static atomic_int threads, thread_at; /* the thread with that number, from 1, cannot be had */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *user);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *user)
{
    return ++threads == thread_at ? EAGAIN : __real_pthread_create(thread, attributes, main, user);
}

static void every_thread_fails(void **state)
{
    (void)state;
    int n = 1;
    for (bool done = false; !done; n++) {
        threads = 0;
        thread_at = n;
        run r = begin("cpu:0-2", &(ls_options){.shard = SHARD});
        train(&r, 1);
        ls_tensor *x = ls_clone(ls_full(r.s, 1, LS_SHAPE(2, 2)), ls_cpu(1)); /* a device's own queue */
        if (x && ls_wait(r.s) == LS_OK)
            assert_true(ls_item(ls_sum(x)) == 4);
        done = threads < n;
        if (!done)
            assert_non_null(strstr(ls_message(r.s), "the system's limit on threads is reached"));
        assert_int_equal(ls_close(r.s), done ? LS_OK : LS_OUT_OF_MEMORY);
    }
    thread_at = 0;
    assert_true(n > 4);
}

/* ---- Slow ---- */

/* Seconds of a whole run in which cpu(1) waits so long before each shard. */
static double seconds_of(const char *devices, double slow, char digits[65])
{
    struct timespec from, to;
    run r = begin(devices, &(ls_options){.shard = 1, .trial = &(ls_trial){.slow_cpu = 1, .slow_seconds = slow}});
    clock_gettime(CLOCK_MONOTONIC, &from);
    train(&r, STEPS);
    ls_wait(r.s);
    clock_gettime(CLOCK_MONOTONIC, &to);
    ls_module_fingerprint(r.net, digits);
    if (ls_failed(r.s))
        fail_msg("%s", ls_message(r.s));
    assert_int_equal(ls_close(r.s), LS_OK);
    return (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
}

/* A device that takes ten times as long gets few shards, and the steps do not wait for an even part of them. */
static void a_slow_device(void **state)
{
    (void)state;
    char one[65], slowed[65];
    double shard = seconds_of("cpu:0", 0, one) / (STEPS * BATCH), even = STEPS * (BATCH / 2) * 10 * shard;
    double took = seconds_of("cpu:0-1", 10 * shard, slowed);
    print_message("%.2f s; an even part would take %.2f s\n", took, even);
    assert_string_equal(slowed, one);
    assert_true(took < even);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_fails_at_each_operation),
        cmocka_unit_test(all_devices_but_one_fail),
        cmocka_unit_test(every_device_fails),
        cmocka_unit_test(lost_devices_are_not_verified),
        cmocka_unit_test(parts_of_a_lost_device),
        cmocka_unit_test(a_device_stalls_at_each_operation),
        cmocka_unit_test(every_thread_fails),
        cmocka_unit_test(a_slow_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
