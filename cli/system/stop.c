#include "system/stop.h"
#include "text/say.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t asked;
static const char *volatile last_text;

static void write_last(void)
{
    const char *text = last_text;
    if (text && write(STDERR_FILENO, text, strlen(text)) < 0)
        return; /* the terminal is gone: nothing to clear */
}

/* The first signal: its sender, and when it came. */
static volatile sig_atomic_t sender, first_ms;

static sig_atomic_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (sig_atomic_t)(now.tv_sec % 1000000 * 1000 + now.tv_nsec / 1000000);
}

/* timeout(1) and launchers send a signal to the process, and at once again to its group: that is one request. A key
 * that is pressed twice is two. */
static bool is_sent_again(int signal_number, const siginfo_t *info)
{
    return signal_number == asked && info->si_code == SI_USER && info->si_pid == sender && now_ms() - first_ms < 1000;
}

static void on_signal(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    const int error = errno;
    if (asked && !is_sent_again(signal_number, info)) {
        write_last();
        _exit(STATUS_SIGNAL + signal_number);
    }
    if (!asked) {
        sender = info->si_code == SI_USER ? info->si_pid : 0;
        first_ms = now_ms();
        asked = signal_number;
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
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        handle(signals[i], (struct sigaction){.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO});
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
    default:
        return "SIGHUP";
    }
}
