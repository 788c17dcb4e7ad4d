/* --ema: the averages that the trainer keeps, which a run is judged by and ends with. */
#pragma once

#include "training/training.h"

/* The averages in place of the weights, or these again; nothing without --ema. All ranks call it. False after a failure
 * of the session. */
bool average_use(const training *t, bool on);

/* For a run that failed, whose failure was taken back: the averages, where this process alone has them and they are
 * sound; and what there is to say of the weights that are there in their place. */
const char *average_rescue(const training *t, bool sound);
