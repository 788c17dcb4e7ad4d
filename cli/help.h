/* The texts of --help. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

const char *command_name(int command);
void print_help(int command); /* of one command, to stdout */
void print_overview(void);    /* of the program */

#endif
