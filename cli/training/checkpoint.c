#include "training/checkpoint.h"
#include "options/choice.h"
#include "options/value.h"
#include "run/ranks.h"
#include "run/watch.h"
#include "system/clock.h"
#include "text/say.h"
#include "training/best.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <lockstep_weights.h>

static const double usual_seconds = 600;

/* ---- Notes: what the run's own lines need, besides what the library keeps ---- */

enum { NOTES = 17, WIDTH = 48 };

typedef struct notes {
    ls_note list[NOTES + 1];
    char values[NOTES][WIDTH];
    int n;
} notes;

static void put_number(notes *n, const char *name, double value)
{
    snprintf(n->values[n->n], WIDTH, "%.17g", value);
    n->list[n->n] = (ls_note){name, n->values[n->n]};
    n->n++;
}

static void put_integer(notes *n, const char *name, int64_t value)
{
    snprintf(n->values[n->n], WIDTH, "%" PRId64, value);
    n->list[n->n] = (ls_note){name, n->values[n->n]};
    n->n++;
}

static double get_number(const training *t, const char *name)
{
    const char *text = ls_checkpoint_note(t->checkpoints, name);
    return text ? strtod(text, NULL) : 0;
}

static int64_t get_integer(const training *t, const char *name)
{
    const char *text = ls_checkpoint_note(t->checkpoints, name);
    return text ? strtoll(text, NULL, 10) : 0;
}

static void put_notes(const training *t, notes *n)
{
    put_number(n, "seconds", t->seconds);
    put_number(n, "epoch_seconds", t->epoch_seconds);
    put_integer(n, "epoch_rows", t->epoch_rows);
    put_number(n, "loss_sum", t->loss_sum);
    put_integer(n, "correct", t->correct);
    put_integer(n, "reported", t->reported);
    put_number(n, "last_loss", t->last_loss);
    put_number(n, "best_acc", t->best_acc);
    put_integer(n, "best_epoch", t->best_epoch);
    put_integer(n, "best_step", t->best_step);
    put_number(n, "best_test_acc", t->best_test_acc);
    put_integer(n, "validated", ls_data_rows(t->validation));
    put_integer(n, "keep", t->run.chosen->keep);
    if (!*t->result)
        return;
    put_integer(n, "steps", t->steps);
    put_integer(n, "patience", t->ended_early ? t->run.chosen->patience : 0);
    put_integer(n, "test_images", ls_data_rows(t->test));
    n->list[n->n++] = (ls_note){"result", t->result};
}

static void get_notes(training *t)
{
    const char *result = ls_checkpoint_note(t->checkpoints, "result");
    t->seconds = get_number(t, "seconds");
    t->epoch_seconds = get_number(t, "epoch_seconds");
    t->epoch_rows = get_integer(t, "epoch_rows");
    t->loss_sum = get_number(t, "loss_sum");
    t->correct = get_integer(t, "correct");
    t->reported = get_integer(t, "reported");
    t->last_loss = get_number(t, "last_loss");
    t->best_acc = get_number(t, "best_acc");
    t->best_epoch = get_integer(t, "best_epoch");
    t->best_step = get_integer(t, "best_step");
    t->best_test_acc = get_number(t, "best_test_acc");
    if (get_integer(t, "validated") != ls_data_rows(t->validation) || get_integer(t, "keep") != t->run.chosen->keep) {
        best_forget(t); /* which was allowed */
        return;
    }
    if (!result || get_integer(t, "steps") != t->begun || get_integer(t, "test_images") != ls_data_rows(t->test))
        return;
    const int64_t patience = get_integer(t, "patience"); /* that ended it; 0 where the steps did */
    if (patience && patience == t->run.chosen->patience) {
        t->ended_early = true;
        t->steps = t->begun;
        t->epochs = t->epoch;
    }
    if (t->begun == t->steps && !patience == !t->ended_early)
        snprintf(t->result, sizeof t->result, "%s", result);
}

/* ---- Opening ---- */

static void told(const char *line, void *user)
{
    (void)user;
    note("note: %s", line);
}

/* The weights that the run began from define its result as its settings do. */
static int describe_weights(const training *t, char digits[65])
{
    strcpy(digits, "none");
    if (!t->run.chosen->weights || ls_file_fingerprint(t->run.session, t->run.chosen->weights, digits) == LS_OK)
        return 0;
    return session_failed(t->run.session, "--weights");
}

static int say_not_opened(const training *t)
{
    const char *what = "--checkpoint";
    bool names = ls_status_of(t->run.session) == LS_BAD_ARGUMENT && t->run.chosen->n_allow_changed;
    int status = session_failed(t->run.session, names ? "--allow-changed" : what);
    return names ? STATUS_USAGE : status;
}

/* The options that would allow what differs, with commas; "" where none would. */
static void write_differing(const char *const *differing, char *names, size_t size)
{
    *names = '\0';
    for (int i = 0; differing[i]; i++) {
        const char *option = option_of_setting(differing[i]);
        size_t length = strlen(names);
        bool said = false;
        for (int k = 0; k < i; k++) /* it sets that too */
            said = said || strcmp(option_of_setting(differing[k]), option) == 0;
        if (!said)
            snprintf(names + length, size - length, "%s%s", length ? "," : "", option);
    }
}

static int say_not_loaded(const training *t)
{
    char names[512];
    int status = ls_status_of(t->run.session);
    if (status != LS_CHANGED)
        return session_failed(t->run.session, "--resume");
    if (ls_failed_together(t->run.session))
        say_together();
    const char *message = strstr(ls_message(t->run.session), ": ");
    write_differing(ls_checkpoint_differing(t->checkpoints), names, sizeof names);
    return failed("--resume", "%s; go on with what was%s%s", message ? message + 2 : "",
                  *names ? ", or say --allow-changed " : "", names);
}

static int resume(training *t)
{
    const settings *c = t->run.chosen;
    ls_checkpoint from;
    bool loaded = ls_checkpoint_load(t->checkpoints, &from);
    if (ls_failed(t->run.session))
        return say_not_loaded(t);
    if (!loaded) {
        if (!c->quiet)
            note("--resume: there is no whole checkpoint in %s yet; the run starts from its beginning", c->checkpoint);
        return 0;
    }
    count_steps(t, &from);
    if (from.step > t->steps) {
        ranks_end_together();
        return failed("--resume",
                      "%s: is of step %lld already, and the run would end after %lld; set --steps or --epochs higher",
                      from.path, (long long)from.step, (long long)t->steps);
    }
    t->begun = t->saved_step = from.step;
    t->epoch = from.epoch + 1;
    t->done = from.batch;
    get_notes(t);
    if (!c->quiet)
        note("--resume: %s: step %lld of %lld%s", from.path, (long long)t->begun, (long long)t->steps,
             *t->result ? ", a complete run" : "");
    return 0;
}

int checkpoint_open(training *t)
{
    const settings *c = t->run.chosen;
    char weights[65];
    int status = 0;
    t->saved_step = -1;
    if (!c->checkpoint)
        return 0;
    if ((status = describe_weights(t, weights)) != 0)
        return status;
    char smoothing[WIDTH], validate[WIDTH] = "";
    snprintf(smoothing, sizeof smoothing, "%.9g", c->label_smoothing);
    if (t->validation)
        snprintf(validate, sizeof validate, "%" PRId64, ls_data_rows(t->validation));
    const ls_note own[] = {{"weights", weights},
                           {"label_smoothing", smoothing},
                           {"validate", validate},
                           {"keep", c->keep ? choice_name(keep_choices, c->keep) : ""},
                           {NULL, NULL}};
    ls_checkpoint_options options = {.settings = own, .allow_changed = c->allow_changed, .told = told};
    t->checkpoints = ls_checkpoints_open(t->trainer, t->train, c->checkpoint, &options);
    t->saved_at = steady_seconds();
    if (!t->checkpoints)
        return say_not_opened(t);
    t->saved_before = ls_checkpoints_found(t->checkpoints);
    if (c->resume)
        return resume(t);
    if (!ls_checkpoints_found(t->checkpoints))
        return 0;
    if (!c->restart) {
        ranks_end_together();
        return wrong_usage("--checkpoint",
                           "%s has checkpoints of an earlier run: --resume goes on from them, --restart trains anew",
                           c->checkpoint);
    }
    if (!c->quiet)
        note("note: the checkpoints of an earlier run in %s give way to this run's", c->checkpoint);
    return 0;
}

/* ---- Saving ---- */

const char *checkpoint_interval(const settings *c, char text[32])
{
    if (c->every_steps)
        snprintf(text, 32, "%lld", (long long)c->every_steps);
    else
        snprintf(text, 32, "%.0fs", c->every_seconds > 0 ? c->every_seconds : usual_seconds);
    return c->checkpoint ? text : NULL;
}

bool checkpoint_wanted(const training *t)
{
    const settings *c = t->run.chosen;
    if (!t->checkpoints || c->every_steps || ls_cluster_rank(ranks_cluster()) > 0)
        return false;
    return steady_seconds() - t->saved_at >= (c->every_seconds > 0 ? c->every_seconds : usual_seconds);
}

bool checkpoint_due(const training *t)
{
    const settings *c = t->run.chosen;
    if (!t->checkpoints)
        return false;
    return c->every_steps ? t->begun % c->every_steps == 0 : t->save_now;
}

/* Takes back the failure of a write, which costs a checkpoint and not the run. False where it was another: over ranks,
 * of one that cannot reach the others. */
static bool forgive(training *t, char why[MOST_WORDS])
{
    session_words(t->run.session, why, MOST_WORDS);
    if (ls_cluster_ranks(ranks_cluster()) > 1 && !ls_failed_together(t->run.session))
        return false;
    return ls_catch(t->run.session, LS_IO);
}

static bool forgive_aloud(training *t)
{
    char why[MOST_WORDS];
    if (!forgive(t, why))
        return false;
    note("note: a checkpoint was not written: %s; %sthe run goes on", why,
         t->saved_before ? "the ones before it stay, and " : "");
    return true;
}

/* False after a failure, which the session has. */
static bool hand_over(training *t)
{
    notes n = {.n = 0};
    double now = steady_seconds();
    t->epoch_seconds += now - t->epoch_start;
    t->epoch_start = now;
    put_notes(t, &n);
    /* What the write before this one met comes first. */
    if (ls_checkpoint_save(t->checkpoints, n.list) == LS_OK)
        t->saved_before = t->saved_before || t->saved_step >= 0;
    else if (!forgive_aloud(t) || ls_checkpoint_save(t->checkpoints, n.list) != LS_OK)
        return false;
    t->saved_step = t->begun;
    t->saved_at = now;
    return true;
}

bool checkpoint_save(training *t)
{
    watch_phase("save");
    if (ls_wait(t->run.session) != LS_OK)
        return true; /* the loop's own business */
    take_reports(t);
    return hand_over(t) || forgive_aloud(t);
}

bool checkpoint_stop(training *t)
{
    if (!t->checkpoints)
        return false;
    watch_phase("save");
    const bool handed = (t->saved_step == t->begun && !*t->result) || hand_over(t);
    if (handed && ls_checkpoint_wait(t->checkpoints) == LS_OK)
        return true;
    if (!forgive(t, t->not_saved))
        *t->not_saved = '\0';
    return false;
}

void checkpoint_words(training *t, char *text, size_t size)
{
    const char *folder = t->run.chosen->checkpoint;
    const bool all = ls_cluster_ranks(ranks_cluster()) > 1; /* who would have to wait for it, and are gone */
    if (t->saved_step < 0)
        snprintf(text, size, "; nothing was saved");
    else if (!all && ls_checkpoint_wait(t->checkpoints) == LS_OK)
        snprintf(text, size, "; the last checkpoint, of step %lld, is in %s", (long long)t->saved_step, folder);
    else
        snprintf(text, size, "; the last whole checkpoint is in %s", folder);
}
