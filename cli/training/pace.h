/* How far a run has come, and what is left of it, as its view shows them: steps, and the passes over the test
 * images. */
#pragma once

#include "training/training.h"

void pace_begin(training *t); /* from where the run goes on */

/* Between two steps. */
void pace_show(training *t);

/* All test images are about to go through the network; the phase is what for. And they have, in so many seconds. */
void pace_test(training *t, const char *phase);
void pace_tested(training *t, double seconds);
