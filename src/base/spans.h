/* A bounded list of spans of time, of which the newest stay. One thread at a time adds to it, without a lock and
 * without an allocation. */
#pragma once

#include <lockstep_profile.h>

typedef struct ls_kept_span {
    double begin, end;
    int64_t step;
    int32_t number; /* ls_span's; of an operation its place in the plan */
    uint32_t kind : 8, plan : 24;
} ls_kept_span;

typedef struct ls_spans {
    ls_kept_span *at;
    int64_t capacity, added; /* span i is at[i % capacity], the last `capacity` of them */
    int64_t step;            /* of those that are added now, and the plan of the operations among them */
    int plan;
} ls_spans;

static inline void ls_spans_keep(ls_spans *spans, ls_kept_span span)
{
    spans->at[spans->added++ % spans->capacity] = span;
}

/* Of what is at work now, without its time; `spans` may be NULL. */
static inline ls_kept_span ls_spans_new(const ls_spans *spans, ls_span_kind kind, int number)
{
    return (ls_kept_span){.step = spans ? spans->step : 0,
                          .number = number,
                          .kind = kind & 0xff,
                          .plan = (spans ? (uint32_t)spans->plan : 0) & 0xffffff};
}

static inline void ls_spans_add(ls_spans *spans, ls_span_kind kind, int number, double begin, double end)
{
    ls_kept_span span = ls_spans_new(spans, kind, number);
    span.begin = begin;
    span.end = end;
    ls_spans_keep(spans, span);
}
