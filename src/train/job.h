/* What a training step is made of while it runs, and the trainer that it belongs to: the state that those who compute,
 * sum, exchange and end it share. */
#ifndef LS_TRAIN_JOB_H
#define LS_TRAIN_JOB_H

#include "comm/allreduce.h"
#include "model/network.h"
#include "optim/groups.h"

enum { LS_DEPTH = 2, LS_REPORTS = 1024 };

/* Of a bucket, in this order; see exchange.h. What is to be sent is being sent in the next. */
typedef enum ls_stage {
    LS_FILLING,
    LS_PASSING, /* of connected cards: the rest of the way, together with all others */
    LS_LOCAL_SUM,
    LS_TO_SCATTER_LOCALLY,
    LS_SCATTERING_LOCALLY,
    LS_GROUP_SUM,
    LS_TO_SCATTER,
    LS_SCATTERING,
    LS_LAST_SUM,
    LS_TO_GATHER,
    LS_GATHERING,
    LS_TO_GATHER_LOCALLY,
    LS_GATHERING_LOCALLY,
    LS_MOVED
} ls_stage;

/* What a rank tells the others at a step's end. */
enum { LS_FLAG_BROKEN = 1, LS_FLAG_FAILED = 2, LS_FLAG_ASKED = 256 /* times what ls_trainer_vote was given */ };
typedef struct ls_rank_status {
    ls_throughput throughput; /* where somebody asked for balance */
    uint32_t flags, rule;     /* rule: the hash of how it updates, which must be all ranks' */
} ls_rank_status;

/* Slices of a bucket that workers take. */
typedef struct ls_slices {
    atomic_int next, done;
} ls_slices;

/* A worker's attempt at a shard; see attempts.h. */
typedef struct ls_attempt {
    _Atomic(struct ls_step_job *) step; /* NULL: at none */
    int shard, buffer;                  /* of the pool */
    int room;                           /* of the trainer's, where shards meet; else -1 */
    int passed;                         /* meetings that the shard had come to when the attempt began */
    bool anew;        /* it begins at the first operation: it stands in, or a card with the results was lost */
    bool contested;   /* others are at the shard too, or were */
    double began;     /* it or, since, a stand-in; -infinity: the device has just failed */
    double measured;  /* when the worker's meter began it: when its shard was pulled */
    atomic_bool over; /* another has finished the shard */
    float *row;       /* the shard's statistics, then its metrics; see ls_attempt_rows_of */
} ls_attempt;

typedef struct ls_attempts {
    ls_attempt *at; /* [n], one a worker */
    int n;
    float *rows;
    /* [n] The step that each of the pool's last n buffers is used by, and of the rooms; they are made at their first
     * use. */
    int64_t *spares, *spare_rooms;
    _Atomic double longest; /* seconds that an attempt has taken, of late: up to the next meeting, where shards meet */
} ls_attempts;

/* Who takes which of this rank's shards (pull.c). */
typedef struct ls_pulls {
    int *order;          /* [mine] in which they are pulled */
    bool placed;         /* some belong to a device */
    atomic_int next;     /* how many were pulled: the next place in `order`, unless some are placed */
    atomic_char *pulled; /* [shards] of placed ones */
} ls_pulls;

/* The shards' gradients until their buckets are summed (shard.c, attempts.c). The step's lock guards the tree's state
 * and `filled`. */
typedef struct ls_step_gradients {
    ls_tree tree;
    int *filled; /* [shards] how many buckets it has filled, in the order they become whole */
} ls_step_gradients;

/* Shards whose BatchNorm statistics are together (cohort.c). The step's lock guards what is no constant of the step and
 * not atomic. */
typedef enum ls_cohort_stage { LS_COHORT_ARRIVES, LS_COHORT_SENDS, LS_COHORT_WAITS } ls_cohort_stage;
typedef struct ls_cohort {
    const ls_plan *plan;
    int first, end;     /* shards of the step, */
    int mine, mine_end; /* those of this rank, */
    int met;            /* meetings whose totals are there */
    int arrived;        /* shards of this rank's at the next one, */
    int finished;       /* and that are done */
    atomic_int stage;   /* ls_cohort_stage: of one that lies on several ranks, where all of this one's have arrived */
    float *rows;        /* the shards' sums at that meeting */
    float *totals;
} ls_cohort;

typedef enum ls_shard_state { LS_SHARD_NEW, LS_SHARD_RUNS, LS_SHARD_ASIDE, LS_SHARD_DONE } ls_shard_state;
typedef struct ls_cohort_shard {
    int cohort, room; /* room -1: none */
    ls_shard_state state;
    int passed; /* meetings that it has come to */
} ls_cohort_shard;

typedef struct ls_cohorts {
    ls_cohort *at;
    ls_cohort_shard *shards; /* [shards] */
    int n, capacity, shards_capacity;
    float *memory;
    size_t floats;
    int oldest;       /* whose shards of this rank are not all done */
    atomic_int ready; /* shards put aside that can go on */
} ls_cohorts;

/* What shards keep while they are put aside. */
typedef struct ls_shard_room {
    float *arena, *sums;
    float *row; /* as an attempt's */
    /* Where arena and sums are in a card's memory: what it reads and writes beside them there, and the sums here; of a
     * card that has a copy of the network the shard's gradient too. Else NULL. */
    float *totals, *row_there, *sums_here, *gradient;
} ls_shard_room;
/* In each memory as many; the master copy's comes first, then those of the network's other copies. */
typedef struct ls_shard_rooms {
    ls_shard_room *at;          /* [n], and one for each worker that attempts.c needs beside them */
    size_t floats, sums_floats; /* of one */
    int n, each, *free;         /* [n] the free ones of a memory lie where all of its would */
    int n_free[1 + LS_MAX_DEVICES];
} ls_shard_rooms;

/* The memory that a room lies in. Those beside the n are the master copy's. */
static inline int ls_memory_of_room(const ls_shard_rooms *rooms, int room)
{
    return room < rooms->n ? room / rooms->each : 0;
}

/* What a shard gives beside its gradient: written by shard.c, exchanged and summed at the step's end. */
typedef struct ls_results {
    float *statistics; /* [shards][state] */
    float *metrics;    /* [shards][LS_METRICS] */
    double *losses;    /* [shards] room to sum them in */
} ls_results;

/* How far the buckets are, and the sums that workers share (slices.c). */
typedef struct ls_sums {
    atomic_int *shards_pending;      /* [buckets] this rank's shards that have not yet filled it */
    atomic_int *stage;               /* [buckets] ls_stage; on the wire exchange.c moves it on */
    ls_slices *local, *group, *last; /* [buckets] of the whole bucket, of this rank's stripe, of its piece */
    ls_stage filled;                 /* of a bucket that all of this rank's shards have filled */
    atomic_bool passed;              /* of connected cards: the whole way has been handed in */
} ls_sums;

/* What moves between the ranks (exchange.c). */
typedef struct ls_exchange {
    bool measured;            /* its shards are timed, for the ranks' throughputs: what computes them is waited for */
    bool balanced;            /* the partition was cut by what the ranks compute */
    ls_allreduce *allreduces; /* [buckets] */
    int first_slot, slots;    /* of the wire; how many a bucket has */
    atomic_int end;           /* ls_stage of the exchange at the step's end */
    int to_move;              /* buckets and ends on their way; guarded by the cluster's lock */
    atomic_llong computing;   /* nanoseconds of this rank's shards, where somebody asked for balance */
    ls_rank_status *statuses; /* [places] */
} ls_exchange;

/* What comes of the step (ending.c). */
typedef struct ls_ending {
    atomic_int left;             /* this rank's shards and slices, or their whole way, to finish */
    atomic_int complete, broken; /* broken: a number was not finite */
    atomic_int overflowed;       /* a loss was not, as is known before anything is updated */
    bool dropped;                /* what came before it has failed */
    bool recorded, waited; /* all is handed in, and left to be waited for; this rank's part is. The worker's own */
    bool finite;           /* what its executor will have said then */
    double norm;           /* of the gradient, where it is clipped */
    int asked;             /* the largest of all ranks */
} ls_ending;

typedef struct ls_step_job {
    ls_job job;
    struct ls_trainer *trainer;
    /* What is to be done: set by the caller's thread when the step is handed in (trainer.c), then only read. */
    ls_microbatch *microbatches; /* their shards follow one another */
    int n_microbatches, microbatches_capacity;
    int64_t rows;
    double counted; /* what its losses are divided by: the images, or what their losses say in their place */
    int shards, shards_capacity;
    ls_partition partition, hosts; /* of places, and of groups of them */
    int first, mine;               /* this rank's shards are [first, first + mine) */
    int64_t number;                /* finished updates before this one */
    int64_t before;                /* steps of the trainer before this one, updates or not */
    bool update;                   /* else the gradient is kept */
    ls_update *how;                /* [rules] of the trainer's updates */
    struct ls_profile *profile;    /* NULL: nobody measures */
    /* While it runs; the comment at a type names the files that change it. */
    pthread_mutex_t lock; /* guards the tree and the trainer's attempts and pool */
    pthread_cond_t changed;
    bool begun;      /* its first worker has set it up */
    atomic_int busy; /* workers that are at something */
    /* What a worker does when its shard has filled a bucket, before it goes on with it (step.c). */
    void (*between)(struct ls_step_job *step, ls_worker *worker);
    ls_pulls pulls;
    ls_step_gradients gradients;
    ls_cohorts cohorts;
    ls_results results;
    ls_sums sums;
    ls_exchange exchange;
    ls_ending ending;
} ls_step_job;

/* Trainable numbers from the end of the run before on that are updated by one rule. */
typedef struct ls_update_run {
    size_t end;
    int rule;
} ls_update_run;

/* How each parameter is updated (updates.c). */
typedef struct ls_updates {
    ls_group_rule *rules; /* as they were set; their patterns are interned */
    int n_rules, rules_capacity;
    bool settled;        /* no more are */
    bool agreed;         /* they are all ranks' */
    ls_factors *factors; /* of each way to update */
    int n_factors;
    ls_update_run *runs; /* NULL before the shapes are known */
    int n_runs;
} ls_updates;

struct ls_trainer {
    ls_session *session; /* first: ls_session_of reads it */
    ls_network *network;
    ls_optimizer kind;
    ls_optim options;
    int noted;   /* checkpoints that hold the options */
    double lr;   /* that the schedule scales: the options', or what was set since */
    bool has_lr; /* it was given: not left out of the options */
    ls_updates updates;
    /* In the memory of the network's executor: */
    /* [n_moments][trainable], the average behind the optimizer's; only this rank's pieces are kept up, unless it clips;
     * NULL without any */
    float *moments;
    float *gradient; /* when it was read, or is clipped; NULL before */
    float *
        *pool; /* partial gradients, and from pool_capacity on one for each worker that attempts.c needs beside them */
    float *rows; /* other ranks' partial gradients of this rank's stripes and pieces */
    int n_moments;
    double *squares;                     /* where the gradient is clipped: of its blocks; else NULL */
    float *seen_moments, *seen_gradient; /* copies on the host of what was asked for, where that is another memory */
    float *average_state;                /* of the statistics, on the host; NULL without ema_buffers */
    float *remembered;                   /* weights and statistics, on the host; NULL: none */
    float *before_update;                /* likewise, while averages lie where they were; NULL: none */
    int n_pool, pool_capacity;
    ls_shard_rooms rooms;
    ls_groups groups;
    const char *transport; /* how ranks' cards meet, see ls_trainer_transport; NULL before they did */
    ls_attempts attempts;
    size_t rows_floats;
    ls_throughput *throughputs; /* [places] of the steps that were measured; NULL where nobody asked for balance */
    int *free_buffers, n_free;
    ls_step_job steps[LS_DEPTH];
    int64_t handed_in;          /* steps, updates or not: chooses the slot */
    atomic_int upset;           /* an update failed or was dropped */
    struct ls_profile *profile; /* that measures the updates handed in; NULL: none */
    uint32_t verified;          /* shards that all devices were compared on */
    atomic_int asked;           /* by this rank */
    /* The optimizer's moments, and the average. */
    bool restart, restart_average; /* the next update begins them anew */
    int64_t began, began_average;  /* the update that did last, from 0 */
    pthread_mutex_t lock;          /* guards the reports */
    ls_report reports[LS_REPORTS];
    int64_t reported, taken, lost; /* lost: they were dropped before they were taken */
};

ls_status ls_step_init(ls_step_job *step, struct ls_trainer *trainer);
void ls_step_destroy(ls_step_job *step);
/* Makes room for shards; the step must be idle. */
ls_status ls_step_reserve(ls_step_job *step, int shards);
/* Adds up what the first n microbatches count, in the order of the tree; they must be there. */
void ls_step_count(ls_step_job *step, int n);
/* The microbatch that shard j is of, and its number there. */
ls_microbatch *ls_step_microbatch(const ls_step_job *step, int j, int *local);

static inline bool ls_clips(const struct ls_trainer *trainer)
{
    return trainer->options.clip_norm > 0;
}
/* Floats from a weight's first moment to its average, which is the last of them; where one is kept. */
static inline size_t ls_average_at(const struct ls_trainer *trainer)
{
    return (size_t)(trainer->n_moments ? trainer->n_moments - 1 : 0) * trainer->network->flat.trainable;
}
/* Where the reduced pieces go: the next weights, or the gradient, also where a clipped update is made from it. */
float *ls_step_target(const ls_step_job *step);
void ls_step_wake(ls_step_job *step);           /* idle workers look again */
void ls_step_unrecord(const ls_step_job *step); /* its weights are not yet, or not at all, the network's after all */
/* Nobody may take for a loss what a step that failed should have written. */
void ls_step_lose_summaries(const ls_step_job *step);
void ls_step_drop(ls_step_job *step); /* what came before it has failed */
/* Before the step writes over what the one before it was computed from: waits for that one. False where the step is
 * dropped, after it or earlier. By the worker whose turn its core is. */
bool ls_step_goes_on(ls_step_job *step, ls_worker *worker);

#endif
