/* What a schedule makes of the learning rate over this run, where that is hardly meant. */
#pragma once

#include "training/training.h"

/* Once the steps are known: 0, or the status to exit with once a line is said. */
int rate_check(const training *t);

/* Notes, before the first step, a rate that does not get there or is gone long before the end. */
void rate_say(const training *t);

/* Whether the rate is gone by now, long before the end; then with the words why. */
bool rate_is_gone(const training *t, char *why, size_t size);
