/* What the terminal at stderr can show. Nothing of it is ever changed, so that there is nothing to restore: no mode is
 * set, the cursor is not hidden, the screen not switched. */
#pragma once

#include <stdbool.h>

typedef enum terminal_colours { COLOURS_NONE, COLOURS_FEW, COLOURS_MANY } terminal_colours;

typedef struct terminal {
    bool utf8;
    terminal_colours colours;
} terminal;

/* False where stderr is no terminal, or one that cannot move its cursor. */
bool terminal_look(terminal *it);

/* Its size now: columns and rows. */
void terminal_size(int *columns, int *rows);

/* Whether this process may draw: not where the shell has put it in the background. */
bool terminal_is_ours(void);

/* All of it, or false for good (the terminal is gone). */
bool terminal_write(const char *text, int length);
