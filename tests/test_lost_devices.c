/* Devices that do not come back from a shard, or are slow: the others compute what they left, and the bits are the
 * same. Those that fail are in test_gpu_many.c. */
#include <lockstep_trial.h>
#include "not_run.h"
#include "tensors.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/cores.h"
#include "base/session.h"
#include "exec/turn.h"
#include "observed.h"
#include "training.h"

enum { ROWS = 16, BATCH = 8, SHARD = 2, SIDE = 12, CLASSES = 4, STEPS = 4, WIDE = 2700, TWO_SHARDS = 45 };

static uint8_t images[ROWS * SIDE * SIDE], labels[ROWS];

/* cpu(1) stands still before this operation of a shard, or of all that it computes, until it is let go; once. */
typedef struct stalling {
    int operation, at, longest; /* the next one; the last one of any */
    bool of_all;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool armed, stalled, let_go;
    ls_executor *executor;
    const ls_backend *backend;
} stalling;

static stalling st = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Its results are staged before its first operation. */
static bool begins_shard(void *user, ls_executor *executor, const char *call)
{
    (void)user, (void)executor;
    if (strcmp(call, "stage_result") == 0 && !st.of_all)
        st.at = 0;
    return true;
}

/* Of an operation that others share they would wait for its parts. */
static void operate(const ls_op_call *call)
{
    if (call->executor == st.executor && call->parts <= 1) {
        pthread_mutex_lock(&st.lock);
        if (st.at > st.longest && !st.of_all)
            st.longest = st.at;
        const bool stalls = st.armed && !st.stalled && st.at == st.operation;
        st.at++;
        st.stalled |= stalls;
        while (stalls && !st.let_go)
            pthread_cond_wait(&st.changed, &st.lock);
        pthread_mutex_unlock(&st.lock);
    }
    st.backend->kernel[call->attributes->op](call);
}

/* Both cores have the same kernels. */
static void watch_operations(ls_session *s)
{
    static ls_backend watched;
    st.executor = ls_turn_of(s, ls_cpu(1))->executor;
    st.backend = st.executor->backend;
    watched = *st.backend;
    for (int op = 0; op < LS_OP_COUNT; op++)
        watched.kernel[op] = st.backend->kernel[op] ? operate : NULL;
    for (int i = 0; i < 2; i++)
        ls_turn_of(s, ls_cpu(i))->executor->backend = &watched;
    test_observe(st.executor, begins_shard, NULL);
}

typedef struct run {
    ls_session *s;
    ls_data *data;
    ls_module *net;
    ls_trainer *trainer;
    int steps;
} run;

/* With dropout and BatchNorms, and a layer that makes a bucket by itself. */
static run begin(const char *devices, const ls_options *options)
{
    test_make_images(images, sizeof images, labels, ROWS, CLASSES);
    run r = {.s = ls_open(options)};
    if (strcmp(devices, "cpu:0-1") == 0)
        watch_operations(r.s);
    r.data = ls_data_from_memory(r.s, images, labels, ROWS, 1, SIDE, SIDE, CLASSES,
                                 &(ls_loader){.batch = BATCH, .shuffle = true});
    r.net = ls_sequential(r.s, NULL);
    ls_module_append(r.net, "conv", ls_nn_conv2d(r.s, 4, 3, NULL));
    ls_module_append(r.net, "norm", ls_nn_batch_norm(r.s));
    ls_module_append(r.net, "relu", ls_nn_fn(r.s, ls_relu));
    ls_module_append(r.net, "next", ls_nn_conv2d(r.s, 4, 3, NULL));
    ls_module_append(r.net, "next_norm", ls_nn_batch_norm(r.s));
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
    static char references[3][65];
    const int batch_norm = r->s->options.batch_norm;
    char digits[65], *reference = references[batch_norm < 0 ? 2 : batch_norm > 0];
    ls_metrics metrics;
    ls_report report;
    const ls_options options = {.shard = SHARD, .batch_norm = batch_norm};
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

/* ---- Not coming back ---- */

static void arm(bool armed)
{
    pthread_mutex_lock(&st.lock);
    st.armed = armed;
    st.at = 0;
    st.let_go = !armed;
    pthread_cond_broadcast(&st.changed);
    pthread_mutex_unlock(&st.lock);
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

static int moments = 1; /* from one operation at which a device stalls to the next */

/* Begins to stall at each of its operations, or at every so many-th and the last; with statistics of the batch, the
 * operations of the shards that it is at in turn. */
static void stall_at_each(int batch_norm)
{
    if (ls_core_count() < 2)
        test_not_run("one core: a device that does not come back keeps it, and there is no other");
    int stalled = 0, tried = 0;
    st.of_all = batch_norm != 0;
    st.longest = st.of_all ? TWO_SHARDS : 0;
    for (st.operation = 0; st.operation <= st.longest; tried++) {
        st.stalled = false;
        run r = begin("cpu:0-1", &(ls_options){.shard = SHARD, .batch_norm = batch_norm});
        train(&r, st.operation ? 2 : 0); /* also in the first step of all */
        assert_int_equal(ls_wait(r.s), LS_OK);
        r.s->patience = 0.02;
        arm(true);
        bool reported = step_is_reported(&r);
        bool next = step_is_reported(&r); /* the run goes on for one step more without it */
        arm(false);
        assert_true(reported && next);
        stalled += st.stalled;
        assert_goes_on(&r);
        const int last = st.operation < st.longest ? st.longest : st.longest + 1;
        st.operation = st.operation + moments < last ? st.operation + moments : last;
    }
    print_message("%d of %d times in the middle of a shard\n", stalled, tried);
    assert_true(st.longest > 8 && stalled > tried / 2);
}

static void a_device_stalls_at_each_operation(void **state)
{
    (void)state;
    stall_at_each(0);
}

/* The others wait for its shard's sums. */
static void a_device_stalls_where_shards_meet(void **state)
{
    (void)state;
    stall_at_each(-1);
    stall_at_each(2 * SHARD);
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
static double seconds_of(const char *devices, int batch_norm, double slow, char digits[65])
{
    struct timespec from, to;
    run r = begin(
        devices,
        &(ls_options){.shard = 1, .batch_norm = batch_norm, .trial = &(ls_trial){.slow_cpu = 1, .slow_seconds = slow}});
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
static void slow(int batch_norm)
{
    char one[65], slowed[65];
    double shard = seconds_of("cpu:0", batch_norm, 0, one) / (STEPS * BATCH), even = STEPS * (BATCH / 2) * 10 * shard;
    double took = seconds_of("cpu:0-1", batch_norm, 10 * shard, slowed);
    print_message("%.2f s; an even part would take %.2f s\n", took, even);
    assert_string_equal(slowed, one);
    assert_true(took < even);
}

static void a_slow_device(void **state)
{
    (void)state;
    slow(0);
}

static void a_slow_device_where_shards_meet(void **state)
{
    (void)state;
    slow(-1);
}

/* test_lost_devices [MOMENTS] */
int main(int argc, char **argv)
{
    if (argc > 1 && (moments = atoi(argv[1])) < 1)
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_stalls_at_each_operation),
        cmocka_unit_test(a_device_stalls_where_shards_meet),
        cmocka_unit_test(every_thread_fails),
        cmocka_unit_test(a_slow_device),
        cmocka_unit_test(a_slow_device_where_shards_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
