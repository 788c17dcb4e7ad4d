/* The curves of one run or of several, side by side: what curve.png and curve.svg show, and the page. */
#pragma once

#include "record/record.h"
#include "report/chart.h"

enum { FIGURE_CHARTS = 3 };
typedef struct figure {
    chart charts[FIGURE_CHARTS];
    int n_charts;
    record *const *runs; /* for the names below, where there are several */
    int n_runs;
    double width, height;
} figure;

/* For one run loss and accuracies by epochs; for several also accuracy by seconds. NULL without memory. */
figure *figure_new(record *const runs[], int n);
void figure_free(figure *f);

/* Whether a file that begins so is such a figure: a picture of a size that figures have. */
bool figure_is_png(const unsigned char *head, size_t n);
bool figure_is_svg(const unsigned char *head, size_t n);

void figure_draw(pen *p, double width, double height, const void *figure); /* all of it: a picture_draw */
void figure_put_svg(FILE *file, const figure *f);                          /* an <svg> element for each chart */

/* Of run i among several. Where runs agree, later ones lie on earlier ones, which are seen through their gaps: no run
 * is drawn heavier than another. */
int figure_tint(int run);
int figure_dash(int run);
