/* A program that has MPI already and trains on some of its processes: the last one is left out, the others are the
 * ranks. mpicc own_communicator.c -llockstep && mpirun -n 4 ./a.out [DIRECTORY [IMAGES]] */
#include "arguments.h"
#include <lockstep_mpi.h>
#include <lockstep_nn.h>
#include <stdio.h>

/* One epoch on the ranks of `cluster`; every rank gets the same result, and the first prints it. */
static int train(ls_cluster *cluster, const char *directory, int64_t limit)
{
    ls_session *s = ls_open(&(ls_options){.shard = 32, .cluster = cluster});
    ls_loader loader = {.directory = directory, .shuffle = true, .limit = limit};
    ls_data *data = ls_data_fashion_mnist(s, LS_TRAIN, &loader);
    ls_module *net = ls_lenet(s);
    ls_module_initialize(net, ls_all_devices(s), &(ls_init){.kind = LS_XAVIER, .like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.2, .momentum = 0.5});
    for (ls_batch b; ls_data_next(data, &b);) {
        ls_backward(ls_cross_entropy(ls_module_forward(net, b.X), b.y));
        ls_trainer_step(trainer);
    }
    char digits[65] = "";
    if (ls_module_fingerprint(net, digits) == LS_OK && ls_cluster_rank(cluster) == 0)
        printf("%d ranks: %s\n", ls_cluster_ranks(cluster), digits);
    if (ls_failed(s)) {
        fprintf(stderr, "rank %d: %s\n", ls_cluster_rank(cluster), ls_message(s));
        if (!ls_failed_together(s)) /* the others wait for this rank */
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return ls_close(s) == LS_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    int provided, rank, size, status = 0, images = 5000;
    const char *directory = NULL;
    read_arguments(argc, argv,
                   "Trains on all processes but the last: the data of DIRECTORY, the first IMAGES (5000). It prints, "
                   "and writes no file.",
                   (argument[]){{"DIRECTORY", .text = &directory}, {"IMAGES", .count = &images}}, 2);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm trainers;
    int left_out = size > 1 && rank == size - 1;
    MPI_Comm_split(MPI_COMM_WORLD, left_out ? MPI_UNDEFINED : 0, rank, &trainers);
    if (!left_out) {
        ls_cluster *cluster = ls_cluster_of_mpi(trainers);
        status = train(cluster, directory, images);
        ls_cluster_end(cluster);
        MPI_Comm_free(&trainers);
    }
    MPI_Finalize();
    return status;
}
