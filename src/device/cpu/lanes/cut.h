/* How work and scratch are cut into parts. */
#ifndef LS_DEVICE_CPU_LANES_CUT_H
#define LS_DEVICE_CPU_LANES_CUT_H

#include "device/cpu/lanes/lanes.h"

/* The size of the parts when `whole` is cut evenly into the fewest parts of at most `part`; at least 1. */
LS_INLINE int even_part(int whole, int part)
{
    const int most = part < 1 ? 1 : part, parts = (whole + most - 1) / most;
    return parts ? (whole + parts - 1) / parts : 1;
}

/* Bytes rounded up to whole lines of the cache. */
LS_INLINE size_t lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

#endif
