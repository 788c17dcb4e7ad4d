/* What a run tells of itself before its first step: its settings, on stderr, in the log and for the report. */
#pragma once

#include "training/training.h"

void heading_say(const training *t);

/* The log, anew or cut back to where the run goes on. 0, or the status to exit with once a line is said. */
int heading_log(training *t, int64_t step, int64_t epochs);

/* What --report will tell is gathered from here on. Returns as heading_log. */
int heading_record(training *t);
