/* The ordered exchange beside MPI_Allreduce: gradients, summed over ranks in the tree's order and spread again, by the
 * wire and the messages of a training step. Prints the best of several runs taken in turn.
 *     mpirun -n 4 bench_exchange_openmpi [SHARDS a rank, 1] [RANKS a host, 0: as they are, 1: one level] [FLOATS,
 *       ResNet-18's]
 *                                        [FLOATS of a bucket, a training step's]
 * Three shards a rank make two nodes of the tree each. */
#include <lockstep_mpi.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cluster/cluster.h"
#include "comm/allreduce.h"
#include "device/cpu/executor.h"

enum { FLOATS = 11175818, RUNS = 15, MOST_SHARDS = 8 };

/* What a bucket waits for; what is to be summed is, once it came. */
typedef enum stage { JOINING, SENDING, SPREADING, SHARING, MOVED } stage;

typedef struct bench {
    const ls_wire *wire;
    ls_executor *executor;
    size_t floats, bucket;     /* of all, of a bucket */
    int buckets, first, slots; /* of the wire: the first, and how many a bucket has */
    ls_groups groups;
    ls_partition ranks, hosts;
    ls_tree tree;
    float *sums[MOST_SHARDS], *rows, *out;
    ls_allreduce *allreduces; /* [buckets] */
    stage *stages;
} bench;

static void reduce(const bench *b, const ls_allreduce *allreduce)
{
    const size_t at = allreduce->piece.begin, n = allreduce->piece.end - at;
    if (!n)
        return;
    ls_partials from = ls_allreduce_partials(allreduce, at);
    ls_terms terms = ls_tree_terms(&b->tree, 1, &from, n, b->executor);
    b->executor->type->compute.sum(b->executor, &terms, b->out + at, n);
}

static void begin(bench *b, int bucket, stage next)
{
    const ls_allreduce *allreduce = &b->allreduces[bucket];
    ls_posting posting = {.wire = b->wire,
                          .slot = b->first + bucket * b->slots,
                          .tag = LS_TAG_STEP + 2 * bucket + (next >= SPREADING),
                          .good = true};
    b->stages[bucket] = next;
    if (next == JOINING) {
        if (ls_groups_members(&b->groups, b->groups.group) > 1)
            ls_allreduce_local_sum(allreduce, allreduce->bucket, b->executor);
        ls_allreduce_scatter_locally(allreduce, posting);
    } else if (next == SENDING) {
        ls_allreduce_group_sum(allreduce, allreduce->stripe, b->executor);
        ls_allreduce_scatter(allreduce, posting);
    } else if (next == SPREADING) {
        reduce(b, allreduce);
        ls_allreduce_gather(allreduce, b->out, posting);
    } else if (next == SHARING) {
        ls_allreduce_gather_locally(allreduce, b->out, posting);
    }
}

static void exchange(bench *b)
{
    int left = b->buckets;
    for (int i = 0; i < b->buckets; i++)
        begin(b, i, JOINING);
    while (left > 0)
        for (int i = 0; i < b->buckets; i++)
            if (b->stages[i] != MOVED && b->wire->test(b->wire->user, b->first + i * b->slots, b->slots) == 1) {
                begin(b, i, b->stages[i] + 1);
                left -= b->stages[i] == MOVED;
            }
}

/* Each node of this rank has a sum, as after folding; sums in place change them, so that they are filled anew each
 * time. */
static void fill(const bench *b)
{
    for (int i = 0; i < ls_partition_nodes(&b->ranks, b->groups.place); i++)
        for (size_t k = 0; k < b->floats; k++)
            b->sums[i][k] = (float)(k % 97) * (float)(b->groups.place + i + 1) * 1e-3f;
}

static void *memory(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory) {
        fprintf(stderr, "bench_exchange: no memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

static void prepare(bench *b, ls_context *context, ls_cluster *cluster, int shards, int host_ranks)
{
    int ranks = ls_cluster_ranks(cluster), leaves = ranks * shards;
    b->wire = &cluster->wire;
    b->executor = ls_cpu_executor_open(context, LS_ISA_AUTO, 0);
    if (!b->executor) {
        fprintf(stderr, "bench_exchange: %s\n", context->message);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    b->buckets = (int)((b->floats + b->bucket - 1) / b->bucket);
    ls_groups_make(&b->groups, context, cluster, host_ranks);
    ls_partition_reserve(&b->ranks, context, ranks, leaves);
    ls_partition_reserve(&b->hosts, context, b->groups.groups, leaves);
    ls_partition_cut_groups(&b->ranks, &b->hosts, b->groups.first, NULL, leaves);
    ls_tree_reserve(&b->tree, context, leaves);
    ls_tree_reset(&b->tree, leaves);
    ls_allreduce_hang(&b->tree, &b->groups, &b->ranks, &b->hosts);
    const int *nodes = b->ranks.nodes + b->ranks.first_node[b->groups.place];
    for (int i = 0; i < ls_partition_nodes(&b->ranks, b->groups.place); i++) {
        b->tree.buffer[nodes[i]] = i;
        b->sums[i] = memory(b->floats, sizeof(float));
    }
    b->slots = ls_allreduce_slots(&b->groups, &b->ranks, &b->hosts);
    b->allreduces = memory((size_t)b->buckets, sizeof *b->allreduces);
    b->stages = memory((size_t)b->buckets, sizeof *b->stages);
    b->out = memory(b->floats, sizeof *b->out);
    for (int pass = 0; pass < 2; pass++) {
        size_t rows = 0;
        for (int i = 0; i < b->buckets; i++) {
            size_t begins = (size_t)i * b->bucket, ends = begins + b->bucket;
            b->allreduces[i] = (ls_allreduce){.groups = &b->groups,
                                              .ranks = &b->ranks,
                                              .hosts = &b->hosts,
                                              .tree = &b->tree,
                                              .bucket = {begins, ends < b->floats ? ends : b->floats},
                                              .buffers = b->sums};
            rows += ls_allreduce_lay(&b->allreduces[i], pass ? b->rows + rows : NULL);
        }
        b->rows = pass ? b->rows : memory(rows, sizeof *b->rows);
    }
    ls_cluster_reserve(cluster, context, b->slots * b->buckets, &b->first);
}

/* The same sum as the one in `other`, but for the order. */
static bool agree(const bench *b, const float *other)
{
    for (size_t k = 0; k < b->floats; k++)
        if (fabsf(b->out[k] - other[k]) > 1e-4f * fabsf(other[k]))
            return false;
    return true;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    int shards = argc > 1 ? atoi(argv[1]) : 1, host_ranks = argc > 2 ? atoi(argv[2]) : 0;
    int floats = argc > 3 ? atoi(argv[3]) : FLOATS, bucket = argc > 4 ? atoi(argv[4]) : LS_BUCKET_FLOATS;
    ls_cluster *cluster = ls_cluster_of_mpi(MPI_COMM_WORLD);
    ls_context context;
    ls_context_init(&context, NULL);
    bench b = {.floats = (size_t)floats / 16 * 16, .bucket = (size_t)bucket / 16 * 16};
    if (shards < 1 || shards > MOST_SHARDS || host_ranks < 0 || floats < 16 || bucket < 16 ||
        ls_cluster_status(cluster) != LS_OK) {
        fprintf(stderr, "bench_exchange: wrong arguments, or no ranks: %s\n", ls_cluster_message(cluster));
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    prepare(&b, &context, cluster, shards, host_ranks);
    int nodes = ls_partition_nodes(&b.ranks, b.groups.place), wrong = 0;
    float *sum = memory(b.floats, sizeof *sum);
    double ours = 1e9, theirs = 1e9;
    for (int k = 0; k < RUNS; k++) {
        fill(&b);
        MPI_Barrier(MPI_COMM_WORLD);
        double began = MPI_Wtime();
        MPI_Allreduce(b.sums[0], sum, (int)b.floats, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        double middle = MPI_Wtime();
        exchange(&b);
        MPI_Barrier(MPI_COMM_WORLD);
        double end = MPI_Wtime();
        theirs = middle - began < theirs ? middle - began : theirs;
        ours = end - middle < ours ? end - middle : ours;
        wrong |= nodes == 1 && !agree(&b, sum);
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (b.groups.place == 0)
        printf("%d ranks in %d groups, %d node%s each, %.3f MB: MPI_Allreduce %.3f ms, ordered exchange %.3f ms "
               "(%.2f)%s\n",
               b.groups.ranks, b.groups.groups, nodes, nodes > 1 ? "s" : "", (double)b.floats * 4e-6, 1e3 * theirs,
               1e3 * ours, ours / theirs, wrong ? ", AND ANOTHER SUM" : "");
    ls_cluster_end(cluster);
    MPI_Finalize();
    return wrong;
}
