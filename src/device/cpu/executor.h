/* A core of the CPU as an executor: it computes in the host's memory, and at once. */
#pragma once

#include "device/executor.h"

/* `core` is its number in the affinity mask. NULL when memory runs out. */
ls_executor *ls_cpu_executor_open(ls_context *context, ls_isa isa, int core);
