/* train: a run in its order, from the options to the last line. */
#include "commands.h"
#include "options/options.h"
#include "options/outputs.h"
#include "record/record.h"
#include "run/ranks.h"
#include "run/watch.h"
#include "system/clock.h"
#include "system/stop.h"
#include "training/checkpoint.h"
#include "training/epoch.h"
#include "training/heading.h"
#include "training/outcome.h"
#include "training/pace.h"
#include "training/preparation.h"
#include "training/trace.h"

static int train(training *t)
{
    const settings *c = t->run.chosen;
    int status = checkpoint_open(t);
    if (status)
        return status;
    /* What a whole run logged of its last epoch stays; the others will write theirs again. */
    int64_t logged = t->epoch - 1 + (*t->result ? 1 : 0);
    if ((status = heading_log(t, t->begun, logged)) != 0)
        return status;
    if (c->report && ls_cluster_rank(ranks_cluster()) == 0 && (status = heading_record(t)) != 0)
        return status;
    if (!c->quiet)
        heading_say(t);
    t->first_step = t->finished = t->begun;
    pace_begin(t);
    if (c->trace && (status = trace_begin(&t->trace, c->trace, t)) != 0)
        return status;
    if (!*t->result) {
        watch_phase("the meeting of the GPUs");
        ranks_meet(t->trainer, c->quiet);
    }
    progress_begin(&t->bar, c->quiet);
    for (; t->epoch <= t->epochs && !*t->result; t->epoch++) {
        double begun = steady_seconds();
        status = epoch_run(t);
        trace_span(t->trace, "epoch", t->epoch, begun);
        if (status)
            return status;
    }
    return outcome_finish(t);
}

int command_train(int argc, char **argv)
{
    settings chosen;
    training t = {.run.chosen = &chosen};
    int status = 0;
    origin_take(&t.origin, argc, argv);
    ranks_expect();
    if (!read_options_only(COMMAND_TRAIN, argc, argv, &chosen, &status)) {
        origin_free(&t.origin);
        return status;
    }
    stop_on_signals();
    status = ranks_start(&chosen, status);
    if (!status)
        status = preparation_check(&chosen);
    if (!status)
        status = run_open(&t.run, &chosen, ranks_cluster());
    watch_session(t.run.session);
    watch_phase("data");
    if (!status)
        status = preparation_make(&t);
    status = ranks_agree(COMMAND_TRAIN, &t.run, t.train, t.validation, t.test, status);
    if (!status)
        status = train(&t);
    progress_end(&t.bar);
    int traced = trace_end(&t.trace, &t, status != STATUS_FAILED); /* of a run that was stopped */
    if (traced && status == STATUS_DONE)
        status = traced;
    if (!log_close(t.log)) {
        outputs_lose(&t.lost, "--log");
        if (status == STATUS_DONE)
            status = STATUS_FAILED;
    }
    if ((status == STATUS_DONE || t.told) && !chosen.quiet)
        outputs_say(COMMAND_TRAIN, &chosen, &t.lost);
    record_free(t.record);
    origin_free(&t.origin);
    return ranks_close(&t.run, status);
}
