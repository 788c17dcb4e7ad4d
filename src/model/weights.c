/* A network's tensors in files, and their fingerprint. */
#include <lockstep_data.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "io/fingerprint.h"
#include "io/npy.h"
#include "io/safetensors.h"
#include "model/classes.h"
#include "model/initialize.h"
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

/* That again; false where it is none. */
static bool read_images(const char *text, ls_input_shapes *takes)
{
    ls_shape *images = takes->at;
    takes->n = 1;
    *images = (ls_shape){1, {-1}};
    while (text && *text >= '1' && *text <= '9' && images->rank < LS_MAX_RANK) {
        char *end;
        long long size = strtoll(text, &end, 10);
        images->dim[images->rank++] = size;
        if (size > INT32_MAX || (*end && *end != 'x' && *end != ' '))
            return false;
        if (!*end)
            return true;
        if (*end == ' ') {
            if (takes->n == LS_MAX_INPUTS)
                return false;
            *(images = &takes->at[takes->n++]) = (ls_shape){1, {-1}};
        }
        text = end + 1;
    }
    return false;
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

static bool same_shape(const ls_view *view, const ls_saved *saved)
{
    if (view->rank != saved->rank)
        return false;
    for (int i = 0; i < view->rank; i++)
        if (view->shape[i] != saved->shape[i])
            return false;
    return true;
}

static void shape_text(char *text, size_t size, int rank, const int64_t *shape)
{
    size_t length = (size_t)snprintf(text, size, "(");
    for (int i = 0; i < rank && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%lld", i ? ", " : "", (long long)shape[i]);
    if (length < size)
        snprintf(text + length, size - length, ")");
}

/* Whether the shapes are those of a layer that ends in the classes, but for how many there are: of the weights
 * `*classes`. */
static bool differs_in_classes(const ls_network *network, const ls_view *view, const ls_saved *saved, int64_t *classes)
{
    int differ = 0;
    for (int i = 0; i < view->rank && view->rank == saved->rank; i++)
        if (view->shape[i] != saved->shape[i]) {
            const bool channels = view->rank == 4 && i == 1; /* that go in */
            differ += view->shape[i] == network->classes && !channels ? 1 : 2;
            *classes = saved->shape[i];
        }
    return differ == 1;
}

static ls_status refuse_shape(const ls_network *network, ls_context *context, const char *path, const ls_view *view,
                              const ls_saved *saved)
{
    char is[128], wanted[128];
    int64_t classes;
    shape_text(is, sizeof is, saved->rank, saved->shape);
    shape_text(wanted, sizeof wanted, view->rank, view->shape);
    if (differs_in_classes(network, view, saved, &classes))
        return ls_raise(context, LS_BAD_FILE,
                        "%s: the weights have %lld classes, the %s %d: parameter %s has shape %s, the network needs %s",
                        path, (long long)classes, network->init.like ? "data" : "network", network->classes, view->name,
                        is, wanted);
    return ls_raise(context, LS_BAD_FILE, "%s: parameter %s has shape %s, the network needs %s", path, view->name, is,
                    wanted);
}

/* What each name of the file begins with and the network's names do not, "module.": the most of it that ends in a dot
 * and has the missing name behind it. Its length; 0 where there is none. */
static size_t foreign_prefix(const ls_safetensors *file, const char *missing)
{
    const int n = ls_safetensors_count(file);
    const char *first = n ? ls_safetensors_at(file, 0)->name : "",
               *last = n ? ls_safetensors_at(file, n - 1)->name : "";
    size_t common = 0; /* to those in between too, for they are in order */
    while (first[common] && first[common] == last[common])
        common++;
    for (; common > 0; common--) {
        if (first[common - 1] != '.')
            continue;
        for (int i = 0; i < n; i++)
            if (strcmp(ls_safetensors_at(file, i)->name + common, missing) == 0)
                return common;
    }
    return 0;
}

static ls_status refuse_missing(const ls_safetensors *file, ls_context *context, const char *path, const char *missing)
{
    char shown[100];
    int prefix = (int)foreign_prefix(file, missing);
    if (!prefix)
        return ls_raise(context, LS_BAD_FILE, "%s: parameter %s is missing; is this a file of another model?", path,
                        missing);
    const int stripped = (int)ls_safetensors_stripped(file); /* too little of it: "mod" of "module." */
    snprintf(shown, sizeof shown, "%.*s", stripped + prefix, ls_safetensors_at(file, 0)->name - stripped);
    return ls_raise(context, LS_BAD_FILE, "%s: all names begin with '%s'; ls_module_load_prefixed leaves that out",
                    path, shown);
}

ls_status ls_weights_check(const ls_network *network, const ls_safetensors *file, ls_context *context, const char *path,
                           bool (*besides)(const char *name))
{
    for (int i = 0; i < network->flat.n_views; i++) {
        const ls_view *view = &network->flat.views[i];
        const ls_saved *saved = ls_safetensors_find(file, view->name);
        if (!saved)
            return refuse_missing(file, context, path, view->name);
        if (!same_shape(view, saved))
            return refuse_shape(network, context, path, view, saved);
    }
    for (int i = 0; i < ls_safetensors_count(file); i++) {
        const char *name = ls_safetensors_at(file, i)->name;
        if (ls_flat_find(&network->flat, name) < 0 && !ls_saved_ignored(name) && !(besides && besides(name)))
            return ls_raise(context, LS_BAD_FILE,
                            "%s: the network has no parameter %s; is this a file of another model?", path, name);
    }
    return LS_OK;
}

ls_status ls_weights_read(ls_network *network, const ls_safetensors *file)
{
    int next = 1 - atomic_load(&network->current);
    for (int i = 0; i < network->flat.n_views; i++) {
        const ls_view *view = &network->flat.views[i];
        float *values = (view->trainable ? network->weights[next] : network->state[next]) + view->offset;
        ls_status status = ls_safetensors_read(file, ls_safetensors_find(file, view->name), values);
        if (status != LS_OK)
            return status;
    }
    atomic_store(&network->current, next);
    ls_network_changed(network);
    return LS_OK;
}

static ls_status load(ls_network *network, const ls_safetensors *file, const char *path)
{
    ls_status status = ls_weights_check(network, file, &network->session->context, path, NULL);
    if (status == LS_OK)
        status = ls_network_compare_classes(network, file, path);
    return status == LS_OK ? ls_weights_read(network, file) : status;
}

/* The same for a network that has seen no images, whose shape the file may tell. Memory is taken only for what the file
 * has. */
static ls_status load_first(ls_network *network, const ls_safetensors *file, const char *path, const char *function)
{
    ls_input_shapes takes;
    if (!read_images(ls_safetensors_metadata(file, "images"), &takes))
        return ls_defined_network_of(network->root, function) ? LS_OK : ls_status_of(network->session);
    ls_status status = ls_network_record(network, &takes, function);
    if (status != LS_OK)
        return status;
    status = ls_weights_check(network, file, &network->session->context, path, NULL);
    if (status == LS_OK)
        status = ls_network_compare_classes(network, file, path);
    if (status == LS_OK)
        status = ls_network_fill(network);
    if (status == LS_OK)
        status = ls_weights_read(network, file);
    if (status != LS_OK)
        ls_network_forget(network);
    return status;
}

static ls_status load_into(ls_module *net, const char *path, const char *prefix, const char *function)
{
    ls_network *network = ls_network_of(net, function);
    if (!network || ls_network_wait(network) != LS_OK)
        return net ? ls_status_of(net->session) : LS_BAD_ARGUMENT;
    if (!path)
        return ls_raise(&network->session->context, LS_BAD_ARGUMENT, "%s: path is NULL", function);
    if (ls_network_change(network, function) != LS_OK)
        return ls_status_of(network->session);
    ls_safetensors *file = ls_safetensors_open(&network->session->context, path);
    ls_status status = file ? LS_OK : ls_status_of(network->session);
    if (status == LS_OK && prefix)
        status = ls_safetensors_strip(file, prefix);
    if (status == LS_OK)
        status = network->defined ? load(network, file, path) : load_first(network, file, path, function);
    if (status == LS_OK)
        status = ls_network_learn_classes(network, file);
    ls_safetensors_close(file);
    return status;
}

ls_status ls_module_load(ls_module *net, const char *path)
{
    LS_OWN_ENVIRONMENT;
    return load_into(net, path, NULL, "ls_module_load");
}

ls_status ls_module_load_prefixed(ls_module *net, const char *path, const char *prefix)
{
    LS_OWN_ENVIRONMENT;
    return load_into(net, path, prefix, "ls_module_load_prefixed");
}

ls_status ls_file_model(ls_session *session, const char *path, char *name, size_t size)
{
    LS_OWN_ENVIRONMENT;
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

/* Also with something in front of its name, which ls_module_load_prefixed may leave out. */
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
