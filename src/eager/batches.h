/* Batches of a data set as tensors. */
#pragma once

#include "data/data.h"
#include "graph/tensor.h"

/* Samples as a batch's inputs and y on the host. */
ls_status ls_data_tensors(ls_session *session, const ls_data *data, const ls_batch_rows *rows, ls_batch *batch);
