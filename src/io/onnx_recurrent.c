#include "base/context.h"

#if LOCKSTEP_HAVE_PROTOBUF_C

#include "device/recurrent.h"
#include "io/onnx_recurrent.h"
#include "io/onnx_shapes.h"

enum { INT32 = 6, INT64 = 7 }; /* of ONNX's types */

static bool is_recurrent(const ls_tensor *t)
{
    return t->kind == LS_TENSOR_COMPUTED &&
           (t->computed.attributes.op == LS_OP_LSTM || t->computed.attributes.op == LS_OP_GRU);
}

bool ls_onnx_is_part_of_recurrent(const ls_trace *trace, const ls_tensor *t)
{
    for (int i = 0; i < trace->n; i++)
        if (is_recurrent(trace->order[i]) && trace->order[i]->in[0] == t)
            return true;
    return false;
}

void ls_onnx_operands(const ls_tensor *t, ls_tensor *operands[LS_MAX_IN])
{
    const bool whole = !is_recurrent(t);
    for (int k = 0; k < LS_MAX_IN; k++)
        operands[k] = whole ? t->in[k] : k < 3 ? t->in[0]->in[k] : t->in[k - 2];
}

static char *reshaped(ls_onnx_graph *graph, const ls_tensor *t, char *x, const int64_t shape[], int rank)
{
    return ls_onnx_output(ls_onnx_reshape(graph, t, x, shape, rank));
}

static char *cast(ls_onnx_graph *graph, const ls_tensor *t, char *x, int type)
{
    ls_onnx_node *node = ls_onnx_add(graph, t->computed.layer, "Cast", &x, 1);
    ls_onnx_int(graph, node, "to", type);
    return ls_onnx_output(node);
}

/* Images and tokens exchanged. */
static ls_onnx_node *exchanged(ls_onnx_graph *graph, const ls_tensor *t, char *x)
{
    ls_onnx_node *node = ls_onnx_add(graph, t->computed.layer, "Transpose", &x, 1);
    ls_onnx_ints(graph, node, "perm", (int64_t[]){1, 0, 2}, 3);
    return node;
}

/* Gates in the operator's order, i, o, f, g or z, r, n, behind a dimension of 1 for the direction; columns 0: a bias.
 */
static char *gates(ls_onnx_graph *graph, const ls_tensor *t, char *x, int64_t columns)
{
    static const int64_t of_lstm[LS_LSTM_GATES] = {0, 3, 1, 2}, of_gru[LS_GRU_GATES] = {1, 0, 2};
    const bool lstm = t->computed.attributes.op == LS_OP_LSTM;
    const int64_t h = t->shape.dim[2], n = lstm ? LS_LSTM_GATES : LS_GRU_GATES, each = columns ? columns : 1;
    char *apart = reshaped(graph, t, x, (int64_t[]){n, h * each}, 2);
    char *order = ls_onnx_list(graph, t, "order", lstm ? of_lstm : of_gru, (int)n);
    char *ordered = ls_onnx_output(ls_onnx_pair(graph, t, "Gather", apart, order));
    return reshaped(graph, t, ordered, (int64_t[]){1, n * h, columns}, columns ? 3 : 2);
}

/* One that may be absent. */
static char *bias(ls_onnx_graph *graph, const ls_tensor *t, char *x)
{
    if (x)
        return gates(graph, t, x, 0);
    const int64_t n = t->shape.dim[2] * (t->computed.attributes.op == LS_OP_LSTM ? LS_LSTM_GATES : LS_GRU_GATES);
    const float *zeros = ls_onnx_room(graph, (size_t)n * sizeof *zeros);
    char *name = ls_onnx_name(graph, "%s%s/zeros_%zu", *t->computed.layer ? "/" : "", t->computed.layer,
                              graph->message.n_initializer);
    return zeros ? ls_onnx_floats(graph, name, zeros, (int64_t[]){1, n}, 2) : NULL;
}

ls_onnx_node *ls_onnx_recurrent(ls_onnx_graph *graph, const ls_tensor *t, char *const in[])
{
    const bool lstm = t->computed.attributes.op == LS_OP_LSTM, back = t->computed.attributes.stride < 0;
    const int64_t inputs = t->in[0]->in[0]->shape.dim[2], h = t->shape.dim[2];
    char *both[] = {bias(graph, t, in[2]), bias(graph, t, in[4])};
    ls_onnx_node *joined = ls_onnx_add(graph, t->computed.layer, "Concat", both, 2);
    ls_onnx_int(graph, joined, "axis", 1);
    char *lengths = in[5] ? cast(graph, t, reshaped(graph, t, in[5], (int64_t[]){-1}, 1), INT32) : NULL;
    char *all[] = {ls_onnx_output(exchanged(graph, t, in[0])), gates(graph, t, in[1], inputs),
                   gates(graph, t, in[3], h), ls_onnx_output(joined), lengths};
    ls_onnx_node *node = ls_onnx_add(graph, t->computed.layer, lstm ? "LSTM" : "GRU", all, in[5] ? 5 : 4);
    ls_onnx_int(graph, node, "hidden_size", h);
    if (back)
        ls_onnx_string(graph, node, "direction", "reverse");
    if (!lstm)
        ls_onnx_int(graph, node, "linear_before_reset", 1);
    char *direction = ls_onnx_list(graph, t, "axes", (int64_t[]){1}, 1);
    char *y = ls_onnx_output(ls_onnx_pair(graph, t, "Squeeze", ls_onnx_output(node), direction));
    return exchanged(graph, t, y);
}

/* Behind a token of zeros, which a length of 0 finds. */
ls_onnx_node *ls_onnx_last_token(ls_onnx_graph *graph, const ls_tensor *t, char *const in[])
{
    char *padded[] = {in[0], ls_onnx_list(graph, t, "pads", (int64_t[]){0, 1, 0, 0, 0, 0}, 6)};
    char *behind = ls_onnx_output(ls_onnx_add(graph, t->computed.layer, "Pad", padded, 2));
    char *lengths = cast(graph, t, reshaped(graph, t, in[1], (int64_t[]){-1, 1}, 2), INT64);
    ls_onnx_node *node = ls_onnx_pair(graph, t, "GatherND", behind, lengths);
    ls_onnx_int(graph, node, "batch_dims", 1);
    return node;
}

#endif
