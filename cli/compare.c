/* report: several runs in one picture and one table. */
#include "commands.h"
#include "options/options.h"
#include "options/outputs.h"
#include "report/page.h"
#include "report/picture.h"
#include "report/report.h"
#include "text/say.h"
#include "text/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The figures of a run that runs are compared by. */
typedef struct summary {
    double test_acc, train_loss, seconds, speed, faster; /* `faster`: images per second beside the first run's */
    int same; /* the first run with these very losses, counted from 1; 0 where there are none */
} summary;

static summary summarize(record *const runs[], int i)
{
    const record *r = runs[i];
    const record_epoch *last = r->n_epochs ? &r->epochs[r->n_epochs - 1] : NULL;
    summary s = {.test_acc = record_test_acc(r),
                 .train_loss = last ? last->train_loss : NAN,
                 .seconds = record_seconds(r),
                 .speed = record_speed(r),
                 .faster = record_speed(r) / record_speed(runs[0])};
    for (int k = 0; k <= i && r->history.last_step && !s.same; k++)
        if (runs[k]->losses == r->losses && runs[k]->history.last_step == r->history.last_step)
            s.same = k + 1;
    return s;
}

/* Settings that are not alike in all runs: what a table of runs is for. What follows from others says nothing more. */
static bool differs(record *const runs[], int n, const char *name)
{
    static const char *const own[] = {
        "date",     "host",       "command",          "save",   "steps",   "limit",  "limit_test", "built_with",
        "lockstep", "checkpoint", "checkpoint_every", "verify", "timeout", "report", "trace"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(name, own[i]) == 0)
            return false;
    for (int i = 1; i < n; i++)
        if (strcmp(record_text(runs[i], name), record_text(runs[0], name)) != 0)
            return true;
    return false;
}

/* A setting in a few characters. */
static void short_value(char *text, size_t size, const record *r, const char *name)
{
    const char *value = record_text(r, name);
    if (strchr(value, '.') && isfinite(record_number(r, name)))
        snprintf(text, size, "%g", record_number(r, name));
    else
        snprintf(text, size, "%s", *value ? value : "-");
}

/* The names of the differing settings; at most `room`. */
static int differing(record *const runs[], int n, const char *names[], int room)
{
    int found = 0;
    for (int r = 0; r < n; r++) /* a run may have settings that those before it lack */
        for (int i = 0; i < runs[r]->n_settings && found < room; i++) {
            const char *name = runs[r]->settings[i].name;
            bool new = differs(runs, n, name);
            for (int k = 0; k < found && new; k++)
                new = strcmp(names[k], name) != 0;
            if (new)
                names[found++] = name;
        }
    return found;
}

enum { DIFFERING = 12, SHORT = 64 };

static int wider(int width, const char *text)
{
    int length = utf8_characters(text);
    return length > width ? length : width;
}

/* printf's widths are bytes. */
static void print_text(const char *before, int width, const char *text)
{
    printf("%s%s%*s", before, text, width - utf8_characters(text), "");
}

static void print_figure(const char *format, int width, double value)
{
    char text[32] = "-";
    if (isfinite(value))
        snprintf(text, sizeof text, format, value);
    printf("  %*s", width, text);
}

static void print_table(record *const runs[], int n)
{
    const char *names[DIFFERING];
    char value[SHORT];
    int k = differing(runs, n, names, DIFFERING), widths[DIFFERING], name_width = 3;
    for (int i = 0; i < n; i++)
        name_width = wider(name_width, runs[i]->name);
    print_text("", name_width, "run");
    for (int c = 0; c < k; c++) {
        widths[c] = wider(0, names[c]);
        for (int i = 0; i < n; i++) {
            short_value(value, sizeof value, runs[i], names[c]);
            widths[c] = wider(widths[c], value);
        }
        print_text("  ", widths[c], names[c]);
    }
    printf("  test acc  train loss  sec/epoch  images/s  times  same losses\n");
    for (int i = 0; i < n; i++) {
        summary s = summarize(runs, i);
        print_text("", name_width, runs[i]->name);
        for (int c = 0; c < k; c++) {
            short_value(value, sizeof value, runs[i], names[c]);
            print_text("  ", widths[c], value);
        }
        print_figure("%.4f", 8, s.test_acc);
        print_figure("%.4f", 10, s.train_loss);
        print_figure("%.2f", 9, s.seconds);
        print_figure("%.0f", 8, s.speed);
        print_figure("%.2f", 5, s.faster);
        if (s.same && s.same <= i)
            printf("  as run %d\n", s.same);
        else
            printf("  -\n");
    }
}

typedef struct comparison {
    record *const *runs;
    int n;
} comparison;

static void put_run_row(FILE *file, const comparison *of, int i, const char *const names[], int k)
{
    static const char *const formats[] = {"%.4f", "%.4f", "%.2f", "%.0f", "%.2f"};
    const record *r = of->runs[i];
    summary s = summarize(of->runs, i);
    const double values[] = {s.test_acc, s.train_loss, s.seconds, s.speed, s.faster};
    char value[SHORT];
    fprintf(file, "<tr><td class=\"n\">%d</td><td><span class=\"swatch t%d d%d\"></span>", i + 1, figure_tint(i),
            figure_dash(i));
    put_escaped(file, r->name);
    fputs("</td>", file);
    for (int c = 0; c < k; c++) {
        short_value(value, sizeof value, r, names[c]);
        fputs("<td>", file);
        put_escaped(file, value);
        fputs("</td>", file);
    }
    for (int c = 0; c < 5; c++) {
        fputs("<td class=\"n\">", file);
        page_number(file, formats[c], values[c]);
        fputs("</td>", file);
    }
    if (s.same && s.same <= i)
        fprintf(file, "<td>as run %d</td></tr>\n", s.same);
    else
        fputs("<td>\xe2\x80\x93</td></tr>\n", file);
}

static void put_runs(FILE *file, const comparison *of)
{
    const char *names[DIFFERING];
    int k = differing(of->runs, of->n, names, DIFFERING);
    fputs("<div class=\"wide\"><table id=\"runs\">\n<thead><tr><th></th><th>run</th>", file);
    for (int c = 0; c < k; c++) {
        fputs("<th>", file);
        put_escaped(file, names[c]);
        fputs("</th>", file);
    }
    fputs("<th class=\"n\">test acc</th><th class=\"n\">train loss</th><th class=\"n\">sec/epoch</th>"
          "<th class=\"n\">images/s</th><th class=\"n\">times</th><th>same "
          "losses</th></tr></thead>\n<tbody>\n",
          file);
    for (int i = 0; i < of->n; i++)
        put_run_row(file, of, i, names, k);
    fputs("</tbody></table></div>\n", file);
}

static void put_page(FILE *file, const figure *f, const void *user)
{
    const comparison *of = user;
    char title[64], about[64];
    snprintf(title, sizeof title, "%s", of->n > 1 ? "Runs side by side" : of->runs[0]->name);
    snprintf(about, sizeof about, "%d run%s of %s", of->n, of->n > 1 ? "s" : "", page_model(of->runs[0]));
    for (int i = 1; i < of->n; i++)
        if (strcmp(page_model(of->runs[i]), page_model(of->runs[0])) != 0)
            snprintf(about, sizeof about, "%d runs", of->n);
    page_begin(file, title, about);
    put_runs(file, of);
    if (of->n > 1)
        fputs("<p class=\"note\">times: images per second beside run 1. Same losses: those of every step are equal to "
              "the "
              "last bit.</p>\n",
              file);
    page_figure(file, f);
    for (int i = 0; i < of->n; i++) {
        page_section(file, of->runs[i]->name, NULL);
        page_origin(file, of->runs[i]);
        page_epochs(file, of->runs[i]);
        fputs("<details><summary>settings</summary>\n", file);
        page_settings(file, of->runs[i]);
        fputs("</details>\n", file);
        page_section_end(file);
    }
    page_end(file);
}

static int compare(record *runs[], int n, char **paths, const char *folder)
{
    for (int i = 0; i < n; i++)
        if (!(runs[i] = record_read(paths[i])))
            return STATUS_FAILED;
    int status = write_report("report", folder, runs, n, put_page, &(comparison){.runs = runs, .n = n});
    if (status)
        return status;
    print_table(runs, n);
    note("%s/report.html, curve.png and curve.svg", folder);
    return finish_output();
}

int command_report(int argc, char **argv)
{
    settings chosen;
    int first, status = 0;
    int n = read_options(COMMAND_REPORT, argc, argv, &chosen, &first, &status);
    const char *folder = chosen.out ? chosen.out : "report";
    if (n < 0)
        return status;
    if (n < 1 || n > CHART_CURVES)
        return wrong_usage("report", "takes the logs of 1 to %d runs, as written by train --log", CHART_CURVES);
    if (!record_reader_built())
        return failed("report", "this program is built without jansson, which reads the logs");
    if ((status = outputs_check(COMMAND_REPORT, &chosen, argv + first, n)) != 0 ||
        (status = check_report("report", folder)) != 0)
        return status;
    record **runs = calloc((size_t)n, sizeof(record *));
    status = runs ? compare(runs, n, argv + first, folder) : failed("report", "no memory for %d runs", n);
    for (int i = 0; runs && i < n; i++)
        record_free(runs[i]);
    free(runs);
    return status;
}
