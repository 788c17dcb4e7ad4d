#include "data/source.h"
#include "base/file.h"

#include <string.h>
#include <unistd.h>

#if LOCKSTEP_HAVE_ZLIB
#include <zlib.h>
#endif

struct ls_source {
    ls_context *context;
    char *path;
    int fd;
    int64_t size, offset; /* of the file as it lies on the disk */
#if LOCKSTEP_HAVE_ZLIB
    bool gzip, inflating, between; /* between: a member has ended and the next has not begun */
    z_stream stream;
    unsigned char input[64 * 1024];
#endif
};

static ls_status read_plain(ls_source *source, void *into, size_t count, size_t *got)
{
    int64_t left = source->size - source->offset;
    if ((int64_t)count > left)
        count = (size_t)left;
    ls_status status = ls_file_read(source->context, source->fd, source->path, source->offset, into, count);
    if (status == LS_OK) {
        source->offset += (int64_t)count;
        *got = count;
    }
    return status;
}

#if LOCKSTEP_HAVE_ZLIB

/* Deflate's own limit is 258 bytes from two bits. Images and labels come near it only where they are few: what is large
 * and still claims more than so many times its file is a bomb. */
enum { MOST_INFLATION = 1032, LARGE = 1 << 28, LARGE_INFLATION = 64 };

static void *zlib_allocate(void *context, unsigned count, unsigned size)
{
    return ls_alloc(context, count, size, "zlib");
}

static void zlib_release(void *context, void *memory)
{
    ls_release(context, memory);
}

static ls_status begin_gzip(ls_source *source)
{
    unsigned char magic[2] = {0};
    if (source->size == 0)
        return ls_raise(source->context, LS_BAD_FILE, "%s: the file is empty; fetch it again", source->path);
    size_t count = source->size < 2 ? 1 : 2;
    ls_status status = ls_file_read(source->context, source->fd, source->path, 0, magic, count);
    if (status != LS_OK)
        return status;
    if (magic[0] == '<')
        return ls_raise(source->context, LS_BAD_FILE,
                        "%s: this is a web page and not gzip data; the download went wrong, fetch it again",
                        source->path);
    if (magic[0] != 0x1f || (count == 2 && magic[1] != 0x8b))
        return ls_raise(source->context, LS_BAD_FILE,
                        "%s: this is not gzip data; fetch it again, or drop .gz from its name if it is not compressed",
                        source->path);
    source->stream.zalloc = zlib_allocate;
    source->stream.zfree = zlib_release;
    source->stream.opaque = source->context;
    if (inflateInit2(&source->stream, 15 + 16) != Z_OK) /* 16: gzip's header and checksums */
        return ls_raise(source->context, LS_OUT_OF_MEMORY, "%s: no memory to inflate it", source->path);
    source->inflating = true;
    return LS_OK;
}

static ls_status refill(ls_source *source)
{
    int64_t left = source->size - source->offset;
    size_t count = left < (int64_t)sizeof source->input ? (size_t)left : sizeof source->input;
    ls_status status = ls_file_read(source->context, source->fd, source->path, source->offset, source->input, count);
    if (status != LS_OK)
        return status;
    source->offset += (int64_t)count;
    source->stream.next_in = source->input;
    source->stream.avail_in = (unsigned)count;
    return LS_OK;
}

static ls_status gzip_error(ls_source *source, int code)
{
    if (code == Z_MEM_ERROR)
        return ls_raise(source->context, LS_OUT_OF_MEMORY, "%s: no memory to inflate it", source->path);
    if (code == Z_BUF_ERROR)
        return ls_raise(source->context, LS_BAD_FILE, "%s: the gzip data is cut off; fetch it again", source->path);
    return ls_raise(source->context, LS_BAD_FILE, "%s: the gzip data is damaged (%s); fetch it again", source->path,
                    source->stream.msg ? source->stream.msg : "inflate failed");
}

/* Between members: begins the next one if there is one. What follows must be a member, too: zlib says so. */
static ls_status next_member(ls_source *source)
{
    if (source->between && inflateReset(&source->stream) != Z_OK)
        return gzip_error(source, Z_STREAM_ERROR);
    source->between = false;
    return LS_OK;
}

static ls_status read_gzip(ls_source *source, void *into, size_t count, size_t *got)
{
    z_stream *stream = &source->stream;
    size_t done = 0;
    while (done < count) {
        if (stream->avail_in == 0 && source->offset < source->size) {
            ls_status status = refill(source);
            if (status != LS_OK)
                return status;
        }
        if (source->between && stream->avail_in == 0)
            break;
        ls_status status = next_member(source);
        if (status != LS_OK)
            return status;
        size_t most = count - done < 1u << 30 ? count - done : 1u << 30;
        stream->next_out = (unsigned char *)into + done;
        stream->avail_out = (unsigned)most;
        int code = inflate(stream, Z_NO_FLUSH);
        done += most - stream->avail_out;
        if (code == Z_STREAM_END)
            source->between = true;
        else if (code != Z_OK)
            return gzip_error(source, code);
    }
    *got = done;
    return LS_OK;
}

#endif

ls_source *ls_source_open(ls_context *context, const char *path, bool gzip)
{
#if !LOCKSTEP_HAVE_ZLIB
    if (gzip) {
        ls_raise(context, LS_UNSUPPORTED,
                 "%s: this library was built without zlib and cannot read gzip'ed files; inflate it with gunzip", path);
        return NULL;
    }
#endif
    int64_t size;
    int fd = ls_file_open(context, path, &size);
    if (fd < 0)
        return NULL;
    ls_source *source = ls_alloc(context, 1, sizeof *source, "a file to read");
    if (!source) {
        close(fd);
        return NULL;
    }
    source->context = context;
    source->fd = fd;
    source->size = size;
    source->path = ls_copy_string(context, path, "a path");
    bool good = source->path != NULL;
#if LOCKSTEP_HAVE_ZLIB
    source->gzip = gzip;
    good = good && (!gzip || begin_gzip(source) == LS_OK);
#endif
    if (good)
        return source;
    ls_source_close(source);
    return NULL;
}

int64_t ls_source_most(const ls_source *source)
{
#if LOCKSTEP_HAVE_ZLIB
    if (source->gzip) {
        int64_t size = source->size < INT64_MAX / MOST_INFLATION ? source->size : INT64_MAX / MOST_INFLATION;
        int64_t large = size * LARGE_INFLATION > LARGE ? size * LARGE_INFLATION : LARGE;
        return size * MOST_INFLATION < large ? size * MOST_INFLATION : large;
    }
#endif
    return source->size;
}

ls_status ls_source_read(ls_source *source, void *into, size_t count, size_t *got)
{
    *got = 0;
#if LOCKSTEP_HAVE_ZLIB
    if (source->gzip)
        return read_gzip(source, into, count, got);
#endif
    return read_plain(source, into, count, got);
}

void ls_source_close(ls_source *source)
{
    if (!source)
        return;
#if LOCKSTEP_HAVE_ZLIB
    if (source->inflating)
        inflateEnd(&source->stream);
#endif
    close(source->fd);
    ls_release(source->context, source->path);
    ls_release(source->context, source);
}
