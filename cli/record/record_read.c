#include "record/record.h"
#include "text/say.h"

#if !LOCKSTEP_HAVE_JANSSON

bool record_reader_built(void)
{
    return false;
}

record *record_read(const char *path)
{
    failed("report", "%s: this program is built without jansson, which reads it", path);
    return NULL;
}

#else

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool record_reader_built(void)
{
    return true;
}

static double number(const json_t *line, const char *name)
{
    const json_t *value = json_object_get(line, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* 0 where it is none: neither steps nor epochs have that number. */
static int64_t whole_number(const json_t *line, const char *name)
{
    return json_integer_value(json_object_get(line, name));
}

/* A setting as the log writes it. */
static bool take_setting(record *r, const char *name, const json_t *value)
{
    char text[64] = "";
    if (json_is_string(value))
        return record_set(r, name, json_string_value(value));
    if (json_is_integer(value))
        snprintf(text, sizeof text, "%" PRId64, (int64_t)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, sizeof text, "%.17g", json_real_value(value));
    else if (json_is_boolean(value))
        strcpy(text, json_is_true(value) ? "true" : "false");
    return record_set(r, name, text);
}

/* One line of the log. False without memory for it; lines of a kind that is not known here are for others. */
static bool take_line(record *r, json_t *line)
{
    if (json_object_get(line, "lockstep")) {
        const char *name;
        json_t *value;
        json_object_foreach(line, name, value) if (!take_setting(r, name, value)) return false;
        return true;
    }
    if (json_object_get(line, "epoch"))
        return record_add_epoch(r, &(record_epoch){.epoch = whole_number(line, "epoch"),
                                                   .step = r->history.last_step,
                                                   .train_loss = number(line, "train_loss"),
                                                   .train_acc = number(line, "train_acc"),
                                                   .test_acc = number(line, "test_acc"),
                                                   .val_acc = number(line, "val_acc"),
                                                   .sec = number(line, "sec"),
                                                   .img_per_s = number(line, "img_per_s")});
    if (json_object_get(line, "step"))
        record_step(r, whole_number(line, "step"), number(line, "loss"));
    return true;
}

/* A line as JSON; NULL where it is none. The seed in the settings may be larger than the reader's whole numbers are: it
 * is text then. */
static json_t *parse_line(const char *text, size_t length, bool settings)
{
    static const char seed[] = "\"seed\":";
    json_error_t error;
    json_t *line = json_loadb(text, length, 0, &error);
    if (line || !settings)
        return line;
    line = json_loadb(text, length, JSON_DECODE_INT_AS_REAL, &error);
    const char *at = line ? strstr(text, seed) : NULL;
    size_t digits = at ? strspn(at + sizeof seed - 1, "0123456789") : 0;
    if (digits && json_object_set_new(line, "seed", json_stringn(at + sizeof seed - 1, digits)) != 0) {
        json_decref(line);
        return NULL;
    }
    return line;
}

static int read_lines(record *r, FILE *file)
{
    char *text = NULL;
    size_t room = 0;
    int status = 0;
    long long n = 0;
    for (ssize_t length; status == 0 && (length = getline(&text, &room, file)) > 0;) {
        n++;
        if (text[length - 1] != '\n')
            break;
        json_t *line = parse_line(text, (size_t)length, n == 1);
        if (!json_is_object(line))
            status = failed("report", "%s:%lld: not a line of a run's log", r->name, n);
        else if (n == 1 && !json_object_get(line, "lockstep"))
            status = failed("report", "%s: not a run's log: its first line has no settings", r->name);
        else if (!take_line(r, line))
            status = failed("report",
                            r->n_settings < RECORD_SETTINGS ? "%s: no memory for it"
                                                            : "%s: not a run's log: it has no end of settings",
                            r->name);
        json_decref(line);
    }
    if (status == 0 && ferror(file))
        status = failed("report", "%s: %s", r->name, strerror(errno));
    if (status == 0 && !r->n_settings)
        status = failed("report", "%s: not a run's log: it is empty", r->name);
    free(text);
    return status;
}

/* A regular file, whose lines are no longer than itself; opening a FIFO must not wait for its writer. */
static FILE *open_log(const char *path)
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    FILE *file = NULL;
    if (fd < 0 || fstat(fd, &about) != 0)
        failed("report", "%s: %s", path, strerror(errno));
    else if (!S_ISREG(about.st_mode))
        failed("report", "%s: not a regular file", path);
    else if (!(file = fdopen(fd, "r")))
        failed("report", "%s: %s", path, strerror(errno));
    if (fd >= 0 && !file)
        close(fd);
    return file;
}

record *record_read(const char *path)
{
    record *r = record_new(path);
    if (!r)
        failed("report", "%s: no memory for it", path);
    FILE *file = r ? open_log(path) : NULL;
    int status = file ? read_lines(r, file) : STATUS_FAILED;
    if (file)
        fclose(file);
    if (status == 0)
        return r;
    record_free(r);
    return NULL;
}

#endif
