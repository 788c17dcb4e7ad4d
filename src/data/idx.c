#include "data/idx.h"
#include "base/file.h"
#include "base/file_kind.h"
#include "data/data.h"
#include "data/source.h"

#include <string.h>

enum { LONGEST_HEADER = 16 };

/* One file on its way in. */
typedef struct reading {
    ls_context *context;
    const char *path; /* as it was found */
    ls_source *source;
    ls_idx_kind kind;
    bool gzip;
} reading;

/* The name that ends with "-idx3-ubyte" is also published with a dot in the place of this dash. */
char *ls_idx_find(ls_context *context, const char *path)
{
    const char *dash = strstr(strrchr(path, '/') ? strrchr(path, '/') : path, "-idx");
    for (int spelling = 0; spelling < (dash ? 4 : 2); spelling++) {
        const char *end = spelling % 2 ? ".gz" : "";
        char *found = spelling < 2 ? ls_format(context, "a path", "%s%s", path, end)
                                   : ls_format(context, "a path", "%.*s.%s%s", (int)(dash - path), path, dash + 1, end);
        if (!found || ls_file_is_there(found))
            return found;
        ls_release(context, found);
    }
    return NULL;
}

bool ls_idx_is_gzip(const char *found)
{
    size_t length = strlen(found);
    return length > 3 && strcmp(found + length - 3, ".gz") == 0;
}

static uint32_t big_endian(const unsigned char bytes[4])
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static const char *noun(ls_idx_kind kind)
{
    return kind == LS_IDX_IMAGES ? "images" : "labels";
}

static ls_status check_magic(const reading *from, const unsigned char header[4])
{
    uint32_t magic = big_endian(header);
    ls_idx_kind other = from->kind == LS_IDX_IMAGES ? LS_IDX_LABELS : LS_IDX_IMAGES;
    if (magic == (uint32_t)from->kind)
        return LS_OK;
    if (magic == (uint32_t)other)
        return ls_raise(from->context, LS_BAD_FILE, "%s: holds %s where %s belong; the two files are swapped",
                        from->path, noun(other), noun(from->kind));
    if (magic == 0x03080000 || magic == 0x01080000)
        return ls_raise(from->context, LS_BAD_FILE,
                        "%s: the header is little-endian; idx files are big-endian, convert it or fetch it again",
                        from->path);
    if (magic >> 16 == 0x1f8b)
        return ls_raise(from->context, LS_BAD_FILE, "%s: this is gzip data; add .gz to its name", from->path);
    const char *is = ls_file_kind_text(ls_file_kind_of(header, 4));
    if (is)
        return ls_raise(from->context, LS_BAD_FILE, "%s: not an idx file of %s but %s", from->path, noun(from->kind),
                        is);
    return ls_raise(from->context, LS_BAD_FILE,
                    "%s: not an idx file of %s (it begins with 0x%08x, not 0x%08x); fetch it again", from->path,
                    noun(from->kind), magic, (unsigned)from->kind);
}

/* Reads the header into `idx`, `*bytes` being what must follow. Everything is checked before anything is allocated. */
static ls_status read_header(const reading *from, ls_idx *idx, int64_t *bytes)
{
    unsigned char header[LONGEST_HEADER];
    size_t length = from->kind == LS_IDX_IMAGES ? 16 : 8, got;
    ls_status status = ls_source_read(from->source, header, length, &got);
    if (status != LS_OK)
        return status;
    if (got == 0)
        return ls_raise(from->context, LS_BAD_FILE, "%s: the file is empty; fetch it again", from->path);
    if (got >= 4 && (status = check_magic(from, header)) != LS_OK)
        return status;
    if (got < length)
        return ls_raise(from->context, LS_BAD_FILE, "%s: the header is cut off after %zu of %zu bytes; fetch it again",
                        from->path, got, length);
    uint32_t count = big_endian(header + 4), height = 1, width = 1;
    if (from->kind == LS_IDX_IMAGES) {
        height = big_endian(header + 8);
        width = big_endian(header + 12);
    }
    if (count == 0 || height == 0 || width == 0)
        return ls_raise(from->context, LS_BAD_FILE, "%s: holds no %s (%u of %u x %u); fetch it again", from->path,
                        noun(from->kind), count, height, width);
    if (count > INT32_MAX || (uint64_t)height * width > LS_MOST_PIXELS)
        return ls_raise(from->context, LS_BAD_FILE,
                        "%s: announces %u %s of %u x %u, more than can be meant; fetch it again", from->path, count,
                        noun(from->kind), height, width);
    *idx = (ls_idx){NULL, count, (int)height, (int)width};
    *bytes = (int64_t)count * height * width; /* below 2^51 */
    int64_t most = ls_source_most(from->source);
    if (from->gzip ? *bytes > most : *bytes > most - (int64_t)length)
        return ls_raise(
            from->context, LS_BAD_FILE,
            "%s: announces %u %s of %u x %u, but the file is cut off (or its header damaged); fetch it again",
            from->path, count, noun(from->kind), height, width);
    if ((uint64_t)*bytes > PTRDIFF_MAX)
        return ls_raise(from->context, LS_OUT_OF_MEMORY, "%s: no memory for %u %s", from->path, count,
                        noun(from->kind));
    return LS_OK;
}

static ls_status read_values(const reading *from, ls_idx *idx, int64_t bytes)
{
    idx->values = ls_alloc(from->context, (size_t)bytes, 1, noun(from->kind));
    if (!idx->values)
        return ls_context_status(from->context);
    unsigned char beyond;
    size_t got, more;
    ls_status status = ls_source_read(from->source, idx->values, (size_t)bytes, &got);
    if (status != LS_OK)
        return status;
    if (got < (size_t)bytes)
        return ls_raise(from->context, LS_BAD_FILE, "%s: cut off after %zu of %lld bytes of %s; fetch it again",
                        from->path, got, (long long)bytes, noun(from->kind));
    /* One byte more than announced: makes sure that there is none, and that the gzip checksums were reached. */
    status = ls_source_read(from->source, &beyond, 1, &more);
    if (status != LS_OK)
        return status;
    if (more > 0)
        return ls_raise(from->context, LS_BAD_FILE,
                        "%s: goes on after the %lld announced %s; it is damaged, fetch it again", from->path,
                        (long long)idx->count, noun(from->kind));
    return LS_OK;
}

ls_status ls_idx_read(ls_context *context, const char *path, ls_idx_kind kind, ls_idx *idx)
{
    *idx = (ls_idx){0};
    char *found = ls_idx_find(context, path);
    if (!found && ls_context_status(context) != LS_OK)
        return ls_context_status(context);
    if (!found)
        return ls_raise(context, LS_IO,
                        "%s: not there, and neither is %s.gz; put one of them there or run `lockstep data fetch`", path,
                        strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
    reading from = {context, found, NULL, kind, ls_idx_is_gzip(found)};
    from.source = ls_source_open(context, found, from.gzip);
    int64_t bytes = 0;
    ls_status status = from.source ? read_header(&from, idx, &bytes) : ls_context_status(context);
    if (status == LS_OK)
        status = read_values(&from, idx, bytes);
    if (status != LS_OK) {
        ls_release(context, idx->values);
        *idx = (ls_idx){0};
    }
    ls_source_close(from.source);
    ls_release(context, found);
    return status;
}
