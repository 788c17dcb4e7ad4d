/* Recording of what puts an image's numbers elsewhere: parts, borders, transpositions, and tensors put together. */
#include <math.h>
#include <stdio.h>

#include "base/environment.h"
#include "graph/record.h"

/* Whether it is one of x's dimensions behind the images. */
static bool is_dimension(ls_tensor *x, int dim, const char *function)
{
    if (dim < 1 || dim >= x->shape.rank)
        ls_bad_shape(x, function, "dimension %d must be one of x's behind the images, from 1 on", dim);
    return !ls_failed(x->session);
}

/* y of that shape, each dimension of which is one of x's: `axes`, behind the images. */
static ls_tensor *view(ls_tensor *x, const ls_shape *shape, const int axes[3], const int shift[3])
{
    ls_tensor *y = ls_record_shaped(LS_OP_VIEW, &x, 1, shape);
    for (int d = 0; y && d < 3; d++) {
        y->computed.attributes.axes[d] = axes[d];
        y->computed.attributes.shift[d] = shift[d];
    }
    return y;
}

ls_tensor *ls_transpose(ls_tensor *x, int i, int j)
{
    LS_OWN_ENVIRONMENT;
    if (!ls_operands(&x, 1, "ls_transpose") || !is_dimension(x, i, "ls_transpose") ||
        !is_dimension(x, j, "ls_transpose"))
        return NULL;
    if (i == j)
        return x;
    ls_shape shape = x->shape;
    int axes[3] = {0, 1, 2};
    shape.dim[i] = x->shape.dim[j];
    shape.dim[j] = x->shape.dim[i];
    axes[i - 1] = j - 1;
    axes[j - 1] = i - 1;
    return view(x, &shape, axes, (const int[3]){0, 0, 0});
}

ls_tensor *ls_slice(ls_tensor *x, int dim, int64_t from, int64_t to)
{
    LS_OWN_ENVIRONMENT;
    if (!ls_operands(&x, 1, "ls_slice") || !is_dimension(x, dim, "ls_slice"))
        return NULL;
    if (from < 0 || to <= from || to > x->shape.dim[dim])
        return ls_bad_shape(
            x, "ls_slice",
            "from must be at least 0, and to above it and at most the dimension's size, not %lld to %lld "
            "of dimension %d's %lld",
            (long long)from, (long long)to, dim, (long long)x->shape.dim[dim]);
    ls_shape shape = x->shape;
    int shift[3] = {0, 0, 0};
    shape.dim[dim] = to - from;
    shift[dim - 1] = -(int)from;
    return view(x, &shape, (const int[3]){0, 1, 2}, shift);
}

ls_tensor *ls_pad2d(ls_tensor *x, const int sides[4], double value)
{
    LS_OWN_ENVIRONMENT;
    enum { LEFT, RIGHT, TOP, BOTTOM, SIDES, WIDEST = 1 << 24 };
    if (!ls_operands(&x, 1, "ls_pad2d"))
        return NULL;
    bool good = sides != NULL;
    for (int i = 0; good && i < SIDES; i++)
        good = sides[i] >= 0 && sides[i] <= WIDEST;
    if (x->shape.rank != 4 || !good)
        return ls_bad_shape(x, "ls_pad2d",
                            "x must be (images, channels, height, width), and the four sides at least 0");
    if (isnan(value)) {
        ls_raise(&x->session->context, LS_BAD_ARGUMENT, "ls_pad2d: the value must be a number");
        return NULL;
    }
    ls_shape shape = x->shape;
    shape.dim[2] += sides[TOP] + sides[BOTTOM];
    shape.dim[3] += sides[LEFT] + sides[RIGHT];
    ls_tensor *y = view(x, &shape, (const int[3]){0, 1, 2}, (const int[3]){0, sides[TOP], sides[LEFT]});
    if (y)
        y->computed.attributes.factor = (float)value;
    return y;
}

/* Up to LS_MAX_IN of them at once. */
static ls_tensor *join(ls_tensor *const parts[], int count, int dim)
{
    ls_shape shape = parts[0]->shape;
    for (int k = 1; k < count; k++)
        shape.dim[dim] += parts[k]->shape.dim[dim];
    ls_tensor *y = ls_record_shaped(LS_OP_CONCAT, parts, count, &shape);
    if (y)
        y->computed.attributes.axis = dim - 1;
    return y;
}

static ls_tensor *concat(ls_tensor *const parts[], int count, int dim, const char *function)
{
    if (!parts || !ls_operands(parts, count, function) || !is_dimension(parts[0], dim, function))
        return NULL;
    for (int k = 0; k < count; k++) {
        ls_shape rest = parts[k]->shape;
        rest.dim[dim] = parts[0]->shape.dim[dim];
        if (parts[k]->kind == LS_TENSOR_PARAMETER || !ls_same_shape(&rest, &parts[0]->shape)) {
            char names[32];
            snprintf(names, sizeof names, "part 0, part %d", k);
            return ls_bad_shapes((ls_tensor *[]){parts[0], parts[k]}, names, function,
                                 "all parts must be (images, ...) of equal sizes but in dimension %d", dim);
        }
    }
    ls_tensor *y = parts[0];
    for (int k = 1; k < count && y; k += LS_MAX_IN - 1) { /* what is joined is the next one's first part */
        ls_tensor *some[LS_MAX_IN] = {y};
        const int more = count - k < LS_MAX_IN - 1 ? count - k : LS_MAX_IN - 1;
        for (int i = 0; i < more; i++)
            some[i + 1] = parts[k + i];
        y = join(some, more + 1, dim);
    }
    return y;
}

ls_tensor *ls_concat(ls_tensor *const parts[], int count)
{
    LS_OWN_ENVIRONMENT;
    return concat(parts, count, 1, "ls_concat");
}

ls_tensor *ls_concat_along(ls_tensor *const parts[], int count, int dim)
{
    LS_OWN_ENVIRONMENT;
    return concat(parts, count, dim, "ls_concat_along");
}

/* The same numbers of each image under another shape. */
static ls_tensor *shaped(ls_tensor *x, int rank, int64_t c, int64_t h, int64_t w)
{
    const ls_shape shape = {rank, {x->shape.dim[0], c, rank > 2 ? h : 0, rank > 3 ? w : 0}};
    return ls_record_shaped(LS_OP_COUNT, &x, 1, &shape);
}

static ls_tensor *repeat(ls_tensor *x, int dim, int times)
{
    ls_shape shape = x->shape;
    shape.dim[dim] = times;
    return ls_record_shaped(LS_OP_EXPAND, &x, 1, &shape);
}

/* Each number `factor` times along the columns, then each row. */
static ls_tensor *nearest(ls_tensor *x, int factor)
{
    const int64_t c = x->shape.dim[1], h = x->shape.dim[2], w = x->shape.dim[3];
    ls_tensor *y = shaped(x, 4, c * h, w, 1);
    y = y ? repeat(y, 3, factor) : NULL;
    y = y ? shaped(y, 4, c * h, 1, w * factor) : NULL;
    y = y ? repeat(y, 2, factor) : NULL;
    return y ? shaped(y, 4, c, h * factor, w * factor) : NULL;
}

ls_tensor *ls_upsample2d(ls_tensor *x, int factor, ls_upsample_mode mode)
{
    LS_OWN_ENVIRONMENT;
    enum { LARGEST = 1 << 12 };
    if (!ls_operands(&x, 1, "ls_upsample2d"))
        return NULL;
    if (x->shape.rank != 4 || factor < 1 || factor > LARGEST || (mode != LS_NEAREST && mode != LS_BILINEAR))
        return ls_bad_shape(x, "ls_upsample2d",
                            "x must be (images, channels, height, width), the factor 1 to 4096, the mode LS_NEAREST or "
                            "LS_BILINEAR");
    if (factor == 1)
        return x;
    if (mode == LS_NEAREST)
        return nearest(x, factor);
    return ls_record(LS_OP_BILINEAR, &x, 1, (int)x->shape.dim[1], (int)x->shape.dim[2] * factor,
                     (int)x->shape.dim[3] * factor, false);
}

ls_tensor *ls_adaptive_avg_pool2d(ls_tensor *x, int height, int width)
{
    LS_OWN_ENVIRONMENT;
    enum { LARGEST = 1 << 15 };
    if (!ls_operands(&x, 1, "ls_adaptive_avg_pool2d"))
        return NULL;
    if (x->shape.rank != 4 || height < 1 || width < 1 || height > LARGEST || width > LARGEST)
        return ls_bad_shape(
            x, "ls_adaptive_avg_pool2d",
            "x must be (images, channels, height, width), and the result's height and width at least 1");
    if (height == 1 && width == 1)
        return ls_global_avg_pool2d(x);
    return ls_record(LS_OP_ADAPTIVE_POOL, &x, 1, (int)x->shape.dim[1], height, width, false);
}

/* One number of each of what goes along the dimension, which is gone from the shape. */
static ls_tensor *over(ls_tensor *x, int dim, ls_op op, const char *function)
{
    if (!ls_operands(&x, 1, function) || !is_dimension(x, dim, function))
        return NULL;
    ls_shape thin = x->shape, rest = {.rank = x->shape.rank - 1};
    thin.dim[dim] = 1;
    for (int i = 0; i < rest.rank; i++)
        rest.dim[i] = x->shape.dim[i < dim ? i : i + 1];
    ls_tensor *y = ls_record_shaped(op, &x, 1, &thin);
    if (y && op == LS_OP_EXPAND_BACKWARD)
        y = ls_scale(y, 1.0 / (double)x->shape.dim[dim]);
    return y ? ls_record_shaped(LS_OP_COUNT, &y, 1, &rest) : NULL;
}

ls_tensor *ls_mean_over(ls_tensor *x, int dim)
{
    LS_OWN_ENVIRONMENT;
    return over(x, dim, LS_OP_EXPAND_BACKWARD, "ls_mean_over");
}

ls_tensor *ls_max_over(ls_tensor *x, int dim)
{
    LS_OWN_ENVIRONMENT;
    return over(x, dim, LS_OP_MAX_OVER, "ls_max_over");
}

ls_tensor *ls_max_each(ls_tensor *x)
{
    LS_OWN_ENVIRONMENT;
    if (!ls_operands(&x, 1, "ls_max_each"))
        return NULL;
    if (x->shape.rank < 2)
        return x->shape.rank == 1 ? x : ls_bad_shape(x, "ls_max_each", "x must be (images, ...)");
    ls_tensor *flat = ls_flatten(x);
    return flat ? over(flat, 1, LS_OP_MAX_OVER, "ls_max_each") : NULL;
}
