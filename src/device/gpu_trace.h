/* Times of what an executor does later than it is handed it: a mark in front of each piece and behind it, and when the
 * executor came to them once it has finished. Executors that are done when the call returns have none; what they do is
 * timed by whoever calls.
 *
 * One thread at a time, as for the executor. */
#pragma once

#include "base/spans.h"
#include "device/executor.h"

/* What was handed in for one device, so far. */
typedef struct ls_gpu_traced {
    bool later;      /* than it is handed in; else nothing is noted here */
    ls_spans *spans; /* NULL: they are not kept */
    double computing, summing, copying;
} ls_gpu_traced;

typedef struct ls_noted {
    ls_gpu_traced *of;
    double *seconds; /* to be added to, NULL: none */
    ls_kept_span span;
    int from, to; /* marks */
} ls_noted;

typedef struct ls_gpu_trace {
    ls_gpu_traced *of; /* whose work is handed in from here on */
    ls_noted *noted;
    int n;
} ls_gpu_trace;

/* Begins to trace an executor that is at rest; NULL after a failure, and for an executor that is done when the call
 * returns. */
ls_gpu_trace *ls_gpu_trace_begin(ls_executor *executor);
void ls_gpu_trace_end(ls_executor *executor); /* at rest */

/* A mark; -1 where nobody traces, or there is no room for one more until the executor has finished. */
int ls_gpu_trace_mark(ls_executor *executor);

/* Notes what was handed in since the mark `from`, with -1 nothing. Its seconds are added to *seconds (may be NULL) once
 * the executor has finished. Returns the mark behind it. */
int ls_gpu_trace_note(ls_executor *executor, int from, ls_span_kind kind, int number, double *seconds);
