#include "base/context.h"

#if LOCKSTEP_HAVE_PROTOBUF_C

#include <float.h>
#include <math.h>

#include "io/onnx_shapes.h"

static char *reshaped(ls_onnx_graph *graph, const ls_tensor *t, char *x, const int64_t shape[4])
{
    return ls_onnx_output(ls_onnx_reshape(graph, t, x, shape, 4));
}

/* Each head of k or v as often as heads of q share it. */
static char *repeated(ls_onnx_graph *graph, const ls_tensor *t, const ls_tensor *of, char *x)
{
    const int64_t heads = t->shape.dim[1], shared = of->shape.dim[1], keys = of->shape.dim[2], each = of->shape.dim[3];
    if (heads == shared)
        return x;
    x = reshaped(graph, t, x, (int64_t[]){0, shared, 1, keys * each});
    const int64_t times[] = {1, shared, heads / shared, keys * each};
    x = ls_onnx_output(ls_onnx_pair(graph, t, "Expand", x, ls_onnx_list(graph, t, "times", times, 4)));
    return reshaped(graph, t, x, (int64_t[]){0, heads, keys, each});
}

/* What is added to the scores: nothing, or -infinity where a token does not see a key. */
static char *mask(ls_onnx_graph *graph, const ls_tensor *t, int64_t tokens, int64_t keys)
{
    float *values = ls_onnx_room(graph, (size_t)(tokens * keys) * sizeof *values);
    for (int64_t i = 0; values && i < tokens * keys; i++)
        values[i] = i % keys > i / keys ? -INFINITY : 0;
    char *name = ls_onnx_name(graph, "%s%s/mask_%zu", *t->computed.layer ? "/" : "", t->computed.layer,
                              graph->message.n_initializer);
    return values ? ls_onnx_floats(graph, name, values, (int64_t[]){tokens, keys}, 2) : NULL;
}

/* Whether each key, from 0 on, is before the image's length: (images, 1, 1, keys). */
static char *before_length(ls_onnx_graph *graph, const ls_tensor *t, char *lengths, int64_t keys)
{
    float *numbers = ls_onnx_room(graph, (size_t)keys * sizeof *numbers);
    for (int64_t i = 0; numbers && i < keys; i++)
        numbers[i] = (float)i;
    char *name = ls_onnx_name(graph, "%s%s/keys_%zu", *t->computed.layer ? "/" : "", t->computed.layer,
                              graph->message.n_initializer);
    char *each = numbers ? ls_onnx_floats(graph, name, numbers, &keys, 1) : NULL;
    return ls_onnx_output(ls_onnx_pair(graph, t, "Less", each, reshaped(graph, t, lengths, (int64_t[]){-1, 1, 1, 1})));
}

/* Scores of keys that are not seen, finite as all of an image's may be such. */
static char *with_seen(ls_onnx_graph *graph, const ls_tensor *t, char *seen, char *scores)
{
    char *in[] = {seen, scores, ls_onnx_number(graph, t, "unseen", -FLT_MAX)};
    return ls_onnx_output(ls_onnx_add(graph, t->computed.layer, "Where", in, 3));
}

ls_onnx_node *ls_onnx_attention(ls_onnx_graph *graph, const ls_tensor *t, char *const in[])
{
    enum { FLOAT = 1 }; /* of ONNX's types */
    const int64_t tokens = t->shape.dim[2], keys = t->in[1]->shape.dim[2];
    char *k = repeated(graph, t, t->in[1], in[1]), *v = repeated(graph, t, t->in[2], in[2]);
    ls_onnx_node *turned = ls_onnx_add(graph, t->computed.layer, "Transpose", &k, 1);
    ls_onnx_ints(graph, turned, "perm", (int64_t[]){0, 1, 3, 2}, 4);
    char *x = ls_onnx_output(ls_onnx_pair(graph, t, "MatMul", in[0], ls_onnx_output(turned)));
    x = ls_onnx_output(
        ls_onnx_pair(graph, t, "Mul", x, ls_onnx_number(graph, t, "scale", t->computed.attributes.factor)));
    if (t->computed.attributes.causal)
        x = ls_onnx_output(ls_onnx_pair(graph, t, "Add", x, mask(graph, t, tokens, keys)));
    char *seen = in[3] ? before_length(graph, t, in[3], keys) : NULL;
    if (in[3])
        x = with_seen(graph, t, seen, x);
    ls_onnx_node *weights = ls_onnx_add(graph, t->computed.layer, "Softmax", &x, 1);
    ls_onnx_int(graph, weights, "axis", 3);
    if (!in[3])
        return ls_onnx_pair(graph, t, "MatMul", ls_onnx_output(weights), v);
    ls_onnx_node *share = ls_onnx_add(graph, t->computed.layer, "Cast", &seen, 1);
    ls_onnx_int(graph, share, "to", FLOAT);
    x = ls_onnx_output(ls_onnx_pair(graph, t, "Mul", ls_onnx_output(weights), ls_onnx_output(share)));
    ls_onnx_node *y = ls_onnx_pair(graph, t, "MatMul", x, v);
    if (tokens != keys)
        return y;
    char *rows = reshaped(graph, t, ls_onnx_output(share), (int64_t[]){-1, 1, keys, 1});
    return ls_onnx_pair(graph, t, "Mul", ls_onnx_output(y), rows);
}

#endif
