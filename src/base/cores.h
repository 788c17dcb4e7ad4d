/* The processor cores this process may use, and pinning a thread to one. */
#pragma once

#include <sched.h>
#include <stdbool.h>

enum { LS_MAX_CORES = 8192 }; /* as many as Linux can be built for; the C library's own sets end at 1024 */

typedef struct ls_core_set {
    cpu_set_t parts[LS_MAX_CORES / CPU_SETSIZE];
} ls_core_set;

bool ls_core_set_read(
    ls_core_set *set); /* the calling thread's affinity mask; empty and false where the system refuses */
bool ls_core_set_has(const ls_core_set *set, int core);
void ls_core_set_add(ls_core_set *set, int core);
int ls_core_set_count(const ls_core_set *set);
bool ls_core_set_keep_to(const ls_core_set *set); /* the calling thread; false where the system does not allow it */

int ls_core_count(void);    /* in the process's affinity mask, at least 1 */
int ls_core_number(int i);  /* the operating system's number of the i-th core of the mask */
bool ls_pin_to_core(int i); /* the calling thread; false where the system does not allow it */
