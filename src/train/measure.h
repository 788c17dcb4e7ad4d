/* Measuring the steps of a trainer. Workers' meters (meter.h) say what each was at; a profile has them
 * count processor time besides, and keep spans where it was asked to, and has the plans' operations timed. Each core
 * has tallies of its own, written by whoever has its turn, so that measuring needs no lock; all is added up at the end.
 *
 * What computes is measured in processor time, so that the time which other programs have the core comes out as the
 * difference to the clock and sticks to nothing else. */
#pragma once

#include "device/gpu_trace.h"
#include "train/job.h"

/* A plan that was run, and for each of its steps the times of each core. */
typedef struct ls_measured {
    struct ls_measured *next;
    uint64_t plan;       /* its number: another plan may come to lie where this one lay */
    int number;          /* among those that were run */
    ls_plan_step *steps; /* a copy: what is read later needs no plan */
    int n;
    ls_tally *tally; /* [cores][n] */
    int *row;        /* [n] once it stopped: that of the profile, -1 without one */
} ls_measured;

struct ls_profile {
    ls_session *session;        /* first: ls_session_of reads it */
    struct ls_trainer *trainer; /* NULL once stopped */
    const ls_flat *flat;        /* the network's: it outlives the trainer */
    ls_devices devices;
    int n_cores, n_workers;
    ls_measured *plans, **last;
    ls_meter_reading *before, *after; /* [workers] */
    double *worked;                   /* [workers] processor time in shards, */
    double *reduced;                  /* and in sums */
    double *computed;                 /* [cores] of the step that runs: by the clock, before it and then in it */
    bool begun;
    double started, first, step_began, latest;
    ls_gpu_traced
        *traced; /* [workers] of what cards do, cores doing theirs in the workers' own time; NULL: there are no cards */
    ls_spans
        *spans; /* [lists]: of workers, steps, checkpoints, and of what cards do for each worker; NULL: none are kept */
    int n_lists;
    bool host_sums; /* of what cards compute */
    ls_profile_row *rows;
    int n_rows;
    ls_profile_sum sum;
};

/* Room for a plan's times, before a step that runs it is handed in. */
ls_status ls_measure_reserve(struct ls_profile *profile, const ls_plan *plan);

/* Where the operations of a plan that the worker computes are noted from here on; what comes back says the same to
 * those who help it. profile NULL: nowhere. */
ls_measuring ls_measure_bind(const struct ls_profile *profile, const ls_plan *plan, ls_worker *worker, ls_probe *probe);

/* A step's first worker has come, its last one is done. Both before others may go on. */
void ls_measure_begin_step(struct ls_profile *profile);
void ls_measure_end_step(struct ls_profile *profile, int64_t number, int64_t rows);

/* A checkpoint was written, by a thread of its own. */
void ls_measure_checkpoint(struct ls_trainer *trainer, int64_t step, double begin, double end);

/* What the worker's card does; NULL for a core. */
ls_gpu_traced *ls_measure_traced(const struct ls_profile *profile, int worker);
void ls_measured_free(ls_context *context, ls_measured *m);
