/* The options of a command, read from its arguments. */
#pragma once

#include "options/help.h"
#include "options/settings.h"

#include <lockstep_cluster.h>

/* Reads argv[1..] for a command. On success returns 0 or more, the number of operands, which then stand in argv from
 * *first on. Otherwise a line was said or the help printed: -1, and *status is what to exit with. */
int read_options(int command, int argc, char **argv, settings *chosen, int *first, int *status);

/* The same for a command without operands. False where there is nothing more to do than to exit with *status; where a
 * line was said it is true and *status not 0, for other ranks may have to hear of it. */
bool read_options_only(int command, int argc, char **argv, settings *chosen, int *status);

/* The options of a command that define its result, for comparison between ranks; at most `most`. Numbers are written to
 * texts. */
int options_list(int command, const settings *chosen, ls_setting list[], char texts[][64], int most);
