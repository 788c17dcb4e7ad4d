/* What the tests of operations share: random numbers, images to lanes and back, calls of a kernel. */
#ifndef LOCKSTEP_TESTS_SUPPORT_H
#define LOCKSTEP_TESTS_SUPPORT_H

/* cmocka wants these before its own header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "device/backend.h"

/* ---- Numbers ---- */

typedef struct test_random {
    uint64_t state;
} test_random;

uint64_t test_u64(test_random *random);
double test_uniform(test_random *random); /* in [-1, 1) */
double test_normal(test_random *random);  /* mean 0, deviation 1 */
void test_fill_normal(test_random *random, float *x, size_t n);
/* x, or in its place now and then a zero, a denormal or a one; seldom, unless all must be finite, a NaN, an infinity or
 * FLT_MAX. */
float test_salt(test_random *random, float x, int finite);

/* `n` zeroed floats, aligned to 64 bytes; ends the test where there is no memory. Free with free(). */
float *test_floats(size_t n);
double *test_doubles(size_t n);

/* ||a - b|| / ||b|| */
double test_distance(const double *a, const double *b, size_t n);
double test_distance_float(const float *a, const double *b, size_t n);
int test_same_bits(float a, float b); /* a NaN is a NaN */

/* ---- Layout ---- */

int test_groups(int count);
int test_windows(int size, int kernel, int stride, int padding); /* how many there are along `size` places */
size_t test_numbers(const ls_operand *shape);                    /* in one image */
size_t test_lane_numbers(const ls_operand *shape, int count);    /* in the lanes layout, padded lanes included */

/* NCHW to lanes, with `padding` in the lanes that hold no image, and back. */
void test_pack(float *lanes, const float *images, const ls_operand *shape, int count, float padding);
void test_unpack(float *images, const float *lanes, const ls_operand *shape, int count);

/* Sets the lanes that hold no image: to zero, or to finite garbage where `random` is given. */
void test_pad(float *lanes, const ls_operand *shape, int count, test_random *random);

/* An activation in lanes, new, normal, its padded lanes zero. */
ls_operand test_activation(test_random *random, int c, int h, int w, int count);
ls_operand test_vector(test_random *random, size_t n); /* `n` normal numbers: c = n, h = w = 1 */

/* ---- Backends ---- */

/* Image i of the shard is sample count - 1 - i, and the label of sample i is i * 7 % classes. */
typedef struct test_batch {
    ls_samples samples;
    uint8_t *images;
    int32_t *labels;
    uint32_t *index;
    float *floats;
    ls_change *changes;
} test_batch;
test_batch test_batch_new(int count, size_t image_bytes, int classes);
/* A label for each of so many places of an image; where `ignored`, every fifth is -1. */
void test_batch_label(test_batch *batch, int places, int classes, int ignored);
/* The images as floats in place of bytes; each image changed, by every kind of change there is. */
void test_batch_take_floats(test_batch *batch, size_t image_numbers);
void test_batch_change(test_batch *batch, int h, int w);
void test_batch_free(test_batch *batch);

/* Runs `call` (whose attributes, samples and operands are set) with scratch of its own, which is filled with NaN before
 * and must not be overrun. */
void test_run(const ls_backend *backend, ls_op_call *call);

/* Every backend of this machine but the reference, each once, and AVX-512's emulated; returns how many. */
int test_backends(const ls_backend *found[8]);
const ls_backend *test_fastest(void); /* the reference where there is no other */

#endif
