#include "comm/groups.h"

#include "cluster/cluster.h"

/* The lowest rank of a rank's host. */
static int host_of(const ls_cluster *cluster, int rank, int host_ranks)
{
    int lowest = 0;
    if (host_ranks > 0)
        return rank / host_ranks * host_ranks;
    while (!ls_cluster_same_host(cluster, lowest, rank))
        lowest++;
    return lowest;
}

static void one_level(ls_groups *groups)
{
    groups->groups = groups->ranks;
    groups->columns = 1;
    for (int r = 0; r <= groups->ranks; r++)
        groups->first[r] = r;
    for (int r = 0; r < groups->ranks; r++)
        groups->rank[r] = r;
}

/* Places by host; `hosts` has room for each rank's. */
static void by_host(ls_groups *groups, const ls_cluster *cluster, int host_ranks, int *hosts)
{
    int places = 0;
    for (int r = 0; r < groups->ranks; r++)
        hosts[r] = host_of(cluster, r, host_ranks);
    groups->columns = groups->ranks;
    for (int h = 0; h < groups->ranks; h++) {
        if (hosts[h] != h)
            continue;
        groups->first[groups->groups++] = places;
        for (int r = h; r < groups->ranks; r++)
            if (hosts[r] == h)
                groups->rank[places++] = r;
        int members = places - groups->first[groups->groups - 1];
        groups->columns = members < groups->columns ? members : groups->columns;
    }
    groups->first[groups->groups] = places;
}

ls_status ls_groups_make(ls_groups *groups, ls_context *context, const struct ls_cluster *cluster, int host_ranks)
{
    *groups = (ls_groups){.ranks = ls_cluster_ranks(cluster)};
    size_t ranks = (size_t)groups->ranks;
    int *hosts = ls_alloc(context, ranks, sizeof *hosts, "the ranks' hosts");
    groups->rank = ls_alloc(context, ranks, sizeof *groups->rank, "the ranks' places");
    groups->first = ls_alloc(context, ranks + 1, sizeof *groups->first, "the ranks' places");
    if (!hosts || !groups->rank || !groups->first) {
        ls_release(context, hosts);
        ls_groups_destroy(groups, context);
        return LS_OUT_OF_MEMORY;
    }
    if (cluster)
        by_host(groups, cluster, host_ranks, hosts);
    ls_release(context, hosts);
    if (!cluster || (host_ranks == 0 && (groups->groups < 2 || groups->columns < 2)))
        one_level(groups);
    while (groups->rank[groups->place] != ls_cluster_rank(cluster))
        groups->place++;
    while (groups->first[groups->group + 1] <= groups->place)
        groups->group++;
    groups->member = groups->place - groups->first[groups->group];
    return LS_OK;
}

void ls_groups_destroy(ls_groups *groups, ls_context *context)
{
    ls_release(context, groups->rank);
    ls_release(context, groups->first);
    *groups = (ls_groups){.ranks = 0};
}

/* Part i of n: whole blocks, or nothing. */
static ls_bucket part_of(const ls_bucket *bucket, int i, int n)
{
    size_t blocks = (bucket->end - bucket->begin) / 16, from = (size_t)i, parts = (size_t)n;
    return (ls_bucket){bucket->begin + 16 * (blocks * from / parts),
                       bucket->begin + 16 * (blocks * (from + 1) / parts)};
}

ls_bucket ls_groups_stripe(const ls_groups *groups, const ls_bucket *bucket, int member)
{
    return member < groups->columns ? part_of(bucket, member, groups->columns) : (ls_bucket){0, 0};
}

/* Pieces are numbered stripe by stripe, so that those of a stripe make it up. */
ls_bucket ls_groups_piece(const ls_groups *groups, const ls_bucket *bucket, int group, int member)
{
    int pieces = groups->columns * groups->groups;
    return member < groups->columns ? part_of(bucket, member * groups->groups + group, pieces) : (ls_bucket){0, 0};
}
