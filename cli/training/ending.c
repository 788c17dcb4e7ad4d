#include "training/ending.h"
#include "run/ranks.h"
#include "system/stop.h"
#include "training/average.h"
#include "training/best.h"
#include "training/checkpoint.h"
#include "training/keep.h"

#include <stdio.h>

/* What ranks ask of each other. A stop, with its signal added, outweighs a checkpoint, which it makes too. */
enum { ASK_SAVE = 1, ASK_STOP = 1 };

int ending_signal(training *t)
{
    int signal_number = stop_signal();
    ls_trainer_vote(t->trainer, signal_number ? ASK_STOP + signal_number : checkpoint_wanted(t) ? ASK_SAVE : 0);
    int asked = ls_trainer_voted(t->trainer);
    t->save_now = asked == ASK_SAVE && t->begun - 1 > t->saved_step;
    return asked > ASK_STOP ? asked - ASK_STOP : 0;
}

/* Goes back to the newest weights over which a loss was finite, and says of them what it was. Where there are none, as
 * they are is better than not at all. */
static void go_back(training *t, char about[64])
{
    int64_t step;
    if (ls_trainer_step_back(t->trainer, &step) != LS_OK) {
        ls_catch(t->run.session, LS_STALE);
        snprintf(about, 64, ", with which the network overflows,");
        return;
    }
    if (step < t->finished)
        snprintf(about, 64, ", whose loss was %.4g,", t->last_loss);
    t->finished = step;
}

int ending_failed(training *t, const char *what)
{
    keeping kept = {.option = NULL};
    char why[MOST_WORDS], where[sizeof kept], about[64] = "";
    const ls_status status = ls_status_of(t->run.session);
    session_words(t->run.session, why, sizeof why);
    if (ls_failed_together(t->run.session))
        ranks_end_together();
    const bool doubtful = status == LS_DIFFERS || status == LS_INTERNAL || t->finished == 0;
    if (doubtful || ls_cluster_rank(ranks_cluster()) > 0 || !ls_catch(t->run.session, status))
        return failed(what, "%s", why);
    const char *averaged = best_rescue(t) ? "" : average_rescue(t, status != LS_NOT_FINITE);
    if (status == LS_NOT_FINITE && !*best_words(t, about))
        go_back(t, about);
    keep_weights(t, &kept);
    snprintf(kept.about, sizeof kept.about, "%s%s", averaged, about);
    if (!*keep_words(t, &kept, where, sizeof where))
        checkpoint_words(t, where, sizeof where);
    return failed(what, "%s%s", why, where);
}

int ending_stopped(training *t)
{
    int signal_number = ending_signal(t);
    if (!signal_number)
        return 0;
    keeping kept = {.option = NULL};
    char where[sizeof kept];
    bool saved = checkpoint_stop(t);
    if (ls_failed(t->run.session))
        return ending_failed(t, "--checkpoint");
    if (!best_take(t))
        return ending_failed(t, "--ema");
    ranks_end_together();
    if (t->finished > 0 && ls_cluster_rank(ranks_cluster()) == 0)
        keep_weights(t, &kept);
    best_words(t, kept.about);
    keep_words(t, &kept, where, sizeof where);
    failed(stop_signal_name(signal_number), "stopped after step %lld of %lld%s%s%s%s", (long long)t->begun,
           (long long)t->steps, saved ? "; saved in " : "", saved ? t->run.chosen->checkpoint : "",
           saved ? ", --resume goes on from there" : "", saved || *where ? where : "; nothing was saved");
    return STATUS_SIGNAL + signal_number;
}
