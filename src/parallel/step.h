/* One training step as a job: shards are pulled, computed, folded; buckets of gradients are summed in tree order and the weights
 * updated, slice by slice, by whoever is free; at the end the new copy of the weights becomes the current one.
 *
 * The life of a shard's gradient: a worker takes a free buffer from the trainer's pool (folding finished siblings into one to get
 * it, or waiting), the backward pass fills it bucket by bucket, and each bucket that all shards have filled is reduced at once, in
 * slices, while earlier layers still run backward. */
#ifndef LS_PARALLEL_STEP_H
#define LS_PARALLEL_STEP_H

#include "comm/tree.h"
#include "parallel/network.h"

enum { LS_SLICE = 16 * LS_TREE_BLOCK, LS_DEPTH = 2, LS_REPORTS = 1024 };

typedef struct ls_step_job {
    ls_job job;
    struct ls_trainer *trainer;
    /* set when handed in */
    ls_share *parts; /* their shards follow one another */
    int n_parts, parts_capacity;
    int64_t rows;
    int shards;
    int *order;  /* [shards] in which they are pulled */
    bool placed; /* some shards belong to a device */
    ls_sgd how;
    int64_t number;             /* finished updates before this one */
    struct ls_profile *profile; /* NULL: nobody measures */
    bool update;                /* else the gradient is kept */
    int shards_capacity;
    /* while it runs */
    pthread_mutex_t lock; /* guards tree.state and the pool */
    pthread_cond_t changed;
    bool begun;
    ls_tree tree;
    atomic_int next;             /* how many were pulled: the next place in `order`, unless some are placed */
    atomic_char *pulled;         /* [shards] of placed ones */
    atomic_int *owed;            /* [buckets] shards that have not yet filled it */
    atomic_int *slice;           /* [buckets] the next slice to reduce */
    atomic_int left;             /* shards and slices to finish */
    atomic_int complete, broken; /* broken: a number was not finite */
    float *statistics;           /* [shards][state] */
    float *metrics;              /* [shards][LS_METRICS] */
    double *losses;              /* [shards] */
} ls_step_job;

struct ls_trainer {
    ls_session *session; /* first: ls_session_of reads it */
    ls_network *network;
    ls_optim options;
    float *velocity; /* NULL without momentum */
    float *gradient; /* when it was read; NULL before */
    float **pool;    /* partial gradients */
    int n_pool, pool_capacity;
    int *free_buffers, n_free;
    ls_step_job steps[LS_DEPTH];
    int64_t handed_in;          /* steps, updates or not: chooses the slot */
    int64_t updates;            /* handed in */
    atomic_int upset;           /* an update failed or was dropped */
    struct ls_profile *profile; /* that measures the updates handed in; NULL: none */
    uint32_t verified;          /* shards that all devices were compared on */
    bool restart;               /* the next update is the first of its momentum */
    pthread_mutex_t lock;       /* guards the reports */
    ls_report reports[LS_REPORTS];
    int64_t reported, taken;
};

ls_status ls_step_init(ls_step_job *step, struct ls_trainer *trainer);
void ls_step_destroy(ls_step_job *step);
/* Makes room for shards; the step must be idle. */
ls_status ls_step_reserve(ls_step_job *step, int shards);
/* The part that shard j is of, and its number there. */
ls_share *ls_step_share(const ls_step_job *step, int j, int *local);
void ls_step_submit(ls_step_job *step);

#endif
