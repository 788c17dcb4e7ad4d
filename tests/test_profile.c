/* The profile of training steps: what it counts and adds up to, that it changes nothing, and what is refused. No time
 * is asserted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <lockstep_lifetime.h>
#include <lockstep_profile.h>
#include <math.h>
#include <pthread.h>

#include "diag/profile.h"
#include "tensors.h"
#include "training.h"

enum { SIZE = 8, ROWS = 40, BATCH = 20, SHARD = 6, CLASSES = 3, CHANNELS = 16, SHARDS = 4, STEPS = 6 };

static uint8_t pixels[ROWS * SIZE * SIZE], classes_of[ROWS];

static int make_images(void **state)
{
    (void)state;
    test_make_images(pixels, sizeof pixels, classes_of, sizeof classes_of, CLASSES);
    return 0;
}

typedef struct setup {
    ls_session *s;
    ls_data *data;
    ls_module *net;
    ls_trainer *trainer;
} setup;

static setup open_setup(const char *devices, const ls_allocator *allocator)
{
    setup t = {.s = ls_open(&(ls_options){.seed = 3, .shard = SHARD, .allocator = allocator})};
    t.data = ls_data_from_memory(t.s, pixels, classes_of, ROWS, 1, SIZE, SIZE, CLASSES, &(ls_loader){.batch = BATCH});
    t.net = ls_sequential(t.s, LS_LIST(ls_nn_conv2d(t.s, CHANNELS, 3, &(ls_conv){.padding = 1}), ls_nn_batch_norm(t.s),
                                       ls_nn_fn(t.s, ls_relu), ls_nn_conv2d(t.s, CHANNELS, 3, &(ls_conv){.padding = 1}),
                                       ls_nn_avg_pool2d(t.s, &(ls_pool){.kernel = 2}), ls_nn_fn(t.s, ls_flatten),
                                       ls_nn_linear(t.s, CLASSES)));
    ls_module_initialize(t.net, ls_parse_devices(t.s, devices), &(ls_init){.kind = LS_HE, .like = t.data});
    t.trainer = ls_trainer_new(t.net, LS_SGD, &(ls_optim){.lr = 0.05, .momentum = 0.9});
    return t;
}

static void take_steps(setup *t, int steps)
{
    ls_batch batch;
    while (steps > 0 && !ls_failed(t->s))
        if (ls_data_next(t->data, &batch)) {
            test_step(t->net, t->trainer, &batch);
            steps--;
        }
}

/* To its end, which closes the last batch's scope. */
static void take_epoch(setup *t)
{
    ls_batch batch;
    while (ls_data_next(t->data, &batch))
        test_step(t->net, t->trainer, &batch);
}

static ls_profile_row find_row(const ls_profile *profile, const char *layer, const char *operation)
{
    ls_profile_row row;
    for (int i = 0; i < ls_profile_rows(profile); i++) {
        assert_int_equal(ls_profile_at(profile, i, &row), LS_OK);
        if (strcmp(row.layer, layer) == 0 && strcmp(row.operation, operation) == 0)
            return row;
    }
    fail_msg("no row of %s for layer '%s'", operation, layer);
    return row;
}

static void check_sum(const ls_profile *profile, int cores, bool crowded)
{
    ls_profile_sum sum;
    ls_profile_row row;
    double operations = 0;
    assert_int_equal(ls_profile_total(profile, &sum), LS_OK);
    for (int i = 0; i < ls_profile_rows(profile); i++) {
        assert_int_equal(ls_profile_at(profile, i, &row), LS_OK);
        assert_int_equal(row.calls, STEPS * SHARDS);
        assert_true(row.seconds > 0 && row.bytes > 0);
        operations += row.seconds;
    }
    assert_int_equal(sum.steps, STEPS);
    assert_int_equal(sum.images, STEPS * BATCH);
    assert_int_equal(sum.cores, cores);
    print_message("%d cores: %g s, operations %g, gathering %g, reducing %g, between %g, waiting %g, elsewhere %g\n",
                  cores, sum.seconds, sum.operations, sum.gathering, sum.reducing, sum.between, sum.waiting,
                  sum.elsewhere);
    assert_true(sum.gathering > 0 && sum.reducing > 0 && sum.between > 0);
    assert_true(sum.waiting > 0 || (crowded && sum.waiting == 0)); /* devices without a core of their own leave none */
    assert_true(sum.unhidden > 0 && sum.unhidden < sum.seconds);
    assert_float_equal(operations, sum.operations, 1e-9);
    assert_float_equal(sum.operations + sum.gathering + sum.reducing + sum.between + sum.waiting + sum.elsewhere,
                       sum.seconds * cores, 1e-6 * sum.seconds);
}

static void every_operation_is_there(void **state)
{
    (void)state;
    static const struct {
        const char *devices;
        int cores;
    } cases[] = {{"cpu:0", 1}, {"cpu:0-1", 2}, {"cpu:0-4", 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setup t = open_setup(cases[i].devices, NULL);
        take_steps(&t, 3);
        ls_profile *profile = ls_profile_start(t.trainer, 0);
        take_steps(&t, STEPS);
        assert_int_equal(ls_profile_rows(profile), 0);
        assert_int_equal(ls_profile_stop(profile), LS_OK);
        take_steps(&t, 2); /* not measured */
        assert_int_equal(ls_profile_stop(profile), LS_OK);
        int machine = ls_all_devices(t.s).n;
        check_sum(profile, cases[i].cores < machine ? cases[i].cores : machine, cases[i].cores > machine);

        double images = STEPS * BATCH, macs = CHANNELS * SIZE * SIZE * 9.0;
        ls_profile_row row = find_row(profile, "0", "conv");
        assert_int_equal(row.direction, LS_FORWARD);
        assert_string_equal(row.parameter, "0.weight");
        assert_float_equal(row.flops, 2 * macs * images, 1);
        assert_true(row.kernel == 3 && row.kernel_w == 3 && row.groups == 1);
        assert_int_equal(row.in[0], 1);
        assert_int_equal(row.out[0], CHANNELS);
        row = find_row(profile, "3", "winograd_data");
        assert_int_equal(row.direction, LS_BACKWARD_DATA);
        assert_float_equal(row.flops, 2 * macs * CHANNELS * images, 1);
        row = find_row(profile, "3", "winograd_weight");
        assert_int_equal(row.direction, LS_BACKWARD_WEIGHT);
        assert_float_equal(row.flops, 2 * macs * CHANNELS * images, 1);
        assert_int_equal(row.in[1], SIZE);
        assert_int_equal(row.out[1], SIZE);
        /* Each shard is one group of 16 lanes: x and dy, and the weights' gradient. */
        assert_float_equal(row.bytes, 4.0 * row.calls * (2 * 16 * CHANNELS * SIZE * SIZE + CHANNELS * CHANNELS * 9), 1);
        for (int k = 0; k < ls_profile_rows(profile); k++) { /* zero by definition: BatchNorm takes it out again */
            ls_profile_at(profile, k, &row);
            assert_string_not_equal(row.parameter, "0.bias");
        }
        row = find_row(profile, "4", "avg_pool_backward");
        assert_int_equal(row.in[1], SIZE);
        assert_int_equal(row.out[1], SIZE / 2);
        row = find_row(profile, "1", "batch_norm");
        assert_true(row.fused_relu && !row.fused_add && row.kernel == 0 && row.flops == 0);
        assert_int_equal(ls_close(t.s), LS_OK);
    }
}

/* ---- Spans ---- */

static int by_begin(const void *a, const void *b)
{
    const ls_span *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end < y->end) - (x->end > y->end);
}

static ls_span *read_spans(const ls_profile *profile, int *n)
{
    *n = (int)ls_profile_spans(profile);
    ls_span *spans = calloc((size_t)*n + 1, sizeof *spans);
    for (int i = 0; i < *n; i++) {
        assert_int_equal(ls_profile_span_at(profile, i, &spans[i]), LS_OK);
        assert_true(spans[i].begin <= spans[i].end);
    }
    qsort(spans, (size_t)*n, sizeof *spans, by_begin);
    return spans;
}

/* Of each device: what begins within another ends within it, and no state lies within another but for those in a
 * shard. */
static void assert_nested(const ls_span *spans, int n)
{
    enum { DEEPEST = 8 };
    const ls_span *open[DEEPEST];
    int depth = 0;
    for (int i = 0; i < n; i++) {
        const ls_span *span = &spans[i];
        while (depth && (open[depth - 1]->device != span->device || open[depth - 1]->end <= span->begin))
            depth--;
        if (depth && span->device >= 0) {
            const ls_span *around = open[depth - 1];
            assert_true(span->end <= around->end);
            assert_true(around->kind >= LS_SPAN_SHARD && around->kind <= LS_SPAN_HELP);
            assert_true(span->kind != LS_SPAN_SHARD && span->kind != LS_SPAN_EVALUATE);
        }
        assert_true(depth < DEEPEST);
        open[depth++] = span;
    }
}

static bool is_state(const ls_span *span, const ls_span *spans, int n)
{
    for (int i = 0; i < n; i++)
        if (&spans[i] != span && spans[i].device == span->device && spans[i].kind == LS_SPAN_SHARD &&
            spans[i].begin <= span->begin && span->end <= spans[i].end)
            return false;
    return span->kind <= LS_SPAN_REDUCE;
}

/* What each device is at fills every step. */
static int check_steps(const ls_span *spans, int n, int devices)
{
    int steps = 0;
    for (int i = 0; i < n; i++) {
        const ls_span *step = &spans[i];
        if (step->kind != LS_SPAN_STEP)
            continue;
        steps++;
        for (int d = 0; d < devices; d++) {
            double filled = 0;
            for (int k = 0; k < n; k++) {
                const ls_span *span = &spans[k];
                double begin = span->begin > step->begin ? span->begin : step->begin;
                double end = span->end < step->end ? span->end : step->end;
                if (span->device == d && begin < end && is_state(span, spans, n))
                    filled += end - begin;
            }
            double length = step->end - step->begin;
            if (!(filled > 0.98 * length - 2e-5 && filled < 1.02 * length))
                fail_msg("step %d, device %d: %g of %g s", (int)step->step, d, filled, length);
        }
    }
    return steps;
}

static void spans_nest_and_fill_the_steps(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        int n;
    } devices[] = {{"cpu:0", 1}, {"cpu:0-1", 2}, {"cpu:0-4", 5}};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        setup t = open_setup(devices[i].list, NULL);
        ls_metrics metrics;
        take_steps(&t, 1);
        ls_profile *profile = ls_profile_start(t.trainer, 10000);
        take_steps(&t, STEPS);
        ls_module_evaluate(t.net, t.data, &metrics);
        take_steps(&t, 1);
        assert_int_equal(ls_profile_spans(profile), 0);
        assert_int_equal(ls_profile_stop(profile), LS_OK);
        int n, shards = 0, evaluated = 0, operations = 0, gathered = 0, reduced = 0;
        double unhidden = 0; /* of one device: what is in steps, and not in shards, but for the sums in those */
        ls_span *spans = read_spans(profile, &n);
        assert_nested(spans, n);
        assert_int_equal(check_steps(spans, n, devices[i].n), STEPS + 1);
        for (int k = 0; k < n; k++) {
            ls_profile_row row;
            const bool in_shard = spans[k].kind == LS_SPAN_SHARD, in_step = spans[k].kind == LS_SPAN_STEP;
            const bool summed = devices[i].n == 1 && spans[k].kind <= LS_SPAN_REDUCE && !is_state(&spans[k], spans, n);
            unhidden += (in_step + (summed && !in_shard) - in_shard) * (spans[k].end - spans[k].begin);
            assert_true(spans[k].kind != LS_SPAN_GIVE && spans[k].kind != LS_SPAN_WAIT_RANKS); /* there are none */
            shards += spans[k].kind == LS_SPAN_SHARD;
            evaluated += spans[k].kind == LS_SPAN_EVALUATE && spans[k].number >= 0;
            reduced += spans[k].kind == LS_SPAN_REDUCE && spans[k].number >= 0;
            if (spans[k].kind == LS_SPAN_OPERATION && spans[k].row < 0)
                gathered++;
            else if (spans[k].kind == LS_SPAN_OPERATION)
                operations += ls_profile_at(profile, spans[k].row, &row) == LS_OK && *row.operation;
        }
        assert_int_equal(shards, (STEPS + 1) * SHARDS);
        assert_int_equal(evaluated, (ROWS - 1) / SHARD + 1);
        /* More where devices took parts. */
        assert_true(gathered >= shards);
        assert_true(operations >= shards * ls_profile_rows(profile));
        assert_true(reduced >= STEPS + 1);
        free(spans);
        ls_profile_sum sum;
        ls_profile_total(profile, &sum);
        assert_int_equal(sum.dropped, 0);
        if (devices[i].n == 1 && !(fabs(sum.unhidden - unhidden) <= 0.05 * unhidden + 1e-5 * sum.steps))
            fail_msg("%g s are not hidden, by the spans %g", sum.unhidden, unhidden);
        ls_device_times all = {.shards = 0}, times;
        for (int d = 0; d < devices[i].n; d++) {
            assert_int_equal(ls_profile_device(profile, d, &times), LS_OK);
            all.shards += times.shards;
            all.images += times.images;
            all.computing += times.computing;
            all.reducing += times.reducing;
        }
        assert_int_equal(all.shards, (STEPS + 1) * SHARDS);
        assert_int_equal(all.images, (STEPS + 1) * BATCH);
        assert_true(all.computing > 0 && all.reducing > 0);
        assert_int_equal(ls_close(t.s), LS_OK);
    }
}

/* Of a network of several buckets, and more shards than there is room for: whoever has summed in the middle of a shard
 * is at the shard again, where its operations are. */
static void sums_in_a_shard_have_an_end(void **state)
{
    (void)state;
    enum { WIDE = 4200 };
    setup t = {.s = ls_open(&(ls_options){.shard = 1})};
    t.data = ls_data_from_memory(t.s, pixels, classes_of, ROWS, 1, SIZE, SIZE, CLASSES, &(ls_loader){.batch = BATCH});
    t.net = ls_sequential(t.s, LS_LIST(ls_nn_conv2d(t.s, CHANNELS, 3, &(ls_conv){.padding = 1}), ls_nn_fn(t.s, ls_relu),
                                       ls_nn_avg_pool2d(t.s, &(ls_pool){.kernel = 2}), ls_nn_fn(t.s, ls_flatten),
                                       ls_nn_linear(t.s, WIDE), ls_nn_linear(t.s, CLASSES)));
    ls_module_initialize(t.net, ls_parse_devices(t.s, "cpu:0"), &(ls_init){.kind = LS_HE, .like = t.data});
    t.trainer = ls_trainer_new(t.net, LS_SGD, &(ls_optim){.lr = 0.05});
    ls_profile *profile = ls_profile_start(t.trainer, 10000);
    take_steps(&t, 2);
    assert_int_equal(ls_profile_stop(profile), LS_OK);
    int n, folds = 0, reduced = 0;
    ls_span *spans = read_spans(profile, &n);
    assert_nested(spans, n);
    for (int i = 0; i < n; i++) {
        folds += spans[i].kind == LS_SPAN_FOLD;
        reduced += spans[i].kind == LS_SPAN_REDUCE && !is_state(&spans[i], spans, n);
    }
    assert_true(folds > 0 && reduced > 0);
    free(spans);
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* Hands memory out again that was given back, the latest first: a struct lies where one of its kind lay. */
typedef struct block {
    struct block *next;
    size_t bytes;
} block;
enum { HEADER = 64, MOST_REUSED = 1024 };
typedef struct blocks {
    block *free[MOST_REUSED];
    pthread_mutex_t lock;
} blocks;

static void *allocate_again(size_t bytes, size_t alignment, void *user)
{
    blocks *all = user;
    block *found = NULL;
    assert_true(alignment <= HEADER);
    pthread_mutex_lock(&all->lock);
    if (bytes < MOST_REUSED && all->free[bytes]) {
        found = all->free[bytes];
        all->free[bytes] = found->next;
    }
    pthread_mutex_unlock(&all->lock);
    if (!found)
        found = aligned_alloc(HEADER, HEADER + (bytes + HEADER - 1) / HEADER * HEADER);
    *found = (block){.bytes = bytes};
    return (char *)found + HEADER;
}

static void release_to(void *memory, void *user)
{
    blocks *all = user;
    block *given = memory ? (block *)((char *)memory - HEADER) : NULL;
    if (!given || given->bytes >= MOST_REUSED) {
        free(given);
        return;
    }
    pthread_mutex_lock(&all->lock);
    given->next = all->free[given->bytes];
    all->free[given->bytes] = given;
    pthread_mutex_unlock(&all->lock);
}

/* More computations than are kept: plans come to lie where others lay, which had more or fewer steps. */
static void plans_are_told_apart(void **state)
{
    (void)state;
    enum { PLANS = 300 };
    static blocks all = {.lock = PTHREAD_MUTEX_INITIALIZER};
    setup t = open_setup("cpu:0", &(ls_allocator){allocate_again, release_to, &all});
    ls_module *net = ls_sequential(t.s, LS_LIST(ls_nn_fn(t.s, ls_flatten), ls_nn_linear(t.s, CLASSES)));
    ls_module_initialize(net, ls_parse_devices(t.s, "cpu:0"), &(ls_init){.kind = LS_HE, .like = t.data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.05});
    ls_profile *profile = ls_profile_start(trainer, 100000);
    ls_batch batch;
    for (int i = 0; i < PLANS && !ls_failed(t.s);) {
        if (!ls_data_next(t.data, &batch))
            continue;
        ls_tensor *losses = ls_scale(test_losses(net, &batch), 1 + i++ / 1024.0);
        ls_backward(i % 2 ? losses : ls_scale(losses, 0.5));
        ls_trainer_step(trainer);
    }
    assert_int_equal(ls_profile_stop(profile), LS_OK);
    assert_string_equal(ls_message(t.s), "");
    int scaled = 0, *spans = calloc((size_t)ls_profile_rows(profile), sizeof *spans);
    ls_profile_row row;
    for (int i = 0; i < ls_profile_rows(profile); i++) {
        ls_profile_at(profile, i, &row);
        assert_int_equal(row.calls, SHARDS);
        scaled += row.direction == LS_FORWARD && strcmp(row.operation, "scale") == 0;
    }
    assert_int_equal(scaled, PLANS * 3 / 2);
    for (int64_t i = 0; i < ls_profile_spans(profile); i++) {
        ls_span span;
        ls_profile_span_at(profile, i, &span);
        if (span.kind == LS_SPAN_OPERATION && span.row >= 0)
            spans[span.row]++;
    }
    for (int i = 0; i < ls_profile_rows(profile); i++)
        assert_int_equal(spans[i], SHARDS);
    free(spans);
    assert_int_equal(ls_close(t.s), LS_OK);
    for (int i = 0; i < MOST_REUSED; i++)
        for (block *one = all.free[i], *next; one; one = next) {
            next = one->next;
            free(one);
        }
}

static void old_spans_give_way(void **state)
{
    (void)state;
    setup t = open_setup("cpu:0-1", NULL);
    ls_profile *profile = ls_profile_start(t.trainer, 300);
    take_steps(&t, 40);
    assert_int_equal(ls_profile_stop(profile), LS_OK);
    int n, steps;
    ls_span *spans = read_spans(profile, &n);
    ls_profile_sum sum;
    ls_profile_total(profile, &sum);
    assert_true(n <= 3 * 300);
    assert_nested(spans, n);
    steps = check_steps(spans, n, 2);
    assert_true(steps >= 1 && steps + sum.dropped == 40);
    assert_int_equal(spans[0].step, sum.dropped + 1); /* the steps come first: they are of no device */
    for (int i = 0; i < n; i++)
        assert_true(spans[i].begin >= spans[0].begin);
    free(spans);
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* Of three steps the list of a worker has room for the last two. The worker was still ending the first one when the
 * second began. */
static void a_state_between_two_steps_is_cut(void **state)
{
    (void)state;
    ls_kept_span of_worker[4], of_steps[3], of_checkpoints[1];
    ls_spans lists[] = {
        {.at = of_worker, .capacity = 4}, {.at = of_steps, .capacity = 3}, {.at = of_checkpoints, .capacity = 1}};
    static const ls_span_kind states[] = {LS_SPAN_WAIT, LS_SPAN_SHARD, LS_SPAN_REDUCE, LS_SPAN_HELP, LS_SPAN_SHARD};
    static const double ends[] = {0.5, 1, 3, 4, 6};
    for (int i = 0; i < 5; i++)
        ls_spans_add(&lists[0], states[i], i, i ? ends[i - 1] : 0, ends[i]);
    for (int i = 0; i < 3; i++)
        ls_spans_add(&lists[1], LS_SPAN_STEP, -1, 2 * i, 2 * i + 2);
    ls_profile profile = {.n_workers = 1, .n_lists = 3, .spans = lists, .latest = 6, .sum.steps = 3};
    ls_profile_arrange_spans(&profile);
    assert_int_equal(profile.sum.dropped, 1);
    assert_int_equal(lists[0].added, 3);
    assert_true(of_worker[0].kind == LS_SPAN_REDUCE && of_worker[0].begin == 2 && of_worker[0].end == 3);
    assert_true(of_worker[1].kind == LS_SPAN_HELP && of_worker[1].begin == 3);
    assert_true(of_worker[2].kind == LS_SPAN_SHARD && of_worker[2].begin == 4 && of_worker[2].end == 6);
}

static void devices_tell_their_times(void **state)
{
    (void)state;
    setup t = open_setup("cpu:0-1", NULL);
    ls_device_times before, after;
    assert_int_equal(ls_trainer_device_times(t.trainer, 1, &before), LS_OK);
    assert_int_equal(before.device.index, 1);
    assert_true(before.shards == 0 && before.computing == 0);
    take_steps(&t, 4);
    int64_t shards = 0;
    for (int i = 0; i < 2; i++) {
        ls_wait(t.s);
        assert_int_equal(ls_trainer_device_times(t.trainer, i, &after), LS_OK);
        shards += after.shards;
        assert_true(after.computing + after.reducing + after.waiting > 0 && after.idle > 0);
    }
    assert_int_equal(shards, 4 * SHARDS);
    assert_int_equal(ls_trainer_device_times(t.trainer, 2, &after), LS_BAD_ARGUMENT);
    assert_int_equal(ls_close(t.s), LS_BAD_ARGUMENT);
    assert_int_equal(ls_trainer_device_times(NULL, 0, &after), LS_BAD_ARGUMENT);
}

static void train_in_turns(bool measured, char digits[65])
{
    setup t = open_setup("cpu:0-1", NULL);
    take_epoch(&t);
    for (int round = 0; round < 2; round++) {
        int scope = ls_enter(t.s);
        ls_profile *profile = measured ? ls_profile_start(t.trainer, 500) : NULL;
        take_epoch(&t);
        if (measured && round == 0) /* the other one ends with its scope */
            ls_profile_stop(profile);
        ls_leave(t.s, scope);
        take_epoch(&t);
    }
    ls_module_fingerprint(t.net, digits);
    assert_string_equal(ls_message(t.s), "");
    assert_int_equal(ls_close(t.s), LS_OK);
}

static void measuring_changes_no_bit(void **state)
{
    (void)state;
    char without[65] = "", with[65] = "";
    train_in_turns(false, without);
    train_in_turns(true, with);
    assert_string_equal(with, without);
}

static ls_status measure_shortly(const ls_allocator *allocator)
{
    setup t = open_setup("cpu:0-1", allocator);
    ls_profile *profile = ls_profile_start(t.trainer, 100);
    take_steps(&t, 2);
    ls_profile_stop(profile);
    return ls_close(t.s);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(measure_shortly);
}

static void assert_refused(setup *t, const char *words)
{
    if (!strstr(ls_message(t->s), words))
        print_message("message: %s\n", ls_message(t->s));
    assert_non_null(strstr(ls_message(t->s), words));
    assert_int_equal(ls_close(t->s), LS_BAD_ARGUMENT);
}

static void misuse_is_refused(void **state)
{
    (void)state;
    ls_profile_row row;
    ls_profile_sum sum;
    ls_span span;
    ls_device_times times;
    setup t = open_setup("cpu:0", NULL);
    ls_profile *profile = ls_profile_start(t.trainer, 0);
    assert_ptr_equal(ls_session_of(profile), t.s);
    assert_null(ls_profile_start(t.trainer, 0));
    assert_refused(&t, "ls_profile_start: the trainer is being measured already");

    t = open_setup("cpu:0", NULL);
    profile = ls_profile_start(t.trainer, 0);
    assert_int_equal(ls_profile_total(profile, &sum), LS_BAD_ARGUMENT);
    assert_refused(&t, "ls_profile_total: the profile runs still; call ls_profile_stop first");

    t = open_setup("cpu:0", NULL);
    profile = ls_profile_start(t.trainer, 0);
    assert_int_equal(ls_profile_stop(profile), LS_OK);
    assert_int_equal(ls_profile_total(profile, &sum), LS_OK); /* of no step at all */
    assert_true(sum.steps == 0 && sum.seconds == 0 && ls_profile_rows(profile) == 0);
    assert_int_equal(ls_profile_at(profile, 0, &row), LS_BAD_ARGUMENT);
    assert_refused(&t, "ls_profile_at: there is no such row");

    t = open_setup("cpu:0", NULL);
    profile = ls_profile_start(t.trainer, 10);
    assert_int_equal(ls_profile_span_at(profile, 0, &span), LS_BAD_ARGUMENT);
    assert_refused(&t, "ls_profile_span_at: the profile runs still; call ls_profile_stop first");

    t = open_setup("cpu:0", NULL);
    profile = ls_profile_start(t.trainer, 0);
    assert_int_equal(ls_profile_stop(profile), LS_OK);
    assert_int_equal(ls_profile_spans(profile), 0);
    assert_int_equal(ls_profile_device(profile, 1, &times), LS_BAD_ARGUMENT);
    assert_refused(&t, "ls_profile_device: there is no such device");

    assert_int_equal(ls_profile_spans(NULL), 0);
    assert_int_equal(ls_profile_span_at(NULL, 0, &span), LS_BAD_ARGUMENT);
    assert_int_equal(ls_profile_device(NULL, 0, &times), LS_BAD_ARGUMENT);
    assert_null(ls_profile_start(NULL, 0));
    assert_int_equal(ls_profile_stop(NULL), LS_BAD_ARGUMENT);
    assert_int_equal(ls_profile_rows(NULL), 0);
    assert_int_equal(ls_profile_at(NULL, 0, &row), LS_BAD_ARGUMENT);
    assert_int_equal(ls_profile_total(NULL, &sum), LS_BAD_ARGUMENT);
}

static void what_a_core_can_do(void **state)
{
    (void)state;
    ls_speed speed;
    ls_session *s = ls_open(NULL);
    assert_int_equal(ls_measure_speed(s, ls_all_devices(s), &speed), LS_OK);
    assert_true(speed.flops > 0 && speed.bytes > 0);
    assert_int_equal(ls_measure_speed(s, ls_parse_devices(s, "cpu:0"), NULL), LS_BAD_ARGUMENT);
    assert_int_equal(ls_close(s), LS_BAD_ARGUMENT);
    s = ls_open(&(ls_options){.isa = LS_ISA_REFERENCE});
    assert_int_equal(ls_measure_speed(s, ls_parse_devices(s, "cpu:0"), &speed), LS_OK);
    assert_true(speed.flops == 0 && speed.bytes > 0);
    assert_int_equal(ls_measure_speed(s, (ls_devices){.n = 0}, &speed), LS_BAD_ARGUMENT);
    assert_int_equal(ls_close(s), LS_BAD_ARGUMENT);
    assert_int_equal(ls_measure_speed(NULL, (ls_devices){.n = 1}, &speed), LS_BAD_ARGUMENT);
}

static ls_status measure_speed_alone(const ls_allocator *allocator)
{
    ls_speed speed;
    ls_session *s = ls_open(&(ls_options){.isa = LS_ISA_REFERENCE, .allocator = allocator});
    ls_measure_speed(s, ls_parse_devices(s, "cpu:0-1"), &speed);
    return ls_close(s);
}

static void a_core_needs_memory_for_what_it_can_do(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(measure_speed_alone);
}

/* What hangs on a trainer ends before it, and then the network may have another one. */
static void trainers_end(void **state)
{
    (void)state;
    setup t = open_setup("cpu:0,cpu:1", NULL);
    for (int round = 0; round < 2; round++) {
        ls_profile *profile = ls_profile_start(t.trainer, 0);
        take_steps(&t, 3);
        assert_null(ls_trainer_new(t.net, LS_SGD, &(ls_optim){.lr = 0.1}));
        assert_true(ls_catch(t.s, LS_BAD_ARGUMENT));
        assert_int_equal(ls_end(t.trainer), LS_BAD_ARGUMENT);
        assert_true(ls_catch(t.s, LS_BAD_ARGUMENT));
        assert_int_equal(ls_end(profile), LS_OK);
        take_steps(&t, 1);
        assert_int_equal(ls_end(t.trainer), LS_OK);
        t.trainer = ls_trainer_new(t.net, LS_ADAM, &(ls_optim){.lr = 0.01});
        assert_non_null(t.trainer);
    }
    take_steps(&t, 2);
    assert_int_equal(ls_close(t.s), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_is_there),
        cmocka_unit_test(measuring_changes_no_bit),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(what_a_core_can_do),
        cmocka_unit_test(spans_nest_and_fill_the_steps),
        cmocka_unit_test(old_spans_give_way),
        cmocka_unit_test(devices_tell_their_times),
        cmocka_unit_test(plans_are_told_apart),
        cmocka_unit_test(trainers_end),
        cmocka_unit_test(sums_in_a_shard_have_an_end),
        cmocka_unit_test(a_state_between_two_steps_is_cut),
        cmocka_unit_test(a_core_needs_memory_for_what_it_can_do),
    };
    return cmocka_run_group_tests(tests, make_images, NULL);
}
