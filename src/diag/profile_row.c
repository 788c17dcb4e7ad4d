/* An operation of a profile as people know it: its layer, parameter, direction and shapes. */
#include "diag/profile.h"

static bool is_image(const ls_argument *a)
{
    return a->c && a->per_image;
}

/* In the backward pass what makes a number for each image passes the gradient on; what else writes into the gradient is
 * the parameters' own. */
static ls_direction direction_of(const ls_plan_step *step, bool backward)
{
    if (backward && is_image(&step->out[0]))
        return LS_BACKWARD_DATA;
    for (int k = 0; k < LS_MAX_OUT; k++)
        if (step->out[k].c && step->out[k].place == LS_IN_GRADIENTS)
            return LS_BACKWARD_WEIGHT;
    return LS_FORWARD;
}

static void set_shape(int shape[3], const ls_argument *a)
{
    shape[0] = a->c;
    shape[1] = a->h;
    shape[2] = a->w;
}

/* The gradient of parameters has as operands what went in and the gradient of what came out, or the latter alone. */
static void set_shapes(ls_profile_row *row, const ls_plan_step *step)
{
    const ls_argument *in = &step->in[0], *out = &step->out[0];
    if (row->direction == LS_BACKWARD_DATA) {
        in = &step->out[0];
        out = &step->in[0];
    } else if (row->direction == LS_BACKWARD_WEIGHT) {
        out = is_image(&step->in[1]) ? &step->in[1] : in;
    }
    set_shape(row->in, in->c ? in : out);
    set_shape(row->out, out->c ? out : in);
}

/* The first parameter that the step reads, or writes the gradient of. */
static const char *parameter_of(const ls_flat *flat, const ls_plan_step *step)
{
    for (int k = 0; k < LS_MAX_IN + LS_MAX_OUT; k++) {
        const ls_argument *a = k < LS_MAX_IN ? &step->in[k] : &step->out[k - LS_MAX_IN];
        for (int i = 0; a->c && i < flat->n_views; i++)
            if ((a->place == LS_IN_WEIGHTS || a->place == LS_IN_GRADIENTS) && flat->views[i].trainable &&
                flat->views[i].offset == a->offset)
                return flat->views[i].name;
    }
    return "";
}

/* "linear" and its gradients: what op.h computes as a convolution of one tap over maps of one place. NULL: another
 * operation. */
static const char *linear_name(const ls_plan_step *step, const ls_profile_row *row)
{
    const ls_attributes *a = &step->attributes;
    if (!ls_windows_plain(a) || a->kernel != 1 || a->stride != 1 || row->in[1] != 1 || row->in[2] != 1 ||
        row->out[1] != 1 || row->out[2] != 1)
        return NULL;
    switch (a->op) {
    case LS_OP_CONV:
        return "linear";
    case LS_OP_CONV_DATA:
        return "linear_data";
    case LS_OP_CONV_WEIGHT:
        return "linear_weight";
    default:
        return NULL;
    }
}

static bool has_windows(ls_op op)
{
    switch (op) {
    case LS_OP_CONV:
    case LS_OP_CONV_DATA:
    case LS_OP_CONV_WEIGHT:
    case LS_OP_WINOGRAD:
    case LS_OP_WINOGRAD_DATA:
    case LS_OP_WINOGRAD_WEIGHT:
    case LS_OP_AVG_POOL:
    case LS_OP_AVG_POOL_BACKWARD:
    case LS_OP_MAX_POOL:
    case LS_OP_MAX_POOL_BACKWARD:
        return true;
    default:
        return false;
    }
}

ls_profile_row ls_profile_row_of(const ls_plan_step *step, const ls_tally *all, bool backward, const ls_flat *flat)
{
    const ls_attributes *a = &step->attributes;
    const ls_windows windows = ls_windows_of(a);
    ls_cost cost = ls_plan_cost(step);
    ls_profile_row row = {.layer = step->layer ? step->layer : "",
                          .parameter = parameter_of(flat, step),
                          .operation = ls_op_name(a->op),
                          .direction = direction_of(step, backward),
                          .fused_relu = a->fused_relu,
                          .fused_add = a->fused_add,
                          .fused_clamp = a->fused_clamp,
                          .calls = all->calls,
                          .seconds = all->seconds,
                          .flops = cost.flops * (double)all->images,
                          .bytes = cost.group_bytes * (double)all->groups + cost.call_bytes * (double)all->calls};
    set_shapes(&row, step);
    const char *linear = linear_name(step, &row);
    if (linear) {
        row.operation = linear;
    } else if (has_windows(a->op)) {
        row.kernel = a->kernel;
        row.stride = a->stride;
        row.padding = a->padding;
        row.kernel_w = windows.columns.kernel;
        row.groups = windows.groups;
    }
    return row;
}
