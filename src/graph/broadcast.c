/* Two operands of one number each for the other's: brought to one shape, as NumPy does behind the images. */
#include "graph/record.h"

/* A tensor that repeats x along the sizes that are 1 in `has`. */
static ls_tensor *expand(ls_tensor *x, bool weight, const ls_shape *has, const ls_shape *shape, ls_device device)
{
    if (!weight && ls_same_shape(has, shape))
        return x;
    ls_tensor *y = ls_record_shaped(weight ? LS_OP_EXPAND_WEIGHT : LS_OP_EXPAND, &x, 1, shape);
    if (y)
        y->device = device; /* a parameter has none of its own */
    return y;
}

bool ls_broadcast(ls_tensor *in[2], const char *function)
{
    static const char *const wanted =
        "operands must be (images, ...) of as many sizes, each equal to the other's or 1; the second may be a "
        "parameter of fewer, which meet the last ones, or (channels)";
    const ls_tensor *a = in[0], *b = in[1];
    const int rank = a->shape.rank;
    const bool weight = b->kind == LS_TENSOR_PARAMETER || (b->kind == LS_TENSOR_ARRAY && b->shape.rank < rank);
    if (rank < 1 || (weight ? b->shape.rank < 1 || b->shape.rank >= rank : b->shape.rank != rank))
        return ls_bad_shapes(in, "a, b", function, "%s", wanted);
    ls_shape has = weight ? ls_shape_behind_images(&b->shape, rank, 0) : b->shape, shape = a->shape;
    has.dim[0] = weight ? shape.dim[0] : has.dim[0];
    bool fits = has.dim[0] == shape.dim[0];
    for (int i = 1; i < rank; i++) {
        fits = fits && (has.dim[i] == shape.dim[i] || has.dim[i] == 1 || shape.dim[i] == 1);
        shape.dim[i] = shape.dim[i] == 1 ? has.dim[i] : shape.dim[i];
    }
    if (!fits)
        return ls_bad_shapes(in, "a, b", function, "%s", wanted);
    in[0] = expand(in[0], false, &a->shape, &shape, a->device);
    in[1] = in[0] ? expand(in[1], weight, &has, &shape, a->device) : NULL;
    return in[1];
}
