/* JPEG by libjpeg or libjpeg-turbo, whose pixels every program that uses them gets: the accurate integer transform and
 * smooth upsampling. An orientation that a camera noted is not followed, as elsewhere in training, but told. */
#include "data/exif.h"
#include "data/picture.h"

#if LOCKSTEP_HAVE_JPEG

#include <setjmp.h>
#include <stdio.h> /* jpeglib.h wants it before itself */

#include <jerror.h>
#include <jpeglib.h>

enum { MOST_SCANS = 500, MOST_MEMORY = 48 << 20 };

typedef struct reading {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    ls_picture *picture;
    uint8_t *row;
} reading;

static _Noreturn void fail_with(reading *r, const char *why)
{
    ls_picture_raise(r->picture, why);
    longjmp(r->failed, 1);
}

static _Noreturn void fail(j_common_ptr jpeg)
{
    char why[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, why);
    fail_with(jpeg->client_data, why);
}

/* The library would go on with grey for what is missing. Bytes between the parts are common, and harm nothing. */
static void warn(j_common_ptr jpeg, int level)
{
    if (level < 0 && jpeg->err->msg_code != JWRN_EXTRANEOUS_DATA)
        fail(jpeg);
}

static void silent(j_common_ptr jpeg)
{
    (void)jpeg;
}

/* A file of a few bytes can ask for so many passes over a picture that it takes hours. */
static void count_scans(j_common_ptr jpeg)
{
    if (((j_decompress_ptr)jpeg)->input_scan_number > MOST_SCANS)
        fail_with(jpeg->client_data, "it has more scans than any picture needs");
}

static void read_header(reading *r)
{
    ls_picture *picture = r->picture;
    jpeg_create_decompress(&r->jpeg);
    r->progress.progress_monitor = count_scans;
    r->jpeg.progress = &r->progress;
    r->jpeg.mem->max_memory_to_use = MOST_MEMORY;
    jpeg_mem_src(&r->jpeg, (unsigned char *)picture->bytes, picture->count);
    jpeg_read_header(&r->jpeg, TRUE);
    if (ls_picture_check_size(picture, r->jpeg.image_height, r->jpeg.image_width) != LS_OK)
        longjmp(r->failed, 1);
    if (r->jpeg.num_components != 1 && r->jpeg.num_components != LS_COLOURS)
        fail_with(r, "it is neither grey nor of red, green and blue (of four inks, as for print); convert it, such as "
                     "with `mogrify -colorspace sRGB`");
    picture->height = (int)r->jpeg.image_height;
    picture->width = (int)r->jpeg.image_width;
    picture->colour = r->jpeg.num_components == LS_COLOURS;
    picture->turned = ls_exif_turned(picture->bytes, picture->count);
}

static void read_pixels(reading *r, int planes, uint8_t *pixels)
{
    const ls_picture *picture = r->picture;
    r->jpeg.out_color_space = picture->colour ? JCS_RGB : JCS_GRAYSCALE;
    r->jpeg.dct_method = JDCT_ISLOW;
    r->jpeg.do_fancy_upsampling = TRUE;
    jpeg_start_decompress(&r->jpeg);
    r->row = ls_alloc(picture->context, (size_t)picture->width, LS_COLOURS, "a picture's row");
    if (!r->row)
        longjmp(r->failed, 1);
    for (int row = 0; row < picture->height; row++) {
        jpeg_read_scanlines(&r->jpeg, &r->row, 1);
        ls_picture_put_row(picture, r->row, row, planes, pixels);
    }
    jpeg_finish_decompress(&r->jpeg);
}

static ls_status guarded(reading *r, int planes, uint8_t *pixels)
{
    if (setjmp(r->failed))
        return ls_context_status(r->picture->context);
    read_header(r);
    if (pixels)
        read_pixels(r, planes, pixels);
    return ls_context_status(r->picture->context);
}

ls_status ls_jpeg(ls_picture *picture, int planes, uint8_t *pixels)
{
    reading r = {.picture = picture};
    r.jpeg.err = jpeg_std_error(&r.errors);
    r.jpeg.client_data = &r;
    r.errors.error_exit = fail;
    r.errors.emit_message = warn;
    r.errors.output_message = silent;
    ls_status status = guarded(&r, planes, pixels);
    ls_release(picture->context, r.row);
    jpeg_destroy_decompress(&r.jpeg); /* fine where it was not created: its memory is NULL */
    return status;
}

#endif
