#include "device/gpu_trace.h"

/* The executor has finished: enters all that was noted. */
static void enter(ls_executor *executor)
{
    ls_gpu_trace *gpu_trace = executor->gpu_trace;
    for (int i = 0; i < gpu_trace->n; i++) {
        ls_noted *one = &gpu_trace->noted[i];
        ls_gpu_traced *of = one->of;
        one->span.begin = executor->type->completion.reached(executor, one->from);
        one->span.end = executor->type->completion.reached(executor, one->to);
        const double took = one->span.end - one->span.begin;
        if (one->seconds)
            *one->seconds += took;
        *(one->span.kind == LS_SPAN_OPERATION  ? &of->computing
          : one->span.kind == LS_SPAN_CARD_SUM ? &of->summing
                                               : &of->copying) += took;
        if (of->spans)
            ls_spans_keep(of->spans, one->span);
    }
    gpu_trace->n = 0;
}

ls_gpu_trace *ls_gpu_trace_begin(ls_executor *executor)
{
    ls_context *context = executor->context;
    if (!executor->type->completion.mark)
        return NULL;
    ls_gpu_trace *gpu_trace = ls_alloc(context, 1, sizeof *gpu_trace, "a profile");
    if (gpu_trace)
        gpu_trace->noted = ls_alloc(context, LS_MOST_MARKS, sizeof *gpu_trace->noted, "a profile");
    if (!gpu_trace || !gpu_trace->noted) {
        ls_release(context, gpu_trace);
        return NULL;
    }
    executor->traced = enter;
    return executor->gpu_trace = gpu_trace;
}

void ls_gpu_trace_end(ls_executor *executor)
{
    if (!executor->gpu_trace)
        return;
    ls_release(executor->context, executor->gpu_trace->noted);
    ls_release(executor->context, executor->gpu_trace);
    executor->gpu_trace = NULL;
}

int ls_gpu_trace_mark(ls_executor *executor)
{
    return executor->gpu_trace ? executor->type->completion.mark(executor) : -1;
}

int ls_gpu_trace_note(ls_executor *executor, int from, ls_span_kind kind, int number, double *seconds)
{
    ls_gpu_trace *gpu_trace = executor->gpu_trace;
    int to = from < 0 || gpu_trace->n == LS_MOST_MARKS ? -1 : executor->type->completion.mark(executor);
    if (to < 0)
        return -1;
    gpu_trace->noted[gpu_trace->n++] = (ls_noted){.of = gpu_trace->of,
                                                  .seconds = seconds,
                                                  .span = ls_spans_new(gpu_trace->of->spans, kind, number),
                                                  .from = from,
                                                  .to = to};
    return to;
}
