/* How work and scratch are cut into parts. */
#pragma once

#include "device/cpu/lanes/lanes.h"
#include "device/op.h"

/* The size of the parts when `whole` is cut evenly into the fewest parts of at most `part`; at least 1. */
LS_INLINE int even_part(int whole, int part)
{
    const int most = part < 1 ? 1 : part, parts = (whole + most - 1) / most;
    return parts ? (whole + parts - 1) / parts : 1;
}

/* A call's share of some units of work. */
typedef struct range {
    int from, to;
} range;

LS_INLINE range range_of(const ls_op_call *call, int units)
{
    const int parts = call->parts > 1 ? call->parts : 1;
    return (range){(int)((ptrdiff_t)units * call->part / parts), (int)((ptrdiff_t)units * (call->part + 1) / parts)};
}

/* The same of `whole` things that come in units of `unit`. */
LS_INLINE range range_by(const ls_op_call *call, int whole, int unit)
{
    const range s = range_of(call, (whole + unit - 1) / unit);
    return (range){s.from * unit, s.to * unit < whole ? s.to * unit : whole};
}

/* Bytes rounded up to whole lines of the cache. */
LS_INLINE size_t lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}
