/* Seconds of the clock that nobody sets, and of the processor time that the calling thread has taken: the latter stands
 * still while the thread waits, or others have its core. */
#pragma once

#include <pthread.h>

double ls_seconds(void);
double ls_thread_seconds(void);

/* A condition that can be waited for for so many seconds at most, by the first clock. */
void ls_timed_cond_init(pthread_cond_t *cond);
void ls_timed_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, double seconds);
