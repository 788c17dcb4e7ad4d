/* Curves between two axes, with a title that names them. x starts at zero; y is fitted to the curves, which is said
 * where it does not. */
#pragma once

#include "report/pen.h"

typedef struct chart_curve {
    const char *name; /* for the title; NULL: not named there */
    int tint;
    int dash; /* of pen_dashes */
    bool dots;
    double (*at)[2]; /* owned; not finite: left out */
    int n;
} chart_curve;

enum { CHART_CURVES = 64 };
typedef struct chart {
    const char *title, *x_label; /* the title stands where no curve has a name */
    double x_max;                /* as far as the axis reaches */
    double y_top;                /* the most that there can be; 0: no limit */
    bool whole_x;                /* ticks at whole numbers */
    chart_curve curves[CHART_CURVES];
    int n;
} chart;

/* A curve with room for n points; NULL without memory, or beyond CHART_CURVES. */
chart_curve *chart_add(chart *c, const char *name, int tint, int room);
void chart_free(chart *c); /* its curves */

void chart_draw(pen *p, const chart *c, double left, double top, double width, double height);

/* About how wide `text` is. */
double chart_text_width(const char *text);
