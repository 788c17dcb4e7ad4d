/* SIGINT, SIGTERM, SIGHUP and SIGUSR1: the first asks the run to stop, the second ends the process at once. */
#pragma once

#include <lockstep.h>

void stop_on_signals(void);

/* Until the call with NULL a signal that asks for a stop ends the session's inference early, and so does one that came
 * before. */
void stop_interrupts(ls_session *session);

/* The signal that asked for the stop, 0 while none did. */
int stop_signal(void);
const char *stop_signal_name(int signal_number);

/* What is written to stderr when a signal ends or suspends the process at once, so that nothing is left where the
 * shell's prompt comes; NULL: nothing. The text must live on. */
void stop_with(const char *text);
