/* Lockstep over MPI: makes the ranks of an MPI_Comm those of a session. Everything stands in this header and is
 * compiled with the caller's own mpi.h, so any MPI will do; link with it and with lockstep. That is why MPI's calls are
 * in a public header: MPIs differ in their types, and the library itself is compiled with none.
 *
 *     MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
 *     ls_cluster *cluster = ls_cluster_of_mpi(MPI_COMM_WORLD);
 *     ls_session *s = ls_open(&(ls_options){.cluster = cluster});
 *     ...
 *     ls_close(s);
 *     ls_cluster_end(cluster);
 *     MPI_Finalize();
 *
 * Work runs on the library's threads, which call MPI one at a time; a caller that calls MPI itself between
 * ls_trainer_step and ls_wait needs MPI_THREAD_MULTIPLE.
 *
 * SPDX-License-Identifier: MIT */
#ifndef LOCKSTEP_MPI_H
#define LOCKSTEP_MPI_H

#include <limits.h>
#include <lockstep.h>
#include <lockstep_cluster.h>
#include <mpi.h>
#include <stdlib.h>

typedef struct ls_mpi {
    MPI_Comm comm; /* a duplicate, so that messages cannot meet the caller's */
    MPI_Request *requests;
    MPI_Status *statuses;
    bool *receiving; /* what the slot was used for last */
    int slots;
} ls_mpi;

/* What MPI counts in one number, in bytes: longer messages are of pieces of so many. Smaller ones are for tests. */
#ifndef LS_MPI_MOST
#define LS_MPI_MOST INT_MAX
#endif

static inline bool ls_mpi_reserve(void *user, int slots)
{
    ls_mpi *m = (ls_mpi *)user;
    MPI_Request *requests = (MPI_Request *)realloc(m->requests, (size_t)slots * sizeof *requests);
    m->requests = requests ? requests : m->requests;
    MPI_Status *statuses = (MPI_Status *)realloc(m->statuses, (size_t)slots * sizeof *statuses);
    m->statuses = statuses ? statuses : m->statuses;
    bool *receiving = (bool *)realloc(m->receiving, (size_t)slots * sizeof *receiving);
    m->receiving = receiving ? receiving : m->receiving;
    if (!requests || !statuses || !receiving)
        return false;
    for (int i = m->slots; i < slots; i++)
        requests[i] = MPI_REQUEST_NULL;
    m->slots = slots;
    return true;
}

/* `pieces` pieces and the rest of a message, as one type. */
static inline bool ls_mpi_type(int pieces, int rest, MPI_Datatype *type)
{
    MPI_Datatype piece;
    if (MPI_Type_contiguous(LS_MPI_MOST, MPI_BYTE, &piece) != MPI_SUCCESS)
        return false;
    int lengths[2] = {pieces, rest};
    MPI_Aint places[2] = {0, (MPI_Aint)pieces * LS_MPI_MOST};
    MPI_Datatype types[2] = {piece, MPI_BYTE};
    bool good = MPI_Type_create_struct(2, lengths, places, types, type) == MPI_SUCCESS;
    MPI_Type_free(&piece);
    return good && MPI_Type_commit(type) == MPI_SUCCESS;
}

/* Begins a transfer; `from` is NULL of one that receives. */
static inline bool ls_mpi_begin(ls_mpi *m, int slot, int rank, int tag, const void *from, void *to, size_t bytes)
{
    MPI_Request *request = &m->requests[slot];
    MPI_Datatype type = MPI_BYTE;
    const bool whole = bytes <= LS_MPI_MOST;
    const int n = whole ? (int)bytes : 1;
    if (bytes / LS_MPI_MOST > INT_MAX ||
        (!whole && !ls_mpi_type((int)(bytes / LS_MPI_MOST), (int)(bytes % LS_MPI_MOST), &type)))
        return false;
    m->receiving[slot] = !from;
    bool good = (from ? MPI_Isend(from, n, type, rank, tag, m->comm, request)
                      : MPI_Irecv(to, n, type, rank, tag, m->comm, request)) == MPI_SUCCESS;
    if (!whole)
        MPI_Type_free(&type);
    return good;
}

static inline bool ls_mpi_send(void *user, int slot, int to, int tag, const void *data, size_t bytes)
{
    return ls_mpi_begin((ls_mpi *)user, slot, to, tag, data, NULL, bytes);
}

static inline bool ls_mpi_receive(void *user, int slot, int from, int tag, void *data, size_t bytes)
{
    return ls_mpi_begin((ls_mpi *)user, slot, from, tag, NULL, data, bytes);
}

static inline int ls_mpi_test(void *user, int first, int n)
{
    ls_mpi *m = (ls_mpi *)user;
    int done = 0;
    if (MPI_Testall(n, m->requests + first, &done, m->statuses) != MPI_SUCCESS)
        return -1;
    return done ? 1 : 0;
}

/* What was sent cannot be called back: MPI forgets it when it is through. */
static inline void ls_mpi_cancel(void *user, int first, int n)
{
    ls_mpi *m = (ls_mpi *)user;
    for (int i = first; i < first + n; i++) {
        if (m->requests[i] == MPI_REQUEST_NULL)
            continue;
        if (!m->receiving[i]) {
            MPI_Request_free(&m->requests[i]);
        } else {
            MPI_Cancel(&m->requests[i]);
            MPI_Wait(&m->requests[i], MPI_STATUS_IGNORE);
        }
        m->requests[i] = MPI_REQUEST_NULL;
    }
}

static inline void ls_mpi_end(void *user)
{
    ls_mpi *m = (ls_mpi *)user;
    MPI_Comm_free(&m->comm);
    free(m->requests);
    free(m->statuses);
    free(m->receiving);
    free(m);
}

/* The wire over a communicator. Collective, like everything that makes one. */
static inline ls_wire ls_mpi_wire(MPI_Comm comm)
{
    ls_wire wire = {sizeof(ls_wire), 0,         1, NULL, NULL, ls_mpi_reserve, ls_mpi_send, ls_mpi_receive, ls_mpi_test,
                    ls_mpi_cancel,   ls_mpi_end};
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
