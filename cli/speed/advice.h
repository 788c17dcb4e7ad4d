/* What a timeline comes to, in a few lines: what was hidden, who waited for whom, which device is slow, and what to
 * change. */
#pragma once

#include "run/run.h"

#include <lockstep_profile.h>

/* On stderr. `path` is the timeline's file, `rows` how many images an epoch has. */
void advice_say(const char *path, const ls_profile *profile, const run *r, int64_t rows);
