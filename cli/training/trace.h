/* --trace: when everything happened in a run, in Chrome's trace format, which Perfetto opens; and what it comes to. */
#pragma once

#include "training/training.h"

typedef struct trace trace;

/* From here on everything is kept, for `path`, which is begun. 0, or the status to exit with once a line is said. */
int trace_begin(trace **it, const char *path, const training *t);

/* Something the program itself was at, from `begun` on the steady clock until now. The name is a text that stays, and
 * has a number behind it where that is not 0. */
void trace_span(trace *it, const char *name, int64_t number, double begun);

/* Writes the file and says what it comes to; *it is NULL then. Where the session has failed, or the trace is not to be
 * kept, nothing is left. */
int trace_end(trace **it, const training *t, bool keep);
