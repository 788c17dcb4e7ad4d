#include "checkpoint/settings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "data/data.h"
#include "device/op.h"
#include "io/notes.h"
#include "model/layout.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/job.h"

static void put(ls_settings *s, const char *name, const char *text)
{
    if (s->n == LS_SETTINGS)
        ls_raise(&s->session->context, LS_BAD_ARGUMENT, "ls_checkpoints_open: more than %d settings", LS_SETTINGS);
    else
        s->list[s->n++] = (ls_note){ls_intern(s->session, name), ls_intern(s->session, text)};
}

static void set(ls_settings *s, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void set(ls_settings *s, const char *name, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put(s, name, text);
}

static void set_number(ls_settings *s, const char *name, double value)
{
    char text[32];
    set(s, name, "%s", ls_number_text(value, text));
}

/* A text of any length, which is released; none where it is empty. */
static void set_text(ls_settings *s, const char *name, char *text)
{
    if (text && *text)
        put(s, name, text);
    ls_release(&s->session->context, text);
}

static void set_schedule(ls_settings *s, const ls_optim *o)
{
    set(s, "schedule", "%s", ls_schedule_name(o->schedule));
    set(s, "warmup", "%lld", (long long)o->warmup);
    if (o->after_warmup)
        set(s, "after_warmup", "yes");
    if (ls_schedule_takes(o->schedule, LS_TAKES_TOTAL))
        set(s, "total", "%lld", (long long)o->total);
    if (ls_schedule_takes(o->schedule, LS_TAKES_START))
        set_number(s, "start_factor", ls_schedule_start(o));
    if (ls_schedule_end(o) != 0)
        set_number(s, "end_factor", ls_schedule_end(o));
    if (ls_schedule_takes(o->schedule, LS_TAKES_GAMMA))
        set_number(s, "gamma", o->gamma);
    if (ls_schedule_takes(o->schedule, LS_TAKES_PERIOD))
        set(s, "period", "%lld", (long long)ls_schedule_period(o));
    if (ls_schedule_takes(o->schedule, LS_TAKES_GROWTH))
        set(s, "period_factor", "%d", o->period_factor ? o->period_factor : 1);
}

static void set_trainer(ls_settings *s, const ls_trainer *trainer)
{
    static const char *const dtypes[] = {"f32", "tf32", "bf16"};
    static const char *const inits[] = {"normal", "xavier", "he"};
    const ls_network *network = trainer->network;
    const ls_options *options = &s->session->options;
    const ls_optim *o = &trainer->options;
    set(s, "numerics", "%d", LS_NUMERICS);
    set(s, "model", "%s", network->root->model ? network->root->model : "own");
    if (network->init.kind == LS_NORMAL)
        set(s, "init", "normal:%.9g", network->init.scale);
    else
        set(s, "init", "%s", inits[network->init.kind]);
    set(s, "seed", "%llu", (unsigned long long)options->seed);
    set(s, "shard", "%d", network->shard);
    if (ls_statistics_meet(s->session))
        set(s, "batch_norm", "%d", options->batch_norm);
    set(s, "conv", "%s", options->conv == LS_CONV_DIRECT ? "direct" : "auto");
    set(s, "dtype", "%s", dtypes[options->dtype]);
    set(s, "optimizer", "%s", ls_optimizer_name(trainer->kind));
    set_number(s, "lr", o->lr);
    set_number(s, "momentum", o->momentum);
    set(s, "nesterov", "%s", o->nesterov ? "yes" : "no");
    if (trainer->kind != LS_SGD) {
        set_number(s, "beta1", ls_optimizer_beta1(o));
        set_number(s, "beta2", ls_optimizer_beta2(o));
        set_number(s, "eps", ls_optimizer_eps(o));
    }
    set_number(s, "weight_decay", o->weight_decay);
    if (o->clip_norm > 0)
        set_number(s, "clip_norm", o->clip_norm);
    if (o->ema > 0)
        set_number(s, "ema", o->ema);
    if (o->ema_warmup)
        set(s, "ema_warmup", "yes");
    if (o->ema_buffers)
        set(s, "ema_buffers", "yes");
    if (o->full_batch)
        set(s, "full_batch", "%lld", (long long)o->full_batch);
    set_schedule(s, o);
    set_text(s, "frozen", ls_layout_frozen_text(network));
    set_text(s, "groups", ls_group_text(&s->session->context, trainer->updates.rules, trainer->updates.n_rules));
}

/* "ant, bee": weights would be those of other classes where the names change places. */
static void set_classes(ls_settings *s, const ls_data *data)
{
    char *text = ls_format(&s->session->context, "the names of the classes", "%s", "");
    for (int i = 0; text && data->of.names && i < data->of.classes; i++) {
        char *longer = ls_format(&s->session->context, "the names of the classes", "%s%s%s", text, i ? ", " : "",
                                 ls_data_class(data, i));
        ls_release(&s->session->context, text);
        text = longer;
    }
    set_text(s, "classes", text);
}

static void set_data(ls_settings *s, const ls_data *data)
{
    char text[64];
    if (ls_data_describe(data, text) != LS_OK)
        return;
    set(s, "data", "%s", text);
    set_classes(s, data);
    set(s, "batch", "%d", data->batch);
    set(s, "shuffle", "%s", data->shuffle ? "yes" : "no");
    if (data->drop_last)
        set(s, "drop_last", "yes");
    if (data->augment.flip)
        set(s, "flip", "yes");
    if (data->augment.crop > 0)
        set(s, "crop", "%d", data->augment.crop);
    if (data->augment.crop > 0 && data->edge_target != 0)
        set_number(s, "edge_target", data->edge_target);
    if (data->augment.erase > 0)
        set_number(s, "erase", data->augment.erase);
}

/* Those that not every run has: a checkpoint may have them, and the run that goes on not. */
static const char *const at_times[] = {
    "batch_norm", "total", "start_factor", "end_factor",  "gamma",       "period",       "period_factor", "beta1",
    "beta2",      "eps",   "ema",          "ema_warmup",  "ema_buffers", "after_warmup", "clip_norm",     "full_batch",
    "drop_last",  "flip",  "crop",         "edge_target", "erase",       "frozen",       "groups",        "classes"};

static ls_status allow(ls_settings *s, const char *name)
{
    char known[1024] = "";
    const char *names[LS_SETTINGS + sizeof at_times / sizeof *at_times];
    int n = 0;
    for (; n < s->n; n++)
        names[n] = s->list[n].name;
    for (size_t i = 0; i < sizeof at_times / sizeof *at_times; i++)
        if (!ls_note_find(s->list, at_times[i]))
            names[n++] = at_times[i];
    for (int i = 0; i < n; i++) {
        if (strcmp(name, names[i]) == 0) {
            if (s->n_allowed < LS_SETTINGS)
                s->allowed[s->n_allowed++] = ls_intern(s->session, name);
            return LS_OK;
        }
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", names[i]);
    }
    return ls_raise(&s->session->context, LS_BAD_ARGUMENT,
                    "ls_checkpoints_open: there is no setting '%.64s' that could be allowed to change; there are: %s",
                    name, known);
}

ls_status ls_settings_take(ls_settings *settings, ls_trainer *trainer, const ls_data *data, const ls_note *own,
                           const char *const *allow_changed)
{
    settings->session = trainer->session;
    set_trainer(settings, trainer);
    if (data)
        set_data(settings, data);
    for (; own && own->name; own++) {
        if (ls_note_find(settings->list, own->name))
            ls_raise(&settings->session->context, LS_BAD_ARGUMENT,
                     "ls_checkpoints_open: the setting '%s' is given twice, or the library's own", own->name);
        set(settings, own->name, "%s", own->value ? own->value : "");
    }
    for (; allow_changed && *allow_changed; allow_changed++)
        allow(settings, *allow_changed);
    return ls_status_of(settings->session);
}

static bool may_change(const ls_settings *settings, const char *name)
{
    for (int i = 0; i < settings->n_allowed; i++)
        if (strcmp(settings->allowed[i], name) == 0)
            return true;
    return false;
}

/* What differs, as text and as names. */
typedef struct differences {
    ls_session *session;
    char text[768];
    const char **names; /* [LS_SETTINGS + 1]; NULL: not wanted */
    int n;
} differences;

static void add_difference(differences *d, const char *name, const char *was, const char *is)
{
    size_t length = strlen(d->text);
    snprintf(d->text + length, sizeof d->text - length, "%s%s was %.80s and is %.80s now", length ? ", " : "", name,
             *was ? was : "not set", *is ? is : "not set");
    if (d->names && d->n < LS_SETTINGS) {
        d->names[d->n++] = ls_intern(d->session, name);
        d->names[d->n] = NULL;
    }
}

/* Its value; "" where it is not there, which is that of one that is off. */
static const char *value_of(const ls_note *list, const char *name)
{
    const char *value = ls_note_find(list, name);
    return value ? value : "";
}

/* Release 0.1 wrote itself in place of its numerics. */
static bool by_release(const ls_note *was, const char *release)
{
    const char *written = ls_note_find(was, "numerics") ? NULL : ls_note_find(was, "version");
    return written && (!release || strcmp(written, release) == 0);
}

static const char *value_before(const ls_note *was, const char *name)
{
    return strcmp(name, "numerics") == 0 && by_release(was, "0.1.0") ? "1" : value_of(was, name);
}

ls_status ls_settings_compare(const ls_settings *settings, const ls_note *was, ls_context *context, const char *path,
                              const char *differ[LS_SETTINGS + 1])
{
    differences found = {.session = settings->session, .names = differ};
    const bool released = by_release(was, NULL);
    for (const ls_note *is = settings->list; is->name; is++) {
        const char *before = value_before(was, is->name);
        if (!*before && strcmp(is->name, "classes") == 0)
            continue; /* the data had none, or the checkpoint is older than this setting; nor need they have any now */
        if (!may_change(settings, is->name) && strcmp(before, is->value) != 0)
            add_difference(&found, is->name, before, is->value);
    }
    for (; was->name; was++)
        if (*was->value && strcmp(was->name, "classes") != 0 && !(released && strcmp(was->name, "version") == 0) &&
            !may_change(settings, was->name) && !ls_note_find(settings->list, was->name))
            add_difference(&found, was->name, was->value, "");
    return *found.text ? ls_raise(context, LS_CHANGED, "%s: of a run with other settings: %s", path, found.text)
                       : LS_OK;
}
