/* What an emulated card was handed and has not done yet. It does nothing before somebody waits for it, as late as a
 * card may, so that whoever looks too early sees that nothing is there. One thread at a time, as for the executor. */
#ifndef TESTS_EMULATED_LATER_H
#define TESTS_EMULATED_LATER_H

#include "device/executor.h"

typedef struct later later;

later *later_new(void);
void later_free(later *queue); /* does nothing of what is left */

/* Hands in a piece of work: `work` gets the copy of `size` bytes that is made here. */
void later_do(later *queue, void (*work)(void *payload), const void *payload, size_t size);

/* A copy of so many bytes that stays until what is handed in next is done. */
void *later_keep(later *queue, const void *bytes, size_t size);

/* What is handed in from here on is in that side stream: pieces of several side streams are done in turn, whoever came
 * first; 0: behind all in front of it. */
void later_side_stream(later *queue, int side_stream);

/* Pieces of work, and copies, so far. */
size_t later_count(const later *queue);

/* Does what is left of the first so many, in the order handed in. */
void later_flush_to(later *queue, size_t count);
/* Does everything. */
void later_flush(later *queue);

#endif
