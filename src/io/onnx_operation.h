/* Operations as ONNX's operators. */
#pragma once

#include "graph/tensor.h"
#include "io/onnx_graph.h"

/* Adds what computes t, the last node its numbers, from the values of the operands; NULL after a failure, which may be
 * that the format has no operator for it. */
ls_onnx_node *ls_onnx_operation(ls_onnx_graph *graph, const ls_tensor *t, char *const in[]);
