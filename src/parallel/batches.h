/* Batches of a data set as tensors. */
#ifndef LS_PARALLEL_BATCHES_H
#define LS_PARALLEL_BATCHES_H

#include "data/data.h"
#include "graph/tensor.h"

/* `rows` samples as images and labels on the host, numbered by `index` (copied), or from 0 on where it is NULL. y may be NULL. */
ls_status ls_data_tensors(ls_session *session, const ls_data *data, const uint32_t *index, int64_t rows, ls_tensor **X,
                          ls_tensor **y);

#endif
