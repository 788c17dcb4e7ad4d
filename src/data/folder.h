/* A folder of images: DIRECTORY/train/CLASS/IMAGE and DIRECTORY/test/CLASS/IMAGE. */
#pragma once

#include "data/data.h"

/* Reads a part; faults of several files are told to the loader's `told` (`loader` may be NULL). What is in *images
 * after a failure is to be released too. */
ls_status ls_folder_read(ls_context *context, const char *directory, ls_part part, const ls_loader *loader,
                         ls_images *images);
