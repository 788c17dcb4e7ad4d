/* Which launcher started this process, and the plugin for its MPI. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

typedef struct sign {
    const char *rank, *ranks, *local; /* variables of the environment */
    const char *launcher, *plugin;
} sign;

/* In this order: a launcher under another, such as mpirun in a Slurm job, is the one that counts. MPICH's launcher and Slurm's
 * pmi2 speak PMI; Slurm's pmix, PRRTE and Flux give PMIx's rank alone, and the number of ranks stands beside it. */
static const sign signs[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "mpirun of Open MPI", "openmpi"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "a launcher that speaks PMI (mpirun of MPICH, srun --mpi=pmi2)",
     "mpich"},
    {"PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "a launcher that speaks PMIx (srun --mpi=pmix)", "openmpi"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "srun", NULL},
};

bool ls_launch_find(ls_launch *launch)
{
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        const sign *s = &signs[i];
        int rank = number_of(s->rank, -1), ranks = number_of(s->ranks, -1);
        if (rank < 0 || ranks < 1)
            continue;
        *launch = (ls_launch){.launcher = s->launcher,
                              .plugin = s->plugin,
                              .rank = rank,
                              .ranks = ranks,
                              .local = number_of(s->local, rank)};
        return true;
    }
    return false;
}

typedef void open_wire(ls_wire *wire);

void *ls_launch_open(ls_context *context, const ls_launch *launch, ls_wire *wire)
{
    char why[512];
    /* Open MPI's own plugins look for its symbols among the process's. */
    void *loaded = ls_plugin_load(launch->plugin, true, why, sizeof why);
    open_wire *open = NULL;
    if (loaded) /* as POSIX has it: an object pointer that is a function's */
        *(void **)&open = dlsym(loaded, "lockstep_open_wire");
    if (open) {
        open(wire);
        return loaded;
    }
    ls_raise(context, LS_UNSUPPORTED,
             "started as rank %d of %d by %s, but its plugin cannot be had: %s; install Debian's package lockstep-%s or "
             "build Lockstep where that MPI is installed, or use the mpirun of one that 'lockstep --version' lists",
             launch->rank, launch->ranks, launch->launcher, loaded ? "it is of another version" : why, launch->plugin);
    return NULL;
}

const char *ls_cluster_plugin(int i, char *why, size_t size)
{
    static const char *const built[] = {
#ifdef LOCKSTEP_HAVE_OPENMPI
        "openmpi",
#endif
#ifdef LOCKSTEP_HAVE_MPICH
        "mpich",
#endif
        NULL};
    const int n = (int)(sizeof built / sizeof *built) - 1;
    if (i < 0 || i >= n)
        return NULL;
    void *loaded = ls_plugin_load(built[i], false, why, size);
    if (loaded && dlsym(loaded, "lockstep_open_wire"))
        *why = '\0';
    else if (loaded)
        snprintf(why, size, "lockstep-%s.so is none of Lockstep's plugins", built[i]);
    return built[i];
}
