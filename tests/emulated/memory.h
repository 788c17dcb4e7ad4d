/* The emulated cards' memories. Each is its card's alone: a thread that touches one outside of a card's work is stopped
 * by the processor, by a memory key of its own where it has such keys, else because nobody may read or write there
 * while no card works. So a program that takes numbers on a card for its own fails here as it would beside a card. */
#ifndef TESTS_EMULATED_MEMORY_H
#define TESTS_EMULATED_MEMORY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

void *emulated_allocate(int card, size_t bytes); /* zeroed; NULL where there is none */
void emulated_release(void *memory);             /* NULL is fine */

/* The card whose memory that is; -1: the host's. */
int emulated_owner(const void *at);

/* The calling thread does a card's work from the one to the other. May be nested. */
void emulated_enter(void);
void emulated_leave(void);

#ifdef __cplusplus
}
#endif
#endif
