/* Pictures from files: PNG and JPEG, each by its own library, where that was found. */
#pragma once

#include "data/data.h"

enum { LS_COLOURS = 3 };

/* A picture's file, its content, and what that says of it. */
typedef struct ls_picture {
    ls_context *context;
    const char *path; /* for messages */
    const unsigned char *bytes;
    size_t count;
    int height, width;
    bool colour; /* red, green and blue; else grey */
    bool turned; /* the file asks to turn or mirror what lies in it, which is not done */
} ls_picture;

/* Reads a file into *bytes, which has *room bytes and grows from one file to the next; the caller releases it. */
ls_status ls_picture_read(ls_context *context, const char *path, unsigned char **bytes, size_t *room,
                          ls_picture *picture);

/* Reads a picture as pixels[planes][height][width], whatever it is like: colours as one plane are their luma, grey as
 * three planes is three times the same, and of another size each pixel is the mean of the area that it covers. `planes`
 * is 1 or LS_COLOURS. */
ls_status ls_picture_fit(ls_context *context, const char *path, int planes, int height, int width, uint8_t *pixels);

/* A format's decoder. Finds out height, width and colour, and writes the pixels to [planes][height][width] where
 * `pixels` is not NULL: one plane of a grey picture; or red, green and blue, which of a grey one are equal. Raises
 * LS_BAD_FILE with the path for what is damaged or not understood. */
typedef ls_status ls_decoder(ls_picture *picture, int planes, uint8_t *pixels);

/* By how the content begins; NULL after a failure, also where that format is not built in. */
ls_decoder *ls_decoder_of(const ls_picture *picture);

/* Whether files of a name like this are pictures: .png, .jpg or .jpeg, in letters of either case. */
bool ls_is_picture(const char *name);

/* For decoders: takes a row of pixels, each of 1 byte or 3. */
void ls_picture_put_row(const ls_picture *picture, const uint8_t *from, int row, int planes, uint8_t *pixels);
/* Raises LS_BAD_FILE with what a decoder's library says, whose bytes may be the file's own. */
void ls_picture_raise(const ls_picture *picture, const char *why);
ls_status ls_picture_check_size(const ls_picture *picture, uint64_t height, uint64_t width);

#if LOCKSTEP_HAVE_PNG
ls_decoder ls_png;
#endif
#if LOCKSTEP_HAVE_JPEG
ls_decoder ls_jpeg;
#endif
