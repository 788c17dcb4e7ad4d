/* The passes over the images that are not trained on: --validate's and the test images. */
#pragma once

#include "training/training.h"

/* Goes over them with the weights as they are, or with --ema their averages. 0, or the status to exit with once a line
 * is said. */
int evaluation_run(training *t);
