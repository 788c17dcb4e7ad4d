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

void ls_timed_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t steady;
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &steady);
    pthread_condattr_destroy(&steady);
}

void ls_timed_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const time_t whole = (time_t)seconds;
    until.tv_nsec += (long)((seconds - (double)whole) * 1e9);
    until.tv_sec += whole + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(cond, lock, &until);
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
