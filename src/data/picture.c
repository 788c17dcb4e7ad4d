#include "data/picture.h"
#include "base/file.h"
#include "base/file_kind.h"

#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { MOST_BYTES = 64 << 20 /* of a picture's file */, LONGEST_REASON = 200 /* libjpeg's longest */ };

ls_status ls_picture_read(ls_context *context, const char *path, unsigned char **bytes, size_t *room,
                          ls_picture *picture)
{
    int64_t size;
    int fd = ls_file_open(context, path, &size);
    if (fd < 0)
        return ls_context_status(context);
    ls_status status = LS_OK;
    if (size > MOST_BYTES)
        status = ls_raise(context, LS_BAD_FILE, "%s: %lld bytes; a picture's file has at most %d", path,
                          (long long)size, MOST_BYTES);
    if (status == LS_OK && (size_t)size > *room) {
        ls_release(context, *bytes);
        *room = 2 * (size_t)size;
        *bytes = ls_alloc(context, *room, 1, "a picture's file");
        status = *bytes ? LS_OK : ls_context_status(context);
    }
    if (status == LS_OK)
        status = ls_file_read(context, fd, path, 0, *bytes, (size_t)size);
    close(fd);
    *picture = (ls_picture){.context = context, .path = path, .bytes = *bytes, .count = (size_t)size};
    return status;
}

static bool begins_with(const ls_picture *picture, const char *magic, size_t length)
{
    return picture->count >= length && memcmp(picture->bytes, magic, length) == 0;
}

ls_decoder *ls_decoder_of(const ls_picture *picture)
{
    if (begins_with(picture, "\x89PNG\r\n\x1a\n", 8)) {
#if LOCKSTEP_HAVE_PNG
        return ls_png;
#else
        ls_raise(picture->context, LS_UNSUPPORTED, "%s: this library was built without libpng and reads no PNG files",
                 picture->path);
        return NULL;
#endif
    }
    if (begins_with(picture, "\xff\xd8\xff", 3)) {
#if LOCKSTEP_HAVE_JPEG
        return ls_jpeg;
#else
        ls_raise(picture->context, LS_UNSUPPORTED, "%s: this library was built without libjpeg and reads no JPEG files",
                 picture->path);
        return NULL;
#endif
    }
    const char *is = ls_file_kind_text(ls_file_kind_of(picture->bytes, picture->count));
    ls_raise(picture->context, LS_BAD_FILE, "%s: neither a PNG nor a JPEG file by how it begins%s%s", picture->path,
             is               ? ": it is "
             : picture->count ? ""
                              : ": it is empty",
             is ? is : "");
    return NULL;
}

bool ls_is_picture(const char *name)
{
    const char *end = strrchr(name, '.');
    return end && (strcasecmp(end, ".png") == 0 || strcasecmp(end, ".jpg") == 0 || strcasecmp(end, ".jpeg") == 0);
}

void ls_picture_put_row(const ls_picture *picture, const uint8_t *from, int row, int planes, uint8_t *pixels)
{
    const size_t width = (size_t)picture->width, plane = (size_t)picture->height * width;
    const size_t samples = picture->colour ? LS_COLOURS : 1;
    uint8_t *to = pixels + (size_t)row * width;
    for (int k = 0; k < planes; k++, to += plane)
        for (size_t i = 0; i < width; i++)
            to[i] = from[i * samples + (picture->colour ? (size_t)k : 0)];
}

void ls_picture_raise(const ls_picture *picture, const char *why)
{
    char shown[LONGEST_REASON];
    ls_raise(picture->context, LS_BAD_FILE, "%s: cannot be decoded: %s", picture->path,
             ls_printable(why, shown, sizeof shown));
}

ls_status ls_picture_check_size(const ls_picture *picture, uint64_t height, uint64_t width)
{
    if (height > 0 && width > 0 && height <= LS_MOST_PIXELS && width <= LS_MOST_PIXELS / height)
        return LS_OK;
    return ls_raise(picture->context, LS_BAD_FILE,
                    "%s: %llu x %llu pixels, and at most %d in all are taken; scale it down first", picture->path,
                    (unsigned long long)height, (unsigned long long)width, LS_MOST_PIXELS);
}
