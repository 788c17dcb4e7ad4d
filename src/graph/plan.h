/* A graph made ready to run: the steps in order, one arena laid out for all values of a shard, and for each step the
 * buckets of gradients that are whole when it is done. Nothing is allocated or decided while a plan runs. */
#pragma once

#include "base/spans.h"
#include "device/executor.h"
#include "graph/graph.h"

typedef struct ls_argument {
    ls_place place;
    size_t offset;
    int c, h, w;
    bool per_image;
    uint8_t number; /* bytes of one */
} ls_argument;      /* c = 0: absent */

typedef struct ls_plan_step {
    ls_attributes attributes;
    ls_kernel *kernel;
    ls_argument in[LS_MAX_IN], out[LS_MAX_OUT];
    int tokens;                /* of an image, each an image to the kernel; 1: it is one */
    int first_bucket, buckets; /* gradients whole after this step: plan->whole[first_bucket ...] */
    const char *layer;
} ls_plan_step;

/* A place where the shards whose BatchNorm statistics are together meet: all have left sums before any of them goes on
 * with step number `step`, which reads their totals. */
typedef struct ls_meeting {
    int step;
    size_t offset, floats; /* in LS_IN_SUMS and LS_IN_TOTALS */
    bool slopes;           /* sums of NORM_SLOPES, else of NORM_SUMS */
} ls_meeting;

/* The fewest places of one image that any BatchNorm normalises over, and its name; 0: there is none. */
typedef struct ls_fewest {
    int places;
    const char *layer;
} ls_fewest;

typedef struct ls_plan {
    ls_context *context;
    uint64_t number; /* no other plan of the session ever has it */
    const ls_backend *backend;
    ls_plan_step *steps;
    int n_steps;
    int *whole;           /* bucket numbers, in the order they become whole */
    ls_meeting *meetings; /* in the order of their steps */
    int n_meetings;
    size_t arena_floats, scratch_bytes;
    size_t room_floats, sums_floats; /* of a plan with meetings: what is read behind the next one is the shard's own */
    int capacity;                    /* images in the largest shard, */
    int labels_each;                 /* and labels of each */
    ls_fewest by_shard, together;    /* of BatchNorms with statistics of a shard, and of shards that meet */
    struct ls_plan *older;           /* the holder's: of the same computation, for another backend or smaller shards */
} ls_plan;

/* The newest of a computation's plans that is for that backend; NULL where there is none. */
const ls_plan *ls_plan_for(const ls_plan *newest, const ls_backend *backend);

/* For the graph's backend. Takes nothing over: the graph may be freed afterwards. `capacity` is the largest shard in
 * images. */
ls_plan *ls_plan_new(const ls_graph *graph, int capacity);
void ls_plan_free(ls_plan *plan);

/* What a step has taken over all its calls; seconds of processor time. */
typedef struct ls_tally {
    int64_t calls, images, groups;
    double seconds;
} ls_tally;

/* Where the operations of a run are measured. */
typedef struct ls_probe {
    ls_tally *tally; /* one for each step, to be added to; NULL: nobody measures */
    ls_spans *spans; /* NULL: they are not kept */
} ls_probe;

/* Other cores that may compute parts of a step's call. */
typedef struct ls_helpers {
    int (*ready)(struct ls_helpers *helpers); /* how many would come now */
    /* Computes the call of step number `step`, which has its parts set, with their help. */
    void (*share)(struct ls_helpers *helpers, const struct ls_plan *plan, int step, const ls_op_call *call,
                  const ls_probe *probe);
} ls_helpers;

/* Where a run's numbers lie, and who computes. What a kernel reads and writes is bound in three steps. The plan says
 * for each operand and result in which place it lies and at which offset (plan.c). The addresses of the places come
 * from those who have the memory: the arena and the scratch from ls_feed_run (model/program.c), weights and state from
 * ls_replica_bind (model/replica.c), gradients, metrics and statistics from whoever has the shard computed: `compute`
 * in train/shard.c, for tensors eager/device_run.c, for inference eager/infer.c. Before each call ls_plan_run adds the
 * two. */
typedef struct ls_bindings {
    ls_executor *executor;
    int from, to;           /* steps [from, to) alone, of a run that is not kept; to 0: all from there on */
    float *base[LS_PLACES]; /* not of the two last places */
    float *const *arrays;   /* by number */
    float *const *outputs;  /* by number, from the shard's first image on */
    bool passing;           /* arrays and outputs lie elsewhere each time */
    void *scratch;
    ls_probe probe;                        /* where its operations are measured */
    ls_helpers *helpers;                   /* NULL: none */
    bool (*goes_on)(void *user, int step); /* asked before each step; NULL: always, as for executors that keep runs */
} ls_bindings;

/* Hands one shard in. `whole` (may be NULL) is called once the step that completes a bucket of gradients was handed in.
 * False where it was ended by `goes_on`. */
bool ls_plan_run(const ls_plan *plan, const ls_bindings *bindings, const ls_samples *samples,
                 void (*whole)(void *user, int bucket), void *user);

/* Computes the call of step number `step`, or the part of it that the call names. */
void ls_plan_call(const ls_plan *plan, int step, const ls_op_call *call, const ls_probe *probe);

/* What a step reads and writes, without its scratch; and ls_op_flops of it. */
typedef struct ls_cost {
    double flops;                   /* of an image */
    double group_bytes, call_bytes; /* of 16 images; whatever their number */
} ls_cost;
ls_cost ls_plan_cost(const ls_plan_step *step);
