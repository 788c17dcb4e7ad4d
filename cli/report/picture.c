#include "report/picture.h"

#if !LOCKSTEP_HAVE_CAIRO

const char *pictures_version(void)
{
    return NULL;
}

bool picture_png(FILE *file, double width, double height, picture_draw *draw, const void *what)
{
    (void)file, (void)width, (void)height, (void)draw, (void)what;
    return false;
}

bool picture_svg(FILE *file, double width, double height, picture_draw *draw, const void *what)
{
    return picture_png(file, width, height, draw, what);
}

bool picture_uri(FILE *file, const unsigned char *pixels, int channels, int width, int height)
{
    (void)file, (void)pixels, (void)channels, (void)width, (void)height;
    return false;
}

#else

#include <cairo-svg.h>
#include <cairo.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

const char *pictures_version(void)
{
    return cairo_version_string();
}

typedef struct cairo_pen {
    pen pen;
    cairo_t *cairo;
} cairo_pen;

static cairo_t *with_tint(pen *p, int tint)
{
    static const unsigned colours[TINT_CURVES + CURVES] = {0x22262b, 0x636b76, 0xe3e6ea, 0x0b78c2, 0xc77700, 0x0a9a5b,
                                                           0xb23a86, 0x6d55cc, 0xc43d3d, 0x2a9d9d, 0x7d6b2e};
    unsigned colour = colours[tint];
    cairo_t *cairo = ((cairo_pen *)p)->cairo;
    cairo_set_source_rgb(cairo, (colour >> 16) / 255.0, (colour >> 8 & 255) / 255.0, (colour & 255) / 255.0);
    return cairo;
}

static void line(pen *p, const double (*at)[2], int n, int tint, double width, int dash)
{
    cairo_t *cairo = with_tint(p, tint);
    cairo_new_path(cairo); /* a text before leaves its end as a point to go on from */
    cairo_set_line_width(cairo, width);
    cairo_set_dash(cairo, pen_dashes[dash], dash ? DASH_PARTS : 0, 0);
    for (int i = 0; i < n; i++)
        cairo_line_to(cairo, at[i][0], at[i][1]);
    cairo_stroke(cairo);
}

static void dot(pen *p, double x, double y, double radius, int tint)
{
    cairo_t *cairo = with_tint(p, tint);
    cairo_new_path(cairo);
    cairo_arc(cairo, x, y, radius, 0, 2 * M_PI);
    cairo_fill(cairo);
}

static void text(pen *p, double x, double y, int anchor, int tint, const char *words)
{
    cairo_t *cairo = with_tint(p, tint);
    cairo_text_extents_t size;
    cairo_text_extents(cairo, words, &size);
    cairo_move_to(cairo, x - size.x_advance * (anchor + 1) / 2, y);
    cairo_show_text(cairo, words);
}

static cairo_status_t write_bytes(void *file, const unsigned char *bytes, unsigned n)
{
    return fwrite(bytes, 1, n, file) == n ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

static void draw_on(cairo_surface_t *surface, double width, double height, double scale, picture_draw *draw,
                    const void *what)
{
    cairo_pen p = {.pen = {.line = line, .dot = dot, .text = text}, .cairo = cairo_create(surface)};
    cairo_scale(p.cairo, scale, scale);
    cairo_set_source_rgb(p.cairo, 1, 1, 1);
    cairo_paint(p.cairo);
    cairo_set_line_cap(p.cairo, CAIRO_LINE_CAP_ROUND);
    cairo_set_line_join(p.cairo, CAIRO_LINE_JOIN_ROUND);
    cairo_select_font_face(p.cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(p.cairo, 12);
    draw(&p.pen, width, height, what);
    cairo_destroy(p.cairo);
}

bool picture_png(FILE *file, double width, double height, picture_draw *draw, const void *what)
{
    const double scale = PICTURE_SCALE;
    cairo_surface_t *surface =
        cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)ceil(scale * width), (int)ceil(scale * height));
    draw_on(surface, width, height, scale, draw, what);
    bool good = cairo_surface_write_to_png_stream(surface, write_bytes, file) == CAIRO_STATUS_SUCCESS;
    cairo_surface_destroy(surface);
    return good;
}

bool picture_svg(FILE *file, double width, double height, picture_draw *draw, const void *what)
{
    cairo_surface_t *surface = cairo_svg_surface_create_for_stream(write_bytes, file, width, height);
    draw_on(surface, width, height, 1, draw, what);
    cairo_surface_finish(surface);
    bool good = cairo_surface_status(surface) == CAIRO_STATUS_SUCCESS;
    cairo_surface_destroy(surface);
    return good;
}

/* Three bytes become four letters; the last one or two bytes are kept until more come. */
typedef struct base64 {
    FILE *file;
    unsigned char kept[3];
    int n;
} base64;

static void put_three(base64 *to, int n)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned bits = (unsigned)to->kept[0] << 16 | (unsigned)to->kept[1] << 8 | to->kept[2];
    for (int i = 0; i < 4; i++)
        putc(i <= n ? letters[bits >> (18 - 6 * i) & 63] : '=', to->file);
    memset(to->kept, 0, 3);
    to->n = 0;
}

static cairo_status_t write_base64(void *user, const unsigned char *bytes, unsigned n)
{
    base64 *to = user;
    for (unsigned i = 0; i < n; i++) {
        to->kept[to->n++] = bytes[i];
        if (to->n == 3)
            put_three(to, 3);
    }
    return ferror(to->file) ? CAIRO_STATUS_WRITE_ERROR : CAIRO_STATUS_SUCCESS;
}

static void put_colour_row(unsigned char *to, const unsigned char *from, int width, size_t plane)
{
    for (int i = 0; i < width; i++) {
        uint32_t pixel = (uint32_t)from[i] << 16 | (uint32_t)from[plane + (size_t)i] << 8 | from[2 * plane + (size_t)i];
        memcpy(to + (size_t)i * sizeof pixel, &pixel, sizeof pixel);
    }
}

bool picture_uri(FILE *file, const unsigned char *pixels, int channels, int width, int height)
{
    base64 to = {.file = file};
    const bool colour = channels == 3;
    cairo_surface_t *surface = cairo_image_surface_create(colour ? CAIRO_FORMAT_RGB24 : CAIRO_FORMAT_A8, width, height);
    unsigned char *rows = cairo_image_surface_get_data(surface);
    for (int row = 0; rows && row < height; row++) {
        unsigned char *at = rows + row * cairo_image_surface_get_stride(surface);
        if (colour)
            put_colour_row(at, pixels + row * width, width, (size_t)width * (size_t)height);
        else
            memcpy(at, pixels + row * width, (size_t)width);
    }
    cairo_surface_mark_dirty(surface);
    fputs("data:image/png;base64,", file);
    bool good = cairo_surface_write_to_png_stream(surface, write_base64, &to) == CAIRO_STATUS_SUCCESS;
    if (to.n)
        put_three(&to, to.n);
    cairo_surface_destroy(surface);
    return good && !ferror(file);
}

#endif
