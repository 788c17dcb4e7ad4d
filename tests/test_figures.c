/* The program's figures where they are made, from numbers whose results are known by hand: forecasts, the devices'
 * loads, a timeline, curves, the live view, texts of numbers. What a whole run prints is recomputed in
 * cli/recompute.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <lockstep_profile.h>

#include "speed/advice.h"
#include "speed/forecast.h"
#include "speed/loads.h"
#include "text/say.h"
#include "text/scale.h"
#include "text/utf8.h"
#include "live/view.h"

static void assert_near(double is, double should_be)
{
    if (!(fabs(is - should_be) <= 1e-12 * fabs(should_be)))
        fail_msg("%.17g is not %.17g", is, should_be);
}

static void assert_shows(const char *text, const char *wanted)
{
    if (!text || !strstr(text, wanted))
        fail_msg("no '%s' in\n%s", wanted, text ? text : "(null)");
}

/* ---- Forecasts ---- */

/* 16 shards of 4 images: 10 ms a shard, 2 ms of sums, 8 ms of all else on one device; in separate runs on two 12 and 3
 * ms. */
static forecast measured(int known)
{
    forecast f = {.shards = 0};
    forecast_separate(&f, 1, 0.010, 0.002);
    forecast_begin(&f, 16, 64, 16 * 0.010 + 0.002 + 0.008);
    if (known > 1)
        forecast_separate(&f, 2, 0.012, 0.003);
    return f;
}

static void a_forecast_is_its_formula(void **state)
{
    (void)state;
    forecast f = measured(1);
    assert_near(forecast_step(&f, 1), 0.170);
    assert_near(forecast_images(&f, 1), 64 / 0.170);
    assert_near(forecast_step(&f, 3), 6 * 0.010 + 0.002 / 3 + 0.008);
    assert_near(forecast_step(&f, 16), 0.010 + 0.002 / 16 + 0.008);
    f = measured(2);
    assert_near(forecast_step(&f, 1), 0.170);
    assert_near(forecast_step(&f, 4), 4 * 0.012 + 0.003 / 4 + 0.008);
    /* Of three devices there was no run of its own, though there was of four. */
    forecast_separate(&f, 4, 0.020, 0.004);
    assert_near(forecast_step(&f, 3), 6 * 0.012 + 0.003 / 3 + 0.008);
    assert_near(forecast_step(&f, 8), 2 * 0.020 + 0.004 / 8 + 0.008);
}

/* What two and three devices took beyond it, by least squares through the first device: (1 * 1 + 2 * 5) / (1 + 4)
 * ms. */
static void latency_is_what_is_left_over(void **state)
{
    (void)state;
    forecast f = measured(1);
    forecast_fit(&f, 2, forecast_step(&f, 2) + 0.001);
    assert_near(f.latency, 0.001);
    f = measured(1);
    const double two = forecast_step(&f, 2) + 0.001, three = forecast_step(&f, 3) + 0.005;
    forecast_fit(&f, 2, two);
    forecast_fit(&f, 3, three);
    assert_near(f.latency, 0.0022);
    assert_near(forecast_step(&f, 5), 4 * 0.010 + 0.002 / 5 + 0.008 + 4 * 0.0022);
    f = measured(1);
    forecast_fit(&f, 2, 0.001); /* faster than it can be: none */
    assert_true(f.latency == 0);
}

static void as_many_devices_are_recommended_as_pay(void **state)
{
    (void)state;
    forecast f = measured(1);
    forecast_fit(&f, 2, forecast_step(&f, 2) + 0.001);
    int best = 1;
    for (int n = 2; n <= 16; n++) {
        const double seconds = ceil(16.0 / n) * 0.010 + 0.002 / n + 0.008 + 0.001 * (n - 1);
        best = 0.170 / seconds >= 0.75 * n ? n : best;
    }
    assert_in_range(best, 2, 15);
    assert_int_equal(forecast_recommended(&f), best);
    /* A device for each shard is the most. */
    f = (forecast){.shards = 0};
    forecast_separate(&f, 1, 1, 0);
    forecast_begin(&f, 6, 6, 6);
    assert_int_equal(forecast_recommended(&f), 6);
    /* Three quarters of what the first one does are enough. */
    f = (forecast){.shards = 0};
    forecast_separate(&f, 1, 2, 0);
    forecast_begin(&f, 2, 2, 6);
    assert_int_equal(forecast_recommended(&f), 2);
    forecast_begin(&f, 2, 2, 6.1);
    assert_int_equal(forecast_recommended(&f), 1);
    /* A step that took less than its shards alone: there is nothing else in it. */
    f = measured(1);
    forecast_begin(&f, 16, 64, 0.1);
    assert_near(forecast_step(&f, 1), 16 * 0.010 + 0.002);
}

/* ---- Loads ---- */

enum { TOLD = 6 };
static ls_device_times told[TOLD];

ls_status __wrap_ls_trainer_device_times(ls_trainer *trainer, int i, ls_device_times *times);
ls_status __wrap_ls_trainer_device_times(ls_trainer *trainer, int i, ls_device_times *times)
{
    (void)trainer;
    *times = told[i];
    return LS_OK;
}

static void tell(int i, double computing, double reducing, double waiting)
{
    told[i] = (ls_device_times){.computing = computing, .reducing = reducing, .waiting = waiting};
}

/* Parts of the time since a moment one and a half to three seconds ago, not of the whole run. */
static void loads_are_parts_of_the_last_seconds(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    const ls_devices two = ls_parse_devices(s, "cpu:0-1");
    loads_watch *w = calloc(1, sizeof *w);
    assert_non_null(w);
    tell(0, 100, 50, 25);
    tell(1, 7, 7, 7);
    assert_false(loads_look(w, s, NULL, two, 10.0));
    tell(0, 100.3, 50.1, 25.0);
    assert_false(loads_look(w, s, NULL, two, 10.1)); /* too soon */
    tell(0, 100.1, 50, 25.3);
    assert_true(loads_look(w, s, NULL, two, 10.3));
    assert_false(w->now.known); /* no shard is done yet: waiting for the first one is no load */
    tell(0, 100.3, 50.1, 25.0);
    told[0].shards = 1;
    tell(1, 7.1, 7, 7.4);
    assert_true(loads_look(w, s, NULL, two, 10.5));
    assert_true(w->now.known);
    assert_string_equal(w->now.names[1], "cpu(1)");
    assert_true(w->now.each[0].computing == 0.75f && w->now.each[0].reducing == 0.25f);
    assert_true(w->now.each[1].computing == 0.2f && w->now.each[1].reducing == 0.0f);
    tell(0, 100.5, 50.5, 26);
    assert_true(loads_look(w, s, NULL, two, 12.0)); /* from here on this moment is kept beside the first, */
    assert_true(w->now.each[0].computing == 0.25f && w->now.each[0].reducing == 0.25f);
    tell(0, 100.5, 50.5, 27);
    assert_true(loads_look(w, s, NULL, two, 13.5)); /* the first is forgotten, */
    tell(0, 102.5, 52.5, 30);
    assert_true(loads_look(w, s, NULL, two, 14.0)); /* and what was since 12.0 is told */
    assert_true(w->now.each[0].computing == 0.25f && w->now.each[0].reducing == 0.25f);
    assert_true(w->now.each[1].computing == 0.2f); /* it did nothing: what was known stays */
    free(w);
    assert_int_equal(ls_close(s), LS_OK);
}

/* ---- What a timeline comes to ---- */

/* Two steps of 10 ms. In the first cpu(1) is done at 10 ms, and kept from its core until 12; in the second cpu(0) is
 * the last, at 8. */
enum { FIRST = 1, SECOND = 2 };
static const ls_span two_steps[] = {
    {LS_SPAN_SHARD, 0, 0.000, 0.006, FIRST, 0, -1},   {LS_SPAN_REDUCE, 0, 0.006, 0.007, FIRST, 0, -1},
    {LS_SPAN_WAIT, 0, 0.007, 0.010, FIRST, -1, -1},   {LS_SPAN_SHARD, 0, 0.020, 0.028, SECOND, 1, -1},
    {LS_SPAN_REDUCE, 0, 0.028, 0.029, SECOND, 0, -1}, {LS_SPAN_SHARD, 1, 0.000, 0.012, FIRST, 1, -1},
    {LS_SPAN_SHARD, 1, 0.020, 0.026, SECOND, 0, -1},  {LS_SPAN_WAIT, 1, 0.026, 0.030, SECOND, -1, -1},
    {LS_SPAN_STEP, -1, 0.000, 0.010, FIRST, -1, -1},  {LS_SPAN_STEP, -1, 0.020, 0.030, SECOND, -1, -1}};

static const ls_span *spans;
static int64_t n_spans, dropped;
static int cores[TOLD]; /* of the devices */

int __wrap_ls_device_core(ls_device device);
int __wrap_ls_device_core(ls_device device)
{
    return cores[device.index];
}

int64_t __wrap_ls_profile_spans(const ls_profile *profile);
ls_status __wrap_ls_profile_span_at(const ls_profile *profile, int64_t i, ls_span *span);
ls_status __wrap_ls_profile_device(const ls_profile *profile, int i, ls_device_times *times);
ls_status __wrap_ls_profile_total(const ls_profile *profile, ls_profile_sum *sum);

int64_t __wrap_ls_profile_spans(const ls_profile *profile)
{
    (void)profile;
    return n_spans;
}

ls_status __wrap_ls_profile_span_at(const ls_profile *profile, int64_t i, ls_span *span)
{
    (void)profile;
    *span = spans[i];
    return LS_OK;
}

ls_status __wrap_ls_profile_device(const ls_profile *profile, int i, ls_device_times *times)
{
    (void)profile;
    *times = told[i];
    return LS_OK;
}

ls_status __wrap_ls_profile_total(const ls_profile *profile, ls_profile_sum *sum)
{
    (void)profile;
    *sum = (ls_profile_sum){.steps = 2, .dropped = dropped};
    return LS_OK;
}

static char said[4096];

void note(const char *format, ...)
{
    va_list arguments;
    const size_t length = strlen(said);
    va_start(arguments, format);
    vsnprintf(said + length, sizeof said - length, format, arguments);
    va_end(arguments);
    strncat(said, "\n", sizeof said - strlen(said) - 1);
}

/* What is said of these spans. */
static const char *advice(const run *r, const ls_span *of, size_t n, int64_t rows)
{
    spans = of;
    n_spans = (int64_t)n;
    *said = '\0';
    advice_say("t.json", NULL, r, rows);
    return said;
}
#define ADVICE(r, of, rows) advice(r, of, sizeof(of) / sizeof *(of), rows)

static run run_on(const char *devices, const settings *chosen)
{
    run r = {.session = ls_open(NULL), .chosen = chosen};
    r.devices = ls_parse_devices(r.session, devices);
    for (int i = 0; i < TOLD; i++) {
        told[i] = (ls_device_times){.computing = 1, .images = 100};
        cores[i] = i;
    }
    dropped = 0;
    return r;
}

static void advice_is_of_the_spans(void **state)
{
    (void)state;
    settings chosen = {.batch = 128, .shard = 64};
    run r = run_on("cpu:0-1", &chosen);
    told[0] = (ls_device_times){.computing = 0.014, .reducing = 0.002, .waiting = 0.003, .images = 128};
    told[1] =
        (ls_device_times){.computing = 0.018, .reducing = 0, .waiting = 0.003, .images = 128, .elsewhere = 0.0045};
    dropped = 3;
    assert_string_equal(
        ADVICE(&r, two_steps, 1000),
        "trace: t.json: 10 spans of 2 steps; Perfetto and chrome://tracing open it\n"
        "trace: the 3 steps before them are not in it: there is room for so many spans\n"
        "trace: a step takes 10.000 ms; of the devices' time 80.0 % went into computing, 5.0 % into reducing and "
        "updating, 15.0 % into waiting\n"
        "trace: 50 % of the reducing was hidden behind computing; what is left makes a step 1.000 ms longer (10.0 %)\n"
        "trace: the longest wait: cpu(0) 1.500 ms a step (15.0 %) for the last shard of cpu(1)\n"
        "trace: to change: other programs had the core of cpu(1) for 25 % of its work; end them, or leave it out\n");
    /* Without a step there is nothing to say of one. */
    dropped = 0;
    assert_string_equal(advice(&r, two_steps, 7, 1000),
                        "trace: t.json: 7 spans of 0 steps; Perfetto and chrome://tracing open it\n");
    assert_int_equal(ls_close(r.session), LS_OK);
}

/* A step of 100 ms that two devices compute until `computed`, for which cpu(1) waited so long; then nothing. What
 * cpu(0), the last, waited for was another thing. */
static const char *after_a_wait(const run *r, double computed, double waited)
{
    const ls_span of[] = {{LS_SPAN_SHARD, 0, 0, computed, FIRST, 0, -1},
                          {LS_SPAN_SHARD, 1, 0, computed - waited, FIRST, 1, -1},
                          {LS_SPAN_WAIT, 1, computed - waited, computed, FIRST, -1, -1},
                          {LS_SPAN_WAIT, 0, 0.01, 0.05, FIRST, -1, -1},
                          {LS_SPAN_STEP, -1, 0, 0.1, FIRST, -1, -1}};
    return ADVICE(r, of, 1000);
}

static void advice_is_of_what_is_worth_it(void **state)
{
    (void)state;
    settings chosen = {.batch = 128, .shard = 64};
    run r = run_on("cpu:0-1", &chosen);
    assert_string_equal(after_a_wait(&r, 0.1, 0.0009),
                        "trace: t.json: 5 spans of 1 steps; Perfetto and chrome://tracing open it\n"
                        "trace: a step takes 100.000 ms; of the devices' time 100.0 % went into computing, 0.0 % into "
                        "reducing and updating, 0.0 % into waiting\n"
                        "trace: no device waited for another's last shard for more than 1 % of a step\n"
                        "trace: to change: nothing that it shows\n");
    assert_shows(after_a_wait(&r, 0.1, 0.0011),
                 "trace: the longest wait: cpu(1) 1.100 ms a step (1.1 %) for the last shard of cpu(0)\n");
    const char *end = "trace: to change: much of a step is its end, where nothing is left to compute; a larger --batch "
                      "has it less often (and trains otherwise)\n";
    assert_null(strstr(after_a_wait(&r, 0.091, 0), end));
    assert_shows(after_a_wait(&r, 0.089, 0), end);
    /* Other programs, and a device that is slower than another. */
    told[1] = (ls_device_times){.computing = 0.5, .reducing = 0.5, .images = 100, .elsewhere = 0.049};
    assert_null(strstr(after_a_wait(&r, 0.1, 0), "other programs"));
    told[1].elsewhere = 0.051;
    assert_shows(after_a_wait(&r, 0.1, 0),
                 "trace: to change: other programs had the core of cpu(1) for 5 % of its work; end them, or leave it "
                 "out\n");
    told[1] = (ls_device_times){.computing = 1.09, .images = 100};
    assert_null(strstr(after_a_wait(&r, 0.1, 0), "longer for an image"));
    told[1] = (ls_device_times){.computing = 2.22, .images = 200};
    assert_shows(after_a_wait(&r, 0.1, 0),
                 "trace: to change: cpu(1) takes 11 % longer for an image than cpu(0); leave it out, or let smaller "
                 "shards (--shard 32) even it out\n");
    assert_int_equal(ls_close(r.session), LS_OK);
    /* Of many slow ones the first few; a device without an image is none of them. */
    r = run_on("cpu:0-5", &chosen);
    for (int i = 1; i < TOLD; i++)
        told[i].computing = 2;
    told[1] = (ls_device_times){.elsewhere = 1};
    cores[2] = cores[3] = cores[4] = cores[5] = 1; /* two cores: no word of shards */
    const char *text = after_a_wait(&r, 0.1, 0);
    for (int i = 0; i < TOLD; i++) {
        char line[96];
        snprintf(line, sizeof line, "trace: to change: cpu(%d) takes 100 %% longer for an image than cpu(0); ", i);
        assert_int_equal(strstr(text, line) != NULL, i > 1);
    }
    assert_null(strstr(text, "other programs"));
    told[1] = told[2];
    text = after_a_wait(&r, 0.1, 0);
    assert_non_null(strstr(text, "cpu(4) takes 100 %"));
    assert_null(strstr(text, "cpu(5) takes 100 %"));
    assert_int_equal(ls_close(r.session), LS_OK);
    /* One device waits for none. */
    r = run_on("cpu:0", &chosen);
    const ls_span alone[] = {{LS_SPAN_SHARD, 0, 0, 0.1, FIRST, 0, -1}, {LS_SPAN_STEP, -1, 0, 0.1, FIRST, -1, -1}};
    assert_null(strstr(ADVICE(&r, alone, 1000), "wait:"));
    assert_null(strstr(said, "waited"));
    assert_int_equal(ls_close(r.session), LS_OK);
}

/* Shards that the cores cannot share evenly, and the batch that would feed them. */
static void advice_is_of_shards_and_cores(void **state)
{
    (void)state;
    settings chosen = {.batch = 192, .shard = 64};
    run r = run_on("cpu:0-1", &chosen);
#define TWO   " do not divide by 2 devices: with the last ones some only help, or wait"
#define FEEDS "; --batch 256 would feed all (and train otherwise)\n"
    assert_shows(after_a_wait(&r, 0.1, 0), "trace: to change: 3 shards a step" TWO FEEDS);
    const ls_span alone[] = {{LS_SPAN_SHARD, 0, 0, 0.1, FIRST, 0, -1}, {LS_SPAN_STEP, -1, 0, 0.1, FIRST, -1, -1}};
    assert_shows(ADVICE(&r, alone, 256), "3 shards a step" TWO FEEDS);
    assert_shows(ADVICE(&r, alone, 255), "3 shards a step" TWO "\n"); /* there are not so many images */
    assert_null(strstr(ADVICE(&r, alone, 128), "divide"));            /* nor enough for a batch */
    chosen.batch = 9 * 64;
    assert_shows(ADVICE(&r, alone, 1000), "9 shards a step" TWO "; --batch 640 would feed all");
    chosen.batch = 39 * 64;
    assert_null(strstr(ADVICE(&r, alone, 10000), "divide")); /* not worth it */
    assert_int_equal(ls_close(r.session), LS_OK);
    chosen = (settings){.batch = 192, .shard = 64};
    r = run_on("cpu:0-2", &chosen);
    assert_null(strstr(ADVICE(&r, alone, 1000), "divide"));
    cores[1] = 0;
    assert_shows(ADVICE(&r, alone, 1000), "3 shards a step do not divide by 2 cores: ");
    assert_int_equal(ls_close(r.session), LS_OK);
}

/* Which spans are computing, and which reducing: on cores, and on cards. */
static void advice_is_of_the_kinds_of_spans(void **state)
{
    (void)state;
    settings chosen = {.batch = 128, .shard = 64};
    run r = run_on("cpu:0-1", &chosen);
    const ls_span on_cores[] = {
        {LS_SPAN_SHARD, 0, 0, 0.006, FIRST, 0, -1},    {LS_SPAN_OPERATION, 0, 0.005, 0.009, FIRST, 0, 0},
        {LS_SPAN_HELP, 1, 0.006, 0.009, FIRST, 0, -1}, {LS_SPAN_FOLD, 0, 0.001, 0.002, FIRST, 0, -1},
        {LS_SPAN_GIVE, 1, 0.007, 0.009, FIRST, 0, -1}, {LS_SPAN_WAIT, 1, 0.001, 0.006, 0, -1, -1},
        {LS_SPAN_STEP, -1, 0, 0.010, FIRST, -1, -1}};
    const char *share = "trace: 33 % of the reducing was hidden behind computing; what is left makes a step 4.000 ms "
                        "longer (40.0 %)\ntrace: no device waited ";
    assert_shows(ADVICE(&r, on_cores, 1000), share);
    r.devices.at[0] = (ls_device){.type = LS_CUDA, .index = 0};
    r.devices.at[1] = (ls_device){.type = LS_CUDA, .index = 1};
    const ls_span on_cards[] = {
        {LS_SPAN_SHARD, 0, 0, 0.002, FIRST, 0, -1},        {LS_SPAN_REDUCE, 0, 0.002, 0.010, FIRST, 0, -1},
        {LS_SPAN_STEP, -1, 0, 0.010, FIRST, -1, -1},       {LS_SPAN_OPERATION, 0, 0.001, 0.003, FIRST, 0, 0},
        {LS_SPAN_CARD_SUM, 0, 0.005, 0.008, FIRST, 0, -1}, {LS_SPAN_OPERATION, 1, 0.001, 0.006, FIRST, 0, 0}};
    assert_shows(ADVICE(&r, on_cards, 1000), share);
    assert_int_equal(ls_close(r.session), LS_OK);
}

/* ---- The live view ---- */

static view_boards boards;
static char frame[VIEW_BYTES];

/* A frame of 100 columns without colours, in ASCII, and nothing but what is to be read. */
static const char *view(const view_state *state, const history *h, const loads *devices, int rows)
{
    int length;
    const terminal look = {.utf8 = false, .colours = COLOURS_NONE};
    assert_in_range(view_frame(frame, &length, &boards, state, h, devices, &look, 100, rows), 1, rows);
    char *to = frame;
    for (const char *at = frame; *at; at++)
        if (strncmp(at, "\033[K", 3) == 0 || strncmp(at, "\033[J", 3) == 0)
            at += 2;
        else if (*at != '\r')
            *to++ = *at;
    *to = '\0';
    return frame;
}

/* As many signs in a row, behind `before`. */
static void assert_bar(const char *text, const char *before, const char *signs, const int counts[])
{
    const char *at = strstr(text, before);
    if (!at)
        fail_msg("no '%s' in\n%s", before, text);
    at += strlen(before);
    for (int i = 0; signs[i]; i++) {
        int n = 0;
        for (; *at == signs[i]; at++)
            n++;
        if (n != counts[i])
            fail_msg("%d of '%c' and not %d behind '%s' in\n%s", n, signs[i], counts[i], before, text);
    }
}

static const view_state midway = {.epoch = 2,
                                  .epochs = 2,
                                  .step = 30,
                                  .steps = 100,
                                  .batches = 50,
                                  .tests = 2,
                                  .tested = 1.5,
                                  .test_steps = 10,
                                  .images_per_second = 1234.5,
                                  .loss = 0.12344,
                                  .seconds_left = 65.4};

static void the_view_shows_how_far_a_run_is(void **state)
{
    (void)state;
    const history none = {.used = 0};
    const loads unknown = {.known = false};
    /* 30 of 100 steps and 1.5 of 2 tests, which count as 10 steps each: 45 of 120. 99 columns hold a bar of 99 - 11 - 5
     * - 2. */
    const char *text = view(&midway, &none, &unknown, 5);
    assert_shows(text, "  37%");
    assert_bar(text, " epoch 2/2 [", "=-]", (const int[]){81 * 45 / 120, 81 - 81 * 45 / 120, 1});
    assert_shows(text, "step 30 of 100   loss 0.1234   1,235 images/s   1:05 left");
    view_state at = midway;
    at.step = 100;
    at.tested = 2;
    assert_shows(view(&at, &none, &unknown, 5), " 100%");
    at.tested = 0;
    at.seconds_left = 3725.5;
    at.phase = "testing";
    text = view(&at, &none, &unknown, 5);
    assert_shows(text, "  83%");
    assert_shows(text, "1:02:06 left   testing");
}

static void the_view_shows_the_devices_loads(void **state)
{
    (void)state;
    const history none = {.used = 0};
    ls_session *s = ls_open(NULL);
    loads devices = {.devices = ls_parse_devices(s, "cpu:0-1"), .known = true};
    devices.each[0] = (load){0.75f, 0.125f};
    devices.each[1] = (load){0.25f, 0.5f};
    for (int i = 0; i < 2; i++)
        devices.names[i] = ls_device_str(s, devices.devices.at[i]);
    /* Two beside one another: 48 columns, of which label and number take 13. */
    const char *text = view(&midway, &none, &devices, 8);
    assert_bar(text, " cpu(0)  75% ", "=+- ", (const int[]){26, 5, 4, 4});
    assert_bar(text, " cpu(1)  25% ", "=+-", (const int[]){9, 17, 9});
    /* Neighbours that share a bar show their mean. */
    devices.devices = ls_parse_devices(s, "cpu:0-3");
    devices.each[2] = devices.each[3] = (load){0.5f, 0};
    text = view(&midway, &none, &devices, 8);
    assert_bar(text, " cpu(0-1)  50% ", "=+-", (const int[]){16, 11, 6});
    assert_bar(text, " cpu(2-3)  50% ", "=+-", (const int[]){16, 0, 17});
    assert_int_equal(ls_close(s), LS_OK);
}

/* A run with losses that fall, a step without one, accuracies that rise, and so many tests. */
static void remember(history *h, int64_t steps, int tests)
{
    memset(h, 0, sizeof *h);
    for (int64_t step = 1; step <= steps; step++)
        history_step(h, step, step == 7 ? NAN : 0.2 + 2.1 / (1 + 0.05 * (double)step), step * 60 / (step + 20), 64);
    for (int i = 1; i <= tests; i++)
        history_test(h, steps * i / tests, 0.9 - 0.5 / i);
}

/* Frames as they were found good on a terminal, by the sum of their bytes; one that differs is printed. */
static void frames_are_as_they_were_found_good(void **state)
{
    (void)state;
    static const struct {
        int columns, rows;
        bool utf8;
        terminal_colours colours;
        int devices, tests, batches;
        const char *phase;
        bool over;
        int lines;
        uint64_t sum; /* FNV-1a */
    } frames[] = {
        {200, 50, true, COLOURS_MANY, 3, 4, 50, NULL, false, 23, 0xf74324e12c27f8e3},
        {151, 40, true, COLOURS_FEW, 16, 40, 2, "testing", false, 25, 0xac4722618a285711},
        {100, 30, false, COLOURS_NONE, 2, 4, 50, NULL, false, 22, 0x2d91adfad71f9cad},
        {80, 24, true, COLOURS_MANY, 9, 1, 50, NULL, false, 19, 0x7f1592687498a812},
        {73, 22, true, COLOURS_FEW, 1, 4, 50, NULL, true, 11, 0x5ca91fb5868c6a65},
        {72, 22, false, COLOURS_FEW, 1, 4, 50, "saving", false, 14, 0xfa3b3fcc5f3787cd},
        {60, 21, true, COLOURS_NONE, 4, 4, 50, NULL, false, 14, 0x15ee8ddf7ef5837d},
        {41, 16, true, COLOURS_MANY, 2, 4, 50, NULL, false, 14, 0xf5aa3d2f32d96120},
        {40, 12, false, COLOURS_FEW, 2, 4, 50, NULL, false, 4, 0x8cf3a7574ddca531},
        {30, 8, true, COLOURS_MANY, 5, 4, 50, "testing", false, 4, 0xee5fbd3d7dc51f2a},
        {24, 4, true, COLOURS_FEW, 2, 4, 50, NULL, false, 2, 0x00e48ddc36fd3c6f},
        {9, 2, true, COLOURS_FEW, 0, 4, 50, NULL, false, 1, 0x3a387b9a1b918041},
        {120, 20, true, COLOURS_MANY, 2, 4, 1, NULL, false, 14, 0x22efa357993385f0},
    };
    static history h;
    ls_session *s = ls_open(NULL);
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        view_state at = midway;
        char list[32];
        int length;
        loads devices = {.known = frames[i].devices > 0};
        remember(&h, at.step, frames[i].tests);
        if (devices.known) {
            snprintf(list, sizeof list, "cpu:0-%d", frames[i].devices - 1);
            devices.devices = ls_parse_devices(s, list);
        }
        for (int k = 0; k < frames[i].devices; k++) {
            devices.names[k] = ls_device_str(s, devices.devices.at[k]);
            devices.each[k] = (load){0.9f - 0.05f * (float)k, 0.03f};
        }
        at.batches = frames[i].batches;
        at.phase = frames[i].phase;
        at.over = frames[i].over;
        const terminal look = {frames[i].utf8, frames[i].colours};
        const int lines =
            view_frame(frame, &length, &boards, &at, &h, &devices, &look, frames[i].columns, frames[i].rows);
        assert_int_equal(length, strlen(frame));
        uint64_t sum = 0xcbf29ce484222325;
        for (int k = 0; k < length; k++)
            sum = (sum ^ (unsigned char)frame[k]) * 0x100000001b3;
        /* No colour goes on behind the frame. */
        const char *last = NULL;
        for (const char *sign = frame; (sign = strstr(sign, "\033[")) != NULL; sign++)
            last = sign[2 + strspn(sign + 2, "0123456789;")] == 'm' ? sign : last;
        if (sum != frames[i].sum || lines != frames[i].lines || (last && strncmp(last, "\033[0m", 4) != 0)) {
            printf("%d x %d, {%d, 0x%016llx}:\n%s\033[0m\n", frames[i].columns, frames[i].rows, lines,
                   (unsigned long long)sum, frame);
            fail_msg("a frame of %d x %d has changed", frames[i].columns, frames[i].rows);
        }
    }
    assert_int_equal(ls_close(s), LS_OK);
}

static void an_epochs_line_is_as_long_as_fits(void **state)
{
    (void)state;
    char text[160];
    view_epoch e = {2, 10, 0.51234, 0.81239, 0.79996, 1.2345, 45678.6, NAN};
    view_epoch_text(text, sizeof text, 100, &e);
    assert_string_equal(text, "epoch 2/10: loss 0.5123, train acc 0.8124, test acc 0.8000, 1.23 sec, 45679 images/s");
    view_epoch_text(text, sizeof text, 80, &e);
    assert_string_equal(text, "epoch 2/10: loss 0.5123, train acc 0.8124, test acc 0.8000");
    e.val_acc = 0.76541;
    view_epoch_text(text, sizeof text, 120, &e);
    assert_string_equal(
        text, "epoch 2/10: loss 0.5123, train acc 0.8124, val acc 0.7654, test acc 0.8000, 1.23 sec, 45679 images/s");
    view_epoch_text(text, sizeof text, 60, &e);
    assert_string_equal(text, "2/10: loss 0.512, val acc 0.765, test acc 0.800");
    view_epoch_text(text, sizeof text, 20, &e);
    assert_string_equal(text, "2: 0.512  0.800");
}

/* ---- Curves ---- */

static void assert_bin(const history *h, int i, double step, double loss, double acc)
{
    double at, value;
    assert_true(history_loss_at(h, i, &at, &value));
    assert_near(at, step);
    assert_near(value, loss);
    assert_true(history_acc_at(h, i, &at, &value));
    assert_near(at, step);
    assert_near(value, acc);
}

static void a_bin_is_the_mean_of_its_steps(void **state)
{
    (void)state;
    static history h;
    for (int step = 1; step <= HISTORY_BINS; step++)
        history_step(&h, step, step, step % 4, 4);
    assert_bin(&h, 0, 1, 1, 0.25);
    assert_bin(&h, HISTORY_BINS - 1, HISTORY_BINS, HISTORY_BINS, 0);
    assert_near(h.last_loss, HISTORY_BINS);
    /* One more: two to a bin, and the last is half full. */
    history_step(&h, HISTORY_BINS + 1, 7, 1, 2);
    assert_int_equal(h.used, HISTORY_BINS / 2 + 1);
    assert_bin(&h, 0, 1.5, 1.5, 3 / 8.0);
    assert_bin(&h, 1, 3.5, 3.5, 3 / 8.0);
    assert_bin(&h, HISTORY_BINS / 2, HISTORY_BINS + 1, 7, 0.5);
    /* A loss that is not finite is none. */
    history_step(&h, HISTORY_BINS + 2, INFINITY, 1, 2);
    assert_bin(&h, HISTORY_BINS / 2, HISTORY_BINS + 1.5, 7, 0.5);
    for (int i = 1; i <= HISTORY_POINTS + 1; i++)
        history_test(&h, 10 * i, i);
    assert_int_equal(h.n_points, HISTORY_POINTS / 2 + 1);
    assert_true(h.points[0].step == 20 && h.points[0].acc == 2);
    assert_true(h.points[h.n_points - 1].step == 10 * (HISTORY_POINTS + 1));
}

/* Neighbours share a place of the drawing where there are more than it has. */
static void the_largest_loss_is_that_of_a_place(void **state)
{
    (void)state;
    static const struct {
        int steps, spike;
        double most;
    } runs[] = {{127, 5, 10}, {128, 5, 5}, {129, 129, 10}, {300, 4, 10.0 / 3}, {0, 0, 0}};
    static history h;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        memset(&h, 0, sizeof h);
        for (int step = 1; step <= runs[i].steps; step++)
            history_step(&h, step, step == runs[i].spike ? 10 : 0, 0, 0);
        assert_near(history_most_loss(&h), runs[i].most);
    }
    memset(&h, 0, sizeof h);
    for (int step = 1; step <= 200; step++)
        history_step(&h, step, step == 9 ? NAN : step == 10 ? 10 : 0, 0, 0);
    assert_near(history_most_loss(&h), 10);
}

/* ---- Numbers as texts ---- */

static void numbers_are_written_as_people_read_them(void **state)
{
    (void)state;
    static const struct {
        int64_t count;
        const char *text;
    } counts[] = {{0, "0"}, {999, "999"}, {1000, "1,000"}, {25951, "25,951"}, {1234567, "1,234,567"}};
    static const struct {
        double seconds;
        const char *text;
    } times[] = {{0.4, "0:00"}, {41.2, "0:41"}, {59.5, "1:00"}, {3599.6, "1:00:00"}, {3723, "1:02:03"}};
    static const struct {
        double value, step;
        const char *text;
    } labels[] = {
        {0.75, 0.25, "0.75"},          {0.5, 0.5, "0.5"},          {20, 5, "20"},           {2.5, 2.5, "2.5"},
        {0.002, 0.001, "0.002"},       {0.0005, 0.0005, "0.0005"}, {0, 2e-9, "0"},          {2e-9, 2e-9, "2e-9"},
        {3.75e-5, 1.25e-5, "3.75e-5"}, {40000, 10000, "40000"},    {5e13, 1.25e13, "5e13"}, {1e14, 2.5e13, "1e14"},
        {7.5e25, 2.5e25, "7.5e25"}};
    char text[32];
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        count_text(text, sizeof text, counts[i].count);
        assert_string_equal(text, counts[i].text);
    }
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        time_text(text, sizeof text, times[i].seconds);
        assert_string_equal(text, times[i].text);
    }
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        scale_text(text, sizeof text, labels[i].value, labels[i].step);
        assert_string_equal(text, labels[i].text);
    }
}

/* What is not UTF-8, and what controls a terminal, becomes question marks byte by byte. */
static void texts_are_cleaned(void **state)
{
    (void)state;
    static const struct {
        const char *text, *clean;
    } texts[] = {
        {"", ""},
        {"a ~", "a ~"},
        {"a\x7f\n\x1b[", "a?\?\?["},
        {"\x80", "?"},
        {"\xc1\xbf", "??"},
        {"\xc2\xa0", "\xc2\xa0"},
        {"\xc3", "?"},
        {"\xc3(", "?("},
        {"\xe0\x9f\xbf", "???"},
        {"\xe0\xa0\x80", "\xe0\xa0\x80"},
        {"\xe2\x82", "??"},
        {"\xe2\x82(", "?\?("},
        {"\xed\x9f\xbf", "\xed\x9f\xbf"},
        {"\xed\xa0\x80", "???"},
        {"\xf0\x8f\xbf\xbf", "????"},
        {"\xf0\x90\x80\x80", "\xf0\x90\x80\x80"},
        {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
        {"\xf4\x90\x80\x80", "????"},
        {"\xf5\x80\x80\x80", "????"},
        {"\xff", "?"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[8];
        snprintf(text, sizeof text, "%s", texts[i].text);
        utf8_clean(text);
        assert_string_equal(text, texts[i].clean);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forecast_is_its_formula),
        cmocka_unit_test(latency_is_what_is_left_over),
        cmocka_unit_test(as_many_devices_are_recommended_as_pay),
        cmocka_unit_test(loads_are_parts_of_the_last_seconds),
        cmocka_unit_test(advice_is_of_the_spans),
        cmocka_unit_test(advice_is_of_what_is_worth_it),
        cmocka_unit_test(advice_is_of_shards_and_cores),
        cmocka_unit_test(advice_is_of_the_kinds_of_spans),
        cmocka_unit_test(the_view_shows_how_far_a_run_is),
        cmocka_unit_test(the_view_shows_the_devices_loads),
        cmocka_unit_test(frames_are_as_they_were_found_good),
        cmocka_unit_test(an_epochs_line_is_as_long_as_fits),
        cmocka_unit_test(a_bin_is_the_mean_of_its_steps),
        cmocka_unit_test(the_largest_loss_is_that_of_a_place),
        cmocka_unit_test(numbers_are_written_as_people_read_them),
        cmocka_unit_test(texts_are_cleaned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
