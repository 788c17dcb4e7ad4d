#include "report/report.h"
#include "options/outputs.h"
#include "report/page.h"
#include "report/picture.h"
#include "run/judge.h"
#include "system/whole.h"
#include "text/say.h"
#include "text/scale.h"
#include "text/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_IN_TABLE = 24 /* classes */, MOST_MISTAKES = 40 };

/* A file that is none of a report's stays. */
static int check_held(const char *option, const char *folder, int i)
{
    static const struct {
        is_kind *holds;
        const char *noun;
    } kinds[REPORT_FILES] = {
        {page_is, "page of a report"}, {figure_is_png, "picture of a report"}, {figure_is_svg, "picture of a report"}};
    char *path;
    if (asprintf(&path, "%s/%s", folder, report_files[i]) < 0)
        return failed(option, "%s", strerror(ENOMEM));
    const int status = outputs_check_kind(option, path, kinds[i].holds, kinds[i].noun, "folder");
    free(path);
    return status;
}

int check_report(const char *option, const char *folder)
{
    if (!pictures_version())
        return failed(
            option, "this program is built without cairo, which draws it; 'lockstep --version' shows what is missing");
    int status = check_new_folder(option, folder);
    for (int i = 0; i < REPORT_FILES && !status && access(folder, F_OK) == 0; i++)
        if ((status = check_new_file_in(option, folder, report_files[i])) == 0)
            status = check_held(option, folder, i);
    return status;
}

/* One file of the folder. */
static int write_one(const char *option, const char *folder, const char *name, const figure *f,
                     void (*page)(FILE *file, const figure *figure, const void *user), const void *user)
{
    whole_file out;
    if (!whole_begin(&out, folder, name))
        return failed(option, "%s/%s: %s", folder, name, strerror(errno));
    if (check_new_file(option, out.path) != 0) { /* a device, say: it must stay where it is */
        whole_end(&out, false);
        return STATUS_FAILED;
    }
    bool good = true;
    if (page)
        page(out.file, f, user);
    else if (strcmp(strrchr(name, '.'), ".png") == 0)
        good = picture_png(out.file, f->width, f->height, figure_draw, f);
    else
        good = picture_svg(out.file, f->width, f->height, figure_draw, f);
    return whole_end(&out, good) ? 0 : failed(option, "%s/%s: %s", folder, name, strerror(errno));
}

int write_report(const char *option, const char *folder, record *const runs[], int n,
                 void (*page)(FILE *file, const figure *figure, const void *user), const void *user)
{
    int status = make_folder(option, folder);
    if (status)
        return status;
    figure *f = figure_new(runs, n);
    if (!f)
        return failed(option, "no memory for the curves of %d runs", n);
    for (int i = 0; i < REPORT_FILES && !status; i++)
        status = write_one(option, folder, report_files[i], f, i == 0 ? page : NULL, user);
    figure_free(f);
    return status;
}

/* What the page of one run needs. */
typedef struct story {
    const run *run;
    const record *record;
    const judge *judge;
    const char *fingerprint;
} story;

static void put_card(FILE *file, const char *what, const char *format, double value)
{
    fputs("<div><b>", file);
    if (format)
        page_number(file, format, value);
    else
        page_count(file, value);
    fprintf(file, "</b><span>%s</span></div>\n", what);
}

static void put_class(FILE *file, const judge *j, int label)
{
    char number[16], text[128];
    snprintf(text, sizeof text, "%s", judge_class(j, label, number));
    utf8_clean(text); /* it may be a folder's name */
    put_escaped(file, text);
}

/* A data set's own name; what the user made has none. */
static const char *data_title(const char *dataset)
{
    static const char *const titles[][2] = {
        {"fashion-mnist", "Fashion-MNIST"}, {"mnist", "MNIST"}, {"cifar10", "CIFAR-10"}, {"cifar100", "CIFAR-100"}};
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (strcmp(titles[i][0], dataset) == 0)
            return titles[i][1];
    return "own images";
}

static void put_head(FILE *file, const story *s)
{
    const record *r = s->record;
    char title[128], about[512];
    snprintf(title, sizeof title, "%s on %s", page_model(r), data_title(s->run->chosen->dataset));
    snprintf(about, sizeof about, "%d epoch%s, batch %s, on %s", r->n_epochs, r->n_epochs == 1 ? "" : "s",
             record_text(r, "batch"), record_text(r, "devices"));
    page_begin(file, title, about);
    page_origin(file, r);
    fputs("<div class=\"cards\">\n", file);
    put_card(file, "test accuracy", "%.4f", (double)s->judge->correct / (double)s->judge->rows);
    const double loss = r->n_epochs ? r->epochs[r->n_epochs - 1].train_loss : NAN;
    put_card(file, "train loss, last epoch", loss < 1e5 ? "%.4f" : "%.4g", loss); /* a card is narrow */
    put_card(file, "seconds an epoch", "%.2f", record_seconds(r));
    put_card(file, "images a second", NULL, record_speed(r));
    fputs("</div>\n<p class=\"note\">fingerprint of the weights <code id=\"fingerprint\">", file);
    put_escaped(file, s->fingerprint);
    fputs("</code></p>\n", file);
}

/* Rows are what an image is, columns what it was taken for; the colour grows with the share of the row. */
static void put_taken(FILE *file, const judge *j)
{
    const int classes = j->about.classes;
    fputs("<div class=\"wide\"><table class=\"taken\" id=\"taken\">\n<thead><tr><th></th>", file);
    for (int guess = 0; guess < classes; guess++) {
        fputs("<th><span>", file);
        put_class(file, j, guess);
        fputs("</span></th>", file);
    }
    fputs("</tr></thead>\n<tbody>\n", file);
    for (int label = 0; label < classes; label++) {
        const int64_t *taken = &j->taken[label * classes];
        int64_t row = 0;
        for (int guess = 0; guess < classes; guess++)
            row += taken[guess];
        fputs("<tr><th>", file);
        put_class(file, j, label);
        fputs("</th>", file);
        for (int guess = 0; guess < classes; guess++) {
            long long n = (long long)taken[guess];
            double share = row ? (double)n / (double)row : 0;
            fprintf(file, "<td style=\"background:rgba(var(--%s),%.3f)\" title=\"", label == guess ? "right" : "wrong",
                    n ? 0.06 + 0.74 * sqrt(share) : 0.02);
            put_class(file, j, label);
            fputs(" taken for ", file);
            put_class(file, j, guess);
            fprintf(file, ": %lld of %lld\">", n, (long long)row);
            if (n)
                fprintf(file, "%lld", n);
            fputs("</td>", file);
        }
        fputs("</tr>\n", file);
    }
    fputs("</tbody></table></div>\n", file);
}

/* "All 10,000 test images", "The first 100 test images (--limit-test)" */
static void name_images(char *text, size_t size, const story *s)
{
    char count[32];
    const bool all = !s->run->chosen->limit_test;
    count_text(count, sizeof count, s->judge->rows);
    snprintf(text, size, "%s %s test images%s", all ? "All" : "The first", count, all ? "" : " (--limit-test)");
}

static void put_share(FILE *file, int64_t part, int64_t of)
{
    fputs("<td class=\"n\">", file);
    page_number(file, "%.4f", of ? (double)part / (double)of : NAN);
    fputs("</td>", file);
}

static void put_classes(FILE *file, const judge *j)
{
    const int classes = j->about.classes;
    fputs("<div class=\"wide\"><table id=\"classes\">\n<thead><tr><th>class</th><th class=\"n\">images</th>"
          "<th class=\"n\">recall</th><th class=\"n\">precision</th></tr></thead>\n<tbody>\n",
          file);
    for (int c = 0; c < classes; c++) {
        int64_t images = 0, taken = 0;
        for (int k = 0; k < classes; k++) {
            images += j->taken[c * classes + k];
            taken += j->taken[k * classes + c];
        }
        fputs("<tr><td>", file);
        put_class(file, j, c);
        fprintf(file, "</td><td class=\"n\">%lld</td>", (long long)images);
        put_share(file, j->taken[c * classes + c], images);
        put_share(file, j->taken[c * classes + c], taken);
        fputs("</tr>\n", file);
    }
    fputs("</tbody></table></div>\n", file);
}

/* The mistake made most often after `last` (a place in j->taken; -1: of all); -1 where there is no other. */
static int next_mistake(const judge *j, int last)
{
    const int classes = j->about.classes;
    int found = -1;
    for (int i = 0; i < classes * classes; i++) {
        const bool mistake = i / classes != i % classes && j->taken[i] > 0;
        const bool behind = last < 0 || j->taken[i] < j->taken[last] || (j->taken[i] == j->taken[last] && i > last);
        if (mistake && behind && (found < 0 || j->taken[i] > j->taken[found]))
            found = i;
    }
    return found;
}

/* Of many classes, whose table nobody could read. */
static void put_mistakes(FILE *file, const judge *j)
{
    fputs(
        "<table id=\"mistakes\">\n<thead><tr><th>class</th><th>taken for</th><th class=\"n\">images</th></tr></thead>\n"
        "<tbody>\n",
        file);
    for (int n = 0, at = next_mistake(j, -1); n < MOST_MISTAKES && at >= 0; n++, at = next_mistake(j, at)) {
        fputs("<tr><td>", file);
        put_class(file, j, at / j->about.classes);
        fputs("</td><td>", file);
        put_class(file, j, at % j->about.classes);
        fprintf(file, "</td><td class=\"n\">%lld</td></tr>\n", (long long)j->taken[at]);
    }
    fputs("</tbody></table>\n", file);
}

static void put_worst(FILE *file, const judge *j)
{
    const ls_data_info *about = &j->about;
    fputs("<div class=\"worst\">\n", file);
    for (int i = 0; i < j->n_worst; i++) {
        const judge_image *image = &j->worst[i];
        fprintf(file, "<figure><img width=\"%d\" height=\"%d\" alt=\"test image %lld: ", about->width, about->height,
                (long long)image->index);
        put_class(file, j, image->label);
        fputs("\" src=\"", file);
        picture_uri(file, image->pixels, about->channels, about->width, about->height);
        fputs("\"><figcaption><b>", file);
        put_class(file, j, image->label);
        fputs("</b> <span>taken for</span> <b>", file);
        put_class(file, j, image->guess);
        fprintf(file, "</b> <span>%.0f %%, number %lld</span></figcaption></figure>\n", 100 * image->sure,
                (long long)image->index);
    }
    fputs("</div>\n", file);
}

static void put_devices(FILE *file, const run *r)
{
    fputs("<table id=\"devices\">\n", file);
    for (int i = 0; i < r->devices.n; i++) {
        const char *about = ls_device_about(r->session, r->devices.at[i]);
        page_row(file, ls_device_str(r->session, r->devices.at[i]), about ? about : "");
    }
    for (int i = 1; r->ranks_devices && i < ls_cluster_ranks(r->cluster); i++) {
        char name[128];
        snprintf(name, sizeof name, "rank %d on host %s", i, ls_cluster_host(r->cluster, i));
        page_row(file, name, ls_devices_str(r->session, r->ranks_devices[i]));
    }
    fputs("</table>\n", file);
}

static void put_versions(FILE *file)
{
    char line[256];
    fputs("<table id=\"versions\">\n", file);
    page_row(file, "lockstep", ls_version());
    for (const char *at = ls_features(); *at;) {
        int length = (int)strcspn(at, "\n"), colon = (int)strcspn(at, ":");
        snprintf(line, sizeof line, "%.*s", colon < length ? colon : length, at);
        size_t behind = strlen(line) + 1;
        if (colon + 2 < length)
            snprintf(line + behind, sizeof line - behind, "%.*s", length - colon - 2, at + colon + 2);
        else
            line[behind] = '\0';
        page_row(file, line, line + behind);
        at += length + (at[length] == '\n');
    }
    page_row(file, "pictures", pictures_version());
    fputs("</table>\n", file);
}

static void put_page(FILE *file, const figure *f, const void *user)
{
    const story *s = user;
    put_head(file, s);
    page_figure(file, f);
    page_section(file, "Epochs", NULL);
    page_epochs(file, s->record);
    page_section_end(file);
    char about[160], images[80];
    name_images(images, sizeof images, s);
    fputs("<div class=\"two\">\n", file);
    if (s->judge->about.classes <= MOST_IN_TABLE) {
        snprintf(about, sizeof about, "%s: a row for what they are, a column for what the network took them for.",
                 images);
        page_section(file, "Confusion matrix", about);
        put_taken(file, s->judge);
    } else {
        snprintf(about, sizeof about, "The mistakes made most often. %s were looked at.", images);
        page_section(file, "Confusion matrix", about);
        put_mistakes(file, s->judge);
    }
    page_section_end(file);
    page_section(file, "Classes",
                 "Recall: of the images of a class, how many were taken for it. Precision: of those taken for it, how "
                 "many are of it.");
    put_classes(file, s->judge);
    page_section_end(file);
    fputs("</div>\n", file);
    if (s->judge->n_worst) {
        page_section(file, "Most wrong", "The test images whose own class the network thought least likely.");
        put_worst(file, s->judge);
        page_section_end(file);
    }
    fputs("<div class=\"two\">\n", file);
    page_section(file, "Settings", NULL);
    page_settings(file, s->record);
    page_section_end(file);
    fputs("<div>\n", file);
    page_section(file, "Devices", NULL);
    put_devices(file, s->run);
    page_section_end(file);
    page_section(file, "Versions", NULL);
    put_versions(file);
    page_section_end(file);
    fputs("</div>\n</div>\n", file);
    page_end(file);
}

int report_run(const run *r, record *of, const judge *j, const char *fingerprint)
{
    return write_report("--report", r->chosen->report, &of, 1, put_page,
                        &(story){.run = r, .record = of, .judge = j, .fingerprint = fingerprint});
}
