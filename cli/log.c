#include "log.h"
#include "record.h"
#include "say.h"
#include "utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run_log {
    FILE *file;
    const char *option; /* that named the file */
    char *path;
    record *record; /* in place of a file */
    bool first;     /* no member of this line yet */
    bool broken;    /* said already */
};

run_log *log_open(const char *path)
{
    return log_open_for("--log", path);
}

run_log *log_open_for(const char *option, const char *path)
{
    run_log *log = calloc(1, sizeof *log);
    char *copy = strdup(path);
    FILE *file = log && copy ? fopen(path, "we") : NULL;
    if (!file) {
        failed(option, "%s: %s", path, strerror(errno));
        free(log);
        free(copy);
        return NULL;
    }
    *log = (run_log){.file = file, .option = option, .path = copy};
    return log;
}

run_log *log_into(record *to)
{
    run_log *log = calloc(1, sizeof *log);
    if (log)
        log->record = to;
    return log;
}

static void put_string(FILE *file, const char *text)
{
    putc('"', file);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int length = utf8_length(s);
        if (length == 0) {
            fputs("\\ufffd", file); /* JSON is UTF-8; a file's name need not be */
            length = 1;
        } else if (*s == '"' || *s == '\\') {
            fprintf(file, "\\%c", *s);
        } else if (*s < ' ' || *s == 127) {
            fprintf(file, "\\u%04x", *s);
        } else {
            fwrite(s, 1, (size_t)length, file);
        }
        s += length;
    }
    putc('"', file);
}

static void put_name(run_log *log, const char *name)
{
    if (!log->first)
        putc(',', log->file);
    log->first = false;
    put_string(log->file, name);
    putc(':', log->file);
}

/* A member whose value is `value` as JSON has it. */
static void put_member(run_log *log, const char *name, const char *value)
{
    if (!log)
        return;
    if (log->record) {
        log->broken |= !record_set(log->record, name, value);
        return;
    }
    put_name(log, name);
    fputs(value, log->file);
}

void log_begin(run_log *log)
{
    if (!log || log->record)
        return;
    putc('{', log->file);
    log->first = true;
}

void log_text(run_log *log, const char *name, const char *value)
{
    if (!log || !value || log->record) {
        put_member(log, name, value ? value : log && log->record ? "" : "null");
        return;
    }
    put_name(log, name);
    put_string(log->file, value);
}

void log_integer(run_log *log, const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    put_member(log, name, text);
}

void log_unsigned(run_log *log, const char *name, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, value);
    put_member(log, name, text);
}

void log_number(run_log *log, const char *name, double value)
{
    char text[32] = "null";
    if (isfinite(value))
        snprintf(text, sizeof text, "%.17g", value);
    put_member(log, name, text);
}

void log_bool(run_log *log, const char *name, bool value)
{
    put_member(log, name, value ? "true" : "false");
}

void log_list(run_log *log, const char *name)
{
    if (!log)
        return;
    put_name(log, name);
    putc('[', log->file);
    log->first = true;
}

void log_item(run_log *log)
{
    if (!log)
        return;
    if (!log->first)
        putc(',', log->file);
    log_begin(log);
}

void log_item_end(run_log *log)
{
    if (!log)
        return;
    putc('}', log->file);
    log->first = false;
}

void log_list_end(run_log *log)
{
    if (!log)
        return;
    putc(']', log->file);
    log->first = false;
}

static bool check(run_log *log, bool good)
{
    if (good || log->broken)
        return good && !log->broken;
    log->broken = true;
    failed(log->option, "%s: %s", log->path, errno ? strerror(errno) : "cannot be written");
    return false;
}

bool log_end(run_log *log)
{
    if (!log)
        return true;
    if (log->record)
        return !log->broken;
    errno = 0;
    fputs("}\n", log->file);
    return check(log, fflush(log->file) == 0 && !ferror(log->file));
}

bool log_close(run_log *log)
{
    if (!log)
        return true;
    errno = 0;
    bool good = log->record ? !log->broken : check(log, fclose(log->file) == 0);
    free(log->path);
    free(log);
    return good;
}
