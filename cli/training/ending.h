/* The end of a run before its last step, by a failure or a signal. */
#pragma once

#include "training/training.h"

/* The signal that asks to stop; where there are ranks, that asked any of them, and it is known to all at the same step.
 * So is whether it is time for a checkpoint; what was asked in steps before the last one is of the past. */
int ending_signal(training *t);

/* Says the session's failure, which ends the run: what was learned before it is kept, unless that is in doubt itself;
 * and where it is. Returns the status to exit with. */
int ending_failed(training *t, const char *what);

/* Says a stop; the status of the signal, or 0 where none came. */
int ending_stopped(training *t);
