#include "system/stop.h"
#include "text/say.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <lockstep_train.h>

static volatile sig_atomic_t asked;
static ls_session *_Atomic interrupted;
static const char *volatile last_text;

static void write_last(void)
{
    const char *text = last_text;
    if (text && write(STDERR_FILENO, text, strlen(text)) < 0)
        return; /* the terminal is gone: nothing to clear */
}

static volatile sig_atomic_t first_ms; /* when the first signal came */
enum { ONE_REQUEST_MS = 1000 };

static sig_atomic_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (sig_atomic_t)(now.tv_sec % 1000000 * 1000 + now.tv_nsec / 1000000);
}

/* One request comes as several signals, from several senders: timeout(1) sends its own to the process and at once to
 * the group; a terminal's key reaches timeout and the process, and timeout sends it on; of a terminal that is closed
 * shell and kernel tell; launchers and systemd signal every process of a tree. */
static void on_signal(int signal_number)
{
    const int error = errno;
    if (!asked) {
        first_ms = now_ms();
        asked = signal_number;
        ls_interrupt(atomic_load(&interrupted));
    } else if (now_ms() - first_ms >= ONE_REQUEST_MS && signal_number != SIGXCPU) { /* which comes every second */
        write_last();
        _exit(STATUS_SIGNAL + signal_number);
    }
    errno = error;
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
static void handle(int signal_number, struct sigaction action)
{
    struct sigaction before;
    if (sigaction(signal_number, NULL, &before) == 0 && before.sa_handler == SIG_IGN)
        return;
    action.sa_flags |= SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(signal_number, &action, NULL);
}

void stop_on_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        handle(signals[i], (struct sigaction){.sa_handler = on_signal});
}

void stop_interrupts(ls_session *session)
{
    atomic_store(&interrupted, session);
    if (asked)
        ls_interrupt(session);
}

void stop_with(const char *text)
{
    if (!last_text && text)
        handle(SIGTSTP, (struct sigaction){.sa_handler = on_suspend});
    else if (last_text && !text)
        handle(SIGTSTP, (struct sigaction){.sa_handler = SIG_DFL});
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
    case SIGUSR2:
        return "SIGUSR2";
    case SIGXCPU:
        return "SIGXCPU";
    default:
        return "SIGHUP";
    }
}
