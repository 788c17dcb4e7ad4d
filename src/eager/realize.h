/* Having tensors computed. */
#pragma once

#include "graph/lower.h"

/* Hands in what is needed for the tensor to have numbers of its own: an array, or of a scalar {sum or mean, correct
 * images}. */
ls_status ls_realize(ls_tensor *tensor, const char *function);
ls_status ls_realize_operands(const ls_trace *trace);
