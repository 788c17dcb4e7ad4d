/* How shards and buckets are dealt out among ranks, and the order in which shards' numbers are summed. */
#include <string.h>

#include "cluster/cluster.h"
#include "comm/allreduce.h"
#include "comm/groups.h"
#include "comm/partition.h"
#include "comm/tree.h"
#include "support.h"

/* Runs follow one another over all shards, and each consists of its nodes, of which no two, and none with nothing
 * beside it, are one higher up. */
static void check_runs(const ls_partition *partition, int leaves)
{
    int size = 1, next = 0;
    while (size < leaves)
        size *= 2;
    assert_int_equal(partition->begin[0], 0);
    assert_int_equal(partition->begin[partition->parts], leaves);
    for (int p = 0; p < partition->parts; p++) {
        assert_true(partition->begin[p] <= partition->begin[p + 1]);
        for (int i = partition->first_node[p]; i < partition->first_node[p + 1]; i++) {
            int low = partition->nodes[i], high = partition->nodes[i] + 1;
            for (; low < size; low *= 2)
                high *= 2;
            assert_int_equal(low - size, next);
            if (partition->nodes[i] > 1 && partition->nodes[i] % 2 == 0) { /* the left one of two */
                assert_true(high - size < leaves);
                assert_true(i + 1 == partition->first_node[p + 1] ||
                            partition->nodes[i + 1] != partition->nodes[i] + 1);
            }
            next = high - size < leaves ? high - size : leaves;
        }
        assert_int_equal(next, partition->begin[p + 1]);
    }
    for (int j = 0; j < leaves; j++) {
        int owner = ls_partition_owner(partition, j);
        assert_true(partition->begin[owner] <= j && j < partition->begin[owner + 1]);
    }
}

static int halvings(int number)
{
    int n = 0;
    for (; number > 0 && number % 2 == 0; number /= 2)
        n++;
    return n;
}

/* Of all places where the run of one of the parts [first, end) could end, with what the parts behind it may and must
 * have, it does at the one that most halvings divide. */
static void check_ends(const ls_partition *partition, int first, int end)
{
    int most = 0, least = 0;
    for (int p = end - 1; p > first; p--) {
        most += partition->most[p];
        least += partition->least[p];
        const int from = partition->begin[p - 1], to = partition->begin[p];
        for (int other = from; other <= partition->begin[end]; other++) {
            const bool may = other - from >= partition->least[p - 1] && other - from <= partition->most[p - 1] &&
                             partition->begin[end] - other >= least && partition->begin[end] - other <= most;
            assert_true(may || other != to);
            assert_true(!may || other == to || halvings(other) < halvings(to));
        }
    }
}

/* Every shard has one rank, no rank more than its share, in groups too, whose runs are their members'. Where there are
 * fewer shards than ranks the first ones have one each. */
static void runs_cover_all_shards(void **state)
{
    (void)state;
    ls_context context;
    ls_context_init(&context, NULL);
    for (int n = 1; n <= 17; n++)
        for (int leaves = 1; leaves <= 70; leaves++) {
            ls_partition alone = {0};
            assert_int_equal(ls_partition_reserve(&alone, &context, n, leaves), LS_OK);
            ls_partition_cut(&alone, leaves);
            check_runs(&alone, leaves);
            if (leaves >= n)
                check_ends(&alone, 0, n);
            for (int p = 0; p < n; p++) {
                assert_true(leaves >= n || alone.begin[p] == (p < leaves ? p : leaves));
                assert_true(alone.most[p] == (leaves - 1) / n + 1 && alone.least[p] == (leaves >= n));
            }
            for (int members = 1; members <= 5; members++) {
                ls_partition ranks = {0}, groups = {0};
                int first[18], g = 0;
                for (int p = 0; p < n; p += members)
                    first[g++] = p;
                first[g] = n;
                assert_int_equal(ls_partition_reserve(&ranks, &context, n, leaves), LS_OK);
                assert_int_equal(ls_partition_reserve(&groups, &context, g, leaves), LS_OK);
                ls_partition_cut_groups(&ranks, &groups, first, NULL, leaves);
                check_runs(&ranks, leaves);
                check_runs(&groups, leaves);
                for (int p = 0; p < n; p++)
                    assert_in_range(ranks.begin[p + 1] - ranks.begin[p], leaves >= n, (leaves - 1) / n + 1);
                for (int i = 0; i <= g; i++)
                    assert_int_equal(groups.begin[i], ranks.begin[first[i]]);
                if (leaves >= n)
                    check_ends(&groups, 0, g);
                for (int i = 0; i < g && leaves >= n; i++)
                    check_ends(&ranks, first[i], first[i + 1]);
                if (members == 1)
                    assert_memory_equal(ranks.begin, alone.begin, (size_t)(n + 1) * sizeof *ranks.begin);
                ls_partition_destroy(&ranks, &context);
                ls_partition_destroy(&groups, &context);
            }
            ls_partition_destroy(&alone, &context);
        }
    ls_context_destroy(&context);
}

static double seconds_for(const ls_throughput *throughput, int shards)
{
    int rounds = (shards + throughput->at_once - 1) / throughput->at_once;
    return rounds * throughput->seconds / throughput->shards;
}

/* Whether ranks can be done with all shards in a time, for tests with numbers that doubles hold exactly. */
static bool can_be_done(const ls_throughput *throughputs, int n, int leaves, double time)
{
    int done = 0;
    for (int p = 0; p < n; p++)
        for (int shards = 1; shards <= leaves && seconds_for(&throughputs[p], shards) <= time; shards++)
            done++;
    return done >= leaves;
}

/* By measured speed no cut is done earlier. */
static void no_cut_by_speed_is_done_earlier(void **state)
{
    (void)state;
    static const int first[] = {0, 2, 5};
    static const ls_throughput throughputs[][5] = {{{3, 4, 1}, {1, 4, 1}, {2, 4, 1}, {8, 4, 1}, {4, 4, 1}},
                                                   {{16, 16, 8}, {18, 16, 8}, {16, 16, 4}, {64, 1, 1}, {4, 2, 2}},
                                                   {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}};
    ls_context context;
    ls_context_init(&context, NULL);
    for (size_t i = 0; i < sizeof throughputs / sizeof *throughputs; i++)
        for (int leaves = 1; leaves <= 70; leaves++) {
            ls_partition ranks = {0}, groups = {0};
            assert_int_equal(ls_partition_reserve(&ranks, &context, 5, leaves), LS_OK);
            assert_int_equal(ls_partition_reserve(&groups, &context, 2, leaves), LS_OK);
            ls_partition_cut_groups(&ranks, &groups, first, throughputs[i], leaves);
            check_runs(&ranks, leaves);
            check_runs(&groups, leaves);
            for (int g = 0; g < 2 && leaves >= 5; g++)
                check_ends(&ranks, first[g], first[g + 1]);
            if (leaves >= 5)
                check_ends(&groups, 0, 2);
            double takes = 0;
            for (int p = 0; p < 5; p++) {
                double time = seconds_for(&throughputs[i][p], ranks.begin[p + 1] - ranks.begin[p]);
                takes = time > takes ? time : takes;
            }
            assert_false(can_be_done(throughputs[i], 5, leaves, takes * 0.999));
            ls_partition_destroy(&ranks, &context);
            ls_partition_destroy(&groups, &context);
        }
    ls_context_destroy(&context);
}

/* A rank whose throughput is not known is taken for an average one; where none is known all are alike. */
static void a_rank_of_unknown_speed_is_an_average_one(void **state)
{
    (void)state;
    static const int first[] = {0, 2, 5};
    static const ls_throughput none[5] = {{0}}, all[5] = {{6, 4, 1}, {1, 2, 1}, {2, 1, 1}, {4, 1, 1}, {8, 4, 1}},
                               some[5] = {{6, 4, 1}, {1, 2, 1}, {0, 0, 0}, {4, 1, 1}, {8, 4, 1}},
                               no_time[5] = {{6, 4, 1}, {1, 2, 1}, {0, 3, 1}, {4, 1, 1}, {8, 4, 1}},
                               no_shards[5] = {{6, 4, 1}, {1, 2, 1}, {3, 0, 1}, {4, 1, 1}, {8, 4, 1}};
    static const ls_throughput *const pairs[][2] = {{some, all}, {no_time, all}, {no_shards, all}, {none, NULL}};
    ls_context context;
    ls_context_init(&context, NULL);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int leaves = 1; leaves <= 70; leaves++) {
            ls_partition ranks[2] = {{0}}, groups[2] = {{0}};
            for (int k = 0; k < 2; k++) {
                assert_int_equal(ls_partition_reserve(&ranks[k], &context, 5, leaves), LS_OK);
                assert_int_equal(ls_partition_reserve(&groups[k], &context, 2, leaves), LS_OK);
                ls_partition_cut_groups(&ranks[k], &groups[k], first, pairs[i][k], leaves);
            }
            assert_memory_equal(ranks[0].begin, ranks[1].begin, 6 * sizeof *ranks[0].begin);
            for (int k = 0; k < 2; k++) {
                ls_partition_destroy(&ranks[k], &context);
                ls_partition_destroy(&groups[k], &context);
            }
        }
    ls_context_destroy(&context);
}

/* Every rank has a place, a group the ranks of one host, and each bucket is cut into stripes and these into pieces.
 * Ranks of one host alone are in no groups. */
static void groups_are_hosts(void **state)
{
    (void)state;
    /* The second and the third host are of one name. */
    static char hosts[][LS_HOST_NAME] = {"a", "b", "a", "b", "b", "b", "a"};
    static char boots[][LS_HOST_BOOT] = {"1", "2", "1", "3", "2", "3", "1"};
    static const int places[] = {0, 2, 6, 1, 4, 3, 5}, flat[] = {0, 1, 2, 3, 4, 5, 6};
    static const ls_bucket bucket = {160, 160 + 16 * 29};
    static char same[7][LS_HOST_NAME], boot[7][LS_HOST_BOOT];
    ls_context context;
    ls_context_init(&context, NULL);
    for (int n = 1; n <= 7; n++)
        for (int r = 0; r < n; r++) {
            ls_cluster cluster = {.rank = r, .ranks = n, .hosts = hosts, .boots = boots};
            const ls_cluster one_host = {.rank = r, .ranks = n, .hosts = same, .boots = boot};
            ls_groups groups;
            assert_int_equal(ls_groups_make(&groups, &context, &one_host, 0), LS_OK);
            assert_true(groups.groups == n && groups.columns == 1 && groups.group == r && groups.member == 0);
            ls_groups_destroy(&groups, &context);
            assert_int_equal(ls_groups_make(&groups, &context, &cluster, 0), LS_OK);
            const bool two_levels = n >= 6; /* each host has two */
            assert_int_equal(groups.groups, two_levels ? 3 : n);
            assert_int_equal(groups.columns, two_levels ? 2 : 1);
            if (n == 7 || !two_levels)
                assert_memory_equal(groups.rank, two_levels ? places : flat, (size_t)n * sizeof *places);
            assert_int_equal(groups.rank[groups.place], r);
            assert_int_equal(groups.first[groups.group] + groups.member, groups.place);
            size_t at = bucket.begin;
            for (int m = 0; m < groups.columns; m++) {
                ls_bucket stripe = ls_groups_stripe(&groups, &bucket, m);
                assert_int_equal(stripe.begin, at);
                for (int g = 0; g < groups.groups; g++) {
                    ls_bucket piece = ls_groups_piece(&groups, &bucket, g, m);
                    assert_int_equal(piece.begin, at);
                    assert_int_equal(piece.end % 16, 0);
                    at = piece.end;
                }
                assert_int_equal(stripe.end, at);
            }
            assert_int_equal(at, bucket.end);
            ls_groups_destroy(&groups, &context);
        }
    ls_context_destroy(&context);
}

/* Node i of a level, as tree.h defines it; a level's nodes are so many leaves wide. */
static double node(const double *leaves, int n, int width, int i)
{
    if (width == 1)
        return leaves[i];
    const double first = node(leaves, n, width / 2, 2 * i);
    return (2 * i + 1) * (width / 2) < n ? first + node(leaves, n, width / 2, 2 * i + 1) : first;
}

static void doubles_are_summed_in_the_tree(void **state)
{
    (void)state;
    enum { MOST = 70 };
    test_random random = {.state = 12};
    double leaves[MOST], sums[MOST];
    int unlike_a_row = 0;
    for (int n = 1; n <= MOST; n++) {
        double row = 0;
        int width = 1;
        for (int i = 0; i < n; i++) {
            sums[i] = leaves[i] = test_normal(&random);
            row += leaves[i];
        }
        while (width < n)
            width *= 2;
        ls_tree_sum_doubles(sums, n);
        assert_true(sums[0] == node(leaves, n, width, 0));
        unlike_a_row += sums[0] != row;
    }
    assert_true(unlike_a_row > MOST / 2);
}

/* ---- Transfers one after another ---- */

enum { POSTED = 6, EMPTY = 2 };

/* What a wire was handed, which fails at one of them and at no other. */
typedef struct posted {
    int n, fails, slots[POSTED], ranks[POSTED], tags[POSTED];
} posted;

static bool take(posted *p, int slot, int rank, int tag, size_t bytes)
{
    assert_true(bytes > 0);
    p->slots[p->n] = slot;
    p->ranks[p->n] = rank;
    p->tags[p->n] = tag;
    return p->n++ != p->fails;
}

static bool take_send(void *user, int slot, int rank, int tag, const void *data, size_t bytes)
{
    return take(user, slot, rank, tag, bytes) && data;
}

static bool take_receive(void *user, int slot, int rank, int tag, void *data, size_t bytes)
{
    return take(user, slot, rank, tag, bytes) && data;
}

/* Slot after slot, without one for what is empty; and nothing any more behind a failure, which stays one. */
static void transfers_take_slots_until_one_fails(void **state)
{
    (void)state;
    for (int fails = 0; fails < POSTED; fails++) {
        posted got = {.fails = fails};
        const ls_wire wire = {.user = &got, .send = take_send, .receive = take_receive};
        ls_posting posting = {.wire = &wire, .slot = 7, .tag = 3, .good = true};
        float data[1] = {0};
        for (int i = 0; i < POSTED; i++) {
            const size_t bytes = i == EMPTY ? 0 : sizeof data;
            if (i % 2)
                ls_post_send(&posting, 10 + i, data, bytes);
            else
                ls_post_receive(&posting, 10 + i, data, bytes);
        }
        assert_int_equal(got.n, fails < POSTED - 1 ? fails + 1 : POSTED - 1);
        assert_true(posting.good == (fails == POSTED - 1));
        for (int i = 0; i < got.n; i++) {
            assert_int_equal(got.slots[i], 7 + i);
            assert_int_equal(got.ranks[i], 10 + i + (i >= EMPTY));
            assert_int_equal(got.tags[i], 3);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_cover_all_shards),
        cmocka_unit_test(no_cut_by_speed_is_done_earlier),
        cmocka_unit_test(a_rank_of_unknown_speed_is_an_average_one),
        cmocka_unit_test(groups_are_hosts),
        cmocka_unit_test(doubles_are_summed_in_the_tree),
        cmocka_unit_test(transfers_take_slots_until_one_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
