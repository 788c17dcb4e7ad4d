/* The ranks of a run and the wire between them. A session without a cluster is rank 0 of 1, and never comes here. */
#pragma once

#include <stdatomic.h>
#include <lockstep_cluster.h>

#include "base/context.h"
#include "base/host.h"

/* Streams of messages that must not meet: gathers, heartbeats and the steps' traffic. */
enum { LS_TAG_GATHER, LS_TAG_HEARTBEAT, LS_TAG_END, LS_TAG_STEP };

struct ls_cluster {
    ls_context context;
    int rank, ranks;
    ls_wire wire;
    pthread_mutex_t lock;        /* one thread at a time calls the wire */
    int slots;                   /* the first 2 * ranks are the gather's, the next the heartbeats' */
    char (*hosts)[LS_HOST_NAME]; /* [ranks] names, and what tells two hosts of one name apart */
    char (*boots)[LS_HOST_BOOT];
    int64_t (*processes)[2];     /* [ranks] each one's number, and the name space that it counts in */
    int32_t *statuses;           /* [ranks] of their sessions */
    size_t *places;              /* [2 * ranks + 1] for whoever gathers; NULL where one rank was started by nobody */
    struct ls_peer *peers;       /* [ranks] in heartbeats.c */
    struct ls_trainer *stepping; /* whose steps are on the wire: networks take turns */
    bool ending;                 /* the last heartbeats are being sent */
    atomic_int waiting;          /* for other ranks, with nothing of this one's left to do meanwhile */
    int links;                   /* that were made between their cards so far */
    bool crowded;                /* ranks of this host share cores: waiting must not spin */
};

/* What a launcher's environment says. `plugin` is NULL where it came without an MPI, and `advice` then says what to
 * do. */
typedef struct ls_launch {
    const char *launcher, *plugin, *advice;
    int rank, ranks, local; /* local: among those of its host */
} ls_launch;

bool ls_launch_find(ls_launch *launch); /* false: started by none */

/* Loads the launcher's plugin and has it fill the wire; false after a failure, which is the context's. */
bool ls_launch_open(ls_context *context, const ls_launch *launch, ls_wire *wire);

/* Has the plugin for an MPI fill the wire over the communicator that `comm` points to; false as above. */
bool ls_launch_wire(ls_context *context, const char *mpi, const void *comm, ls_wire *wire);

/* Room for a step's transfers: their slots begin at *first. */
ls_status ls_cluster_reserve(ls_cluster *cluster, ls_context *context, int slots, int *first);

/* After a failure, by whoever has the lock: what those slots would have received may be freed. */
void ls_cluster_cancel(const ls_cluster *cluster, int first, int n);

/* Bytes [begin[r], begin[r + 1]) of `data` are rank r's: sends this rank's, fills in the others'. Waits; every rank
 * must come. */
ls_status ls_cluster_gather(ls_cluster *cluster, ls_context *context, void *data, const size_t begin[]);
/* The same for `bytes` of each rank, or of one rank alone. */
ls_status ls_cluster_gather_each(ls_cluster *cluster, ls_context *context, void *data, size_t bytes);
ls_status ls_cluster_gather_from(ls_cluster *cluster, ls_context *context, int rank, void *data, size_t bytes);
/* Bytes [begin[r], end[r]) of `data` are rank r's: from it to rank 0, or to it from rank 0. */
ls_status ls_cluster_collect(ls_cluster *cluster, ls_context *context, void *data, const size_t begin[],
                             const size_t end[]);
ls_status ls_cluster_deal(ls_cluster *cluster, ls_context *context, void *data, const size_t begin[],
                          const size_t end[]);

/* Ranks that can see the same cards and cores. */
bool ls_cluster_same_host(const ls_cluster *cluster, int a, int b);

/* Every rank comes here, failed or not: the failure of the first rank that has one becomes the others' too. */
ls_status ls_cluster_agree_error(ls_session *session);

/* The same settings on all ranks, who all come here; else LS_DIFFERS, which names the first difference. */
ls_status ls_cluster_agree_settings(ls_session *session, const ls_setting settings[], int n);

struct ls_peer *ls_heartbeats_new(ls_context *context, int ranks);
/* Sends the last heartbeat and looks for the others' last; true when they all came. */
bool ls_heartbeats_end(ls_cluster *cluster);
