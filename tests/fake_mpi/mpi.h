/* As much of an MPI as the plugin's start and end call, for test_hosts: it counts what is open, and fails where told.
 */
#ifndef LOCKSTEP_TESTS_FAKE_MPI_H
#define LOCKSTEP_TESTS_FAKE_MPI_H

enum { MPI_SUCCESS, MPI_FAILED };
enum { MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE };
typedef int MPI_Comm, MPI_Request, MPI_Datatype, MPI_Errhandler, MPI_Status;
typedef long MPI_Aint;
enum { MPI_COMM_WORLD = 7, MPI_REQUEST_NULL = -1, MPI_BYTE = 1, MPI_ERRORS_RETURN = 1 };
#define MPI_STATUS_IGNORE ((MPI_Status *)0)

typedef struct fake_mpi {
    int init, dup; /* what these calls return */
    int threads;   /* that are provided */
    int initialised, finalised, comms;
} fake_mpi;
extern fake_mpi fake;

static inline int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    (void)argc, (void)argv, (void)required;
    *provided = fake.threads;
    fake.initialised += fake.init == MPI_SUCCESS;
    return fake.init;
}

static inline int MPI_Initialized(int *flag)
{
    *flag = fake.initialised > fake.finalised;
    return MPI_SUCCESS;
}

static inline int MPI_Query_thread(int *provided)
{
    *provided = fake.threads;
    return MPI_SUCCESS;
}

static inline int MPI_Finalize(void)
{
    fake.finalised++;
    return MPI_SUCCESS;
}

static inline int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *made)
{
    *made = comm + 1;
    fake.comms += fake.dup == MPI_SUCCESS;
    return fake.dup;
}

static inline int MPI_Comm_free(MPI_Comm *comm)
{
    fake.comms -= *comm == MPI_COMM_WORLD + 1;
    return MPI_SUCCESS;
}

static inline int MPI_Comm_rank(MPI_Comm comm, int *rank)
{
    *rank = comm == MPI_COMM_WORLD + 1 ? 2 : -1;
    return MPI_SUCCESS;
}

static inline int MPI_Comm_size(MPI_Comm comm, int *ranks)
{
    *ranks = comm == MPI_COMM_WORLD + 1 ? 3 : -1;
    return MPI_SUCCESS;
}

static inline int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler)
{
    (void)comm, (void)handler;
    return MPI_SUCCESS;
}

/* Of these the test calls none. */
static inline int MPI_Type_contiguous(int n, MPI_Datatype of, MPI_Datatype *type)
{
    (void)n, (void)of, (void)type;
    return MPI_FAILED;
}

static inline int MPI_Type_create_struct(int n, const int *lengths, const MPI_Aint *places, const MPI_Datatype *types,
                                         MPI_Datatype *type)
{
    (void)n, (void)lengths, (void)places, (void)types, (void)type;
    return MPI_FAILED;
}

static inline int MPI_Type_free(MPI_Datatype *type)
{
    (void)type;
    return MPI_FAILED;
}

static inline int MPI_Type_commit(MPI_Datatype *type)
{
    (void)type;
    return MPI_FAILED;
}

static inline int MPI_Isend(const void *data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                            MPI_Request *request)
{
    (void)data, (void)n, (void)type, (void)to, (void)tag, (void)comm, (void)request;
    return MPI_FAILED;
}

static inline int MPI_Irecv(void *data, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                            MPI_Request *request)
{
    (void)data, (void)n, (void)type, (void)from, (void)tag, (void)comm, (void)request;
    return MPI_FAILED;
}

static inline int MPI_Testall(int n, MPI_Request *requests, int *done, MPI_Status *statuses)
{
    (void)n, (void)requests, (void)done, (void)statuses;
    return MPI_FAILED;
}

static inline int MPI_Request_free(MPI_Request *request)
{
    (void)request;
    return MPI_FAILED;
}

static inline int MPI_Cancel(MPI_Request *request)
{
    (void)request;
    return MPI_FAILED;
}

static inline int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    (void)request, (void)status;
    return MPI_FAILED;
}

#endif
