/* The texts of --help. */
#pragma once

/* A command by its bit: an option belongs to several. */
enum {
    COMMAND_TRAIN = 1,
    COMMAND_EVAL = 2,
    COMMAND_PREDICT = 4,
    COMMAND_FETCH = 8,
    COMMAND_PLAIN = 16,
    COMMAND_BENCH = 32,
    COMMAND_REPORT = 64,
    COMMAND_DOCTOR = 128,
    COMMAND_EXPORT = 256
};

const char *command_name(int command);
void print_help(int command, void (*print_options)(int command)); /* of one command, to stdout */
void print_overview(void);                                        /* of the program */
