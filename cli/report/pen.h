/* Something that draws: on a picture, or as SVG within a page. Units are pixels at the picture's plain size; y grows
 * downwards. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* Colours by their part; the page has a light and a dark of each. */
enum { TINT_TEXT, TINT_QUIET, TINT_GRID, TINT_CURVES }; /* and TINT_CURVES + 0 .. CURVES - 1 */
enum { CURVES = 8 };

/* How a line is broken up: so that of several on one place each can be seen. Lengths of line and gap; the first has
 * none. */
enum { DASHES = 4, DASH_PARTS = 4 };
extern const double pen_dashes[DASHES][DASH_PARTS];

typedef struct pen pen;
struct pen {
    void (*line)(pen *p, const double (*at)[2], int n, int tint, double width, int dash);
    void (*dot)(pen *p, double x, double y, double radius, int tint);
    void (*text)(pen *p, double x, double y, int anchor, int tint,
                 const char *text); /* anchor -1, 0, 1: left to right */
};

/* SVG elements without colours of their own: their classes are t0, t1, ... by tint. */
typedef struct svg_pen {
    pen pen;
    FILE *file;
} svg_pen;
svg_pen svg_pen_of(FILE *file);

/* Text for HTML and SVG, with everything escaped that means something there. */
void put_escaped(FILE *file, const char *text);
