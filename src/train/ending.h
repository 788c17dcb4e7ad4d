/* What comes of a step: its shards' results are summed, on each rank; and once all ranks have all of them, each takes
 * the same decision: the new weights become the network's, or the old ones stay. */
#pragma once

#include "train/job.h"

/* This rank's, once what was handed in is done; `finite`: its updates' numbers are. */
void ls_step_sum_results(ls_step_job *step, bool finite);

/* All is summed, on all ranks. Every rank comes here with the same numbers, and decides alike. The step is complete. */
void ls_step_decide(ls_step_job *step);
