/* NumPy's .npy, version 1.0 (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html). */
#pragma once

#include "base/context.h"

/* values[rows][columns] as '<f4'. Replaces `path` as a whole or not at all. */
ls_status ls_npy_save(ls_context *context, const char *path, const float *values, int64_t rows, int64_t columns);
