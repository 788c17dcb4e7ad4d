/* Everything random: Philox4x32-10, a counter-based generator (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy
 * as 1, 2, 3", SC 2011). There is no state: a number is a function of its key and its position. */
#ifndef LS_BASE_RANDOM_H
#define LS_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

typedef enum ls_purpose {
    LS_FOR_WEIGHTS = 1,
    LS_FOR_ORDER = 2,
    LS_FOR_DROPOUT = 3,
    LS_FOR_PULLS = 4,
    LS_FOR_CANARY = 5,
    LS_FOR_AUGMENT = 6
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
ls_derived ls_random_derive(const ls_random_stream *stream);
double ls_derived_uniform(const ls_derived *from, uint64_t i);
double ls_derived_normal(const ls_derived *from, uint64_t i);

uint64_t ls_hash_name(const char *name); /* FNV-1a, 64 bits */
void ls_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

uint32_t ls_random_u32(const ls_random_stream *stream, uint64_t i);                      /* the stream's i-th number */
double ls_random_uniform(const ls_random_stream *stream, uint64_t i);                    /* in [0, 1), 2^-53 apart */
double ls_random_normal(const ls_random_stream *stream, uint64_t i);                     /* mean 0, deviation 1 */
void ls_random_permutation(const ls_random_stream *stream, uint32_t *order, uint32_t n); /* Fisher-Yates */

#endif
