#include "training/trace.h"
#include "speed/advice.h"
#include "system/clock.h"
#include "system/whole.h"
#include "text/say.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of all devices together, 32 bytes each in memory and about 120 in the file; of the program's own spans. */
enum { MOST_SPANS = 500000, MOST_OWN = 4096 };

/* Lines of the picture: the program, the steps, of each device its thread and what its card does, the writer of
 * checkpoints. */
enum { PROCESS = 1, PROGRAM = 0, STEPS = 1, FIRST_DEVICE = 2 };

static int thread_line(int device)
{
    return FIRST_DEVICE + 2 * device;
}

static int card_line(int device)
{
    return thread_line(device) + 1;
}

static int writer_line(const training *t)
{
    return thread_line(t->run.devices.n);
}

typedef struct own_span {
    const char *name;
    int64_t number;
    double begin, end;
} own_span;

struct trace {
    whole_file file;
    char *path;
    ls_profile *profile;
    double begun;
    own_span own[MOST_OWN];
    int n_own;
};

static bool on_card(const training *t, int device)
{
    return t->run.devices.at[device].type == LS_CUDA;
}

int trace_begin(trace **it, const char *path, const training *t)
{
    trace *new = calloc(1, sizeof *new);
    if (!new || !(new->path = strdup(path)) || !whole_begin_at(&new->file, path)) {
        int status = failed("--trace", "%s: %s", path, strerror(new &&new->path ? errno : ENOMEM));
        if (new)
            free(new->path);
        free(new);
        return status;
    }
    *it = new;
    new->begun = steady_seconds();
    const int lists = (run_is_on(&t->run, LS_CUDA) ? 2 : 1) * t->run.devices.n + 1;
    new->profile = ls_profile_start(t->trainer, MOST_SPANS / lists);
    return new->profile ? 0 : session_failed(t->run.session, "--trace");
}

void trace_span(trace *it, const char *name, int64_t number, double begun)
{
    if (it && it->n_own < MOST_OWN)
        it->own[it->n_own++] = (own_span){name, number, begun, steady_seconds()};
}

/* ---- The file ---- */

static void begin_event(run_log *log, const char *phase, int line, const char *name)
{
    log_item(log);
    log_text(log, "ph", phase);
    log_integer(log, "pid", PROCESS);
    log_integer(log, "tid", line);
    log_text(log, "name", name);
}

static void write_line_name(run_log *log, int line, const char *name)
{
    begin_event(log, "M", line, "thread_name");
    log_object(log, "args");
    log_text(log, "name", name);
    log_item_end(log);
    log_item_end(log);
    begin_event(log, "M", line, "thread_sort_index");
    log_object(log, "args");
    log_integer(log, "sort_index", line);
    log_item_end(log);
    log_item_end(log);
}

static void write_names(run_log *log, const training *t)
{
    char name[96];
    begin_event(log, "M", PROGRAM, "process_name");
    log_object(log, "args");
    snprintf(name, sizeof name, "lockstep train, %s", t->run.model);
    log_text(log, "name", name);
    log_item_end(log);
    log_item_end(log);
    write_line_name(log, PROGRAM, "program");
    write_line_name(log, STEPS, "steps");
    for (int i = 0; i < t->run.devices.n; i++) {
        const char *device = ls_device_str(t->run.session, t->run.devices.at[i]);
        write_line_name(log, thread_line(i), device);
        if (on_card(t, i)) {
            snprintf(name, sizeof name, "%s, the card", device);
            write_line_name(log, card_line(i), name);
        }
    }
    write_line_name(log, writer_line(t), "checkpoint writer");
}

/* Names and categories by ls_span_kind. */
static const struct {
    const char *name, *category;
} kinds[] = {[LS_SPAN_IDLE] = {"idle", "wait"},
             [LS_SPAN_WAIT] = {"wait", "wait"},
             [LS_SPAN_WAIT_CORE] = {"wait for the core", "wait"},
             [LS_SPAN_WAIT_BUFFER] = {"wait for a buffer", "wait"},
             [LS_SPAN_WAIT_RANKS] = {"wait for ranks", "wait"},
             [LS_SPAN_SHARD] = {"shard", "shard"},
             [LS_SPAN_EVALUATE] = {"evaluate shard", "evaluation"},
             [LS_SPAN_HELP] = {"help with another's shard", "help"},
             [LS_SPAN_FOLD] = {"fold", "reduce"},
             [LS_SPAN_GIVE] = {"sum for ranks", "reduce"},
             [LS_SPAN_REDUCE] = {"reduce and update bucket", "reduce"},
             [LS_SPAN_OPERATION] = {"gather images", "data"},
             [LS_SPAN_STEP] = {"step", "step"},
             [LS_SPAN_CHECKPOINT] = {"write checkpoint", "checkpoint"},
             [LS_SPAN_TO_CARD] = {"copy to the card", "copy"},
             [LS_SPAN_FROM_CARD] = {"copy from the card", "copy"},
             [LS_SPAN_CARD_SUM] = {"sum and update bucket", "reduce"},
             [LS_SPAN_LINK] = {"exchange with other ranks' cards", "copy"}};

static void write_times(run_log *log, const trace *it, const char *category, double begin, double end)
{
    /* Whole nanoseconds of both ends: where one span begins as another ends they stay apart, and nested ones nested. */
    long long from = llround(1e9 * (begin - it->begun)), to = llround(1e9 * (end - it->begun));
    log_text(log, "cat", category);
    log_decimal(log, "ts", (double)from / 1e3, 3);
    log_decimal(log, "dur", (double)(to - from) / 1e3, 3);
}

static void name_span(char *name, size_t size, const ls_span *span, const ls_profile_row *row)
{
    const char *kind = kinds[span->kind].name;
    if (row)
        snprintf(name, size, "%s%s%s", row->operation, *row->layer || *row->parameter ? " " : "",
                 *row->layer ? row->layer : row->parameter);
    else if (span->kind == LS_SPAN_STEP)
        snprintf(name, size, "step %lld", (long long)span->step);
    else if (span->kind == LS_SPAN_REDUCE && span->number < 0)
        snprintf(name, size, "end of the step");
    else if (span->kind == LS_SPAN_CARD_SUM && span->number < 0)
        snprintf(name, size, "%s", kinds[LS_SPAN_FOLD].name);
    else if (span->kind == LS_SPAN_EVALUATE && span->number < 0)
        snprintf(name, size, "help to evaluate");
    else if (span->number >= 0)
        snprintf(name, size, "%s %d", kind, span->number);
    else
        snprintf(name, size, "%s", kind);
}

static int line_of(const training *t, const ls_span *span)
{
    if (span->kind == LS_SPAN_STEP)
        return STEPS;
    if (span->kind == LS_SPAN_CHECKPOINT)
        return writer_line(t);
    bool own = span->kind == LS_SPAN_OPERATION ? on_card(t, span->device) : span->kind > LS_SPAN_CHECKPOINT;
    return own ? card_line(span->device) : thread_line(span->device);
}

static void write_span(run_log *log, const trace *it, const training *t, const ls_span *span)
{
    static const char *const passes[] = {"forward", "backward to the data", "backward to the weights"};
    char name[160];
    ls_profile_row row;
    bool operation =
        span->kind == LS_SPAN_OPERATION && span->row >= 0 && ls_profile_at(it->profile, span->row, &row) == LS_OK;
    name_span(name, sizeof name, span, operation ? &row : NULL);
    begin_event(log, "X", line_of(t, span), name);
    write_times(log, it, operation ? "operation" : kinds[span->kind].category, span->begin, span->end);
    if (operation || span->step) {
        log_object(log, "args");
        if (operation)
            log_text(log, "pass", passes[row.direction]);
        else
            log_integer(log, "step", span->step);
        log_item_end(log);
    }
    log_item_end(log);
}

static void write_all(run_log *log, const trace *it, const training *t)
{
    int64_t n = ls_profile_spans(it->profile);
    ls_span span;
    char name[64];
    log_begin(log);
    log_text(log, "displayTimeUnit", "ms");
    log_object(log, "otherData");
    log_text(log, "lockstep", ls_version());
    log_text(log, "model", t->run.model);
    log_text(log, "devices", t->run.devices_text);
    log_integer(log, "batch", t->run.chosen->batch);
    log_integer(log, "shard", t->run.chosen->shard);
    log_item_end(log);
    log_list(log, "traceEvents");
    write_names(log, t);
    for (int i = 0; i < it->n_own; i++) {
        const own_span *own = &it->own[i];
        if (own->number)
            snprintf(name, sizeof name, "%s %lld", own->name, (long long)own->number);
        else
            snprintf(name, sizeof name, "%s", own->name);
        begin_event(log, "X", PROGRAM, name);
        write_times(log, it, "program", own->begin, own->end);
        log_item_end(log);
    }
    for (int64_t i = 0; i < n && ls_profile_span_at(it->profile, i, &span) == LS_OK; i++)
        write_span(log, it, t, &span);
    log_list_end(log);
}

static int write_file(trace *it, const training *t)
{
    run_log *log = log_onto(it->file.file, "--trace", it->path);
    if (!log)
        return failed("--trace", "%s: %s", it->path, strerror(ENOMEM));
    write_all(log, it, t);
    bool good = log_end(log);
    return log_close(log) && good ? 0 : STATUS_FAILED;
}

int trace_end(trace **it, const training *t, bool keep)
{
    trace *one = *it;
    int status = 0;
    if (!one)
        return 0;
    *it = NULL;
    bool good = ls_profile_stop(one->profile) == LS_OK && keep;
    if (good)
        status = write_file(one, t);
    if (!whole_end(&one->file, good && !status) && good && !status)
        status = failed("--trace", "%s: %s", one->path, strerror(errno));
    if (good && !status && !t->run.chosen->quiet)
        advice_say(one->path, one->profile, &t->run, t->rows);
    free(one->path);
    free(one);
    return status;
}
