/* A run that is killed, in a process of its own. */
#ifndef TEST_KILLED_H
#define TEST_KILLED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* `run` ends by test_kill. No session may be open. */
static inline void test_killed(void (*run)(void))
{
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        run();
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static inline void test_kill(void)
{
    kill(getpid(), SIGKILL);
}

#endif
