/* SHA-256, by libcrypto where it was found. */
#pragma once

#include "base/context.h"

typedef struct ls_sha256 ls_sha256;

/* NULL and LS_UNSUPPORTED ("built without a hash library") or LS_OUT_OF_MEMORY. */
ls_sha256 *ls_sha256_begin(ls_context *context);
ls_status ls_sha256_add(ls_sha256 *hash, const void *bytes, size_t count);
ls_status ls_sha256_end(ls_sha256 *hash, char digits[65]); /* frees the hash; digits may be NULL to drop it */
