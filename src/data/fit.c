/* A picture made to fit: its pixels in as many planes as asked for, and of another size each the mean of the area that
 * it covers. All in whole numbers, so that every machine gets the same. */
#include "data/picture.h"

enum { RED = 299, GREEN = 587, BLUE = 114, WHOLE = RED + GREEN + BLUE }; /* of ITU-R BT.601's luma */

static void to_grey(uint8_t *planes, size_t plane)
{
    const uint8_t *red = planes, *green = red + plane, *blue = green + plane;
    for (size_t i = 0; i < plane; i++)
        planes[i] = (uint8_t)((RED * red[i] + GREEN * green[i] + BLUE * blue[i] + WHOLE / 2) / WHOLE);
}

/* One side of a picture: `from` pixels made into `to`, both of which the side is divided into. */
typedef struct side {
    int64_t from, to;
} side;

/* How much of pixel `i` lies in the new pixel `k`; all that lies in it comes to `from`. */
static int64_t shared(const side *s, int64_t i, int64_t k)
{
    int64_t begin = i * s->to > k * s->from ? i * s->to : k * s->from;
    int64_t end = (i + 1) * s->to < (k + 1) * s->from ? (i + 1) * s->to : (k + 1) * s->from;
    return end - begin;
}

static uint8_t mean(const uint8_t *from, const side *down, const side *right, int64_t y, int64_t x)
{
    const int64_t area = down->from * right->from; /* at most LS_MOST_PIXELS */
    int64_t sum = 0;
    for (int64_t i = y * down->from / down->to; i * down->to < (y + 1) * down->from; i++) {
        int64_t row = 0;
        for (int64_t j = x * right->from / right->to; j * right->to < (x + 1) * right->from; j++)
            row += shared(right, j, x) * from[i * right->from + j];
        sum += shared(down, i, y) * row;
    }
    return (uint8_t)((2 * sum + area) / (2 * area));
}

static void scale(const uint8_t *from, const side *down, const side *right, uint8_t *to)
{
    for (int64_t y = 0; y < down->to; y++)
        for (int64_t x = 0; x < right->to; x++)
            *to++ = mean(from, down, right, y, x);
}

static ls_status decode(ls_decoder *decoder, ls_picture *picture, int planes, int height, int width, uint8_t *pixels)
{
    const side down = {picture->height, height}, right = {picture->width, width};
    const size_t plane = (size_t)picture->height * (size_t)picture->width;
    const int decoded = picture->colour ? LS_COLOURS : planes;
    if (decoded == planes && down.from == down.to && right.from == right.to)
        return decoder(picture, planes, pixels);
    uint8_t *own = ls_alloc(picture->context, plane, (size_t)decoded, "a picture's pixels");
    if (own && decoder(picture, decoded, own) == LS_OK) {
        if (decoded > planes)
            to_grey(own, plane);
        for (int k = 0; k < planes; k++)
            scale(own + (size_t)k * plane, &down, &right, pixels + (int64_t)k * height * width);
    }
    ls_release(picture->context, own);
    return ls_context_status(picture->context);
}

ls_status ls_picture_fit(ls_context *context, const char *path, int planes, int height, int width, uint8_t *pixels)
{
    ls_picture picture;
    unsigned char *bytes = NULL;
    size_t room = 0;
    ls_status status = ls_picture_read(context, path, &bytes, &room, &picture);
    ls_decoder *decoder = status == LS_OK ? ls_decoder_of(&picture) : NULL;
    if (decoder && decoder(&picture, 0, NULL) == LS_OK)
        decode(decoder, &picture, planes, height, width, pixels);
    ls_release(context, bytes);
    return ls_context_status(context);
}
