/* Data sets by the name of what they are and how they lie on the disk. */
#pragma once

#include "data/data.h"

/* As ls_data_open. */
ls_data *ls_dataset_open(ls_context *context, uint64_t seed, const char *name, ls_part part, const ls_loader *loader);
