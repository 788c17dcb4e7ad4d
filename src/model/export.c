/* A network as a file for programs that compute it themselves. */
#include "base/environment.h"
#include "exec/stream.h"
#include "io/onnx.h"
#include "model/weights.h"

/* The trace of a call of the network on one image, in inference mode. */
static ls_trace *trace_call(ls_network *network)
{
    ls_session *session = network->session;
    ls_tensor *inputs[LS_MAX_INPUTS];
    for (int i = 0; i < network->takes.n; i++) {
        ls_shape one = network->takes.at[i];
        one.dim[0] = 1;
        inputs[i] = ls_zeros(session, one);
    }
    ls_tensor *y = ls_module_infer_all(network->root, inputs, network->takes.n);
    ls_trace *trace = y ? ls_session_trace(session) : NULL;
    return trace && ls_trace_run(trace, y, true) == LS_OK ? trace : NULL;
}

ls_status ls_module_export_onnx(ls_module *net, const char *path)
{
    LS_OWN_ENVIRONMENT;
    ls_network *network = ls_defined_network_of(net, "ls_module_export_onnx");
    if (!network || ls_network_wait(network) != LS_OK)
        return net ? ls_status_of(net->session) : LS_BAD_ARGUMENT;
    ls_session *session = network->session;
    if (!path)
        return ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_module_export_onnx: path is NULL");
    int scope = ls_scope_open(session, NULL);
    ls_trace *trace = trace_call(network);
    ls_named_array *parameters = trace ? ls_weights_list(network) : NULL;
    if (parameters) {
        ls_streams_wait(session); /* the forward may read numbers of the program's */
        ls_onnx_save(&session->context, path, trace, parameters, network->flat.n_views,
                     net->model ? net->model : "network");
    }
    ls_release(&session->context, parameters);
    ls_scope_close(session, scope);
    return ls_status_of(session);
}
