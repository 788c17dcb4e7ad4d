/* The plugin for one MPI: built once for each that is there, loaded when its launcher started the process. It is the
 * public header's wire, with MPI's own start and end around it. */
#include <lockstep_mpi.h>

void lockstep_open_wire(ls_wire *wire);

static void end(void *user)
{
    ls_mpi_end(user);
    MPI_Finalize();
}

void lockstep_open_wire(ls_wire *wire)
{
    int threads;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &threads) != MPI_SUCCESS) {
        *wire = (ls_wire){.size = sizeof *wire, .error = "MPI could not be initialised"};
        return;
    }
    *wire = ls_mpi_wire(MPI_COMM_WORLD);
    if (wire->error)
        MPI_Finalize();
    else
        wire->end = end;
}
