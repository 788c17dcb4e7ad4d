#include "training/heading.h"
#include "options/choice.h"
#include "record/record.h"
#include "training/checkpoint.h"
#include "training/rate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The schedule with what it was given, and its rise. */
static void write_schedule(char *text, size_t size, const ls_optim *o, const settings *c)
{
    const bool rises = c->schedule == LS_ONE_CYCLE && !c->warmup;
    size_t n = (size_t)snprintf(text, size, "%s", choice_name(schedule_choices, c->schedule));
    if (o->start_factor > 0)
        n += (size_t)snprintf(text + n, size - n, " from %g", o->start_factor);
    if (o->end_factor > 0)
        n += (size_t)snprintf(text + n, size - n, " to %g", o->end_factor);
    if (o->gamma > 0)
        n += (size_t)snprintf(text + n, size - n, " by %g", o->gamma);
    if (o->period)
        n += (size_t)snprintf(text + n, size - n, " each %lld steps", (long long)o->period);
    if (o->period_factor > 1)
        n += (size_t)snprintf(text + n, size - n, ", each time %d times as long", o->period_factor);
    if (rises)
        snprintf(text + n, size - n, ", warmup 0.3 of the run");
    else
        snprintf(text + n, size - n, o->after_warmup ? " after warmup %lld" : ", warmup %lld", (long long)o->warmup);
}

static void say_settings(const training *t)
{
    const settings *c = t->run.chosen;
    static const char *const last_text[] = {
        [LAST_MEAN] = "", [LAST_SHARE] = " (the last by its share)", [LAST_DROP] = " (a partial one is left out)"};
    const bool gpus = !run_is_on(&t->run, LS_CPU);
    char limits[160] = "", moments[96], smoothing[48] = "", patience[48] = "", held[80] = "", clip[48] = "",
         average[112] = "", augment[96] = "", frozen[160] = "", schedule[160];
    write_schedule(schedule, sizeof schedule, &t->optim, c);
    if (c->clip_norm > 0)
        snprintf(clip, sizeof clip, "clip norm %g, ", c->clip_norm);
    if (c->ema > 0)
        snprintf(average, sizeof average, "judged and saved by the average of weights%s with ema %g%s, ",
                 c->ema_buffers ? " and statistics" : "", c->ema, c->ema_warmup ? " and its warmup" : "");
    if (c->freeze)
        snprintf(frozen, sizeof frozen, ", frozen %s", c->freeze);
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
    note("lockstep %s: %s%s on %s: %s, %lld images%s, batch %lld%s, shard %lld, epochs %lld%s%s, seed %llu, init %s, "
         "%s%s, "
         "lr %g, %s, weight decay %g%s, %s%sschedule %s, %s%s, conv %s, %s %s%s",
         ls_version(), t->run.model, frozen, t->run.devices_text, c->dataset, (long long)t->rows, held,
         (long long)c->batch, last_text[c->last_batch], (long long)c->shard, (long long)c->epochs, limits, patience,
         (unsigned long long)c->seed, c->weights ? c->weights : c->init_text, smoothing,
         choice_name(optimizer_choices, c->optimizer), t->optim.lr, moments, t->optim.weight_decay,
         c->no_decay ? " (not of biases and BatchNorm)" : "", clip, average, schedule,
         c->no_shuffle ? "file order" : "shuffled", augment, choice_name(conv_choices, c->conv), gpus ? "dtype" : "isa",
         gpus ? choice_name(dtype_choices, c->dtype) : ls_isa_name(t->run.session),
         c->balance ? ", shards by speed" : "");
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
    if (feeding <= t->rows)
        note("note: a batch of %lld in shards of %lld makes %lld for %d devices; --batch %lld would feed all",
             (long long)batch, (long long)c->shard, (long long)shards, devices, (long long)feeding);
    else
        note("note: a batch of %lld in shards of %lld makes %lld for %d devices; a batch of %lld would feed all, and "
             "there are %lld images",
             (long long)batch, (long long)c->shard, (long long)shards, devices, (long long)feeding, (long long)t->rows);
}

void heading_say(const training *t)
{
    say_settings(t);
    run_describe(&t->run, t->train);
    say_idle_devices(t);
    rate_say(t);
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
    char bn[24];
    log_text(log, "bn", choice_or_count(bn_choices, c->bn, bn, sizeof bn));
    log_integer(log, "epochs", c->epochs);
    log_integer(log, "steps", t->steps);
    log_unsigned(log, "seed", c->seed);
    log_text(log, "init", c->init_text);
    log_text(log, "weights", c->weights);
    log_text(log, "strip_prefix", c->strip_prefix);
    log_text(log, "weights_skip", c->weights_skip);
    log_text(log, "freeze", c->freeze);
    log_text(log, "save", c->save);
    log_text(log, "optimizer", choice_name(optimizer_choices, c->optimizer));
    log_number(log, "lr", t->optim.lr);
    log_number(log, "momentum", c->momentum);
    log_bool(log, "nesterov", c->nesterov);
    if (c->optimizer != LS_SGD) {
        log_number(log, "beta1", t->optim.beta1);
        log_number(log, "beta2", t->optim.beta2);
        log_number(log, "eps", t->optim.eps);
    }
    log_number(log, "weight_decay", t->optim.weight_decay);
    log_bool(log, "no_decay", c->no_decay);
    if (c->clip_norm > 0)
        log_number(log, "clip_norm", c->clip_norm);
    if (c->ema > 0) {
        log_number(log, "ema", c->ema);
        log_bool(log, "ema_warmup", c->ema_warmup);
        log_bool(log, "ema_buffers", c->ema_buffers);
    }
    log_text(log, "last_batch", choice_name(last_batch_choices, c->last_batch));
    log_text(log, "schedule", choice_name(schedule_choices, c->schedule));
    log_integer(log, "warmup", c->warmup);
    if (c->after_warmup)
        log_bool(log, "after_warmup", true);
    if (c->start_factor >= 0)
        log_number(log, "start_factor", c->start_factor);
    if (c->end_factor >= 0)
        log_number(log, "end_factor", c->end_factor);
    if (c->gamma >= 0)
        log_number(log, "gamma", c->gamma);
    if (c->period)
        log_integer(log, "period", c->period);
    if (c->period_factor)
        log_integer(log, "period_factor", c->period_factor);
    log_number(log, "label_smoothing", c->label_smoothing);
    log_integer(log, "validate", ls_data_rows(t->validation));
    log_text(log, "keep", choice_name(keep_choices, c->keep));
    log_integer(log, "patience", c->patience);
    log_integer(log, "limit", c->limit);
    log_integer(log, "limit_test", c->limit_test);
    log_bool(log, "shuffle", !c->no_shuffle);
    log_bool(log, "flip", c->flip);
    log_integer(log, "crop", c->crop);
    log_number(log, "erase", c->erase);
    log_text(log, "conv", choice_name(conv_choices, c->conv));
    log_text(log, "isa", choice_name(isa_choices, c->isa));
    log_text(log, "isa_in_use", ls_isa_name(t->run.session));
    log_text(log, "dtype", choice_name(dtype_choices, c->dtype));
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

int heading_log(training *t, int64_t step, int64_t epochs)
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

int heading_record(training *t)
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
