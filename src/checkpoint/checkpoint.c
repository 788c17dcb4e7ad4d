/* Checkpoints: a copy of what a run has come to, written while the run goes on, and the way back to it. Over ranks rank
 * 0 has the folder, and needs no other's disk; all come to every call, and what one of them meets is told to all before
 * they go on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/thread.h"
#include "base/timer.h"
#include "checkpoint/settings.h"
#include "cluster/cluster.h"
#include "data/data.h"
#include "io/folder.h"
#include "model/loading.h"
#include "model/weights.h"
#include "optim/optimizer.h"
#include "train/gathered.h"
#include "train/job.h"
#include "train/measure.h"
#include "train/remember.h"
#include "train/trainer.h"
#include "train/updates.h"

enum { DEFAULT_KEEP = 3, REMEMBERED = 3 /* section */ };
static const char remembered[] = "remembered";

struct ls_checkpoints {
    ls_session *session; /* first: ls_session_of reads it */
    ls_trainer *trainer;
    ls_data *data;
    char *directory; /* of a rank above 0 as it was named there, for messages alone */
    ls_lock *lock;
    int keep;
    ls_settings settings;
    void (*told)(const char *line, void *user);
    void *user;
    ls_notes came;    /* with what was loaded */
    int64_t *damaged; /* [n_damaged] numbers: removed, before others, when there is a newer one */
    int n_damaged;
    const char *differ[LS_SETTINGS + 1]; /* why the newest whole one was refused, where that was its settings */
    /* A copy of the weights, the statistics, what the trainer remembers of both, the moments, and the average of the
     * statistics, one after another; and the arrays in it. */
    float *copy;
    bool remembers; /* it has room for that */
    ls_named_array *arrays;
    int n_arrays;
    int first[LS_SECTIONS]; /* section i of the file, from 1, has the arrays from first[i - 1] up to first[i] */
    /* The write under way has these for itself. */
    ls_context context; /* its failures are the session's only once they are asked for */
    pthread_t thread;
    bool writing;
    int64_t next; /* number */
    bool found;   /* there were whole ones */
    bool made;    /* the folder was not there */
    ls_manifest manifest;
    ls_notes notes;
    ls_weights_about about;
};

static bool holds_folder(const ls_checkpoints *c)
{
    return ls_cluster_rank(c->session->options.cluster) == 0;
}

/* Rank 0's bytes go to all. */
static ls_status share(ls_checkpoints *c, void *data, size_t bytes)
{
    ls_cluster *cluster = c->session->options.cluster;
    return cluster ? ls_cluster_gather_from(cluster, &c->session->context, 0, data, bytes) : LS_OK;
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

/* Makes the private failure the session's. */
static ls_status pass_on(ls_checkpoints *c, const char *function)
{
    ls_status status = ls_context_status(&c->context);
    if (status != LS_OK) {
        ls_raise(&c->session->context, status, "%s: %s", function, c->context.message);
        c->context.status = LS_OK;
    }
    return ls_status_of(c->session);
}

static void join(ls_checkpoints *c)
{
    if (c->writing)
        pthread_join(c->thread, NULL);
    c->writing = false;
    ls_notes_free(&c->context, &c->notes);
    ls_weights_about_free(&c->session->context, &c->about);
}

static void drop_copy(ls_checkpoints *c)
{
    ls_context *context = &c->session->context;
    for (int i = c->first[2]; i < c->n_arrays; i++) /* the others bear their parameters' own names */
        ls_release(context, (void *)c->arrays[i].name);
    ls_release(context, c->arrays);
    ls_release(context, c->copy);
    c->arrays = NULL;
    c->copy = NULL;
    c->n_arrays = 0;
}

static void free_checkpoints(void *object)
{
    ls_checkpoints *c = object;
    ls_context *context = &c->session->context;
    join(c);
    pass_on(c, "ls_checkpoint_save");
    c->trainer->noted--;
    drop_copy(c);
    ls_notes_free(context, &c->came);
    ls_release(context, c->damaged);
    ls_lock_give(c->lock);
    if (c->made)
        rmdir(c->directory); /* unless something was written: of a path with a slip in it nothing stays */
    ls_release(context, c->directory);
    if (c->data)
        ls_data_free(c->data);
    ls_context_destroy(&c->context);
    ls_release(context, c);
}

static ls_status hold_folder(ls_checkpoints *c)
{
    ls_context *context = &c->session->context;
    c->made = access(c->directory, F_OK) != 0;
    if (ls_make_directories(context, c->directory) != LS_OK || !(c->lock = ls_lock_take(context, c->directory)) ||
        ls_folder_sweep(context, c->directory) != LS_OK)
        return ls_status_of(c->session);
    ls_folder_has_whole(context, c->directory, &c->found);
    return ls_folder_next(context, c->directory, &c->next);
}

static const char *not_built_in(void)
{
#if !LOCKSTEP_HAVE_JANSSON
    return "a JSON library";
#elif !LOCKSTEP_HAVE_CRYPTO
    return "a hash library";
#else
    return NULL;
#endif
}

static ls_status check_call(const ls_trainer *trainer, const ls_data *data, const char *directory, int keep)
{
    ls_session *session = trainer->session;
    ls_context *context = &session->context;
    bool first = ls_cluster_rank(session->options.cluster) == 0;
    if (ls_failed(session))
        return ls_status_of(session);
    if ((first && (!directory || !*directory)) || keep < 0)
        return ls_raise(context, LS_BAD_ARGUMENT,
                        "ls_checkpoints_open: needs a directory, and keep must be at least 0");
    if (data && data->session != session)
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_checkpoints_open: the data are of another session");
    if (first && not_built_in())
        return ls_raise(
            context, LS_UNSUPPORTED,
            "ls_checkpoints_open: this library was built without %s and has no checkpoints; see ls_features",
            not_built_in());
    return LS_OK;
}

static ls_checkpoints *new_checkpoints(ls_trainer *trainer, ls_data *data, const char *directory,
                                       const ls_checkpoint_options *o)
{
    ls_context *context = &trainer->session->context;
    ls_checkpoints *c = ls_alloc(context, 1, sizeof *c, "a folder of checkpoints");
    if (!c)
        return NULL;
    if (ls_context_init(&c->context, &context->allocator) != LS_OK) {
        ls_raise(context, LS_OUT_OF_MEMORY, "ls_checkpoints_open: no memory for a lock");
        ls_release(context, c);
        return NULL;
    }
    c->session = trainer->session;
    c->trainer = trainer;
    trainer->noted++;
    c->data = data;
    c->keep = o->keep ? o->keep : DEFAULT_KEEP;
    c->told = o->told;
    c->user = o->user;
    if (data)
        ls_counted_hold(&data->counted);
    c->directory = ls_copy_string(context, directory ? directory : "", "a path");
    if (c->directory && holds_folder(c) &&
        ls_settings_take(&c->settings, trainer, data, o->settings, o->allow_changed) == LS_OK)
        hold_folder(c);
    return c;
}

ls_checkpoints *ls_checkpoints_open(ls_trainer *trainer, ls_data *data, const char *directory,
                                    const ls_checkpoint_options *options)
{
    LS_OWN_ENVIRONMENT;
    if (!trainer)
        return NULL;
    ls_session *session = trainer->session;
    ls_checkpoint_options o = options ? *options : (ls_checkpoint_options){.keep = 0};
    ls_checkpoints *c =
        check_call(trainer, data, directory, o.keep) == LS_OK ? new_checkpoints(trainer, data, directory, &o) : NULL;
    if (ls_cluster_agree_error(session) == LS_OK && ls_updates_agree(trainer) == LS_OK &&
        share(c, &c->found, sizeof c->found) == LS_OK)
        return ls_own_of(session, c, trainer, free_checkpoints);
    if (c)
        free_checkpoints(c);
    return NULL;
}

bool ls_checkpoints_found(const ls_checkpoints *c)
{
    return c && c->found;
}

/* ---- Saving ------------------------------------------------------------------------------------------------------ */

typedef enum contents { PARAMETERS, STATISTICS, MOMENTS } contents;

/* The arrays of one section of the file, which lie from `begin` on. */
static ls_status name_section(ls_checkpoints *c, int section, contents of, float *begin, const char *prefix)
{
    const ls_flat *flat = &c->trainer->network->flat;
    for (int i = 0; i < flat->n_views; i++) {
        const ls_view *view = &flat->views[i];
        if (view->trainable == (of == STATISTICS) || (of == MOMENTS && view->frozen))
            continue;
        const char *name = prefix ? ls_format(&c->session->context, "a name", "%s:%s", prefix, view->name) : view->name;
        if (!name)
            return LS_OUT_OF_MEMORY;
        c->arrays[c->n_arrays++] = (ls_named_array){name, view->rank, view->shape, begin + view->offset};
    }
    c->first[section] = c->n_arrays;
    return LS_OK;
}

/* The section that the moments begin with. */
static int moments_section(const ls_checkpoints *c)
{
    return REMEMBERED + (c->remembers ? 1 : 0);
}

static size_t moments_place(const ls_checkpoints *c)
{
    const ls_flat *flat = &c->trainer->network->flat;
    return (c->remembers ? 2 : 1) * (flat->parameters + flat->state);
}

/* Those of its average, which are in the section of that of the weights. */
static size_t averaged_state(const ls_checkpoints *c)
{
    return c->trainer->options.ema_buffers ? c->trainer->network->flat.state : 0;
}

static float *average_state_of(const ls_checkpoints *c)
{
    return c->copy + moments_place(c) + (size_t)c->trainer->n_moments * c->trainer->network->flat.trainable;
}

static const char *moment_name(const ls_checkpoints *c, int i)
{
    return ls_optimizer_moment(c->trainer->kind, &c->trainer->options, i);
}

static bool name_sections(ls_checkpoints *c)
{
    const ls_flat *flat = &c->trainer->network->flat;
    const size_t weights = flat->parameters, both = weights + flat->state;
    bool good = name_section(c, 1, PARAMETERS, c->copy, NULL) == LS_OK &&
                name_section(c, 2, STATISTICS, c->copy + weights, NULL) == LS_OK;
    if (c->remembers)
        good = good && name_section(c, REMEMBERED, PARAMETERS, c->copy + both, remembered) == LS_OK &&
               name_section(c, REMEMBERED, STATISTICS, c->copy + both + weights, remembered) == LS_OK;
    for (int i = 0; i < c->trainer->n_moments && good; i++)
        good = name_section(c, moments_section(c) + i, MOMENTS,
                            c->copy + moments_place(c) + (size_t)i * flat->trainable, moment_name(c, i)) == LS_OK;
    if (averaged_state(c) && good) {
        const int last = c->trainer->n_moments - 1;
        good =
            name_section(c, moments_section(c) + last, STATISTICS, average_state_of(c), moment_name(c, last)) == LS_OK;
    }
    return good;
}

/* Room for the copy, once the shapes are known, and anew where the trainer remembers something for the first time. */
static ls_status reserve(ls_checkpoints *c, const char *function)
{
    ls_network *network = ls_defined_network_of(c->trainer->network->root, function);
    const bool remembers = c->trainer->remembered != NULL;
    if (!network || (c->arrays && c->remembers == remembers))
        return ls_status_of(c->session);
    drop_copy(c);
    c->remembers = remembers;
    ls_context *context = &c->session->context;
    const size_t moments = (size_t)c->trainer->n_moments, views = (size_t)network->flat.n_views;
    c->copy = ls_alloc(context, moments_place(c) + moments * network->flat.trainable + averaged_state(c),
                       sizeof *c->copy, "a copy of the weights");
    c->arrays = c->copy ? ls_alloc(context, (2 + moments) * views, sizeof *c->arrays, "a list of arrays") : NULL;
    if (c->arrays && name_sections(c))
        return LS_OK;
    drop_copy(c);
    return LS_OUT_OF_MEMORY;
}

/* `moments` (may be NULL) are whole, and hold `age` updates, and the average behind them `averaged`. */
static void copy_values(ls_checkpoints *c, const float *moments, int64_t age, int64_t averaged)
{
    const ls_network *network = c->trainer->network;
    const ls_flat *flat = &network->flat;
    int current = atomic_load(&network->current);
    memcpy(c->copy, network->weights[current], flat->parameters * sizeof *c->copy);
    memcpy(c->copy + flat->parameters, network->state[current], flat->state * sizeof *c->copy);
    int64_t step = c->trainer->network->updates;
    const int n_moments = moments ? c->trainer->n_moments : 0;
    if (moments)
        memcpy(c->copy + moments_place(c), moments, (size_t)n_moments * flat->trainable * sizeof *c->copy);
    if (moments && averaged_state(c))
        memcpy(average_state_of(c), c->trainer->average_state, flat->state * sizeof *c->copy);
    if (c->remembers)
        memcpy(c->copy + flat->parameters + flat->state, c->trainer->remembered,
               (flat->parameters + flat->state) * sizeof *c->copy);
    static const char *const names[] = {"header", "weights", "statistics", remembered};
    const int begin = moments_section(c);
    c->manifest = (ls_manifest){.step = step,
                                .age = moments ? age : step,
                                .averaged = !moments                                      ? step
                                            : ls_optimizer_averages(&c->trainer->options) ? averaged
                                                                                          : age,
                                .epoch = c->data ? c->data->epoch : 0,
                                .batch = c->data ? c->data->position : 0,
                                .lr = c->trainer->lr == c->trainer->options.lr ? -1 : c->trainer->lr,
                                .settings = c->settings.list,
                                .notes = c->notes.list,
                                .n_sections = begin + n_moments};
    for (int i = 0; i < c->manifest.n_sections; i++)
        c->manifest.sections[i].name = i < begin ? names[i] : moment_name(c, i - begin);
}

static void *write_checkpoint(void *argument)
{
    LS_OWN_ENVIRONMENT;
    ls_checkpoints *c = argument;
    int n = c->first[c->manifest.n_sections - 1];
    double begin = ls_seconds();
    if (ls_folder_write(&c->context, c->directory, c->next, c->arrays, n, c->first, c->about.pairs, c->about.n,
                        &c->manifest) == LS_OK) {
        for (int i = 0; i < c->n_damaged; i++)
            ls_folder_remove(&c->context, c->directory, c->damaged[i]);
        c->n_damaged = 0;
        ls_folder_prune(&c->context, c->directory, c->keep);
    }
    c->next++; /* also after a failure: nothing is ever written over */
    ls_measure_checkpoint(c->trainer, c->manifest.step, begin, ls_seconds());
    return NULL;
}

ls_status ls_checkpoint_wait(ls_checkpoints *c)
{
    LS_OWN_ENVIRONMENT;
    if (!c || ls_context_is_parents(&c->session->context))
        return c ? ls_status_of(c->session) : LS_BAD_ARGUMENT;
    join(c);
    pass_on(c, "ls_checkpoint_wait");
    return ls_cluster_agree_error(c->session);
}

/* Everything that a save or a load needs before ranks exchange anything; its failure is for them to be told. */
static ls_status make_ready(ls_checkpoints *c, const char *function)
{
    if (ls_failed(c->session))
        return ls_status_of(c->session);
    join(c);
    if (pass_on(c, "ls_checkpoint_save") != LS_OK || ls_trainer_wait(c->trainer, function) != LS_OK)
        return ls_status_of(c->session);
    return holds_folder(c) ? reserve(c, function) : LS_OK;
}

ls_status ls_checkpoint_save(ls_checkpoints *c, const ls_note *notes)
{
    LS_OWN_ENVIRONMENT;
    if (!c)
        return LS_BAD_ARGUMENT;
    if (make_ready(c, "ls_checkpoint_save") == LS_OK && holds_folder(c) &&
        ls_notes_copy(&c->session->context, &c->notes, notes) == LS_OK)
        ls_weights_tell(c->trainer->network, "checkpoint", &c->about);
    int64_t age, averaged;
    if (ls_cluster_agree_error(c->session) != LS_OK)
        return ls_status_of(c->session);
    float *moments = ls_trainer_moments(c->trainer, &age, &averaged);
    if (ls_cluster_agree_error(c->session) != LS_OK || (moments && ls_gathered_moments(c->trainer, moments) != LS_OK))
        return ls_status_of(c->session); /* also where a card did not give them */
    if (!holds_folder(c))
        return LS_OK;
    copy_values(c, moments, age, averaged);
    c->writing = ls_thread_start(&c->thread, write_checkpoint, c);
    if (!c->writing)
        write_checkpoint(c); /* no thread to be had: the run waits */
    return LS_OK;
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

static void tell(const ls_checkpoints *c, const char *why)
{
    char line[sizeof c->context.message + 32];
    snprintf(line, sizeof line, "passed over: %s", why);
    if (c->told)
        c->told(line, c->user);
}

/* Where a run whose batches were of another size goes on: at the first batch with nothing that was seen. */
static int batch_now(const ls_checkpoints *c, const ls_manifest *m)
{
    const char *text = ls_note_find(m->settings, "batch");
    int64_t was = text ? strtoll(text, NULL, 10) : c->data->batch, batches = ls_data_batches(c->data);
    if (was < 1 || was == c->data->batch || m->batch > INT32_MAX / was)
        was = c->data->batch;
    int64_t batch = was == c->data->batch ? m->batch : (m->batch * was + c->data->batch - 1) / c->data->batch;
    return (int)(batch < batches ? batch : batches);
}

/* LS_OK where what was saved is as many numbers as it is for. */
static ls_status check_numbers(ls_checkpoints *c, const ls_saved *saved, int64_t numbers)
{
    if (saved->numbers == numbers)
        return LS_OK;
    return ls_raise(&c->context, LS_BAD_FILE,
                    "%s has %lld numbers, and its parameter %lld; the checkpoint is of another network, or damaged",
                    saved->name, (long long)saved->numbers, (long long)numbers);
}

/* The moments of these numbers, into their place in the copy; true where the file has them. */
static bool read_moments(ls_checkpoints *c, const ls_safetensors *file, int from, int to, ls_status *status)
{
    const int begin = c->first[moments_section(c) - 1 + from], end = c->first[moments_section(c) - 1 + to];
    for (int i = begin; i < end && *status == LS_OK; i++) {
        const ls_saved *saved = ls_safetensors_find(file, c->arrays[i].name);
        if (!saved)
            return false;
        *status = check_numbers(c, saved, ls_named_array_numbers(&c->arrays[i]));
        if (*status == LS_OK)
            *status = ls_safetensors_read(file, saved, (float *)c->arrays[i].values);
        if (*status != LS_OK)
            return false;
    }
    return *status == LS_OK && end > begin;
}

/* Whether the network has no such array of its own, and yet it may be there. */
static bool is_besides(const char *name)
{
    return ls_is_moment(name) || strncmp(name, "remembered:", sizeof remembered) == 0;
}

/* One view of what was remembered, to its place; *there is false where the file has it not. */
static ls_status read_view(ls_checkpoints *c, const ls_safetensors *file, const ls_view *view, float *values,
                           bool *there)
{
    const size_t begin = view->trainable ? 0 : c->trainer->network->flat.parameters;
    char *name = ls_format(&c->context, "a name", "%s:%s", remembered, view->name);
    const ls_saved *saved = name ? ls_safetensors_find(file, name) : NULL;
    ls_release(&c->context, name);
    *there = saved != NULL;
    if (saved && check_numbers(c, saved, (int64_t)view->numbers) != LS_OK)
        return ls_context_status(&c->context);
    return saved ? ls_safetensors_read(file, saved, values + begin + view->offset) : ls_context_status(&c->context);
}

/* What the run that was saved remembered; *values is NULL where that is nothing. */
static ls_status read_remembered(ls_checkpoints *c, const ls_safetensors *file, float **values)
{
    const ls_flat *flat = &c->trainer->network->flat;
    ls_status status = LS_OK;
    bool there = (*values = ls_remembered_new(&c->context, c->trainer->network)) != NULL;
    for (int i = 0; i < flat->n_views && there && status == LS_OK; i++)
        status = read_view(c, file, &flat->views[i], *values, &there);
    if (status == LS_OK)
        status = ls_context_status(&c->context);
    if (status == LS_OK && there)
        return LS_OK;
    ls_release(&c->context, *values);
    *values = NULL;
    return status;
}

/* Where a run goes on. */
typedef struct point {
    int64_t number; /* of the checkpoint; 0: none */
    int64_t step, epoch, batch;
    int64_t moments, age, averaged; /* whether there are any, and the updates that they, and the average, hold */
    double lr;                      /* negative: the options' */
    int64_t remembers;
    int64_t notes; /* bytes */
} point;

/* Whether allowing what differs would help: the weights may be another network's. The context keeps its refusal. */
static bool weights_fit(ls_checkpoints *c, int64_t number, const char *path)
{
    static const ls_load_options whole = {.partial = false};
    const ls_status refused = c->context.status;
    char why[sizeof c->context.message];
    memcpy(why, c->context.message, sizeof why);
    ls_context_clear(&c->context);
    ls_safetensors *file = ls_folder_open(&c->context, c->directory, number);
    const bool fit =
        file && ls_loading_check(c->trainer->network, file, &c->context, path, &whole, NULL, is_besides) == LS_OK;
    ls_safetensors_close(file);
    memcpy(c->context.message, why, sizeof why);
    c->context.status = refused;
    return fit;
}

/* All that can be refused comes before anything is changed. */
static ls_status restore(ls_checkpoints *c, const ls_manifest *m, const ls_safetensors *file, const char *path,
                         point *to)
{
    static const ls_load_options whole = {.partial = false};
    ls_network *network = c->trainer->network;
    ls_status status = ls_loading_check(network, file, &c->context, path, &whole, NULL, is_besides);
    if (status != LS_OK) {
        c->context.status = LS_CHANGED; /* whole, and of another network */
        return LS_CHANGED;
    }
    const int all = c->trainer->n_moments, own = all - ls_optimizer_averages(&c->trainer->options);
    status = LS_OK;
    to->age = read_moments(c, file, 0, own, &status) || !own ? m->age : 0;
    to->averaged = read_moments(c, file, own, all, &status) ? m->averaged : 0;
    to->moments = (own && to->age) || to->averaged;
    to->lr = m->lr;
    float *values = NULL;
    if (status == LS_OK)
        status = read_remembered(c, file, &values);
    if (status == LS_OK && (status = ls_loading_read(network, file, NULL)) != LS_OK)
        ls_release(&c->context, values);
    if (status != LS_OK)
        return status;
    ls_remembered_take(c->trainer, values);
    to->remembers = values != NULL;
    const float *moments = to->moments ? c->copy + moments_place(c) : NULL;
    if (ls_trainer_restore(c->trainer, m->step, moments, to->age, to->averaged, to->lr) == LS_OK && c->data)
        ls_data_seek(c->data, m->epoch, batch_now(c, m));
    if (to->averaged && averaged_state(c))
        memcpy(c->trainer->average_state, average_state_of(c), averaged_state(c) * sizeof *c->copy);
    to->step = m->step;
    to->epoch = c->data ? c->data->epoch : m->epoch;
    to->batch = c->data ? c->data->position : m->batch;
    return ls_status_of(c->session);
}

/* One checkpoint: LS_OK when it was loaded, with its notes; else why not, in the private context. */
static ls_status try_one(ls_checkpoints *c, int64_t number, const char **differ, point *to)
{
    ls_manifest m;
    ls_notes notes = {.text = NULL};
    ls_status status = ls_folder_check(&c->context, c->directory, number, &m);
    if (status != LS_OK)
        return status;
    char *path = ls_folder_path(&c->context, c->directory, number, "json");
    status = path ? ls_settings_compare(&c->settings, m.settings, &c->context, path, differ) : LS_OUT_OF_MEMORY;
    if (status == LS_CHANGED && differ && !weights_fit(c, number, path))
        differ[0] = NULL;
    if (status == LS_OK)
        status = ls_notes_copy(&c->context, &notes, m.notes);
    ls_safetensors *file = status == LS_OK ? ls_folder_open(&c->context, c->directory, number) : NULL;
    if (status == LS_OK)
        status = file ? restore(c, &m, file, path, to) : ls_context_status(&c->context);
    ls_safetensors_close(file);
    ls_release(&c->context, path);
    ls_manifest_free(&c->context, &m);
    ls_notes_free(&c->context, status == LS_OK ? &c->came : &notes);
    if (status == LS_OK) {
        c->came = notes;
        to->notes = (int64_t)notes.bytes;
        to->number = number;
    }
    return status;
}

/* What was passed over for its settings is told once an older one is loaded; when none is, it is the failure. */
typedef struct refusals {
    char **why; /* [n] */
    ls_status *status;
    int n;
} refusals;

static void end_refusals(ls_checkpoints *c, refusals *r, bool loaded)
{
    for (int i = 0; i < r->n && loaded; i++)
        tell(c, r->why[i]);
    if (r->n && !loaded && ls_context_status(&c->context) == LS_OK)
        ls_raise(&c->context, r->status[0], "%s", r->why[0]);
    for (int i = 0; i < r->n; i++)
        ls_release(&c->context, r->why[i]);
    ls_release(&c->context, r->why);
    ls_release(&c->context, r->status);
}

/* From the newest on. */
static void try_all(ls_checkpoints *c, const int64_t *numbers, int n, point *to)
{
    refusals r = {.why = ls_alloc(&c->context, (size_t)n, sizeof *r.why, "a list of checkpoints"),
                  .status = ls_alloc(&c->context, (size_t)n, sizeof *r.status, "a list of checkpoints")};
    c->n_damaged = 0;
    c->differ[0] = NULL;
    for (int i = 0; i < n && !to->number && ls_context_status(&c->context) == LS_OK && !ls_failed(c->session); i++) {
        ls_status status = try_one(c, numbers[i], r.n ? NULL : c->differ, to);
        if (status == LS_BAD_FILE) {
            tell(c, c->context.message);
            c->damaged[c->n_damaged++] = numbers[i];
            c->context.status = LS_OK;
        } else if (status == LS_CHANGED || status == LS_UNSUPPORTED) {
            c->context.status = LS_OK;
            r.why[r.n] = ls_copy_string(&c->context, c->context.message, "a message");
            r.status[r.n] = status;
            r.n += r.why[r.n] != NULL;
        } /* else loaded, or not the checkpoint's fault: one that cannot be read now is none to pass over */
    }
    end_refusals(c, &r, to->number != 0);
    pass_on(c, "ls_checkpoint_load");
}

static void load_newest(ls_checkpoints *c, point *to)
{
    ls_context *context = &c->session->context;
    int64_t *numbers;
    int n;
    if (ls_folder_list(context, c->directory, true, &numbers, &n) == LS_OK) {
        ls_release(context, c->damaged);
        c->damaged = ls_alloc(context, (size_t)n, sizeof *c->damaged, "a list of checkpoints");
        if (c->damaged)
            try_all(c, numbers, n, to);
    }
    ls_release(context, numbers);
}

static ls_status share_remembered(ls_checkpoints *c)
{
    const ls_flat *flat = &c->trainer->network->flat;
    return share(c, c->trainer->remembered, (flat->parameters + flat->state) * sizeof *c->trainer->remembered);
}

/* Where rank 0 is now go the others. */
static ls_status follow(ls_checkpoints *c, point *to)
{
    bool follows = !holds_folder(c);
    ls_context *context = &c->session->context;
    if (share(c, to, sizeof *to) != LS_OK || !to->number)
        return ls_status_of(c->session);
    if (follows) {
        ls_notes_free(context, &c->came);
        if (ls_notes_reserve(context, &c->came, (size_t)to->notes) != LS_OK)
            return LS_OUT_OF_MEMORY;
    }
    if (follows)
        ls_remembered_take(c->trainer, to->remembers ? ls_remembered_new(context, c->trainer->network) : NULL);
    if (to->remembers && (!c->trainer->remembered || share_remembered(c) != LS_OK))
        return ls_status_of(c->session);
    float *moments = to->moments ? ls_trainer_see_moments(c->trainer) : NULL;
    if (to->averaged && averaged_state(c) &&
        share(c, c->trainer->average_state, averaged_state(c) * sizeof(float)) != LS_OK)
        return ls_status_of(c->session);
    if (share(c, c->came.text, c->came.bytes) != LS_OK || ls_gathered_scatter(c->trainer, moments) != LS_OK)
        return ls_status_of(c->session);
    if (follows && ls_notes_list(context, &c->came) == LS_OK &&
        ls_trainer_restore(c->trainer, to->step, moments, to->age, to->averaged, to->lr) == LS_OK && c->data)
        ls_data_seek(c->data, to->epoch, (int)to->batch);
    return ls_status_of(c->session);
}

bool ls_checkpoint_load(ls_checkpoints *c, ls_checkpoint *loaded)
{
    LS_OWN_ENVIRONMENT;
    point to = {.number = 0};
    if (loaded)
        *loaded = (ls_checkpoint){.path = ""};
    if (!c)
        return false;
    if (make_ready(c, "ls_checkpoint_load") == LS_OK)
        ls_network_change(c->trainer->network, "ls_checkpoint_load");
    if (ls_cluster_agree_error(c->session) != LS_OK)
        return false;
    if (holds_folder(c))
        load_newest(c, &to);
    if (ls_cluster_agree_error(c->session) != LS_OK || follow(c, &to) != LS_OK || !to.number)
        return false;
    char *path = ls_folder_path(&c->session->context, c->directory, to.number, "json");
    if (loaded && path)
        *loaded = (ls_checkpoint){
            .step = to.step, .epoch = to.epoch, .batch = (int)to.batch, .path = ls_intern(c->session, path)};
    ls_release(&c->session->context, path);
    return ls_cluster_agree_error(c->session) == LS_OK;
}

const char *const *ls_checkpoint_differing(const ls_checkpoints *c)
{
    LS_OWN_ENVIRONMENT;
    static const char *const none[] = {NULL};
    return c ? c->differ : none;
}

const char *ls_checkpoint_note(const ls_checkpoints *c, const char *name)
{
    return c && name ? ls_note_find(c->came.list, name) : NULL;
}
