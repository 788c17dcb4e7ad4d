#include "base/quota.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Files ------------------------------------------------------------------------------------------------------- */

/* The next line without its end, in a buffer of getline's; false behind the last. */
static bool read_line(FILE *file, char **line, size_t *room)
{
    ssize_t length = file ? getline(line, room, file) : -1;
    if (length > 0 && (*line)[length - 1] == '\n')
        (*line)[length - 1] = 0;
    return length >= 0;
}

static FILE *open_under(ls_context *context, const char *root, const char *path)
{
    char *full = ls_format(context, "a path", "%s%s", root, path);
    FILE *file = full ? fopen(full, "re") : NULL;
    ls_release(context, full);
    return file;
}

/* Whether a list with commas has this word. */
static bool has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, length) == 0 && (at[length] == 0 || at[length] == ','))
            return true;
    return false;
}

/* Cuts the next word off a line; an empty one at its end. */
static char *next_word(char **line)
{
    char *word = *line, *blank = strchr(word, ' ');
    *line = blank ? blank + 1 : word + strlen(word);
    if (blank)
        *blank = 0;
    return word;
}

/* The kernel writes blanks and the like in paths as \040. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *at = text; *at; to++)
        if (at[0] == '\\' && strspn(at + 1, "01234567") >= 3) {
            *to = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0'));
            at += 4;
        } else {
            *to = *at++;
        }
    *to = 0;
}

/* ---- Groups ------------------------------------------------------------------------------------------------------ */

typedef struct search {
    ls_context *context;
    const char *root;
    ls_quota least;
} search;

static void keep_least(search *s, int64_t time, int64_t period, char *file)
{
    const ls_quota *least = &s->least;
    if (time < 1 || period < 1 || time > INT64_MAX / 2 || period > INT32_MAX ||
        (least->time && (double)time * (double)least->period >= (double)least->time * (double)period)) {
        ls_release(s->context, file);
        return;
    }
    ls_release(s->context, least->file);
    s->least = (ls_quota){time, period, file};
}

/* The number in a group's file; -1 where there is none, or "max". */
static int64_t read_number(search *s, const char *group, const char *name)
{
    char *path = ls_format(s->context, "a path", "%s/%s", group, name);
    FILE *file = path ? open_under(s->context, s->root, path) : NULL;
    int64_t number = -1;
    if (!file || fscanf(file, "%" SCNd64, &number) != 1)
        number = -1;
    if (file)
        fclose(file);
    ls_release(s->context, path);
    return number;
}

static void look_at_first_version(search *s, const char *group)
{
    keep_least(s, read_number(s, group, "cpu.cfs_quota_us"), read_number(s, group, "cpu.cfs_period_us"),
               ls_format(s->context, "a path", "%s/cpu.cfs_quota_us", group));
}

/* "50000 100000", or "max 100000" */
static void look_at_second_version(search *s, const char *group)
{
    char *path = ls_format(s->context, "a path", "%s/cpu.max", group);
    FILE *file = path ? open_under(s->context, s->root, path) : NULL;
    int64_t time, period;
    if (!file || fscanf(file, "%" SCNd64 " %" SCNd64, &time, &period) != 2)
        time = period = 0;
    if (file)
        fclose(file);
    keep_least(s, time, period, path);
}

/* The process's group in a hierarchy and all around it, as far as the mount shows them: `path` is cut off at its
 * end. */
static void look_upwards(search *s, const char *mount, char *path, void look(search *s, const char *group))
{
    for (;;) {
        char *group = ls_format(s->context, "a path", "%s%s", mount, path);
        if (group)
            look(s, group);
        ls_release(s->context, group);
        char *slash = strrchr(path, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

/* Where the group's path goes on below a mount of its hierarchy's folder `top`. A path that is not below it, as one may
 * see from inside of a container, is the mount itself. */
static char *below(char *path, const char *top)
{
    const size_t length = strcmp(top, "/") == 0 ? 0 : strlen(top);
    if (strncmp(path, top, length) != 0 || (path[length] != '/' && path[length] != 0) || strstr(path, "/.."))
        return path + strlen(path);
    return strcmp(path + length, "/") == 0 ? path + strlen(path) : path + length;
}

/* A line of mountinfo: ID PARENT DEVICE TOP PLACE OPTIONS... - TYPE SOURCE OPTIONS. `path` is the process's group. */
static void look_at_mount(search *s, char *line, char *path, bool second)
{
    char *behind = strstr(line, " - "), *rest = line;
    if (!behind)
        return;
    *behind = 0;
    behind += 3;
    for (int i = 0; i < 3; i++)
        next_word(&rest);
    char *top = next_word(&rest), *place = next_word(&rest);
    const char *type = next_word(&behind);
    next_word(&behind);
    if (strcmp(type, second ? "cgroup2" : "cgroup") != 0 || (!second && !has_word(next_word(&behind), "cpu")))
        return;
    unescape(top);
    unescape(place);
    char *copy = ls_copy_string(s->context, path, "a path");
    if (copy)
        look_upwards(s, place, below(copy, top), second ? look_at_second_version : look_at_first_version);
    ls_release(s->context, copy);
}

/* A line of the process's groups: NUMBER:CONTROLLERS:PATH, of the second version 0::PATH. */
static void look_at_group(search *s, char *line)
{
    char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path)
        return;
    *path++ = 0;
    controllers++;
    const bool second = !*controllers;
    if (!second && !has_word(controllers, "cpu"))
        return;
    FILE *mounts = open_under(s->context, s->root, "/proc/self/mountinfo");
    char *mount = NULL;
    for (size_t room = 0; read_line(mounts, &mount, &room);)
        look_at_mount(s, mount, path, second);
    free(mount);
    if (mounts)
        fclose(mounts);
}

ls_quota ls_quota_read(ls_context *context, const char *root)
{
    search s = {.context = context, .root = root, .least = {.file = NULL}};
    FILE *groups = open_under(context, root, "/proc/self/cgroup");
    char *line = NULL;
    for (size_t room = 0; read_line(groups, &line, &room);)
        look_at_group(&s, line);
    free(line);
    if (groups)
        fclose(groups);
    return s.least;
}

int ls_quota_cores(const ls_quota *quota, int sharers, int cores)
{
    if (!quota->time)
        return cores;
    const int64_t whole = quota->period * sharers, busy = (quota->time + whole - 1) / whole;
    return busy < 1 ? 1 : busy < cores ? (int)busy : cores;
}
