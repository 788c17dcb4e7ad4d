/* A network's fingerprint: SHA-256 over its arrays in byte order of their names: name, a zero byte, the values as
 * little-endian float32. */
#pragma once

#include "io/safetensors.h"

/* Of arrays in any order. 64 lowercase digits and a zero byte; "" after a failure. */
ls_status ls_fingerprint_arrays(ls_context *context, const ls_named_array *arrays, int n, char digits[65]);

/* Of a safetensors file, as if its arrays had been read. Arrays that reading ignores do not count; another type than
 * F32 is LS_BAD_FILE. */
ls_status ls_fingerprint_saved(ls_context *context, const char *path, char digits[65]);
