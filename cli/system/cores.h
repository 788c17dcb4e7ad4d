/* Whether cores are free for this process, and who else is on them. */
#pragma once

#include <lockstep.h>

typedef struct core_look {
    int number;   /* the operating system's; set by the caller */
    bool pinned;  /* a thread could be kept on it */
    double share; /* of the core that a thread got which wanted all of it, beside one on each other core of the list */
    char other[64]; /* the command that took most of the rest, with its process; "" where none can be seen */
} core_look;

/* The different cores of the devices, which are none of a GPU; returns how many. */
int cores_list(const ls_devices *devices, core_look cores[LS_MAX_DEVICES]);

/* Keeps a thread busy on each of n different cores for a fifth of a second. False where threads or memory cannot be
 * had. */
bool cores_look(core_look *cores, int n);

/* Whether it gave so little that it is another program's too. */
bool core_is_busy(const core_look *core);
