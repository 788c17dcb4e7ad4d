/* The table of a profile, and the same as JSON. */
#pragma once

#include "record/log.h"
#include "run/run.h"

#include <lockstep_profile.h>

/* Prints a stopped profile of a run's network beside what a core can do at most. 0, or the status to exit with. */
int profile_print(const run *r, const ls_profile *profile, const ls_speed *speed);

/* The same as members of the object that is being written. */
int profile_log(run_log *log, const run *r, const ls_profile *profile, const ls_speed *speed);
