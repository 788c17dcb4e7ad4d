/* What reading and writing safetensors agree on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { LS_SAVED_MOST_HEADER = 100 * 1000 * 1000, LS_SAVED_LONGEST_NAME = 512 };

/* NULL for a good name, else what is wrong with it. Names become file names in some tools, so those that would leave a
 * directory are refused. */
const char *ls_saved_name_fault(const char *name);
