/* A folder of images: DIRECTORY/train/CLASS/IMAGE and DIRECTORY/test/CLASS/IMAGE. */
#ifndef LS_DATA_FOLDER_H
#define LS_DATA_FOLDER_H

#include "data/data.h"

/* Reads a part; what is in *images after a failure is to be released too. */
ls_status ls_folder_read(ls_context *context, const char *directory, ls_part part, ls_images *images);

#endif
