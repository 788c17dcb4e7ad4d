/* What a data set's images and labels hold, counted when first asked for. */
#pragma once

#include "data/data.h"

const ls_data_tally *ls_tally_of(ls_data *data); /* NULL after a failure */

/* A class's name, or its number written to text[size]. */
const char *ls_tally_class(const ls_data *data, int label, char text[], size_t size);
