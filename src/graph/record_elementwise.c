/* Recording of the operations that own networks are put together from, and of the user's own. */
#include "graph/record.h"

#include <math.h>
#include <string.h>

enum { MAX_PARTS = 4 };

/* Refuses operands; always NULL. `x` is the operand to show. */
static ls_tensor *refuse(const ls_tensor *x, const char *function, ls_status status, const char *what)
{
    const ls_recording *recording = x->graph->session->recording;
    ls_raise(&x->graph->session->context, status, "%s: %s; got (images, %d, %d, %d) at \"%s\"", function, what, x->c,
             x->h, x->w, recording ? recording->path : "");
    return NULL;
}

/* The node y = op(in[0], ...), y being of c x h x w numbers an image; NULL after any failure of the session. */
static ls_node *record(ls_op op, ls_tensor *const in[], int count, int c, int h, int w)
{
    ls_graph *graph = in[0]->graph;
    ls_tensor *y = ls_failed(graph->session) ? NULL : ls_graph_value(graph, LS_IN_ARENA, c, h, w, true);
    ls_node *node = y ? ls_graph_node(graph, op, ls_recorded_path(graph->session)) : NULL;
    if (!node)
        return NULL;
    for (int k = 0; k < count; k++) {
        node->in[k] = in[k];
        y->needs_gradient = y->needs_gradient || in[k]->needs_gradient;
    }
    y->flat = in[0]->flat;
    node->out[0] = y;
    return node;
}

static ls_tensor *output_of(const ls_node *node)
{
    return node ? node->out[0] : NULL;
}

static bool same_shape(const ls_tensor *a, const ls_tensor *b)
{
    return a->per_image && b->per_image && a->c == b->c && a->h == b->h && a->w == b->w;
}

static ls_tensor *unary(ls_tensor *x, ls_op op, const char *function)
{
    if (!x)
        return NULL;
    if (!x->per_image)
        return refuse(x, function, LS_BAD_SHAPE, "x must be (images, ...), not a parameter");
    return output_of(record(op, &x, 1, x->c, x->h, x->w));
}

static ls_tensor *binary(ls_tensor *a, ls_tensor *b, ls_op op, const char *function)
{
    if (!a || !b)
        return NULL;
    if (!same_shape(a, b))
        return refuse(b, function, LS_BAD_SHAPE, "both operands must be (images, ...) of one shape");
    return output_of(record(op, (ls_tensor *[]){a, b}, 2, a->c, a->h, a->w));
}

ls_tensor *ls_multiply(ls_tensor *a, ls_tensor *b)
{
    return binary(a, b, LS_OP_MULTIPLY, "ls_multiply");
}

ls_tensor *ls_subtract(ls_tensor *a, ls_tensor *b)
{
    return binary(a, b, LS_OP_SUBTRACT, "ls_subtract");
}

ls_tensor *ls_tanh(ls_tensor *x)
{
    return unary(x, LS_OP_TANH, "ls_tanh");
}

ls_tensor *ls_sigmoid(ls_tensor *x)
{
    return unary(x, LS_OP_SIGMOID, "ls_sigmoid");
}

ls_tensor *ls_softmax(ls_tensor *x)
{
    if (x && x->per_image && !x->flat)
        return refuse(x, "ls_softmax", LS_BAD_SHAPE, "x must be flat, (images, features)");
    return unary(x, LS_OP_SOFTMAX, "ls_softmax");
}

ls_tensor *ls_scale(ls_tensor *x, double factor)
{
    if (!x)
        return NULL;
    if (!isfinite((float)factor))
        return refuse(x, "ls_scale", LS_BAD_ARGUMENT, "the factor must be finite");
    if (!x->per_image)
        return refuse(x, "ls_scale", LS_BAD_SHAPE, "x must be (images, ...), not a parameter");
    ls_node *node = record(LS_OP_SCALE, &x, 1, x->c, x->h, x->w);
    if (node)
        node->attributes.factor = (float)factor;
    return output_of(node);
}

ls_tensor *ls_concat(ls_tensor *const parts[], int count)
{
    int channels = 0;
    for (int k = 0; k < count; k++)
        if (!parts || !parts[k])
            return NULL;
    if (!parts || count < 1)
        return NULL;
    if (count < 2 || count > MAX_PARTS)
        return refuse(parts[0], "ls_concat", LS_BAD_ARGUMENT, "it takes 2 to 4 parts");
    for (int k = 0; k < count; k++) {
        const ls_tensor *x = parts[k], *first = parts[0];
        if (!x->per_image || x->h != first->h || x->w != first->w || x->flat != first->flat)
            return refuse(x, "ls_concat", LS_BAD_SHAPE, "all parts must be (images, ...) with maps of one size");
        channels += x->c;
    }
    return output_of(record(LS_OP_CONCAT, parts, count, channels, parts[0]->h, parts[0]->w));
}

ls_tensor *ls_reshape(ls_tensor *x, int channels, int height, int width)
{
    if (!x)
        return NULL;
    int64_t numbers = (int64_t)x->c * x->h * x->w;
    bool fits = channels > 0 && height > 0 && width > 0 && numbers % channels == 0 &&
                numbers / channels % height == 0 && numbers / channels / height == width;
    if (!x->per_image || !fits)
        return refuse(x, "ls_reshape", LS_BAD_SHAPE, "x must be (images, ...) and keep its number of numbers");
    /* Every number keeps its place in an image's C order, which is the order they lie in: nothing moves. */
    return ls_failed(x->graph->session) ? NULL : ls_graph_reshaped(x->graph, x, channels, height, width);
}

/* One number an image, a sum times `factor`. */
static ls_tensor *total(ls_op op, ls_tensor *const in[], int count, float factor)
{
    ls_node *node = record(op, in, count, 1, 1, 1);
    if (!node)
        return NULL;
    node->attributes.factor = factor;
    node->out[0]->flat = true;
    return node->out[0];
}

/* 1 over the numbers in an image. */
static float share_of(const ls_tensor *x)
{
    return (float)(1.0 / ((double)x->c * x->h * x->w));
}

ls_tensor *ls_sum(ls_tensor *x)
{
    if (x && !x->per_image)
        return refuse(x, "ls_sum", LS_BAD_SHAPE, "x must be (images, ...), not a parameter");
    return x ? total(LS_OP_SUM, &x, 1, 1) : NULL;
}

ls_tensor *ls_mean(ls_tensor *x)
{
    if (x && !x->per_image)
        return refuse(x, "ls_mean", LS_BAD_SHAPE, "x must be (images, ...), not a parameter");
    return x ? total(LS_OP_SUM, &x, 1, share_of(x)) : NULL;
}

ls_tensor *ls_mse(ls_tensor *a, ls_tensor *b)
{
    if (!a || !b)
        return NULL;
    if (!same_shape(a, b))
        return refuse(b, "ls_mse", LS_BAD_SHAPE, "both operands must be (images, ...) of one shape");
    return total(LS_OP_SQUARED_ERROR, (ls_tensor *[]){a, b}, 2, share_of(a));
}

/* A copy that lives as long as the session. */
static const ls_custom *kept(ls_session *session, const ls_custom *op)
{
    ls_custom *copy = ls_session_alloc(session, 1, sizeof *copy, "an own operation");
    char *name = copy ? ls_session_alloc(session, strlen(op->name) + 1, 1, "an own operation") : NULL;
    if (!name)
        return NULL;
    *copy = *op;
    copy->name = strcpy(name, op->name);
    return copy;
}

static ls_node *record_custom(const ls_custom *op, ls_tensor *const inputs[], const int shape[3])
{
    const ls_custom *copy = kept(inputs[0]->graph->session, op);
    ls_node *node = copy ? record(LS_OP_CUSTOM, inputs, op->inputs, shape[0], shape[1], shape[2]) : NULL;
    if (!node)
        return NULL;
    node->attributes.custom = copy;
    for (int k = 0; k < op->inputs; k++)
        node->attributes.parameters |= inputs[k]->per_image ? 0 : 1u << k;
    node->out[0]->flat = shape[1] == 1 && shape[2] == 1;
    return node;
}

ls_tensor *ls_custom_op(const ls_custom *op, ls_tensor *const inputs[])
{
    if (!inputs || !inputs[0])
        return NULL;
    if (!op || !op->name || !op->forward || op->inputs < 1 || op->inputs > LS_CUSTOM_INPUTS)
        return refuse(inputs[0], "ls_custom_op", LS_BAD_ARGUMENT,
                      "an operation has a name, a forward and 1 to 3 inputs");
    if (!inputs[0]->per_image)
        return refuse(inputs[0], op->name, LS_BAD_SHAPE, "the first input must be (images, ...), not a parameter");
    ls_custom_call call = {.user = op->user, .out = {inputs[0]->c, inputs[0]->h, inputs[0]->w}};
    for (int k = 0; k < op->inputs; k++) {
        if (!inputs[k])
            return NULL;
        call.in[k][0] = inputs[k]->c;
        call.in[k][1] = inputs[k]->h;
        call.in[k][2] = inputs[k]->w;
    }
    if ((op->shape && !op->shape(&call)) || call.out[0] < 1 || call.out[1] < 1 || call.out[2] < 1)
        return refuse(inputs[0], op->name, LS_BAD_SHAPE, "its shape rule refuses the inputs");
    return output_of(record_custom(op, inputs, call.out));
}
