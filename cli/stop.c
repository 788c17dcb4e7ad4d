#include "stop.h"
#include "say.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t asked;

static void on_signal(int signal_number)
{
    if (asked)
        _exit(STATUS_SIGNAL + signal_number);
    asked = signal_number;
}

void stop_on_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction before;
        /* What the caller chose to ignore (nohup, a shell's background job) stays ignored. */
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN)
            continue;
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
        sigemptyset(&action.sa_mask);
        sigaction(signals[i], &action, NULL);
    }
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
