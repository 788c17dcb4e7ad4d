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

/* ---- Cross-entropy ---- */

/* The shape of labels, one for each place of the logits. */
static ls_shape shape_of_labels(const ls_tensor *logits)
{
    ls_shape shape = {logits->shape.rank - 1, {logits->shape.dim[0]}};
    for (int i = 1; i < shape.rank; i++)
        shape.dim[i] = logits->shape.dim[i + 1];
    return shape;
}

/* Puts y where the operation has it: a label of each place, or as many targets as logits. */
static bool put_targets(ls_tensor *in[LS_MAX_IN], ls_tensor *y, const ls_loss *o, const char *function)
{
    ls_tensor *logits = in[0];
    const ls_shape labels = shape_of_labels(logits);
    const bool known = y->kind == LS_TENSOR_ARRAY || y->kind == LS_TENSOR_LABELS || y->kind == LS_TENSOR_IMAGES;
    if (ls_same_shape(&y->shape, &labels) && known) {
        in[1] = y;
        return true;
    }
    if (y->shape.rank != logits->shape.rank) {
        ls_bad_shapes(
            (ls_tensor *[]){logits, y}, "logits, y", function,
            "y must be labels (images, ...) with values, one for each place, or targets of the logits' shape");
        return false;
    }
    if (!ls_are_alike(logits, y, function) || refuse(logits, function, ignores(o)))
        return false;
    if (y->needs_gradient)
        ls_raise(&y->session->context, LS_UNSUPPORTED, "%s: targets have no gradient; copy them with ls_clone",
                 function);
    in[3] = y;
    return !y->needs_gradient;
}

static ls_tensor *cross_entropy(ls_tensor *logits, ls_tensor *y, const ls_loss *o, const char *function)
{
    ls_tensor *in[LS_MAX_IN] = {logits};
    if (!ls_has_target(logits, y, function) || !ls_operands((ls_tensor *[]){logits, y}, 2, function))
        return NULL;
    if (logits->shape.rank < 2)
        return ls_bad_shapes((ls_tensor *[]){logits, y}, "logits, y", function,
                             "logits must be (images, classes, ...)");
    if (!put_targets(in, y, o, function) || refuse(logits, function, bends(o)))
        return NULL;
    if (o->positive_weights && refuse(logits, function, "positive_weights"))
        return NULL;
    if (!(o->smoothing >= 0 && o->smoothing <= 1)) {
        ls_raise(&logits->session->context, LS_BAD_ARGUMENT, "%s: smoothing must be from 0 to 1", function);
        return NULL;
    }
    if (o->class_weights && !(in[2] = weights_of(logits, o->class_weights, 0, function)))
        return NULL;
    ls_shape shape = shape_of_labels(logits);
    if (shape.rank > 1) { /* a map of one channel */
        shape = logits->shape;
        shape.dim[1] = 1;
    }
    ls_tensor *losses = ls_record_shaped(LS_OP_CROSS_ENTROPY, in, LS_MAX_IN, &shape);
    if (!losses)
        return NULL;
    losses->computed.attributes.smoothing = (float)o->smoothing;
    losses->computed.ignored = (ls_ignored){o->has_ignore || o->ignore != 0, o->ignore};
    return shape.rank > 1 ? ls_sum_each(losses) : losses;
}

ls_tensor *ls_cross_entropy(ls_tensor *logits, ls_tensor *y)
{
    LS_OWN_ENVIRONMENT;
    return cross_entropy(logits, y, &(ls_loss){.delta = 0}, "ls_cross_entropy");
}

ls_tensor *ls_cross_entropy_smooth(ls_tensor *logits, ls_tensor *y, double smoothing)
{
    LS_OWN_ENVIRONMENT;
    return cross_entropy(logits, y, &(ls_loss){.smoothing = smoothing}, "ls_cross_entropy_smooth");
}

ls_tensor *ls_cross_entropy_with(ls_tensor *logits, ls_tensor *y, const ls_loss *options)
{
    LS_OWN_ENVIRONMENT;
    return cross_entropy(logits, y, options ? options : &(ls_loss){.delta = 0}, "ls_cross_entropy_with");
}

const ls_tensor *ls_counted_loss(const ls_tensor *loss)
{
    loss = loss->fold ? loss->in[0] : loss;
    if (loss->kind == LS_TENSOR_COMPUTED && loss->computed.attributes.op == LS_OP_SUM && loss->in[0]->shape.rank > 1)
        loss = loss->in[0]; /* maps of losses are in nobody else's hands */
    return loss->kind == LS_TENSOR_COMPUTED && loss->computed.attributes.op == LS_OP_CROSS_ENTROPY ? loss : NULL;
}
