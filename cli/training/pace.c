#include "training/pace.h"
#include "run/ranks.h"
#include "system/clock.h"

#include <math.h>

/* An image in inference beside one in training: without the backward pass. */
static const double test_share = 1 / 3.0;

/* Seconds of training up to the last stop of the clock. */
static double spent_in_all(const training *t)
{
    return t->seconds + t->epoch_seconds;
}

void pace_begin(training *t)
{
    t->spent_before = spent_in_all(t);
    t->tested = t->epoch - 1;
}

/* `phase` is what is done between the steps, NULL during them. Until a test has been timed, it is taken to last as long
 * as the steps that it counts as. */
static view_state state_of(const training *t, const char *phase)
{
    double spent = spent_in_all(t) + (phase ? 0 : steady_seconds() - t->epoch_start) - t->spent_before;
    int64_t done = t->finished - t->first_step, batch = t->run.chosen->batch;
    double step_seconds = done ? spent / (double)done : NAN;
    view_state state = {.epoch = t->epoch < t->epochs ? t->epoch : t->epochs,
                        .epochs = t->epochs,
                        .step = t->finished,
                        .steps = t->steps,
                        .batches = t->batches,
                        .tests = t->epochs + (t->run.chosen->report ? 1 : 0),
                        .tested = (double)t->tested,
                        .test_steps =
                            test_share * (double)ls_data_rows(t->test) / (double)(t->rows < batch ? t->rows : batch),
                        .images_per_second = spent > 0 ? (double)t->finished_rows / spent : 0,
                        .loss = t->last_loss,
                        .phase = phase};
    state.test_seconds = t->test_seconds > 0 ? t->test_seconds : state.test_steps * step_seconds;
    state.seconds_left =
        (double)(t->steps - t->finished) * step_seconds + ((double)state.tests - state.tested) * state.test_seconds;
    return state;
}

void pace_show(training *t)
{
    if (!t->bar.live)
        return;
    view_state state = state_of(t, NULL);
    if (loads_look(&t->devices, t->run.session, t->trainer, t->run.devices, steady_seconds()))
        progress_loads(&t->bar, &t->devices.now);
    progress_show(&t->bar, &state);
}

void pace_test(training *t, const char *phase)
{
    if (!t->bar.live)
        return;
    view_state state = state_of(t, phase);
    int64_t shards = (ls_data_rows(t->test) - 1) / t->run.chosen->shard + 1;
    progress_test(&t->bar, &state, t->run.session, (shards - 1) / ls_cluster_ranks(ranks_cluster()) + 1);
}

void pace_tested(training *t, double seconds)
{
    t->tested++;
    t->test_seconds = seconds;
}
