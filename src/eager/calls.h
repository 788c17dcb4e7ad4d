/* Networks called on tensors: what becomes of such a call. */
#pragma once

#include "model/network.h"

/* ls_module_forward_all, or ls_module_infer_all, for the function that was called. */
ls_tensor *ls_call_network(ls_module *net, ls_tensor *const inputs[], int n, bool training, const char *function);

/* Weights that were updated since a call was recorded are gone: LS_STALE. */
ls_status ls_call_check(const ls_tensor *call);
/* Lets work on a device read the weights: the call must lie on one of the network's devices. */
ls_status ls_network_read(const ls_tensor *call);
