/* What the program says on stderr, and how it ends when something fails. */
#pragma once

#include <lockstep.h>

/* Exit statuses; a signal's is 128 + its number. */
enum { STATUS_DONE = 0, STATUS_FAILED = 1, STATUS_USAGE = 2, STATUS_SIGNAL = 128 };

/* One line, `lockstep: WHAT: WHY`, whatever the arguments hold. Both return the status they are named after. */
int failed(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));
int wrong_usage(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The session's error in the program's words: what the library calls by its functions and structures is an option here.
 * Written to text[size], which it returns. A session of NULL is one that had no memory. */
enum { MOST_WORDS = 1024 };
const char *session_words(const ls_session *session, char *text, size_t size);
/* Says it about `what`. */
int session_failed(const ls_session *session, const char *what);

/* The same line without an end of the program. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Several ranks. After say_hold a failure's line is kept instead of printed, until say_at_once; say_held is the first
 * one without `lockstep: `. Ranks above 0 are silent but for failures, which name them, and silent altogether while
 * they do not `speak`. */
void say_hold(void);
const char *say_held(void);
void say_at_once(bool speak);
void say_as(int rank, const char *host);
/* What follows is said by all ranks: the first does. */
void say_together(void);

/* Before each line on stderr `make_room` is called, with whether it is the last of the run; NULL: nothing is. */
void say_after(void (*make_room)(bool last, void *user), void *user);

/* Writes out what stdout still holds; a full disk or a closed stdout is an error like any other. */
int finish_output(void);

/* Refuses a stdout that takes nothing from the start: a run that would lose its results at the end need not begin. */
int check_output(void);
