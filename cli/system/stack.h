/* The stack that a command runs on. */
#pragma once

/* Runs `command` with its arguments and returns its status: on this thread, or on one of its own where the system gave
 * this one less stack (ulimit -s) than drawing a report takes. Threads that are made without a size get enough too. */
int with_stack(int (*command)(int argc, char **argv), int argc, char **argv);
