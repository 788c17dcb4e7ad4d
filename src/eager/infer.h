/* Inference on all devices of a network. */
#pragma once

#include "graph/lower.h"

/* Runs a traced inference on all devices of the called network. */
ls_status ls_run_spread(ls_trace *trace, ls_tensor *tensor);
