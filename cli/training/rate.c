#include "training/rate.h"

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

void rate_say(const training *t)
{
    say_rise(t);
}
