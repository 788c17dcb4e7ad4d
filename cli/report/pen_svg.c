#include "report/pen.h"

const double pen_dashes[DASHES][DASH_PARTS] = {{0}, {7, 5, 7, 5}, {3, 4, 3, 4}, {9, 4, 2, 4}};

static void line(pen *p, const double (*at)[2], int n, int tint, double width, int dash)
{
    FILE *file = ((svg_pen *)p)->file;
    fprintf(file, "<polyline class=\"t%d\" stroke-width=\"%.2g\"", tint, width);
    for (int i = 0; dash && i < DASH_PARTS; i++)
        fprintf(file, "%s%g%s", i ? " " : " stroke-dasharray=\"", pen_dashes[dash][i], i < DASH_PARTS - 1 ? "" : "\"");
    fputs(" points=\"", file);
    for (int i = 0; i < n; i++)
        fprintf(file, "%s%.1f,%.1f", i ? " " : "", at[i][0], at[i][1]);
    fputs("\"/>\n", file);
}

static void dot(pen *p, double x, double y, double radius, int tint)
{
    fprintf(((svg_pen *)p)->file, "<circle class=\"t%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.2g\"/>\n", tint, x, y, radius);
}

static void text(pen *p, double x, double y, int anchor, int tint, const char *words)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    FILE *file = ((svg_pen *)p)->file;
    fprintf(file, "<text class=\"t%d\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", tint, x, y, anchors[anchor + 1]);
    put_escaped(file, words);
    fputs("</text>\n", file);
}

svg_pen svg_pen_of(FILE *file)
{
    return (svg_pen){.pen = {.line = line, .dot = dot, .text = text}, .file = file};
}

void put_escaped(FILE *file, const char *words)
{
    for (const unsigned char *c = (const unsigned char *)words; *c; c++)
        switch (*c) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        default:
            /* A control character stands in no HTML or XML; a file's name may hold one. */
            putc(*c < ' ' && *c != '\n' ? '?' : *c, file);
        }
}
