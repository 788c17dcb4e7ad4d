/* Which kernels the CPU runs: chosen at run time, from what the machine has and what the caller allows. */
#pragma once

#include <lockstep.h>
#include "device/backend.h"

/* The widest backend the machine can run that is not wider than `cap`; NULL where `cap` names one that this machine or
 * this build does not have (LS_ISA_NEON on x86, say). Slots that a lanes backend lacks hold the reference's kernels.
 * LS_ISA_REFERENCE is the specification itself. */
const ls_backend *ls_cpu_backend(ls_isa cap);

/* The plain kernels' name, "avx512" and so on, for a cap; NULL as above. */
const char *ls_cpu_isa_name(ls_isa cap);
