#include "base/timer.h"

#include <lockstep.h>
#include <time.h>

static double read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double ls_seconds(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double ls_thread_seconds(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

void ls_timer_start(ls_timer *timer)
{
    if (timer)
        timer->since = ls_seconds();
}

void ls_timer_stop(ls_timer *timer)
{
    if (!timer || timer->since == 0)
        return;
    timer->total += ls_seconds() - timer->since;
    timer->since = 0;
    timer->laps++;
}

double ls_timer_avg(const ls_timer *timer)
{
    return timer && timer->laps ? timer->total / timer->laps : 0;
}
