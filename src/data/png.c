/* PNG by libpng: every kind of it as 8 bits of grey, or of red, green and blue. What it says of gamma and colour
 * profiles is not looked at, as elsewhere in training. */
#include "data/picture.h"

#if LOCKSTEP_HAVE_PNG

#include <png.h>
#include <string.h>

typedef struct reading {
    ls_picture *picture;
    size_t at;
    png_structp png;
    png_infop info;
    uint8_t *rows; /* of the whole picture where it is interlaced, else one; with its alpha */
} reading;

/* libpng's functions do not return from a failure: they come to the setjmp of `guarded`. */
static void fail(png_structp png, png_const_charp why)
{
    const reading *r = png_get_error_ptr(png);
    ls_picture_raise(r->picture, why);
    png_longjmp(png, 1);
}

static void warn(png_structp png, png_const_charp why)
{
    (void)png, (void)why;
}

static void read_bytes(png_structp png, png_bytep into, size_t count)
{
    reading *r = png_get_io_ptr(png);
    if (count > r->picture->count - r->at)
        png_error(png, "it was cut off");
    memcpy(into, r->picture->bytes + r->at, count);
    r->at += count;
}

static png_voidp allocate(png_structp png, png_alloc_size_t size)
{
    return ls_alloc(png_get_mem_ptr(png), 1, size, "libpng");
}

static void release(png_structp png, png_voidp memory)
{
    ls_release(png_get_mem_ptr(png), memory);
}

/* Header and what has to be known before the pixels: sets height, width and colour, and how pixels come. */
static void read_header(reading *r)
{
    ls_picture *picture = r->picture;
    png_set_read_fn(r->png, r, read_bytes);
    png_set_user_limits(r->png, LS_MOST_PIXELS, LS_MOST_PIXELS);
    png_set_chunk_cache_max(r->png, 64); /* text and the like, which nobody reads */
    png_set_chunk_malloc_max(r->png, 1 << 20);
    png_set_crc_action(r->png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_read_info(r->png, r->info);
    const png_uint_32 height = png_get_image_height(r->png, r->info), width = png_get_image_width(r->png, r->info);
    if (ls_picture_check_size(picture, height, width) != LS_OK)
        png_longjmp(r->png, 1);
    const int type = png_get_color_type(r->png, r->info);
    picture->height = (int)height;
    picture->width = (int)width;
    picture->colour = (type & PNG_COLOR_MASK_COLOR) != 0;
    png_set_expand(r->png); /* palettes, grey of fewer bits, transparent colours */
    png_set_scale_16(r->png);
}

/* Every pixel opaque: what lies behind the others is not known. The alpha bytes are taken out of the row. */
static void drop_alpha(const reading *r, uint8_t *row, int colours)
{
    for (int i = 0; i < r->picture->width; i++) {
        if (row[i * (colours + 1) + colours] != 255) {
            ls_raise(r->picture->context, LS_BAD_FILE,
                     "%s: has transparent pixels, which have no colour of their own; put it on a background, such as "
                     "with `mogrify -background black -alpha remove`",
                     r->picture->path);
            png_longjmp(r->png, 1);
        }
        memmove(row + i * colours, row + i * (colours + 1), (size_t)colours);
    }
}

static void read_pixels(reading *r, int planes, uint8_t *pixels)
{
    const ls_picture *picture = r->picture;
    const int passes = png_set_interlace_handling(r->png), colours = picture->colour ? LS_COLOURS : 1;
    png_read_update_info(r->png, r->info);
    const size_t row_bytes = png_get_rowbytes(r->png, r->info), width = (size_t)picture->width;
    const size_t samples = row_bytes / width;
    if (row_bytes % width != 0 || (samples != (size_t)colours && samples != (size_t)colours + 1))
        png_error(r->png, "its pixels are of an unknown kind");
    r->rows = ls_alloc(picture->context, passes > 1 ? (size_t)picture->height : 1, row_bytes, "a picture's rows");
    if (!r->rows)
        png_longjmp(r->png, 1);
    for (int pass = 0; pass < passes; pass++)
        for (int row = 0; row < picture->height; row++) {
            uint8_t *at = r->rows + (passes > 1 ? (size_t)row * row_bytes : 0);
            png_read_row(r->png, at, NULL);
            if (pass < passes - 1)
                continue;
            if (samples > (size_t)colours)
                drop_alpha(r, at, colours);
            ls_picture_put_row(picture, at, row, planes, pixels);
        }
    png_read_end(r->png, NULL);
}

/* One function with the setjmp, and nothing in it that a longjmp could leave undefined. */
static ls_status guarded(reading *r, int planes, uint8_t *pixels)
{
    if (setjmp(png_jmpbuf(r->png)))
        return ls_context_status(r->picture->context);
    read_header(r);
    if (pixels)
        read_pixels(r, planes, pixels);
    return ls_context_status(r->picture->context); /* libpng may go on without memory that it can do without */
}

ls_status ls_png(ls_picture *picture, int planes, uint8_t *pixels)
{
    reading r = {.picture = picture};
    r.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &r, fail, warn, picture->context, allocate, release);
    r.info = r.png ? png_create_info_struct(r.png) : NULL;
    ls_status status = r.info ? guarded(&r, planes, pixels) : ls_context_status(picture->context);
    if (!r.info && status == LS_OK)
        status = ls_raise(picture->context, LS_OUT_OF_MEMORY, "%s: libpng cannot be begun", picture->path);
    ls_release(picture->context, r.rows);
    if (r.png)
        png_destroy_read_struct(&r.png, &r.info, NULL);
    return status;
}

#endif
