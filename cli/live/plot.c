#include "live/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void plot_begin(plot *p, int columns, int rows, bool utf8)
{
    memset(p, 0, sizeof *p);
    p->columns = columns > PLOT_COLUMNS ? PLOT_COLUMNS : columns;
    p->rows = rows > PLOT_ROWS ? PLOT_ROWS : rows;
    p->across = utf8 ? 2 : 1;
    p->down = utf8 ? 4 : 2;
}

static int place(double share, int dots)
{
    return (int)lrint(share * (dots - 1));
}

static void set(plot *p, int x, int y, ink with)
{
    /* The dots of Unicode's Braille patterns, by row and column of the cell. */
    static const unsigned char braille[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    if (x < 0 || y < 0 || x >= p->columns * p->across || y >= p->rows * p->down)
        return;
    int column = x / p->across, row = y / p->down;
    p->dots[row][column] |= p->down == 4 ? braille[y % 4][x % 2] : (unsigned char)(1 << y % 2);
    p->inks[row][column] = (unsigned char)with;
}

void plot_line(plot *p, double x0, double y0, double x1, double y1, ink with)
{
    if (!(fabs(x0) <= 10 && fabs(x1) <= 10 && fabs(y0) <= 10 && fabs(y1) <= 10))
        return;
    int width = p->columns * p->across, height = p->rows * p->down;
    int fx = place(x0, width), fy = place(1 - y0, height), tx = place(x1, width), ty = place(1 - y1, height);
    int steps = abs(tx - fx) > abs(ty - fy) ? abs(tx - fx) : abs(ty - fy);
    for (int i = 0; i <= steps; i++) {
        double part = steps ? (double)i / steps : 0;
        set(p, (int)lrint(fx + part * (tx - fx)), (int)lrint(fy + part * (ty - fy)), with);
    }
}

void plot_mark(plot *p, double x, double y, ink with)
{
    int column = place(x, p->columns * p->across) / p->across, row = place(1 - y, p->rows * p->down) / p->down;
    if (column < 0 || row < 0 || column >= p->columns || row >= p->rows)
        return;
    p->mark[row][column] = true;
    p->inks[row][column] = (unsigned char)with;
}

ink plot_cell(const plot *p, int column, int row, char text[4])
{
    unsigned char dots = p->dots[row][column];
    bool utf8 = p->down == 4;
    if (p->mark[row][column])
        strcpy(text, utf8 ? "\xe2\x97\x8f" : "o");
    else if (!dots)
        strcpy(text, " ");
    else if (utf8) /* U+2800 and the dots */
        memcpy(text, (char[4]){(char)0xe2, (char)(0xa0 | dots >> 6), (char)(0x80 | (dots & 0x3f)), 0}, 4);
    else
        strcpy(text, dots == 1 ? "'" : dots == 2 ? "." : ":");
    return (ink)p->inks[row][column];
}
