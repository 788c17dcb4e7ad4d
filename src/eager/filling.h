/* Batches that a function of the caller's makes. */
#pragma once

#include "data/data.h"
#include "graph/tensor.h"

/* X and y of such data, as arrays on the host: of rows that begin where a batch does, which may be several batches. */
void ls_data_fill(ls_session *session, const ls_data *data, const ls_batch_rows *rows, ls_batch *batch);
