#include "device/watch.h"

/* The unit has finished: enters all that was noted. */
static void enter(ls_unit *unit)
{
    ls_watch *watch = unit->watch;
    for (int i = 0; i < watch->n; i++) {
        ls_noted *one = &watch->noted[i];
        ls_watched *of = one->of;
        one->span.begin = unit->type->reached(unit, one->from);
        one->span.end = unit->type->reached(unit, one->to);
        const double took = one->span.end - one->span.begin;
        if (one->seconds)
            *one->seconds += took;
        *(one->span.kind == LS_SPAN_OPERATION  ? &of->computing
          : one->span.kind == LS_SPAN_CARD_SUM ? &of->summing
                                               : &of->copying) += took;
        if (of->spans)
            ls_spans_keep(of->spans, one->span);
    }
    watch->n = 0;
}

ls_watch *ls_watch_begin(ls_unit *unit)
{
    ls_context *context = unit->context;
    if (!unit->type->mark)
        return NULL;
    ls_watch *watch = ls_alloc(context, 1, sizeof *watch, "a profile");
    if (watch)
        watch->noted = ls_alloc(context, LS_MOST_MARKS, sizeof *watch->noted, "a profile");
    if (!watch || !watch->noted) {
        ls_release(context, watch);
        return NULL;
    }
    unit->watched = enter;
    return unit->watch = watch;
}

void ls_watch_end(ls_unit *unit)
{
    if (!unit->watch)
        return;
    ls_release(unit->context, unit->watch->noted);
    ls_release(unit->context, unit->watch);
    unit->watch = NULL;
}

int ls_watch_mark(ls_unit *unit)
{
    return unit->watch ? unit->type->mark(unit) : -1;
}

int ls_watch_note(ls_unit *unit, int from, ls_span_kind kind, int number, double *seconds)
{
    ls_watch *watch = unit->watch;
    int to = from < 0 || watch->n == LS_MOST_MARKS ? -1 : unit->type->mark(unit);
    if (to < 0)
        return -1;
    watch->noted[watch->n++] = (ls_noted){.of = watch->of,
                                          .seconds = seconds,
                                          .span = ls_spans_new(watch->of->spans, kind, number),
                                          .from = from,
                                          .to = to};
    return to;
}
