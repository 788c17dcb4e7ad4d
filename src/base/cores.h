/* The processor cores this process may use, and pinning a thread to one. */
#ifndef LS_BASE_CORES_H
#define LS_BASE_CORES_H

#include <stdbool.h>

enum { LS_MAX_CORES = 1024 };

int ls_core_count(void);    /* in the process's affinity mask, at least 1 */
int ls_core_number(int i);  /* the operating system's number of the i-th core of the mask */
bool ls_pin_to_core(int i); /* the calling thread; false where the system does not allow it */

#endif
