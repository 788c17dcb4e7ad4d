/* What the examples take from the command line: values in a fixed order, each of which may be left out with those
 * behind it, and --help. All else is refused with status 2. */
#ifndef EXAMPLES_ARGUMENTS_H
#define EXAMPLES_ARGUMENTS_H

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct argument {
    const char *name; /* "EPOCHS" */
    /* Where it goes, one of them: a whole number from 1 on, one from 0 on that may have a fraction, a text. */
    int *count;
    double *real;
    const char **text;
} argument;

static inline bool take_argument(const argument *to, const char *word)
{
    char *end = NULL;
    double value = to->text ? 0 : strtod(word, &end);
    if (to->text)
        *to->text = word;
    else if (end == word || *end || !(value >= 0 && value <= INT_MAX))
        return false;
    else if (to->real)
        *to->real = value;
    else if (value < 1 || value != floor(value))
        return false;
    else
        *to->count = (int)value;
    return true;
}

static inline void print_usage(const char *program, const char *about, const argument list[], int n)
{
    printf("usage: %s", program);
    for (int i = 0; i < n; i++)
        printf(" [%s", list[i].name);
    for (int i = 0; i < n; i++)
        putchar(']');
    printf("\n%s\n", about);
}

/* Ends the program after --help, and where the words are not such values. */
static inline void read_arguments(int argc, char **argv, const char *about, const argument list[], int n)
{
    const char *slash = strrchr(argv[0], '/'), *program = slash ? slash + 1 : argv[0];
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--help") == 0) {
            print_usage(program, about, list, n);
            exit(0);
        }
        if (i <= n && (word[0] != '-' || !word[1]) && take_argument(&list[i - 1], word))
            continue;
        fprintf(stderr, "%s: '%s' is no %s; --help says what it takes\n", program, word,
                i > n || word[0] == '-' ? "argument it knows" : list[i - 1].name);
        exit(2);
    }
}

#endif
