#include "training/rate.h"

#include <math.h>
#include <stdio.h>

static const double gone = 1e-3; /* of --lr: what is below it moves no weights any more */

int rate_check(const training *t)
{
    const settings *c = t->run.chosen;
    if (c->schedule != LS_ONE_CYCLE || c->warmup < t->steps)
        return 0;
    return failed("--warmup", "the rise of one-cycle, %lld step%s, must be shorter than the run, which has %lld",
                  (long long)c->warmup, c->warmup == 1 ? "" : "s", (long long)t->steps);
}

/* To try the first steps of a long run is no mistake, so that it is no error. */
static void say_rise(const training *t)
{
    const int64_t warmup = t->run.chosen->warmup;
    if (warmup && warmup >= t->steps)
        note("note: --warmup %lld takes all %lld steps of the run, whose learning rate rises to %.3g of %g",
             (long long)warmup, (long long)t->steps, t->optim.lr * (double)t->steps / (double)warmup, t->optim.lr);
}

/* The steps after which the rate is gone, where that is before the run's last quarter; 0 where it is not. The other
 * schedules fall over the whole run, or rise again. */
static int64_t steps_to_gone(const training *t)
{
    const ls_optim *o = &t->optim;
    if (o->schedule != LS_EXPONENTIAL || o->gamma >= 1 || o->lr == 0)
        return 0;
    const double falls = floor(log(gone) / log(o->gamma)) + 1;
    const double steps = fmax(falls * (double)(o->period ? o->period : 1), (double)o->warmup);
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

void rate_say(const training *t)
{
    const int64_t steps = steps_to_gone(t);
    char why[160];
    say_rise(t);
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
