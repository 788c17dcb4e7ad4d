#include "record/log.h"
#include "record/record.h"
#include "system/whole.h"
#include "text/say.h"
#include "text/taken.h"
#include "text/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct run_log {
    FILE *file;
    const char *option; /* that named the file */
    char *path;
    record *record; /* in place of a file */
    bool first;     /* no member of this line yet */
    bool lent;      /* the file is another's to close */
    bool goes_on;   /* the run does, where the log cannot be written */
    int error;      /* of the first write that failed in the middle of a line */
    bool broken;    /* said already */
    off_t whole;    /* bytes of whole lines; below 0 where that is not known */
};

/* Whether a line is whole and of a step or epoch that the checkpoint has. */
static bool stays(const char *line, ssize_t length, int64_t step, int64_t epochs, int64_t *last)
{
    int64_t number;
    if (length < 3 || memcmp(line + length - 2, "}\n", 2) != 0)
        return false;
    if (sscanf(line, "{\"step\":%" SCNd64 ",", &number) == 1) {
        *last = number;
        return number <= step;
    }
    return sscanf(line, "{\"epoch\":%" SCNd64 ",", &number) == 1 && number <= epochs;
}

/* Leaves what stays, with the place to write at its end. False, and a line said, where that cannot be. */
static bool cut_back(FILE *file, const char *path, int64_t step, int64_t epochs, bool *begun)
{
    static const char first[] = "{\"lockstep\":";
    char *line = NULL;
    size_t room = 0;
    off_t end = 0;
    int64_t last = 0, kept = 0;
    ssize_t length = getline(&line, &room, file);
    bool log = length > 0 && strncmp(line, first, sizeof first - 1) == 0;
    *begun = log && line[length - 1] == '\n' && step > 0; /* of no step there is nothing to keep */
    for (bool stay = *begun; stay;
         stay = (length = getline(&line, &room, file)) > 0 && stays(line, length, step, epochs, &last)) {
        end += length;
        kept = last;
    }
    free(line);
    if (ferror(file) || fseeko(file, end, SEEK_SET) != 0 || ftruncate(fileno(file), end) != 0) {
        failed("--log", "%s: cannot be cut back: %s", path, strerror(errno));
        return false;
    }
    if (*begun && kept < step)
        note("note: --log: %s has the steps up to %" PRId64 ", the checkpoint is of step %" PRId64
             ": the lines between are lost",
             path, kept, step);
    return true;
}

static run_log *new_log(FILE *file, const char *option, const char *path)
{
    run_log *log = file ? calloc(1, sizeof *log) : NULL;
    char *copy = log ? strdup(path) : NULL;
    if (copy) {
        *log = (run_log){.file = file, .option = option, .path = copy, .whole = ftello(file)};
        return log;
    }
    failed(option, "%s: %s", path, strerror(errno));
    free(log);
    if (file)
        fclose(file);
    return NULL;
}

/* A FIFO that nobody reads is refused: opening one that way would wait for its reader, for ever where none comes. What
 * has a reader is written as ever, and waits for it. */
static FILE *open_anew(const char *option, const char *path)
{
    struct stat about;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    int flags = fd >= 0 ? fcntl(fd, F_GETFL) : -1;
    FILE *file = flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0 ? fdopen(fd, "w") : NULL;
    if (file)
        return file;
    if (errno == ENXIO && stat(path, &about) == 0 && S_ISFIFO(about.st_mode))
        failed(option, "%s: is a FIFO that nobody reads; start its reader first, or name a file", path);
    else
        failed(option, "%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return NULL;
}

run_log *log_open_for(const char *option, const char *path)
{
    FILE *file = open_anew(option, path);
    return file ? new_log(file, option, path) : NULL;
}

run_log *log_onto(FILE *file, const char *option, const char *path)
{
    run_log *log = calloc(1, sizeof *log);
    char *copy = log ? strdup(path) : NULL;
    if (copy)
        *log = (run_log){.file = file, .option = option, .path = copy, .lent = true};
    else
        free(log);
    return copy ? log : NULL;
}

run_log *log_open(const char *path, bool go_on, int64_t step, int64_t epochs, bool *begun)
{
    struct stat about;
    *begun = false;
    /* What is no file, a pipe or a terminal, has nothing to cut. */
    const bool cut = go_on && stat(path, &about) == 0 && S_ISREG(about.st_mode);
    FILE *file = cut ? fopen(path, "r+e") : open_anew("--log", path);
    if (cut && file && !cut_back(file, path, step, epochs, begun)) {
        fclose(file);
        return NULL;
    }
    run_log *log = cut || file ? new_log(file, "--log", path) : NULL;
    if (log)
        log->goes_on = true;
    return log;
}

/* Why the stream failed: where that was in the middle of a line, stdio has forgotten by its end. */
static void note_error(run_log *log)
{
    if (!log->error && ferror(log->file))
        log->error = errno;
}

/* Of a log that is broken, or none, nothing is written. */
static bool is_idle(const run_log *log)
{
    return !log || (log->broken && !log->record);
}

/* Says it, once. */
static bool give_up(run_log *log, int error)
{
    log->broken = true;
    const char *why = error == ETIME ? "its reader takes no more" : error ? strerror(error) : "cannot be written";
    failed(log->option, "%s: %s%s", log->path, why, log->goes_on ? "; the run goes on without it" : "");
    return false;
}

/* After a failure no part of a line is left, where that can be. */
static bool check(run_log *log, bool good)
{
    const int error = log->error ? log->error : errno;
    if (good || log->broken)
        return good && !log->broken;
    if (!log->lent) {
        __fpurge(log->file);
        if (log->whole < 0 || ftruncate(fileno(log->file), log->whole) != 0)
            log->whole = -1; /* a pipe, a device: what came out is out */
    }
    return give_up(log, error);
}

/* From where `from` stands to its end. */
static bool copy_rest(FILE *from, FILE *to)
{
    char block[4096];
    for (size_t n; (n = fread(block, 1, sizeof block, from)) > 0;)
        if (fwrite(block, 1, n, to) != n)
            return false;
    return !ferror(from);
}

/* The log with another first line, at its own place, where a link leads to. `old` stands behind the one it had. */
static bool put_first(run_log *log, FILE *old, const char *path, const char *first, size_t length)
{
    struct stat about;
    whole_file new;
    if (fstat(fileno(old), &about) != 0 || !whole_begin_at(&new, path))
        return false;
    bool good = fchmod(new.fd, about.st_mode & 07777) == 0 && fwrite(first, 1, length, new.file) == length &&
                copy_rest(old, new.file);
    FILE *file = whole_end(&new, good) ? fopen(path, "r+e") : NULL;
    if (!file)
        return false;
    fclose(log->file);
    log->file = file;
    return true;
}

bool log_settle(run_log *log, const char *first, size_t length)
{
    char *line = NULL, *path = NULL;
    size_t room = 0;
    errno = 0;
    FILE *old = fopen(log->path, "re"); /* the log's own stream has in its buffer what was cut off */
    ssize_t got = old ? getline(&line, &room, old) : -1;
    bool good = got > 0;
    if (good && (got != (ssize_t)length || memcmp(line, first, length) != 0))
        good = (path = realpath(log->path, NULL)) && put_first(log, old, path, first, length);
    int error = errno;
    free(path);
    free(line);
    if (old)
        fclose(old);
    if (!good && error) { /* no right, no room: the line as it was is better than no run */
        note("note: --log: %s keeps the settings that the run began with: %s", log->path, strerror(error));
        good = true;
    }
    good = good && fseeko(log->file, 0, SEEK_END) == 0;
    log->whole = ftello(log->file);
    errno = good ? errno : error;
    return check(log, good);
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
    if (is_idle(log))
        return;
    if (log->record) {
        log->broken |= !record_set(log->record, name, value);
        return;
    }
    put_name(log, name);
    fputs(value, log->file);
    note_error(log);
}

void log_begin(run_log *log)
{
    if (is_idle(log) || log->record)
        return;
    putc('{', log->file);
    log->first = true;
}

void log_text(run_log *log, const char *name, const char *value)
{
    if (is_idle(log) || !value || log->record) {
        put_member(log, name, value ? value : log && log->record ? "" : "null");
        return;
    }
    put_name(log, name);
    put_string(log->file, value);
    note_error(log);
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

void log_decimal(run_log *log, const char *name, double value, int decimals)
{
    char text[64];
    snprintf(text, sizeof text, "%.*f", decimals, value);
    put_member(log, name, text);
}

void log_bool(run_log *log, const char *name, bool value)
{
    put_member(log, name, value ? "true" : "false");
}

void log_list(run_log *log, const char *name)
{
    if (is_idle(log))
        return;
    put_name(log, name);
    putc('[', log->file);
    log->first = true;
}

void log_object(run_log *log, const char *name)
{
    if (is_idle(log))
        return;
    put_name(log, name);
    log_begin(log);
}

void log_item(run_log *log)
{
    if (is_idle(log))
        return;
    if (!log->first)
        putc(',', log->file);
    log_begin(log);
}

void log_item_end(run_log *log)
{
    if (is_idle(log))
        return;
    putc('}', log->file);
    log->first = false;
}

void log_list_end(run_log *log)
{
    if (is_idle(log))
        return;
    putc(']', log->file);
    log->first = false;
}

bool log_end(run_log *log)
{
    if (!log)
        return true;
    if (log->record || log->broken)
        return !log->broken;
    errno = 0;
    fputs("}\n", log->file);
    const bool taken = log->lent || is_taken(fileno(log->file));
    if (!taken)
        log->error = ETIME;
    bool good = check(log, taken && fflush(log->file) == 0 && !ferror(log->file));
    if (good)
        log->whole = ftello(log->file);
    return good;
}

bool log_close(run_log *log)
{
    if (!log)
        return true;
    errno = 0;
    bool good = !log->broken;
    if (log->file && !log->lent && fclose(log->file) != 0 && good)
        good = give_up(log, errno);
    free(log->path);
    free(log);
    return good;
}
