/* Everything that can be refused before the first step. */
#pragma once

#include "training/training.h"

/* What can be refused without the data; only rank 0 has results to lose. 0, or the status to exit with once a line is
 * said. */
int preparation_check(settings *chosen);

/* Data, network and trainer. Returns as preparation_check. */
int preparation_make(training *t);
