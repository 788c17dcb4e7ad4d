/* Where the steps of a trainer spend their time. Each core has times of its own, written by whoever has its turn, so that measuring
 * needs no lock; they are added up at the end.
 *
 * A core's time is that of its turns and that between them. A turn consists of operations, of reduction, of the code between the
 * operations, of waiting for a free buffer, and of the time that other programs have the core. What computes is measured in
 * processor time, so that the last comes out as the difference and sticks to nothing else. */
#ifndef LS_PARALLEL_PROFILE_H
#define LS_PARALLEL_PROFILE_H

#include "base/timer.h"
#include "parallel/step.h"

typedef struct ls_core_times {
    double turn_from, turn_to; /* of the latest turn */
    double worked_from;        /* processor time */
    double turns, idle;        /* in turns and between them */
    double worked, reducing;   /* in turns, processor time: all of it; of summing and updating */
    double blocked;            /* in turns, waiting for a buffer */
    double aside;              /* of reducing and waiting, by the clock */
    double computed;           /* by the clock, in shards of the step that runs, without what was aside */
    char apart[64];            /* from the next core's */
} ls_core_times;

/* Room for a plan's times, before a step that runs it is handed in. */
ls_status ls_profile_reserve(struct ls_profile *profile, const ls_plan *plan);

ls_core_times *ls_profile_core(struct ls_profile *profile, int place);
ls_tally *ls_profile_tally(struct ls_profile *profile, const ls_plan *plan, int place);

/* A step's first worker has come, its last one is done. Both before others may go on. */
void ls_profile_begin_step(struct ls_profile *profile);
void ls_profile_end_step(struct ls_profile *profile, int64_t rows);

static inline void ls_times_begin_turn(ls_core_times *times)
{
    times->turn_from = ls_seconds();
    times->worked_from = ls_thread_seconds();
    times->idle += times->turn_from - times->turn_to;
}

static inline void ls_times_end_turn(ls_core_times *times)
{
    times->worked += ls_thread_seconds() - times->worked_from;
    times->turn_to = ls_seconds();
    times->turns += times->turn_to - times->turn_from;
}

/* What a turn does besides computing: from reading both clocks to adding the difference. */
typedef struct ls_aside {
    double clock, worked;
} ls_aside;

static inline ls_aside ls_times_aside(const ls_core_times *times)
{
    return times ? (ls_aside){ls_seconds(), ls_thread_seconds()} : (ls_aside){0, 0};
}

static inline void ls_times_reduced(ls_core_times *times, ls_aside begin)
{
    times->reducing += ls_thread_seconds() - begin.worked;
    times->aside += ls_seconds() - begin.clock;
}

static inline void ls_times_waited(ls_core_times *times, ls_aside begin)
{
    double waited = ls_seconds() - begin.clock;
    times->blocked += waited;
    times->aside += waited;
}

#endif
