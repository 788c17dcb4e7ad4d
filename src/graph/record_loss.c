/* Recording of losses: one number for each image. Those that PyTorch has put together from operations are so here. */
#include <math.h>

#include "base/environment.h"
#include "graph/record.h"

/* Some of a loss's options that are set, by name; NULL where there are none. Losses refuse those they do not have. */
static const char *smooths(const ls_loss *o)
{
    return o->smoothing != 0 ? "smoothing" : NULL;
}

static const char *bends(const ls_loss *o)
{
    return o->delta != 0 ? "delta" : NULL;
}

static const char *ignores(const ls_loss *o)
{
    return o->has_ignore || o->ignore != 0 ? "ignore" : NULL;
}

static const char *weighs(const ls_loss *o)
{
    return o->class_weights ? "class_weights" : o->positive_weights ? "positive_weights" : NULL;
}

static bool refuse(ls_tensor *x, const char *function, const char *option)
{
    if (option)
        ls_raise(&x->session->context, LS_BAD_ARGUMENT, "%s: this loss has no option `%s`", function, option);
    return option;
}

/* ---- Of pairs of numbers ---- */

ls_tensor *ls_l1(ls_tensor *a, ls_tensor *b)
{
    LS_OWN_ENVIRONMENT;
    return ls_are_alike(a, b, "ls_l1") ? ls_mean_each(ls_abs(ls_subtract(a, b))) : NULL;
}

/* With c = d cut to delta, c * (d - c / 2) is d^2 / 2 where nothing is cut, else delta * (|d| - delta / 2). */
ls_tensor *ls_huber(ls_tensor *a, ls_tensor *b, const ls_loss *options)
{
    LS_OWN_ENVIRONMENT;
    const ls_loss o = options ? *options : (ls_loss){.delta = 0};
    if (!ls_are_alike(a, b, "ls_huber") || refuse(a, "ls_huber", smooths(&o)) || refuse(a, "ls_huber", ignores(&o)) ||
        refuse(a, "ls_huber", weighs(&o)))
        return NULL;
    const double delta = o.delta == 0 ? 1 : o.delta;
    if (!((float)delta > 0 && isfinite((float)delta))) {
        ls_raise(&a->session->context, LS_BAD_ARGUMENT, "ls_huber: delta must be above 0 and finite");
        return NULL;
    }
    ls_tensor *d = ls_subtract(a, b), *c = ls_clamp(d, -delta, delta);
    return ls_mean_each(ls_multiply(c, ls_subtract(d, ls_scale(c, 0.5))));
}

/* Weights of classes as a tensor beside x, each `less` smaller; NULL after a failure. */
static ls_tensor *weights_of(ls_tensor *x, const double *weights, double less, const char *function)
{
    if (x->shape.rank < 2)
        return ls_bad_shape(x, function, "weights of classes need (images, classes, ...)");
    const int64_t classes = x->shape.dim[1];
    ls_array *array = ls_array_new(&x->session->tensors->arrays, x->device, (size_t)classes);
    for (int64_t c = 0; array && c < classes; c++) {
        if (!(weights[c] >= 0 && isfinite((float)weights[c])))
            ls_raise(&x->session->context, LS_BAD_ARGUMENT,
                     "%s: the weight of class %lld must be finite and not below 0", function, (long long)c);
        array->data[c] = (float)(weights[c] - less);
    }
    return ls_tensor_of_array(x->session, array, &(ls_shape){1, {classes}});
}

/* PyTorch's binary_cross_entropy_with_logits: (1 - y) x - (1 + (p - 1) y) log(sigmoid(x)), times the class's weight. */
ls_tensor *ls_bce(ls_tensor *logits, ls_tensor *y, const ls_loss *options)
{
    LS_OWN_ENVIRONMENT;
    const ls_loss o = options ? *options : (ls_loss){.delta = 0};
    if (!ls_are_alike(logits, y, "ls_bce") || refuse(logits, "ls_bce", smooths(&o)) ||
        refuse(logits, "ls_bce", bends(&o)) || refuse(logits, "ls_bce", ignores(&o)))
        return NULL;
    ls_tensor *logarithm = ls_log_sigmoid(logits), *losses = ls_subtract(logits, ls_multiply(logits, y));
    if (o.positive_weights) {
        ls_tensor *more = weights_of(logits, o.positive_weights, 1, "ls_bce");
        logarithm = more ? ls_add(logarithm, ls_multiply(ls_multiply(logarithm, y), more)) : NULL;
    }
    losses = ls_subtract(losses, logarithm);
    if (o.class_weights) {
        ls_tensor *weights = weights_of(logits, o.class_weights, 0, "ls_bce");
        losses = weights ? ls_multiply(losses, weights) : NULL;
    }
    return ls_mean_each(losses);
}
