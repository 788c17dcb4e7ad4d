/* What the networks of this folder learn from, made by formulas, so that the C programs and PyTorch's beside them,
 * which take it from synthetic.py, have the same numbers and nothing is to be downloaded. */
#ifndef EXAMPLES_NETWORKS_SYNTHETIC_H
#define EXAMPLES_NETWORKS_SYNTHETIC_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { KINDS = 4 }; /* of marks on pictures: a square, a disc, a cross, a ring */

/* A random number of an example, below 2^32; `what` is below 4096. */
static inline unsigned draw(unsigned example, unsigned what)
{
    unsigned x = (example * 4096 + what + 1) * 2654435761U;
    x = (x ^ x >> 15) * 2246822519U;
    return x ^ x >> 13;
}

static inline bool covers(int kind, int x, int y, int radius) /* of the mark's middle */
{
    const int distance = x * x + y * y, square = radius * radius;
    x = abs(x);
    y = abs(y);
    switch (kind) {
    case 0:
        return x <= radius && y <= radius;
    case 1:
        return distance <= square;
    case 2:
        return x <= radius && y <= radius && (x <= radius / 3 || y <= radius / 3);
    default:
        return distance <= square && 3 * distance >= square;
    }
}

/* Picture i, [channels][side][side], side 24 or 32: noise, and a coloured mark of each kind whose bit is set.
 * places[side][side], which may be NULL, gets 0, or 1 + the kind of the mark that is there. */
static inline void paint(int i, unsigned kinds, int channels, int side, uint8_t *picture, float *places)
{
    const unsigned n = (unsigned)i;
    for (int p = 0; p < side * side; p++) {
        unsigned found = 0;
        for (int k = 0; k < KINDS; k++) {
            const unsigned from = 3U * (unsigned)k, room = (unsigned)side / 8;
            const int radius = (int)(room + draw(n, from) % room), range = side - 2 * radius;
            const int x = p % side - radius - (int)(draw(n, from + 1) % (unsigned)range);
            const int y = p / side - radius - (int)(draw(n, from + 2) % (unsigned)range);
            if (kinds >> k & 1 && covers(k, x, y, radius))
                found = (unsigned)k + 1;
        }
        for (int c = 0; c < channels; c++) {
            const int at = c * side * side + p;
            const unsigned colour = 64 + draw(n, 4000 + found * 4 + (unsigned)c) % 64;
            picture[at] = (uint8_t)(draw(n, 16 + (unsigned)at) % 128 + (found ? colour : 0));
        }
        if (places)
            places[p] = (float)found;
    }
}

/* Series i, [tokens][2], of which `length` tokens count and those behind them are 0: a point that goes round to the
 * left or to the right, or up and down, among noise. Gives which of the three it is. */
static inline int move(int i, int tokens, int length, float *series)
{
    const unsigned n = (unsigned)i, way = draw(n, 0) % 3;
    const double phase = draw(n, 1) % 628 / 100.0, speed = 0.2 + draw(n, 2) % 100 / 200.0;
    for (int t = 0; t < tokens * 2; t++) {
        const double angle = phase + speed * (t / 2) * (way == 1 ? -1 : 1);
        const double noise = draw(n, 16 + (unsigned)t) % 1000 / 1000.0 - 0.5;
        const double place = t % 2 ? sin(angle) : way == 2 ? 0 : cos(angle);
        series[t] = t < length * 2 ? (float)(place + noise) : 0;
    }
    return (int)way;
}

#endif
