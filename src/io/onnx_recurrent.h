/* LSTM and GRU as ONNX's operators, which take in the product with the input. */
#pragma once

#include "graph/lower.h"
#include "io/onnx_graph.h"

/* Whether t is the product with the input of one of the trace's recurrent layers, and so no node of its own. */
bool ls_onnx_is_part_of_recurrent(const ls_trace *trace, const ls_tensor *t);

/* What t's node is made of: its operands, of a recurrent layer those of the product with its input in place of that. */
void ls_onnx_operands(const ls_tensor *t, ls_tensor *operands[LS_MAX_IN]);

/* in: x, its weights and bias, those of the state, lengths; NULL where there is none. */
ls_onnx_node *ls_onnx_recurrent(ls_onnx_graph *graph, const ls_tensor *t, char *const in[]);
ls_onnx_node *ls_onnx_last_token(ls_onnx_graph *graph, const ls_tensor *t, char *const in[]);
