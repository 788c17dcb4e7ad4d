/* Data sets in NumPy's .npy files (numpy.lib.format): X_train.npy, y_train.npy, X_test.npy and y_test.npy. */
#pragma once

#include "data/data.h"

enum { LS_NPY_DIMENSIONS = 4 };

/* What an array's header says, as far as it is read. */
typedef struct ls_npy {
    char kind; /* 'u', 'i' or 'f' */
    int size;  /* bytes of a number; those of more than one byte are little-endian */
    int rank;
    int64_t dim[LS_NPY_DIMENSIONS];
    int64_t begin; /* of the numbers in the file */
} ls_npy;

/* Reads the header of an open file of `bytes` bytes, which has to hold exactly the numbers that it announces. */
ls_status ls_npy_read_header(ls_context *context, int fd, const char *path, int64_t bytes, ls_npy *array);

/* Reads a part from `directory`; what is in *images after a failure is to be released too. */
ls_status ls_npy_read(ls_context *context, const char *directory, ls_part part, ls_images *images);
