/* The library's own threads. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

/* Starts a thread whose stack is large enough for own operations, whatever the process's default is, and that takes
 * none of the process's signals: their handlers are the caller's, for its threads. False where the system has none to
 * give. `main` sets its environment itself (environment.h). */
bool ls_thread_start(pthread_t *thread, void *(*main)(void *argument), void *argument);
