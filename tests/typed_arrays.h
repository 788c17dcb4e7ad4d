/* Weights files whose arrays have other types than float32, as other programs write them. */
#ifndef LOCKSTEP_TESTS_TYPED_ARRAYS_H
#define LOCKSTEP_TESTS_TYPED_ARRAYS_H

#include "files.h"

typedef struct typed_array {
    const char *name, *dtype;
    int rank;
    int64_t shape[4];
    const void *bytes;
    size_t n_bytes;
} typed_array;

/* Writes them to a file of the test's folder, one behind the other. */
void write_typed_arrays(const char *file, const typed_array *arrays, int n);

/* As PyTorch's .half() and .bfloat16() of a number that the type has. */
uint16_t half_of(float value);
uint16_t bfloat_of(float value);

#endif
