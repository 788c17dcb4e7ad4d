#include "training/outcome.h"
#include "report/report.h"
#include "run/judge.h"
#include "run/ranks.h"
#include "run/watch.h"
#include "training/best.h"
#include "training/checkpoint.h"
#include "training/ending.h"
#include "training/evaluation.h"
#include "training/keep.h"
#include "training/pace.h"
#include "training/trace.h"

#include <stdio.h>
#include <string.h>

/* What a run comes to, and where that is kept. */
typedef struct outcome {
    char fingerprint[65];
    keeping kept;
    judge judge;
    bool judged;
} outcome;

/* The fingerprint, and the weights where they were asked for: before anything that may fail. */
static int keep_outcome(training *t, outcome *o)
{
    snprintf(o->fingerprint, sizeof o->fingerprint, "not built in");
    if (run_has("fingerprints") && ls_module_fingerprint(t->run.net, o->fingerprint) != LS_OK)
        return ending_failed(t, "fingerprint");
    keep_weights(t, &o->kept);
    return 0;
}

/* Prints the last two lines, and writes trace and report. What goes wrong with one of these costs none of the
 * others. */
static int leave_results(training *t, const outcome *o)
{
    char where[sizeof o->kept];
    int kept = 0, report = 0;
    printf("%s\nfingerprint: %s\n", t->result, o->fingerprint);
    const int told = finish_output();
    t->told = true;
    if (*t->not_saved)
        outputs_lose(&t->lost, "--checkpoint");
    if (o->kept.option) { /* the words begin with "; " and the option, which is the line's own */
        outputs_lose(&t->lost, o->kept.option);
        keep_words(t, &o->kept, where, sizeof where);
        kept = failed(o->kept.option, "%s", where + strlen("; : ") + strlen(o->kept.option));
    }
    const int traced = trace_end(&t->trace, t, true);
    if (traced)
        outputs_lose(&t->lost, "--trace");
    if (t->run.chosen->report)
        report = o->judged && t->record ? report_run(&t->run, t->record, &o->judge, o->fingerprint) : STATUS_FAILED;
    if (report)
        outputs_lose(&t->lost, "--report");
    return told ? told : kept ? kept : traced ? traced : report;
}

int outcome_finish(training *t)
{
    outcome o = {.judged = false};
    const bool first = ls_cluster_rank(ranks_cluster()) == 0;
    int status = 0;
    if (!*t->result && !t->evaluated && (status = evaluation_run(t)) != 0)
        return status;
    watch_phase("save");
    if (!*t->result) {
        snprintf(t->result, sizeof t->result, "test acc: %.2f, %.1f sec/epoch on %s", best_test_acc(t),
                 (t->seconds + t->epoch_seconds) / (double)t->epochs, t->run.devices_text);
        if (!checkpoint_stop(t) && ls_failed(t->run.session))
            return ending_failed(t, "--checkpoint");
    }
    if (!best_take(t))
        return ending_failed(t, "--keep");
    if (first && (status = keep_outcome(t, &o)) != 0)
        return status;
    if (t->run.chosen->report) {
        watch_phase("report");
        pace_test(t, "looking at the test images");
        o.judged = judge_network(&o.judge, t->run.net, t->test) == 0;
    }
    progress_end(&t->bar);                       /* results come below the curves */
    const bool lost = ls_failed(t->run.session); /* a line was said */
    if (!lost)
        ranks_parted();
    if (first)
        status = leave_results(t, &o);
    judge_free(&o.judge);
    return lost ? STATUS_FAILED : status;
}
