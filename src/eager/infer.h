/* Inference on all devices of a network. */
#ifndef LS_EAGER_INFER_H
#define LS_EAGER_INFER_H

#include "graph/lower.h"

/* Runs a traced inference on all devices of the called network. */
ls_status ls_run_spread(ls_trace *trace, ls_tensor *tensor);

#endif
