/* What a complete run comes to: accuracy, fingerprint, weights, report. */
#pragma once

#include "training/training.h"

/* What takes all ranks comes first, but for keeping what was learned; the rest is rank 0's. 0, or the status to exit
 * with once a line is said. */
int outcome_finish(training *t);
