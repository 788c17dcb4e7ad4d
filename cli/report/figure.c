#include "report/figure.h"
#include "options/outputs.h"
#include "report/picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PANEL_WIDTH = 430, PANEL_HEIGHT = 300, MARGIN = 14, NAME_LINE = 20, SMOOTH = 120 };

int figure_tint(int run)
{
    return TINT_CURVES + run % CURVES;
}

int figure_dash(int run)
{
    return run ? 1 + (run - 1) % (DASHES - 1) : 0; /* a later one that is solid would hide all before it */
}

/* The losses of the steps, some neighbours together, over the epochs. */
static bool add_losses(chart *c, const record *r, const char *name, int tint, int dash)
{
    const history *h = &r->history;
    double batches = record_batches(r), step, loss, step_sum = 0, sum = 0;
    int together = (h->used + SMOOTH - 1) / SMOOTH, n = 0;
    chart_curve *curve = chart_add(c, name, tint, h->used);
    if (!curve)
        return false;
    curve->dash = dash;
    for (int i = 0; i < h->used; i++) {
        if (history_loss_at(h, i, &step, &loss)) {
            step_sum += step;
            sum += loss;
            n++;
        }
        if (n && ((i + 1) % together == 0 || i == h->used - 1)) {
            curve->at[curve->n][0] = step_sum / n / batches;
            curve->at[curve->n++][1] = sum / n;
            step_sum = sum = n = 0;
        }
    }
    c->x_max = fmax(c->x_max, (double)h->last_step / batches);
    return true;
}

typedef enum accuracy { TRAINING, VALIDATION, TESTING } accuracy;

/* An accuracy after each epoch, by epochs or by seconds of training. */
static bool add_accuracy(chart *c, const record *r, accuracy which, bool by_seconds, const char *name, int tint,
                         int dash)
{
    chart_curve *curve = chart_add(c, name, tint, r->n_epochs);
    double batches = record_batches(r), seconds = 0;
    if (!curve)
        return false;
    curve->dash = dash;
    curve->dots = which != TRAINING;
    for (int i = 0; i < r->n_epochs; i++) {
        const record_epoch *e = &r->epochs[i];
        seconds += e->sec;
        double x = by_seconds ? seconds : (double)e->step / batches;
        curve->at[i][0] = x;
        curve->at[i][1] = which == TESTING ? e->test_acc : which == VALIDATION ? e->val_acc : e->train_acc;
        c->x_max = fmax(c->x_max, x);
    }
    curve->n = r->n_epochs;
    return true;
}

static bool fill(figure *f)
{
    chart *loss = &f->charts[0], *acc = &f->charts[1], *time = &f->charts[2];
    bool one = f->n_runs == 1, good = true;
    *loss = (chart){.title = "train loss", .x_label = "epoch", .whole_x = true};
    *acc = (chart){.title = "test acc", .x_label = "epoch", .whole_x = true, .y_top = 1};
    *time = (chart){.title = "test acc", .x_label = "seconds of training", .y_top = 1};
    for (int i = 0; i < f->n_runs && good; i++) {
        const record *r = f->runs[i];
        const int dash = figure_dash(i);
        good = add_losses(loss, r, one ? "train loss" : NULL, figure_tint(i), dash);
        if (one)
            good = good && add_accuracy(acc, r, TRAINING, false, "train acc", TINT_CURVES + 1, dash);
        if (one && record_validates(r))
            good = good && add_accuracy(acc, r, VALIDATION, false, "val acc", TINT_CURVES + 3, dash);
        good = good && add_accuracy(acc, r, TESTING, false, one ? "test acc" : NULL,
                                    one ? TINT_CURVES + 2 : figure_tint(i), dash);
        if (!one)
            good = good && add_accuracy(time, r, TESTING, true, NULL, figure_tint(i), dash);
    }
    return good;
}

/* Of a figure of n runs. */
static int charts_of(int n)
{
    return n > 1 ? FIGURE_CHARTS : 2;
}

static int width_of(int n)
{
    return charts_of(n) * PANEL_WIDTH + 2 * MARGIN;
}

static int height_of(int n)
{
    return PANEL_HEIGHT + 2 * MARGIN + (n > 1 ? n * NAME_LINE : 0);
}

static bool is_size(long width, long height)
{
    int n = 1;
    while (n < CHART_CURVES && height_of(n) != height)
        n++;
    return width == width_of(n) && height == height_of(n);
}

static long read_number(const unsigned char *at)
{
    return (long)at[0] << 24 | (long)at[1] << 16 | (long)at[2] << 8 | (long)at[3];
}

bool figure_is_png(const unsigned char *head, size_t n)
{
    static const char start[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    const size_t at = sizeof start - 1;
    return n >= at + 8 && memcmp(head, start, at) == 0 && read_number(head + at) % PICTURE_SCALE == 0 &&
           read_number(head + at + 4) % PICTURE_SCALE == 0 &&
           is_size(read_number(head + at) / PICTURE_SCALE, read_number(head + at + 4) / PICTURE_SCALE);
}

bool figure_is_svg(const unsigned char *head, size_t n)
{
    static const char size[] = " viewBox=\"0 0 ";
    char text[OUTPUT_HEAD + 1], *width, *end;
    snprintf(text, sizeof text, "%.*s", (int)n, (const char *)head);
    const char *svg = strstr(text, "<svg "), *box = svg ? strstr(svg, size) : NULL;
    if (!box)
        return false;
    const long wide = strtol(box + sizeof size - 1, &width, 10);
    return is_size(wide, strtol(width, &end, 10)) && *end == '"';
}

figure *figure_new(record *const runs[], int n)
{
    figure *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    *f = (figure){.runs = runs, .n_runs = n, .n_charts = charts_of(n), .width = width_of(n), .height = height_of(n)};
    if (fill(f))
        return f;
    figure_free(f);
    return NULL;
}

void figure_free(figure *f)
{
    for (int i = 0; f && i < FIGURE_CHARTS; i++)
        chart_free(&f->charts[i]);
    free(f);
}

void figure_draw(pen *p, double width, double height, const void *what)
{
    const figure *f = what;
    (void)width;
    (void)height;
    for (int i = 0; i < f->n_charts; i++)
        chart_draw(p, &f->charts[i], MARGIN + i * PANEL_WIDTH, MARGIN, PANEL_WIDTH, PANEL_HEIGHT);
    for (int i = 0; f->n_runs > 1 && i < f->n_runs; i++) {
        double x = MARGIN + 44, y = MARGIN + PANEL_HEIGHT + NAME_LINE * (i + 0.5);
        p->line(p, (const double[][2]){{x, y - 4}, {x + 20, y - 4}}, 2, figure_tint(i), 2.5, figure_dash(i));
        p->text(p, x + 28, y, -1, TINT_TEXT, f->runs[i]->name);
    }
}

void figure_put_svg(FILE *file, const figure *f)
{
    svg_pen with = svg_pen_of(file);
    for (int i = 0; i < f->n_charts; i++) {
        fprintf(file, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s by %s\">\n", PANEL_WIDTH, PANEL_HEIGHT,
                f->charts[i].title, f->charts[i].x_label);
        chart_draw(&with.pen, &f->charts[i], 0, 0, PANEL_WIDTH, PANEL_HEIGHT);
        fputs("</svg>\n", file);
    }
}
