/* The run's log: JSON lines, each written out whole. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct run_log run_log;
struct record;

/* A log that the run goes on without, where it cannot be written. Starts `path` anew; or, to go on with, cuts it back
 * to its first line, the lines of steps up to `step` and of epochs up to `epochs`. *begun says that it has its first
 * line already. NULL and one line on stderr where it cannot be had. What is no log is cut to nothing:
 * outputs_check_held refuses it before. */
run_log *log_open(const char *path, bool go_on, int64_t step, int64_t epochs, bool *begun);
/* Puts `first` in the place of the first line of a log that was cut back, whole or not at all, where it is another.
 * Where no new file can be made the line stays as it is, and that is told. False and one line on stderr where the log
 * is broken. */
bool log_settle(run_log *log, const char *first, size_t length);
run_log *log_open_for(const char *option, const char *path);         /* anew, for another option than --log */
run_log *log_onto(FILE *file, const char *option, const char *path); /* a file that is open, and is not closed */

/* The same with a record in a file's place: the members of a line become its settings. NULL without memory. */
run_log *log_into(struct record *to);

/* A line is an object: begin, members in order, end. Nothing is written while there is no log (NULL). */
void log_begin(run_log *log);
void log_text(run_log *log, const char *name, const char *value); /* NULL becomes null */
void log_integer(run_log *log, const char *name, int64_t value);
void log_unsigned(run_log *log, const char *name, uint64_t value);
void log_number(run_log *log, const char *name, double value); /* with all its digits; null unless finite */
void log_decimal(run_log *log, const char *name, double value, int decimals); /* finite */
void log_bool(run_log *log, const char *name, bool value);
/* A member that is a list of objects: begin, for each object log_item, members, log_item_end; end. */
void log_list(run_log *log, const char *name);
void log_object(run_log *log, const char *name); /* a member that is one; ends as an item does */
void log_item(run_log *log);
void log_item_end(run_log *log);
void log_list_end(run_log *log);
bool log_end(run_log *log); /* false, and one line on stderr the first time, once the file cannot be written */

bool log_close(run_log *log); /* likewise; frees */
