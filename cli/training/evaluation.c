#include "training/evaluation.h"
#include "run/ranks.h"
#include "run/watch.h"
#include "system/clock.h"
#include "system/stop.h"
#include "training/average.h"
#include "training/ending.h"
#include "training/pace.h"
#include "training/trace.h"

/* One pass over images that are not trained on. False after a failure of the session. */
static bool measure(const training *t, const ls_data *data, double *loss, double *acc)
{
    ls_metrics metrics;
    if (ls_cluster_ranks(ranks_cluster()) == 1) /* several stop together, at a step: a signal to one of them waits */
        stop_interrupts(t->run.session);
    const ls_status status = ls_module_evaluate(t->run.net, data, &metrics);
    stop_interrupts(NULL);
    if (status != LS_OK)
        return false;
    *loss = metrics.loss;
    *acc = (double)metrics.correct / (double)metrics.rows;
    return true;
}

int evaluation_run(training *t)
{
    double begun = steady_seconds(), loss;
    watch_phase("evaluation");
    pace_test(t, t->validation ? "validating and testing" : "testing");
    const bool good = average_use(t, true) &&
                      (!t->validation || measure(t, t->validation, &t->val_loss, &t->val_acc)) &&
                      measure(t, t->test, &loss, &t->test_acc);
    const bool interrupted = ls_catch(t->run.session, LS_INTERRUPTED);
    if (!(good || interrupted) || !average_use(t, false))
        return ending_failed(t, "evaluation");
    trace_span(t->trace, "evaluation", 0, begun);
    if (interrupted)
        return ending_stopped(t);
    pace_tested(t, steady_seconds() - begun);
    t->evaluated = true;
    progress_tested(&t->bar, t->begun, t->test_acc);
    t->epoch_start = steady_seconds(); /* this was none of the epoch's time */
    return 0;
}
