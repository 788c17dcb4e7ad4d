#include "graph/record.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/environment.h"
#include "base/number.h"
#include "base/random.h"

enum { MAX_WINDOW = 1 << 15 };

ls_session *ls_operands(ls_tensor *const in[], int n, const char *function)
{
    ls_session *session = NULL;
    bool whole = true;
    for (int i = n - 1; i >= 0; i--) {
        session = in[i] ? in[i]->session : session;
        whole = whole && in[i];
    }
    if (!session || ls_failed(session))
        return NULL; /* without any tensor there is nowhere to say it: what made the NULL has failed already */
    if (!whole) {
        ls_raise(&session->context, LS_BAD_ARGUMENT, "%s: a tensor is NULL", function);
        return NULL;
    }
    if (in[0]->kind == LS_TENSOR_PARAMETER) {
        char shape[128];
        ls_shape_text(shape, sizeof shape, &in[0]->shape);
        ls_raise(
            &session->context, LS_BAD_SHAPE,
            "%s: x must be (images, ...), not the parameter %s, %s; ls_matmul takes a weight as (inputs, outputs), "
            "ls_linear as (outputs, inputs)",
            function, in[0]->name, shape);
        return NULL;
    }
    for (int i = 1; i < n; i++)
        if (in[i]->session != session) {
            ls_raise(&session->context, LS_BAD_ARGUMENT, "%s: the tensors belong to different sessions", function);
            return NULL;
        } else if (in[i]->kind != LS_TENSOR_PARAMETER && !ls_same_device(in[i]->device, in[0]->device)) {
            char a[96], b[96];
            ls_raise(&session->context, LS_BAD_ARGUMENT, "%s: one operand is %s, another %s; copy one with ls_to",
                     function, ls_tensor_name(in[0], a), ls_tensor_name(in[i], b));
            return NULL;
        }
    return session;
}

static __attribute__((format(printf, 4, 0))) void raise_shapes(ls_tensor *const of[], const char *names,
                                                               const char *function, const char *what, va_list values)
{
    enum { SHAPE = 128 };
    const ls_recording *recording = of[0]->session->recording;
    char all[LS_MAX_IN * SHAPE] = "", said[512];
    size_t length = 0;
    vsnprintf(said, sizeof said, what, values);
    for (int k = 0; *names; k++) {
        const size_t name = strcspn(names, ",");
        char shape[SHAPE];
        if (of[k]) {
            ls_shape_text(shape, sizeof shape, &of[k]->shape);
            snprintf(all + length, sizeof all - length, "%s%.*s%s %s", length ? ", " : "", (int)name, names,
                     length ? "" : " is", shape);
            length = strlen(all);
        }
        names += name + strspn(names + name, ", ");
    }
    const bool below = recording && *recording->path;
    ls_raise(&of[0]->session->context, LS_BAD_SHAPE, "%s: %s; %s%s%s%s", function, said, all, below ? " at \"" : "",
             below ? recording->path : "", below ? "\"" : "");
}

ls_tensor *ls_bad_shapes(ls_tensor *const of[], const char *names, const char *function, const char *what, ...)
{
    va_list values;
    va_start(values, what);
    raise_shapes(of, names, function, what, values);
    va_end(values);
    return NULL;
}

ls_tensor *ls_bad_shape(const ls_tensor *x, const char *function, const char *what, ...)
{
    va_list values;
    va_start(values, what);
    raise_shapes(&(ls_tensor *){(ls_tensor *)x}, "x", function, what, values); /* looked at alone */
    va_end(values);
    return NULL;
}

bool ls_has_target(const ls_tensor *x, const ls_tensor *y, const char *function)
{
    if (x && !y && !ls_failed(x->session))
        ls_raise(&x->session->context, LS_BAD_ARGUMENT,
                 "%s: the second tensor is NULL; a batch has a y where ls_data_set_labels or ls_data_set_targets has "
                 "given its data one",
                 function);
    return y;
}

bool ls_are_alike(ls_tensor *a, ls_tensor *b, const char *function)
{
    if (!ls_has_target(a, b, function) || !ls_operands((ls_tensor *[]){a, b}, 2, function))
        return false;
    const bool alike = a->shape.rank >= 1 && b->kind != LS_TENSOR_PARAMETER && ls_same_shape(&a->shape, &b->shape);
    if (!alike)
        ls_bad_shapes((ls_tensor *[]){a, b}, "a, b", function, "both operands must be (images, ...) of one shape");
    return alike;
}

bool ls_are_lengths(const ls_tensor *lengths, const ls_tensor *x)
{
    if (!lengths)
        return true;
    const ls_shape *shape = &lengths->shape;
    return lengths->kind != LS_TENSOR_PARAMETER && (shape->rank == 1 || (shape->rank == 2 && shape->dim[1] == 1)) &&
           shape->dim[0] == x->shape.dim[0];
}

ls_role ls_role_of(const ls_attributes *a, int operand)
{
    switch (a->op) {
    case LS_OP_CONV:
    case LS_OP_CONV_DATA:
    case LS_OP_ADD_BIAS:
    case LS_OP_BATCH_NORM:
    case LS_OP_BATCH_NORM_INFER:
    case LS_OP_EMBEDDING:
        return operand ? LS_ROLE_WEIGHT : LS_ROLE_IMAGES;
    case LS_OP_LSTM:
    case LS_OP_GRU:
        return operand == 1 || operand == 2 ? LS_ROLE_WEIGHT : LS_ROLE_IMAGES;
    case LS_OP_CROSS_ENTROPY:
        return operand == 1 ? LS_ROLE_LABELS : operand == 2 ? LS_ROLE_WEIGHT : LS_ROLE_IMAGES;
    case LS_OP_EXPAND_WEIGHT:
        return LS_ROLE_WEIGHT;
    case LS_OP_CUSTOM:
        return a->parameters >> operand & 1 ? LS_ROLE_WEIGHT : LS_ROLE_IMAGES;
    default:
        return LS_ROLE_IMAGES;
    }
}

uint64_t ls_version_of(const ls_tensor *operand)
{
    if (operand->kind == LS_TENSOR_NETWORK)
        return operand->changes ? *operand->changes : 0;
    if (operand->kind == LS_TENSOR_GRADIENT)
        return operand->in[0]->tracking.gradient->version;
    return operand->kind == LS_TENSOR_ARRAY ? operand->array->version : 0; /* the others' numbers stay what they are */
}

ls_tensor *ls_record_shaped(ls_op op, ls_tensor *const in[], int n, const ls_shape *shape)
{
    ls_session *session = in[0]->session;
    int64_t numbers = 1;
    for (int i = 1; i < shape->rank; i++)
        if (__builtin_mul_overflow(numbers, shape->dim[i], &numbers) || numbers > LS_MOST_NUMBERS / LS_LANES)
            return ls_bad_shape(in[0], "an operation", "an image of the result would have too many numbers");
    ls_tensor *y = ls_tensor_new(session, LS_TENSOR_COMPUTED, shape, in[0]->device);
    if (!y)
        return NULL;
    y->computed.attributes.op = op;
    y->computed.layer = session->recording ? ls_intern(session, session->recording->path) : "";
    y->computed.block = session->recording ? session->recording->block : 0;
    for (int i = 0; i < n; i++)
        if (in[i]) {
            y->in[i] = ls_tensor_hold(in[i]);
            y->computed.version[i] = ls_version_of(in[i]);
            y->needs_gradient |= in[i]->needs_gradient;
        }
    return y;
}

ls_tensor *ls_record(ls_op op, ls_tensor *const in[], int n, int c, int h, int w, bool flat)
{
    ls_shape shape = {flat ? 2 : 4, {in[0]->shape.dim[0], c, h, w}};
    if (flat)
        shape.dim[2] = shape.dim[3] = 0;
    return ls_record_shaped(op, in, n, &shape);
}

ls_tensor *ls_relu(ls_tensor *x)
{
    LS_OWN_ENVIRONMENT;
    if (!ls_operands(&x, 1, "ls_relu"))
        return NULL;
    return x->shape.rank < 1 ? ls_bad_shape(x, "ls_relu", "x must be (images, ...)")
                             : ls_record_shaped(LS_OP_RELU, &x, 1, &x->shape);
}

ls_tensor *ls_flatten(ls_tensor *x)
{
    LS_OWN_ENVIRONMENT;
    if (!ls_operands(&x, 1, "ls_flatten") || x->shape.rank == 2)
        return x;
    int c, h, w;
    if (x->shape.rank < 1 || ls_shape_image(&x->shape, &c, &h, &w) > LS_MOST_NUMBERS / LS_LANES)
        return ls_bad_shape(x, "ls_flatten",
                            x->shape.rank < 1 ? "x must have images" : "an image has too many numbers");
    /* [group][channel][row][column][lane] is [group][feature][lane] already: nothing moves. */
    return ls_record(LS_OP_COUNT, &x, 1, (int)ls_shape_image(&x->shape, &c, &h, &w), 1, 1, true);
}

ls_tensor *ls_detach(ls_tensor *x)
{
    LS_OWN_ENVIRONMENT;
    if (!ls_operands(&x, 1, "ls_detach"))
        return NULL;
    if (x->shape.rank < 1)
        return ls_bad_shape(x, "ls_detach", "x must be (images, ...)");
    ls_tensor *y = ls_record_shaped(LS_OP_COUNT, &x, 1, &x->shape);
    if (!y)
        return NULL;
    y->computed.detached = true;
    y->needs_gradient = false;
    return y;
}

const ls_shape *ls_weight_shape(const ls_tensor *weight)
{
    return weight && (weight->kind == LS_TENSOR_PARAMETER || weight->kind == LS_TENSOR_ARRAY) ? &weight->shape : NULL;
}

bool ls_fits_bias(const ls_tensor *bias, int64_t outputs)
{
    const ls_shape *shape = ls_weight_shape(bias);
    return shape && shape->rank == 1 && shape->dim[0] == outputs;
}

/* A product over features is a convolution of one tap over maps of one place: images, or the tokens of sequences. */
static ls_tensor *product(ls_tensor *const in[], int n, int in_out, int64_t outputs)
{
    ls_shape shape = in[0]->shape;
    shape.dim[shape.rank - 1] = outputs;
    ls_tensor *y = ls_record_shaped(LS_OP_CONV, in, n, &shape);
    if (!y)
        return NULL;
    y->computed.attributes.kernel = y->computed.attributes.stride = 1;
    y->computed.attributes.weight_in_out = in_out;
    return y;
}

static bool has_features(const ls_tensor *x)
{
    return x->shape.rank == 2 || x->shape.rank == 3;
}

ls_tensor *ls_matmul(ls_tensor *x, ls_tensor *weight)
{
    LS_OWN_ENVIRONMENT;
    ls_tensor *in[] = {x, weight};
    if (!ls_operands(in, 2, "ls_matmul"))
        return NULL;
    const ls_shape *w = ls_weight_shape(weight);
    if (!has_features(x) || !w || w->rank != 2 || w->dim[0] != x->shape.dim[x->shape.rank - 1])
        return ls_bad_shapes(in, "x, weight", "ls_matmul",
                             "x must be flat or (images, tokens, features), and weight a parameter (features of x, "
                             "outputs), as ls_linear takes (outputs, features of x)");
    if (weight->kind == LS_TENSOR_PARAMETER && x->session->recording) {
        ls_view *fan = &x->session->recording->flat->views[weight->view];
        fan->fan_in = (size_t)w->dim[0];
        fan->fan_out = (size_t)w->dim[1];
    }
    return product(in, 2, 1, w->dim[1]);
}

ls_tensor *ls_linear(ls_tensor *x, ls_tensor *weight, ls_tensor *bias)
{
    LS_OWN_ENVIRONMENT;
    ls_tensor *in[] = {x, weight, bias};
    int n = bias ? 3 : 2;
    if (!ls_operands(in, n, "ls_linear"))
        return NULL;
    const ls_shape *w = ls_weight_shape(weight);
    if (!has_features(x) || !w || w->rank != 2 || w->dim[1] != x->shape.dim[x->shape.rank - 1])
        return ls_bad_shapes(in, "x, weight, bias", "ls_linear",
                             "x must be flat or (images, tokens, features), and weight a parameter (outputs, features "
                             "of x), as ls_matmul takes (features of x, outputs)");
    if (bias && !ls_fits_bias(bias, w->dim[0]))
        return ls_bad_shapes(in, "x, weight, bias", "ls_linear", "bias must be a parameter (outputs)");
    return product(in, n, 0, w->dim[0]);
}

ls_tensor *ls_add(ls_tensor *a, ls_tensor *b)
{
    LS_OWN_ENVIRONMENT;
    ls_tensor *in[] = {a, b};
    if (!ls_operands(in, 2, "ls_add"))
        return NULL;
    if (a->shape.rank < 1)
        return ls_bad_shape(a, "ls_add", "both must be (images, ...); a sum or mean is the end of a computation");
    if (a->shape.rank >= 2 && ls_fits_bias(b, a->shape.dim[1]))
        return ls_record_shaped(LS_OP_ADD_BIAS, in, 2, &a->shape);
    return ls_broadcast(in, "ls_add") ? ls_record_shaped(LS_OP_ADD, in, 2, &in[0]->shape) : NULL;
}

static ls_tensor *pool(ls_tensor *x, const ls_pool *options, ls_op op, const char *function)
{
    if (!ls_operands(&x, 1, function))
        return NULL;
    if (x->shape.rank != 4)
        return ls_bad_shape(x, function, "x must be (images, channels, height, width)");
    if (!options || options->kernel < 1 || options->stride < 0 || options->padding < 0 ||
        options->padding > options->kernel / 2)
        return ls_bad_shape(x, function, "kernel must be at least 1, padding at most half of it");
    if (options->kernel > MAX_WINDOW)
        return ls_bad_shape(x, function, "the kernel is larger than any map");
    int k = options->kernel, stride = options->stride ? options->stride : k, padding = options->padding;
    int c, height, width;
    ls_shape_image(&x->shape, &c, &height, &width);
    const ls_windows_axis axis = {k, stride, padding, 1};
    int h = (int)ls_windows_along(&axis, height), w = (int)ls_windows_along(&axis, width);
    if (h < 1 || w < 1)
        return ls_bad_shape(x, function, "the window is larger than the padded map");
    ls_tensor *y = ls_record(op, &x, 1, c, h, w, false);
    if (!y)
        return NULL;
    y->computed.attributes.kernel = k;
    y->computed.attributes.stride = stride;
    y->computed.attributes.padding = padding;
    return y;
}

ls_tensor *ls_avg_pool2d(ls_tensor *x, const ls_pool *options)
{
    LS_OWN_ENVIRONMENT;
    return pool(x, options, LS_OP_AVG_POOL, "ls_avg_pool2d");
}

ls_tensor *ls_max_pool2d(ls_tensor *x, const ls_pool *options)
{
    LS_OWN_ENVIRONMENT;
    return pool(x, options, LS_OP_MAX_POOL, "ls_max_pool2d");
}

ls_tensor *ls_global_avg_pool2d(ls_tensor *x)
{
    LS_OWN_ENVIRONMENT;
    if (!ls_operands(&x, 1, "ls_global_avg_pool2d"))
        return NULL;
    if (x->shape.rank != 4)
        return ls_bad_shape(x, "ls_global_avg_pool2d", "x must be (images, channels, height, width)");
    return ls_record(LS_OP_GLOBAL_AVG_POOL, &x, 1, (int)x->shape.dim[1], 1, 1, false);
}

/* ---- What modules record ---- */

/* The number of the view `path.name`; the first recording defines it, later ones find it. */
static int define(ls_session *session, const char *path, const char *name, int rank, const int64_t shape[],
                  bool trainable, bool joined)
{
    ls_flat *flat = session->recording->flat;
    char full[768];
    snprintf(full, sizeof full, "%s%s%s", path, *path ? "." : "", name);
    int number = ls_flat_find(flat, full);
    if (number < 0 && !flat->closed) {
        number = ls_flat_add(flat, full, rank, shape, trainable, joined);
        if (number >= 0)
            flat->views[number].by_another = session->recording->by_another;
        return number;
    }
    if (number < 0) {
        ls_raise(&session->context, LS_BAD_ARGUMENT, "parameter %s appeared after the network was initialized", full);
        return -1;
    }
    ls_view *view = &flat->views[number];
    view->by_another &= session->recording->by_another;
    if (view->rank == rank && memcmp(view->shape, shape, (size_t)rank * sizeof *shape) == 0)
        return number;
    ls_shape asked = {.rank = rank}, there = {.rank = view->rank};
    char texts[2][128];
    memcpy(asked.dim, shape, (size_t)rank * sizeof *shape);
    memcpy(there.dim, view->shape, (size_t)view->rank * sizeof *view->shape);
    ls_shape_text(texts[0], sizeof texts[0], &asked);
    ls_shape_text(texts[1], sizeof texts[1], &there);
    ls_raise(&session->context, LS_BAD_SHAPE, "parameter %s: asked for as %s, it has the shape %s", full, texts[0],
             texts[1]);
    return -1;
}

static ls_tensor *parameter(ls_session *session, int number)
{
    const ls_view *view = &session->recording->flat->views[number];
    ls_shape shape = {.rank = view->rank};
    memcpy(shape.dim, view->shape, (size_t)view->rank * sizeof *view->shape);
    ls_tensor *tensor = ls_tensor_new(session, LS_TENSOR_PARAMETER, &shape, (ls_device){LS_HOST, 0});
    if (!tensor)
        return NULL;
    tensor->layout = session->recording->flat;
    tensor->view = number;
    tensor->name = ls_intern(session, view->name);
    tensor->needs_gradient = view->trainable;
    return tensor;
}

ls_tensor *ls_record_parameter(ls_session *session, const char *path, const char *name, const ls_shape *shape)
{
    if (!session->recording || ls_failed(session))
        return NULL;
    const int before = session->recording->flat->n_views;
    int number = define(session, path, name, shape->rank, shape->dim, true, false);
    if (number < 0)
        return NULL;
    if (session->recording->by_another && number < before) /* it starts as its own module says */
        return parameter(session, number);
    ls_view *view = &session->recording->flat->views[number];
    view->drawn = shape->rank > 1;
    size_t window = shape->rank == 4 ? (size_t)(shape->dim[2] * shape->dim[3]) : 1;
    view->fan_in = shape->rank > 1 ? (size_t)shape->dim[1] * window : 0;
    view->fan_out = shape->rank > 1 ? (size_t)shape->dim[0] * window : 0;
    return parameter(session, number);
}

/* A later recording may find as many, and steps under way read the count. */
static void count_use(const ls_recording *recording, ls_view *statistics)
{
    statistics->found = statistics->recorded == recording->number ? statistics->found + 1 : 1;
    statistics->recorded = recording->number;
    if (statistics->found > statistics->uses)
        statistics->uses = statistics->found;
}

ls_tensor *ls_record_batch_norm(ls_tensor *x, const char *path, const ls_norm *how)
{
    ls_session *session = ls_operands(&x, 1, "BatchNorm");
    if (!session)
        return NULL;
    if (x->shape.rank != 4 && x->shape.rank != 2)
        return ls_bad_shape(x, "BatchNorm", "x must be (images, channels, height, width) or (images, features)");
    const ls_recording *recording = session->recording;
    const int64_t shape[] = {x->shape.dim[1]};
    int gamma = define(session, path, "weight", 1, shape, true, false);
    int beta = gamma < 0 ? -1 : define(session, path, "bias", 1, shape, true, true);
    int mean = beta < 0 ? -1 : define(session, path, "running_mean", 1, shape, false, false);
    int variance = mean < 0 ? -1 : define(session, path, "running_var", 1, shape, false, true);
    if (variance < 0)
        return NULL;
    if (beta != gamma + 1 || variance != mean + 1) {
        ls_raise(&session->context, LS_BAD_ARGUMENT,
                 "BatchNorm at \"%s\": its weight or bias was named before it was called; call it first", path);
        return NULL;
    }
    ls_view *views = recording->flat->views;
    views[gamma].fill = views[variance].fill = 1;
    views[gamma].by_shard = how->by_shard;
    views[mean].momentum = views[variance].momentum = how->frozen ? 0 : how->momentum;
    ls_tensor *in[] = {x, parameter(session, gamma), parameter(session, beta)};
    if (!in[1] || !in[2])
        return NULL;
    const bool own = recording->training && !how->frozen;
    if (own) {
        count_use(recording, &views[mean]);
        count_use(recording, &views[variance]);
    }
    ls_tensor *y = ls_record_shaped(own ? LS_OP_BATCH_NORM : LS_OP_BATCH_NORM_INFER, in, 3, &x->shape);
    if (!y)
        return NULL;
    y->computed.attributes.eps = (float)how->eps;
    y->view = mean;
    return y;
}

ls_tensor *ls_record_dropout(ls_tensor *x, const char *path, int use, double rate)
{
    char again[sizeof x->session->recording->path + 16];
    if (!ls_operands(&x, 1, "dropout") || !x->session->recording->training)
        return x; /* kept whole in inference, its scale having been paid in training */
    ls_tensor *y = ls_record_shaped(LS_OP_DROPOUT, &x, 1, &x->shape);
    if (!y)
        return NULL;
    y->computed.attributes.factor = (float)rate;
    snprintf(again, sizeof again, "%s#%d", path, use);
    y->computed.attributes.key = ls_hash_name(use > 1 ? again : path);
    return y;
}
