/* Waiting awake: for what another core does within microseconds, where to sleep and be woken takes longer. */
#pragma once

#include <stdbool.h>

/* Tells the processor that a loop waits for another core. */
static inline void ls_pause(void)
{
#if defined __x86_64__
    __builtin_ia32_pause();
#endif
}

/* Looks whether `found` for so many seconds at most, and returns whether it was. Other threads may have the core
 * meanwhile. */
bool ls_spin(double seconds, bool (*found)(void *user), void *user);
