/* Lockstep over MPI: makes the ranks of an MPI_Comm those of a session. Everything stands in this header and is compiled with
 * the caller's own mpi.h, so any MPI will do; link with it and with lockstep.
 *
 *     MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
 *     ls_cluster *cluster = ls_cluster_of_mpi(MPI_COMM_WORLD);
 *     ls_session *s = ls_open(&(ls_options){.cluster = cluster});
 *     ...
 *     ls_close(s);
 *     ls_cluster_end(cluster);
 *     MPI_Finalize();
 *
 * Work runs on the library's threads, which call MPI one at a time; a caller that calls MPI itself between ls_step and ls_wait
 * needs MPI_THREAD_MULTIPLE.
 *
 * SPDX-License-Identifier: MIT */
#ifndef LOCKSTEP_MPI_H
#define LOCKSTEP_MPI_H

#include <limits.h>
#include <lockstep.h>
#include <mpi.h>
#include <stdlib.h>

typedef struct ls_mpi {
    MPI_Comm comm; /* a duplicate, so that messages cannot meet the caller's */
    MPI_Request *requests;
    MPI_Status *statuses;
    int slots;
} ls_mpi;

static inline bool ls_mpi_reserve(void *user, int slots)
{
    ls_mpi *m = (ls_mpi *)user;
    MPI_Request *requests = (MPI_Request *)realloc(m->requests, (size_t)slots * sizeof *requests);
    m->requests = requests ? requests : m->requests;
    MPI_Status *statuses = (MPI_Status *)realloc(m->statuses, (size_t)slots * sizeof *statuses);
    m->statuses = statuses ? statuses : m->statuses;
    if (!requests || !statuses)
        return false;
    for (int i = m->slots; i < slots; i++)
        requests[i] = MPI_REQUEST_NULL;
    m->slots = slots;
    return true;
}

static inline bool ls_mpi_send(void *user, int slot, int to, int tag, const void *data, size_t bytes)
{
    ls_mpi *m = (ls_mpi *)user;
    return bytes <= INT_MAX &&
           MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, m->comm, &m->requests[slot]) == MPI_SUCCESS;
}

static inline bool ls_mpi_receive(void *user, int slot, int from, int tag, void *data, size_t bytes)
{
    ls_mpi *m = (ls_mpi *)user;
    return bytes <= INT_MAX &&
           MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, m->comm, &m->requests[slot]) == MPI_SUCCESS;
}

static inline int ls_mpi_test(void *user, int first, int n)
{
    ls_mpi *m = (ls_mpi *)user;
    int done = 0;
    if (MPI_Testall(n, m->requests + first, &done, m->statuses) != MPI_SUCCESS)
        return -1;
    return done ? 1 : 0;
}

static inline void ls_mpi_end(void *user)
{
    ls_mpi *m = (ls_mpi *)user;
    MPI_Comm_free(&m->comm);
    free(m->requests);
    free(m->statuses);
    free(m);
}

/* The wire over a communicator. Collective, like everything that makes one. */
static inline ls_wire ls_mpi_wire(MPI_Comm comm)
{
    ls_wire wire = {sizeof(ls_wire), 0,           1,         NULL, NULL, ls_mpi_reserve, ls_mpi_send,
                    ls_mpi_receive,  ls_mpi_test, ls_mpi_end};
    int ready = 0, threads = MPI_THREAD_SINGLE;
    if (MPI_Initialized(&ready) != MPI_SUCCESS || !ready) {
        wire.error = "MPI was not initialised; call MPI_Init_thread first";
        wire.end = NULL;
        return wire;
    }
    MPI_Query_thread(&threads);
    ls_mpi *m = (ls_mpi *)calloc(1, sizeof *m);
    if (threads < MPI_THREAD_SERIALIZED || !m || MPI_Comm_dup(comm, &m->comm) != MPI_SUCCESS) {
        wire.error = threads < MPI_THREAD_SERIALIZED ? "MPI was initialised for a single thread; call MPI_Init_thread "
                                                       "with MPI_THREAD_SERIALIZED"
                                                     : "MPI could not duplicate the communicator";
        wire.end = NULL;
        free(m);
        return wire;
    }
    MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(m->comm, &wire.rank);
    MPI_Comm_size(m->comm, &wire.ranks);
    wire.user = m;
    return wire;
}

/* The ranks of `comm`, for ls_options.cluster. End it with ls_cluster_end before MPI_Finalize. */
static inline ls_cluster *ls_cluster_of_mpi(MPI_Comm comm)
{
    ls_wire wire = ls_mpi_wire(comm);
    return ls_cluster_on(&wire);
}

#endif
