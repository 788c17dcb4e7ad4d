#include "model/classes.h"

#include <string.h>
#include <lockstep_data.h>
#include <lockstep_weights.h>

#include "base/environment.h"
#include "data/data.h"

static const char key[] = "classes"; /* in a file's metadata */

/* The names that data have, in place of those before; as they were where the data have none. */
static ls_status read_data(ls_context *context, ls_classes *classes, const ls_data *data)
{
    const char **names =
        data->of.names ? ls_alloc(context, (size_t)data->of.classes, sizeof *names, "the names of the classes") : NULL;
    for (int i = 0; names && i < data->of.classes; i++)
        names[i] = ls_data_class(data, i);
    if (names)
        ls_classes_set(context, classes, names, data->of.classes);
    ls_release(context, names);
    return ls_context_status(context);
}

static ls_status compare(ls_context *context, const ls_classes *weights, const ls_classes *data, const char *where)
{
    for (int i = 0; i < weights->n && i < data->n; i++) {
        char is[64], wanted[64];
        if (strcmp(ls_classes_at(weights, i), ls_classes_at(data, i)) != 0)
            return ls_raise(context, LS_CHANGED, "%s: class %d is '%s' in the weights, but '%s' in the data", where, i,
                            ls_printable(ls_classes_at(weights, i), is, sizeof is),
                            ls_printable(ls_classes_at(data, i), wanted, sizeof wanted));
    }
    return LS_OK;
}

ls_status ls_network_take_classes(ls_network *network, const ls_data *data)
{
    return read_data(&network->session->context, &network->named, data);
}

ls_status ls_network_compare_classes(const ls_network *network, const ls_safetensors *file, const char *path)
{
    ls_context *context = &network->session->context;
    ls_classes theirs = {.names = NULL};
    if (!network->named.names || network->named.from_file)
        return LS_OK;
    ls_status status = ls_classes_read(context, &theirs, ls_safetensors_metadata(file, key));
    if (status == LS_OK)
        status = compare(context, &theirs, &network->named, path);
    ls_classes_free(context, &theirs);
    return status;
}

ls_status ls_network_compare_data(const ls_network *network, const ls_data *data, const char *function)
{
    ls_context *context = &network->session->context;
    ls_classes theirs = {.names = NULL};
    if (!network->named.from_file)
        return LS_OK;
    ls_status status = read_data(context, &theirs, data);
    if (status == LS_OK)
        status = compare(context, &network->named, &theirs, function);
    ls_classes_free(context, &theirs);
    return status;
}

ls_status ls_network_learn_classes(ls_network *network, const ls_safetensors *file)
{
    if (network->named.names && !network->named.from_file)
        return LS_OK;
    return ls_classes_read(&network->session->context, &network->named, ls_safetensors_metadata(file, key));
}

ls_status ls_module_name_classes(ls_module *net, const char *const names[], int n)
{
    LS_OWN_ENVIRONMENT;
    ls_network *network = ls_network_of(net, "ls_module_name_classes");
    if (!network)
        return net ? ls_status_of(net->session) : LS_BAD_ARGUMENT;
    ls_context *context = &network->session->context;
    bool good = n == 0 || (n > 0 && names);
    for (int i = 0; good && i < n; i++)
        good = names[i] != NULL;
    if (!good)
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_module_name_classes: %d names, one of which is NULL", n);
    if (n && network->defined && n != network->classes)
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_module_name_classes: %d names, but the network has %d classes", n,
                        network->classes);
    return ls_classes_set(context, &network->named, names, n);
}

const char *ls_module_class_name(const ls_module *net, int label)
{
    return net && net->network ? ls_classes_at(&net->network->named, label) : NULL;
}
