/* Files into a network. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <lockstep_weights.h>

#include "base/environment.h"
#include "model/classes.h"
#include "model/initialize.h"
#include "model/loading.h"

/* The shapes of the inputs as ls_weights_tell writes them, "1x28x28", "784" or "1x28x28 784"; false where there are
 * none. */
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

bool ls_loading_skips(const ls_load_options *options, const char *name)
{
    for (const char *const *pattern = options ? options->skip : NULL; pattern && *pattern; pattern++)
        if (fnmatch(*pattern, name, 0) == 0)
            return true;
    return false;
}

const ls_saved *ls_loading_source(const ls_load_options *options, const ls_safetensors *file, const ls_flat *flat,
                                  int view)
{
    const char *name = flat->views[view].name;
    if (ls_loading_skips(options, name))
        return NULL;
    const ls_saved *saved = ls_safetensors_find(file, name);
    for (int i = 0; i < ls_safetensors_count(file) && !saved && flat->n_aliases; i++)
        if (ls_flat_find_by_any(flat, ls_safetensors_at(file, i)->name) == view &&
            !ls_loading_skips(options, ls_safetensors_at(file, i)->name))
            saved = ls_safetensors_at(file, i);
    return saved;
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
                              const ls_saved *saved, const ls_load_options *options)
{
    char is[128], wanted[128];
    int64_t classes;
    const char *mend = options && options->partial ? "; ls_load_options.skip leaves it out"
                       : options                   ? ""
                                                   : "; ls_module_load_with takes a file without it";
    shape_text(is, sizeof is, saved->rank, saved->shape);
    shape_text(wanted, sizeof wanted, view->rank, view->shape);
    if (differs_in_classes(network, view, saved, &classes))
        return ls_raise(context, LS_BAD_FILE,
                        "%s: the weights have %lld classes, the %s %d: parameter %s has shape %s, the network needs "
                        "%s%s",
                        path, (long long)classes, network->of_data ? "data" : "network", network->classes, view->name,
                        is, wanted, mend);
    return ls_raise(context, LS_BAD_FILE, "%s: parameter %s has shape %s, the network needs %s%s", path, view->name, is,
                    wanted, mend);
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

static ls_status refuse_prefix(const ls_safetensors *file, ls_context *context, const char *path, size_t prefix)
{
    char shown[100];
    const int stripped = (int)ls_safetensors_stripped(file); /* too little of it: "mod" of "module." */
    snprintf(shown, sizeof shown, "%.*s", stripped + (int)prefix, ls_safetensors_at(file, 0)->name - stripped);
    return ls_raise(context, LS_BAD_FILE,
                    "%s: all names begin with '%s'; give that as ls_load_options.strip to leave it out", path, shown);
}

enum { FIRST_NAME = 100 };

/* What a file's first array is called, as a hint at whose file it is. */
static const char *first_name(const ls_safetensors *file, char text[FIRST_NAME])
{
    *text = 0;
    if (ls_safetensors_count(file))
        ls_printable(ls_safetensors_at(file, 0)->name, text, FIRST_NAME);
    return text;
}

static ls_status refuse_missing(const ls_safetensors *file, ls_context *context, const char *path, const char *missing)
{
    const size_t prefix = foreign_prefix(file, missing);
    if (prefix)
        return refuse_prefix(file, context, path, prefix);
    char first[FIRST_NAME];
    return ls_raise(context, LS_BAD_FILE,
                    "%s: parameter %s is missing; is this a file of another model? Its first name is \"%s\"", path,
                    missing, first_name(file, first));
}

/* A pattern that fits nothing is a mistake in writing. */
static ls_status check_patterns(const ls_network *network, const ls_safetensors *file, ls_context *context,
                                const char *path, const ls_load_options *options)
{
    const ls_flat *flat = &network->flat;
    for (const char *const *pattern = options ? options->skip : NULL; pattern && *pattern; pattern++) {
        bool fits = false;
        for (int i = 0; i < flat->n_views && !fits; i++)
            fits = fnmatch(*pattern, flat->views[i].name, 0) == 0;
        for (int i = 0; i < ls_safetensors_count(file) && !fits; i++)
            fits = fnmatch(*pattern, ls_safetensors_at(file, i)->name, 0) == 0;
        if (!fits)
            return ls_raise(context, LS_BAD_ARGUMENT,
                            "%s: nothing in it or in the network is called \"%s\", which is to be skipped; the "
                            "network's first parameter is \"%s\", and * stands for any part of a name",
                            path, *pattern, flat->n_views ? flat->views[0].name : "");
    }
    return LS_OK;
}

/* A file that has nothing for the network is another model's, or its names have something in front. */
static ls_status check_any(const ls_network *network, const ls_safetensors *file, ls_context *context, const char *path,
                           const ls_load_options *options)
{
    const ls_flat *flat = &network->flat;
    for (int i = 0; i < flat->n_views; i++)
        if (ls_loading_source(options, file, flat, i))
            return LS_OK;
    for (int i = 0; i < flat->n_views; i++) {
        const size_t prefix = foreign_prefix(file, flat->views[i].name);
        if (prefix)
            return refuse_prefix(file, context, path, prefix);
    }
    char first[FIRST_NAME];
    return flat->n_views ? ls_raise(context, LS_BAD_FILE,
                                    "%s: no parameter of the network would be read from it: the network's first is "
                                    "called \"%s\", the file's \"%s\"",
                                    path, flat->views[0].name, first_name(file, first))
                         : LS_OK;
}

/* A parameter that the file has under several names must have the same values under each. */
static ls_status check_again(const ls_network *network, const ls_safetensors *file, ls_context *context,
                             const char *path, const ls_load_options *options, const ls_saved *saved)
{
    const int view = ls_flat_find_by_any(&network->flat, saved->name);
    const ls_saved *first = view < 0 ? NULL : ls_loading_source(options, file, &network->flat, view);
    if (!first || first == saved || ls_loading_skips(options, saved->name))
        return LS_OK;
    const size_t n = network->flat.views[view].numbers;
    float *values = same_shape(&network->flat.views[view], saved)
                        ? ls_alloc(context, 2 * n, sizeof *values, "a parameter of two names")
                        : NULL;
    ls_status status = ls_context_status(context);
    if (values && (status = ls_safetensors_read(file, first, values)) == LS_OK)
        status = ls_safetensors_read(file, saved, values + n);
    if (status == LS_OK && (!values || memcmp(values, values + n, n * sizeof *values) != 0))
        status = ls_raise(context, LS_BAD_FILE,
                          "%s: %s and %s differ, and are one parameter of the network; ls_load_options.skip leaves one "
                          "out",
                          path, first->name, saved->name);
    ls_release(context, values);
    return status;
}

bool ls_loading_wants(const char *within, const ls_view *view)
{
    return !within || strncmp(view->name, within, strlen(within)) == 0;
}

ls_status ls_loading_check(const ls_network *network, const ls_safetensors *file, ls_context *context, const char *path,
                           const ls_load_options *options, const char *within, bool (*besides)(const char *name))
{
    const bool partial = options && options->partial;
    ls_status status = check_patterns(network, file, context, path, options);
    for (int i = 0; i < network->flat.n_views && status == LS_OK; i++) {
        const ls_view *view = &network->flat.views[i];
        const ls_saved *saved = ls_loading_source(options, file, &network->flat, i);
        if (saved && !same_shape(view, saved))
            status = refuse_shape(network, context, path, view, saved, options);
        else if (!saved && !partial && ls_loading_wants(within, view) && !ls_loading_skips(options, view->name))
            status = refuse_missing(file, context, path, view->name);
    }
    for (int i = 0; i < ls_safetensors_count(file) && status == LS_OK && !partial; i++) {
        const char *name = ls_safetensors_at(file, i)->name;
        if (ls_flat_find_by_any(&network->flat, name) < 0 && !ls_saved_ignored(name) && !(besides && besides(name)) &&
            !ls_loading_skips(options, name))
            status = ls_raise(context, LS_BAD_FILE,
                              "%s: the network has no parameter %s; is this a file of another model? The network's "
                              "first is \"%s\"",
                              path, name, network->flat.n_views ? network->flat.views[0].name : "");
    }
    for (int i = 0; i < ls_safetensors_count(file) && status == LS_OK && network->flat.n_aliases; i++)
        status = check_again(network, file, context, path, options, ls_safetensors_at(file, i));
    return status == LS_OK ? check_any(network, file, context, path, options) : status;
}

static float *values_of(const ls_network *network, int number, const ls_view *view)
{
    return (view->trainable ? network->weights[number] : network->state[number]) + view->offset;
}

ls_status ls_loading_read(ls_network *network, const ls_safetensors *file, const ls_load_options *options)
{
    const int current = atomic_load(&network->current), next = 1 - current;
    for (int i = 0; i < network->flat.n_views; i++) {
        const ls_view *view = &network->flat.views[i];
        const ls_saved *saved = ls_loading_source(options, file, &network->flat, i);
        float *values = values_of(network, next, view);
        ls_status status = saved ? ls_safetensors_read(file, saved, values) : LS_OK;
        if (status != LS_OK)
            return status;
        if (!saved)
            memcpy(values, values_of(network, current, view), view->numbers * sizeof *values);
    }
    atomic_store(&network->current, next);
    ls_network_changed(network);
    return LS_OK;
}

/* A load under way. */
typedef struct loading {
    ls_network *network;
    const char *path, *function;
    const ls_load_options *options; /* may be NULL */
    char *within;                   /* the path of the part that it is for, with a dot; NULL: the whole network */
    ls_load_options below;          /* of a part: the options with names as the network has them */
    const char **skip;
    ls_safetensors *file;
    bool reported;      /* the report is asked for */
    const char *report; /* made before anything is read, and given after */
} loading;

/* The classes are what the network's last parameters tell apart; where these keep their values, they are not the
 * file's. */
static bool brings_classes(const loading *l)
{
    const ls_flat *flat = &l->network->flat;
    int last = flat->n_views - 1;
    while (last > 0 && !flat->views[last].trainable)
        last--;
    return last < 0 || ls_loading_source(l->options, l->file, flat, last);
}

static ls_status check(loading *l)
{
    ls_context *context = &l->network->session->context;
    ls_status status = ls_loading_check(l->network, l->file, context, l->path, l->options, l->within, NULL);
    if (status == LS_OK && brings_classes(l))
        status = ls_network_compare_classes(l->network, l->file, l->path);
    if (status != LS_OK || !l->reported)
        return status;
    l->report = ls_loading_report(l->network, l->file, l->options, l->within);
    return l->report ? LS_OK : ls_status_of(l->network->session);
}

static ls_status load(loading *l)
{
    ls_status status = check(l);
    return status == LS_OK ? ls_loading_read(l->network, l->file, l->options) : status;
}

/* The same for a network that has seen no images, whose shape the file may tell. Memory is taken only for what the file
 * has. */
static ls_status load_first(loading *l)
{
    ls_network *network = l->network;
    ls_input_shapes takes;
    if (!read_images(ls_safetensors_metadata(l->file, "images"), &takes))
        return ls_defined_network_of(network->root, l->function) ? LS_OK : ls_status_of(network->session);
    ls_status status = ls_network_record(network, &takes, l->function);
    if (status != LS_OK)
        return status;
    status = check(l);
    if (status == LS_OK)
        status = ls_network_fill(network);
    if (status == LS_OK)
        status = ls_loading_read(network, l->file, l->options);
    if (status != LS_OK)
        ls_network_forget(network);
    return status;
}

/* Names of the file and patterns are those below the part; the network's are longer. */
static ls_status lead(loading *l)
{
    ls_session *session = l->network->session;
    ls_context *context = &session->context;
    int n = 0;
    if (!l->within || ls_safetensors_lead(l->file, l->within) != LS_OK || !l->options)
        return ls_status_of(session);
    while (l->options->skip && l->options->skip[n])
        n++;
    l->skip = ls_alloc(context, (size_t)n + 1, sizeof *l->skip, "the patterns of a load");
    for (int i = 0; l->skip && i < n; i++) {
        char *whole = ls_format(context, "a pattern", "%s%s", l->within, l->options->skip[i]);
        l->skip[i] = whole ? ls_intern(session, whole) : NULL;
        ls_release(context, whole);
    }
    l->below = *l->options;
    l->below.skip = l->skip;
    l->options = &l->below;
    return ls_status_of(session);
}

static ls_status read_file(loading *l)
{
    ls_network *network = l->network;
    l->file = ls_safetensors_open(&network->session->context, l->path);
    ls_status status = l->file ? LS_OK : ls_status_of(network->session);
    if (status == LS_OK && l->options && l->options->strip)
        status = ls_safetensors_strip(l->file, l->options->strip);
    if (status == LS_OK)
        status = lead(l);
    if (status == LS_OK)
        status = network->defined ? load(l) : load_first(l);
    if (status == LS_OK && brings_classes(l))
        status = ls_network_learn_classes(network, l->file);
    ls_safetensors_close(l->file);
    ls_release(&network->session->context, l->skip);
    return status;
}

static ls_status load_into(ls_module *net, loading *l)
{
    ls_module *root = net ? ls_module_root(net) : NULL;
    const bool part = root != net;
    ls_network *network = l->network =
        part ? ls_defined_network_of(root, l->function) : ls_network_of(net, l->function);
    if (!network || ls_network_wait(network) != LS_OK)
        return net ? ls_status_of(net->session) : LS_BAD_ARGUMENT;
    ls_context *context = &network->session->context;
    if (!l->path)
        return ls_raise(context, LS_BAD_ARGUMENT, "%s: path is NULL", l->function);
    if (ls_network_change(network, l->function) != LS_OK)
        return ls_status_of(network->session);
    char path[LS_MODULE_PATH];
    l->within = part ? ls_format(context, "a module's path", "%s.", ls_module_path(net, path)) : NULL;
    const ls_status status = part && !l->within ? LS_OUT_OF_MEMORY : read_file(l);
    ls_release(context, l->within);
    return status;
}

ls_status ls_module_load(ls_module *net, const char *path)
{
    LS_OWN_ENVIRONMENT;
    return load_into(net, &(loading){.path = path, .function = "ls_module_load"});
}

ls_status ls_module_load_with(ls_module *net, const char *path, const ls_load_options *options, const char **report)
{
    LS_OWN_ENVIRONMENT;
    loading l = {.path = path, .function = "ls_module_load_with", .options = options, .reported = report};
    const ls_status status = load_into(net, &l);
    if (report)
        *report = status == LS_OK ? l.report : NULL;
    return status;
}
