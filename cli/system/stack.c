#include "system/stack.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>

enum { ENOUGH = 1 << 20, STACK = 8 << 20 };

typedef struct call {
    int (*command)(int argc, char **argv);
    int argc;
    char **argv;
    int status;
} call;

static void *run(void *argument)
{
    call *c = argument;
    c->status = c->command(c->argc, c->argv);
    return NULL;
}

static bool is_small(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < ENOUGH;
}

/* The other thread, which works, gets the signals. */
static bool run_apart(call *c)
{
    pthread_attr_t how;
    pthread_t thread;
    sigset_t all;
    if (pthread_attr_init(&how) != 0)
        return false;
    bool started = pthread_attr_setstacksize(&how, STACK) == 0 && pthread_setattr_default_np(&how) == 0 &&
                   pthread_create(&thread, &how, run, c) == 0;
    pthread_attr_destroy(&how);
    if (!started)
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    return pthread_join(thread, NULL) == 0;
}

int with_stack(int (*command)(int argc, char **argv), int argc, char **argv)
{
    call c = {.command = command, .argc = argc, .argv = argv};
    return is_small() && run_apart(&c) ? c.status : command(argc, argv);
}
