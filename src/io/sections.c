#include "base/file.h"
#include "base/hash.h"
#include "io/safetensors.h"
#include "io/safetensors_names.h"

#include <string.h>
#include <unistd.h>

enum { PIECE = 1 << 20 };

static ls_status check_section(ls_context *context, const char *path, int fd, int64_t begin, const ls_section *section,
                               unsigned char *piece)
{
    char digits[65], shown[100];
    ls_sha256 *hash = ls_sha256_begin(context);
    ls_status status = hash ? LS_OK : ls_context_status(context);
    for (int64_t at = 0; at < section->bytes && status == LS_OK; at += PIECE) {
        size_t n = section->bytes - at < PIECE ? (size_t)(section->bytes - at) : PIECE;
        status = ls_file_read(context, fd, path, begin + at, piece, n);
        if (status == LS_OK)
            status = ls_sha256_add(hash, piece, n);
    }
    if (!hash || status != LS_OK) {
        ls_sha256_end(hash, NULL);
        return status;
    }
    status = ls_sha256_end(hash, digits);
    if (status == LS_OK && strcmp(digits, section->sha256) != 0)
        status = ls_raise(context, LS_BAD_FILE, "%s: damaged: the SHA-256 of its %s is %.16s..., not %.16s...", path,
                          ls_printable(section->name, shown, sizeof shown), digits, section->sha256);
    return status;
}

ls_status ls_sections_check(ls_context *context, const char *path, const ls_section *sections, int n)
{
    int64_t size, sum = 0;
    int fd = ls_file_open(context, path, &size);
    if (fd < 0)
        return ls_context_status(context);
    ls_status status = LS_OK;
    for (int i = 0; i < n && status == LS_OK; i++)
        if (sections[i].bytes < 0 || __builtin_add_overflow(sum, sections[i].bytes, &sum))
            status = ls_raise(context, LS_BAD_FILE, "%s: its sections are out of range", path);
    if (status == LS_OK && sum != size)
        status = ls_raise(context, LS_BAD_FILE, "%s: damaged: it has %lld bytes, not %lld", path, (long long)size,
                          (long long)sum);
    size_t room = size < PIECE ? (size_t)size : PIECE; /* no section is longer than all together */
    unsigned char *piece = status == LS_OK ? ls_alloc(context, room, 1, "a piece of a file") : NULL;
    int64_t begin = 0;
    for (int i = 0; i < n && piece && status == LS_OK; begin += sections[i++].bytes)
        status = check_section(context, path, fd, begin, &sections[i], piece);
    ls_release(context, piece);
    close(fd);
    return piece || status != LS_OK ? status : ls_context_status(context);
}
