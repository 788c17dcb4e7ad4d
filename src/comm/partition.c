#include "comm/partition.h"

#include <math.h>

ls_status ls_partition_reserve(ls_partition *partition, ls_context *context, int parts, int leaves)
{
    if (partition->parts == parts && partition->capacity >= leaves)
        return LS_OK;
    ls_partition_destroy(partition, context);
    const size_t n = (size_t)parts;
    partition->begin = ls_alloc(context, n + 1, sizeof *partition->begin, "the ranks' shards");
    partition->first_node = ls_alloc(context, n + 1, sizeof *partition->first_node, "the ranks' shards");
    partition->most = ls_alloc(context, n, sizeof *partition->most, "the ranks' shards");
    partition->least = ls_alloc(context, n, sizeof *partition->least, "the ranks' shards");
    partition->nodes = ls_alloc(context, (size_t)leaves, sizeof *partition->nodes, "the ranks' shards");
    if (!partition->begin || !partition->first_node || !partition->most || !partition->least || !partition->nodes)
        return LS_OUT_OF_MEMORY;
    partition->parts = parts;
    partition->capacity = leaves;
    return LS_OK;
}

void ls_partition_destroy(ls_partition *partition, ls_context *context)
{
    ls_release(context, partition->begin);
    ls_release(context, partition->first_node);
    ls_release(context, partition->most);
    ls_release(context, partition->least);
    ls_release(context, partition->nodes);
    *partition = (ls_partition){.parts = 0};
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

static void find_nodes(ls_partition *partition, int leaves)
{
    int size = 1, n = 0;
    while (size < leaves)
        size *= 2;
    partition->leaves = leaves;
    for (int p = 0; p < partition->parts; p++) {
        partition->first_node[p] = n;
        n += cover(1, 0, size, leaves, partition->begin[p], partition->begin[p + 1], partition->nodes + n);
    }
    partition->first_node[partition->parts] = n;
}

/* Ends the runs of parts [first, end), within their limits, where the first of them begins and the last one ends. Where
 * there are fewer shards than ranks the first have them. */
static void cut(ls_partition *partition, int first, int end, bool scarce)
{
    int64_t most = 0, least = 0; /* of the parts behind */
    for (int p = first; p < end; p++) {
        most += partition->most[p];
        least += partition->least[p];
    }
    for (int p = first; p < end - 1; p++) {
        most -= partition->most[p];
        least -= partition->least[p];
        int64_t low = (int64_t)partition->begin[p] + partition->least[p],
                high = (int64_t)partition->begin[p] + partition->most[p];
        low = low < partition->begin[end] - most ? partition->begin[end] - most : low;
        high = high > partition->begin[end] - least ? partition->begin[end] - least : high;
        partition->begin[p + 1] = scarce ? (int)high : roundest((int)low, (int)high);
    }
}

/* Shards that a rank finishes in a time, each taking a core so long. */
static int finished(const ls_throughput *throughput, double time, double average, int leaves)
{
    double each =
        throughput->shards > 0 && throughput->seconds > 0 ? throughput->seconds / throughput->shards : average;
    double shards = floor(time / each) * (throughput->at_once > 0 ? throughput->at_once : 1);
    return shards < leaves ? (int)shards : leaves;
}

/* Limits by which all are ready at about the same time: the shortest time in which the ranks together finish all
 * shards. */
static void limit_by_pace(ls_partition *partition, const ls_throughput *throughputs, int leaves)
{
    double average = 0, slowest = 0, least = 0;
    int known = 0;
    for (int p = 0; p < partition->parts; p++)
        if (throughputs[p].shards > 0 && throughputs[p].seconds > 0) {
            double each = throughputs[p].seconds / throughputs[p].shards;
            average += each;
            slowest = each > slowest ? each : slowest;
            known++;
        }
    average = known ? average / known : 1;
    double most = known ? 2 * slowest * leaves : 2.0 * leaves; /* in which each would finish all of them */
    for (int i = 0; i < 64; i++) {
        double time = (least + most) / 2;
        int64_t all = 0;
        for (int p = 0; p < partition->parts; p++)
            all += finished(&throughputs[p], time, average, leaves);
        if (all >= leaves)
            most = time;
        else
            least = time;
    }
    for (int p = 0; p < partition->parts; p++)
        partition->most[p] = finished(&throughputs[p], most, average, leaves);
}

static void limit(ls_partition *partition, const ls_throughput *throughputs, int leaves)
{
    for (int p = 0; p < partition->parts; p++)
        partition->most[p] = (leaves - 1) / partition->parts + 1;
    if (throughputs)
        limit_by_pace(partition, throughputs, leaves);
    for (int p = 0; p < partition->parts; p++)
        partition->least[p] = leaves >= partition->parts && partition->most[p] > 0;
}

void ls_partition_cut(ls_partition *partition, int leaves)
{
    limit(partition, NULL, leaves);
    partition->begin[0] = 0;
    partition->begin[partition->parts] = leaves;
    cut(partition, 0, partition->parts, leaves < partition->parts);
    find_nodes(partition, leaves);
}

void ls_partition_cut_groups(ls_partition *ranks, ls_partition *groups, const int first[],
                             const ls_throughput *throughputs, int leaves)
{
    const bool scarce = leaves < ranks->parts;
    limit(ranks, throughputs, leaves);
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

int ls_partition_owner(const ls_partition *partition, int leaf)
{
    int low = 0, high = partition->parts; /* begin[low] <= leaf < begin[high] */
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (partition->begin[middle] <= leaf)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void ls_partition_sum(int begin, int end, int leaves, const ls_partition *done, float *rows, size_t n,
                      ls_add_kernel *add)
{
    for (int gap = 1; gap < leaves; gap *= 2)
        for (int i = 0; i + gap < leaves; i += 2 * gap) {
            int last = i + 2 * gap <= leaves ? i + 2 * gap - 1 : leaves - 1;
            if (i < begin || last >= end || (done && last < done->begin[ls_partition_owner(done, i) + 1]))
                continue;
            add(rows + (size_t)i * n, rows + (size_t)i * n, rows + (size_t)(i + gap) * n, n);
        }
}
