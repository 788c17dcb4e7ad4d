/* The ranks of a run in groups, for a reduction in two levels: inside the groups, which are hosts, then across them.
 * Ranks have places, group after group and in a group by their numbers, so that a group's shards are one run; what a
 * step does counts by places. Where each rank is a group of its own there is one level.
 *
 * The first `columns` members of every group own a piece of each bucket. A bucket is cut into a stripe for each column,
 * and a stripe into a piece for each group: the members i of all groups own the pieces of stripe i, and send it to each
 * other alone. */
#pragma once

#include "base/context.h"
#include "tensor/flat.h"

typedef struct ls_groups {
    int ranks, groups;
    int columns;              /* the fewest members that a group has */
    int *rank;                /* [ranks] at each place */
    int *first;               /* [groups + 1] the first place of each */
    int place, group, member; /* this rank's; its number in the group */
} ls_groups;

/* Of a cluster, whose ranks all come to the same; NULL is one rank. The groups are the hosts where there are two or
 * more, of two ranks or more each: that saves bytes across them as well as messages. `host_ranks` takes so many ranks
 * for each host instead; with 1 there is one level. */
ls_status ls_groups_make(ls_groups *groups, ls_context *context, const struct ls_cluster *cluster, int host_ranks);
void ls_groups_destroy(ls_groups *groups, ls_context *context);

static inline int ls_groups_members(const ls_groups *groups, int group)
{
    return groups->first[group + 1] - groups->first[group];
}

/* What of a bucket a member of any group gathers its group's sums of, and what the member of one group updates: whole
 * blocks of 16, or nothing. */
ls_bucket ls_groups_stripe(const ls_groups *groups, const ls_bucket *bucket, int member);
ls_bucket ls_groups_piece(const ls_groups *groups, const ls_bucket *bucket, int group, int member);
