/* Philox4x32-10, a counter-based generator (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3",
 * SC 2011), and how the streams of random.h are made from it. */
#pragma once

#include <stdint.h>

#include "base/everywhere.h"

LS_EVERYWHERE void ls_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xd2511f53u * c0, p1 = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

typedef enum ls_purpose {
    LS_FOR_WEIGHTS = 1,
    LS_FOR_ORDER = 2,
    LS_FOR_DROPOUT = 3,
    LS_FOR_PULLS = 4,
    LS_FOR_SELF_TEST = 5,
    LS_FOR_AUGMENT = 6,
    LS_FOR_VALIDATION = 7
} ls_purpose;

/* Names one stream. `name` is a hash (ls_hash_name) or a sample number; `epoch` is 0 where there is none. */
typedef struct ls_random_stream {
    uint64_t seed;
    uint32_t purpose;
    uint64_t name;
    uint64_t epoch;
} ls_random_stream;

/* A stream made ready: what its numbers have in common. Block i is Philox under `key` on the counter (i low, i high,
 * tail[0], tail[1]); the 53 bits of ls_random_uniform are its second word, then its first, without the lowest 11. */
typedef struct ls_derived {
    uint32_t key[2], tail[2];
} ls_derived;

/* How a stream's name becomes numbers: Philox runs once under the seed (its 64 bits are the key) on the counter
 *     (name low, name high, epoch low, epoch high),
 * and gives 128 bits d[0..3]. Number i of the stream is Philox under the key (d[0], d[1]) on the counter
 *     (i low, i high, d[2] ^ purpose, d[3]).
 * Purposes of one name never share a counter, and two names share numbers only if all of d agrees. One block serves one
 * i: a 32-bit number is its first word, a 64-bit number its first two, low word first. */
LS_EVERYWHERE ls_derived ls_random_derive(const ls_random_stream *stream)
{
    const uint32_t key[2] = {(uint32_t)stream->seed, (uint32_t)(stream->seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)stream->name, (uint32_t)(stream->name >> 32), (uint32_t)stream->epoch,
                                 (uint32_t)(stream->epoch >> 32)};
    uint32_t d[4];
    ls_philox(counter, key, d);
    const ls_derived made = {{d[0], d[1]}, {d[2] ^ stream->purpose, d[3]}};
    return made;
}

LS_EVERYWHERE uint64_t ls_derived_bits(const ls_derived *from, uint64_t i)
{
    const uint32_t counter[4] = {(uint32_t)i, (uint32_t)(i >> 32), from->tail[0], from->tail[1]};
    uint32_t out[4];
    ls_philox(counter, from->key, out);
    return (uint64_t)out[1] << 32 | out[0];
}
