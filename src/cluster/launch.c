/* Which launcher started this process, and the plugin for its MPI. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "base/plugin.h"
#include "cluster/cluster.h"

static int number_of(const char *name, int otherwise)
{
    const char *text = name ? getenv(name) : NULL;
    if (!text || !*text)
        return otherwise;
    char *end;
    long value = strtol(text, &end, 10);
    return *end || value < 0 || value > 1 << 24 ? otherwise : (int)value;
}

typedef struct heartbeat {
    const char *rank, *ranks, *local; /* variables of the environment */
    const char *launcher, *plugin;
    const char *advice; /* without a plugin: how to start */
} heartbeat;

/* In this order: a launcher under another, such as mpirun in a Slurm job, is the one that counts. MPICH's launcher and
 * Slurm's pmi2 speak PMI; Slurm's pmix, PRRTE and Flux give PMIx's rank alone, and the number of ranks stands beside
 * it. */
static const heartbeat heartbeats[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "mpirun of Open MPI", "openmpi",
     NULL},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "a launcher that speaks PMI (mpirun of MPICH, srun --mpi=pmi2)",
     "mpich", NULL},
    {"PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "a launcher that speaks PMIx (srun --mpi=pmix)", "openmpi",
     NULL},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "srun", NULL,
     "start with srun --mpi=pmix or --mpi=pmi2 ('srun --mpi=list' shows what is there), with mpirun, or a single task"},
};

/* PyTorch's launcher and those that speak its language, within one task of another or without one. */
static const heartbeat processes = {
    "RANK",       "WORLD_SIZE",
    "LOCAL_RANK", "torchrun or the like (WORLD_SIZE)",
    NULL,         "start with mpirun, as in 'mpirun -n 4 lockstep train', or unset WORLD_SIZE to train in one process"};

/* Of processes without an MPI their number alone says that there are others. */
static bool look(const heartbeat *s, ls_launch *launch)
{
    int rank = number_of(s->rank, s->plugin ? -1 : 0), ranks = number_of(s->ranks, -1);
    if (rank < 0 || ranks < 1)
        return false;
    *launch = (ls_launch){.launcher = s->launcher,
                          .plugin = s->plugin,
                          .advice = s->advice,
                          .rank = rank,
                          .ranks = ranks,
                          .local = number_of(s->local, rank)};
    return true;
}

bool ls_launch_find(ls_launch *launch)
{
    bool found = false;
    for (size_t i = 0; i < sizeof heartbeats / sizeof *heartbeats && !found; i++)
        found = look(&heartbeats[i], launch);
    return (found && launch->ranks > 1) || look(&processes, launch) || found;
}

typedef void open_wire(ls_wire *wire);
#define OPEN_WIRE "lockstep_open_wire"
typedef void wire_of(const void *comm, ls_wire *wire);
#define WIRE_OF "lockstep_wire_of"

/* The MPIs that a plugin was built for. */
static const char *const built[] = {
#ifdef LOCKSTEP_HAVE_OPENMPI
    "openmpi",
#endif
#ifdef LOCKSTEP_HAVE_MPICH
    "mpich",
#endif
    NULL};

bool ls_launch_open(ls_context *context, const ls_launch *launch, ls_wire *wire)
{
    char why[512];
    /* Open MPI's own plugins look for its symbols among the process's. */
    open_wire *open = (open_wire *)ls_plugin_load(launch->plugin, OPEN_WIRE, true, why, sizeof why);
    if (open) {
        open(wire);
        return true;
    }
    ls_raise(
        context, LS_UNSUPPORTED,
        "started as rank %d of %d by %s, but its plugin cannot be had: %s; install Debian's package lockstep-%s or "
        "build Lockstep where that MPI is installed, or use the mpirun of one that 'lockstep --version' lists",
        launch->rank, launch->ranks, launch->launcher, why, launch->plugin);
    return false;
}

bool ls_launch_wire(ls_context *context, const char *mpi, const void *comm, ls_wire *wire)
{
    char why[512] = "Lockstep was built without it";
    wire_of *make = NULL;
    for (int i = 0; built[i] && !make; i++)
        if (strcmp(built[i], mpi) == 0)
            make = (wire_of *)ls_plugin_load(mpi, WIRE_OF, true, why, sizeof why);
    if (make) {
        make(comm, wire);
        return true;
    }
    ls_raise(context, LS_UNSUPPORTED,
             "the communicator is one of %s, whose plugin cannot be had: %s; build Lockstep where that MPI is "
             "installed",
             mpi, why);
    return false;
}

const char *ls_cluster_plugin(int i, char *why, size_t size)
{
    LS_OWN_ENVIRONMENT;
    const int n = (int)(sizeof built / sizeof *built) - 1;
    if (i < 0 || i >= n)
        return NULL;
    if (ls_plugin_load(built[i], OPEN_WIRE, false, why, size))
        *why = '\0';
    return built[i];
}
