/* Recording of the operations that own networks are put together from, and of the user's own. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/environment.h"
#include "graph/record.h"

static ls_tensor *like(ls_op op, ls_tensor *const in[], int n)
{
    return ls_record_shaped(op, in, n, &in[0]->shape);
}

static ls_tensor *unary(ls_tensor *x, ls_op op, const char *function)
{
    if (!ls_operands(&x, 1, function))
        return NULL;
    return x->shape.rank < 1 ? ls_bad_shape(x, function, "x must be (images, ...)") : like(op, &x, 1);
}

static ls_tensor *binary(ls_tensor *a, ls_tensor *b, ls_op op, const char *function)
{
    ls_tensor *in[] = {a, b};
    if (!ls_operands(in, 2, function))
        return NULL;
    return ls_broadcast(in, function) ? like(op, in, 2) : NULL;
}

ls_tensor *ls_multiply(ls_tensor *a, ls_tensor *b)
{
    LS_OWN_ENVIRONMENT;
    return binary(a, b, LS_OP_MULTIPLY, "ls_multiply");
}

ls_tensor *ls_subtract(ls_tensor *a, ls_tensor *b)
{
    LS_OWN_ENVIRONMENT;
    return binary(a, b, LS_OP_SUBTRACT, "ls_subtract");
}

ls_tensor *ls_divide(ls_tensor *a, ls_tensor *b)
{
    LS_OWN_ENVIRONMENT;
    return binary(a, b, LS_OP_DIVIDE, "ls_divide");
}

ls_tensor *ls_tanh(ls_tensor *x)
{
    LS_OWN_ENVIRONMENT;
    return unary(x, LS_OP_TANH, "ls_tanh");
}

ls_tensor *ls_sigmoid(ls_tensor *x)
{
    LS_OWN_ENVIRONMENT;
    return unary(x, LS_OP_SIGMOID, "ls_sigmoid");
}

ls_tensor *ls_softmax(ls_tensor *x)
{
    LS_OWN_ENVIRONMENT;
    if (ls_operands(&x, 1, "ls_softmax") && x->shape.rank != 2)
        return ls_bad_shape(x, "ls_softmax", "x must be (images, features)");
    return unary(x, LS_OP_SOFTMAX, "ls_softmax");
}

ls_tensor *ls_exp(ls_tensor *x)
{
    LS_OWN_ENVIRONMENT;
    return unary(x, LS_OP_EXP, "ls_exp");
}

ls_tensor *ls_log(ls_tensor *x)
{
    LS_OWN_ENVIRONMENT;
    return unary(x, LS_OP_LOG, "ls_log");
}

ls_tensor *ls_log_sigmoid(ls_tensor *x)
{
    LS_OWN_ENVIRONMENT;
    return unary(x, LS_OP_LOG_SIGMOID, "ls_log_sigmoid");
}

ls_tensor *ls_sqrt(ls_tensor *x)
{
    LS_OWN_ENVIRONMENT;
    return unary(x, LS_OP_SQRT, "ls_sqrt");
}

ls_tensor *ls_abs(ls_tensor *x)
{
    LS_OWN_ENVIRONMENT;
    return unary(x, LS_OP_ABS, "ls_abs");
}

ls_tensor *ls_silu(ls_tensor *x)
{
    LS_OWN_ENVIRONMENT;
    return unary(x, LS_OP_SILU, "ls_silu");
}

ls_tensor *ls_gelu(ls_tensor *x)
{
    LS_OWN_ENVIRONMENT;
    return unary(x, LS_OP_GELU, "ls_gelu");
}

ls_tensor *ls_gelu_tanh(ls_tensor *x)
{
    LS_OWN_ENVIRONMENT;
    return unary(x, LS_OP_GELU_TANH, "ls_gelu_tanh");
}

/* A function of a number that must be finite as a float. */
static ls_tensor *with_factor(ls_tensor *x, ls_op op, double factor, const char *function, const char *what)
{
    if (x && !isfinite((float)factor))
        ls_raise(&x->session->context, LS_BAD_ARGUMENT, "%s: the %s must be finite", function, what);
    ls_tensor *y = unary(x, op, function);
    if (y)
        y->computed.attributes.factor = (float)factor;
    return y;
}

ls_tensor *ls_scale(ls_tensor *x, double factor)
{
    LS_OWN_ENVIRONMENT;
    return with_factor(x, LS_OP_SCALE, factor, "ls_scale", "factor");
}

ls_tensor *ls_leaky_relu(ls_tensor *x, double slope)
{
    LS_OWN_ENVIRONMENT;
    return with_factor(x, LS_OP_LEAKY_RELU, slope, "ls_leaky_relu", "slope");
}

ls_tensor *ls_power(ls_tensor *x, double exponent)
{
    LS_OWN_ENVIRONMENT;
    return with_factor(x, LS_OP_POWER, exponent, "ls_power", "exponent");
}

ls_tensor *ls_clamp(ls_tensor *x, double low, double high)
{
    LS_OWN_ENVIRONMENT;
    if (x && !((float)low <= (float)high)) /* NaN too */
        ls_raise(&x->session->context, LS_BAD_ARGUMENT, "ls_clamp: low must be a number that is not above high");
    ls_tensor *y = unary(x, LS_OP_CLAMP, "ls_clamp");
    if (!y)
        return NULL;
    y->computed.attributes.low = (float)low;
    y->computed.attributes.high = (float)high;
    return y;
}

ls_tensor *ls_reshape(ls_tensor *x, int channels, int height, int width)
{
    LS_OWN_ENVIRONMENT;
    if (!ls_operands(&x, 1, "ls_reshape"))
        return NULL;
    int c, h, w;
    int64_t numbers = ls_shape_image(&x->shape, &c, &h, &w);
    bool fits = channels > 0 && height > 0 && width > 0 && numbers % channels == 0 &&
                numbers / channels % height == 0 && numbers / channels / height == width;
    if (x->shape.rank < 1 || !fits)
        return ls_bad_shape(x, "ls_reshape",
                            "x must be (images, ...) and keep an image's %lld numbers, not become %d x %d x %d",
                            (long long)numbers, channels, height, width);
    /* Every number keeps its place in an image's C order, which is the order they lie in: nothing moves. */
    return ls_record(LS_OP_COUNT, &x, 1, channels, height, width, false);
}

/* One number an image, a sum times `factor`. */
static ls_tensor *total(ls_op op, ls_tensor *const in[], int count, float factor)
{
    ls_shape shape = {1, {in[0]->shape.dim[0]}};
    ls_tensor *y = ls_record_shaped(op, in, count, &shape);
    if (y)
        y->computed.attributes.factor = factor;
    return y;
}

/* 1 over the numbers in an image. */
static float share_of(const ls_tensor *x)
{
    int c, h, w;
    return (float)(1.0 / (double)ls_shape_image(&x->shape, &c, &h, &w));
}

static bool has_images(ls_tensor *x, const char *function)
{
    if (!ls_operands(&x, 1, function))
        return false;
    if (x->shape.rank < 1)
        ls_bad_shape(x, function, "x must be (images, ...)");
    return x->shape.rank >= 1;
}

ls_tensor *ls_sum_each(ls_tensor *x)
{
    LS_OWN_ENVIRONMENT;
    return has_images(x, "ls_sum_each") ? total(LS_OP_SUM, &x, 1, 1) : NULL;
}

ls_tensor *ls_mean_each(ls_tensor *x)
{
    LS_OWN_ENVIRONMENT;
    return has_images(x, "ls_mean_each") ? total(LS_OP_SUM, &x, 1, share_of(x)) : NULL;
}

ls_tensor *ls_mse(ls_tensor *a, ls_tensor *b)
{
    LS_OWN_ENVIRONMENT;
    ls_tensor *in[] = {a, b};
    return ls_are_alike(a, b, "ls_mse") ? total(LS_OP_SQUARED_ERROR, in, 2, share_of(a)) : NULL;
}

/* Everything in x added up: each image's numbers, then the images. */
static ls_tensor *fold(ls_tensor *x, ls_fold how, const char *function)
{
    if (!has_images(x, function))
        return NULL;
    if (x->session->recording)
        return ls_bad_shape(x, function, "a forward computes image by image; use ls_sum_each or ls_mean_each");
    if (x->shape.rank > 1)
        x = how == LS_FOLD_SUM ? ls_sum_each(x) : ls_mean_each(x);
    ls_shape scalar = {.rank = 0};
    ls_tensor *y = x ? ls_record_shaped(LS_OP_SUM_IMAGES, &x, 1, &scalar) : NULL;
    if (y)
        y->fold = how;
    return y;
}

ls_tensor *ls_sum(ls_tensor *x)
{
    LS_OWN_ENVIRONMENT;
    return fold(x, LS_FOLD_SUM, "ls_sum");
}

ls_tensor *ls_mean(ls_tensor *x)
{
    LS_OWN_ENVIRONMENT;
    return fold(x, LS_FOLD_MEAN, "ls_mean");
}

/* ---- The user's own ---- */

typedef struct kept_custom {
    struct kept_custom *next;
    ls_custom op;
} kept_custom;

/* A copy that lives as long as the session; the same one for an operation that was met before. */
static const ls_custom *keep(ls_session *session, const ls_custom *op)
{
    const char *name = ls_intern(session, op->name), *onnx = op->onnx ? ls_intern(session, op->onnx) : NULL;
    for (kept_custom *k = session->customs; k; k = k->next)
        if (k->op.name == name && k->op.inputs == op->inputs && k->op.parameters == op->parameters &&
            k->op.shape == op->shape && k->op.forward == op->forward && k->op.backward == op->backward &&
            k->op.user == op->user && k->op.onnx == onnx && k->op.cuda_forward == op->cuda_forward &&
            k->op.cuda_backward == op->cuda_backward)
            return &k->op;
    kept_custom *copy = ls_session_alloc(session, 1, sizeof *copy, "an own operation");
    if (!copy)
        return NULL;
    *copy = (kept_custom){session->customs, *op};
    copy->op.name = name;
    copy->op.onnx = onnx;
    session->customs = copy;
    return &copy->op;
}

static void put_sizes(int sizes[3], const ls_tensor *t, bool parameter)
{
    if (parameter) {
        sizes[0] = (int)ls_shape_numbers(&t->shape);
        sizes[1] = sizes[2] = 1;
    } else {
        ls_shape_image(&t->shape, &sizes[0], &sizes[1], &sizes[2]);
    }
}

const char *ls_wrong_custom(const ls_custom *op)
{
    if (!op || !op->name || !op->forward || op->inputs < 1 || op->inputs > LS_CUSTOM_INPUTS)
        return "an operation has a name, a forward and 1 to 3 inputs";
    if (op->parameters & 1 || op->parameters >> op->inputs)
        return "`parameters` names the first input, which is (images, ...), or one that is not there";
    return NULL;
}

ls_tensor *ls_custom_op(const ls_custom *op, ls_tensor *const inputs[])
{
    LS_OWN_ENVIRONMENT;
    const char *wrong = ls_wrong_custom(op);
    ls_session *session = inputs ? ls_operands(inputs, wrong ? 1 : op->inputs, "ls_custom_op") : NULL;
    if (!session)
        return NULL;
    if (wrong) {
        ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_custom_op: %s", wrong);
        return NULL;
    }
    ls_custom_call call = {.user = op->user};
    for (int k = 0; k < op->inputs; k++) {
        bool parameter = op->parameters >> k & 1;
        bool weight = inputs[k]->kind == LS_TENSOR_PARAMETER || inputs[k]->kind == LS_TENSOR_ARRAY;
        if (parameter ? !weight : inputs[k]->kind == LS_TENSOR_PARAMETER || inputs[k]->shape.rank < 1)
            return ls_bad_shape(inputs[k], op->name,
                                parameter ? "an input that `parameters` names must be a parameter"
                                          : "an input that `parameters` does not name must be (images, ...)");
        if (parameter && ls_shape_numbers(&inputs[k]->shape) > LS_MOST_NUMBERS)
            return ls_bad_shape(inputs[k], op->name, "a parameter has too many numbers");
        if (!parameter && inputs[k]->shape.dim[0] != inputs[0]->shape.dim[0])
            return ls_bad_shapes((ls_tensor *[]){inputs[0], inputs[k]}, "input 0, another", op->name,
                                 "all inputs but parameters must have as many images");
        put_sizes(call.in[k], inputs[k], parameter);
    }
    memcpy(call.out, call.in[0], sizeof call.out);
    if ((op->shape && !op->shape(&call)) || call.out[0] < 1 || call.out[1] < 1 || call.out[2] < 1)
        return ls_bad_shapes(inputs,
                             op->inputs == 1   ? "x"
                             : op->inputs == 2 ? "x, input 1"
                                               : "x, input 1, input 2",
                             op->name, "its shape rule refuses the inputs");
    const ls_custom *kept = keep(session, op);
    bool flat = call.out[1] == 1 && call.out[2] == 1;
    ls_tensor *y =
        kept ? ls_record(LS_OP_CUSTOM, inputs, op->inputs, call.out[0], call.out[1], call.out[2], flat) : NULL;
    if (!y)
        return NULL;
    y->computed.attributes.custom = kept;
    y->computed.attributes.parameters = op->parameters;
    return y;
}
