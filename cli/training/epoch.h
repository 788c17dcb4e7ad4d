/* One epoch: the loop over its steps, its evaluation, and its line. */
#pragma once

#include "training/training.h"

/* 0, or the status to exit with once a line is said. */
int epoch_run(training *t);
