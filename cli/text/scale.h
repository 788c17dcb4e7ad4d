/* Round numbers for axes, and numbers as people read them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The smallest of 1, 2, 2.5 and 5 times a power of ten that cuts `range` into at most `parts`. */
double scale_step(double range, int parts);

/* For an axis of exactly `parts` parts from 0 on that holds `range` and wastes little of itself. */
double scale_even_step(double range, int parts);

/* For an axis of exactly `parts` parts that holds lo to hi and begins with a multiple of the step, not below 0: at 0
 * where that wastes little. Returns the step. */
double scale_fit(double lo, double hi, int parts, double *first);

/* A scale_step among whole numbers. */
double scale_whole_step(double range, int parts);

/* Of a value from 0 on: with as many decimals as the step needs, or as "2.5e13" where that would be long. */
void scale_text(char *text, size_t size, double value, double step);
/* The longest of the labels of an axis of so many parts. */
void scale_longest(char *text, size_t size, double first, double step, int parts);
void count_text(char *text, size_t size, int64_t count); /* "25,951" */
void time_text(char *text, size_t size, double seconds); /* "0:41", "1:02:03" */
