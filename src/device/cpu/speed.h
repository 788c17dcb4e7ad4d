/* What a core can do at most, measured on the calling thread by its processor time. */
#pragma once

#include "device/backend.h"

/* Additions and multiplications a second, of fused multiply-adds. 0: the backend cannot tell. */
double ls_cpu_peak(const ls_backend *backend);

/* Bytes a second, of two vectors read and their sum written. memory[3 * n]: it must not fit the caches. */
double ls_cpu_bandwidth(const ls_backend *backend, float *memory, size_t n);
