/* What a thread has set that could change a number or a text: how it rounds, what becomes of denormals, and its
 * locale. */
#pragma once

#include <fenv.h>
#include <locale.h>

typedef struct ls_environment {
    fenv_t arithmetic;
    locale_t locale, ours; /* the caller's; that of C, 0 where there is no memory for it */
} ls_environment;

/* Gives the calling thread what the library's results and files need: IEEE arithmetic that rounds to nearest, keeps
 * denormals and traps nothing, and the C locale for numbers and messages. Returns what it had. */
ls_environment ls_environment_enter(void);
void ls_environment_leave(const ls_environment *callers);
/* After a function of the user's, which may have changed what its thread computes by. */
void ls_environment_renew(void);

/* For the rest of the block the thread has the library's environment, and the caller's again however the block is left.
 * It is the first line of every public function that does more than show a field (tools/arrows.sh looks), and of every
 * thread. */
#define LS_OWN_ENVIRONMENT                                                                                             \
    const ls_environment callers_environment __attribute__((cleanup(ls_environment_leave), unused)) =                  \
        ls_environment_enter()
