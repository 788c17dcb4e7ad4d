/* What a trained network takes pictures from files for. */
#pragma once

#include "run/run.h"

/* Prints a line for each picture: its classes, the likeliest first, with per cent. One that cannot be read costs a line
 * on stderr and the status, and not the others. The run has its network. 0, or the status once a line is said. */
int predict_pictures(const run *r, char *const paths[], int n);
