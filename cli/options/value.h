/* One option's value, as it was typed. */
#pragma once

#include "options/settings.h"
#include "options/table.h"

/* Puts it where it belongs; 0, or the status to exit with once a line is said. */
int read_value(const row *r, char *text, settings *chosen);

/* The option that a setting of a checkpoint is called by; its own name where it is one. */
const char *option_of_setting(const char *name);
