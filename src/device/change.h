/* How an image is changed on its way into the lanes: what an augmentation's draws come to (data/augment.h). */
#pragma once

#include <stdint.h>

#include "base/everywhere.h"

/* Place (row, column) of the result is 0 within the erased rectangle. Elsewhere it is place
 * (row + down, (flip ? w - 1 - column : column) + right) of the image, and 0 where the image has no such place. All
 * zero changes nothing. */
typedef struct ls_change {
    int32_t flip; /* 0 or 1 */
    int32_t down, right;
    int32_t top, left, height, width; /* of the rectangle, within the image; height 0: there is none */
} ls_change;

/* Where in an image of h x w places the changed one's number comes from: row * w + column; -1 for a zero. */
LS_EVERYWHERE int32_t ls_change_source(const ls_change *change, int h, int w, int row, int column)
{
    if (row >= change->top && row < change->top + change->height && column >= change->left &&
        column < change->left + change->width)
        return -1;
    const int32_t from_row = row + change->down;
    const int32_t from_column = (change->flip ? w - 1 - column : column) + change->right;
    const int inside = from_row >= 0 && from_row < h && from_column >= 0 && from_column < w;
    return inside ? from_row * w + from_column : -1;
}
