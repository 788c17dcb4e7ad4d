/* Whether a line would be taken by who reads it. */
#pragma once

#include <stdbool.h>

/* A pipe's reader may have stopped, and what a run says of itself must not end it. Waits a while; of the same file not
 * again before it has taken something. */
bool is_taken(int fd);

/* A reader is waited for no longer than half of these seconds, those of --timeout. */
void taken_within(double seconds);
