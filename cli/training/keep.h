/* Where trained weights go when a run ends: to --save's file, or where that or the last checkpoint cannot be written,
 * to another place that takes them. */
#pragma once

#include "text/say.h"
#include "training/training.h"

#include <limits.h>

typedef struct keeping {
    const char *option; /* whose file could not be written; NULL: all were */
    char why[MOST_WORDS];
    char about[64];      /* what else is to be said of the weights */
    char path[PATH_MAX]; /* where the weights are; "" where no place is asked for, or none took them */
} keeping;

/* Whether --save would have room and right at the end, before a step is made: 0, or a failure once a line is said. */
int keep_check(const training *t);

/* Saves the weights as they are. For rank 0, while the session has not failed. */
void keep_weights(const training *t, keeping *kept);

/* "; the weights of step 7 are in w.safetensors": what to say of it in a line about the run's end; "" where no place
 * was asked for. */
const char *keep_words(const training *t, const keeping *kept, char *text, size_t size);
