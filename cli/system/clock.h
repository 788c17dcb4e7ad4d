/* Seconds of the system's clocks, for differences. */
#pragma once

double steady_seconds(void); /* goes on evenly, whatever is set */
double thread_seconds(void); /* that this thread has computed */
