/* The table of the program's options, which drives parsing, defaults and help. */
#pragma once

#include "options/choice.h"

#include <stddef.h>
#include <stdint.h>

typedef enum kind {
    KIND_TEXT,
    KIND_LIST,  /* a text: names with commas between them */
    KIND_COUNT, /* int64_t from `least` to `most`, or a choice's value */
    KIND_SEED,  /* uint64_t */
    KIND_REAL,  /* double, 0 or more */
    KIND_PART,  /* double: a share below 1, or a whole number */
    KIND_FLAG,
    KIND_CHOICE, /* int, the choice's value */
    KIND_INIT,
    KIND_EVERY,  /* steps, or a time with its unit */
    KIND_SIZES,  /* of an image */
    KIND_NAMES,  /* may be given several times */
    KIND_CHECKS, /* likewise */
    KIND_HELP
} kind;

typedef struct row {
    const char *name, *argument; /* argument NULL: the option takes none */
    int commands;                /* COMMAND_..., and LOCAL */
    kind kind;
    size_t place;        /* in `settings` */
    const char *help;    /* NULL: for tests, not shown */
    int64_t least, most; /* of KIND_COUNT */
    const choice
        *choices; /* of KIND_CHOICE and KIND_CHECKS, of a KIND_TEXT that takes these alone, and a KIND_COUNT's */
} row;

/* Of where a rank runs and what it leaves behind: ranks may differ in it. The weights' content is compared, not their
 * place. */
enum { LOCAL = 1 << 16 };

enum { MOST_ROWS = 128 };
const row *table_row(int i); /* NULL behind the last */

/* The i-th option that is shown, with the commands that have it; NULL behind the last. A name may come several
 * times. */
const char *option_at(int i, int *commands);
/* The option of a command that has this among the values to choose from; NULL where there is none. */
const char *option_with_value(int command, const char *value);
