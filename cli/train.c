#include "commands.h"
#include "log.h"
#include "progress.h"
#include "record.h"
#include "report.h"
#include "run.h"
#include "say.h"
#include "stop.h"
#include "whole.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One run of training, from the first step to the results. */
typedef struct training {
    run run;
    ls_data *train, *test;
    ls_trainer *trainer;
    ls_optim optim;
    run_log *log;
    struct record *record; /* for --report; NULL without */
    progress bar;
    int64_t rows, batches; /* of one epoch */
    int64_t steps;         /* of the whole run */
    int64_t begun;         /* steps handed in */
    int64_t epoch, epochs; /* the one that runs, from 1; how many the run will start */
    double seconds;        /* of training in the epochs before */
    double epoch_start;
    int64_t epoch_rows; /* handed in this epoch */
    /* Over this epoch's finished steps. */
    double loss_sum;
    int64_t correct, reported;
    double last_loss;
    int64_t finished, finished_rows; /* steps, and their images, of the whole run */
    double test_acc;
} training;

/* Saving at the end of a long run must not fail on what can be seen before it. */
static int check_save(const char *path)
{
    char folder[4096];
    struct stat about;
    if (!path)
        return 0;
    if (!run_has("weights files"))
        return failed("--save",
                      "this program is built without weights files; 'lockstep --version' shows what is missing");
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + (slash == path)) : 1, slash ? path : ".");
    int status = check_folder("--save", folder);
    if (status)
        return status;
    if (slash && !slash[1])
        return failed("--save", "%s: names a folder, not a file", path);
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        return failed("--save", "%s: %s", path, strerror(EISDIR));
    return 0;
}

/* Says a stop; the status of the signal, or 0 where none came. */
static int stopped(const training *t)
{
    int signal_number = stop_signal();
    if (!signal_number)
        return 0;
    failed(stop_signal_name(signal_number), "stopped after step %lld of %lld; nothing was saved", (long long)t->begun,
           (long long)t->steps);
    return STATUS_SIGNAL + signal_number;
}

static void say_settings(const training *t)
{
    const settings *c = t->run.chosen;
    char limits[160] = "";
    if (c->steps)
        snprintf(limits, sizeof limits, ", steps %lld", (long long)c->steps);
    note("lockstep %s: %s on %s: %lld images, batch %lld, shard %lld, epochs %lld%s, seed %llu, init %s, sgd, lr %g, "
         "momentum %g%s, "
         "weight decay %g, schedule %s, warmup %lld, %s, conv %s, isa %s",
         ls_version(), t->run.model, t->run.devices_text, (long long)t->rows, (long long)c->batch, (long long)c->shard,
         (long long)c->epochs, limits, (unsigned long long)c->seed, c->weights ? c->weights : c->init_text, t->optim.lr,
         c->momentum, c->nesterov ? " (Nesterov)" : "", c->weight_decay, schedule_choice(c->schedule),
         (long long)c->warmup, c->no_shuffle ? "file order" : "shuffled", conv_choice(c->conv),
         ls_isa_name(t->run.session));
}

static void say_idle_devices(const training *t)
{
    const settings *c = t->run.chosen;
    int64_t batch = c->batch < t->rows ? c->batch : t->rows;
    int64_t shards = (batch - 1) / c->shard + 1;
    int64_t feeding = t->run.devices.n * c->shard;
    if (shards >= t->run.devices.n)
        return;
    if (feeding <= t->rows)
        note("note: a batch of %lld in shards of %lld makes %lld for %d devices; --batch %lld would feed all",
             (long long)batch, (long long)c->shard, (long long)shards, t->run.devices.n, (long long)feeding);
    else
        note("note: a batch of %lld in shards of %lld makes %lld for %d devices; a batch of %lld would feed all, and "
             "there are %lld images",
             (long long)batch, (long long)c->shard, (long long)shards, t->run.devices.n, (long long)feeding,
             (long long)t->rows);
}

static bool log_settings(const training *t, run_log *log)
{
    const settings *c = t->run.chosen;
    log_begin(log);
    log_text(log, "lockstep", ls_version());
    log_text(log, "built_with", log ? ls_features() : NULL);
    log_text(log, "model", t->run.model);
    log_text(log, "devices", t->run.devices_text);
    log_text(log, "data", c->data);
    log_integer(log, "images", t->rows);
    log_integer(log, "test_images", ls_data_rows(t->test));
    log_integer(log, "batch", c->batch);
    log_integer(log, "shard", c->shard);
    log_integer(log, "epochs", c->epochs);
    log_integer(log, "steps", t->steps);
    log_unsigned(log, "seed", c->seed);
    log_text(log, "init", c->init_text);
    log_text(log, "weights", c->weights);
    log_text(log, "save", c->save);
    log_text(log, "optimizer", "sgd");
    log_number(log, "lr", t->optim.lr);
    log_number(log, "momentum", c->momentum);
    log_bool(log, "nesterov", c->nesterov);
    log_number(log, "weight_decay", c->weight_decay);
    log_text(log, "schedule", schedule_choice(c->schedule));
    log_integer(log, "warmup", c->warmup);
    log_integer(log, "limit", c->limit);
    log_integer(log, "limit_test", c->limit_test);
    log_bool(log, "shuffle", !c->no_shuffle);
    log_text(log, "conv", conv_choice(c->conv));
    log_text(log, "isa", isa_choice(c->isa));
    log_text(log, "isa_in_use", ls_isa_name(t->run.session));
    log_text(log, "dtype", "f32");
    return log_end(log);
}

/* What --report will tell is gathered from here on. */
static int begin_record(training *t)
{
    t->record = record_new(NULL);
    run_log *log = t->record ? log_into(t->record) : NULL;
    bool good = log && log_settings(t, log);
    return log_close(log) && good ? 0 : failed("--report", "%s", strerror(ENOMEM));
}

/* Takes the reports of the steps that finished since the last call. False when the log cannot be written. */
static bool take_reports(training *t)
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
        log_begin(t->log);
        log_integer(t->log, "step", report.step);
        log_number(t->log, "loss", report.loss);
        if (!log_end(t->log))
            return false;
    }
    return true;
}

/* `phase` is what is done between the steps, NULL during them. */
static void show_progress(training *t, const char *phase)
{
    if (!t->bar.live)
        return;
    double spent = t->seconds + (phase ? 0 : steady_seconds() - t->epoch_start);
    double left = (double)(t->steps - t->finished) * (spent / (double)(t->finished ? t->finished : 1));
    view_state state = {.epoch = t->epoch,
                        .epochs = t->epochs,
                        .step = t->finished,
                        .steps = t->steps,
                        .batches = t->batches,
                        .images_per_second = spent > 0 ? (double)t->finished_rows / spent : 0,
                        .loss = t->last_loss,
                        .seconds_left = t->finished ? left : NAN,
                        .phase = phase};
    progress_show(&t->bar, &state);
}

/* The steps of one epoch. 0, or the status to exit with once a line is said. */
static int run_steps(training *t)
{
    ls_batch batch;
    while (t->begun < t->steps && ls_next(t->train, &batch)) {
        ls_backward(ls_cross_entropy(ls_train(t->run.net, batch.X), batch.y));
        if (ls_step(t->trainer) != LS_OK)
            break;
        t->begun++;
        t->epoch_rows += ls_rows(batch.X);
        if (!take_reports(t))
            return STATUS_FAILED;
        show_progress(t, NULL);
        if (stop_signal())
            break;
    }
    ls_wait(t->run.session);
    return 0;
}

static int evaluate(training *t, double *accuracy)
{
    ls_metrics metrics;
    if (ls_evaluate(t->run.net, t->test, &metrics) != LS_OK)
        return session_failed(t->run.session, "evaluation");
    *accuracy = (double)metrics.correct / (double)metrics.rows;
    progress_test(&t->bar, t->begun, *accuracy);
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
                                  .test_acc = t->test_acc,
                                  .seconds = seconds,
                                  .images_per_second = speed});
    note("%s", line);
}

static int report_epoch(training *t, double seconds)
{
    double rows = (double)t->reported;
    double speed = seconds > 0 ? (double)t->epoch_rows / seconds : 0;
    if (!t->run.chosen->quiet)
        say_epoch(t, seconds, speed);
    if (t->record && !record_add_epoch(t->record, &(record_epoch){.epoch = t->epoch,
                                                                  .step = t->begun,
                                                                  .train_loss = t->loss_sum / rows,
                                                                  .train_acc = (double)t->correct / rows,
                                                                  .test_acc = t->test_acc,
                                                                  .sec = seconds,
                                                                  .img_per_s = speed}))
        return failed("--report", "%s", strerror(ENOMEM));
    log_begin(t->log);
    log_integer(t->log, "epoch", t->epoch);
    log_number(t->log, "train_loss", t->loss_sum / rows);
    log_number(t->log, "train_acc", (double)t->correct / rows);
    log_number(t->log, "test_acc", t->test_acc);
    log_number(t->log, "sec", seconds);
    log_number(t->log, "img_per_s", speed);
    return log_end(t->log) ? 0 : STATUS_FAILED;
}

static int run_epoch(training *t)
{
    t->epoch_rows = t->correct = t->reported = 0;
    t->loss_sum = 0;
    t->epoch_start = steady_seconds();
    show_progress(t, NULL);
    int status = run_steps(t);
    double seconds = steady_seconds() - t->epoch_start;
    t->seconds += seconds;
    if (status == 0 && !take_reports(t))
        status = STATUS_FAILED;
    if (status || ls_failed(t->run.session) || stop_signal()) {
        if (status)
            return status;
        return ls_failed(t->run.session) ? session_failed(t->run.session, "train") : stopped(t);
    }
    show_progress(t, "testing");
    if ((status = evaluate(t, &t->test_acc)) != 0)
        return status;
    if ((status = report_epoch(t, seconds)) != 0)
        return status;
    return stopped(t);
}

/* Saves, and prints the last two lines. */
static int finish(training *t)
{
    const settings *c = t->run.chosen;
    char digits[65];
    bool hash = run_has("fingerprints");
    if (hash && ls_fingerprint(t->run.net, digits) != LS_OK)
        return session_failed(t->run.session, "fingerprint");
    if (c->save && ls_save(t->run.net, c->save) != LS_OK)
        return session_failed(t->run.session, "--save");
    if (c->report) {
        int status = report_run(&t->run, t->record, t->test, hash ? digits : "not built in");
        if (status)
            return status;
    }
    printf("test acc: %.2f, %.1f sec/epoch on %s\n", t->test_acc, t->seconds / (double)t->epochs, t->run.devices_text);
    printf("fingerprint: %s\n", hash ? digits : "not built in");
    return finish_output();
}

/* Data, network and trainer: everything that can be refused before the first step. */
static int prepare(training *t)
{
    const settings *c = t->run.chosen;
    int status = 0;
    if (!(t->train = run_data(&t->run, LS_TRAIN)) || !(t->test = run_data(&t->run, LS_TEST)))
        return STATUS_FAILED;
    if ((status = run_network(&t->run, t->train)) != 0)
        return status;
    t->rows = ls_data_rows(t->train);
    t->batches = ls_data_batches(t->train);
    t->steps = t->batches * c->epochs; /* both are below 2^31 */
    if (c->steps && c->steps < t->steps)
        t->steps = c->steps;
    t->epochs = (t->steps - 1) / t->batches + 1;
    t->last_loss = NAN;
    double usual_lr = strcmp(t->run.model, "resnet18") == 0 ? 0.1 : 0.2;
    t->optim = (ls_optim){.lr = c->lr >= 0 ? c->lr : usual_lr,
                          .momentum = c->momentum,
                          .weight_decay = c->weight_decay,
                          .nesterov = c->nesterov,
                          .schedule = (ls_schedule)c->schedule,
                          .warmup = c->warmup,
                          .total = t->steps};
    t->trainer = ls_trainer_new(t->run.net, (ls_optimizer)c->optimizer, &t->optim);
    if (!t->trainer || ls_check_batches(t->trainer, t->train) != LS_OK)
        return session_failed(t->run.session, "train");
    return 0;
}

static int train(training *t)
{
    const settings *c = t->run.chosen;
    int status = prepare(t);
    if (status)
        return status;
    if (c->log && !(t->log = log_open(c->log)))
        return STATUS_FAILED;
    if (!log_settings(t, t->log))
        return STATUS_FAILED;
    if (c->report && (status = begin_record(t)) != 0)
        return status;
    if (!c->quiet) {
        say_settings(t);
        say_idle_devices(t);
    }
    progress_begin(&t->bar, c->quiet);
    for (t->epoch = 1; t->epoch <= t->epochs; t->epoch++)
        if ((status = run_epoch(t)) != 0)
            return status;
    progress_end(&t->bar);
    return finish(t);
}

int command_train(int argc, char **argv)
{
    settings chosen;
    training t = {0};
    int first, status = 0;
    int operands = read_options(COMMAND_TRAIN, argc, argv, &chosen, &first, &status);
    if (operands < 0)
        return status;
    if (operands > 0)
        return wrong_usage("train", "takes options only, but got '%s'", argv[first]);
    if (chosen.nesterov && chosen.momentum == 0)
        return wrong_usage("--nesterov", "needs a --momentum above 0");
    if (output_closed())
        return failed("standard output", "is closed, and the results would be lost");
    if ((status = check_save(chosen.save)) != 0)
        return status;
    if (chosen.report && (status = check_report("--report", chosen.report)) != 0)
        return status;
    stop_on_signals();
    if ((status = run_open(&t.run, &chosen)) == 0)
        status = train(&t);
    progress_end(&t.bar);
    if (!log_close(t.log) && status == STATUS_DONE)
        status = STATUS_FAILED;
    record_free(t.record);
    return run_close(&t.run, status);
}
