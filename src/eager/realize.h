/* Having tensors computed. */
#pragma once

#include "graph/lower.h"

/* Hands in what is needed for the tensor to have numbers of its own: an array, or of a scalar {sum or mean, correct
 * images}. */
ls_status ls_realize(ls_tensor *tensor, const char *function);
/* Traces, as ls_trace_run, and hands in what the computation reads: results of other networks among it. */
ls_status ls_trace_ready(ls_trace *trace, ls_tensor *root, bool fresh);
