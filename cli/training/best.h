/* --validate, --keep and --patience: images that are held out of training, the best epoch by them, and what comes of
 * it. */
#pragma once

#include "training/training.h"

/* Holds the images out. 0, or the status to exit with once a line is said. */
int best_hold_out(training *t);

/* Looks at the epoch that has just been evaluated: remembers its weights where it is the best and --keep asks for that,
 * and lets --patience end the run. False, as the next, after a failure of the session. */
bool best_look(training *t);

/* The end: the network has the weights that the run ends with from here on: the best epoch's, where --keep asks for
 * that; with --ema averages. What a checkpoint needs was saved. */
bool best_take(training *t);

/* For a run that failed, whose failure was taken back: the best epoch's weights, if there are any. */
bool best_rescue(training *t);

/* What a line about the weights that were taken says besides their step: "" where they are not the best. */
const char *best_words(const training *t, char text[64]);

/* The test accuracy of the weights that the run ends with. */
double best_test_acc(const training *t);

/* The best epoch that a checkpoint tells of, which was found in other ways than this run's, counts for nothing. */
void best_forget(training *t);
