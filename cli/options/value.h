/* One option's value, as it was typed. */
#ifndef CLI_OPTIONS_VALUE_H
#define CLI_OPTIONS_VALUE_H

#include "options/settings.h"
#include "options/table.h"

/* Puts it where it belongs; 0, or the status to exit with once a line is said. */
int read_value(const row *r, char *text, settings *chosen);

#endif
