/* Seconds of the clock that nobody sets. */
#ifndef LS_BASE_TIMER_H
#define LS_BASE_TIMER_H

double ls_seconds(void);

#endif
