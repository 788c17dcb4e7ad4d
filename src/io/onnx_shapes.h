/* Operations that are several of ONNX's operators, or put numbers elsewhere; and what nodes are put together from. Each
 * gives the last of its nodes, NULL after a failure. */
#pragma once

#include "graph/tensor.h"
#include "io/onnx_graph.h"

/* The name of a number that the operation is told, as `what` of its layer; and of whole numbers. */
char *ls_onnx_number(ls_onnx_graph *graph, const ls_tensor *t, const char *what, float value);
char *ls_onnx_list(ls_onnx_graph *graph, const ls_tensor *t, const char *what, const int64_t values[], int n);

/* An operator of two operands. */
ls_onnx_node *ls_onnx_pair(ls_onnx_graph *graph, const ls_tensor *t, const char *op_type, char *a, char *b);

/* x's numbers under that shape, in which 0 is the size that x has. */
ls_onnx_node *ls_onnx_reshape(ls_onnx_graph *graph, const ls_tensor *t, char *x, const int64_t shape[], int rank);

ls_onnx_node *ls_onnx_view(ls_onnx_graph *graph, const ls_tensor *t, char *x);
ls_onnx_node *ls_onnx_sum_over(ls_onnx_graph *graph, const ls_tensor *t, char *x);
ls_onnx_node *ls_onnx_max_over(ls_onnx_graph *graph, const ls_tensor *t, char *x);
ls_onnx_node *ls_onnx_set_norm(ls_onnx_graph *graph, const ls_tensor *t, char *x); /* RMS_NORM too */
ls_onnx_node *ls_onnx_resize(ls_onnx_graph *graph, const ls_tensor *t, char *x);   /* ADAPTIVE_POOL, BILINEAR */

/* ---- onnx_attention.c ---- */
ls_onnx_node *ls_onnx_attention(ls_onnx_graph *graph, const ls_tensor *t, char *const in[]);
