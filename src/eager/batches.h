/* Batches of a data set as tensors. */
#pragma once

#include "data/data.h"
#include "graph/tensor.h"

typedef struct ls_batch_rows {
    const uint32_t *index; /* [n] sample numbers, copied; NULL: from 0 on, and as the images are */
    int64_t n;
    int64_t epoch; /* which an augmentation is drawn for */
} ls_batch_rows;

/* Samples as images and labels on the host. y may be NULL. */
ls_status ls_data_tensors(ls_session *session, const ls_data *data, const ls_batch_rows *rows, ls_tensor **X,
                          ls_tensor **y);
