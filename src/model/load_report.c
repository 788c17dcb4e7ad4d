/* What a load has done, in plain lines. */
#include "model/loading.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <lockstep_weights.h>

/* Without text it only counts. */
typedef struct writer {
    char *text;
    size_t room, length;
    const char *within; /* as in ls_loading_wants */
} writer;

static __attribute__((format(printf, 2, 3))) void put(writer *w, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(w->text ? w->text + w->length : NULL, w->text ? w->room - w->length : 0, format, arguments);
    va_end(arguments);
    w->length += n > 0 ? (size_t)n : 0;
}

/* A line of names that begins with the first of them. */
static void put_name(writer *w, int *n, const char *head, const char *name)
{
    put(w, *n ? ", %s%s" : "\n%s: %s", *n ? "" : head, name);
    ++*n;
}

static int count_read(const ls_network *network, const ls_safetensors *file, const ls_load_options *options,
                      const char *dtype)
{
    int n = 0;
    for (int i = 0; i < network->flat.n_views; i++) {
        const ls_saved *saved = ls_loading_source(options, file, &network->flat, i);
        n += saved && (!dtype || strcmp(saved->dtype, dtype) == 0);
    }
    return n;
}

static void put_read(writer *w, const ls_network *network, const ls_safetensors *file, const ls_load_options *options)
{
    int counters = 0;
    for (int i = 0; i < ls_safetensors_count(file); i++)
        counters += ls_saved_ignored(ls_safetensors_at(file, i)->name);
    int wanted = 0;
    for (int i = 0; i < network->flat.n_views; i++)
        wanted += ls_loading_wants(w->within, &network->flat.views[i]);
    put(w, "read %d of %d parameters", count_read(network, file, options, NULL), wanted);
    if (counters)
        put(w, "; %d num_batches_tracked say nothing and are passed over", counters);
}

static void put_converted(writer *w, const ls_network *network, const ls_safetensors *file,
                          const ls_load_options *options)
{
    static const char *const dtypes[] = {"F16", "BF16", "F64"};
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
        char head[40];
        int n = 0;
        snprintf(head, sizeof head, "converted from %s to float32", dtypes[k]);
        const int all = count_read(network, file, options, dtypes[k]);
        if (all && all == count_read(network, file, options, NULL)) {
            put_name(w, &n, head, "all");
            continue;
        }
        for (int i = 0; all && i < network->flat.n_views; i++) {
            const ls_saved *saved = ls_loading_source(options, file, &network->flat, i);
            if (saved && strcmp(saved->dtype, dtypes[k]) == 0)
                put_name(w, &n, head, saved->name);
        }
    }
}

static void put_kept(writer *w, const ls_network *network, const ls_safetensors *file, const ls_load_options *options,
                     bool skipped)
{
    int n = 0;
    for (int i = 0; i < network->flat.n_views; i++) {
        const ls_view *view = &network->flat.views[i];
        if (ls_loading_wants(w->within, view) && !ls_loading_source(options, file, &network->flat, i) &&
            ls_loading_skips(options, view->name) == skipped)
            put_name(w, &n, skipped ? "kept, skipped" : "kept, not in the file", view->name);
    }
}

static void put_passed_over(writer *w, const ls_network *network, const ls_safetensors *file,
                            const ls_load_options *options, bool skipped)
{
    int n = 0;
    for (int i = 0; i < ls_safetensors_count(file); i++) {
        const char *name = ls_safetensors_at(file, i)->name;
        if (!ls_saved_ignored(name) && ls_flat_find_by_any(&network->flat, name) < 0 &&
            ls_loading_skips(options, name) == skipped)
            put_name(w, &n, skipped ? "passed over, skipped" : "passed over, not in the network", name);
    }
}

static void put_all(writer *w, const ls_network *network, const ls_safetensors *file, const ls_load_options *options)
{
    put_read(w, network, file, options);
    put_converted(w, network, file, options);
    put_kept(w, network, file, options, true);
    put_kept(w, network, file, options, false);
    put_passed_over(w, network, file, options, true);
    put_passed_over(w, network, file, options, false);
}

const char *ls_loading_report(const ls_network *network, const ls_safetensors *file, const ls_load_options *options,
                              const char *within)
{
    ls_session *session = network->session;
    writer w = {.within = within};
    put_all(&w, network, file, options);
    w.room = w.length + 1;
    w.text = ls_alloc(&session->context, w.room, 1, "what was loaded");
    if (!w.text)
        return NULL;
    w.length = 0;
    put_all(&w, network, file, options);
    const char *kept = ls_intern(session, w.text);
    ls_release(&session->context, w.text);
    return ls_failed(session) ? NULL : kept;
}
