#include "speed/advice.h"
#include "text/say.h"
#include "text/scale.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Less than these parts of a step are nobody's business; a device is slow from there on. */
static const double worth_saying = 0.01, worth_changing = 0.05, slow = 0.1;

/* One step: computing ends with its last shard, or with a card's last operation, which are one device's. */
typedef struct step {
    double begin, end, computed;
    int last;
} step;

typedef struct sums {
    const run *r;
    step *steps; /* of numbers first to first + n - 1 */
    int64_t first, n;
    int devices;
    bool card_sums;         /* a card sums and updates, not the devices' threads */
    ls_device_times *times; /* [devices] */
    double *waited;         /* [devices][devices] seconds of the one for the other's last shard */
    double step_seconds;
    double hidden, open; /* of reducing, all devices: while shards were computed, and after them */
    double tail;         /* by the clock, after the last shards */
} sums;

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static const char *name_of(const sums *s, int device)
{
    return ls_device_str(s->r->session, s->r->devices.at[device]);
}

static step *step_of(const sums *s, const ls_span *span)
{
    bool there = span->step >= s->first && span->step < s->first + s->n;
    return there ? &s->steps[span->step - s->first] : NULL;
}

static bool is_card(const sums *s, int device)
{
    return device >= 0 && s->r->devices.at[device].type == LS_CUDA;
}

/* ---- Adding up ---- */

static void find_steps(sums *s, const ls_profile *profile)
{
    ls_span span;
    int64_t all = ls_profile_spans(profile);
    for (int64_t i = 0; i < all && ls_profile_span_at(profile, i, &span) == LS_OK; i++) {
        s->card_sums |= span.kind == LS_SPAN_CARD_SUM;
        if (span.kind != LS_SPAN_STEP)
            continue;
        if (!s->n)
            s->first = span.step;
        s->n = span.step - s->first + 1;
    }
}

static void add_span(sums *s, const ls_span *span)
{
    step *at = step_of(s, span);
    if (!at)
        return;
    double before = larger(0, smaller(span->end, at->computed) - larger(span->begin, at->begin));
    double after = larger(0, smaller(span->end, at->end) - larger(span->begin, at->computed));
    if (span->kind == LS_SPAN_WAIT && span->device != at->last)
        s->waited[span->device * s->devices + at->last] += before;
    if (s->card_sums ? span->kind == LS_SPAN_CARD_SUM
                     : span->kind == LS_SPAN_REDUCE || span->kind == LS_SPAN_FOLD || span->kind == LS_SPAN_GIVE) {
        s->hidden += before;
        s->open += after;
    }
}

static void add_up(sums *s, const ls_profile *profile)
{
    ls_span span;
    int64_t all = ls_profile_spans(profile);
    for (int64_t i = 0; i < all && ls_profile_span_at(profile, i, &span) == LS_OK; i++) {
        step *at = span.kind == LS_SPAN_STEP ? step_of(s, &span) : NULL;
        if (at)
            *at = (step){.begin = span.begin, .end = span.end, .computed = span.begin};
    }
    for (int64_t i = 0; i < all && ls_profile_span_at(profile, i, &span) == LS_OK; i++) {
        /* A device that computed an operation of another's shard may read its clock late: the shard says when it was
         * done. */
        bool computes = span.kind == LS_SPAN_SHARD || (span.kind == LS_SPAN_OPERATION && is_card(s, span.device));
        step *at = computes ? step_of(s, &span) : NULL;
        /* One that ends behind its step was done before, and kept from its core. */
        double end = at ? smaller(span.end, at->end) : 0;
        if (at && end > at->computed) {
            at->computed = end;
            at->last = span.device;
        }
    }
    for (int64_t i = 0; i < all && ls_profile_span_at(profile, i, &span) == LS_OK; i++)
        add_span(s, &span);
    for (int64_t k = 0; k < s->n; k++) {
        s->step_seconds += s->steps[k].end - s->steps[k].begin;
        s->tail += s->steps[k].end - s->steps[k].computed;
    }
    for (int i = 0; i < s->devices; i++)
        ls_profile_device(profile, i, &s->times[i]);
}

/* ---- What it says ---- */

static void say_parts(const sums *s)
{
    ls_device_times all = {.computing = 0};
    for (int i = 0; i < s->devices; i++) {
        all.computing += s->times[i].computing;
        all.reducing += s->times[i].reducing;
        all.waiting += s->times[i].waiting;
    }
    double together = all.computing + all.reducing + all.waiting;
    if (together > 0)
        note("trace: a step takes %.3f ms; of the devices' time %.1f %% went into computing, %.1f %% into reducing and "
             "updating, %.1f %% into waiting",
             1e3 * s->step_seconds / (double)s->n, 100 * all.computing / together, 100 * all.reducing / together,
             100 * all.waiting / together);
    double reducing = s->hidden + s->open;
    if (reducing > 0)
        note("trace: %.0f %% of the reducing was hidden behind computing; what is left makes a step %.3f ms longer "
             "(%.1f %%)",
             100 * s->hidden / reducing, 1e3 * s->tail / (double)s->n, 100 * s->tail / s->step_seconds);
}

/* The pair with the longest wait, and of each other device no word. */
static void say_waits(const sums *s)
{
    int worst = 0, pairs = s->devices * s->devices;
    for (int i = 1; i < pairs; i++)
        if (s->waited[i] > s->waited[worst])
            worst = i;
    double share = s->waited[worst] / s->step_seconds;
    if (s->devices == 1)
        return;
    if (share < worth_saying)
        note("trace: no device waited for another's last shard for more than %.0f %% of a step", 100 * worth_saying);
    else
        note("trace: the longest wait: %s %.3f ms a step (%.1f %%) for the last shard of %s",
             name_of(s, worst / s->devices), 1e3 * s->waited[worst] / (double)s->n, 100 * share,
             name_of(s, worst % s->devices));
}

static double seconds_an_image(const ls_device_times *times)
{
    return times->images ? times->computing / (double)times->images : 0;
}

/* How many lines of what to change were said. */
static int say_slow_devices(const sums *s)
{
    enum { MOST = 4 };
    int said = 0, fastest = -1;
    for (int i = 0; i < s->devices; i++)
        if (s->times[i].images &&
            (fastest < 0 || seconds_an_image(&s->times[i]) < seconds_an_image(&s->times[fastest])))
            fastest = i;
    for (int i = 0; i < s->devices && said < MOST; i++) {
        const ls_device_times *times = &s->times[i];
        double took = seconds_an_image(times);
        double others = times->computing > 0 ? times->elsewhere / (times->computing + times->reducing) : 0;
        double slower = fastest >= 0 ? took / seconds_an_image(&s->times[fastest]) - 1 : 0;
        if (others > worth_changing)
            note("trace: to change: other programs had the core of %s for %.0f %% of its work; end them, or leave it "
                 "out",
                 name_of(s, i), 100 * others);
        else if (took > 0 && slower > slow)
            note("trace: to change: %s takes %.0f %% longer for an image than %s; leave it out, or let smaller shards "
                 "(--shard %lld) even it out",
                 name_of(s, i), 100 * slower, name_of(s, fastest), (long long)(s->r->chosen->shard + 1) / 2);
        else
            continue;
        said++;
    }
    return said;
}

/* Devices that share a core take turns on it. */
static int count_cores(const ls_devices *devices)
{
    int cores = 0;
    for (int i = 0; i < devices->n; i++) {
        int k = 0;
        while (k < i && ls_device_core(devices->at[k]) != ls_device_core(devices->at[i]))
            k++;
        cores += k == i;
    }
    return cores;
}

/* Shards of a step that the devices cannot share evenly. */
static int say_shards(const sums *s, int64_t rows)
{
    const settings *c = s->r->chosen;
    int64_t batch = c->batch < rows ? c->batch : rows, shards = (batch - 1) / c->shard + 1;
    int64_t cores = count_cores(&s->r->devices), rounds = (shards - 1) / cores + 1, fed = rounds * cores;
    double unused = 1 - (double)shards / (double)fed;
    if (unused < worth_changing)
        return 0;
    char more[96] = "";
    if (fed * c->shard <= rows)
        snprintf(more, sizeof more, "; --batch %lld would feed all (and train otherwise)", (long long)(fed * c->shard));
    note("trace: to change: %lld shards a step do not divide by %lld %s: with the last ones some only help, or wait%s",
         (long long)shards, (long long)cores, cores < s->devices ? "cores" : "devices", more);
    return 1;
}

static int say_changes(const sums *s, int64_t rows)
{
    int said = say_shards(s, rows);
    said += say_slow_devices(s);
    if (s->tail > slow * s->step_seconds) {
        note("trace: to change: much of a step is its end, where nothing is left to compute; a larger --batch has it "
             "less often (and trains otherwise)");
        said++;
    }
    return said;
}

void advice_say(const char *path, const ls_profile *profile, const run *r, int64_t rows)
{
    char count[32];
    ls_profile_sum sum;
    sums s = {.r = r, .devices = r->devices.n};
    find_steps(&s, profile);
    count_text(count, sizeof count, ls_profile_spans(profile));
    note("trace: %s: %s spans of %lld steps; Perfetto and chrome://tracing open it", path, count, (long long)s.n);
    if (ls_profile_total(profile, &sum) == LS_OK && sum.dropped)
        note("trace: the %lld steps before them are not in it: there is room for so many spans",
             (long long)sum.dropped);
    s.steps = calloc((size_t)s.n + 1, sizeof *s.steps);
    s.times = calloc((size_t)s.devices, sizeof *s.times);
    s.waited = calloc((size_t)s.devices * (size_t)s.devices, sizeof *s.waited);
    if (s.steps && s.times && s.waited && s.n) {
        add_up(&s, profile);
        say_parts(&s);
        say_waits(&s);
        if (!say_changes(&s, rows))
            note("trace: to change: nothing that it shows");
    }
    free(s.steps);
    free(s.times);
    free(s.waited);
}
