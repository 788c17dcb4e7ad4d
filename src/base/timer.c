#include "base/timer.h"

#include <lockstep.h>
#include <time.h>

double ls_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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
