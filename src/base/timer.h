/* Seconds of the clock that nobody sets, and of the processor time that the calling thread has taken: the latter stands still while
 * the thread waits, or others have its core. */
#ifndef LS_BASE_TIMER_H
#define LS_BASE_TIMER_H

double ls_seconds(void);
double ls_thread_seconds(void);

#endif
