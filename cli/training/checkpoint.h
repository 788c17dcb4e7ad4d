/* --checkpoint, --checkpoint-every, --resume, --restart, --allow-changed: when a run is saved, and how it goes on. */
#pragma once

#include "training/training.h"

/* Takes the folder and, with --resume, brings the run to its newest checkpoint. 0, or the status to exit with once a
 * line is said. Without --checkpoint this and the others do nothing. */
int checkpoint_open(training *t);

/* Whether it is time for a checkpoint, by the clock of rank 0; and whether one is due after this step, which all ranks
 * know alike. */
bool checkpoint_wanted(const training *t);
bool checkpoint_due(const training *t);

/* Its steps, or its time as "600s"; NULL without --checkpoint. */
const char *checkpoint_interval(const settings *c, char text[32]);

/* Saves where the run stands, while it goes on. A checkpoint that cannot be written is said and the run goes on; false
 * where it cannot, for a failure that the session has. */
bool checkpoint_save(training *t);

/* The same at the end of the run or of this process, and waits for it; true when it is on the disk. Where it cannot be
 * written t->not_saved says why, and what else ends the run the session has. */
bool checkpoint_stop(training *t);

/* What to say of the run's checkpoints where its weights are nowhere else: "; the last checkpoint, of step 7, is in
 * kept". The session has not failed. For rank 0. */
void checkpoint_words(training *t, char *text, size_t size);
