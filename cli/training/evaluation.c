#include "training/evaluation.h"
#include "run/watch.h"
#include "system/clock.h"
#include "training/average.h"
#include "training/ending.h"
#include "training/pace.h"
#include "training/trace.h"

/* One pass over images that are not trained on. False after a failure of the session. */
static bool measure(const training *t, const ls_data *data, double *loss, double *acc)
{
    ls_metrics metrics;
    if (ls_module_evaluate(t->run.net, data, &metrics) != LS_OK)
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
    if (!average_use(t, true) || (t->validation && !measure(t, t->validation, &t->val_loss, &t->val_acc)) ||
        !measure(t, t->test, &loss, &t->test_acc) || !average_use(t, false))
        return ending_failed(t, "evaluation");
    trace_span(t->trace, "evaluation", 0, begun);
    pace_tested(t, steady_seconds() - begun);
    t->evaluated = true;
    progress_tested(&t->bar, t->begun, t->test_acc);
    t->epoch_start = steady_seconds(); /* this was none of the epoch's time */
    return 0;
}
