#include "commands.h"
#include "options/choice.h"
#include "options/options.h"
#include "options/outputs.h"
#include "record/record.h"
#include "report/report.h"
#include "run/judge.h"
#include "run/ranks.h"
#include "run/watch.h"
#include "system/clock.h"
#include "system/stop.h"
#include "system/whole.h"
#include "text/say.h"
#include "training/best.h"
#include "training/checkpoint.h"
#include "training/keep.h"
#include "training/pace.h"
#include "training/trace.h"
#include "training/training.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <lockstep_nn.h>

/* Saving at the end of a long run must not fail on what can be seen before it. */
static int check_save(const char *path)
{
    if (!path)
        return 0;
    if (!run_has("weights files"))
        return failed("--save",
                      "this program is built without weights files; 'lockstep --version' shows what is missing");
    return check_new_file("--save", path);
}

/* What ranks ask of each other. A stop, with its signal added, outweighs a checkpoint, which it makes too. */
enum { ASK_SAVE = 1, ASK_STOP = 1 };

/* The signal that asks to stop; where there are ranks, that asked any of them, and it is known to all at the same step.
 * So is whether it is time for a checkpoint; what was asked in steps before the last one is of the past. */
static int asked_to_stop(training *t)
{
    int signal_number = stop_signal();
    ls_ask(t->trainer, signal_number ? ASK_STOP + signal_number : checkpoint_wanted(t) ? ASK_SAVE : 0);
    int asked = ls_asked(t->trainer);
    t->save_now = asked == ASK_SAVE && t->begun - 1 > t->saved_step;
    return asked > ASK_STOP ? asked - ASK_STOP : 0;
}

/* Says the session's failure, which ends the run: what was learned before it is kept, unless that is in doubt
 * itself. */
static int ends_with(training *t, const char *what, bool doubtful)
{
    keeping kept = {.option = NULL};
    char why[MOST_WORDS], where[sizeof kept];
    const ls_status status = ls_status_of(t->run.session);
    session_words(t->run.session, why, sizeof why);
    if (ls_failed_together(t->run.session))
        ranks_end_together();
    doubtful = doubtful || status == LS_DIFFERS || status == LS_INTERNAL || t->finished == 0;
    if (!doubtful && ls_cluster_rank(ranks_cluster()) == 0 && ls_catch(t->run.session, status))
        keep_weights(t, &kept);
    return failed(what, "%s%s", why, keep_words(t, &kept, where, sizeof where));
}

/* Says a stop; the status of the signal, or 0 where none came. */
static int stopped(training *t)
{
    int signal_number = asked_to_stop(t);
    if (!signal_number)
        return 0;
    keeping kept = {.option = NULL};
    char where[sizeof kept];
    bool saved = checkpoint_stop(t);
    if (ls_failed(t->run.session))
        return ends_with(t, "--checkpoint", false);
    ranks_end_together();
    if (t->finished > 0 && ls_cluster_rank(ranks_cluster()) == 0)
        keep_weights(t, &kept);
    keep_words(t, &kept, where, sizeof where);
    failed(stop_signal_name(signal_number), "stopped after step %lld of %lld%s%s%s%s", (long long)t->begun,
           (long long)t->steps, saved ? "; saved in " : "", saved ? t->run.chosen->checkpoint : "",
           saved ? ", --resume goes on from there" : "", saved || *where ? where : "; nothing was saved");
    return STATUS_SIGNAL + signal_number;
}

static void say_settings(const training *t)
{
    const settings *c = t->run.chosen;
    const bool gpus = !run_is_on(&t->run, LS_CPU);
    char limits[160] = "", moments[96], smoothing[48] = "", patience[48] = "", held[80] = "", clip[48] = "",
         augment[96] = "";
    if (c->clip_norm > 0)
        snprintf(clip, sizeof clip, "clip norm %g, ", c->clip_norm);
    if (c->steps)
        snprintf(limits, sizeof limits, ", steps %lld", (long long)c->steps);
    if (c->flip)
        strcat(augment, ", flip");
    if (c->crop)
        snprintf(augment + strlen(augment), sizeof augment - strlen(augment), ", crop %lld", (long long)c->crop);
    if (c->erase > 0)
        snprintf(augment + strlen(augment), sizeof augment - strlen(augment), ", erase %g", c->erase);
    if (t->validation)
        snprintf(held, sizeof held, ", %lld held out for validation%s", (long long)ls_data_rows(t->validation),
                 c->keep == KEEP_BEST ? ", the best epoch kept" : "");
    if (c->patience)
        snprintf(patience, sizeof patience, ", patience %lld", (long long)c->patience);
    if (c->label_smoothing > 0)
        snprintf(smoothing, sizeof smoothing, "label smoothing %g, ", c->label_smoothing);
    if (c->optimizer == LS_SGD)
        snprintf(moments, sizeof moments, "momentum %g%s", c->momentum, c->nesterov ? " (Nesterov)" : "");
    else
        snprintf(moments, sizeof moments, "betas %g and %g, eps %g", t->optim.beta1, t->optim.beta2, t->optim.eps);
    note("lockstep %s: %s on %s: %s, %lld images%s, batch %lld%s, shard %lld, epochs %lld%s%s, seed %llu, init %s, "
         "%s%s, "
         "lr %g, %s, weight decay %g, %sschedule %s, warmup %lld, %s%s, conv %s, %s %s%s",
         ls_version(), t->run.model, t->run.devices_text, c->dataset, (long long)t->rows, held, (long long)c->batch,
         c->last_batch == LAST_SHARE ? " (the last by its share)" : "", (long long)c->shard, (long long)c->epochs,
         limits, patience, (unsigned long long)c->seed, c->weights ? c->weights : c->init_text, smoothing,
         optimizer_choice(c->optimizer), t->optim.lr, moments, t->optim.weight_decay, clip,
         schedule_choice(c->schedule), (long long)c->warmup, c->no_shuffle ? "file order" : "shuffled", augment,
         conv_choice(c->conv), gpus ? "dtype" : "isa", gpus ? dtype_choice(c->dtype) : ls_isa_name(t->run.session),
         c->balance ? ", shards by speed" : "");
}

static void say_mixed_devices(const training *t)
{
    if (run_is_on(&t->run, LS_CPU) && run_is_on(&t->run, LS_CUDA))
        note(
            "note: CPUs and GPUs round differently, and which of them computes a shard is a matter of their speed: the "
            "same bits are not promised");
}

static void say_idle_devices(const training *t)
{
    const settings *c = t->run.chosen;
    int64_t batch = c->batch < t->rows ? c->batch : t->rows;
    int64_t shards = (batch - 1) / c->shard + 1;
    int devices = run_device_count(&t->run);
    int64_t feeding = devices * c->shard;
    if (shards >= devices)
        return;
    if (c->bn == BN_SYNC)
        note("note: with --bn sync one device computes the batch, and the others take parts of its operations");
    else if (feeding <= t->rows)
        note("note: a batch of %lld in shards of %lld makes %lld for %d devices; --batch %lld would feed all",
             (long long)batch, (long long)c->shard, (long long)shards, devices, (long long)feeding);
    else
        note("note: a batch of %lld in shards of %lld makes %lld for %d devices; a batch of %lld would feed all, and "
             "there are %lld images",
             (long long)batch, (long long)c->shard, (long long)shards, devices, (long long)feeding, (long long)t->rows);
}

static bool log_settings(const training *t, run_log *log)
{
    const settings *c = t->run.chosen;
    char every[32];
    log_begin(log);
    log_text(log, "lockstep", ls_version());
    log_text(log, "built_with", log ? ls_features() : NULL);
    log_text(log, "date", t->origin.date);
    log_text(log, "host", t->origin.host);
    log_text(log, "command", t->origin.command);
    log_text(log, "model", t->run.model);
    log_text(log, "devices", t->run.devices_text);
    log_text(log, "dataset", c->dataset);
    log_text(log, "data", c->data);
    log_integer(log, "images", t->rows);
    log_integer(log, "test_images", ls_data_rows(t->test));
    log_integer(log, "batch", c->batch);
    log_integer(log, "shard", c->shard);
    log_text(log, "bn", bn_choice(c->bn));
    log_integer(log, "epochs", c->epochs);
    log_integer(log, "steps", t->steps);
    log_unsigned(log, "seed", c->seed);
    log_text(log, "init", c->init_text);
    log_text(log, "weights", c->weights);
    log_text(log, "strip_prefix", c->strip_prefix);
    log_text(log, "save", c->save);
    log_text(log, "optimizer", optimizer_choice(c->optimizer));
    log_number(log, "lr", t->optim.lr);
    log_number(log, "momentum", c->momentum);
    log_bool(log, "nesterov", c->nesterov);
    if (c->optimizer != LS_SGD) {
        log_number(log, "beta1", t->optim.beta1);
        log_number(log, "beta2", t->optim.beta2);
        log_number(log, "eps", t->optim.eps);
    }
    log_number(log, "weight_decay", t->optim.weight_decay);
    if (c->clip_norm > 0)
        log_number(log, "clip_norm", c->clip_norm);
    log_text(log, "last_batch", last_batch_choice(c->last_batch));
    log_text(log, "schedule", schedule_choice(c->schedule));
    log_integer(log, "warmup", c->warmup);
    log_number(log, "label_smoothing", c->label_smoothing);
    log_integer(log, "validate", ls_data_rows(t->validation));
    log_text(log, "keep", keep_choice(c->keep));
    log_integer(log, "patience", c->patience);
    log_integer(log, "limit", c->limit);
    log_integer(log, "limit_test", c->limit_test);
    log_bool(log, "shuffle", !c->no_shuffle);
    log_bool(log, "flip", c->flip);
    log_integer(log, "crop", c->crop);
    log_number(log, "erase", c->erase);
    log_text(log, "conv", conv_choice(c->conv));
    log_text(log, "isa", isa_choice(c->isa));
    log_text(log, "isa_in_use", ls_isa_name(t->run.session));
    log_text(log, "dtype", dtype_choice(c->dtype));
    log_text(log, "checkpoint", c->checkpoint);
    log_text(log, "checkpoint_every", checkpoint_interval(c, every));
    log_integer(log, "verify", c->verify);
    log_integer(log, "timeout", c->timeout);
    log_bool(log, "balance", c->balance);
    log_integer(log, "in_flight", c->in_flight);
    log_bool(log, "host_sums", c->host_sums);
    log_text(log, "report", c->report);
    log_text(log, "trace", c->trace);
    return log_end(log);
}

/* What --report will tell is gathered from here on. */
static int begin_record(training *t)
{
    const settings *c = t->run.chosen;
    /* What was before a resume is in the log. */
    if (t->begun && c->log && record_reader_built() && !(t->record = record_read(c->log)))
        return STATUS_FAILED;
    if (t->begun && (!t->record || t->record->history.last_step < t->begun) && !c->quiet)
        note("note: the report lacks steps before %lld: they are in no log that can be read", (long long)t->begun);
    if (t->record)
        return 0;
    t->record = record_new(NULL);
    run_log *log = t->record ? log_into(t->record) : NULL;
    bool good = log && log_settings(t, log);
    return log_close(log) && good ? 0 : failed("--report", "%s", strerror(ENOMEM));
}

/* A log that cannot be written says so once, and costs the run its status at the end. Whatever waits for a reader is
 * named. */
static void end_line(training *t)
{
    const char *phase = watch_phase("writing the log");
    log_end(t->log);
    watch_phase(phase);
}

void take_reports(training *t)
{
    ls_report report;
    while (ls_next_report(t->trainer, &report)) {
        t->loss_sum += report.loss * report.rows;
        t->correct += report.correct;
        t->reported += report.rows;
        t->last_loss = report.loss;
        t->finished = report.step;
        t->finished_rows += report.rows;
        progress_step(&t->bar, report.step, report.loss, report.correct, report.rows);
        if (t->record)
            record_step(t->record, report.step, report.loss);
        watch_step(report.step);
        log_begin(t->log);
        log_integer(t->log, "step", report.step);
        log_number(t->log, "loss", report.loss);
        if (t->optim.clip_norm > 0)
            log_number(t->log, "grad_norm", report.norm);
        end_line(t);
    }
}

/* The steps of one epoch. 0, or the status to exit with once a line is said. */
static int run_steps(training *t)
{
    ls_batch batch;
    while (!asked_to_stop(t)) {
        watch_phase("data");
        if (t->begun >= t->steps || t->done >= t->batches || !ls_next(t->train, &batch))
            break;
        watch_phase("step");
        ls_backward(ls_cross_entropy_smooth(ls_train(t->run.net, batch.X), batch.y, t->run.chosen->label_smoothing));
        if (t->run.chosen->verify && t->begun % t->run.chosen->verify == 0) {
            watch_phase("verify");
            ls_verify(t->trainer);
            watch_phase("step");
        }
        if (ls_step(t->trainer) != LS_OK)
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
                return ends_with(t, "--checkpoint", false);
        }
    }
    watch_phase("step");
    ls_wait(t->run.session);
    take_reports(t);
    if (!ls_failed(t->run.session))
        return 0;
    return ends_with(t, ls_status_of(t->run.session) == LS_DIFFERS ? "--verify" : "train", false);
}

/* One pass over images that are not trained on. False after a failure of the session. */
static bool measure(const training *t, const ls_data *data, double *loss, double *acc)
{
    ls_metrics metrics;
    if (ls_evaluate(t->run.net, data, &metrics) != LS_OK)
        return false;
    *loss = metrics.loss;
    *acc = (double)metrics.correct / (double)metrics.rows;
    return true;
}

static int evaluate(training *t)
{
    double begun = steady_seconds(), loss;
    watch_phase("evaluation");
    pace_test(t, t->validation ? "validating and testing" : "testing");
    if ((t->validation && !measure(t, t->validation, &t->val_loss, &t->val_acc)) ||
        !measure(t, t->test, &loss, &t->test_acc))
        return ends_with(t, "evaluation", ls_status_of(t->run.session) == LS_NOT_FINITE);
    trace_span(t->trace, "evaluation", 0, begun);
    pace_tested(t, steady_seconds() - begun);
    t->evaluated = true;
    progress_tested(&t->bar, t->begun, t->test_acc);
    t->epoch_start = steady_seconds(); /* this was none of the epoch's time */
    return 0;
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
    end_line(t);
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

/* A network that guesses looks broken, and mostly is not. Said once. */
static void say_chance(training *t)
{
    static const double chance = 1.2;
    const settings *c = t->run.chosen;
    const int classes = t->run.about.classes;
    if (c->quiet || t->chance_said || classes == 1 || t->test_acc * classes > chance)
        return;
    t->chance_said = true;
    char why[160];
    if (!c->weights && c->init.kind == LS_NORMAL)
        snprintf(why, sizeof why,
                 "small first weights (--init %s) learn late: --init xavier mostly learns in the first epoch; or --lr "
                 "%g does not suit",
                 c->init_text, t->optim.lr);
    else
        snprintf(why, sizeof why, "--lr %g may be too high or too low%s", t->optim.lr,
                 c->weights ? "" : ", or another --init suit better");
    note("note: test accuracy %.4f after step %lld is that of guessing among %d classes: %s", t->test_acc,
         (long long)t->begun, classes, why);
}

static int run_epoch(training *t)
{
    begin_epoch(t);
    pace_show(t);
    int status = run_steps(t);
    double now = steady_seconds();
    t->epoch_seconds += now - t->epoch_start;
    t->epoch_start = now;
    if (status || asked_to_stop(t))
        return status ? status : stopped(t);
    if ((status = evaluate(t)) != 0)
        return status;
    report_epoch(t, t->epoch_seconds);
    say_chance(t);
    if (!best_look(t))
        return ends_with(t, "--keep", false);
    if (t->begun < t->steps) { /* only now, so that a checkpoint from before leads to the evaluation */
        t->done = 0;
        if (ls_seek(t->train, t->epoch, 0) != LS_OK)
            return ends_with(t, "train", false);
    }
    return stopped(t);
}

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
    if (run_has("fingerprints") && ls_fingerprint(t->run.net, o->fingerprint) != LS_OK)
        return ends_with(t, "fingerprint", false);
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
    if (o->kept.option) { /* the words begin with "; " and the option, which is the line's own */
        keep_words(t, &o->kept, where, sizeof where);
        kept = failed(o->kept.option, "%s", where + strlen("; : ") + strlen(o->kept.option));
    }
    const int traced = trace_end(&t->trace, t, true);
    if (t->run.chosen->report)
        report = o->judged && t->record ? report_run(&t->run, t->record, &o->judge, o->fingerprint) : STATUS_FAILED;
    return told ? told : kept ? kept : traced ? traced : report;
}

/* What takes all ranks comes first, but for keeping what was learned; the rest is rank 0's. */
static int finish(training *t)
{
    outcome o = {.judged = false};
    const bool first = ls_cluster_rank(ranks_cluster()) == 0;
    int status = 0;
    if (!*t->result && !t->evaluated && (status = evaluate(t)) != 0)
        return status;
    watch_phase("save");
    if (!*t->result) {
        snprintf(t->result, sizeof t->result, "test acc: %.2f, %.1f sec/epoch on %s", best_test_acc(t),
                 (t->seconds + t->epoch_seconds) / (double)t->epochs, t->run.devices_text);
        if (!checkpoint_stop(t) && ls_failed(t->run.session))
            return ends_with(t, "--checkpoint", false);
    }
    if (!best_take(t))
        return ends_with(t, "--keep", false);
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

static double or_usual(double given, double usual)
{
    return given >= 0 ? given : usual;
}

/* The optimizer's settings, with the usual values where none were given. */
static ls_optim optim_of(const settings *c, const char *model, int64_t steps)
{
    ls_optim optim = {.lr = or_usual(c->lr, strcmp(model, "resnet18") == 0 ? 0.1 : 0.2),
                      .momentum = c->momentum,
                      .weight_decay = or_usual(c->weight_decay, c->optimizer == LS_ADAMW ? 0.01 : 0),
                      .nesterov = c->nesterov,
                      .clip_norm = c->clip_norm,
                      .full_batch = c->last_batch == LAST_SHARE ? c->batch : 0,
                      .schedule = (ls_schedule)c->schedule,
                      .warmup = c->warmup,
                      .total = steps};
    if (c->optimizer != LS_SGD) {
        optim.lr = or_usual(c->lr, 0.001);
        optim.beta1 = or_usual(c->beta1, 0.9);
        optim.beta2 = or_usual(c->beta2, 0.999);
        optim.eps = or_usual(c->eps, 1e-8);
    }
    return optim;
}

/* An evaluation would find out, an epoch later. */
static int check_parts(const training *t)
{
    ls_data_info a, b;
    if (ls_data_about(t->train, &a) != LS_OK || ls_data_about(t->test, &b) != LS_OK)
        return session_failed(t->run.session, "data");
    if (a.channels != b.channels || a.height != b.height || a.width != b.width)
        return failed("data", "the training images are %d x %d x %d, but the test images %d x %d x %d", a.channels,
                      a.height, a.width, b.channels, b.height, b.width);
    if (a.floats != b.floats)
        return failed("data", "the training images are %s, but the test images %s; save both alike",
                      a.floats ? "float32" : "bytes", b.floats ? "float32" : "bytes");
    return 0;
}

/* Only rank 0 writes. */
static int check_outputs(const training *t)
{
    const ls_data *parts[] = {t->train, t->test};
    int status = 0;
    for (int i = 0; i < 2 && !status && ls_cluster_rank(ranks_cluster()) == 0; i++)
        status = outputs_check_data(COMMAND_TRAIN, t->run.chosen, parts[i]);
    return status;
}

void count_steps(training *t, const ls_checkpoint *from)
{
    const settings *c = t->run.chosen;
    t->steps = from->step + (c->epochs - from->epoch) * t->batches - from->batch; /* both factors are below 2^31 */
    if (c->steps && c->steps < t->steps)
        t->steps = c->steps;
    t->epochs = from->epoch + (from->batch + t->steps - from->step + t->batches - 1) / t->batches;
}

/* Data, network and trainer: everything that can be refused before the first step. */
static int prepare(training *t)
{
    const settings *c = t->run.chosen;
    int status = 0;
    if (!(t->train = run_data(&t->run, LS_TRAIN)) || !(t->test = run_data(&t->run, LS_TEST)))
        return STATUS_FAILED;
    if ((status = check_outputs(t)) != 0 || (status = run_doubt(&t->run, t->train, t->test)) != 0 ||
        (status = check_parts(t)) != 0 || (status = best_hold_out(t)) != 0)
        return status;
    if ((status = run_network(&t->run, t->train)) != 0)
        return status;
    t->rows = ls_data_rows(t->train);
    t->batches = ls_data_batches(t->train);
    count_steps(t, &(ls_checkpoint){.step = 0});
    t->epoch = 1;
    t->last_loss = t->val_acc = t->val_loss = NAN;
    t->optim = optim_of(c, t->run.model, t->steps);
    t->trainer = ls_trainer_new(t->run.net, (ls_optimizer)c->optimizer, &t->optim);
    if (!t->trainer || ls_check_batches(t->trainer, t->train) != LS_OK)
        return session_failed(t->run.session, "train");
    return keep_check(t);
}

/* The settings in the log of a run that goes on are those that it goes on with. */
static int settle_log(training *t)
{
    char *first = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&first, &length);
    run_log *line = memory ? log_onto(memory, "--log", t->run.chosen->log) : NULL;
    bool good = line && log_settings(t, line);
    if (memory)
        good = fclose(memory) == 0 && good;
    if (!good && !line)
        failed("--log", "%s", strerror(ENOMEM));
    log_close(line);
    if (good)
        log_settle(t->log, first, length);
    free(first);
    return good ? 0 : STATUS_FAILED;
}

/* The log, anew or cut back to where the run goes on. */
static int open_log(training *t, int64_t step, int64_t epochs)
{
    const settings *c = t->run.chosen;
    bool begun = false;
    if (c->log && !(t->log = log_open(c->log, c->resume, step, epochs, &begun)))
        return STATUS_FAILED;
    if (begun && !*t->result)
        return settle_log(t);
    if (!begun)
        log_settings(t, t->log);
    return 0;
}

static int train(training *t)
{
    const settings *c = t->run.chosen;
    int status = checkpoint_open(t);
    if (status)
        return status;
    /* What a whole run logged of its last epoch stays; the others will write theirs again. */
    int64_t logged = t->epoch - 1 + (*t->result ? 1 : 0);
    if ((status = open_log(t, t->begun, logged)) != 0)
        return status;
    if (c->report && ls_cluster_rank(ranks_cluster()) == 0 && (status = begin_record(t)) != 0)
        return status;
    if (!c->quiet) {
        say_settings(t);
        run_describe(&t->run, t->train);
        say_idle_devices(t);
        say_mixed_devices(t);
    }
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
        status = run_epoch(t);
        trace_span(t->trace, "epoch", t->epoch, begun);
        if (status)
            return status;
    }
    return finish(t);
}

/* Options that need others. */
static int check_together(const settings *c)
{
    if (check_optimizer(c) != 0)
        return STATUS_USAGE;
    if (c->erase > 1)
        return wrong_usage("--erase", "must be from 0 to 1");
    if (c->label_smoothing > 1)
        return wrong_usage("--label-smoothing", "must be from 0 to 1");
    if (c->strip_prefix && !c->weights)
        return wrong_usage("--strip-prefix", "needs --weights");
    if (c->keep == KEEP_BEST && !(c->validate > 0))
        return wrong_usage("--keep", "best needs --validate: test images that choose weights judge them too well");
    if (c->allow_classes && !c->weights)
        return wrong_usage("--allow-changed", "classes needs --weights");
    if (c->resume && c->restart)
        return wrong_usage("--restart", "trains anew, and --resume goes on; say one of them");
    if (c->checkpoint)
        return c->n_allow_changed && !c->resume ? wrong_usage("--allow-changed", "needs --resume") : 0;
    const char *without = c->resume                                ? "--resume"
                          : c->restart                             ? "--restart"
                          : c->every_steps || c->every_seconds > 0 ? "--checkpoint-every"
                          : c->n_allow_changed                     ? "--allow-changed"
                                                                   : NULL;
    return without ? wrong_usage(without, "needs --checkpoint DIR") : 0;
}

/* What can be refused without the data; only rank 0 has results to lose. */
static int check(const settings *chosen)
{
    int status = check_together(chosen);
    if (status)
        return status;
    if (chosen->trace && ls_cluster_ranks(ranks_cluster()) > 1)
        return failed("--trace", "works within one process so far; leave it out, or start without a launcher");
    if (ls_cluster_rank(ranks_cluster()) > 0)
        return 0;
    if ((status = check_output()) != 0 || (status = outputs_check(COMMAND_TRAIN, chosen, NULL, 0)) != 0 ||
        (status = check_save(chosen->save)) != 0)
        return status;
    if (chosen->trace && (status = check_new_file("--trace", chosen->trace)) != 0)
        return status;
    if (!chosen->report)
        return 0;
    return check_report("--report", chosen->report);
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
        status = check(&chosen);
    if (!status)
        status = run_open(&t.run, &chosen, ranks_cluster());
    watch_session(t.run.session);
    watch_phase("data");
    if (!status)
        status = prepare(&t);
    status = ranks_agree(COMMAND_TRAIN, &t.run, t.train, t.validation, t.test, status);
    if (!status)
        status = train(&t);
    progress_end(&t.bar);
    int traced = trace_end(&t.trace, &t, status != STATUS_FAILED); /* of a run that was stopped */
    if (traced && status == STATUS_DONE)
        status = traced;
    if (!log_close(t.log) && status == STATUS_DONE)
        status = STATUS_FAILED;
    if (status == STATUS_DONE && !chosen.quiet)
        outputs_say(COMMAND_TRAIN, &chosen);
    record_free(t.record);
    origin_free(&t.origin);
    return ranks_close(&t.run, status);
}
