#include "data/pinned.h"
#include "base/hash.h"
#include "data/source.h"

#include <string.h>

/* SHA-256 of the content, of which at most one byte more than `file` has is looked at. */
static ls_status check_source(ls_context *context, ls_source *source, const char *path, const ls_pinned *file)
{
    enum { PIECE = 256 * 1024 };
    unsigned char *piece = ls_alloc(context, PIECE, 1, "a file's checksum");
    ls_sha256 *hash = piece ? ls_sha256_begin(context) : NULL;
    ls_status status = hash ? LS_OK : ls_context_status(context);
    int64_t total = 0;
    size_t got = 1;
    while (status == LS_OK && got > 0 && total <= file->bytes) {
        int64_t most = file->bytes + 1 - total;
        status = ls_source_read(source, piece, most < PIECE ? (size_t)most : PIECE, &got);
        if (status == LS_OK)
            status = ls_sha256_add(hash, piece, got);
        total += (int64_t)got;
    }
    char digits[65] = "";
    if (hash) {
        ls_status ended = ls_sha256_end(hash, digits);
        status = status != LS_OK ? status : ended;
    }
    ls_release(context, piece);
    if (status != LS_OK)
        return status;
    if (total != file->bytes || strcmp(digits, file->digits) != 0)
        return ls_raise(context, LS_BAD_FILE, "%s: the content is not that of the data set (its SHA-256 differs)",
                        path);
    return LS_OK;
}

ls_status ls_pinned_check(ls_context *context, const char *path, bool gzip, const ls_pinned *file)
{
    ls_source *source = ls_source_open(context, path, gzip);
    ls_status status = source ? check_source(context, source, path, file) : ls_context_status(context);
    ls_source_close(source);
    return status;
}
