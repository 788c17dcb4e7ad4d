/* Ranks: several processes, on one host or several, that train one network together.
 *
 * SPDX-License-Identifier: MIT
 *
 * The rules at the head of lockstep.h hold here too. */
#ifndef LOCKSTEP_CLUSTER_H
#define LOCKSTEP_CLUSTER_H

#include <lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The ranks of a run: processes on one host or several that train one network together. Each makes the same calls in
 * the same order on its own session, with devices of its own; a step's shards, an evaluation's and a prediction's are
 * dealt out among the ranks, and every rank gets the results of the one-process run, bit for bit. Devices that are
 * named for tensors, and what is computed on them without a network, are each rank's own affair. */

/* Starts the ranks as the launcher of this process says: mpirun of Open MPI or MPICH, or srun with an MPI; a process
 * that none started, or started alone, is rank 0 of 1 and needs no MPI. Loads the plugin for that MPI, initialises it,
 * and where the launcher left the ranks of a host on the same cores, deals these out: the calling thread, and with it
 * the devices of sessions opened later, keep to this rank's. Once in a process. Check ls_cluster_status
 * (LS_BAD_ARGUMENT: tasks without an MPI; LS_UNSUPPORTED: no plugin); NULL when there is no memory. */
ls_cluster *ls_cluster_start(void);
/* What the launcher's environment says, before anything is started: the rank, how many there are, and its number among
 * those of its host; 0, 1 and 0 where nothing did. Each may be NULL. */
void ls_cluster_launched(int *rank, int *ranks, int *local);
/* The i-th MPI that a plugin was built for, "openmpi" or "mpich"; NULL behind the last. Loads the plugin, without its
 * MPI being initialised, and writes why that cannot be, or "", to why[size]. */
const char *ls_cluster_plugin(int i, char *why, size_t size);

/* How ranks reach each other, for what is not started by a launcher; lockstep_mpi.h makes one of an MPI_Comm. Messages
 * from one rank to another with equal tags arrive in the order sent. Transfers are known by slots, numbers below what
 * `reserve` was last called with, that are free again when tested; the data stay until then. The functions are called
 * by one thread at a time, and return false or -1 after a failure. */
typedef struct ls_wire {
    size_t size; /* sizeof(ls_wire) */
    int rank, ranks;
    const char *error; /* why there is no wire; NULL */
    void *user;
    bool (*reserve)(void *user, int slots); /* grows; transfers may be under way */
    bool (*send)(void *user, int slot, int to, int tag, const void *data, size_t bytes);
    bool (*receive)(void *user, int slot, int from, int tag, void *data, size_t bytes);
    int (*test)(void *user, int first, int n); /* 1: those n slots are done (unused ones are), 0: not all yet */
    /* After a failure: once it returns nothing is written any more to what those n slots would have received. NULL:
     * such memory must outlive the wire. */
    void (*cancel)(void *user, int first, int n);
    void (*end)(void *user); /* after the last call, while every rank ends; NULL is fine */
} ls_wire;
ls_cluster *ls_cluster_on(const ls_wire *wire); /* copied */

/* The ranks of a communicator, for languages that are compiled with no mpi.h: `comm` points to an MPI_Comm of `mpi`,
 * "openmpi" or "mpich", which the process has initialised; the plugin for that MPI makes the wire. As
 * ls_cluster_of_mpi of lockstep_mpi.h in all else. Check ls_cluster_status (LS_UNSUPPORTED: no plugin, or the MPI
 * cannot be used); NULL when there is no memory. */
ls_cluster *ls_cluster_of_comm(const char *mpi, const void *comm);

/* Before they train: whether all ranks have come here, without a failure (NULL, or this rank's in words) and with the
 * same settings. The first difference is the cluster's failure, on every rank, with the setting, both values and the
 * rank in words. */
typedef struct ls_setting {
    const char *name, *value;
} ls_setting;
ls_status ls_cluster_agree(ls_cluster *cluster, const char *failure, const ls_setting settings[], int n);

ls_status ls_cluster_status(const ls_cluster *cluster);
const char *ls_cluster_message(const ls_cluster *cluster); /* "" without a failure */
int ls_cluster_rank(const ls_cluster *cluster);            /* 0 to ranks - 1; of NULL 0 */
int ls_cluster_ranks(const ls_cluster *cluster);           /* of NULL 1 */
const char *ls_cluster_host(const ls_cluster *cluster, int rank);
/* A rank's process number, if it runs on this rank's host and there among the same processes; else 0. */
int64_t ls_cluster_process(const ls_cluster *cluster, int rank);
/* The devices of each rank: all[r] are rank r's, who hands them in as `mine`. Every rank makes this call. */
ls_status ls_cluster_devices(ls_session *session, const ls_devices *mine, ls_devices all[]);
/* Waits until all ranks have come here, after their sessions. A rank that fails alone (ls_failed_together) must not
 * come: it ends its process, and its launcher or a watchdog the others. */
void ls_cluster_barrier(ls_cluster *cluster);
void ls_cluster_end(ls_cluster *cluster); /* parts from the others, and ends an MPI that ls_cluster_start started */

/* Whether the failure is one that all ranks of the session's cluster found together, so that none of them waits for
 * another. */
bool ls_failed_together(const ls_session *session);

/* ---- Training over ranks ----------------------------------------------------------------------------------------- */

/* Stopping at one step on all ranks: what the ranks ask for travels with the steps, and ls_trainer_voted is the largest
 * number any of them had asked for when the step before the last was done, for which it waits. All ranks get the same
 * at the same place. */
void ls_trainer_vote(ls_trainer *trainer, int number);
int ls_trainer_voted(ls_trainer *trainer);

/* Whether the last step's shards went by speed (ls_options.balance); shards[r] (may be NULL) gets how many of them rank
 * r has. */
bool ls_trainer_balanced(ls_trainer *trainer, int shards[]);

/* How ranks' GPUs exchange gradients: by "NCCL 2.28.9" (*direct), or why by way of the hosts; "" without. All ranks
 * call it, or step. */
const char *ls_trainer_transport(ls_trainer *trainer, bool *direct);

/* ---- Watchdogs --------------------------------------------------------------------------------------------------- */

/* For a watchdog in a thread of its own: what a rank tells of itself. */
typedef struct ls_heartbeat {
    int64_t step;    /* finished */
    uint64_t work;   /* a count that grows with what is done; see ls_work_done */
    int32_t waiting; /* for other ranks, with nothing else to do: set by ls_cluster_tell */
    int32_t verdict; /* for the caller's use */
    char phase[40];
} ls_heartbeat;
/* Sends this rank's heartbeat and shows what came: rank 0 hears from all, the others from rank 0. seen[r] is rank r's
 * last heartbeat, times[r] how many came, -1 once r has come to ls_cluster_barrier. Returns soon: all is left as it was
 * where the wire is in use for more than some 20 milliseconds. */
void ls_cluster_tell(ls_cluster *cluster, ls_heartbeat *mine, ls_heartbeat seen[], int64_t times[]);
/* How many pieces of work a session has done: shards, slices, transfers, reads of files. Any thread may ask. */
uint64_t ls_work_done(const ls_session *session);

#ifdef __cplusplus
}
#endif

#endif
