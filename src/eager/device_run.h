/* Computations on one device: its shards one after another, and their gradients added in the order of the tree. */
#pragma once

#include "comm/tree.h"
#include "exec/stream.h"
#include "model/program.h"

/* Where one gradient goes. */
typedef struct ls_target {
    ls_array *gradient;
    bool add;        /* to what is there */
    ls_array *fresh; /* of an input that is added to: what this run gives */
} ls_target;

typedef struct ls_device_run {
    ls_feed *feed;
    ls_device device;     /* that computes */
    ls_array *rows;       /* NULL: none are wanted */
    ls_array *summary;    /* {loss, correct}, on the host; NULL without */
    ls_array *metrics;    /* [shards][LS_METRICS], on the host */
    ls_array *statistics; /* of one shard; a call in training mode writes them, nobody reads them */
    uint64_t step;        /* of the network, which chooses what dropout drops */
    bool mean;
    int n_partial;
    ls_array *partial[LS_TREE_LEVELS + 1];
    ls_target inputs[LS_MAX_INPUTS];
    ls_target *weights; /* one for each array of the feed; behind this struct */
} ls_device_run;

/* A task over the traced computation, on the root's device, reading what it reads; NULL after a failure. The payload is
 * a run that wants nothing yet. */
ls_task *ls_run_task(ls_trace *trace, ls_wanted wanted, ls_tensor *root, ls_tensor *dy);

/* Has the task sum up the loss and the right images, for the root to show. */
void ls_run_summarize(ls_device_run *run, ls_task *task, ls_tensor *root);

/* Whether the gradient of a tracked tensor that comes now is added to what is there. It is fresh from now on. */
bool ls_run_adds(ls_tensor *tracked);
/* Where the gradient of a tracked tensor goes; and of input k, from the run's output k. */
ls_target ls_run_aim(ls_task *task, ls_tensor *tracked);
void ls_run_aim_input(ls_device_run *run, ls_task *task, int k, ls_tensor *tracked);

/* Memory of a device's for the time of the task. */
ls_array *ls_run_array(ls_task *task, ls_device device, size_t n);
