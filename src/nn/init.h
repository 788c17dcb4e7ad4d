/* The start of a network's numbers: a function of seed, parameter name and position, so equal wherever it is
 * computed. */
#pragma once

#include "tensor/flat.h"

/* Numbers [first, first + n) of a view. */
void ls_draw_start(const ls_view *view, const ls_init *init, uint64_t seed, size_t first, size_t n, float *values);
