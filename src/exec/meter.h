/* What a worker is at, and since when. It is at one thing at any moment and says so when that changes, so that its
 * times have neither holes nor overlaps. They are always kept, for a reading of the clock or two a shard. A profile has
 * processor time and spans kept beside them. */
#pragma once

#include <stdatomic.h>

#include "base/spans.h"

enum {
    LS_METER_STATES = LS_SPAN_REDUCE + 1
}; /* the kinds of spans that a worker is in: the others lie within or above them */

typedef struct ls_meter {
    /* Written by its worker, read by anyone; `version` is odd meanwhile. */
    atomic_uint version;
    _Atomic double seconds[LS_METER_STATES], since;
    atomic_int at; /* ls_span_kind */
    atomic_llong shards, images;
    int number; /* of the shard or bucket it is at */
    /* Set while no job runs. */
    bool measured;
    ls_spans *spans; /* NULL: none are kept */
    /* While it is measured. */
    double worked[LS_METER_STATES], worked_since; /* processor time */
} ls_meter;

void ls_meter_start(ls_meter *meter);

/* A job has begun for it: a training step's number, from 1, or 0. At its end the meter goes to LS_SPAN_IDLE. */
void ls_meter_enter(ls_meter *meter, int64_t step);

/* From now on it is at that. */
void ls_meter_go(ls_meter *meter, ls_span_kind at, int number);

/* At a shard, LS_SPAN_SHARD or LS_SPAN_EVALUATE, with whatever it is at meanwhile. Returns when; the end counts it. */
double ls_meter_begin_shard(ls_meter *meter, ls_span_kind kind, int shard);
void ls_meter_end_shard(ls_meter *meter, ls_span_kind kind, int shard, int images, double begun);

/* Seconds in each state until now, from any thread. */
typedef struct ls_meter_reading {
    double seconds[LS_METER_STATES];
    int64_t shards, images;
} ls_meter_reading;
ls_meter_reading ls_meter_read(const ls_meter *meter);
