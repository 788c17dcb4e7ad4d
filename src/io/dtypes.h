/* The types of numbers that safetensors files name, and which of them become float32. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int ls_dtype_bytes(const char *name); /* of one number; 0 for a name that the format has not */

/* Whether ls_dtype_floats takes the type: F32, F16, BF16 and F64. */
bool ls_dtype_is_read(const char *name);

/* n numbers, little-endian and maybe unaligned, as float32. F16 and BF16 have all their values there; F64 is rounded to
 * the nearest, of two to the even one, and beyond the largest float becomes infinity. */
void ls_dtype_floats(const char *name, const unsigned char *bytes, int64_t n, float *values);

/* Number i of an F64 array as it is. */
double ls_dtype_double(const unsigned char *bytes, int64_t i);
