#include "io/npy.h"
#include "base/file.h"

#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file says '<f4'; other machines must say '>f4'");

enum { HEADER = 128 }; /* a multiple of 64, as the format wants, and long enough for any shape */

ls_status ls_npy_save(ls_context *context, const char *path, const float *values, int64_t rows, int64_t columns)
{
    int64_t bytes;
    if (rows < 0 || columns < 0 || __builtin_mul_overflow(rows, columns, &bytes) ||
        __builtin_mul_overflow(bytes, (int64_t)sizeof(float), &bytes) || (uint64_t)bytes > SIZE_MAX)
        return ls_raise(context, LS_BAD_ARGUMENT, "%s: cannot be written: %lld x %lld numbers are out of range", path,
                        (long long)rows, (long long)columns);
    char header[HEADER + 1] = "\x93NUMPY\x01";
    header[8] = HEADER - 10; /* the text's length, 16 bits, little-endian */
    int length = snprintf(header + 10, HEADER - 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %lld), }",
                          (long long)rows, (long long)columns);
    memset(header + 10 + length, ' ', (size_t)(HEADER - 11 - length));
    header[HEADER - 1] = '\n';
    ls_replace *replace = ls_replace_begin(context, path);
    if (!replace)
        return ls_context_status(context);
    ls_status status = ls_replace_write(replace, header, HEADER);
    if (status == LS_OK)
        status = ls_replace_write(replace, values, (size_t)bytes);
    if (status == LS_OK)
        return ls_replace_end(replace);
    ls_replace_drop(replace);
    return status;
}
