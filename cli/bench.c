/* bench: how fast training is on random images, and where a step's time goes. */
#include "commands.h"
#include "options/choice.h"
#include "options/options.h"
#include "options/outputs.h"
#include "record/log.h"
#include "run/run.h"
#include "speed/forecast.h"
#include "speed/profile.h"
#include "system/clock.h"
#include "system/cores.h"
#include "text/say.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <lockstep_nn.h>
#include <lockstep_train.h>

enum { SIDE = 28, CLASSES = 10, LEAST_IMAGES = 8192, UNMEASURED = 2, MOST_ROUNDS = 25, MANY_DEVICES = 8 };

typedef struct bench {
    run run;
    ls_devices all;
    ls_data *data;
    run_log *json;
    bool busy;     /* that a core is was seen, and said */
    bool measured; /* all of it, and written where that was asked for */
} bench;

static const char *const models[] = {"lenet", "resnet18"};
enum { MODELS = sizeof models / sizeof *models };

/* Random images, more than the caches hold unless the batch is small. 0, or the status to exit with once a line is
 * said. */
static int make_data(bench *b)
{
    const settings *c = b->run.chosen;
    int64_t rows = (LEAST_IMAGES - 1 + c->batch) / c->batch * c->batch;
    uint8_t *images = malloc((size_t)rows * SIDE * SIDE), *labels = malloc((size_t)rows);
    if (!images || !labels) {
        free(images);
        free(labels);
        return failed("--batch", "no memory for %lld images", (long long)rows);
    }
    uint32_t state = 1;
    for (int64_t i = 0; i < rows * SIDE * SIDE; i++) {
        state = state * 1664525u + 1013904223u;
        images[i] = (uint8_t)(state >> 24);
    }
    for (int64_t i = 0; i < rows; i++)
        labels[i] = (uint8_t)(i % CLASSES);
    ls_loader loader = {.batch = (int)c->batch, .shuffle = true};
    b->data = ls_data_from_memory(b->run.session, images, labels, rows, 1, SIDE, SIDE, CLASSES, &loader);
    free(images);
    free(labels);
    return b->data ? 0 : session_failed(b->run.session, "bench");
}

/* A network that is trained on some of the devices. */
typedef struct trained {
    ls_module *net;
    ls_trainer *trainer;
} trained;

/* So many steps of each of them, in turn, so that all are at it at once; and waits. */
static int take_steps(bench *b, const trained *these, int n, int64_t steps)
{
    ls_batch batch;
    for (int64_t i = 0; i < steps * n && !ls_failed(b->run.session);) {
        if (!ls_data_next(b->data, &batch))
            continue; /* the end of an epoch */
        ls_backward(ls_cross_entropy(ls_module_forward(these[i % n].net, batch.X), batch.y));
        ls_trainer_step(these[i % n].trainer);
        i++;
    }
    return ls_wait(b->run.session) == LS_OK ? 0 : session_failed(b->run.session, b->run.model);
}

static bool is_large(const bench *b)
{
    return strcmp(b->run.model, "resnet18") == 0;
}

static int64_t steps_of(const bench *b)
{
    const settings *c = b->run.chosen;
    if (c->steps)
        return c->steps;
    if (c->profile)
        return is_large(b) ? 4 : 50;
    return is_large(b) ? 2 : 40;
}

/* Short rounds need many: what else a host does lasts longer than they do. */
static int rounds_of(const bench *b)
{
    return is_large(b) ? 5 : MOST_ROUNDS;
}

static int shards_of(const bench *b)
{
    return (int)((b->run.chosen->batch - 1) / b->run.chosen->shard + 1);
}

/* The run's network on these devices, after the steps that have to allocate and to warm up. */
static int begin(bench *b, const ls_devices *devices, trained *it)
{
    b->run.devices = *devices;
    int status = run_network(&b->run, b->data);
    if (status)
        return status;
    it->net = b->run.net;
    it->trainer = ls_trainer_new(it->net, LS_SGD, &(ls_optim){.lr = 0.01});
    if (!it->trainer || ls_trainer_check_batches(it->trainer, b->data) != LS_OK)
        return session_failed(b->run.session, b->run.model);
    return take_steps(b, it, 1, UNMEASURED);
}

/* A network of its own on each of the devices. */
static int begin_separate(bench *b, const ls_devices *devices, trained *each)
{
    int status = 0;
    for (int i = 0; i < devices->n && !status; i++)
        status = begin(b, &(ls_devices){.n = 1, .at = {devices->at[i]}}, &each[i]);
    return status;
}

/* ---- Images per second ---- */

/* Seconds, of each of n rounds; the last two are of the networks' first devices, their mean. */
typedef struct rounds {
    int n;
    double step[MOST_ROUNDS], shard[MOST_ROUNDS], sums[MOST_ROUNDS];
} rounds;

static int measure_round(bench *b, const trained *these, int n, rounds *taken)
{
    const int64_t steps = steps_of(b);
    const int round = taken->n++;
    double computing = 0, reducing = 0, start = steady_seconds();
    ls_device_times times;
    for (int i = 0; i < n; i++) {
        ls_trainer_device_times(these[i].trainer, 0, &times);
        computing -= times.computing;
        reducing -= times.reducing;
    }
    int status = take_steps(b, these, n, steps);
    taken->step[round] = (steady_seconds() - start) / (double)steps;
    for (int i = 0; i < n; i++) {
        ls_trainer_device_times(these[i].trainer, 0, &times);
        computing += times.computing;
        reducing += times.reducing;
    }
    taken->shard[round] = computing / (double)(steps * shards_of(b) * n);
    taken->sums[round] = reducing / (double)(steps * n);
    return status;
}

static int by_size(const void *a, const void *b)
{
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

static double median(double seconds[MOST_ROUNDS], int n)
{
    qsort(seconds, (size_t)n, sizeof *seconds, by_size);
    return seconds[n / 2];
}

/* 1, 2, 3, ... of the devices; where there are many, 1, 2, 4, 8, ... and all. */
static int next_count(int n, int all)
{
    int next = all > MANY_DEVICES ? 2 * n : n + 1;
    return n < all && next > all ? all : next;
}

/* Whether each of the devices has a core of its own. */
static bool has_own_cores(const ls_devices *devices)
{
    for (int i = 0; i < devices->n; i++) {
        if (devices->at[i].type != LS_CPU)
            return false;
        for (int k = 0; k < i; k++)
            if (ls_device_core(devices->at[i]) == ls_device_core(devices->at[k]))
                return false;
    }
    return true;
}

static void log_speed(bench *b, int n, double seconds, double images, double forecasted)
{
    log_item(b->json);
    log_text(b->json, "model", b->run.model);
    log_text(b->json, "devices", b->run.devices_text);
    log_integer(b->json, "device_count", n);
    log_integer(b->json, "steps", steps_of(b)); /* of a round */
    log_integer(b->json, "rounds", rounds_of(b));
    log_number(b->json, "step_seconds", seconds); /* the rounds' median */
    log_number(b->json, "images_per_second", images);
    log_number(b->json, "forecast_images_per_second", forecasted); /* from separate runs; null of the first */
    log_item_end(b->json);
}

/* The next power of two, but no more than most. */
static int next_forecast(int n, int most)
{
    int next = 1;
    while (next <= n)
        next *= 2;
    return next < most ? next : most;
}

/* Cores that were not asked for can tell how much they hinder each other. */
static int measure_separate(bench *b, const ls_devices *devices, forecast *f)
{
    trained each[LS_MAX_DEVICES];
    rounds apart = {0};
    int scope = ls_enter(b->run.session), status = begin_separate(b, devices, each);
    for (int i = 0; i < rounds_of(b) && !status; i++)
        status = measure_round(b, each, devices->n, &apart);
    if (status)
        return status;
    ls_leave(b->run.session, scope);
    forecast_separate(f, devices->n, median(apart.shard, apart.n), median(apart.sums, apart.n));
    return 0;
}

/* More than were measured, up to one for each shard. */
static int print_forecast(bench *b, forecast *f, int measured)
{
    int most = f->shards < LS_MAX_DEVICES ? f->shards : LS_MAX_DEVICES, next = next_forecast(measured, most);
    ls_devices all = ls_all_devices(b->run.session);
    if (next > measured && next <= all.n) {
        all.n = next;
        int status = measure_separate(b, &all, f);
        if (status)
            return status;
    }
    for (int n = measured; n < most;) {
        n = next_forecast(n, most);
        printf("%-10s %-28d %10.1f %8.2f   forecast\n", b->run.model, n, forecast_images(f, n),
               forecast_images(f, n) / forecast_images(f, 1));
    }
    printf("%-10s recommended: %d device%s, for %d shard%s a step (%.3f ms a shard, %.3f ms of sums, %.3f ms a further "
           "device)\n",
           b->run.model, forecast_recommended(f), forecast_recommended(f) > 1 ? "s" : "", f->shards,
           f->shards > 1 ? "s" : "", 1e3 * f->shard[1], 1e3 * f->sums[1], 1e3 * f->latency);
    return 0;
}

/* One line: so many of the devices, measured in turns with as many separate runs, and beside it what these let expect.
 * Updates the forecast. */
static int bench_devices(bench *b, int n, forecast *f, double *first)
{
    const settings *c = b->run.chosen;
    ls_devices devices = b->all;
    trained together, each[LS_MAX_DEVICES];
    rounds taken = {0}, apart = {0};
    double expected = NAN;
    devices.n = n;
    const bool own_cores = has_own_cores(&devices), forecasts = own_cores && n > 1 && c->batch > c->shard;
    int scope = ls_enter(b->run.session);
    snprintf(b->run.devices_text, sizeof b->run.devices_text, "%s", ls_devices_str(b->run.session, devices));
    int status = begin(b, &devices, &together);
    if (!status && forecasts)
        status = begin_separate(b, &devices, each);
    for (int i = 0; i < rounds_of(b) && !status; i++) {
        if (forecasts)
            status = measure_round(b, each, n, &apart);
        if (!status)
            status = measure_round(b, &together, 1, &taken);
    }
    if (status)
        return status;
    ls_leave(b->run.session, scope);
    const double seconds = median(taken.step, taken.n), images = (double)c->batch / seconds;
    if (n == 1) {
        *first = images;
        forecast_separate(f, 1, median(taken.shard, taken.n), median(taken.sums, taken.n));
        forecast_begin(f, shards_of(b), (int)c->batch, seconds);
    } else if (forecasts) {
        forecast_separate(f, n, median(apart.shard, apart.n), median(apart.sums, apart.n));
        expected = forecast_images(f, n);
    }
    printf("%-10s %-28s %10.1f %8.2f", b->run.model, b->run.devices_text, images, images / *first);
    if (!isnan(expected))
        printf("   %.1f expected (%+.1f %%)", expected, 100 * (expected / images - 1));
    printf("\n");
    fflush(stdout);
    log_speed(b, n, seconds, images, expected);
    if (n > 1 && own_cores)
        forecast_fit(f, n, seconds);
    return 0;
}

/* Speeds beside another program are not the machine's: nothing is forecast or advised from them. */
static void look_for_others(bench *b)
{
    core_look cores[LS_MAX_DEVICES] = {{.number = 0}};
    int n = cores_list(&b->all, cores);
    if (b->busy || !n || !cores_look(cores, n))
        return;
    for (int i = 0; i < n && !b->busy; i++)
        if (core_is_busy(&cores[i])) {
            b->busy = true;
            note("note: core %d is busy: %.0f %% of it is to be had beside %s; these speeds are not this machine's "
                 "own, and "
                 "no number of devices is recommended; end that, and measure again",
                 cores[i].number, 100 * cores[i].share, *cores[i].other ? cores[i].other : "other work");
        }
}

static int bench_images(bench *b)
{
    double first = 0;
    forecast f = {.shards = 0};
    int status = 0, measured = 0;
    look_for_others(b);
    for (int n = 1; n <= b->all.n && !status; n = next_count(n, b->all.n)) {
        status = bench_devices(b, n, &f, &first);
        measured = n;
    }
    if (!status)
        look_for_others(b);
    return !status && !b->busy && has_own_cores(&b->all) ? print_forecast(b, &f, measured) : status;
}

/* ---- Profile ---- */

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* What a core can do is measured before and after, for clocks change; the larger counts. */
static int bench_profile(bench *b)
{
    ls_session *session = b->run.session;
    const bool cards = run_is_on(&b->run, LS_CUDA);
    ls_speed before = {0}, after = {0}; /* of cards there is no measure */
    trained it;
    int scope = ls_enter(session), status = begin(b, &b->all, &it);
    if (status)
        return status;
    if (!cards)
        ls_measure_speed(session, b->run.devices, &before);
    ls_profile *profile = ls_profile_start(it.trainer, 0);
    if ((status = take_steps(b, &it, 1, steps_of(b))) != 0)
        return status;
    if (ls_profile_stop(profile) != LS_OK || (!cards && ls_measure_speed(session, b->run.devices, &after) != LS_OK))
        return session_failed(session, "bench");
    ls_speed most = {larger(before.flops, after.flops), larger(before.bytes, after.bytes)};
    status = profile_print(&b->run, profile, &most);
    if (!status && b->json)
        status = profile_log(b->json, &b->run, profile, &most);
    ls_leave(session, scope);
    return status;
}

/* ---- The command ---- */

static void log_settings(const bench *b)
{
    const settings *c = b->run.chosen;
    log_begin(b->json);
    log_text(b->json, "lockstep", ls_version());
    log_text(b->json, "isa", ls_isa_name(b->run.session));
    log_text(b->json, "conv", choice_name(conv_choices, c->conv));
    log_integer(b->json, "batch", c->batch);
    log_integer(b->json, "shard", c->shard);
    log_list(b->json, c->profile ? "profiles" : "speeds");
}

static int measure(bench *b)
{
    const settings *c = b->run.chosen;
    int status = make_data(b);
    if (status)
        return status;
    if (c->json && !(b->json = log_open_for("--json", c->json)))
        return STATUS_FAILED;
    log_settings(b);
    if (!c->profile)
        printf("%-10s %-28s %10s %8s   (batch %lld, shard %lld, conv %s, isa %s)\n", "network", "devices", "images/s",
               "speed-up", (long long)c->batch, (long long)c->shard, choice_name(conv_choices, c->conv),
               ls_isa_name(b->run.session));
    for (int i = 0; i < MODELS && !status; i++) {
        if (c->model && strcmp(c->model, models[i]) != 0)
            continue;
        if (c->profile && i > 0 && !c->model)
            printf("\n");
        snprintf(b->run.model, sizeof b->run.model, "%s", models[i]);
        status = c->profile ? bench_profile(b) : bench_images(b);
    }
    log_list_end(b->json);
    if (!log_end(b->json) && !status)
        status = STATUS_FAILED;
    b->measured = !status;
    return status ? status : finish_output();
}

int command_bench(int argc, char **argv)
{
    settings chosen;
    bench b = {0};
    int status = 0;
    if (!read_options_only(COMMAND_BENCH, argc, argv, &chosen, &status) || status || (status = check_output()) != 0 ||
        (status = outputs_check(COMMAND_BENCH, &chosen, NULL, 0)) != 0 ||
        (status = outputs_check_held(COMMAND_BENCH, &chosen)) != 0)
        return status;
    if ((status = run_open(&b.run, &chosen, NULL)) == 0) {
        b.all = b.run.devices;
        status = measure(&b);
    }
    if (!log_close(b.json)) {
        b.measured = false;
        status = status ? status : STATUS_FAILED;
    }
    if (b.measured) /* but for stdout, perhaps */
        outputs_say(COMMAND_BENCH, &chosen, &(outputs_lost){.n = 0});
    return run_close(&b.run, status);
}
