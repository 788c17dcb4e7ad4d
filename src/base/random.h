/* Everything random. There is no state: a number is a function of its key and its position. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/philox.h"

double ls_derived_uniform(const ls_derived *from, uint64_t i);
double ls_derived_normal(const ls_derived *from, uint64_t i);

/* The inverse of the normal distribution function, for 0 < p < 1: M. J. Wichura, "Algorithm AS 241: The percentage
 * points of the normal distribution", Applied Statistics 37 (1988), PPND16; relative error about 1e-16. */
double ls_normal_quantile(double p);

/* FNV-1a, 64 bits. */
uint64_t ls_hash_bytes(const void *bytes, size_t n);
uint64_t ls_hash_name(const char *name);

uint32_t ls_random_u32(const ls_random_stream *stream, uint64_t i);                      /* the stream's i-th number */
double ls_random_uniform(const ls_random_stream *stream, uint64_t i);                    /* in [0, 1), 2^-53 apart */
double ls_random_normal(const ls_random_stream *stream, uint64_t i);                     /* mean 0, deviation 1 */
void ls_random_permutation(const ls_random_stream *stream, uint32_t *order, uint32_t n); /* Fisher-Yates */
