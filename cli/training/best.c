#include "training/best.h"
#include "text/say.h"
#include "training/average.h"

#include <math.h>
#include <stdio.h>

int best_hold_out(training *t)
{
    const settings *c = t->run.chosen;
    if (!(c->validate > 0))
        return 0;
    const int64_t rows = ls_data_rows(t->train);
    int64_t images = (int64_t)(c->validate < 1 ? floor(c->validate * (double)rows + 0.5) : c->validate);
    if (images < 1)
        images = 1;
    if (images >= rows)
        return failed("--validate", "%lld of %lld training images leave none to train on; hold fewer out",
                      (long long)images, (long long)rows);
    t->validation = ls_data_hold_out(t->train, images);
    return t->validation ? 0 : session_failed(t->run.session, "--validate");
}

static bool keeps_best(const training *t)
{
    return t->run.chosen->keep == KEEP_BEST && t->best_epoch > 0;
}

/* What is left of an epoch when --steps ends the run is not judged: a run that goes on from there is as one that had
 * not stopped. Every rank has the same accuracy. A resumed run may see an epoch again, which changes nothing. */
bool best_look(training *t)
{
    const settings *c = t->run.chosen;
    const double acc = t->validation ? t->val_acc : t->test_acc;
    if (t->done < t->batches)
        return true;
    if (t->best_epoch == 0 || acc > t->best_acc) {
        t->best_acc = acc;
        t->best_test_acc = t->test_acc;
        t->best_epoch = t->epoch;
        t->best_step = t->begun;
        if (keeps_best(t) &&
            (!average_use(t, true) || ls_trainer_remember(t->trainer) != LS_OK || !average_use(t, false)))
            return false;
    }
    if (!c->patience || t->epoch - t->best_epoch < c->patience || t->begun == t->steps)
        return true;
    t->ended_early = true;
    t->steps = t->begun;
    t->epochs = t->epoch;
    if (!c->quiet)
        note("note: no %s accuracy above that of epoch %lld, %.4f, in %lld epoch%s: the run ends",
             t->validation ? "validation" : "test", (long long)t->best_epoch, t->best_acc,
             (long long)(t->epoch - t->best_epoch), t->epoch - t->best_epoch == 1 ? "" : "s");
    return true;
}

double best_test_acc(const training *t)
{
    return keeps_best(t) ? t->best_test_acc : t->test_acc;
}

bool best_take(training *t)
{
    const bool quiet = t->run.chosen->quiet;
    if (t->run.chosen->keep != KEEP_BEST)
        return average_use(t, true);
    if (!keeps_best(t)) {
        if (!quiet)
            note("note: no epoch came to its end: the weights are the last ones, as with --keep last");
        return average_use(t, true);
    }
    if (ls_trainer_recall(t->trainer) != LS_OK)
        return false;
    t->taken = t->best_step;
    if (!quiet)
        note("note: the weights are those of epoch %lld, the best by validation: val acc %.4f",
             (long long)t->best_epoch, t->best_acc);
    return true;
}

bool best_rescue(training *t)
{
    if (!keeps_best(t) || t->taken)
        return false;
    int64_t step; /* none of its own: this drops the gradients of a step that failed */
    if (average_use(t, false) && ls_trainer_step_back(t->trainer, &step) != LS_OK)
        ls_catch(t->run.session, LS_STALE);
    if (ls_trainer_recall(t->trainer) != LS_OK) {
        ls_catch(t->run.session, ls_status_of(t->run.session));
        return false;
    }
    t->taken = t->best_step;
    return true;
}

const char *best_words(const training *t, char text[64])
{
    *text = '\0';
    if (keeps_best(t) && t->taken)
        snprintf(text, 64, ", the best by validation, of epoch %lld,", (long long)t->best_epoch);
    return text;
}

void best_forget(training *t)
{
    t->best_epoch = t->best_step = 0;
    t->best_acc = t->best_test_acc = 0;
}
