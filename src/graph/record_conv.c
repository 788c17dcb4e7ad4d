/* Recording of convolutions. A transposed one is the gradient of a convolution with respect to its input, and its own
 * gradients are the convolution and the gradient of that one's weight. */
#include "base/environment.h"
#include "graph/record.h"

enum { MAX_DIMENSION = 1 << 24 };

/* As the options say it: of the width what is the height's too is 0, so that equal windows are equal bytes. */
static ls_attributes windows(const ls_conv *options, int kernel, int kernel_w)
{
    const ls_conv o = options ? *options : (ls_conv){0};
    const ls_attributes given = {.kernel = kernel,
                                 .stride = o.stride ? o.stride : 1,
                                 .padding = o.padding,
                                 .kernel_w = kernel_w,
                                 .stride_w = o.stride_w,
                                 .padding_w = o.padding_w,
                                 .dilation = o.dilation,
                                 .dilation_w = o.dilation_w,
                                 .groups = o.groups};
    const ls_windows w = ls_windows_of(&given);
    const ls_windows_axis *down = &w.rows, *right = &w.columns;
    ls_attributes made = {.kernel = kernel, .stride = down->stride, .padding = down->padding};
    made.kernel_w = right->kernel == down->kernel ? 0 : right->kernel;
    made.stride_w = right->stride == down->stride ? 0 : right->stride;
    made.padding_w = right->padding == down->padding ? 0 : right->padding ? right->padding : -1;
    made.dilation = down->dilation == 1 ? 0 : down->dilation;
    made.dilation_w = right->dilation == down->dilation ? 0 : right->dilation;
    made.groups = w.groups == 1 ? 0 : w.groups;
    return made;
}

static bool within(int size, int least)
{
    return size >= least && size <= MAX_DIMENSION;
}

const char *ls_wrong_conv(const ls_conv *options, int64_t channels, bool transposed)
{
    const ls_attributes a = windows(options, 1, 1);
    const ls_windows w = ls_windows_of(&a);
    const int more = options ? options->output_padding : 0;
    if (options && options->padding_w < -1)
        return "padding_w must be at least -1, which is none";
    if (options && options->kernel_w < 0)
        return "kernel_w must be at least 0, which is the kernel's height";
    if (!within(w.rows.stride, 1) || !within(w.columns.stride, 1) || !within(w.rows.dilation, 1) ||
        !within(w.columns.dilation, 1) || !within(w.rows.padding, 0) || !within(w.columns.padding, 0))
        return "stride and dilation must be at least 1 and padding at least 0";
    if (w.groups < 1 || channels % w.groups)
        return "groups must be at least 1 and divide the outputs' channels";
    if (!transposed && more)
        return "output_padding is a transposed convolution's";
    if (more < 0 || (more && more >= w.rows.stride && more >= w.rows.dilation) ||
        (more && more >= w.columns.stride && more >= w.columns.dilation))
        return "output_padding must be at least 0, and less than the stride or the dilation";
    return NULL;
}

/* What is wrong with operands and options beside the sizes of maps; `inputs` and `channels` are x's and the result's.
 */
static const char *wrong(const ls_shape *w, const ls_tensor *bias, const ls_conv *options, int64_t inputs,
                         int64_t channels, bool transposed)
{
    const char *why = ls_wrong_conv(options, channels, transposed);
    if (why)
        return why;
    if (options && options->groups && inputs % options->groups)
        return "groups must divide the channels of x";
    if (options && options->kernel_w && options->kernel_w != w->dim[3])
        return "kernel_w must be 0 or the weight's width";
    if (bias && options && options->no_bias)
        return "there is a bias, but the options say no_bias";
    return bias && !ls_fits_bias(bias, channels) ? "bias must be a parameter (outputs)" : NULL;
}

ls_tensor *ls_conv2d(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, const ls_conv *options)
{
    LS_OWN_ENVIRONMENT;
    ls_tensor *in[] = {x, weight, bias};
    int n = bias ? 3 : 2, c, height, width;
    if (!ls_operands(in, n, "ls_conv2d"))
        return NULL;
    const ls_shape *w = ls_weight_shape(weight);
    const int groups = options && options->groups > 0 ? options->groups : 1;
    ls_shape_image(&x->shape, &c, &height, &width);
    const char *why = x->shape.rank == 4 && w && w->rank == 4 ? wrong(w, bias, options, c, w->dim[0], false) : NULL;
    if (why)
        return ls_bad_shapes(in, "x, weight, bias", "ls_conv2d", "%s", why);
    if (x->shape.rank != 4 || !w || w->rank != 4 || w->dim[1] * groups != c)
        return ls_bad_shapes(in, "x, weight, bias", "ls_conv2d",
                             "weight must be a parameter (outputs, channels of x / groups, kernel, kernel_w)");
    const ls_attributes how = windows(options, (int)w->dim[2], (int)w->dim[3]);
    const ls_windows of = ls_windows_of(&how);
    const int h = (int)ls_windows_along(&of.rows, height), wide = (int)ls_windows_along(&of.columns, width);
    if (h < 1 || wide < 1)
        return ls_bad_shapes(in, "x, weight", "ls_conv2d", "the kernel is larger than the padded map");
    ls_tensor *y = ls_record(LS_OP_CONV, in, n, (int)w->dim[0], h, wide, false);
    if (!y)
        return NULL;
    y->computed.attributes = how;
    y->computed.attributes.op = LS_OP_CONV;
    return y;
}

/* How many rows have so many windows, of which the last one ends `more` rows before the last. */
static int64_t rows_of(const ls_windows_axis *axis, int windows, int more)
{
    return (windows - 1) * (int64_t)axis->stride - 2 * (int64_t)axis->padding + ls_windows_span(axis) + more;
}

ls_tensor *ls_conv_transpose2d(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, const ls_conv *options)
{
    LS_OWN_ENVIRONMENT;
    ls_tensor *in[] = {x, weight, bias};
    if (!ls_operands(in, bias ? 3 : 2, "ls_conv_transpose2d"))
        return NULL;
    const ls_shape *w = ls_weight_shape(weight);
    const int groups = options && options->groups > 0 ? options->groups : 1,
              more = options ? options->output_padding : 0;
    int c, height, width;
    ls_shape_image(&x->shape, &c, &height, &width);
    if (x->shape.rank != 4 || !w || w->rank != 4 || w->dim[0] != c || w->dim[1] * groups > INT32_MAX)
        return ls_bad_shapes(in, "x, weight, bias", "ls_conv_transpose2d",
                             "weight must be a parameter (channels of x, outputs / groups, kernel, kernel_w)");
    const int outputs = (int)(w->dim[1] * groups);
    const char *why = wrong(w, bias, options, c, outputs, true);
    if (why)
        return ls_bad_shapes(in, "x, weight, bias", "ls_conv_transpose2d", "%s", why);
    const ls_attributes how = windows(options, (int)w->dim[2], (int)w->dim[3]);
    const ls_windows of = ls_windows_of(&how);
    const int64_t h = rows_of(&of.rows, height, more), wide = rows_of(&of.columns, width, more);
    if (h < 1 || wide < 1)
        return ls_bad_shapes(in, "x, weight", "ls_conv_transpose2d", "the padding takes away the whole map");
    if (h > LS_MOST_NUMBERS / LS_LANES || wide > LS_MOST_NUMBERS / LS_LANES)
        return ls_bad_shape(x, "ls_conv_transpose2d", "an image of the result would have too many numbers");
    ls_tensor *y = ls_record(LS_OP_CONV_DATA, in, 2, outputs, (int)h, (int)wide, false);
    if (!y)
        return NULL;
    y->computed.attributes = how;
    y->computed.attributes.op = LS_OP_CONV_DATA;
    return bias ? ls_record_shaped(LS_OP_ADD_BIAS, (ls_tensor *[]){y, bias}, 2, &y->shape) : y;
}
