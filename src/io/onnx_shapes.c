#include "base/context.h"

#if LOCKSTEP_HAVE_PROTOBUF_C

#include "device/resize.h"
#include "io/onnx_shapes.h"

static char *name_of(ls_onnx_graph *graph, const ls_tensor *t, const char *what)
{
    return ls_onnx_name(graph, "%s%s/%s_%zu", *t->computed.layer ? "/" : "", t->computed.layer, what,
                        graph->message.n_initializer);
}

char *ls_onnx_number(ls_onnx_graph *graph, const ls_tensor *t, const char *what, float value)
{
    float *kept = ls_onnx_room(graph, sizeof *kept);
    if (!kept)
        return NULL;
    *kept = value;
    return ls_onnx_floats(graph, name_of(graph, t, what), kept, NULL, 0);
}

char *ls_onnx_list(ls_onnx_graph *graph, const ls_tensor *t, const char *what, const int64_t values[], int n)
{
    return ls_onnx_integers(graph, name_of(graph, t, what), values, n);
}

ls_onnx_node *ls_onnx_pair(ls_onnx_graph *graph, const ls_tensor *t, const char *op_type, char *a, char *b)
{
    return ls_onnx_add(graph, t->computed.layer, op_type, (char *[]){a, b}, 2);
}

ls_onnx_node *ls_onnx_reshape(ls_onnx_graph *graph, const ls_tensor *t, char *x, const int64_t shape[], int rank)
{
    return ls_onnx_pair(graph, t, "Reshape", x, ls_onnx_list(graph, t, "shape", shape, rank));
}

static ls_onnx_node *one(ls_onnx_graph *graph, const ls_tensor *t, const char *op_type, char *x)
{
    return ls_onnx_add(graph, t->computed.layer, op_type, &x, 1);
}

static ls_onnx_node *transpose(ls_onnx_graph *graph, const ls_tensor *t, char *x)
{
    int64_t order[LS_MAX_RANK] = {0};
    for (int d = 1; d < t->shape.rank; d++)
        order[d] = t->computed.attributes.axes[d - 1] + 1;
    ls_onnx_node *node = one(graph, t, "Transpose", x);
    ls_onnx_ints(graph, node, "perm", order, t->shape.rank);
    return node;
}

/* What the recording functions make of VIEW is one of these: dimensions that are exchanged, a border, or a part. */
ls_onnx_node *ls_onnx_view(ls_onnx_graph *graph, const ls_tensor *t, char *x)
{
    const ls_attributes *a = &t->computed.attributes;
    const int rank = t->shape.rank;
    int64_t from[LS_MAX_RANK] = {0}, to[LS_MAX_RANK] = {0}, axes[LS_MAX_RANK] = {0}, pads[2 * LS_MAX_RANK] = {0};
    bool turned = false, grows = false;
    for (int d = 1; d < rank; d++) {
        const int64_t size = t->shape.dim[d], shift = a->shift[d - 1];
        turned |= a->axes[d - 1] != d - 1;
        grows |= size > t->in[0]->shape.dim[d];
        pads[d] = shift;
        pads[rank + d] = size - t->in[0]->shape.dim[d] - shift;
        axes[d - 1] = d;
        from[d - 1] = -shift;
        to[d - 1] = size - shift;
    }
    if (turned)
        return transpose(graph, t, x);
    if (grows) {
        char *in[] = {x, ls_onnx_list(graph, t, "pads", pads, 2 * rank), ls_onnx_number(graph, t, "border", a->factor)};
        return ls_onnx_add(graph, t->computed.layer, "Pad", in, 3);
    }
    char *in[] = {x, ls_onnx_list(graph, t, "from", from, rank - 1), ls_onnx_list(graph, t, "to", to, rank - 1),
                  ls_onnx_list(graph, t, "axes", axes, rank - 1)};
    return ls_onnx_add(graph, t->computed.layer, "Slice", in, 4);
}

/* The dimensions along which y has 1 and x more. */
static int gone(const ls_tensor *t, int64_t axes[LS_MAX_RANK])
{
    int n = 0;
    for (int d = 1; d < t->shape.rank; d++)
        if (t->shape.dim[d] != t->in[0]->shape.dim[d])
            axes[n++] = d;
    for (int d = 1; d < t->shape.rank && n == 0; d++)
        if (t->shape.dim[d] == 1)
            axes[n++] = d; /* of one number: no dimension at all would stand for all */
    return n;
}

ls_onnx_node *ls_onnx_sum_over(ls_onnx_graph *graph, const ls_tensor *t, char *x)
{
    int64_t axes[LS_MAX_RANK];
    const int n = gone(t, axes);
    return ls_onnx_pair(graph, t, "ReduceSum", x, ls_onnx_list(graph, t, "axes", axes, n));
}

ls_onnx_node *ls_onnx_max_over(ls_onnx_graph *graph, const ls_tensor *t, char *x)
{
    int64_t axes[LS_MAX_RANK];
    const int n = gone(t, axes);
    ls_onnx_node *node = one(graph, t, "ReduceMax", x);
    ls_onnx_ints(graph, node, "axes", axes, n);
    return node;
}

static char *mean(ls_onnx_graph *graph, const ls_tensor *t, char *x)
{
    ls_onnx_node *node = one(graph, t, "ReduceMean", x);
    ls_onnx_ints(graph, node, "axes", (const int64_t[]){2}, 1);
    return ls_onnx_output(node);
}

ls_onnx_node *ls_onnx_set_norm(ls_onnx_graph *graph, const ls_tensor *t, char *x)
{
    const ls_attributes *a = &t->computed.attributes;
    if (a->op == LS_OP_SET_NORM)
        x = ls_onnx_output(ls_onnx_pair(graph, t, "Sub", x, mean(graph, t, x)));
    char *variance = mean(graph, t, ls_onnx_output(ls_onnx_pair(graph, t, "Mul", x, x)));
    char *sum = ls_onnx_output(ls_onnx_pair(graph, t, "Add", variance, ls_onnx_number(graph, t, "eps", a->eps)));
    return ls_onnx_pair(graph, t, "Div", x, ls_onnx_output(one(graph, t, "Sqrt", sum)));
}

/* The weights of `out` rows of `in`, [out][in], or turned. */
static char *weights(ls_onnx_graph *graph, const ls_tensor *t, int64_t in, int64_t out, bool turned)
{
    float *matrix = ls_onnx_room(graph, (size_t)(in * out) * sizeof *matrix);
    for (int64_t i = 0; matrix && i < out; i++) {
        const ls_taps taps = ls_taps_of(t->computed.attributes.op == LS_OP_BILINEAR, (int)i, (int)in, (int)out);
        for (int row = taps.first; row < taps.first + taps.count; row++)
            matrix[turned ? row * out + i : i * in + row] = ls_tap_weight(&taps, row);
    }
    if (!matrix)
        return NULL;
    const int64_t dims[] = {turned ? in : out, turned ? out : in};
    return ls_onnx_floats(graph, name_of(graph, t, turned ? "columns" : "rows"), matrix, dims, 2);
}

/* Products with matrices from both sides: no operator of version 13 has these averages for any size. */
ls_onnx_node *ls_onnx_resize(ls_onnx_graph *graph, const ls_tensor *t, char *x)
{
    const int64_t *has = t->in[0]->shape.dim, *size = t->shape.dim;
    char *columns = ls_onnx_output(ls_onnx_pair(graph, t, "MatMul", x, weights(graph, t, has[3], size[3], true)));
    return ls_onnx_pair(graph, t, "MatMul", weights(graph, t, has[2], size[2], false), columns);
}

#endif
