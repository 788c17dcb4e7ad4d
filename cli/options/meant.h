/* What was probably meant by an option, a command or an argument that the program does not know. */
#pragma once

/* Each says the line of wrong usage, with what was meant where that can be told, and returns STATUS_USAGE. `own` is the
 * command's name as it was typed. */
int unknown_command(const char *text, const char *(*name)(int i)); /* the i-th command's name; NULL behind the last */
int unknown_option(int command, const char *own, const char *text);
int unknown_argument(int command, const char *own, const char *text);
