/* ONNX (https://onnx.ai): a network's forward, as it was recorded for inference, as a model that other programs run. */
#pragma once

#include "graph/lower.h"
#include "io/safetensors.h"

/* Replaces `path` as a whole or not at all. The trace is that of a call of the network; parameters[i] are the values of
 * view i of its layout, and have to stand still. LS_UNSUPPORTED, with the place in words, for an operation that the
 * format has no name for. */
ls_status ls_onnx_save(ls_context *context, const char *path, const ls_trace *trace, const ls_named_array *parameters,
                       int n_parameters, const char *name);
