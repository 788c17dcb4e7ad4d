/* The reader of images and labels, as they are and gzip'ed: it takes what the format says, and nothing else. */
#include <string.h>
#include <zlib.h>

#include "data/idx.h"
#include "fuzz.h"

enum { PLAIN, PACKED, STREAM, WAYS };
enum { SLACK = 1 << 17, MOST = 1 << 16 };

static uint32_t word(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* The format, told once more. */
static bool is_idx(const uint8_t *content, size_t n, ls_idx_kind kind)
{
    size_t header = kind == LS_IDX_IMAGES ? 16 : 8;
    if (n <= header || word(content) != (uint32_t)kind)
        return false;
    uint64_t count = word(content + 4), pixels = 1;
    if (kind == LS_IDX_IMAGES)
        pixels = (uint64_t)word(content + 8) * word(content + 12);
    return count <= INT32_MAX && pixels <= 1 << 20 && count * pixels == n - header;
}

/* Two members, cut somewhere. */
static size_t pack(const uint8_t *content, size_t n, size_t cut, uint8_t *into, size_t room)
{
    static z_stream stream;
    if (!stream.state)
        must(deflateInit2(&stream, 1, Z_DEFLATED, 9 + 16, 1, Z_DEFAULT_STRATEGY) == Z_OK);
    size_t packed = 0;
    for (int member = 0; member < 2; member++) {
        stream.next_in = (uint8_t *)content + (member ? cut : 0);
        stream.avail_in = (unsigned)(member ? n - cut : cut);
        stream.next_out = into + packed;
        stream.avail_out = (unsigned)(room - packed);
        must(deflate(&stream, Z_FINISH) == Z_STREAM_END);
        packed = room - stream.avail_out;
        must(deflateReset(&stream) == Z_OK);
    }
    return packed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t packed[2 * MOST];
    if (size < 2 || size > MOST)
        return 0;
    ls_idx_kind kind = data[0] & 1 ? LS_IDX_LABELS : LS_IDX_IMAGES;
    int way = (data[0] >> 1) % WAYS;
    const uint8_t *content = data + 2;
    size_t n = size - 2, length = n;
    const char *path;
    if (way == PLAIN) {
        path = fuzz_file(content, n);
    } else if (way == PACKED) {
        length = pack(content, n, n * data[1] / 256, packed, sizeof packed);
        path = fuzz_packed_file(packed, length);
    } else {
        path = fuzz_packed_file(content, n);
    }
    ls_idx idx;
    ls_context context;
    fuzz_begin(&context, way == PLAIN ? SLACK : 1032 * length + SLACK);
    ls_status status = ls_idx_read(&context, path, kind, &idx);
    must((status == LS_OK) == (idx.values != NULL));
    if (way != STREAM)
        must((status == LS_OK) == is_idx(content, n, kind));
    if (status == LS_OK && way != STREAM)
        must(memcmp(idx.values, content + n - (size_t)(idx.count * idx.height * idx.width),
                    (size_t)(idx.count * idx.height * idx.width)) == 0);
    must(status == ls_context_status(&context));
    ls_release(&context, idx.values);
    fuzz_end(&context);
    return 0;
}
