#include "eager/calls.h"

#include <string.h>

#include "base/environment.h"
#include "model/initialize.h"

/* Where all inputs must lie, with as many rows. */
static ls_status check_inputs(const ls_network *network, ls_tensor *const inputs[], int n, const char *function)
{
    const ls_tensor *X = inputs[0];
    ls_session *session = X->session;
    ls_context *context = &session->context;
    if (network->session != session)
        return ls_raise(context, LS_BAD_ARGUMENT, "%s: the network and the images belong to different sessions",
                        function);
    if (X->device.type != LS_HOST && !ls_network_has(network, X->device))
        return ls_raise(context, LS_NOT_INITIALIZED, "%s: the network was not initialized on %s, only on %s", function,
                        ls_device_str(session, X->device), ls_devices_str(session, network->devices));
    for (int i = 0; i < n; i++) {
        char a[96], b[96];
        if (inputs[i]->shape.rank < 2) {
            ls_bad_shape(
                inputs[i], function,
                "an input must be (images, features), (images, tokens, features) or (images, channels, height, "
                "width); a number for each image is (images, 1)");
            return ls_status_of(session);
        }
        if (inputs[i]->session != session || !ls_same_device(inputs[i]->device, X->device))
            return ls_raise(context, LS_BAD_ARGUMENT,
                            "%s: input 0 is %s, input %d %s; inputs lie together, on the host or on one device",
                            function, ls_tensor_name(X, a), i, ls_tensor_name(inputs[i], b));
        if (inputs[i]->shape.dim[0] != X->shape.dim[0])
            return ls_raise(context, LS_BAD_SHAPE, "%s: input 0 has %lld rows, input %d %lld", function,
                            (long long)X->shape.dim[0], i, (long long)inputs[i]->shape.dim[0]);
    }
    return LS_OK;
}

ls_tensor *ls_call_network(ls_module *net, ls_tensor *const inputs[], int n, bool training, const char *function)
{
    ls_session *session = ls_values_session(inputs, n, function);
    ls_network *network = session ? ls_network_of(net, function) : NULL;
    if (!network || check_inputs(network, inputs, n, function) != LS_OK)
        return NULL;
    ls_input_shapes shapes = {.n = n};
    for (int i = 0; i < n; i++) {
        shapes.at[i] = inputs[i]->shape;
        shapes.at[i].dim[0] = -1;
    }
    if (ls_network_define(network, &shapes, function) != LS_OK)
        return NULL;
    const ls_recorded *recorded = training ? &network->training : &network->inference;
    ls_shape shape = recorded->output->shape;
    shape.dim[0] = inputs[0]->shape.dim[0];
    ls_tensor *y = ls_tensor_new(session, LS_TENSOR_CALL, &shape, inputs[0]->device);
    if (!y)
        return NULL;
    for (int i = 0; i < n; i++) {
        y->in[i] = ls_tensor_hold(inputs[i]);
        y->forward.inputs[i] = recorded->inputs[i];
    }
    y->network = network;
    y->forward.flat = &network->flat;
    y->forward.training = training;
    y->needs_gradient = training;
    for (int i = 0; i < n; i++)
        y->needs_gradient |= inputs[i]->needs_gradient;
    y->forward.output = recorded->output;
    y->forward.version = network->version;
    return y;
}

static ls_tensor *call_all(ls_module *net, ls_tensor *const inputs[], int n, bool training, const char *function)
{
    if (net && !ls_failed(net->session) && (!inputs || n < 1 || n > LS_MAX_INPUTS)) {
        ls_raise(&net->session->context, LS_BAD_ARGUMENT, "%s: %d inputs; a network takes 1 to %d", function, n,
                 LS_MAX_INPUTS);
        return NULL;
    }
    return inputs ? ls_call_network(net, inputs, n, training, function) : NULL;
}

ls_tensor *ls_module_forward(ls_module *net, ls_tensor *X)
{
    LS_OWN_ENVIRONMENT;
    return ls_call_network(net, &X, 1, true, "ls_module_forward");
}

ls_tensor *ls_module_infer(ls_module *net, ls_tensor *X)
{
    LS_OWN_ENVIRONMENT;
    return ls_call_network(net, &X, 1, false, "ls_module_infer");
}

ls_tensor *ls_module_forward_all(ls_module *net, ls_tensor *const inputs[], int n)
{
    LS_OWN_ENVIRONMENT;
    return call_all(net, inputs, n, true, "ls_module_forward_all");
}

ls_tensor *ls_module_infer_all(ls_module *net, ls_tensor *const inputs[], int n)
{
    LS_OWN_ENVIRONMENT;
    return call_all(net, inputs, n, false, "ls_module_infer_all");
}

ls_status ls_call_check(const ls_tensor *t)
{
    if (t->forward.version == t->network->version)
        return LS_OK;
    return ls_raise(
        &t->session->context, LS_STALE,
        "the network was updated after this call of it was recorded; read the result before ls_trainer_step");
}

ls_status ls_network_read(const ls_tensor *t)
{
    return ls_call_check(t) == LS_OK ? ls_network_wait(t->network) : ls_status_of(t->session);
}

/* ---- Parameters as tensors ---- */

ls_tensor *ls_module_param(ls_module *net, const char *name, ls_device device)
{
    LS_OWN_ENVIRONMENT;
    ls_network *network = ls_network_of(net, "ls_module_param");
    if (!network)
        return NULL;
    ls_session *session = net->session;
    ls_context *context = &session->context;
    if (device.type != LS_HOST && !ls_network_has(network, device)) {
        ls_raise(context, LS_NOT_INITIALIZED, "ls_module_param: parameter %s was not initialized on %s, only on %s",
                 name ? name : "(null)", ls_device_str(session, device), ls_devices_str(session, network->devices));
        return NULL;
    }
    if (!ls_defined_network_of(net, "ls_module_param"))
        return NULL;
    int view = name ? ls_flat_find(&network->flat, name) : -1;
    if (view < 0) {
        ls_raise(context, LS_BAD_ARGUMENT, "ls_module_param: there is no parameter \"%s\"", name ? name : "(null)");
        return NULL;
    }
    const ls_view *found = &network->flat.views[view];
    ls_shape shape = {.rank = found->rank};
    memcpy(shape.dim, found->shape, (size_t)found->rank * sizeof *shape.dim);
    ls_tensor *tensor = ls_tensor_new(session, LS_TENSOR_NETWORK, &shape, device);
    if (!tensor)
        return NULL;
    tensor->network = network;
    tensor->changes = &network->version;
    tensor->view = view;
    tensor->name = ls_intern(session, found->name); /* the tensor may outlive the network */
    return tensor;
}
