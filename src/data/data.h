/* Images and labels in memory, and the order in which an epoch goes through them. */
#ifndef LS_DATA_DATA_H
#define LS_DATA_DATA_H

#include "base/session.h"

struct ls_data {
    ls_session *session; /* first: ls_session_of reads it; NULL where only the context is known */
    ls_context *context;
    ls_counted counted; /* by its owner, tensors of its batches and work on them */
    uint8_t *images;    /* [rows][channels][height][width] */
    uint8_t *labels;    /* [rows], below classes */
    int64_t rows;
    int channels, height, width, classes;
    int batch;
    bool shuffle;
    uint64_t seed;
    uint32_t *order;  /* [rows], of epoch `ordered` */
    int64_t ordered;  /* -1: file order */
    int64_t epoch;    /* of the next batch */
    int64_t position; /* the next batch's number within the epoch; all batches: the epoch's end comes next */
};

/* Takes `images` and `labels` (both from ls_alloc on `context`), also when it fails. `loader` may be NULL; its
 * directory is not used. The first loader->limit rows are kept. */
ls_data *ls_data_new(ls_context *context, uint64_t seed, uint8_t *images, uint8_t *labels, int64_t rows, int channels,
                     int height, int width, int classes, const ls_loader *loader);
/* The next batch's sample numbers, valid until the next call; false at the epoch's end (the call after that begins the next
 * epoch) and after a failure. */
bool ls_data_next(ls_data *data, const uint32_t **index, int *rows);

/* What the images and labels are, in a line: how many, and the first digits of their SHA-256. */
ls_status ls_data_describe(const ls_data *data, char text[64]);

void ls_data_free(ls_data *data); /* lets go of it; NULL is fine */

#endif
