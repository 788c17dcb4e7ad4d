#include "report/chart.h"
#include "text/scale.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

chart_curve *chart_add(chart *c, const char *name, int tint, int room)
{
    if (c->n == CHART_CURVES)
        return NULL;
    chart_curve *curve = &c->curves[c->n];
    *curve = (chart_curve){.name = name, .tint = tint, .at = malloc((size_t)(room ? room : 1) * sizeof *curve->at)};
    if (!curve->at)
        return NULL;
    c->n++;
    return curve;
}

void chart_free(chart *c)
{
    for (int i = 0; i < c->n; i++)
        free(c->curves[i].at);
    c->n = 0;
}

double chart_text_width(const char *text)
{
    double width = 0;
    for (; *text; text++)
        width += (*text & 0xc0) == 0x80 ? 0 : 6.8; /* bytes that go on with a character have no width */
    return width;
}

/* Where the axes lie, and what they span. */
typedef struct frame {
    double left, top, width, height;
    double x_max, y_min, y_max;
} frame;

enum {
    PARTS = 4,       /* of the y axis */
    FEW = 4,         /* curves whose only points have room for their numbers */
    LINE = 14,       /* of text */
    TO_BASELINE = 4, /* of text beside a point */
    BESIDE = 9,      /* from a point to its number */
    PLACES = 18      /* that a number may have: two sides, lines up and down */
};

static double x_at(const frame *f, double x)
{
    return f->left + x / f->x_max * f->width;
}

static double y_at(const frame *f, double y)
{
    return f->top + (1 - (y - f->y_min) / (f->y_max - f->y_min)) * f->height;
}

static void straight(pen *p, double x0, double y0, double x1, double y1, int tint)
{
    p->line(p, (const double[][2]){{x0, y0}, {x1, y1}}, 2, tint, 1, 0);
}

/* Left of the y axis: what its labels need, of which the longest may stand out a little. */
static double label_room(const frame *f, double tick)
{
    char label[32];
    scale_longest(label, sizeof label, f->y_min, tick, PARTS);
    return fmax(44, chart_text_width(label) + 3);
}

static void draw_axes(pen *p, const chart *c, const frame *f, double x_tick, double y_tick)
{
    char label[32], note[64];
    for (int i = 0; i <= PARTS; i++) {
        double y = f->y_min + i * y_tick;
        straight(p, f->left, y_at(f, y), f->left + f->width, y_at(f, y), TINT_GRID);
        scale_text(label, sizeof label, y, y_tick);
        p->text(p, f->left - 8, y_at(f, y) + 4, 1, TINT_QUIET, label);
    }
    if (f->y_min > 0) {
        scale_text(label, sizeof label, f->y_min, y_tick);
        snprintf(note, sizeof note, "axis from %s, not 0", label);
        p->text(p, f->left, f->top + f->height + 36, -1, TINT_QUIET, note);
    }
    for (double x = 0; x <= f->x_max * (1 + 1e-9); x += x_tick) {
        scale_text(label, sizeof label, x, x_tick);
        p->text(p, x_at(f, x), f->top + f->height + 18, 0, TINT_QUIET, label);
    }
    p->text(p, f->left + f->width, f->top + f->height + 36, 1, TINT_QUIET, c->x_label);
}

static void draw_title(pen *p, const chart *c, const frame *f)
{
    double x = f->left, y = f->top - 16;
    bool named = false;
    for (int i = 0; i < c->n; i++) {
        const chart_curve *curve = &c->curves[i];
        if (!curve->name)
            continue;
        named = true;
        if (curve->dots)
            p->dot(p, x + 8, y - 4, 4, curve->tint);
        else
            p->line(p, (const double[][2]){{x, y - 4}, {x + 16, y - 4}}, 2, curve->tint, 2.5, 0);
        p->text(p, x + 22, y, -1, TINT_TEXT, curve->name);
        x += 22 + chart_text_width(curve->name) + 18;
    }
    if (!named)
        p->text(p, x, y, -1, TINT_TEXT, c->title);
}

static bool is_point(const double at[2])
{
    return isfinite(at[0]) && isfinite(at[1]);
}

/* Where a point is drawn: at the frame's edge where it lies beyond. */
static void place(const frame *f, const double value[2], double at[2])
{
    at[0] = x_at(f, fmin(fmax(value[0], 0), f->x_max));
    at[1] = y_at(f, fmin(fmax(value[1], f->y_min), f->y_max));
}

/* Without what is not finite, which leaves no gap: a run ends there. Returns how many points there are. */
static int draw_curve(pen *p, const chart_curve *curve, const frame *f)
{
    double(*at)[2] = malloc((size_t)(curve->n ? curve->n : 1) * sizeof *at);
    int n = 0;
    for (int i = 0; at && i < curve->n; i++)
        if (is_point(curve->at[i]))
            place(f, curve->at[i], at[n++]);
    if (n > 1)
        p->line(p, (const double(*)[2])at, n, curve->tint, 1.8, curve->dash);
    bool apart = n && f->width / n > 8;
    for (int i = 0; i < n; i++)
        if ((curve->dots && (apart || i == n - 1)) || n == 1)
            p->dot(p, at[i][0], at[i][1], 3.5, curve->tint);
    free(at);
    return n;
}

/* Where the number of a single point stands: from left to right, and its line. */
typedef struct spot {
    double from, to, y;
} spot;

typedef struct numbers {
    spot at[FEW];
    char words[FEW][32];
    int n;
} numbers;

static bool meet(const spot *a, const spot *b)
{
    return a->from <= b->to && a->to >= b->from && fabs(a->y - b->y) < LINE - 1;
}

/* Whether a number has room. Beside another curve's point it would be read as that one's. */
static bool has_room(const chart *c, const frame *f, const numbers *drawn, const spot *number, const double own[2])
{
    if (number->from < f->left || number->to > f->left + f->width || number->y < f->top ||
        number->y > f->top + f->height + TO_BASELINE)
        return false;
    for (int k = 0; k < drawn->n; k++)
        if (meet(number, &drawn->at[k]))
            return false;
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->curves[i].n; k++) {
            double at[2];
            if (!is_point(c->curves[i].at[k]))
                continue;
            place(f, c->curves[i].at[k], at);
            const spot beside = {at[0] - BESIDE, at[0] + BESIDE, at[1] + TO_BASELINE};
            if (hypot(at[0] - own[0], at[1] - own[1]) > 0.1 && meet(number, &beside))
                return false;
        }
    return true;
}

/* The places of a number `width` wide, the best first: beside its point, where there is more room and on the other
 * side, then some lines below and above. */
static spot place_of_number(const frame *f, const double own[2], double width, int number)
{
    const int line = number / 2;
    const bool before = (own[0] > f->left + f->width / 2) != number % 2;
    const double from = own[0] + (before ? -BESIDE - width : BESIDE);
    return (spot){from, from + width, own[1] + TO_BASELINE + (line % 2 ? (line + 1) / 2 : -line / 2) * LINE};
}

/* The number of a curve that is a single point. Equal ones that would meet are written once. */
static void draw_number(pen *p, const chart *c, const chart_curve *curve, const frame *f, numbers *drawn)
{
    char *words = drawn->words[drawn->n];
    double own[2];
    int i = 0, tried = 0;
    while (!is_point(curve->at[i]))
        i++;
    place(f, curve->at[i], own);
    snprintf(words, sizeof drawn->words[0], "%.4g", curve->at[i][1]);
    const double width = chart_text_width(words);
    spot at = place_of_number(f, own, width, 0);
    for (int k = 0; k < drawn->n; k++)
        if (meet(&at, &drawn->at[k]) && strcmp(words, drawn->words[k]) == 0)
            return;
    while (tried < PLACES && !has_room(c, f, drawn, &at, own))
        at = place_of_number(f, own, width, ++tried % PLACES); /* the first again where none has room */
    drawn->at[drawn->n++] = at;
    const bool before = at.to < own[0];
    p->text(p, before ? at.to : at.from, at.y, before ? 1 : -1, TINT_TEXT, words);
}

static void fit_y(frame *f, const chart *c, double *tick)
{
    double lo = INFINITY, hi = -INFINITY;
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->curves[i].n; k++)
            if (is_point(c->curves[i].at[k])) {
                lo = fmin(lo, c->curves[i].at[k][1]);
                hi = fmax(hi, c->curves[i].at[k][1]);
            }
    if (c->y_top > 0)
        hi = fmin(hi, c->y_top);
    *tick = hi > 0 ? scale_fit(lo, hi, PARTS, &f->y_min) : 1.0 / PARTS;
    if (c->y_top > 0 && f->y_min + PARTS * *tick > c->y_top) /* a share above the whole would be no label */
        f->y_min = fmax(0, c->y_top - PARTS * *tick);
    f->y_max = f->y_min + PARTS * *tick;
}

void chart_draw(pen *p, const chart *c, double left, double top, double width, double height)
{
    frame f = {.top = top + 34, .height = height - 76};
    double y_tick, x_max = c->x_max > 0 ? fmin(fmax(c->x_max, 1e-300), 1e300) : 1;
    double x_tick = c->whole_x ? scale_whole_step(x_max, 10) : scale_step(x_max, 6);
    numbers drawn = {.n = 0};
    fit_y(&f, c, &y_tick);
    f.x_max = x_max;
    const double labels = label_room(&f, y_tick);
    f.left = left + labels;
    f.width = width - 14 - labels;
    draw_title(p, c, &f);
    draw_axes(p, c, &f, x_tick, y_tick);
    for (int i = 0; i < c->n; i++)
        if (draw_curve(p, &c->curves[i], &f) == 1 && c->n <= FEW)
            draw_number(p, c, &c->curves[i], &f, &drawn);
}
