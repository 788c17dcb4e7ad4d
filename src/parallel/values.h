/* The numbers of tensors: where they lie, and having them computed. */
#ifndef LS_PARALLEL_VALUES_H
#define LS_PARALLEL_VALUES_H

#include "graph/lower.h"

/* Hands in what is needed for the tensor to have numbers of its own. */
ls_status ls_realize(ls_tensor *tensor, const char *function);

/* Runs what leads to a computed tensor and gives it its numbers: an array, or of a scalar {sum or mean, correct images}. */
ls_status ls_run_forward(ls_tensor *tensor);

/* The array of a tensor that was realized; its first number is at tensor->offset. Not to be dropped. */
ls_array *ls_array_of(const ls_tensor *tensor);

/* Realizes all operands of a trace. */
ls_status ls_trace_operands(const ls_trace *trace);

/* An array as a tensor in the innermost scope; takes over the caller's hold, also when it fails. */
ls_tensor *ls_tensor_of_array(ls_session *session, ls_array *array, const ls_shape *shape);

/* NULL with LS_BAD_ARGUMENT unless the tensor is there, outside a forward, and its session has not failed. */
ls_session *ls_value_session(const ls_tensor *tensor, const char *function);

/* The session's trace, made at the first call. */
ls_trace *ls_session_trace(ls_session *session);

#endif
