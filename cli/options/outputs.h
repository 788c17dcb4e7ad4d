/* The files that a command writes: one table of them. */
#pragma once

#include "options/settings.h"

enum { MOST_OUTPUTS = 10 };
enum { REPORT_FILES = 3 };
extern const char *const report_files[REPORT_FILES]; /* of --report's folder: the page, and its curves apart */

typedef enum output_kind {
    OUTPUT_FILE,       /* written under another name and put in place whole */
    OUTPUT_LINES,      /* written as it goes, to a pipe or a device too */
    OUTPUT_CHECKPOINTS /* a folder, with names of its own in it */
} output_kind;

typedef struct output {
    const char *option; /* "--save" */
    const char *what;   /* "the trained weights" */
    output_kind kind;
    char *path;
} output;

typedef struct outputs {
    output at[MOST_OUTPUTS];
    int n;
} outputs;

/* The files that `command` writes with these settings; to be freed. False, and a line said, without memory. */
bool outputs_list(int command, const settings *chosen, outputs *list);
void outputs_free(outputs *list);

/* A whole file on /dev/null is not wanted: as if its option had not been given. Lines may go there all the same. */
void outputs_drop_null(int command, settings *chosen);

/* A line for each of them at the end, but for those of the options in `lost`, of which something else was said; and of
 * a run that leaves no weights, how it would. */
enum { MOST_LOST = 5 };
typedef struct outputs_lost {
    const char *at[MOST_LOST];
    int n;
} outputs_lost;
void outputs_lose(outputs_lost *lost, const char *option);
void outputs_say(int command, const settings *chosen, const outputs_lost *lost);

/* Refuses, before anything is done, outputs of which two are one file by whatever names (/dev/null apart), or of which
 * one is a file that the command reads (--weights, except by --save; `inputs`, operands of the command line), a name
 * that the checkpoints use, or where the standard streams go. 0, or the status to exit with once a line is said. */
int outputs_check(int command, const settings *chosen, char *const inputs[], int n_inputs);

/* The same for what the data were read from; `data` may be NULL. */
int outputs_check_data(int command, const settings *chosen, const ls_data *data);

/* Refuses a file that is there and holds something else than what would be written over it: a slip may have named it.
 * check_report does so for a report's files. */
int outputs_check_held(int command, const settings *chosen);

/* Whether the `n` bytes that a file begins with, OUTPUT_HEAD at the most, are those of a kind of file. */
enum { OUTPUT_HEAD = 512 };
typedef bool is_kind(const unsigned char *head, size_t n);

/* The same for one file, of the kind that `noun` names; `other` is what to name instead, "file". What is empty, or
 * cannot be read, or is no file holds nothing to lose, or nothing that can be known. */
int outputs_check_kind(const char *option, const char *path, is_kind *holds, const char *noun, const char *other);
