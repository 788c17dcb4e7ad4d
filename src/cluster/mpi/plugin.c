/* The plugin for one MPI: built once for each that is there, loaded when its launcher started the process, or for a
 * communicator of its. It is the public header's wire, with MPI's own start and end around it where nobody else has
 * started it. */
#include <lockstep_mpi.h>

void lockstep_open_wire(ls_wire *wire);
void lockstep_wire_of(const void *comm, ls_wire *wire);

static void end(void *user)
{
    ls_mpi_end(user);
    MPI_Finalize();
}

void lockstep_open_wire(ls_wire *wire)
{
    int threads, ready = 0;
    MPI_Initialized(&ready); /* by the program, who then ends it too */
    if (!ready && MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &threads) != MPI_SUCCESS) {
        *wire = (ls_wire){.size = sizeof *wire, .error = "MPI could not be initialised"};
        return;
    }
    *wire = ls_mpi_wire(MPI_COMM_WORLD);
    if (ready)
        return;
    if (wire->error)
        MPI_Finalize();
    else
        wire->end = end;
}

void lockstep_wire_of(const void *comm, ls_wire *wire)
{
    *wire = ls_mpi_wire(*(const MPI_Comm *)comm);
}
