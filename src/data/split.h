/* A data set in two: images that are drawn from it, and those that stay. */
#pragma once

#include "data/data.h"

/* As ls_data_hold_out: takes the first `n` images of the permutation by the stream (seed, LS_FOR_VALIDATION, 0, 0) of
 * all image numbers out of the data. Those and what is left keep their order. */
ls_data *ls_data_split(ls_data *data, int64_t n);
