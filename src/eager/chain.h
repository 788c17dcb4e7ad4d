/* Backward passes through networks. */
#pragma once

#include "graph/lower.h"

/* Whose gradients are kept: those of the networks of the list, or of all that were called by ls_module_forward. */
typedef struct ls_kept {
    ls_module *const *nets;
    int n;
    bool all;
} ls_kept;

/* Goes back from the traced loss: puts its part among the pending ones of each network whose gradient is kept, and
 * gives the inputs that are tracked their gradients. */
ls_status ls_chain_backward(ls_trace *trace, ls_tensor *loss, const ls_kept *kept, const char *function);
