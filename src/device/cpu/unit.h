/* A core of the CPU as a unit: it computes in the host's memory, and at once. */
#ifndef LS_DEVICE_CPU_UNIT_H
#define LS_DEVICE_CPU_UNIT_H

#include "device/unit.h"

/* `core` is its number in the affinity mask. NULL when memory runs out. */
ls_unit *ls_cpu_unit_open(ls_context *context, ls_isa isa, int core);

#endif
