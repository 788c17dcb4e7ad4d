/* Networks called on tensors: what becomes of such a call. */
#pragma once

#include "model/network.h"

/* Lets work on a device read the weights: the call must lie on one of the network's devices. */
ls_status ls_network_read(const ls_tensor *call);

/* Puts the traced loss's backward pass among the network's pending parts. */
ls_status ls_network_backward(ls_trace *trace, ls_tensor *loss);
