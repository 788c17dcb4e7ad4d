#include "base/spin.h"

#include <sched.h>

#include "base/timer.h"

enum { LOOKS = 100 };

bool ls_spin(double seconds, bool (*found)(void *user), void *user)
{
    double until = ls_seconds() + seconds;
    do {
        for (int i = 0; i < LOOKS; i++) {
            if (found(user))
                return true;
            ls_pause();
        }
        sched_yield();
    } while (ls_seconds() < until);
    return false;
}
