/* The spans of a profile: room for them, and their order once all is at rest. */
#include <math.h>
#include <string.h>

#include "diag/profile.h"

enum { CHECKPOINTS = 1024 };

ls_status ls_profile_reserve_spans(ls_profile *profile, int64_t spans, bool on_cards)
{
    ls_context *context = &profile->session->context;
    int others = profile->n_workers + 2, n = others + (on_cards ? profile->n_workers : 0);
    profile->n_lists = n;
    profile->spans = ls_alloc(context, (size_t)n, sizeof *profile->spans, "a profile's spans");
    for (int i = 0; profile->spans && i < n; i++) {
        ls_spans *list = &profile->spans[i];
        list->capacity = i + 1 == others ? CHECKPOINTS : spans;
        list->at = ls_alloc(context, (size_t)list->capacity, sizeof *list->at, "a profile's spans");
        if (!list->at)
            return LS_OUT_OF_MEMORY;
    }
    return profile->spans ? LS_OK : LS_OUT_OF_MEMORY;
}

void ls_profile_free_spans(ls_profile *profile)
{
    for (int i = 0; profile->spans && i < profile->n_lists; i++)
        ls_release(&profile->session->context, profile->spans[i].at);
    ls_release(&profile->session->context, profile->spans);
}

static void reverse(ls_kept_span *at, int64_t n)
{
    for (int64_t i = 0; i < n / 2; i++) {
        ls_kept_span one = at[i];
        at[i] = at[n - 1 - i];
        at[n - 1 - i] = one;
    }
}

/* The oldest first; returns whether older ones had to go. */
static bool put_in_order(ls_spans *list)
{
    int64_t over = list->added - list->capacity, first = list->added % list->capacity;
    if (over <= 0)
        return false;
    reverse(list->at, first);
    reverse(list->at + first, list->capacity - first);
    reverse(list->at, list->capacity);
    list->added = list->capacity;
    return true;
}

/* Of a worker's states those that do not belong to one step: who ends a step, or helps at its end, may still be at it
 * when others have begun the next one. */
static bool may_be_cut(const ls_kept_span *span)
{
    return span->kind <= LS_SPAN_REDUCE && span->kind != LS_SPAN_SHARD && span->kind != LS_SPAN_EVALUATE;
}

/* What began before goes, or is cut. */
static void cut_before(ls_spans *list, double from)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < list->added; i++) {
        ls_kept_span span = list->at[i];
        if (span.begin < from && (span.end <= from || !may_be_cut(&span)))
            continue;
        span.begin = fmax(span.begin, from);
        list->at[kept++] = span;
    }
    list->added = kept;
}

void ls_profile_arrange_spans(ls_profile *profile)
{
    int n = profile->n_lists;
    double from = profile->started, whole = from;
    bool all = true;
    for (int i = 0; i < n; i++) {
        ls_spans *list = &profile->spans[i];
        if (!put_in_order(list))
            continue;
        all = false;
        whole = fmax(whole, list->at[0].end); /* what went ended before it */
    }
    const ls_spans *steps = &profile->spans[profile->n_workers];
    int64_t first = 0;
    while (!all && first < steps->added && steps->at[first].begin < whole)
        first++;
    if (!all)
        from = first < steps->added ? steps->at[first].begin : profile->latest;
    for (int i = 0; i < n; i++)
        cut_before(&profile->spans[i], from);
    profile->sum.dropped = profile->sum.steps - steps->added;
}
