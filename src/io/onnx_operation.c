#include "base/context.h"

#if LOCKSTEP_HAVE_PROTOBUF_C

#include "io/onnx_operation.h"
#include "io/onnx_recurrent.h"
#include "io/onnx_shapes.h"
#include "io/onnx_text.h"

/* Operators that are the operation, and need to be told nothing. */
static const char *operator_of(ls_op op)
{
    switch (op) {
    case LS_OP_BATCH_MATMUL:
        return "MatMul"; /* recorded with neither transposed */
    case LS_OP_ADD:
        return "Add";
    case LS_OP_MULTIPLY:
        return "Mul";
    case LS_OP_SUBTRACT:
        return "Sub";
    case LS_OP_DIVIDE:
        return "Div";
    case LS_OP_RELU:
        return "Relu";
    case LS_OP_TANH:
        return "Tanh";
    case LS_OP_SIGMOID:
        return "Sigmoid";
    case LS_OP_EXP:
        return "Exp";
    case LS_OP_LOG:
        return "Log";
    case LS_OP_SQRT:
        return "Sqrt";
    case LS_OP_ABS:
        return "Abs";
    case LS_OP_GLOBAL_AVG_POOL:
        return "GlobalAveragePool";
    default:
        return NULL;
    }
}

static int operands(char *const in[])
{
    int n = 0;
    while (n < LS_MAX_IN && in[n])
        n++;
    return n;
}

/* A convolution or a pool; `pads` of both beginnings and both ends. */
static ls_onnx_node *padded_windows(ls_onnx_graph *graph, const ls_tensor *t, const char *op_type, char *const in[],
                                    const int64_t pads[4])
{
    const ls_windows w = ls_windows_of(&t->computed.attributes);
    const ls_windows_axis *down = &w.rows, *right = &w.columns;
    ls_onnx_node *node = ls_onnx_add(graph, t->computed.layer, op_type, in, operands(in));
    ls_onnx_ints(graph, node, "kernel_shape", (int64_t[]){down->kernel, right->kernel}, 2);
    ls_onnx_ints(graph, node, "strides", (int64_t[]){down->stride, right->stride}, 2);
    ls_onnx_ints(graph, node, "pads", pads, 4);
    if (down->dilation > 1 || right->dilation > 1)
        ls_onnx_ints(graph, node, "dilations", (int64_t[]){down->dilation, right->dilation}, 2);
    if (w.groups > 1)
        ls_onnx_int(graph, node, "group", w.groups);
    if (t->computed.attributes.op == LS_OP_AVG_POOL)
        ls_onnx_int(graph, node, "count_include_pad", 1);
    return node;
}

static ls_onnx_node *windows(ls_onnx_graph *graph, const ls_tensor *t, const char *op_type, char *const in[])
{
    const ls_windows w = ls_windows_of(&t->computed.attributes);
    const int64_t down = w.rows.padding, right = w.columns.padding;
    return padded_windows(graph, t, op_type, in, (const int64_t[]){down, right, down, right});
}

/* What a map has more than the last window's end, its padding taken off. */
static int64_t more_than_windows(const ls_windows_axis *axis, int64_t windows, int64_t rows)
{
    return rows + 2 * (int64_t)axis->padding - ls_windows_span(axis) - (windows - 1) * axis->stride;
}

/* The rows that are added at the end are padding that is left out there, and what is more of them has no window: zeros.
 * onnxruntime takes an output padding below the stride only. */
static ls_onnx_node *conv_transpose_beyond(ls_onnx_graph *graph, const ls_tensor *t, char *const in[],
                                           const int64_t more[2])
{
    const ls_windows w = ls_windows_of(&t->computed.attributes);
    const ls_windows_axis *axes[] = {&w.rows, &w.columns};
    int64_t pads[4], border[2 * LS_MAX_RANK] = {0};
    for (int i = 0; i < 2; i++) {
        const int64_t left = axes[i]->padding - more[i];
        pads[i] = axes[i]->padding;
        pads[2 + i] = left > 0 ? left : 0;
        border[LS_MAX_RANK + 2 + i] = left < 0 ? -left : 0;
    }
    ls_onnx_node *node = padded_windows(graph, t, "ConvTranspose", in, pads);
    if (border[LS_MAX_RANK + 2] == 0 && border[LS_MAX_RANK + 3] == 0)
        return node;
    return ls_onnx_pair(graph, t, "Pad", ls_onnx_output(node), ls_onnx_list(graph, t, "pads", border, 2 * LS_MAX_RANK));
}

static ls_onnx_node *conv_transpose(ls_onnx_graph *graph, const ls_tensor *t, char *const in[])
{
    const ls_windows w = ls_windows_of(&t->computed.attributes);
    const ls_shape *x = &t->in[0]->shape;
    const int64_t more[] = {more_than_windows(&w.rows, x->dim[2], t->shape.dim[2]),
                            more_than_windows(&w.columns, x->dim[3], t->shape.dim[3])};
    if (more[0] >= w.rows.stride || more[1] >= w.columns.stride)
        return conv_transpose_beyond(graph, t, in, more);
    ls_onnx_node *node = windows(graph, t, "ConvTranspose", in);
    ls_onnx_ints(graph, node, "output_padding", more, 2);
    return node;
}

/* A product over features; its weight is (inputs, outputs) there unless it is said to be turned. */
static ls_onnx_node *product(ls_onnx_graph *graph, const ls_tensor *t, char *const in[])
{
    ls_onnx_node *node = ls_onnx_add(graph, t->computed.layer, "Gemm", in, operands(in));
    if (!t->computed.attributes.weight_in_out)
        ls_onnx_int(graph, node, "transB", 1);
    return node;
}

/* Over the features of sequences. */
static ls_onnx_node *product_of_tokens(ls_onnx_graph *graph, const ls_tensor *t, char *const in[])
{
    char *weight = in[1];
    if (!t->computed.attributes.weight_in_out) {
        ls_onnx_node *turned = ls_onnx_add(graph, t->computed.layer, "Transpose", &weight, 1);
        ls_onnx_ints(graph, turned, "perm", (int64_t[]){1, 0}, 2);
        weight = ls_onnx_output(turned);
    }
    ls_onnx_node *node = ls_onnx_pair(graph, t, "MatMul", in[0], weight);
    return in[2] ? ls_onnx_pair(graph, t, "Add", ls_onnx_output(node), in[2]) : node;
}

/* Rows by whole numbers, which come as floats. */
static ls_onnx_node *embedding(ls_onnx_graph *graph, const ls_tensor *t, char *const in[])
{
    enum { INT64 = 7 }; /* of ONNX's types */
    char *ids = in[0];
    ls_onnx_node *whole = ls_onnx_add(graph, t->computed.layer, "Cast", &ids, 1);
    ls_onnx_int(graph, whole, "to", INT64);
    return ls_onnx_pair(graph, t, "Gather", in[1], ls_onnx_output(whole));
}

static ls_onnx_node *along(ls_onnx_graph *graph, const ls_tensor *t, const char *op_type, char *const in[], int axis)
{
    ls_onnx_node *node = ls_onnx_add(graph, t->computed.layer, op_type, in, operands(in));
    ls_onnx_int(graph, node, "axis", axis);
    return node;
}

static ls_onnx_node *along_features(ls_onnx_graph *graph, const ls_tensor *t, const char *op_type, char *const in[])
{
    return along(graph, t, op_type, in, 1);
}

/* The same numbers of each image under another shape. */
static ls_onnx_node *view(ls_onnx_graph *graph, const ls_tensor *t, char *const in[])
{
    if (t->shape.rank == 2)
        return along_features(graph, t, "Flatten", in);
    int64_t shape[LS_MAX_RANK] = {0}; /* as many images as come in */
    for (int i = 1; i < t->shape.rank; i++)
        shape[i] = t->shape.dim[i];
    return ls_onnx_reshape(graph, t, in[0], shape, t->shape.rank);
}

static ls_onnx_node *add_bias(ls_onnx_graph *graph, const ls_tensor *t, char *const in[])
{
    const int64_t shape[] = {t->shape.dim[1], 1, 1};
    char *bias = in[1];
    if (t->shape.rank > 2) /* it meets the last dimensions there */
        bias = ls_onnx_output(ls_onnx_reshape(graph, t, bias, shape, t->shape.rank - 1));
    return ls_onnx_pair(graph, t, "Add", in[0], bias);
}

static ls_onnx_node *scale(ls_onnx_graph *graph, const ls_tensor *t, char *x)
{
    return ls_onnx_pair(graph, t, "Mul", x, ls_onnx_number(graph, t, "factor", t->computed.attributes.factor));
}

static ls_onnx_node *clamp(ls_onnx_graph *graph, const ls_tensor *t, char *x)
{
    char *in[] = {x, ls_onnx_number(graph, t, "low", t->computed.attributes.low),
                  ls_onnx_number(graph, t, "high", t->computed.attributes.high)};
    return ls_onnx_add(graph, t->computed.layer, "Clip", in, 3);
}

static ls_onnx_node *leaky_relu(ls_onnx_graph *graph, const ls_tensor *t, char *const in[])
{
    ls_onnx_node *node = ls_onnx_add(graph, t->computed.layer, "LeakyRelu", in, 1);
    ls_onnx_float(graph, node, "alpha", t->computed.attributes.factor);
    return node;
}

/* x times the operator of a scaled number; operators of version 13 have no SiLU and no GELU. */
static ls_onnx_node *gated(ls_onnx_graph *graph, const ls_tensor *t, const char *op_type, char *x, char *scaled)
{
    return ls_onnx_pair(graph, t, "Mul", x, ls_onnx_output(ls_onnx_add(graph, t->computed.layer, op_type, &scaled, 1)));
}

/* -log(1 + exp(-x)), which operators have by itself. */
static ls_onnx_node *log_sigmoid(ls_onnx_graph *graph, const ls_tensor *t, char *x)
{
    char *turned = ls_onnx_output(ls_onnx_add(graph, t->computed.layer, "Neg", &x, 1));
    char *whole = ls_onnx_output(ls_onnx_add(graph, t->computed.layer, "Softplus", &turned, 1));
    return ls_onnx_add(graph, t->computed.layer, "Neg", &whole, 1);
}

static ls_onnx_node *gelu(ls_onnx_graph *graph, const ls_tensor *t, char *x)
{
    char *scaled = ls_onnx_output(
        ls_onnx_pair(graph, t, "Mul", x, ls_onnx_number(graph, t, "root", 0x1.6a09e6p-1f))); /* sqrt(1/2) */
    char *erf = ls_onnx_output(ls_onnx_add(graph, t->computed.layer, "Erf", &scaled, 1));
    char *whole = ls_onnx_output(ls_onnx_pair(graph, t, "Add", erf, ls_onnx_number(graph, t, "one", 1)));
    char *half = ls_onnx_output(ls_onnx_pair(graph, t, "Mul", x, ls_onnx_number(graph, t, "half", 0.5f)));
    return ls_onnx_pair(graph, t, "Mul", half, whole);
}

static ls_onnx_node *gelu_tanh(ls_onnx_graph *graph, const ls_tensor *t, char *x)
{
    char *square = ls_onnx_output(ls_onnx_pair(graph, t, "Mul", x, x));
    char *share = ls_onnx_output(ls_onnx_pair(graph, t, "Mul", square, ls_onnx_number(graph, t, "cube", 0.044715f)));
    char *factor = ls_onnx_output(ls_onnx_pair(graph, t, "Add", share, ls_onnx_number(graph, t, "one", 1)));
    char *sum = ls_onnx_output(ls_onnx_pair(graph, t, "Mul", x, factor)); /* x + 0.044715 x^3 */
    char *scaled =
        ls_onnx_output(ls_onnx_pair(graph, t, "Mul", sum, ls_onnx_number(graph, t, "scale", 0x1.988454p+0f)));
    return gated(graph, t, "Sigmoid", x, scaled); /* 2 sqrt(2 / pi) */
}

/* Repeated to the output's shape, for any number of images. */
static ls_onnx_node *expand(ls_onnx_graph *graph, const ls_tensor *t, char *x)
{
    int64_t shape[LS_MAX_RANK] = {1};
    for (int i = 1; i < t->shape.rank; i++)
        shape[i] = t->shape.dim[i];
    return ls_onnx_pair(graph, t, "Expand", x, ls_onnx_list(graph, t, "shape", shape, t->shape.rank));
}

/* Operators on pairs repeat it themselves. */
static ls_onnx_node *expand_weight(ls_onnx_graph *graph, const ls_tensor *t, char *x)
{
    const ls_shape behind = ls_shape_behind_images(&t->in[0]->shape, t->shape.rank, t->computed.attributes.axis);
    return ls_onnx_reshape(graph, t, x, behind.dim + 1, behind.rank - 1);
}

/* One number an image. */
static ls_onnx_node *sum(ls_onnx_graph *graph, const ls_tensor *t, char *x)
{
    char *flat = ls_onnx_output(along_features(graph, t, "Flatten", (char *[LS_MAX_IN]){x}));
    ls_onnx_node *node = ls_onnx_pair(graph, t, "ReduceSum", flat, ls_onnx_list(graph, t, "axes", (int64_t[]){1}, 1));
    ls_onnx_int(graph, node, "keepdims", 0);
    return t->computed.attributes.factor == 1 ? node : scale(graph, t, ls_onnx_output(node));
}

static ls_onnx_node *squared_error(ls_onnx_graph *graph, const ls_tensor *t, char *const in[])
{
    char *difference = ls_onnx_output(ls_onnx_add(graph, t->computed.layer, "Sub", in, 2));
    return sum(graph, t,
               ls_onnx_output(ls_onnx_add(graph, t->computed.layer, "Mul", (char *[]){difference, difference}, 2)));
}

static ls_onnx_node *batch_norm(ls_onnx_graph *graph, const ls_tensor *t, char *const in[])
{
    /* The variance is the view behind the mean. */
    char *all[] = {in[0], in[1], in[2], ls_onnx_parameter(graph, t->view), ls_onnx_parameter(graph, t->view + 1)};
    ls_onnx_node *node = ls_onnx_add(graph, t->computed.layer, "BatchNormalization", all, 5);
    ls_onnx_float(graph, node, "epsilon", t->computed.attributes.eps);
    return node;
}

static void set(ls_onnx_graph *graph, ls_onnx_node *node, const ls_onnx_setting *s)
{
    switch (s->kind) {
    case LS_ONNX_INT:
        ls_onnx_int(graph, node, s->name, s->ints[0]);
        break;
    case LS_ONNX_FLOAT:
        ls_onnx_float(graph, node, s->name, s->number);
        break;
    case LS_ONNX_TEXT:
        ls_onnx_string(graph, node, s->name, s->text);
        break;
    case LS_ONNX_INTS:
        ls_onnx_ints(graph, node, s->name, s->ints, s->n_ints);
        break;
    }
}

/* The lines of an operation of one's own; what they make gets the shape that it has here. */
static ls_onnx_node *own_operation(ls_onnx_graph *graph, const ls_tensor *t, char *const in[])
{
    const ls_custom *own = t->computed.attributes.custom;
    ls_onnx_steps *steps = ls_onnx_room(graph, sizeof *steps); /* names in it are the graph's */
    int line;
    if (!steps)
        return NULL;
    const char *wrong = ls_onnx_read_text(own->onnx, own->inputs, steps, &line);
    if (wrong) {
        ls_raise(graph->context, LS_BAD_ARGUMENT, "the own operation %s at \"%s\": line %d of its onnx: %s", own->name,
                 t->computed.layer, line, wrong);
        return NULL;
    }
    char *results[LS_ONNX_MOST_STEPS];
    ls_onnx_node *node = NULL;
    for (int k = 0; k < steps->n; k++) {
        const ls_onnx_step *step = &steps->at[k];
        char *operands[LS_ONNX_MOST_OPERANDS];
        for (int i = 0; i < step->n_in; i++)
            operands[i] = step->in[i] < own->inputs ? in[step->in[i]] : results[step->in[i] - own->inputs];
        node = ls_onnx_add(graph, t->computed.layer, step->op_type, operands, step->n_in);
        for (int i = 0; i < step->n_settings; i++)
            set(graph, node, &step->settings[i]);
        results[k] = ls_onnx_output(node);
    }
    return ls_same_shape(&t->shape, &t->in[0]->shape) ? node : view(graph, t, &results[steps->n - 1]);
}

static ls_onnx_node *refuse(ls_onnx_graph *graph, const ls_tensor *t)
{
    const ls_custom *own = t->computed.attributes.op == LS_OP_CUSTOM ? t->computed.attributes.custom : NULL;
    ls_raise(graph->context, LS_UNSUPPORTED, "%s%s at \"%s\" has no operator in ONNX%s",
             own ? "the own operation " : "", own ? own->name : ls_op_name(t->computed.attributes.op),
             t->computed.layer, own ? "; its definition can give one as text (onnx)" : "");
    return NULL;
}

ls_onnx_node *ls_onnx_operation(ls_onnx_graph *graph, const ls_tensor *t, char *const in[])
{
    switch (t->computed.attributes.op) {
    case LS_OP_CONV:
        return t->shape.rank == 2   ? product(graph, t, in)
               : t->shape.rank == 3 ? product_of_tokens(graph, t, in)
                                    : windows(graph, t, "Conv", in);
    case LS_OP_CONV_DATA:
        return conv_transpose(graph, t, in);
    case LS_OP_AVG_POOL:
        return windows(graph, t, "AveragePool", in);
    case LS_OP_MAX_POOL:
        return windows(graph, t, "MaxPool", in);
    case LS_OP_BATCH_NORM_INFER:
        return batch_norm(graph, t, in);
    case LS_OP_ADD_BIAS:
        return add_bias(graph, t, in);
    case LS_OP_SCALE:
        return scale(graph, t, in[0]);
    case LS_OP_POWER:
        return ls_onnx_pair(graph, t, "Pow", in[0],
                            ls_onnx_number(graph, t, "exponent", t->computed.attributes.factor));
    case LS_OP_CLAMP:
        return clamp(graph, t, in[0]);
    case LS_OP_LEAKY_RELU:
        return leaky_relu(graph, t, in);
    case LS_OP_SILU:
        return gated(graph, t, "Sigmoid", in[0], in[0]);
    case LS_OP_LOG_SIGMOID:
        return log_sigmoid(graph, t, in[0]);
    case LS_OP_GELU:
        return gelu(graph, t, in[0]);
    case LS_OP_GELU_TANH:
        return gelu_tanh(graph, t, in[0]);
    case LS_OP_EXPAND:
        return expand(graph, t, in[0]);
    case LS_OP_EXPAND_WEIGHT:
        return expand_weight(graph, t, in[0]);
    case LS_OP_SOFTMAX:
        return along_features(graph, t, "Softmax", in);
    case LS_OP_CONCAT:
        return along(graph, t, "Concat", in, t->computed.attributes.axis + 1);
    case LS_OP_VIEW:
        return ls_onnx_view(graph, t, in[0]);
    case LS_OP_EXPAND_BACKWARD:
        return ls_onnx_sum_over(graph, t, in[0]);
    case LS_OP_MAX_OVER:
        return ls_onnx_max_over(graph, t, in[0]);
    case LS_OP_SET_NORM:
    case LS_OP_RMS_NORM:
        return ls_onnx_set_norm(graph, t, in[0]);
    case LS_OP_ADAPTIVE_POOL:
    case LS_OP_BILINEAR:
        return ls_onnx_resize(graph, t, in[0]);
    case LS_OP_ATTENTION:
        return ls_onnx_attention(graph, t, in);
    case LS_OP_EMBEDDING:
        return embedding(graph, t, in);
    case LS_OP_LSTM:
    case LS_OP_GRU:
        return ls_onnx_recurrent(graph, t, in);
    case LS_OP_LAST_TOKEN:
        return ls_onnx_last_token(graph, t, in);
    case LS_OP_SUM:
        return sum(graph, t, in[0]);
    case LS_OP_SQUARED_ERROR:
        return squared_error(graph, t, in);
    case LS_OP_COUNT:
        return view(graph, t, in);
    case LS_OP_CUSTOM:
        return t->computed.attributes.custom->onnx ? own_operation(graph, t, in) : refuse(graph, t);
    default:
        break;
    }
    const char *op_type = operator_of(t->computed.attributes.op);
    return op_type ? ls_onnx_add(graph, t->computed.layer, op_type, in, operands(in)) : refuse(graph, t);
}

#endif
