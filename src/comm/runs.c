#include "comm/runs.h"

#include <math.h>

ls_status ls_runs_reserve(ls_runs *runs, ls_context *context, int parts, int leaves)
{
    if (runs->parts == parts && runs->capacity >= leaves)
        return LS_OK;
    ls_runs_destroy(runs, context);
    const size_t n = (size_t)parts;
    runs->begin = ls_alloc(context, n + 1, sizeof *runs->begin, "the ranks' shards");
    runs->first_node = ls_alloc(context, n + 1, sizeof *runs->first_node, "the ranks' shards");
    runs->most = ls_alloc(context, n, sizeof *runs->most, "the ranks' shards");
    runs->least = ls_alloc(context, n, sizeof *runs->least, "the ranks' shards");
    runs->nodes = ls_alloc(context, (size_t)leaves, sizeof *runs->nodes, "the ranks' shards");
    if (!runs->begin || !runs->first_node || !runs->most || !runs->least || !runs->nodes)
        return LS_OUT_OF_MEMORY;
    runs->parts = parts;
    runs->capacity = leaves;
    return LS_OK;
}

void ls_runs_destroy(ls_runs *runs, ls_context *context)
{
    ls_release(context, runs->begin);
    ls_release(context, runs->first_node);
    ls_release(context, runs->most);
    ls_release(context, runs->least);
    ls_release(context, runs->nodes);
    *runs = (ls_runs){.parts = 0};
}

/* The number from `low` to `high` that the most halvings divide. */
static int roundest(int low, int high)
{
    int best = low;
    for (int step = 1; step <= high; step *= 2) {
        int there = (low + step - 1) / step * step;
        if (there <= high)
            best = there;
    }
    return best;
}

/* The topmost nodes below `node`, which is of leaves [low, high), that lie within [begin, end). */
static int cover(int node, int low, int high, int leaves, int begin, int end, int *nodes)
{
    int last = high < leaves ? high : leaves;
    if (low >= end || last <= begin)
        return 0;
    if (low >= begin && last <= end) {
        *nodes = node;
        return 1;
    }
    int middle = (low + high) / 2, n = cover(2 * node, low, middle, leaves, begin, end, nodes);
    return n + cover(2 * node + 1, middle, high, leaves, begin, end, nodes + n);
}

static void find_nodes(ls_runs *runs, int leaves)
{
    int size = 1, n = 0;
    while (size < leaves)
        size *= 2;
    runs->leaves = leaves;
    for (int p = 0; p < runs->parts; p++) {
        runs->first_node[p] = n;
        n += cover(1, 0, size, leaves, runs->begin[p], runs->begin[p + 1], runs->nodes + n);
    }
    runs->first_node[runs->parts] = n;
}

/* Ends the runs of parts [first, end), within their limits, where the first of them begins and the last one ends. Where
 * there are fewer shards than ranks the first have them. */
static void cut(ls_runs *runs, int first, int end, bool scarce)
{
    int64_t most = 0, least = 0; /* of the parts behind */
    for (int p = first; p < end; p++) {
        most += runs->most[p];
        least += runs->least[p];
    }
    for (int p = first; p < end - 1; p++) {
        most -= runs->most[p];
        least -= runs->least[p];
        int64_t low = (int64_t)runs->begin[p] + runs->least[p], high = (int64_t)runs->begin[p] + runs->most[p];
        low = low < runs->begin[end] - most ? runs->begin[end] - most : low;
        high = high > runs->begin[end] - least ? runs->begin[end] - least : high;
        runs->begin[p + 1] = scarce ? (int)high : roundest((int)low, (int)high);
    }
}

/* Shards that a rank finishes in a time, each taking a core so long. */
static int finished(const ls_pace *pace, double time, double average, int leaves)
{
    double each = pace->shards > 0 && pace->seconds > 0 ? pace->seconds / pace->shards : average;
    double shards = floor(time / each) * (pace->at_once > 0 ? pace->at_once : 1);
    return shards < leaves ? (int)shards : leaves;
}

/* Limits by which all are ready at about the same time: the shortest time in which the ranks together finish all
 * shards. */
static void limit_by_pace(ls_runs *runs, const ls_pace *paces, int leaves)
{
    double average = 0, slowest = 0, least = 0;
    int known = 0;
    for (int p = 0; p < runs->parts; p++)
        if (paces[p].shards > 0 && paces[p].seconds > 0) {
            double each = paces[p].seconds / paces[p].shards;
            average += each;
            slowest = each > slowest ? each : slowest;
            known++;
        }
    average = known ? average / known : 1;
    double most = known ? 2 * slowest * leaves : 2.0 * leaves; /* in which each would finish all of them */
    for (int i = 0; i < 64; i++) {
        double time = (least + most) / 2;
        int64_t all = 0;
        for (int p = 0; p < runs->parts; p++)
            all += finished(&paces[p], time, average, leaves);
        if (all >= leaves)
            most = time;
        else
            least = time;
    }
    for (int p = 0; p < runs->parts; p++)
        runs->most[p] = finished(&paces[p], most, average, leaves);
}

static void limit(ls_runs *runs, const ls_pace *paces, int leaves)
{
    for (int p = 0; p < runs->parts; p++)
        runs->most[p] = (leaves - 1) / runs->parts + 1;
    if (paces)
        limit_by_pace(runs, paces, leaves);
    for (int p = 0; p < runs->parts; p++)
        runs->least[p] = leaves >= runs->parts && runs->most[p] > 0;
}

void ls_runs_cut(ls_runs *runs, int leaves)
{
    limit(runs, NULL, leaves);
    runs->begin[0] = 0;
    runs->begin[runs->parts] = leaves;
    cut(runs, 0, runs->parts, leaves < runs->parts);
    find_nodes(runs, leaves);
}

void ls_runs_cut_groups(ls_runs *ranks, ls_runs *groups, const int first[], const ls_pace *paces, int leaves)
{
    const bool scarce = leaves < ranks->parts;
    limit(ranks, paces, leaves);
    for (int g = 0; g < groups->parts; g++) {
        groups->most[g] = groups->least[g] = 0;
        for (int p = first[g]; p < first[g + 1]; p++) {
            groups->most[g] = ranks->most[p] < leaves - groups->most[g] ? groups->most[g] + ranks->most[p] : leaves;
            groups->least[g] += ranks->least[p];
        }
    }
    groups->begin[0] = 0;
    groups->begin[groups->parts] = leaves;
    cut(groups, 0, groups->parts, scarce);
    find_nodes(groups, leaves);
    for (int g = 0; g < groups->parts; g++) {
        ranks->begin[first[g]] = groups->begin[g];
        ranks->begin[first[g + 1]] = groups->begin[g + 1];
        cut(ranks, first[g], first[g + 1], scarce);
    }
    find_nodes(ranks, leaves);
}

int ls_runs_owner(const ls_runs *runs, int leaf)
{
    int low = 0, high = runs->parts; /* begin[low] <= leaf < begin[high] */
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (runs->begin[middle] <= leaf)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void ls_runs_sum(int begin, int end, int leaves, const ls_runs *done, float *rows, size_t n, ls_add_kernel *add)
{
    for (int gap = 1; gap < leaves; gap *= 2)
        for (int i = 0; i + gap < leaves; i += 2 * gap) {
            int last = i + 2 * gap <= leaves ? i + 2 * gap - 1 : leaves - 1;
            if (i < begin || last >= end || (done && last < done->begin[ls_runs_owner(done, i) + 1]))
                continue;
            add(rows + (size_t)i * n, rows + (size_t)i * n, rows + (size_t)(i + gap) * n, n);
        }
}
