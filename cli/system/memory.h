/* How much memory this process may still take. */
#pragma once

#include <stdint.h>

/* Bytes, and what sets that limit, a text that stays: the machine, a container's limit, ulimit -v. INT64_MAX where
 * nothing tells. */
int64_t memory_left(const char **limited_by);

/* "731 MiB", "7.6 GiB" */
void memory_text(char *text, int size, int64_t bytes);
