#include "diag/profile.h"

#include <math.h>
#include <string.h>

#include "base/environment.h"
#include "base/timer.h"

/* ---- Start and stop ---- */

static void set_profile(struct ls_trainer *trainer, ls_profile *profile)
{
    pthread_mutex_lock(&trainer->lock);
    trainer->profile = profile;
    pthread_mutex_unlock(&trainer->lock);
}

/* The engine is idle: its meters begin, or cease, to serve the profile. */
static void turn_meters(ls_profile *profile, bool on)
{
    ls_engine *engine = profile->trainer->network->engine;
    for (int i = 0; i < profile->n_workers; i++) {
        ls_meter *meter = &engine->workers[i].meter;
        *(on ? &profile->before[i] : &profile->after[i]) = ls_meter_read(meter);
        if (on)
            memset(meter->worked, 0, sizeof meter->worked);
        meter->measured = on;
        meter->spans = on && profile->spans ? &profile->spans[i] : NULL;
        profile->worked[i] = meter->worked[LS_SPAN_SHARD] + meter->worked[LS_SPAN_HELP];
        profile->reduced[i] = meter->worked[LS_SPAN_FOLD] + meter->worked[LS_SPAN_GIVE] + meter->worked[LS_SPAN_REDUCE];
    }
}

static void untrace_cards(ls_engine *engine)
{
    for (int i = 0; i < engine->n_workers; i++)
        ls_gpu_trace_end(engine->workers[i].turn->executor);
}

/* Cards do later what they are handed. */
static ls_status trace_cards(ls_profile *profile, ls_network *network)
{
    ls_engine *engine = network->engine;
    if (!ls_network_on_cards(network))
        return LS_OK;
    profile->traced =
        ls_alloc(&profile->session->context, (size_t)profile->n_workers, sizeof *profile->traced, "a profile");
    for (int i = 0; profile->traced && i < profile->n_workers; i++) {
        ls_executor *executor = engine->workers[i].turn->executor;
        if (executor->memory == 0)
            continue;
        if (!executor->gpu_trace && !ls_gpu_trace_begin(executor)) {
            untrace_cards(engine);
            return LS_OUT_OF_MEMORY;
        }
        executor->gpu_trace->of = &profile->traced[i];
        profile->traced[i].later = true;
        if (profile->spans)
            profile->traced[i].spans = &profile->spans[profile->n_workers + 2 + i];
    }
    return profile->traced ? LS_OK : LS_OUT_OF_MEMORY;
}

static void stop(ls_profile *profile)
{
    struct ls_trainer *trainer = profile->trainer;
    if (!trainer)
        return;
    ls_engine_wait(trainer->network->engine);
    set_profile(trainer, NULL);
    turn_meters(profile, false);
    profile->host_sums = !ls_network_master_on_card(trainer->network);
    untrace_cards(trainer->network->engine);
    profile->trainer = NULL;
}

static void free_profile(void *object)
{
    ls_profile *profile = object;
    ls_context *context = &profile->session->context;
    stop(profile);
    while (profile->plans) {
        ls_measured *m = profile->plans;
        profile->plans = m->next;
        ls_measured_free(context, m);
    }
    ls_profile_free_spans(profile);
    ls_release(context, profile->before);
    ls_release(context, profile->worked);
    ls_release(context, profile->traced);
    ls_release(context, profile->rows);
    ls_release(context, profile);
}

static ls_status make_room(ls_profile *profile, int64_t spans, bool on_cards)
{
    ls_context *context = &profile->session->context;
    size_t workers = (size_t)profile->n_workers, cores = (size_t)profile->n_cores;
    profile->before = ls_alloc(context, 2 * workers, sizeof *profile->before, "a profile");
    profile->worked = ls_alloc(context, 2 * workers + cores, sizeof *profile->worked, "a profile");
    if (!profile->before || !profile->worked)
        return LS_OUT_OF_MEMORY;
    profile->after = profile->before + workers;
    profile->reduced = profile->worked + workers;
    profile->computed = profile->reduced + workers;
    return spans > 0 ? ls_profile_reserve_spans(profile, spans, on_cards) : LS_OK;
}

ls_profile *ls_profile_start(ls_trainer *trainer, int64_t spans)
{
    LS_OWN_ENVIRONMENT;
    if (!trainer || ls_failed(trainer->session))
        return NULL;
    ls_context *context = &trainer->session->context;
    if (trainer->profile) {
        ls_raise(context, LS_BAD_ARGUMENT, "ls_profile_start: the trainer is being measured already");
        return NULL;
    }
    if (ls_network_wait(trainer->network) != LS_OK)
        return NULL;
    ls_profile *profile = ls_alloc(context, 1, sizeof *profile, "a profile");
    if (!profile)
        return NULL;
    profile->session = trainer->session;
    profile->last = &profile->plans;
    profile->flat = &trainer->network->flat;
    profile->n_cores = trainer->network->engine->n_cores;
    profile->n_workers = trainer->network->engine->n_workers;
    profile->devices = trainer->network->devices;
    if (make_room(profile, spans, ls_network_on_cards(trainer->network)) != LS_OK ||
        trace_cards(profile, trainer->network) != LS_OK) {
        free_profile(profile);
        return NULL;
    }
    profile->trainer = trainer;
    profile->started = ls_seconds();
    turn_meters(profile, true);
    set_profile(trainer, profile);
    return ls_own_of(trainer->session, profile, trainer, free_profile);
}

/* ---- Adding up ---- */

static ls_tally add_tallies(const ls_profile *profile, const ls_measured *m, int step)
{
    ls_tally all = {0};
    for (int i = 0; i < profile->n_cores; i++) {
        const ls_tally *one = &m->tally[(size_t)i * (size_t)m->n + (size_t)step];
        all.calls += one->calls;
        all.images += one->images;
        all.groups += one->groups;
        all.seconds += one->seconds;
    }
    return all;
}

static ls_status make_rows(ls_profile *profile)
{
    size_t n = 0;
    for (const ls_measured *m = profile->plans; m; m = m->next)
        n += (size_t)m->n;
    profile->rows = ls_alloc(&profile->session->context, n, sizeof *profile->rows, "a profile");
    if (!profile->rows)
        return LS_OUT_OF_MEMORY;
    for (ls_measured *m = profile->plans; m; m = m->next) {
        bool backward = false;
        for (int i = 0; i < m->n; i++) {
            ls_tally all = add_tallies(profile, m, i);
            backward |= m->steps[i].attributes.op == LS_OP_ONES; /* the backward pass begins with it */
            m->row[i] = -1;
            if (m->steps[i].attributes.op == LS_OP_IMAGES) {
                profile->sum.gathering += all.seconds;
            } else if (all.calls) {
                m->row[i] = profile->n_rows;
                profile->rows[profile->n_rows++] = ls_profile_row_of(&m->steps[i], &all, backward, profile->flat);
                profile->sum.operations += all.seconds;
            }
        }
    }
    return LS_OK;
}

static double reducing_seconds(const double seconds[LS_METER_STATES])
{
    return seconds[LS_SPAN_FOLD] + seconds[LS_SPAN_GIVE] + seconds[LS_SPAN_REDUCE];
}

static ls_device_times times_of(const ls_meter_reading *r, ls_device device)
{
    return (ls_device_times){.device = device,
                             .computing = r->seconds[LS_SPAN_SHARD] + r->seconds[LS_SPAN_HELP],
                             .reducing = reducing_seconds(r->seconds),
                             .waiting = r->seconds[LS_SPAN_WAIT] + r->seconds[LS_SPAN_WAIT_CORE] +
                                        r->seconds[LS_SPAN_WAIT_BUFFER] + r->seconds[LS_SPAN_WAIT_RANKS],
                             .idle = r->seconds[LS_SPAN_IDLE] + r->seconds[LS_SPAN_EVALUATE],
                             .shards = r->shards,
                             .images = r->images};
}

/* What a card did instead of what its worker was at, which handed it in and waited for it. */
static void put_card_times(ls_device_times *times, const ls_gpu_traced *card, bool host_sums)
{
    const double together = times->computing + times->reducing + times->waiting;
    times->computing = card->computing;
    times->reducing = card->summing + (host_sums ? times->reducing : 0);
    times->waiting = fmax(0, together - times->computing - times->reducing);
}

/* While the profile ran. */
static ls_device_times times_between(const ls_profile *profile, int i)
{
    ls_meter_reading r = profile->after[i];
    const ls_meter_reading *before = &profile->before[i];
    for (int k = 0; k < LS_METER_STATES; k++)
        r.seconds[k] -= before->seconds[k];
    r.shards -= before->shards;
    r.images -= before->images;
    ls_device_times times = times_of(&r, profile->devices.at[i]);
    const ls_gpu_traced *traced = ls_measure_traced(profile, i);
    if (traced)
        put_card_times(&times, traced, profile->host_sums);
    else
        times.elsewhere = times.computing + times.reducing - profile->worked[i] - profile->reduced[i];
    return times;
}

static void add_up(ls_profile *profile)
{
    ls_profile_sum *sum = &profile->sum;
    double turns = 0, worked = 0;
    for (int i = 0; i < profile->n_workers; i++) {
        ls_device_times times = times_between(profile, i);
        const ls_gpu_traced *traced = ls_measure_traced(profile, i);
        double copied = traced ? traced->copying : 0;
        turns += times.computing + times.reducing + copied;
        worked += times.computing + times.reducing + copied - times.elsewhere;
        sum->reducing += traced ? times.reducing : profile->reduced[i];
    }
    sum->cores = profile->n_cores;
    sum->seconds = profile->latest - profile->first;
    /* More devices than cores, and other programs beside them: threads at work without a core overlap, and their turns
     * may add up to more than the cores' time, which is the most that can have been taken. */
    double taken = fmin(turns, sum->seconds * sum->cores);
    sum->between = worked - sum->operations - sum->gathering - sum->reducing;
    sum->elsewhere = taken - worked;
    sum->waiting = sum->seconds * sum->cores - taken;
}

ls_status ls_profile_stop(ls_profile *profile)
{
    LS_OWN_ENVIRONMENT;
    if (!profile)
        return LS_BAD_ARGUMENT;
    ls_session *session = profile->session;
    if (ls_context_is_parents(&session->context))
        return ls_status_of(session);
    bool running = profile->trainer != NULL;
    stop(profile);
    if (ls_failed(session) || !running || make_rows(profile) != LS_OK)
        return ls_status_of(session);
    if (profile->begun)
        add_up(profile);
    if (profile->spans)
        ls_profile_arrange_spans(profile);
    return ls_status_of(session);
}

/* ---- Reading ---- */

int ls_profile_rows(const ls_profile *profile)
{
    return profile ? profile->n_rows : 0;
}

static ls_status check_reading(const ls_profile *profile, bool good, const char *function, const char *wrong)
{
    if (!profile)
        return LS_BAD_ARGUMENT;
    ls_context *context = &profile->session->context;
    if (profile->trainer)
        return ls_raise(context, LS_BAD_ARGUMENT, "%s: the profile runs still; call ls_profile_stop first", function);
    return good ? ls_status_of(profile->session) : ls_raise(context, LS_BAD_ARGUMENT, "%s: %s", function, wrong);
}

ls_status ls_profile_at(const ls_profile *profile, int i, ls_profile_row *row)
{
    LS_OWN_ENVIRONMENT;
    bool good = profile && row && i >= 0 && i < profile->n_rows;
    ls_status status = check_reading(profile, good, "ls_profile_at", row ? "there is no such row" : "row is NULL");
    if (status == LS_OK)
        *row = profile->rows[i];
    return status;
}

ls_status ls_profile_total(const ls_profile *profile, ls_profile_sum *sum)
{
    LS_OWN_ENVIRONMENT;
    ls_status status = check_reading(profile, sum != NULL, "ls_profile_total", "sum is NULL");
    if (status == LS_OK)
        *sum = profile->sum;
    return status;
}

ls_status ls_profile_device(const ls_profile *profile, int i, ls_device_times *times)
{
    LS_OWN_ENVIRONMENT;
    bool good = profile && times && i >= 0 && i < profile->n_workers;
    ls_status status =
        check_reading(profile, good, "ls_profile_device", times ? "there is no such device" : "times is NULL");
    if (status == LS_OK)
        *times = times_between(profile, i);
    return status;
}

int64_t ls_profile_spans(const ls_profile *profile)
{
    LS_OWN_ENVIRONMENT;
    int64_t n = 0;
    for (int i = 0; profile && !profile->trainer && profile->spans && i < profile->n_lists; i++)
        n += profile->spans[i].added;
    return n;
}

ls_status ls_profile_span_at(const ls_profile *profile, int64_t i, ls_span *span)
{
    LS_OWN_ENVIRONMENT;
    bool good = span && i >= 0 && i < ls_profile_spans(profile);
    ls_status status =
        check_reading(profile, good, "ls_profile_span_at", span ? "there is no such span" : "span is NULL");
    if (status != LS_OK)
        return status;
    int list = 0;
    while (i >= profile->spans[list].added)
        i -= profile->spans[list++].added;
    const ls_kept_span *kept = &profile->spans[list].at[i];
    const int others = profile->n_workers + 2;
    *span = (ls_span){.kind = (ls_span_kind)kept->kind,
                      .device = list < profile->n_workers ? list
                                : list < others           ? -1
                                                          : list - others,
                      .begin = kept->begin,
                      .end = kept->end,
                      .step = kept->step,
                      .number = kept->number,
                      .row = -1};
    if (span->kind == LS_SPAN_OPERATION) {
        const ls_measured *m = profile->plans;
        while (m->number != kept->plan)
            m = m->next;
        span->row = m->row[kept->number];
        span->number = -1;
    }
    return LS_OK;
}

ls_status ls_trainer_device_times(ls_trainer *trainer, int i, ls_device_times *times)
{
    LS_OWN_ENVIRONMENT;
    if (!trainer)
        return LS_BAD_ARGUMENT;
    const ls_network *network = trainer->network;
    if (ls_context_is_parents(&trainer->session->context))
        return ls_status_of(trainer->session);
    if (!times || i < 0 || i >= network->engine->n_workers)
        return ls_raise(&trainer->session->context, LS_BAD_ARGUMENT, "ls_trainer_device_times: %s",
                        times ? "there is no such device" : "times is NULL");
    ls_meter_reading r = ls_meter_read(&network->engine->workers[i].meter);
    *times = times_of(&r, network->devices.at[i]);
    return ls_status_of(trainer->session);
}
