#include "training/epoch.h"
#include "record/record.h"
#include "run/ranks.h"
#include "run/watch.h"
#include "system/clock.h"
#include "training/best.h"
#include "training/checkpoint.h"
#include "training/ending.h"
#include "training/evaluation.h"
#include "training/pace.h"
#include "training/rate.h"
#include "training/trace.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <lockstep_nn.h>

/* The steps of one epoch. 0, or the status to exit with once a line is said. */
static int run_steps(training *t)
{
    ls_batch batch;
    while (!ending_signal(t)) {
        watch_phase("data");
        if (t->begun >= t->steps || t->done >= t->batches || !ls_data_next(t->train, &batch))
            break;
        watch_phase("step");
        ls_backward(
            ls_cross_entropy_smooth(ls_module_forward(t->run.net, batch.X), batch.y, t->run.chosen->label_smoothing));
        if (t->run.chosen->verify && t->begun % t->run.chosen->verify == 0) {
            watch_phase("verify");
            ls_trainer_verify(t->trainer);
            watch_phase("step");
        }
        if (ls_trainer_step(t->trainer) != LS_OK)
            break;
        t->begun++;
        t->done++;
        if (t->run.chosen->balance && !t->run.chosen->quiet)
            ranks_say_balance(t->trainer);
        t->epoch_rows += ls_rows(batch.X);
        take_reports(t);
        pace_show(t);
        if (checkpoint_due(t)) {
            double begun = steady_seconds();
            bool good = checkpoint_save(t);
            trace_span(t->trace, "checkpoint", 0, begun);
            if (!good)
                return ending_failed(t, "--checkpoint");
        }
    }
    watch_phase("step");
    ls_wait(t->run.session);
    take_reports(t);
    pace_show(t);
    if (!ls_failed(t->run.session))
        return 0;
    return ending_failed(t, ls_status_of(t->run.session) == LS_DIFFERS ? "--verify" : "train");
}

static void say_epoch(const training *t, double seconds, double speed)
{
    char line[160];
    double rows = (double)t->reported;
    view_epoch_text(line, sizeof line, progress_columns(&t->bar),
                    &(view_epoch){.epoch = t->epoch,
                                  .epochs = t->epochs,
                                  .loss = t->loss_sum / rows,
                                  .train_acc = (double)t->correct / rows,
                                  .val_acc = t->val_acc,
                                  .test_acc = t->test_acc,
                                  .seconds = seconds,
                                  .images_per_second = speed});
    note("%s", line);
}

/* The run goes on without it. */
static void lose_report(training *t)
{
    failed("--report", "%s", strerror(ENOMEM));
    record_free(t->record);
    t->record = NULL;
}

static void report_epoch(training *t, double seconds)
{
    double rows = (double)t->reported;
    double speed = seconds > 0 ? (double)t->epoch_rows / seconds : 0;
    if (!t->run.chosen->quiet)
        say_epoch(t, seconds, speed);
    if (t->record && !record_add_epoch(t->record, &(record_epoch){.epoch = t->epoch,
                                                                  .step = t->begun,
                                                                  .train_loss = t->loss_sum / rows,
                                                                  .train_acc = (double)t->correct / rows,
                                                                  .val_acc = t->val_acc,
                                                                  .test_acc = t->test_acc,
                                                                  .sec = seconds,
                                                                  .img_per_s = speed}))
        lose_report(t);
    log_begin(t->log);
    log_integer(t->log, "epoch", t->epoch);
    log_number(t->log, "train_loss", t->loss_sum / rows);
    log_number(t->log, "train_acc", (double)t->correct / rows);
    if (t->validation) {
        log_number(t->log, "val_loss", t->val_loss);
        log_number(t->log, "val_acc", t->val_acc);
    }
    log_number(t->log, "test_acc", t->test_acc);
    log_number(t->log, "sec", seconds);
    log_number(t->log, "img_per_s", speed);
    training_end_line(t);
}

/* The sums of a new epoch; one that was begun before a checkpoint has them. */
static void begin_epoch(training *t)
{
    if (t->done == 0) {
        t->seconds += t->epoch_seconds;
        t->epoch_seconds = 0;
        t->epoch_rows = t->correct = t->reported = 0;
        t->loss_sum = 0;
    }
    t->epoch_start = steady_seconds();
}

/* Why a network still guesses, where its learning rate is not gone. */
static void write_guess(const training *t, bool few, char *why, size_t size)
{
    const settings *c = t->run.chosen;
    if (t->optim.lr == 0)
        snprintf(why, size, "with --lr 0 no weight changes");
    else if (few)
        snprintf(why, size, "few steps were made; %s make more; or --lr %g does not suit",
                 c->steps   ? "higher --steps"
                 : c->limit ? "more --epochs, or images by a higher --limit,"
                            : "more --epochs",
                 t->optim.lr);
    else if (!c->weights && c->init.kind == LS_NORMAL)
        snprintf(why, size,
                 "small first weights (--init %s) learn late: --init xavier mostly learns in the first epoch; or --lr "
                 "%g does not suit",
                 c->init_text, t->optim.lr);
    else
        snprintf(why, size, "--lr %g may be too high or too low%s", t->optim.lr,
                 c->weights ? "" : ", or another --init suit better");
}

static const double chance = 1.2; /* times what guessing gets right */

/* Whether a guess gets so many right of so many images: of few the spread is wide, and two deviations of it count. */
static bool may_guess(double acc, int64_t images, int classes)
{
    const double guess = 1.0 / classes, spread = sqrt(guess * (1 - guess) / (double)images);
    return acc <= fmax(chance * guess, guess + 2 * spread);
}

/* Few test images tell little: the training images, which are more, must say the same. */
static bool guesses(const training *t, int classes)
{
    return t->test_acc * classes <= chance ||
           (may_guess(t->test_acc, ls_data_rows(t->test), classes) &&
            may_guess((double)t->correct / (double)t->reported, t->reported, classes));
}

/* A network that guesses looks broken, and mostly is not. Said once. */
static void say_chance(training *t)
{
    enum { FEW = 100 }; /* steps: what usually learns in an epoch may still guess after them */
    char why[224];
    const bool gone = rate_is_gone(t, why, sizeof why), few = !gone && t->begun < FEW && t->optim.lr > 0;
    const int classes = t->run.about.classes;
    if (t->run.chosen->quiet || t->chance_said || classes == 1 || !guesses(t, classes) || (few && t->begun < t->steps))
        return;
    t->chance_said = true;
    if (!gone)
        write_guess(t, few, why, sizeof why);
    note("note: test accuracy %.4f after step %lld is that of guessing among %d classes: %s", t->test_acc,
         (long long)t->begun, classes, why);
}

int epoch_run(training *t)
{
    begin_epoch(t);
    pace_show(t);
    int status = run_steps(t);
    double now = steady_seconds();
    t->epoch_seconds += now - t->epoch_start;
    t->epoch_start = now;
    if (status || ending_signal(t))
        return status ? status : ending_stopped(t);
    if ((status = evaluation_run(t)) != 0)
        return status;
    report_epoch(t, t->epoch_seconds);
    say_chance(t);
    if (!best_look(t))
        return ending_failed(t, "--keep");
    if (t->begun < t->steps) { /* only now, so that a checkpoint from before leads to the evaluation */
        t->done = 0;
        if (ls_data_seek(t->train, t->epoch, 0) != LS_OK)
            return ending_failed(t, "train");
    }
    return ending_stopped(t);
}
