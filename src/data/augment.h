/* Augmentation: what becomes of an image in an epoch, drawn from a counter-based stream of its own. */
#pragma once

#include <lockstep.h>

#include "device/change.h"

/* Whether numbers change their places. */
static inline bool ls_moves(const ls_augment *augment)
{
    return augment->flip || augment->crop > 0;
}

static inline bool ls_augments(const ls_augment *augment)
{
    return ls_moves(augment) || augment->erase > 0;
}

/* The change of sample number `sample`, an image of height x width, in `epoch`. u[i] being number i, from 0 to below 1,
 * of the stream (seed, LS_FOR_AUGMENT, sample, epoch), crop the pixels and p the probability of erasing:
 *   down  = floor(u[0] * (2 crop + 1)) - crop
 *   right = floor(u[1] * (2 crop + 1)) - crop
 *   flip  = u[2] < 1/2
 *   a rectangle is erased where u[3] < p:
 *     area  = height * width * (0.02 + 0.31 u[4])
 *     ratio = ls_expf(ln 0.3 + ln 11 * u[5])
 *     rows    = floor(sqrt(area * ratio) + 1/2), at least 1 and at most height
 *     columns = floor(sqrt(area / ratio) + 1/2), at least 1 and at most width
 *     top  = floor(u[6] * (height - rows + 1))
 *     left = floor(u[7] * (width - columns + 1))
 * in double but for the exponential, which is float's; each number keeps its place whatever is switched on. */
ls_change ls_augment_draw(const ls_augment *augment, uint64_t seed, uint32_t sample, int64_t epoch, int height,
                          int width);
