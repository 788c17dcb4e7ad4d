/* A network's tensors by name, read and written from outside. */
#include <stdio.h>
#include <string.h>

#include "base/environment.h"
#include "base/number.h"
#include "model/network.h"

static void tell(const ls_view *view, ls_parameter_info *info)
{
    *info = (ls_parameter_info){.name = view->name,
                                .rank = view->rank,
                                .numbers = (int64_t)view->numbers,
                                .trainable = ls_is_trained(view),
                                .frozen = view->frozen};
    memcpy(info->shape, view->shape, sizeof info->shape);
}

int ls_module_parameter_count(ls_module *net)
{
    LS_OWN_ENVIRONMENT;
    ls_network *network = ls_defined_network_of(net, "ls_module_parameter_count");
    return network ? network->flat.n_views : 0;
}

ls_status ls_module_parameter_at(ls_module *net, int i, ls_parameter_info *info)
{
    LS_OWN_ENVIRONMENT;
    ls_network *network = ls_defined_network_of(net, "ls_module_parameter_at");
    if (info)
        *info = (ls_parameter_info){.name = ""};
    if (!network)
        return net ? ls_status_of(net->session) : LS_BAD_ARGUMENT;
    if (!info || i < 0 || i >= network->flat.n_views)
        return ls_raise(&network->session->context, LS_BAD_ARGUMENT,
                        "ls_module_parameter_at: there is no parameter %d of %d", i, network->flat.n_views);
    tell(&network->flat.views[i], info);
    return LS_OK;
}

/* The view of that name and length, with all work done; NULL with a named error. */
static const ls_view *find(ls_module *net, const char *name, const void *values, int64_t numbers, const char *function)
{
    ls_network *network = ls_defined_network_of(net, function);
    if (!network || ls_network_wait(network) != LS_OK)
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

/* Of a count that is wrong nothing is written: there may be less room. */
static ls_status refused(ls_module *net, float *values, int64_t numbers)
{
    const ls_status status = status_after(net);
    return status == LS_BAD_SHAPE ? status : ls_no_numbers(values, numbers, status);
}

ls_status ls_module_read_parameter(ls_module *net, const char *name, float *values, int64_t numbers)
{
    LS_OWN_ENVIRONMENT;
    const ls_view *view = find(net, name, values, numbers, "ls_module_read_parameter");
    if (!view)
        return refused(net, values, numbers);
    memcpy(values, ls_network_values(net->network, view), view->numbers * sizeof *values);
    return LS_OK;
}

ls_status ls_module_write_parameter(ls_module *net, const char *name, const float *values, int64_t numbers)
{
    LS_OWN_ENVIRONMENT;
    const ls_view *view = find(net, name, values, numbers, "ls_module_write_parameter");
    if (!view || ls_network_change(net->network, "ls_module_write_parameter") != LS_OK)
        return status_after(net);
    memcpy(ls_network_values(net->network, view), values, view->numbers * sizeof *values);
    return LS_OK;
}

ls_status ls_module_apply(ls_module *net, void (*fn)(const ls_parameter_info *info, float *values, void *user),
                          void *user)
{
    LS_OWN_ENVIRONMENT;
    ls_network *network = ls_defined_network_of(net, "ls_module_apply");
    if (!network || ls_network_wait(network) != LS_OK)
        return status_after(net);
    if (!fn)
        return ls_raise(&net->session->context, LS_BAD_ARGUMENT, "ls_module_apply: fn is NULL");
    if (ls_network_change(network, "ls_module_apply") != LS_OK)
        return status_after(net);
    for (int i = 0; i < network->flat.n_views; i++) {
        ls_parameter_info info;
        tell(&network->flat.views[i], &info);
        fn(&info, ls_network_values(network, &network->flat.views[i]), user);
    }
    return LS_OK;
}

const char *ls_module_summary(ls_module *net)
{
    LS_OWN_ENVIRONMENT;
    ls_network *network = ls_defined_network_of(net, "ls_module_summary");
    if (!network)
        return "";
    if (network->summary)
        return network->summary;
    size_t room = 128 * (size_t)(network->flat.n_views + 2), length = 0;
    char *text = network->summary = ls_alloc(&net->session->context, room, 1, "a summary");
    int64_t trainable = 0;
    for (int i = 0; text && i < network->flat.n_views; i++) {
        const ls_view *view = &network->flat.views[i];
        ls_shape shape = {.rank = view->rank};
        memcpy(shape.dim, view->shape, sizeof shape.dim);
        char size[64];
        ls_shape_text(size, sizeof size, &shape);
        trainable += ls_is_trained(view) ? (int64_t)view->numbers : 0;
        length += (size_t)snprintf(text + length, room - length, "%-40.80s %-20s%s%s\n", view->name, size,
                                   view->trainable ? "" : " (running statistics)", view->frozen ? " (frozen)" : "");
    }
    if (text)
        snprintf(text + length, room - length, "%lld trainable numbers\n", (long long)trainable);
    return text ? text : "";
}
