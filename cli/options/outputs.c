#include "options/outputs.h"
#include "options/help.h"
#include "text/say.h"

#include <ctype.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <lockstep_data.h>

#define AT(member) offsetof(settings, member)

const char *const report_files[REPORT_FILES] = {"report.html", "curve.png", "curve.svg"};
static is_kind is_weights, is_log, is_timeline, is_numpy, is_onnx, is_figures;

static const char whole_report[] = "a page with curves"; /* a row of the table that stands for the report's files */

static const struct row {
    int command;
    const char *option;
    size_t place;      /* of the path in `settings` */
    const char *usual; /* the path where none is given; NULL: then nothing is written */
    const char *what;
    output_kind kind;
    is_kind *holds; /* NULL: not looked at */
    const char *noun;
} table[] = {
    {COMMAND_TRAIN, "--save", AT(save), NULL, "the trained weights", OUTPUT_FILE, is_weights, "weights file"},
    {COMMAND_TRAIN, "--log", AT(log), NULL, "the log", OUTPUT_LINES, is_log, "log of a run"},
    {COMMAND_TRAIN, "--trace", AT(trace), NULL, "the timeline", OUTPUT_FILE, is_timeline, "timeline of a run"},
    {COMMAND_TRAIN, "--report", AT(report), NULL, whole_report, OUTPUT_FILE, NULL, NULL},
    {COMMAND_TRAIN, "--checkpoint", AT(checkpoint), NULL, "the checkpoints", OUTPUT_CHECKPOINTS, NULL, NULL},
    {COMMAND_PREDICT, "--out", AT(out), NULL, "the logits", OUTPUT_FILE, is_numpy, "array of NumPy"},
    {COMMAND_EXPORT, "--onnx", AT(onnx), NULL, "the model", OUTPUT_FILE, is_onnx, "ONNX model"},
    {COMMAND_BENCH, "--json", AT(json), NULL, "the figures", OUTPUT_LINES, is_figures, "file of bench's figures"},
    {COMMAND_REPORT, "--out", AT(out), "report", whole_report, OUTPUT_FILE, NULL, NULL}};

/* It takes everything and keeps nothing. */
static bool is_null(const char *path)
{
    struct stat about, null;
    return stat(path, &about) == 0 && S_ISCHR(about.st_mode) && stat("/dev/null", &null) == 0 &&
           null.st_rdev == about.st_rdev;
}

/* ---- The list ---- */

static bool add(outputs *list, const struct row *row, const char *folder, const char *name)
{
    output *new = &list->at[list->n];
    const bool curves = name && strcmp(name, report_files[0]) != 0;
    *new = (output){.option = row->option, .what = curves ? "the curves" : row->what, .kind = row->kind};
    if (asprintf(&new->path, "%s%s%s", folder, name ? "/" : "", name ? name : "") < 0) {
        outputs_free(list);
        failed(row->option, "%s", strerror(ENOMEM));
        return false;
    }
    list->n++;
    return true;
}

bool outputs_list(int command, const settings *chosen, outputs *list)
{
    *list = (outputs){.n = 0};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct row *row = &table[i];
        const char *given = *(const char *const *)((const char *)chosen + row->place);
        const char *path = given ? given : row->usual;
        if (row->command != command || !path)
            continue;
        if (row->what != whole_report && !add(list, row, path, NULL))
            return false;
        for (int k = 0; row->what == whole_report && k < REPORT_FILES; k++)
            if (!add(list, row, path, report_files[k]))
                return false;
    }
    return true;
}

void outputs_drop_null(int command, settings *chosen)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char **given = (const char **)((char *)chosen + table[i].place);
        if (table[i].command == command && table[i].kind == OUTPUT_FILE && *given && is_null(*given))
            *given = NULL;
    }
}

void outputs_free(outputs *list)
{
    for (int i = 0; i < list->n; i++)
        free(list->at[i].path);
    list->n = 0;
}

void outputs_lose(outputs_lost *lost, const char *option)
{
    if (lost->n < MOST_LOST)
        lost->at[lost->n++] = option;
}

static bool is_lost(const outputs_lost *lost, const char *option)
{
    int i = 0;
    while (i < lost->n && strcmp(lost->at[i], option) != 0)
        i++;
    return i < lost->n;
}

void outputs_say(int command, const settings *chosen, const outputs_lost *lost)
{
    outputs list;
    struct stat about;
    bool kept = command != COMMAND_TRAIN;
    if (!outputs_list(command, chosen, &list))
        return;
    for (int i = 0; i < list.n; i++) {
        const output *one = &list.at[i];
        kept = kept || one->kind == OUTPUT_CHECKPOINTS || strcmp(one->option, "--save") == 0;
        if (!is_lost(lost, one->option) && stat(one->path, &about) == 0 &&
            (S_ISREG(about.st_mode) || S_ISDIR(about.st_mode))) /* no pipe, no device */
            note("wrote %s: %s", one->path, one->what);
    }
    outputs_free(&list);
    if (!kept)
        note("note: the weights of this run are not kept; --save FILE keeps them, --checkpoint DIR all that it takes "
             "to go on");
}

/* ---- Where a path leads ---- */

enum { MOST_LINKS = 40 };

typedef struct place {
    char *path; /* absolute, without links as far as it is there; NULL without memory */
    bool there, null;
    struct stat about;   /* of it, or of the folder above that is there */
    const char *missing; /* what of `path` is below that folder */
} place;

static char *join(const char *folder, const char *name)
{
    char *path;
    return asprintf(&path, "%s/%s", strcmp(folder, "/") ? folder : "", name) < 0 ? NULL : path;
}

static char *absolute(const char *path, int links);

/* Of what is not there: its folder's absolute path and its own name, or where a link that dangles leads to. */
static char *absolute_of_new(const char *folder, const char *name, int links)
{
    char target[PATH_MAX], *above = NULL, *made = NULL, *path = join(folder, name);
    ssize_t n = path && links < MOST_LINKS ? readlink(path, target, sizeof target - 1) : -1;
    free(path);
    if (n > 0) {
        target[n] = '\0';
        path = *target == '/' ? strdup(target) : join(folder, target);
        made = path ? absolute(path, links + 1) : NULL;
        free(path);
        return made;
    }
    if (!(above = absolute(folder, links)) || strcmp(name, ".") == 0)
        return above;
    if (strcmp(name, "..") == 0) {
        *strrchr(above, '/') = '\0';
        return above;
    }
    made = join(above, name);
    free(above);
    return made;
}

static char *absolute(const char *path, int links)
{
    char *found = realpath(path, NULL);
    if (found)
        return found;
    char *for_folder = strdup(path), *for_name = strdup(path); /* both functions write to what they are given */
    if (for_folder && for_name) {
        const char *folder = dirname(for_folder), *name = basename(for_name);
        found = strcmp(folder, path) == 0 ? strdup(path) : absolute_of_new(folder, name, links);
    }
    free(for_folder);
    free(for_name);
    return found;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The next longer path within an absolute one, of whose `length` one is known; 0 at its end. */
static size_t next_length(const char *path, size_t length)
{
    return path[length] ? length + 1 + strcspn(path + length + 1, "/") : 0;
}

static const char *rest_behind(const char *path, size_t length)
{
    return path + length + (path[length] == '/');
}

/* `about` of the first `length` characters. */
static bool look_up(const char *path, size_t length, struct stat *about)
{
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%.*s", length ? (int)length : 1, path);
    return stat(part, about) == 0;
}

static place place_of(const char *path)
{
    place p = {.path = absolute(path, 0), .null = is_null(path)};
    struct stat about;
    if (!p.path)
        return p;
    p.there = stat(path, &p.about) == 0;
    p.missing = p.there ? strchr(p.path, '\0') : p.path;
    for (size_t n = 0, next = !p.there; next && look_up(p.path, n, &about); n = next) {
        p.about = about;
        p.missing = rest_behind(p.path, n);
        next = next_length(p.path, n);
    }
    return p;
}

/* The rest of b's path where it is a's or leads on below `a`, as if that were a folder; NULL: it leads elsewhere. A
 * folder may have several paths, as where it is mounted twice. */
static const char *below(const place *a, const place *b)
{
    const size_t missing = strlen(a->missing);
    struct stat about;
    for (size_t n = 0, next = 1; next && look_up(b->path, n, &about); n = next) {
        const char *rest = rest_behind(b->path, n);
        next = next_length(b->path, n);
        if (!is_same(&a->about, &about) || strncmp(rest, a->missing, missing) != 0)
            continue;
        rest += missing;
        if (!missing || !*rest || *rest == '/')
            return rest + (missing && *rest == '/');
    }
    return NULL;
}

/* Whether `a` and `b` are one, or `b` could only be below `a`. Both are known, and `a` is to be a file. */
static bool collide(const place *a, const place *b)
{
    return !(a->null && b->null) && below(a, b);
}

/* ---- The check ---- */

/* Names that the checkpoints may have in their folder, temporary ones too. */
static bool is_checkpoints_name(const char *name)
{
    static const char prefix[] = "checkpoint-";
    return strcmp(name, "lock") == 0 ||
           (strncmp(name, prefix, sizeof prefix - 1) == 0 && isdigit((unsigned char)name[sizeof prefix - 1]));
}

static bool is_in_checkpoints(const place *folder, const place *file)
{
    const char *name = below(folder, file);
    return name && !strchr(name, '/') && is_checkpoints_name(name);
}

static int check_pair(const output *a, const place *at_a, const output *b, const place *at_b)
{
    if (a->kind == OUTPUT_CHECKPOINTS)
        return check_pair(b, at_b, a, at_a);
    if (b->kind == OUTPUT_CHECKPOINTS && is_in_checkpoints(at_b, at_a))
        return wrong_usage(a->option, "%s is a name that --checkpoint uses in its folder; name another file", a->path);
    if (!collide(at_a, at_b) && (b->kind == OUTPUT_CHECKPOINTS || !collide(at_b, at_a)))
        return 0;
    const char *rest = below(at_a, at_b);
    return wrong_usage(b->option, "%s %s %s of %s; give each its own", b->path,
                       rest && !*rest ? "is the same file as" : "cannot be there beside", a->path, a->option);
}

/* An input is what `reader` names. */
static int check_input(const output *a, const place *at, const char *input, const char *reader)
{
    place in = place_of(input);
    const bool same = a->kind != OUTPUT_CHECKPOINTS && at->there && in.there && is_same(&at->about, &in.about);
    free(in.path);
    return same ? wrong_usage(a->option, "%s is the file that %s reads; name another", a->path, reader) : 0;
}

/* Results and messages that go to a file go to another one, and to none that checkpoints write. */
static int check_streams(const output *a, const place *at)
{
    static const char *const names[] = {[STDOUT_FILENO] = "standard output", [STDERR_FILENO] = "standard error"};
    struct stat about;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        char link[32];
        if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
            continue;
        if (at->there && is_same(&at->about, &about))
            return wrong_usage(a->option, "%s is where %s goes; name another file", a->path, names[fd]);
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        place stream = place_of(link);
        const bool inside = a->kind == OUTPUT_CHECKPOINTS && stream.path && is_in_checkpoints(at, &stream);
        free(stream.path);
        if (inside)
            return wrong_usage(a->option,
                               "%s is where %s goes, to a name that the checkpoints use; let it go elsewhere", a->path,
                               names[fd]);
    }
    return 0;
}

int outputs_check(int command, const settings *chosen, char *const inputs[], int n_inputs)
{
    outputs list;
    place places[MOST_OUTPUTS];
    int status = outputs_list(command, chosen, &list) ? 0 : STATUS_FAILED;
    for (int i = 0; i < list.n; i++) {
        const output *a = &list.at[i];
        places[i] = place_of(a->path);
        if (!status && !places[i].path)
            status = failed(a->option, "%s", strerror(ENOMEM));
        for (int k = 0; k < i && !status; k++)
            status = check_pair(&list.at[k], &places[k], a, &places[i]);
        if (!status && chosen->weights && strcmp(a->option, "--save") != 0) /* which may go on with its own file */
            status = check_input(a, &places[i], chosen->weights, "--weights");
        for (int k = 0; k < n_inputs && !status; k++)
            status = check_input(a, &places[i], inputs[k], "the command");
        if (!status)
            status = check_streams(a, &places[i]);
    }
    for (int i = 0; i < list.n; i++)
        free(places[i].path);
    outputs_free(&list);
    return status;
}

int outputs_check_data(int command, const settings *chosen, const ls_data *data)
{
    outputs list;
    int status = outputs_list(command, chosen, &list) ? 0 : STATUS_FAILED;
    for (int i = 0; i < list.n && !status; i++)
        if (ls_data_reads(data, list.at[i].path))
            status = wrong_usage(list.at[i].option, "%s is one of the data's own files; name another", list.at[i].path);
    outputs_free(&list);
    return status;
}

/* ---- What a file holds ---- */

static bool begins(const unsigned char *head, size_t n, const char *with)
{
    return n >= strlen(with) && memcmp(head, with, strlen(with)) == 0;
}

/* The length of a header in JSON, in eight bytes of which the last ones are 0, and the header. */
static bool is_weights(const unsigned char *head, size_t n)
{
    return n > 8 && head[6] == 0 && head[7] == 0 && head[8] == '{';
}

/* Log and figures begin with the program's version. */
static const char version[] = "{\"lockstep\":\"";

static bool is_figures(const unsigned char *head, size_t n)
{
    static const char next[] = "\",\"isa\":";
    const size_t at = sizeof version - 1;
    const unsigned char *end = begins(head, n, version) ? memchr(head + at, '"', n - at) : NULL;
    return end && begins(end, n - (size_t)(end - head), next);
}

static bool is_log(const unsigned char *head, size_t n)
{
    return begins(head, n, version) && !is_figures(head, n);
}

static bool is_timeline(const unsigned char *head, size_t n)
{
    return begins(head, n, "{\"displayTimeUnit\":");
}

static bool is_numpy(const unsigned char *head, size_t n)
{
    return begins(head, n, "\x93NUMPY");
}

/* The tag of its first field, ir_version. */
static bool is_onnx(const unsigned char *head, size_t n)
{
    return begins(head, n, "\x08") && !is_weights(head, n);
}

int outputs_check_kind(const char *option, const char *path, is_kind *holds, const char *noun, const char *other)
{
    unsigned char head[OUTPUT_HEAD];
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode))
        return 0;
    FILE *file = fopen(path, "re");
    const size_t n = file ? fread(head, 1, sizeof head, file) : 0;
    if (file)
        fclose(file);
    if (!n || holds(head, n))
        return 0;
    return failed(option, "%s: is no %s, and would be lost; name another %s, or move it away", path, noun, other);
}

/* Whether it is the half of a checkpoint whose other half, the manifest, is beside it. */
static bool is_of_checkpoint(const char *path)
{
    static const char start[] = "checkpoint-", end[] = ".safetensors";
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const size_t length = strlen(path);
    struct stat about;
    if (strncmp(name, start, sizeof start - 1) != 0 || length < sizeof end ||
        strcmp(path + length - sizeof end + 1, end) != 0)
        return false;
    char *manifest = NULL;
    const int written = asprintf(&manifest, "%.*s.json", (int)(length - sizeof end + 1), path);
    const bool there = written >= 0 && stat(path, &about) == 0 && stat(manifest, &about) == 0;
    if (written >= 0)
        free(manifest);
    return there;
}

int outputs_check_held(int command, const settings *chosen)
{
    int status = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table && !status; i++) {
        const char *path = *(const char *const *)((const char *)chosen + table[i].place);
        if (table[i].command != command || !path)
            continue;
        if (is_of_checkpoint(path))
            return failed(table[i].option, "%s: is half of a checkpoint, which would be lost; name another file", path);
        if (table[i].holds)
            status = outputs_check_kind(table[i].option, path, table[i].holds, table[i].noun, "file");
    }
    return status;
}
