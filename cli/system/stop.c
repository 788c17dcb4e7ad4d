#include "system/stop.h"
#include "text/say.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t asked;
static const char *volatile last_text;

static void write_last(void)
{
    const char *text = last_text;
    if (text && write(STDERR_FILENO, text, strlen(text)) < 0)
        return; /* the terminal is gone: nothing to clear */
}

static void on_signal(int signal_number)
{
    if (asked) {
        write_last();
        _exit(STATUS_SIGNAL + signal_number);
    }
    asked = signal_number;
}

/* Ctrl-Z: the default action, after the screen is cleared; comes back here when the shell lets the process go on. */
static void on_suspend(int signal_number)
{
    int error = errno;
    sigset_t one, before;
    struct sigaction mine, usual = {.sa_handler = SIG_DFL};
    write_last();
    sigemptyset(&one);
    sigaddset(&one, signal_number);
    sigaction(signal_number, &usual, &mine);
    raise(signal_number); /* pending until it is unblocked */
    sigprocmask(SIG_UNBLOCK, &one, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
    sigaction(signal_number, &mine, NULL);
    errno = error;
}

/* Handles a signal, unless the caller chose to ignore it (nohup, a shell's background job). */
static void handle(int signal_number, void (*handler)(int signal_number))
{
    struct sigaction before, action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    if (sigaction(signal_number, NULL, &before) == 0 && before.sa_handler == SIG_IGN)
        return;
    sigemptyset(&action.sa_mask);
    sigaction(signal_number, &action, NULL);
}

void stop_on_signals(void)
{
    handle(SIGINT, on_signal);
    handle(SIGTERM, on_signal);
    handle(SIGHUP, on_signal);
    handle(SIGUSR1, on_signal);
}

void stop_with(const char *text)
{
    if (!last_text && text)
        handle(SIGTSTP, on_suspend);
    else if (last_text && !text)
        handle(SIGTSTP, SIG_DFL);
    last_text = text;
}

int stop_signal(void)
{
    return asked;
}

const char *stop_signal_name(int signal_number)
{
    switch (signal_number) {
    case SIGINT:
        return "SIGINT";
    case SIGTERM:
        return "SIGTERM";
    case SIGUSR1:
        return "SIGUSR1";
    default:
        return "SIGHUP";
    }
}
