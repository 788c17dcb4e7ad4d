/* A network's tensors in files, and their fingerprint. */
#include <lockstep_data.h>
#include <lockstep_weights.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "io/fingerprint.h"
#include "io/npy.h"
#include "io/safetensors.h"
#include "model/classes.h"
#include "model/weights.h"

ls_named_array *ls_weights_list(ls_network *network)
{
    ls_named_array *arrays =
        ls_alloc(&network->session->context, (size_t)network->flat.n_views, sizeof *arrays, "a list of arrays");
    for (int i = 0; arrays && i < network->flat.n_views; i++) {
        const ls_view *view = &network->flat.views[i];
        arrays[i] = (ls_named_array){view->name, view->rank, view->shape, ls_network_values(network, view)};
    }
    return arrays;
}

/* The shape of one image: "1x28x28", "784"; of several inputs one behind the other, "1x28x28 784". */
static const char *write_images(char *text, size_t size, const ls_input_shapes *takes)
{
    size_t length = 0;
    for (int k = 0; k < takes->n; k++)
        for (int i = 1; i < takes->at[k].rank && length < size; i++)
            length += (size_t)snprintf(text + length, size - length, "%s%lld",
                                       i > 1 ? "x"
                                       : k   ? " "
                                             : "",
                                       (long long)takes->at[k].dim[i]);
    return text;
}

ls_status ls_weights_tell(const ls_network *network, const char *lockstep, ls_weights_about *about)
{
    ls_context *context = &network->session->context;
    const char *model = network->root->model;
    *about = (ls_weights_about){.classes = ls_classes_write(context, &network->named)};
    snprintf(about->seed, sizeof about->seed, "%llu", (unsigned long long)network->session->options.seed);
    snprintf(about->shard, sizeof about->shard, "%d", network->shard);
    write_images(about->images, sizeof about->images, &network->takes);
    const char *const pairs[][2] = {{"lockstep", lockstep},    {"model", model ? model : ""},
                                    {"seed", about->seed},     {"shard", about->shard},
                                    {"images", about->images}, {"classes", about->classes}};
    memcpy(about->pairs, pairs, sizeof pairs);
    about->n = about->classes ? 6 : 5;
    return ls_context_status(context);
}

void ls_weights_about_free(ls_context *context, ls_weights_about *about)
{
    ls_release(context, about->classes);
    about->classes = NULL;
}

/* What ls_module_save and ls_module_check_save do alike: `write` has the last word. */
static ls_status save(ls_module *net, const char *path, const char *function,
                      ls_status (*write)(ls_context *context, const char *path, const ls_named_array *arrays, int n,
                                         const char *const metadata[][2], int n_metadata))
{
    ls_network *network = ls_defined_network_of(net, function);
    if (!network || ls_network_wait(network) != LS_OK)
        return net ? ls_status_of(net->session) : LS_BAD_ARGUMENT;
    ls_context *context = &network->session->context;
    if (!path)
        return ls_raise(context, LS_BAD_ARGUMENT, "%s: path is NULL", function);
    ls_weights_about about;
    ls_status status = ls_weights_tell(network, ls_version(), &about);
    ls_named_array *arrays = status == LS_OK ? ls_weights_list(network) : NULL;
    if (arrays)
        status = write(context, path, arrays, network->flat.n_views, about.pairs, about.n);
    ls_release(context, arrays);
    ls_weights_about_free(context, &about);
    return status == LS_OK ? ls_context_status(context) : status;
}

ls_status ls_module_save(ls_module *net, const char *path)
{
    LS_OWN_ENVIRONMENT;
    return save(net, path, "ls_module_save", ls_safetensors_save);
}

ls_status ls_module_check_save(ls_module *net, const char *path)
{
    LS_OWN_ENVIRONMENT;
    return save(net, path, "ls_module_check_save", ls_safetensors_try);
}

ls_status ls_file_model(ls_session *session, const char *path, char *name, size_t size)
{
    LS_OWN_ENVIRONMENT;
    if (name && size > 0)
        *name = '\0';
    if (!session || ls_failed(session))
        return session ? ls_status_of(session) : LS_BAD_ARGUMENT;
    if (!path || !name || size == 0)
        return ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_file_model: path or name is NULL");
    ls_safetensors *file = ls_safetensors_open(&session->context, path);
    const char *model = file ? ls_safetensors_metadata(file, "model") : NULL;
    snprintf(name, size, "%s", model ? model : "");
    ls_safetensors_close(file);
    return ls_status_of(session);
}

/* Also with something in front of its name, which ls_load_options.strip may leave out. */
static const ls_saved *find_last_bias(const ls_safetensors *file, const char *bias)
{
    const size_t length = bias ? strlen(bias) : 0;
    for (int i = 0; bias && i < ls_safetensors_count(file); i++) {
        const ls_saved *saved = ls_safetensors_at(file, i);
        const size_t own = strlen(saved->name);
        if (own >= length && strcmp(saved->name + own - length, bias) == 0 &&
            (own == length || saved->name[own - length - 1] == '.'))
            return saved;
    }
    return NULL;
}

ls_module *ls_model_for_file(ls_session *session, const char *name, const char *path)
{
    LS_OWN_ENVIRONMENT;
    if (!session || ls_failed(session))
        return NULL;
    if (!path) {
        ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_model_for_file: path is NULL");
        return NULL;
    }
    ls_safetensors *file = ls_safetensors_open(&session->context, path);
    const ls_saved *last = find_last_bias(file, ls_model_last_bias(name));
    /* Where it is missing ls_module_load will say so. */
    int classes = last && last->rank == 1 && last->numbers > 0 && last->numbers <= INT32_MAX ? (int)last->numbers : 10;
    ls_safetensors_close(file);
    return ls_model_for(session, name, classes);
}

ls_status ls_module_fingerprint(ls_module *net, char digits[65])
{
    LS_OWN_ENVIRONMENT;
    ls_network *network = ls_defined_network_of(net, "ls_module_fingerprint");
    if (digits)
        digits[0] = '\0';
    if (!network || ls_network_wait(network) != LS_OK)
        return net ? ls_status_of(net->session) : LS_BAD_ARGUMENT;
    if (!digits)
        return ls_raise(&network->session->context, LS_BAD_ARGUMENT, "ls_module_fingerprint: digits is NULL");
    ls_named_array *arrays = ls_weights_list(network);
    if (!arrays)
        return LS_OUT_OF_MEMORY;
    ls_status status = ls_fingerprint_arrays(&network->session->context, arrays, network->flat.n_views, digits);
    ls_release(&network->session->context, arrays);
    return status;
}

ls_status ls_file_fingerprint(ls_session *session, const char *path, char digits[65])
{
    LS_OWN_ENVIRONMENT;
    if (digits)
        digits[0] = '\0';
    if (!session || ls_failed(session))
        return session ? ls_status_of(session) : LS_BAD_ARGUMENT;
    if (!path || !digits)
        return ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_file_fingerprint: path or digits is NULL");
    return ls_fingerprint_saved(&session->context, path, digits);
}

ls_status ls_save_npy(ls_session *session, const char *path, const float *values, int64_t rows, int64_t columns)
{
    LS_OWN_ENVIRONMENT;
    if (!session || ls_failed(session))
        return session ? ls_status_of(session) : LS_BAD_ARGUMENT;
    if (!path || !values || rows < 0 || columns < 0)
        return ls_raise(&session->context, LS_BAD_ARGUMENT,
                        "ls_save_npy: path or values is NULL, or a size is negative");
    return ls_npy_save(&session->context, path, values, rows, columns);
}
