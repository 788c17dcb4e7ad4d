#include "graph/record.h"
#include "base/random.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DIMENSION = 1 << 24 };

const char *ls_recorded_path(ls_session *session)
{
    const char *path = session->recording ? session->recording->path : "";
    char *kept = ls_session_alloc(session, strlen(path) + 1, 1, "a layer's name");
    return kept ? strcpy(kept, path) : "";
}

static const char *here(const ls_graph *graph)
{
    return ls_recorded_path(graph->session);
}

/* One node with one output of the given shape. NULL after any failure of the session. */
static ls_node *record(ls_tensor *x, ls_op op, int c, int h, int w)
{
    ls_graph *graph = x->graph;
    if (ls_failed(graph->session))
        return NULL;
    ls_tensor *y = ls_graph_value(graph, LS_IN_ARENA, c, h, w, true);
    ls_node *node = y ? ls_graph_node(graph, op, here(graph)) : NULL;
    if (!node)
        return NULL;
    y->needs_gradient = x->needs_gradient;
    y->flat = x->flat;
    node->in[0] = x;
    node->out[0] = y;
    return node;
}

static ls_tensor *unary(ls_tensor *x, ls_op op)
{
    if (!x)
        return NULL;
    ls_node *node = record(x, op, x->c, x->h, x->w);
    return node ? node->out[0] : NULL;
}

ls_tensor *ls_relu(ls_tensor *x)
{
    return unary(x, LS_OP_RELU);
}

ls_tensor *ls_flatten(ls_tensor *x)
{
    if (!x || x->flat)
        return x;
    /* [group][channel][row][column][lane] is [group][feature][lane] already: nothing moves. */
    ls_tensor *flat = ls_failed(x->graph->session) ? NULL : ls_graph_reshaped(x->graph, x, x->c * x->h * x->w, 1, 1);
    if (flat)
        flat->flat = true;
    return flat;
}

static const ls_view *view_of(const ls_tensor *parameter)
{
    return parameter && parameter->view >= 0 ? &parameter->graph->flat->views[parameter->view] : NULL;
}

static ls_tensor *bad_shape(ls_tensor *x, const char *function, const char *what)
{
    ls_raise(&x->graph->session->context, LS_BAD_SHAPE, "%s: %s; x is (images, %d, %d, %d) at \"%s\"", function, what,
             x->c, x->h, x->w, x->graph->session->recording ? x->graph->session->recording->path : "");
    return NULL;
}

static int out_size(int in, int kernel, int stride, int padding)
{
    int64_t span = (int64_t)in + 2 * (int64_t)padding - kernel;
    return span < 0 ? 0 : (int)(span / stride + 1);
}

ls_tensor *ls_conv2d(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, const ls_conv *options)
{
    const ls_view *w = view_of(weight), *b = view_of(bias);
    if (!x || !weight)
        return NULL;
    int stride = options && options->stride ? options->stride : 1, padding = options ? options->padding : 0;
    if (x->flat || !w || w->rank != 4 || w->shape[1] != x->c || w->shape[2] != w->shape[3])
        return bad_shape(x, "ls_conv2d", "weight must be a parameter (outputs, channels of x, k, k)");
    if (bias && (!b || b->rank != 1 || b->shape[0] != w->shape[0]))
        return bad_shape(x, "ls_conv2d", "bias must be a parameter (outputs)");
    if (stride < 1 || padding < 0 || stride > MAX_DIMENSION || padding > MAX_DIMENSION)
        return bad_shape(x, "ls_conv2d", "stride must be at least 1 and padding at least 0");
    int k = (int)w->shape[2], h = out_size(x->h, k, stride, padding), wide = out_size(x->w, k, stride, padding);
    if (h < 1 || wide < 1)
        return bad_shape(x, "ls_conv2d", "the kernel is larger than the padded map");
    ls_node *node = record(x, LS_OP_CONV, (int)w->shape[0], h, wide);
    if (!node)
        return NULL;
    node->attributes.kernel = k;
    node->attributes.stride = stride;
    node->attributes.padding = padding;
    node->in[1] = weight;
    node->in[2] = bias;
    node->out[0]->needs_gradient = true;
    return node->out[0];
}

/* A product over features is a convolution of one tap over maps of one place. */
static ls_tensor *product(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, int in_out, int64_t outputs)
{
    ls_node *node = record(x, LS_OP_CONV, (int)outputs, 1, 1);
    if (!node)
        return NULL;
    node->attributes.kernel = node->attributes.stride = 1;
    node->attributes.weight_in_out = in_out;
    node->in[1] = weight;
    node->in[2] = bias;
    node->out[0]->flat = node->out[0]->needs_gradient = true;
    return node->out[0];
}

ls_tensor *ls_matmul(ls_tensor *x, ls_tensor *weight)
{
    const ls_view *w = view_of(weight);
    if (!x || !weight)
        return NULL;
    if (!x->flat || !w || w->rank != 2 || w->shape[0] != x->c)
        return bad_shape(x, "ls_matmul", "x must be flat and weight a parameter (features of x, outputs)");
    ls_view *fan = &x->graph->flat->views[weight->view];
    fan->fan_in = (size_t)w->shape[0];
    fan->fan_out = (size_t)w->shape[1];
    return product(x, weight, NULL, 1, w->shape[1]);
}

ls_tensor *ls_linear(ls_tensor *x, ls_tensor *weight, ls_tensor *bias)
{
    const ls_view *w = view_of(weight), *b = view_of(bias);
    if (!x || !weight)
        return NULL;
    if (!x->flat || !w || w->rank != 2 || w->shape[1] != x->c)
        return bad_shape(x, "ls_linear", "x must be flat and weight a parameter (outputs, features of x)");
    if (bias && (!b || b->rank != 1 || b->shape[0] != w->shape[0]))
        return bad_shape(x, "ls_linear", "bias must be a parameter (outputs)");
    return product(x, weight, bias, 0, w->shape[0]);
}

ls_tensor *ls_add(ls_tensor *a, ls_tensor *b)
{
    if (!a || !b)
        return NULL;
    const ls_view *bias = view_of(b);
    bool same = b->per_image && a->c == b->c && a->h == b->h && a->w == b->w;
    if (!same && !(bias && bias->rank == 1 && bias->shape[0] == a->c))
        return bad_shape(a, "ls_add", "both must have one shape, or the second be a bias (channels of the first)");
    ls_node *node = record(a, same ? LS_OP_ADD : LS_OP_ADD_BIAS, a->c, a->h, a->w);
    if (!node)
        return NULL;
    node->in[1] = b;
    node->out[0]->needs_gradient = a->needs_gradient || b->needs_gradient;
    return node->out[0];
}

static ls_tensor *pool(ls_tensor *x, const ls_pool *options, ls_op op, const char *function)
{
    if (!x)
        return NULL;
    if (!options || options->kernel < 1 || options->stride < 0 || options->padding < 0 ||
        options->padding > options->kernel / 2)
        return bad_shape(x, function, "kernel must be at least 1, padding at most half of it");
    int k = options->kernel, stride = options->stride ? options->stride : k, padding = options->padding;
    int h = out_size(x->h, k, stride, padding), w = out_size(x->w, k, stride, padding);
    if (h < 1 || w < 1)
        return bad_shape(x, function, "the window is larger than the padded map");
    ls_node *node = record(x, op, x->c, h, w);
    if (!node)
        return NULL;
    node->attributes.kernel = k;
    node->attributes.stride = stride;
    node->attributes.padding = padding;
    return node->out[0];
}

ls_tensor *ls_avg_pool2d(ls_tensor *x, const ls_pool *options)
{
    return pool(x, options, LS_OP_AVG_POOL, "ls_avg_pool2d");
}

ls_tensor *ls_max_pool2d(ls_tensor *x, const ls_pool *options)
{
    return pool(x, options, LS_OP_MAX_POOL, "ls_max_pool2d");
}

ls_tensor *ls_global_avg_pool2d(ls_tensor *x)
{
    ls_node *node = x ? record(x, LS_OP_GLOBAL_AVG_POOL, x->c, 1, 1) : NULL;
    return node ? node->out[0] : NULL;
}

/* The number of the view `path.name`; the first recording defines it, later ones find it. */
static int define(ls_session *session, const char *path, const char *name, int rank, const int64_t shape[],
                  bool trainable, bool joined)
{
    ls_flat *flat = session->recording->graph->flat;
    char full[768];
    snprintf(full, sizeof full, "%s%s%s", path, *path ? "." : "", name);
    int number = ls_flat_find(flat, full);
    if (number < 0 && !flat->closed)
        return ls_flat_add(flat, full, rank, shape, trainable, joined);
    if (number < 0) {
        ls_raise(&session->context, LS_BAD_ARGUMENT, "parameter %s appeared after the network was initialized", full);
        return -1;
    }
    const ls_view *view = &flat->views[number];
    if (view->rank == rank && memcmp(view->shape, shape, (size_t)rank * sizeof *shape) == 0)
        return number;
    ls_raise(&session->context, LS_BAD_SHAPE, "parameter %s: its shape changed between two recordings", full);
    return -1;
}

ls_tensor *ls_record_parameter(ls_session *session, const char *path, const char *name, int rank, const int64_t shape[])
{
    if (!session->recording || ls_failed(session))
        return NULL;
    ls_graph *graph = session->recording->graph;
    int number = define(session, path, name, rank, shape, true, false);
    if (number < 0)
        return NULL;
    ls_view *view = &graph->flat->views[number];
    view->drawn = rank > 1;
    size_t window = rank == 4 ? (size_t)(shape[2] * shape[3]) : 1;
    view->fan_in = rank > 1 ? (size_t)shape[1] * window : 0;
    view->fan_out = rank > 1 ? (size_t)shape[0] * window : 0;
    return ls_graph_view(graph, number);
}

ls_tensor *ls_record_batch_norm(ls_tensor *x, const char *path, float eps)
{
    if (!x || ls_failed(x->graph->session))
        return NULL;
    ls_graph *graph = x->graph;
    ls_session *session = graph->session;
    const int64_t shape[] = {x->c};
    int gamma = define(session, path, "weight", 1, shape, true, false);
    int beta = gamma < 0 ? -1 : define(session, path, "bias", 1, shape, true, true);
    int mean = beta < 0 ? -1 : define(session, path, "running_mean", 1, shape, false, false);
    int variance = mean < 0 ? -1 : define(session, path, "running_var", 1, shape, false, true);
    if (variance < 0)
        return NULL;
    graph->flat->views[gamma].fill = graph->flat->views[variance].fill = 1;
    ls_node *node = record(x, graph->training ? LS_OP_BATCH_NORM : LS_OP_BATCH_NORM_INFER, x->c, x->h, x->w);
    if (!node)
        return NULL;
    node->attributes.eps = eps;
    int at = graph->n_nodes - 1;
    ls_tensor *in[] = {ls_graph_view(graph, gamma), ls_graph_view(graph, beta)};
    ls_tensor *third = graph->training ? ls_graph_value(graph, LS_IN_ARENA, 2 * x->c, 1, 1, false) : NULL;
    size_t place = graph->flat->views[mean].offset;
    ls_tensor *statistics =
        ls_graph_value(graph, graph->training ? LS_IN_STATISTICS : LS_IN_STATE, 2 * x->c, 1, 1, false);
    if (!in[0] || !in[1] || !statistics || (graph->training && !third))
        return NULL;
    statistics->offset = place;
    node = &graph->nodes[at];
    node->in[1] = in[0];
    node->in[2] = in[1];
    if (graph->training) {
        node->out[1] = third;
        node->out[2] = statistics;
    } else {
        node->in[4] = statistics;
    }
    node->out[0]->needs_gradient = true;
    return node->out[0];
}

ls_tensor *ls_record_dropout(ls_tensor *x, const char *path, double rate)
{
    if (!x || !x->graph->training)
        return x; /* kept whole in inference, its scale having been paid in training */
    ls_node *node = record(x, LS_OP_DROPOUT, x->c, x->h, x->w);
    if (!node)
        return NULL;
    node->attributes.rate = (float)rate;
    node->attributes.key = ls_hash_name(path);
    return node->out[0];
}

ls_tensor *ls_record_cross_entropy(ls_tensor *logits)
{
    ls_node *node = logits ? record(logits, LS_OP_CROSS_ENTROPY, 1, 1, 1) : NULL;
    if (!node)
        return NULL;
    int at = logits->graph->n_nodes - 1;
    ls_tensor *probabilities = ls_graph_like(logits->graph, logits);
    if (!probabilities)
        return NULL;
    node = &logits->graph->nodes[at];
    node->out[1] = probabilities;
    return node->out[0];
}

static void record_metric(ls_tensor *x, ls_op op, size_t metric)
{
    ls_graph *graph = x->graph;
    ls_tensor *sum = ls_graph_value(graph, LS_IN_METRICS, 1, 1, 1, false);
    ls_node *node = sum ? ls_graph_node(graph, op, "metrics") : NULL;
    if (!node)
        return;
    sum->offset = metric;
    node->in[0] = x;
    node->out[0] = sum;
}

void ls_record_metrics(ls_tensor *logits, ls_tensor *loss)
{
    if (!logits || !loss)
        return;
    record_metric(loss, LS_OP_SUM_IMAGES, LS_METRIC_LOSS);
    record_metric(logits, LS_OP_COUNT_CORRECT, LS_METRIC_CORRECT);
}

void ls_record_rows(ls_tensor *logits)
{
    ls_node *node = logits ? record(logits, LS_OP_ROWS, logits->c, 1, 1) : NULL;
    if (node) {
        node->out[0]->place = LS_IN_ROWS;
        node->out[0]->per_image = false;
    }
}
