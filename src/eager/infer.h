/* Inference on all devices of a network. */
#pragma once

#include "graph/lower.h"

/* Runs the traced computation of a network called on the host's images: its rows, or its metrics, whose loss is a sum,
 * and what that counts. Waits. */
ls_status ls_run_all(ls_trace *trace, const ls_tensor *root, float *rows, ls_metrics *metrics, double *counted);
/* Runs a traced inference on all devices of the called network. */
ls_status ls_run_spread(ls_trace *trace, ls_tensor *tensor);
