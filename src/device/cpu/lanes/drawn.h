/* The random numbers of dropout, of sixteen images side by side. */
#pragma once

#include "base/random.h"
#include "device/cpu/lanes/lanes.h"

/* Sixteen streams; block i of each is ls_philox with their own key and tail. */
typedef struct drawn_streams {
    uint32_t key[2][LS_LANES], tail[2][LS_LANES];
} drawn_streams;

/* The 53 bits of number i of each, in loops that compilers turn into vectors. */
LS_INLINE void drawn_numbers(const drawn_streams *s, uint64_t i, uint64_t number[LS_LANES])
{
    uint32_t c0[LS_LANES], c1[LS_LANES], c2[LS_LANES], c3[LS_LANES];
    for (int lane = 0; lane < LS_LANES; lane++) {
        c0[lane] = (uint32_t)i;
        c1[lane] = (uint32_t)(i >> 32);
        c2[lane] = s->tail[0][lane];
        c3[lane] = s->tail[1][lane];
    }
    for (uint32_t round = 0; round < 10; round++)
        for (int lane = 0; lane < LS_LANES; lane++) {
            const uint64_t p0 = (uint64_t)0xd2511f53u * c0[lane], p1 = (uint64_t)0xcd9e8d57u * c2[lane];
            c0[lane] = (uint32_t)(p1 >> 32) ^ c1[lane] ^ (s->key[0][lane] + round * 0x9e3779b9u);
            c1[lane] = (uint32_t)p1;
            c2[lane] = (uint32_t)(p0 >> 32) ^ c3[lane] ^ (s->key[1][lane] + round * 0xbb67ae85u);
            c3[lane] = (uint32_t)p0;
        }
    for (int lane = 0; lane < LS_LANES; lane++)
        number[lane] = ((uint64_t)c1[lane] << 32 | c0[lane]) >> 11;
}

/* k * 2^-53 is below the rate where the whole number k is below this. */
LS_INLINE uint64_t drawn_limit(float rate)
{
    const double bound = (double)rate * 0x1p53;
    const uint64_t whole = (uint64_t)bound;
    return whole + ((double)whole < bound);
}

LS_INLINE drawn_streams drawn_streams_of(const ls_op_call *call, int group, int lanes)
{
    const ls_samples *samples = call->samples;
    drawn_streams all;
    for (int lane = 0; lane < LS_LANES; lane++) {
        const uint64_t sample = lane < lanes ? samples->index[group * LS_LANES + lane] : 0;
        const ls_random_stream stream = {samples->seed, LS_FOR_DROPOUT, call->attributes->key ^ sample, samples->step};
        const ls_derived from = ls_random_derive(&stream);
        for (int k = 0; k < 2; k++) {
            all.key[k][lane] = from.key[k];
            all.tail[k][lane] = from.tail[k];
        }
    }
    return all;
}
