/* What a network makes of a whole data set: the loss, the right images, the logits. */
#include <math.h>

#include "base/environment.h"
#include "base/number.h"
#include "cluster/cluster.h"
#include "eager/batches.h"
#include "eager/calls.h"
#include "eager/infer.h"
#include "eager/realize.h"
#include "model/classes.h"

static ls_status refuse(const ls_module *net, const void *argument, const char *function)
{
    if (!net)
        return LS_BAD_ARGUMENT;
    if (!argument)
        ls_raise(&net->session->context, LS_BAD_ARGUMENT, "%s: an argument is NULL", function);
    return ls_status_of(net->session);
}

/* Every rank has the same numbers, and comes to the same. */
static void raise_not_finite(ls_session *session, const char *function, const char *what, int64_t number)
{
    ls_raise(&session->context, LS_NOT_FINITE,
             "%s: %s %lld is not finite: the network overflows with these weights; if it was trained, a lower learning "
             "rate may help",
             function, what, (long long)number);
    atomic_store(&session->together, ls_cluster_ranks(session->options.cluster) > 1);
}

/* The loss that says whether an image is right. */
static ls_tensor *with_labels(ls_tensor *outputs, ls_tensor *y, void *user)
{
    if (!y)
        ls_raise(&outputs->session->context, LS_BAD_ARGUMENT, "%s: the data have neither labels nor targets",
                 (const char *)user);
    else if (outputs->shape.rank < 2 || y->shape.rank < outputs->shape.rank - 1 ||
             (y->shape.rank == outputs->shape.rank && !ls_same_shape(&y->shape, &outputs->shape)))
        ls_bad_shapes((ls_tensor *[]){outputs, y}, "the network's output, y", (const char *)user,
                      "its loss is ls_cross_entropy, of outputs (images, classes, ...); for another loss there is "
                      "ls_module_evaluate_with");
    return ls_failed(outputs->session) ? NULL : ls_cross_entropy(outputs, y);
}

/* What `fn` makes of the network's outputs of all images and y. */
static ls_tensor *outcome(ls_module *net, const ls_data *data, ls_loss_fn *fn, void *user, const char *function)
{
    ls_batch all;
    if (net->network && ls_network_compare_data(net->network, data, function) != LS_OK)
        return NULL;
    if (ls_data_tensors(net->session, data, &(ls_batch_rows){.n = data->rows}, &all) != LS_OK)
        return NULL;
    ls_tensor *outputs = ls_call_network(net, all.inputs, all.n_inputs, false, function);
    ls_tensor *root = outputs ? fn(outputs, all.y, user) : NULL;
    ls_environment_renew();
    return root;
}

/* The trace of it, ready to be run over all images. */
static ls_trace *trace_outcome(ls_module *net, ls_tensor *root, const char *function)
{
    ls_session *session = net->session;
    ls_trace *trace = root ? ls_session_trace(session) : NULL;
    if (!trace || ls_trace_ready(trace, root, false) != LS_OK)
        return NULL;
    if (!trace->call)
        ls_raise(&session->context, LS_BAD_ARGUMENT, "%s: the loss must be of the network's outputs", function);
    return !ls_failed(session) && ls_network_wait(net->network) == LS_OK ? trace : NULL;
}

/* Of a failure, which may come in the middle. */
static const ls_metrics no_metrics = {.loss = NAN};

static ls_status evaluate(ls_module *net, const ls_data *data, ls_loss_fn *fn, void *user, ls_metrics *metrics,
                          const char *function)
{
    if (metrics)
        *metrics = no_metrics;
    if (!net || !data || !fn || !metrics || ls_failed(net->session))
        return refuse(net, data && fn && metrics ? net : NULL, function);
    ls_session *session = net->session;
    int scope = ls_scope_open(session, NULL);
    double counted;
    ls_tensor *loss = ls_sum(outcome(net, data, fn, user, function));
    ls_trace *trace = trace_outcome(net, loss, function);
    if (trace && ls_run_all(trace, loss, NULL, metrics, &counted) == LS_OK) {
        if (!(counted > 0))
            ls_raise(&session->context, LS_BAD_ARGUMENT,
                     "%s: no label of the data counts: each is ignored, or of a class of weight 0", function);
        else if (!isfinite(metrics->loss))
            raise_not_finite(session, function, "the loss over images 0 to", metrics->rows - 1);
        metrics->loss /= counted;
    }
    if (ls_failed(session))
        *metrics = no_metrics;
    ls_scope_close(session, scope);
    return ls_status_of(session);
}

ls_status ls_module_evaluate(ls_module *net, const ls_data *data, ls_metrics *metrics)
{
    LS_OWN_ENVIRONMENT;
    return evaluate(net, data, with_labels, (void *)"ls_module_evaluate", metrics, "ls_module_evaluate");
}

ls_status ls_module_evaluate_with(ls_module *net, const ls_data *data, ls_loss_fn *loss, void *user,
                                  ls_metrics *metrics)
{
    LS_OWN_ENVIRONMENT;
    return evaluate(net, data, loss, user, metrics, "ls_module_evaluate_with");
}

/* Rows of so many numbers of all images, which must be finite. */
static ls_status run_rows(ls_module *net, ls_tensor *root, float *rows, int numbers, const char *what,
                          const char *function)
{
    ls_session *session = net->session;
    ls_trace *trace = trace_outcome(net, root, function);
    if (!trace || ls_run_all(trace, root, rows, NULL, NULL) != LS_OK)
        return ls_status_of(session);
    const int64_t bad = ls_first_not_finite(rows, root->shape.dim[0] * numbers);
    if (bad >= 0)
        raise_not_finite(session, function, what, bad / numbers);
    return ls_status_of(session);
}

static ls_tensor *outputs_alone(ls_tensor *outputs, ls_tensor *y, void *user)
{
    (void)y;
    (void)user;
    return outputs;
}

ls_status ls_module_predict(ls_module *net, const ls_data *data, float *logits, int classes)
{
    LS_OWN_ENVIRONMENT;
    static const char *const function = "ls_module_predict";
    if (!net || !data || !logits || ls_failed(net->session))
        return ls_no_numbers(logits, data ? data->rows * classes : 0,
                             refuse(net, data && logits ? net : NULL, function));
    ls_session *session = net->session;
    int scope = ls_scope_open(session, NULL);
    ls_tensor *rows = outcome(net, data, outputs_alone, NULL, function);
    const bool fits = !rows || net->network->classes == classes;
    if (!fits)
        ls_raise(&session->context, LS_BAD_SHAPE, "ls_module_predict: the network has %d classes, the caller's rows %d",
                 net->network->classes, classes);
    if (!ls_failed(session))
        run_rows(net, rows, logits, classes, "what the network makes of image", function);
    ls_scope_close(session, scope);
    return fits && ls_failed(session) ? ls_no_numbers(logits, data->rows * classes, ls_status_of(session))
                                      : ls_status_of(session);
}

static ls_status no_means(double *means, int n, ls_status status)
{
    for (int k = 0; means && k < n; k++)
        means[k] = NAN;
    return status;
}

ls_status ls_module_measure(ls_module *net, const ls_data *data, ls_loss_fn *metric, void *user, double *means, int n)
{
    LS_OWN_ENVIRONMENT;
    static const char *const function = "ls_module_measure";
    if (!net || !data || !metric || !means || ls_failed(net->session))
        return no_means(means, n, refuse(net, data && metric && means ? net : NULL, function));
    ls_session *session = net->session;
    int scope = ls_scope_open(session, NULL), c, h, w;
    ls_tensor *root = outcome(net, data, metric, user, function);
    const bool fits = !root || (root->shape.rank >= 1 && root->shape.dim[0] == data->rows &&
                                ls_shape_image(&root->shape, &c, &h, &w) == n);
    if (!fits) {
        char shape[128];
        ls_shape_text(shape, sizeof shape, &root->shape);
        ls_raise(&session->context, LS_BAD_SHAPE, "%s: the metric makes %s; for each image its numbers must be %d",
                 function, shape, n);
    }
    float *rows = root && fits ? ls_alloc(&session->context, (size_t)data->rows * (size_t)n, sizeof *rows,
                                          "an evaluation's metrics")
                               : NULL;
    if (rows && run_rows(net, root, rows, n, "a metric of image", function) == LS_OK)
        for (int k = 0; k < n; k++) {
            means[k] = 0;
            for (int64_t i = 0; i < data->rows; i++)
                means[k] += (double)rows[i * n + k];
            means[k] /= (double)data->rows;
        }
    ls_release(&session->context, rows);
    ls_scope_close(session, scope);
    return fits && ls_failed(session) ? no_means(means, n, ls_status_of(session)) : ls_status_of(session);
}

double ls_module_accuracy(ls_module *net, const ls_data *data)
{
    LS_OWN_ENVIRONMENT;
    ls_metrics metrics = {0};
    if (evaluate(net, data, with_labels, (void *)"ls_module_accuracy", &metrics, "ls_module_accuracy") != LS_OK ||
        !metrics.rows)
        return NAN;
    return (double)metrics.correct / (double)metrics.rows;
}
