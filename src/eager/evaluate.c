/* What a network makes of a whole data set: the loss, the right images, the logits. */
#include <math.h>

#include "base/environment.h"
#include "cluster/cluster.h"
#include "eager/batches.h"
#include "eager/calls.h"
#include "eager/infer.h"
#include "eager/realize.h"

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
    (void)user;
    return ls_cross_entropy(outputs, y);
}

static ls_status evaluate(ls_module *net, const ls_data *data, ls_loss_fn *fn, void *user, ls_metrics *metrics,
                          const char *function)
{
    if (!net || !data || !fn || !metrics || ls_failed(net->session))
        return refuse(net, data && fn && metrics ? net : NULL, function);
    ls_session *session = net->session;
    int scope = ls_scope_open(session, NULL);
    double counted;
    ls_tensor *X, *y, *loss = NULL;
    if (ls_data_tensors(session, data, &(ls_batch_rows){.n = data->rows}, &X, &y) == LS_OK)
        loss = ls_sum(fn(ls_call_network(net, X, false, function), y, user));
    ls_trace *trace = loss ? ls_session_trace(session) : NULL;
    if (trace && ls_trace_run(trace, loss, false) == LS_OK && ls_realize_operands(trace) == LS_OK && !trace->call)
        ls_raise(&session->context, LS_BAD_ARGUMENT, "%s: the loss must be of the network's outputs", function);
    if (trace && !ls_failed(session) && ls_network_wait(net->network) == LS_OK &&
        ls_run_all(trace, loss, NULL, metrics, &counted) == LS_OK) {
        if (!(counted > 0))
            ls_raise(&session->context, LS_BAD_ARGUMENT,
                     "%s: no label of the data counts: each is ignored, or of a class of weight 0", function);
        else if (!isfinite(metrics->loss))
            raise_not_finite(session, function, "the loss over images 0 to", metrics->rows - 1);
        metrics->loss /= counted;
    }
    ls_scope_close(session, scope);
    return ls_status_of(session);
}

ls_status ls_module_evaluate(ls_module *net, const ls_data *data, ls_metrics *metrics)
{
    LS_OWN_ENVIRONMENT;
    return evaluate(net, data, with_labels, NULL, metrics, "ls_module_evaluate");
}

ls_status ls_module_evaluate_with(ls_module *net, const ls_data *data, ls_loss_fn *loss, void *user,
                                  ls_metrics *metrics)
{
    LS_OWN_ENVIRONMENT;
    return evaluate(net, data, loss, user, metrics, "ls_module_evaluate_with");
}

/* -1 where all are. */
static int64_t first_not_finite(const float *numbers, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(numbers[i]))
            return i;
    return -1;
}

ls_status ls_module_predict(ls_module *net, const ls_data *data, float *logits, int classes)
{
    LS_OWN_ENVIRONMENT;
    if (!net || !data || !logits || ls_failed(net->session))
        return refuse(net, data && logits ? net : NULL, "ls_module_predict");
    ls_session *session = net->session;
    int scope = ls_scope_open(session, NULL);
    ls_tensor *X, *rows = NULL;
    if (ls_data_tensors(session, data, &(ls_batch_rows){.n = data->rows}, &X, NULL) == LS_OK)
        rows = ls_call_network(net, X, false, "ls_module_predict");
    if (rows && net->network->classes != classes)
        ls_raise(&session->context, LS_BAD_SHAPE, "ls_module_predict: the network has %d classes, the caller's rows %d",
                 net->network->classes, classes);
    ls_trace *trace = rows ? ls_session_trace(session) : NULL;
    if (trace && !ls_failed(session) && ls_trace_run(trace, rows, false) == LS_OK &&
        ls_network_wait(net->network) == LS_OK && ls_run_all(trace, rows, logits, NULL, NULL) == LS_OK) {
        const int64_t bad = first_not_finite(logits, data->rows * classes);
        if (bad >= 0)
            raise_not_finite(session, "ls_module_predict", "what the network makes of image", bad / classes);
    }
    ls_scope_close(session, scope);
    return ls_status_of(session);
}

double ls_module_accuracy(ls_module *net, const ls_data *data)
{
    LS_OWN_ENVIRONMENT;
    ls_metrics metrics = {0};
    if (evaluate(net, data, with_labels, NULL, &metrics, "ls_module_accuracy") != LS_OK || !metrics.rows)
        return 0;
    return (double)metrics.correct / (double)metrics.rows;
}
