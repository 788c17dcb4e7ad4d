#include "base/thread.h"

#include <signal.h>

enum { STACK = 8 << 20 };

/* What a thread's own fault raises stays, so that the caller's report of a crash sees it; and so does the profiler's
 * clock. */
static void block_signals(sigset_t *callers)
{
    static const int open[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF};
    sigset_t blocked;
    sigfillset(&blocked);
    for (unsigned i = 0; i < sizeof open / sizeof *open; i++)
        sigdelset(&blocked, open[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, callers);
}

bool ls_thread_start(pthread_t *thread, void *(*main)(void *argument), void *argument)
{
    pthread_attr_t how;
    if (pthread_attr_init(&how) != 0)
        return false;
    pthread_attr_setstacksize(&how, STACK);
    sigset_t callers;
    block_signals(&callers);
    const bool started = pthread_create(thread, &how, main, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &callers, NULL);
    pthread_attr_destroy(&how);
    return started;
}
