/* Recording of what normalises an image's numbers by themselves: LayerNorm, GroupNorm, RMSNorm. */
#include "base/environment.h"
#include "graph/record.h"

/* x's numbers under another shape, whose channels and columns are sets of so many rows. */
static ls_tensor *normalized(ls_tensor *x, ls_op op, int64_t sets, int64_t numbers, int64_t inner, double eps)
{
    const ls_shape shape = {4, {x->shape.dim[0], sets, numbers, inner}};
    ls_tensor *y = ls_record_shaped(LS_OP_COUNT, &x, 1, &shape);
    y = y ? ls_record_shaped(op, &y, 1, &shape) : NULL;
    if (!y)
        return NULL;
    y->computed.attributes.eps = (float)eps;
    return ls_record_shaped(LS_OP_COUNT, &y, 1, &x->shape);
}

/* A vector for dimension `dim` of y, repeated along the others; all images have it. */
static ls_tensor *expanded(ls_tensor *vector, const ls_tensor *y, int dim)
{
    ls_tensor *x = ls_record_shaped(LS_OP_EXPAND_WEIGHT, &vector, 1, &y->shape);
    if (!x)
        return NULL;
    x->device = y->device; /* a parameter has none of its own */
    x->computed.attributes.axis = dim - 1;
    return x;
}

/* y * weight + bias, either of which may be NULL. */
static ls_tensor *affine(ls_tensor *y, ls_tensor *weight, ls_tensor *bias, int dim)
{
    ls_tensor *scale = y && weight ? expanded(weight, y, dim) : NULL;
    y = scale ? ls_multiply(y, scale) : weight ? NULL : y;
    if (y && bias && dim == 1)
        return ls_add(y, bias);
    ls_tensor *shift = y && bias ? expanded(bias, y, dim) : NULL;
    return shift ? ls_add(y, shift) : bias ? NULL : y;
}

/* Whether a vector may stand as a weight for dimension `dim` of x. */
static bool fits(const ls_tensor *vector, const ls_tensor *x, int dim)
{
    return !vector || ((vector->kind == LS_TENSOR_PARAMETER || vector->kind == LS_TENSOR_ARRAY) &&
                       vector->shape.rank == 1 && vector->shape.dim[0] == x->shape.dim[dim]);
}

/* x and its vectors as operands; false after a failure. */
static bool are_operands(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, double eps, const char *function)
{
    ls_tensor *in[3] = {x};
    int n = 1;
    if (weight)
        in[n++] = weight;
    if (bias)
        in[n++] = bias;
    if (!ls_operands(in, n, function))
        return false;
    if (!(eps >= 0 && eps <= 1))
        ls_raise(&x->session->context, LS_BAD_ARGUMENT, "%s: eps must be from 0 to 1", function);
    return !ls_failed(x->session);
}

/* Over the features, or the channels of a map. */
static ls_tensor *last(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, double eps, ls_op op, const char *function)
{
    if (!are_operands(x, weight, bias, eps, function))
        return NULL;
    const int rank = x->shape.rank, dim = rank == 3 ? 2 : 1;
    if (rank < 2 || !fits(weight, x, dim) || !fits(bias, x, dim))
        return ls_bad_shapes((ls_tensor *[]){x, weight, bias}, "x, weight, bias", function,
                             "x must be (images, features), (images, tokens, features) or (images, channels, height, "
                             "width), and weight and bias parameters (features) or (channels)");
    const int64_t *size = x->shape.dim, inner = rank == 4 ? size[2] * size[3] : 1;
    return affine(normalized(x, op, rank == 3 ? size[1] : 1, size[dim], inner, eps), weight, bias, dim);
}

ls_tensor *ls_layer_norm(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, double eps)
{
    LS_OWN_ENVIRONMENT;
    return last(x, weight, bias, eps, LS_OP_SET_NORM, "ls_layer_norm");
}

ls_tensor *ls_rms_norm(ls_tensor *x, ls_tensor *weight, double eps)
{
    LS_OWN_ENVIRONMENT;
    return last(x, weight, NULL, eps, LS_OP_RMS_NORM, "ls_rms_norm");
}

ls_tensor *ls_group_norm(ls_tensor *x, int groups, ls_tensor *weight, ls_tensor *bias, double eps)
{
    LS_OWN_ENVIRONMENT;
    static const char *const name = "ls_group_norm";
    if (!are_operands(x, weight, bias, eps, name))
        return NULL;
    if (x->shape.rank < 2 || groups < 1 || x->shape.dim[1] % groups != 0 || !fits(weight, x, 1) || !fits(bias, x, 1))
        return ls_bad_shapes(
            (ls_tensor *[]){x, weight, bias}, "x, weight, bias", name,
            "x must be (images, channels, ...) with channels that the %d groups divide, and weight and "
            "bias parameters (channels)",
            groups);
    int c, h, w;
    const int64_t numbers = ls_shape_image(&x->shape, &c, &h, &w);
    return affine(normalized(x, LS_OP_SET_NORM, groups, numbers / groups, 1, eps), weight, bias, 1);
}
