/* The live view of a run: on a terminal only, drawn by a thread of its own at most ten times a second, so that neither
 * a long step nor a slow terminal holds anything up. Without a view every call does nothing. */
#pragma once

#include "live/view.h"

typedef struct progress {
    struct live *live; /* NULL: nothing is shown */
} progress;

void progress_begin(progress *bar, bool quiet);

/* What the next drawing shows; brings the view back after a message. The phase shows once it has lasted. */
void progress_show(progress *bar, const view_state *state);

/* The same at the begin of a pass over the test images, in which the session does so many pieces of work: the view then
 * goes on by itself. */
void progress_test(progress *bar, const view_state *state, const ls_session *session, int64_t pieces);

/* How busy the devices are. */
void progress_loads(progress *bar, const loads *devices);

/* A finished step, and what a test after `step` steps came to, for the curves. */
void progress_step(progress *bar, int64_t step, double loss, int64_t correct, int64_t rows);
void progress_tested(progress *bar, int64_t step, double acc);

/* Ends the view and leaves the curves on the screen. Once is enough, more do nothing. */
void progress_end(progress *bar);

/* Columns for a line of text on stderr: the terminal's while there is a view, else no limit. */
int progress_columns(const progress *bar);
