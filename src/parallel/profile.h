/* Where the steps of a trainer spend their time. Each core has times of its own, written by whoever has its turn, so that measuring
 * needs no lock; they are added up at the end.
 *
 * A core's time is that of its turns and that between them. A turn consists of operations, of reduction, of waiting for a
 * free buffer, and of what is left: the code between the operations. */
#ifndef LS_PARALLEL_PROFILE_H
#define LS_PARALLEL_PROFILE_H

#include "base/timer.h"
#include "parallel/step.h"

typedef struct ls_core_times {
    double turn_from, turn_to; /* of the latest turn */
    double turns, idle;        /* in turns and between them */
    double reducing, blocked;  /* within turns: summing and updating; waiting for a buffer */
    double computed;           /* of the step that runs: in shards, without the two above */
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
    times->idle += times->turn_from - times->turn_to;
}

static inline void ls_times_end_turn(ls_core_times *times)
{
    times->turn_to = ls_seconds();
    times->turns += times->turn_to - times->turn_from;
}

#endif
