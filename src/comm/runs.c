#include "comm/runs.h"

ls_status ls_runs_reserve(ls_runs *runs, ls_context *context, int ranks, int leaves)
{
    if (runs->ranks == ranks && runs->capacity >= leaves)
        return LS_OK;
    ls_runs_destroy(runs, context);
    runs->begin = ls_alloc(context, (size_t)ranks + 1, sizeof *runs->begin, "the ranks' shards");
    runs->first_node = ls_alloc(context, (size_t)ranks + 1, sizeof *runs->first_node, "the ranks' shards");
    runs->nodes = ls_alloc(context, (size_t)leaves, sizeof *runs->nodes, "the ranks' shards");
    if (!runs->begin || !runs->first_node || !runs->nodes)
        return LS_OUT_OF_MEMORY;
    runs->ranks = ranks;
    runs->capacity = leaves;
    return LS_OK;
}

void ls_runs_destroy(ls_runs *runs, ls_context *context)
{
    ls_release(context, runs->begin);
    ls_release(context, runs->first_node);
    ls_release(context, runs->nodes);
    *runs = (ls_runs){.ranks = 0};
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

void ls_runs_cut(ls_runs *runs, int leaves)
{
    int ranks = runs->ranks, most = (leaves - 1) / ranks + 1, size = 1, n = 0;
    while (size < leaves)
        size *= 2;
    runs->leaves = leaves;
    runs->begin[0] = 0;
    for (int r = 1; r <= ranks; r++) {
        int before = runs->begin[r - 1];
        int low = before + (leaves >= ranks), high = before + most;
        if (low < leaves - most * (ranks - r))
            low = leaves - most * (ranks - r);
        if (leaves >= ranks && high > leaves - (ranks - r))
            high = leaves - (ranks - r);
        if (high > leaves)
            high = leaves;
        runs->begin[r] = leaves < ranks ? high : roundest(low, high);
    }
    for (int r = 0; r < ranks; r++) {
        runs->first_node[r] = n;
        n += cover(1, 0, size, leaves, runs->begin[r], runs->begin[r + 1], runs->nodes + n);
    }
    runs->first_node[ranks] = n;
}

int ls_runs_owner(const ls_runs *runs, int leaf)
{
    int low = 0, high = runs->ranks; /* begin[low] <= leaf < begin[high] */
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (runs->begin[middle] <= leaf)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The additions of the tree, in its order, that lie within the run of `rank`, or for -1 those across ranks. */
static void sum_rows(const ls_runs *runs, int rank, float *rows, size_t n, ls_add_kernel *add)
{
    for (int gap = 1; gap < runs->leaves; gap *= 2)
        for (int i = 0; i + gap < runs->leaves; i += 2 * gap) {
            int last = i + 2 * gap <= runs->leaves ? i + 2 * gap - 1 : runs->leaves - 1;
            int owner = ls_runs_owner(runs, i);
            bool across = last >= runs->begin[owner + 1];
            if (rank < 0 ? across : !across && owner == rank)
                add(rows + (size_t)i * n, rows + (size_t)i * n, rows + (size_t)(i + gap) * n, n);
        }
}

void ls_runs_sum_own(const ls_runs *runs, int rank, float *rows, size_t n, ls_add_kernel *add)
{
    sum_rows(runs, rank, rows, n, add);
}

void ls_runs_sum_across(const ls_runs *runs, float *rows, size_t n, ls_add_kernel *add)
{
    sum_rows(runs, -1, rows, n, add);
}
