#include "training/rate.h"
#include "options/choice.h"

#include <math.h>
#include <stdio.h>
#include <lockstep_train.h>

static const double gone = 1e-3; /* of --lr: what is below it moves no weights any more */

int rate_check(const training *t)
{
    const settings *c = t->run.chosen;
    const bool cycle = c->schedule == LS_ONE_CYCLE;
    const bool to_the_end = c->schedule == LS_STEP_SCHEDULE || c->schedule == LS_COSINE || c->schedule == LS_LINEAR;
    if (c->warmup < t->steps || (!cycle && !(c->after_warmup && to_the_end)))
        return 0;
    return failed("--warmup", "the rise %s %s, %lld step%s, must be shorter than the run, which has %lld",
                  cycle ? "of" : "before", choice_name(schedule_choices, c->schedule), (long long)c->warmup,
                  c->warmup == 1 ? "" : "s", (long long)t->steps);
}

/* To try the first steps of a long run is no mistake, so that it is no error. */
static void say_rise(const training *t)
{
    const int64_t warmup = t->run.chosen->warmup;
    if (warmup && warmup >= t->steps)
        note("note: --warmup %lld takes all %lld steps of the run, whose learning rate rises to %.3g of %g",
             (long long)warmup, (long long)t->steps, t->optim.lr * (double)t->steps / (double)warmup, t->optim.lr);
}

/* The steps that the schedule is over. */
static int64_t steps_of_schedule(const training *t)
{
    return t->steps - (t->optim.after_warmup ? t->optim.warmup : 0);
}

/* The steps after which the rate is gone, where that is before the run's last quarter; 0 where it is not. The other
 * schedules fall over the whole run, or rise again. */
static int64_t steps_to_gone(const training *t)
{
    const ls_optim *o = &t->optim;
    if (o->schedule != LS_EXPONENTIAL || o->gamma >= 1 || o->lr == 0)
        return 0;
    const double falls = floor(log(gone) / log(o->gamma)) + 1;
    const double fallen = falls * (double)(o->period ? o->period : 1), rise = (double)o->warmup;
    const double steps = o->after_warmup ? rise + fallen : fmax(fallen, rise);
    return steps < 0.75 * (double)t->steps ? (int64_t)steps : 0;
}

/* PyTorch's schedule of this name is mostly called once an epoch. */
static void write_fall(const training *t, char *text, size_t size)
{
    const int64_t period = t->optim.period ? t->optim.period : 1;
    size_t n = (size_t)snprintf(text, size, "by --gamma %g ", t->optim.gamma);
    if (period == 1)
        n += (size_t)snprintf(text + n, size - n, "after every step");
    else
        n += (size_t)snprintf(text + n, size - n, "after every %lld steps", (long long)period);
    if (period < t->batches)
        snprintf(text + n, size - n, "; --period %lld makes that once an epoch", (long long)t->batches);
    else
        snprintf(text + n, size - n, "; a longer --period or a --gamma nearer to 1 keeps it up");
}

/* ---- How far the rate comes from --lr ---- */

/* Factors of --lr, but for a rise by --warmup. */
typedef struct range {
    double least, most;
    const char *most_by; /* an option */
} range;

static void reach(range *of, double factor, const char *by)
{
    of->least = fmin(of->least, factor);
    if (factor > of->most) {
        of->most = factor;
        of->most_by = by;
    }
}

/* The part of a period of warm-restarts that the run comes through at most. */
static double part_of_period(const ls_optim *o, int64_t steps)
{
    int64_t begin = 0, length = o->period;
    double most = 0;
    do {
        const int64_t made = length < steps - begin ? length : steps - begin;
        most = fmax(most, (double)(made - 1) / (double)length);
        begin += made;
        if (__builtin_mul_overflow(length, (int64_t)o->period_factor, &length))
            length = INT64_MAX;
    } while (begin < steps && o->period_factor > 1); /* else all periods are alike */
    return most;
}

static range range_of(const training *t)
{
    const ls_optim *o = &t->optim;
    const bool cycle = o->schedule == LS_ONE_CYCLE;
    const double start = o->start_factor > 0 ? o->start_factor : cycle ? 0.04 : 1;
    const double end = o->end_factor > 0 || !cycle ? o->end_factor : start / 1e4;
    const int64_t period = o->period ? o->period : 1, steps = steps_of_schedule(t);
    range of = {.least = 1, .most = 1};
    if (o->schedule == LS_LINEAR)
        of = (range){start, start, "--start-factor"};
    if (cycle)
        reach(&of, start, "--start-factor");
    if (o->schedule == LS_STEP_SCHEDULE)
        reach(&of, 0.01, "--schedule step");
    if (cycle || o->schedule == LS_LINEAR || o->schedule == LS_COSINE)
        reach(&of, end, "--end-factor");
    if (o->schedule == LS_EXPONENTIAL)
        reach(&of, pow(o->gamma, (double)((steps - 1) / period)), "--gamma");
    if (o->schedule == LS_WARM_RESTARTS) {
        const double along = (1 + cos(acos(-1) * part_of_period(o, steps))) / 2;
        reach(&of, end + (1 - end) * along, "--end-factor");
    }
    return of;
}

/* A schedule that was asked for and does nothing, or less than it would in a longer run, is mostly a slip: a period is
 * in steps, not in epochs or images. */
static void say_flat(const training *t, const range *of)
{
    const ls_optim *o = &t->optim;
    const bool flat = of->most - of->least < gone * of->most, restarts = o->schedule == LS_WARM_RESTARTS;
    const int64_t steps = steps_of_schedule(t);
    const char *after = o->after_warmup ? " after the warm-up" : "";
    char why[64] = "";
    if (o->period >= steps || (restarts && o->period == 1))
        snprintf(why, sizeof why, ", by --period %lld", (long long)o->period);
    if (flat)
        note("note: with --schedule %s the learning rate is %.3g in all %lld steps%s, as with constant%s",
             choice_name(schedule_choices, t->run.chosen->schedule), o->lr * of->most, (long long)steps,
             o->after_warmup ? after : " of the run", why);
    else if (restarts && o->period > steps)
        note("note: --period %lld is longer than the run%s, whose learning rate falls to %.3g of %g in its %lld steps "
             "and never restarts",
             (long long)o->period, after, o->lr * of->least, o->lr, (long long)steps);
}

static void say_range(const training *t)
{
    const ls_optim *o = &t->optim;
    if (o->schedule == LS_CONSTANT || o->lr == 0 || t->steps < 2 || o->warmup >= t->steps)
        return;
    const range of = range_of(t);
    say_flat(t, &of);
    if (of.most > 1)
        note("note: %s takes the learning rate to %.3g, above the %g of --lr", of.most_by, o->lr * of.most, o->lr);
}

void rate_say(const training *t)
{
    const int64_t steps = steps_to_gone(t);
    char why[160];
    say_rise(t);
    say_range(t);
    if (!steps)
        return;
    write_fall(t, why, sizeof why);
    note("note: the learning rate falls below a thousandth of --lr after %lld of %lld steps, %s", (long long)steps,
         (long long)t->steps, why);
}

bool rate_is_gone(const training *t, char *why, size_t size)
{
    const int64_t steps = steps_to_gone(t);
    if (!steps || t->begun < steps)
        return false;
    const size_t n = (size_t)snprintf(why, size, "the learning rate is down to %.3g, ", ls_trainer_lr(t->trainer));
    write_fall(t, why + n, size - n);
    return true;
}
