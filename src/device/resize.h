/* Which rows of x make a row of y where maps change their size, with which weights; and columns likewise. One
 * definition, in whole numbers but for the weights, for the reference, the lanes and cards. */
#pragma once

#include "base/everywhere.h"
#include "device/op.h"

typedef struct ls_taps {
    int first, count;
    float weight[2]; /* of the first one, and of those behind it */
} ls_taps;

/* Row i of `out` rows that are made of `in`. BILINEAR's centre of row i is at (i + 1/2) * in / out - 1/2, but not
 * above the first row nor below the last. */
LS_EVERYWHERE ls_taps ls_taps_of(int bilinear, int i, int in, int out)
{
    const int64_t twice = 2 * (int64_t)out;
    if (!bilinear) {
        const int first = (int)((int64_t)i * in / out), end = (int)(((int64_t)(i + 1) * in + out - 1) / out);
        const float share = 1.0f / (float)(end - first);
        const ls_taps average = {first, end - first, {share, share}};
        return average;
    }
    const int64_t centre = (2 * (int64_t)i + 1) * in - out, at = centre < 0 ? 0 : centre;
    const int row = (int)(at / twice), last = row + 1 >= in;
    const float part = last ? 0.0f : (float)(at % twice) / (float)twice;
    const ls_taps two = {last ? in - 1 : row, last ? 1 : 2, {1.0f - part, part}};
    return two;
}

LS_EVERYWHERE float ls_tap_weight(const ls_taps *taps, int row)
{
    return taps->weight[row > taps->first];
}

LS_EVERYWHERE int ls_taps_up(int64_t a, int64_t by)
{
    return (int)(a <= 0 ? 0 : (a + by - 1) / by);
}

/* The rows of y that are made of x's row, among others: from the first one on, up to `end`. */
LS_EVERYWHERE int ls_taps_first(int bilinear, int row, int in, int out)
{
    if (bilinear && row <= 1) /* all above the first row's middle have a tap of no weight in the second */
        return 0;
    return bilinear ? ls_taps_up((2 * (int64_t)row - 1) * out - in, 2 * (int64_t)in) : (int)((int64_t)row * out / in);
}

LS_EVERYWHERE int ls_taps_end(int bilinear, int row, int in, int out)
{
    if (bilinear && row + 1 == in)
        return out;
    return bilinear ? ls_taps_up((2 * (int64_t)row + 3) * out - in, 2 * (int64_t)in)
                    : ls_taps_up((int64_t)(row + 1) * out, in);
}
