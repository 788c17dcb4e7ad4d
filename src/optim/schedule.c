#include "optim/schedule.h"

#include "base/math.h"
#include "base/number.h"

static const struct schedule {
    const char *name;
    unsigned takes; /* ls_schedule_member */
} schedules[] = {[LS_CONSTANT] = {"constant", 0},
                 [LS_STEP_SCHEDULE] = {"step", LS_TAKES_TOTAL},
                 [LS_COSINE] = {"cosine", LS_TAKES_TOTAL | LS_TAKES_END},
                 [LS_LINEAR] = {"linear", LS_TAKES_TOTAL | LS_TAKES_START | LS_TAKES_END},
                 [LS_EXPONENTIAL] = {"exponential", LS_TAKES_GAMMA | LS_TAKES_PERIOD},
                 [LS_ONE_CYCLE] = {"one-cycle", LS_TAKES_TOTAL | LS_TAKES_START | LS_TAKES_END},
                 [LS_WARM_RESTARTS] = {"warm-restarts", LS_TAKES_PERIOD | LS_TAKES_GROWTH | LS_TAKES_END}};
enum { SCHEDULES = sizeof schedules / sizeof *schedules };

const char *ls_schedule_name(ls_schedule schedule)
{
    return schedules[schedule].name;
}

bool ls_schedule_takes(ls_schedule schedule, ls_schedule_member member)
{
    return schedules[schedule].takes & member;
}

bool ls_is_rate(double lr)
{
    return lr >= 0 && lr < 1e30;
}

/* Members that are another schedule's. */
static const char *wrong_members(const ls_optim *o)
{
    if (o->gamma != 0 && !ls_schedule_takes(o->schedule, LS_TAKES_GAMMA))
        return "gamma is the exponential schedule's";
    if (o->period != 0 && !ls_schedule_takes(o->schedule, LS_TAKES_PERIOD))
        return "period is of the exponential schedule and of warm restarts";
    if (o->period_factor != 0 && !ls_schedule_takes(o->schedule, LS_TAKES_GROWTH))
        return "period_factor is of warm restarts";
    if (o->start_factor != 0 && !ls_schedule_takes(o->schedule, LS_TAKES_START))
        return "start_factor is of the linear and one-cycle schedules";
    if (o->end_factor != 0 && !ls_schedule_takes(o->schedule, LS_TAKES_END))
        return "end_factor is of the linear, cosine and one-cycle schedules and of warm restarts";
    return NULL;
}

const char *ls_schedule_wrong(const ls_optim *o)
{
    if ((int)o->schedule < 0 || (int)o->schedule >= SCHEDULES)
        return "there is no such schedule";
    const char *of_another = wrong_members(o); /* first, so that none below names a schedule that is not asked for */
    if (of_another)
        return of_another;
    if (o->warmup < 0 || o->total < 0)
        return "warmup and total must be at least 0";
    if (ls_schedule_takes(o->schedule, LS_TAKES_TOTAL) && o->total == 0)
        return "the step, cosine, linear and one-cycle schedules need total, the steps of the whole run";
    if (o->after_warmup && (o->warmup == 0 || o->schedule == LS_ONE_CYCLE))
        return "after_warmup needs a warmup, and the one-cycle schedule has its own";
    if (o->after_warmup && ls_schedule_takes(o->schedule, LS_TAKES_TOTAL) && o->warmup >= o->total)
        return "with after_warmup warmup must be below total";
    if (o->schedule == LS_ONE_CYCLE && o->warmup >= o->total)
        return "warmup, the rise of the one-cycle schedule, must be below total";
    if (!ls_is_rate(ls_schedule_start(o)) || !ls_is_rate(ls_schedule_end(o)))
        return "start_factor and end_factor must be below 1e30, and above 0 or -1, which is 0";
    if (!ls_is_rate(o->gamma) || (o->gamma == 0 && o->schedule == LS_EXPONENTIAL))
        return "the exponential schedule needs gamma, above 0 and below 1e30";
    if (o->schedule == LS_EXPONENTIAL && o->period < 0)
        return "period of the exponential schedule must be at least 0";
    if (o->schedule == LS_WARM_RESTARTS && (o->period <= 0 || o->period_factor < 0))
        return "warm restarts need period, above 0, and period_factor must be at least 0";
    return NULL;
}

double ls_schedule_start(const ls_optim *o)
{
    return ls_or_usual(o->start_factor, o->schedule == LS_ONE_CYCLE ? 1.0 / 25 : 1);
}

double ls_schedule_end(const ls_optim *o)
{
    return ls_or_usual(o->end_factor, o->schedule == LS_ONE_CYCLE ? ls_schedule_start(o) / 1e4 : 0);
}

int64_t ls_schedule_period(const ls_optim *o)
{
    return o->period ? o->period : 1;
}

/* cos(pi * x) for x in [0, 1], by its series about the nearest of 0, 1/2 and 1: the C library's bits differ by
 * version. */
static double cos_pi(double x)
{
    const double pi = 3.14159265358979323846;
    double sign = 1, shift = x;
    if (x > 0.75) {
        shift = 1 - x;
        sign = -1;
    }
    double t = shift <= 0.25 ? pi * shift : pi * (0.5 - shift), square = t * t, term = shift <= 0.25 ? 1 : t,
           sum = term;
    for (int k = shift <= 0.25 ? 1 : 2; k < 24; k += 2) {
        term = -term * square / ((double)k * (k + 1));
        sum += term;
    }
    return sign * sum;
}

/* From `from` at 0 to `to` at 1, along half a cosine. */
static double along_cosine(double from, double to, double x)
{
    return x >= 1 ? to : to + (from - to) * ((1 + cos_pi(x)) / 2);
}

static double one_cycle(const ls_optim *o, int64_t step)
{
    const double last = (double)o->total - 1, at = (double)step;
    const double top = (o->warmup ? (double)o->warmup : 0.3 * (double)o->total) - 1;
    if (at <= top)
        return along_cosine(ls_schedule_start(o), 1, top > 0 ? at / top : 1);
    return along_cosine(1, ls_schedule_end(o), (at - top) / (last - top));
}

static double warm_restarts(const ls_optim *o, int64_t step)
{
    int64_t length = o->period;
    if (o->period_factor <= 1)
        step %= length;
    while (step >= length) {
        step -= length;
        if (__builtin_mul_overflow(length, o->period_factor, &length))
            length = INT64_MAX;
    }
    return along_cosine(1, ls_schedule_end(o), (double)step / (double)length);
}

double ls_learning_rate(const ls_optim *o, double lr, int64_t step)
{
    if (step < o->warmup && o->schedule != LS_ONE_CYCLE)
        return lr * (double)(step + 1) / (double)o->warmup;
    const int64_t begin = o->after_warmup ? o->warmup : 0;
    step -= begin;
    const double at = o->total > 0 ? (double)step / (double)(o->total - begin) : 1;
    switch (o->schedule) {
    case LS_STEP_SCHEDULE:
        return at < 0.5 ? lr : at < 0.75 ? 0.1 * lr : 0.01 * lr;
    case LS_COSINE:
        return lr * along_cosine(1, ls_schedule_end(o), at);
    case LS_LINEAR:
        return lr * (ls_schedule_start(o) + (ls_schedule_end(o) - ls_schedule_start(o)) * (at < 1 ? at : 1));
    case LS_EXPONENTIAL:
        return lr * ls_integer_power(o->gamma, step / ls_schedule_period(o));
    case LS_ONE_CYCLE:
        return lr * one_cycle(o, step);
    case LS_WARM_RESTARTS:
        return lr * warm_restarts(o, step);
    default:
        return lr;
    }
}
