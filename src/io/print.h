/* Numbers as text, in one form. */
#pragma once

#include "base/context.h"

/* "[[0, 1], [2, 3]] on cpu(0)"; of values NULL "empty on cpu(0)". Long dimensions are shortened in the middle. The
 * caller releases it; NULL when memory runs out. */
char *ls_print(ls_context *context, const float *values, const ls_shape *shape, ls_device device);
