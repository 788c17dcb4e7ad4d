#include "train/measure.h"

#include <math.h>
#include <string.h>

#include "base/timer.h"

static ls_measured *find(const ls_profile *profile, const ls_plan *plan)
{
    ls_measured *m = profile->plans;
    while (m && m->plan != plan->number)
        m = m->next;
    return m;
}

void ls_measured_free(ls_context *context, ls_measured *m)
{
    if (!m)
        return;
    ls_release(context, m->steps);
    ls_release(context, m->tally);
    ls_release(context, m->row);
    ls_release(context, m);
}

ls_status ls_measure_reserve(ls_profile *profile, const ls_plan *plan)
{
    if (find(profile, plan))
        return LS_OK;
    ls_context *context = &profile->session->context;
    size_t n = (size_t)plan->n_steps;
    ls_measured *m = ls_alloc(context, 1, sizeof *m, "a profile");
    if (m)
        m->steps = ls_alloc(context, n, sizeof *m->steps, "a profile");
    if (m && m->steps)
        m->tally = ls_alloc(context, n * (size_t)profile->n_cores, sizeof *m->tally, "a profile");
    if (m && m->tally)
        m->row = ls_alloc(context, n, sizeof *m->row, "a profile");
    if (!m || !m->row) {
        ls_measured_free(context, m);
        return LS_OUT_OF_MEMORY;
    }
    memcpy(m->steps, plan->steps, n * sizeof *m->steps);
    m->plan = plan->number;
    m->n = plan->n_steps;
    for (const ls_measured *before = profile->plans; before; before = before->next)
        m->number = before->number + 1;
    *profile->last = m; /* workers at work look for the plans in front of it and go no further */
    profile->last = &m->next;
    return LS_OK;
}

ls_gpu_traced *ls_measure_traced(const ls_profile *profile, int worker)
{
    return profile->traced && profile->traced[worker].later ? &profile->traced[worker] : NULL;
}

/* By a worker, where it notes what it computes of a plan. */
static void note(const void *by, const ls_plan *plan, void *own, ls_probe *probe)
{
    const ls_profile *profile = by;
    ls_worker *worker = own;
    const ls_measured *m = find(profile, plan);
    probe->tally = m->tally + (size_t)worker->place * (size_t)m->n;
    probe->spans = worker->meter.spans;
    if (probe->spans)
        probe->spans->plan = m->number;
    ls_gpu_traced *traced = ls_measure_traced(profile, (int)(worker - worker->engine->workers));
    if (!traced)
        return;
    worker->turn->executor->gpu_trace->of = traced;
    if (traced->spans) {
        traced->spans->step = probe->spans->step;
        traced->spans->plan = m->number;
    }
}

ls_measuring ls_measure_bind(const ls_profile *profile, const ls_plan *plan, ls_worker *worker, ls_probe *probe)
{
    if (profile)
        note(profile, plan, worker, probe);
    return (ls_measuring){profile ? note : NULL, profile};
}

static const ls_worker *workers_of(const ls_profile *profile)
{
    return profile->trainer->network->engine->workers;
}

/* By the clock, in shards and in parts of others', of each core so far. */
static void add_computed(const ls_profile *profile, double *computed, double sign)
{
    const ls_worker *workers = workers_of(profile);
    for (int i = 0; i < profile->n_workers; i++) {
        const ls_gpu_traced *traced = ls_measure_traced(profile, i);
        computed[workers[i].place] += sign * (traced ? traced->computing
                                                     : atomic_load(&workers[i].meter.seconds[LS_SPAN_SHARD]) +
                                                           atomic_load(&workers[i].meter.seconds[LS_SPAN_HELP]));
    }
}

void ls_measure_begin_step(ls_profile *profile)
{
    memset(profile->computed, 0, (size_t)profile->n_cores * sizeof *profile->computed);
    add_computed(profile, profile->computed, -1);
    profile->step_began = ls_seconds();
    if (!profile->begun)
        profile->first = profile->step_began;
    profile->begun = true;
}

void ls_measure_end_step(ls_profile *profile, int64_t number, int64_t rows)
{
    double longest = 0;
    add_computed(profile, profile->computed, 1);
    for (int i = 0; i < profile->n_cores; i++)
        longest = fmax(longest, profile->computed[i]);
    profile->latest = ls_seconds();
    profile->sum.unhidden += profile->latest - profile->step_began - longest;
    profile->sum.steps++;
    profile->sum.images += rows;
    if (!profile->spans)
        return;
    ls_spans *steps = &profile->spans[profile->n_workers];
    steps->step = number;
    ls_spans_add(steps, LS_SPAN_STEP, -1, profile->step_began, profile->latest);
}

void ls_measure_checkpoint(struct ls_trainer *trainer, int64_t step, double begin, double end)
{
    pthread_mutex_lock(&trainer->lock);
    ls_profile *profile = trainer->profile;
    if (profile && profile->spans) {
        ls_spans *checkpoints = &profile->spans[profile->n_workers + 1];
        checkpoints->step = step;
        ls_spans_add(checkpoints, LS_SPAN_CHECKPOINT, -1, begin, end);
    }
    pthread_mutex_unlock(&trainer->lock);
}
