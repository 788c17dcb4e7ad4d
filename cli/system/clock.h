/* Seconds of the system's clocks, for differences. */
#ifndef CLI_SYSTEM_CLOCK_H
#define CLI_SYSTEM_CLOCK_H

double steady_seconds(void); /* goes on evenly, whatever is set */
double thread_seconds(void); /* that this thread has computed */

#endif
