/* Numbers from the command line, read strictly: digits to the last character, no sign, no blank, nothing that
 * overflows. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

bool number_unsigned(const char *text, uint64_t *value);
bool number_count(const char *text, int64_t least, int64_t most, int64_t *value);
bool number_real(const char *text, double limit, double *value); /* decimal, at least 0 and below `limit` */
