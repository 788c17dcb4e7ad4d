/* A drawing in characters: Braille's eight dots to a cell, or one of . ' : where there is no UTF-8. */
#pragma once

#include <stdbool.h>

enum { PLOT_COLUMNS = 100, PLOT_ROWS = 16 };

typedef enum ink { INK_NONE, INK_QUIET, INK_LOSS, INK_TRAIN, INK_TEST, INKS } ink;

typedef struct plot {
    int columns, rows; /* cells */
    int across, down;  /* dots to a cell */
    unsigned char dots[PLOT_ROWS][PLOT_COLUMNS], inks[PLOT_ROWS][PLOT_COLUMNS];
    bool mark[PLOT_ROWS][PLOT_COLUMNS];
} plot;

/* Empty; at most PLOT_COLUMNS by PLOT_ROWS. */
void plot_begin(plot *p, int columns, int rows, bool utf8);

/* x from 0, left, to 1, right; y from 0, bottom, to 1, top. What lies outside is left out. Where two inks meet in a
 * cell, the later one colours it. */
void plot_line(plot *p, double x0, double y0, double x1, double y1, ink with);
void plot_mark(plot *p, double x, double y, ink with); /* a filled circle in the cell's place */

/* Cell's text, at most 3 bytes and a zero, and its ink. */
ink plot_cell(const plot *p, int column, int row, char text[4]);
