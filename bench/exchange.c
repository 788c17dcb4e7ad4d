/* The ordered exchange beside MPI_Allreduce: 45 MB of gradients, summed over ranks in the tree's order and spread again, by the
 * wire and the messages of a training step. Prints the best of several runs taken in turn.
 *     mpirun -n 4 bench_exchange_openmpi [NODES of the tree to a rank, 1] */
#include <lockstep_mpi.h>
#include <stdio.h>
#include <string.h>

#include "comm/runs.h"
#include "device/cpu/unit.h"

enum { FLOATS = 11175818 / 16 * 16, BUCKETS = (FLOATS + LS_BUCKET_FLOATS - 1) / LS_BUCKET_FLOATS, RUNS = 15 };

typedef struct bench {
    ls_wire wire;
    ls_unit *unit;
    int nodes; /* of a rank */
    int slots; /* of a bucket */
    float *mine[8], *rows, *out;
    ls_tree tree;
    int stage[BUCKETS];
} bench;

static ls_bucket piece(int bucket, int rank, int ranks)
{
    ls_bucket whole = {(size_t)bucket * LS_BUCKET_FLOATS, (size_t)(bucket + 1) * LS_BUCKET_FLOATS};
    whole.end = whole.end < FLOATS ? whole.end : FLOATS;
    return ls_piece_of(&whole, rank, ranks);
}

static float *rows_of(const bench *b, int bucket)
{
    size_t before = 0;
    for (int i = 0; i < bucket; i++) {
        ls_bucket p = piece(i, b->wire.rank, b->wire.ranks);
        before += p.end - p.begin;
    }
    return b->rows + before * (size_t)(b->nodes * (b->wire.ranks - 1));
}

static void send_sums(bench *b, int bucket)
{
    int slot = bucket * b->slots, me = b->wire.rank;
    ls_bucket own = piece(bucket, me, b->wire.ranks);
    float *row = rows_of(b, bucket);
    for (int r = 0; r < b->wire.ranks; r++)
        for (int i = 0; r != me && i < b->nodes; i++, row += own.end - own.begin)
            b->wire.receive(b->wire.user, slot++, r, bucket, row, (own.end - own.begin) * sizeof *row);
    for (int i = 0; i < b->nodes; i++)
        for (int r = 0; r < b->wire.ranks; r++) {
            ls_bucket p = piece(bucket, r, b->wire.ranks);
            if (r != me)
                b->wire.send(b->wire.user, slot++, r, bucket, b->mine[i] + p.begin, (p.end - p.begin) * sizeof(float));
        }
}

static void sum_and_spread(bench *b, int bucket)
{
    int slot = bucket * b->slots, me = b->wire.rank;
    ls_bucket own = piece(bucket, me, b->wire.ranks);
    const size_t n = own.end - own.begin;
    ls_partials from = {b->mine, own.begin, rows_of(b, bucket), n};
    ls_terms terms = ls_tree_terms(&b->tree, 1, &from, n, b->unit);
    b->unit->type->sum(b->unit, &terms, b->out + own.begin, n);
    for (int r = 0; r < b->wire.ranks; r++) {
        ls_bucket p = piece(bucket, r, b->wire.ranks);
        if (r == me)
            continue;
        b->wire.receive(b->wire.user, slot++, r, BUCKETS + bucket, b->out + p.begin, (p.end - p.begin) * sizeof(float));
        b->wire.send(b->wire.user, slot++, r, BUCKETS + bucket, b->out + own.begin,
                     (own.end - own.begin) * sizeof(float));
    }
}

static void exchange(bench *b)
{
    int left = BUCKETS;
    for (int i = 0; i < BUCKETS; i++) {
        b->stage[i] = 0;
        send_sums(b, i);
    }
    while (left > 0)
        for (int i = 0; i < BUCKETS; i++) {
            if (b->stage[i] == 2 || b->wire.test(b->wire.user, i * b->slots, b->slots) != 1)
                continue;
            if (b->stage[i]++ == 0)
                sum_and_spread(b, i);
            else
                left--;
        }
}

static float *filled(int rank, int node)
{
    float *values = malloc(FLOATS * sizeof *values);
    for (size_t i = 0; values && i < FLOATS; i++)
        values[i] = (float)(i % 97) * (float)(rank + node + 1) * 1e-3f;
    return values;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    ls_context context;
    ls_context_init(&context, NULL);
    bench b = {.wire = ls_mpi_wire(MPI_COMM_WORLD), .unit = ls_cpu_unit_open(&context, LS_ISA_AUTO, 0)};
    int ranks = b.wire.ranks, me = b.wire.rank;
    b.nodes = argc > 1 ? atoi(argv[1]) : 1;
    if (b.nodes < 1 || b.nodes > 8 || !b.unit)
        MPI_Abort(MPI_COMM_WORLD, 2);
    b.slots = 2 * b.nodes * ranks + 2 * ranks;
    b.wire.reserve(b.wire.user, b.slots * BUCKETS);
    ls_tree_reserve(&b.tree, &context, b.nodes * ranks);
    ls_tree_reset(&b.tree, b.nodes * ranks);
    for (int i = 0, others = 0; i < b.nodes * ranks; i++)
        b.tree.buffer[b.tree.size + i] = i / b.nodes == me ? i % b.nodes : LS_TREE_ROW + others++;
    for (int i = 0; i < b.nodes; i++)
        b.mine[i] = filled(me, i);
    b.rows = calloc((size_t)(b.nodes * ranks) * (FLOATS / (size_t)ranks + 16 * BUCKETS), sizeof(float));
    b.out = calloc(FLOATS, sizeof(float));
    float *sum = calloc(FLOATS, sizeof(float));
    double ours = 1e9, theirs = 1e9;
    for (int k = 0; k < RUNS; k++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double began = MPI_Wtime();
        MPI_Allreduce(b.mine[0], sum, FLOATS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        double middle = MPI_Wtime();
        exchange(&b);
        MPI_Barrier(MPI_COMM_WORLD);
        double end = MPI_Wtime();
        theirs = middle - began < theirs ? middle - began : theirs;
        ours = end - middle < ours ? end - middle : ours;
    }
    if (me == 0)
        printf("%d ranks, %d node%s each, %.1f MB: MPI_Allreduce %.1f ms, ordered exchange %.1f ms (%.2f)\n", ranks,
               b.nodes, b.nodes > 1 ? "s" : "", FLOATS * 4e-6, 1e3 * theirs, 1e3 * ours, ours / theirs);
    MPI_Finalize();
    return 0;
}
