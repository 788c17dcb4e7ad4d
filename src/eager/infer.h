/* Inference on all devices of a network. */
#pragma once

#include "model/network.h"

/* What is wanted of a pass over all shards: rows of its outputs, or the sums of its metrics and what the loss counts,
 * or those of each shard (ls_given_counted); NULL: they are not. */
typedef struct ls_outcome {
    ls_tensor *dy; /* where it begins from the gradient of the root; else NULL */
    float *rows[LS_MAX_INPUTS];
    ls_metrics *metrics;
    double *counted;
    float *given;
    bool ends; /* early, by ls_interrupt */
} ls_outcome;

/* Runs a program of the traced computation, of a network called on the host's images. Waits. */
ls_status ls_run_pass(ls_trace *trace, ls_program *program, int64_t images, const ls_outcome *wanted);
/* Runs the traced computation of a network called on the host's images: its rows, or its metrics, whose loss is a sum,
 * and what that counts. Waits. */
ls_status ls_run_all(ls_trace *trace, const ls_tensor *root, float *rows, ls_metrics *metrics, double *counted);
/* Runs a traced inference on all devices of the called network. */
ls_status ls_run_spread(ls_trace *trace, ls_tensor *tensor);
