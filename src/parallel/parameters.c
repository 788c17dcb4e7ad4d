/* A network's tensors by name, read and written from outside. */
#include <string.h>

#include "parallel/network.h"
#include "parallel/step.h"

int ls_parameter_count(ls_module *net)
{
    ls_network *network = ls_network_of(net, "ls_parameter_count");
    return network ? network->flat.n_views : 0;
}

ls_status ls_parameter_at(ls_module *net, int i, ls_parameter_info *info)
{
    ls_network *network = ls_network_of(net, "ls_parameter_at");
    if (!network)
        return net ? ls_status_of(net->session) : LS_BAD_ARGUMENT;
    if (!info || i < 0 || i >= network->flat.n_views)
        return ls_raise(&network->session->context, LS_BAD_ARGUMENT, "ls_parameter_at: there is no parameter %d of %d",
                        i, network->flat.n_views);
    const ls_view *view = &network->flat.views[i];
    *info = (ls_parameter_info){
        .name = view->name, .rank = view->rank, .numbers = (int64_t)view->numbers, .trainable = view->trainable};
    memcpy(info->shape, view->shape, sizeof info->shape);
    return LS_OK;
}

/* The view of that name and length, with all work done; NULL with a named error. */
static const ls_view *find(ls_module *net, const char *name, const void *values, int64_t numbers, const char *function)
{
    ls_network *network = ls_network_of(net, function);
    if (!network || ls_network_settle(network) != LS_OK)
        return NULL;
    ls_context *context = &network->session->context;
    int i = name && values ? ls_flat_find(&network->flat, name) : -1;
    if (i < 0) {
        ls_raise(context, LS_BAD_ARGUMENT, "%s: there is no parameter \"%s\"", function, name ? name : "(null)");
        return NULL;
    }
    const ls_view *view = &network->flat.views[i];
    if ((int64_t)view->numbers == numbers)
        return view;
    ls_raise(context, LS_BAD_SHAPE, "%s: parameter %s has %zu numbers, not %lld", function, name, view->numbers,
             (long long)numbers);
    return NULL;
}

static ls_status status_after(ls_module *net)
{
    ls_status status = net ? ls_status_of(net->session) : LS_BAD_ARGUMENT;
    return status == LS_OK ? LS_BAD_ARGUMENT : status;
}

ls_status ls_read_parameter(ls_module *net, const char *name, float *values, int64_t numbers)
{
    const ls_view *view = find(net, name, values, numbers, "ls_read_parameter");
    if (!view)
        return status_after(net);
    memcpy(values, ls_network_values(net->network, view), view->numbers * sizeof *values);
    return LS_OK;
}

ls_status ls_write_parameter(ls_module *net, const char *name, const float *values, int64_t numbers)
{
    const ls_view *view = find(net, name, values, numbers, "ls_write_parameter");
    if (!view)
        return status_after(net);
    memcpy(ls_network_values(net->network, view), values, view->numbers * sizeof *values);
    return LS_OK;
}

ls_status ls_read_gradient(ls_module *net, const char *name, float *values, int64_t numbers)
{
    const ls_view *view = find(net, name, values, numbers, "ls_read_gradient");
    if (!view)
        return status_after(net);
    struct ls_trainer *trainer = net->network->trainer;
    if (!trainer || !trainer->gradient || !view->trainable)
        return ls_raise(&net->session->context, LS_NOT_INITIALIZED,
                        "ls_read_gradient: %s has no gradient; call ls_gradient first", name);
    memcpy(values, trainer->gradient + view->offset, view->numbers * sizeof *values);
    return LS_OK;
}
