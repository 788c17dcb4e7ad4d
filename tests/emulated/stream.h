/* What an emulated card's stream is to those who are handed one: emulated NCCL. */
#ifndef TESTS_EMULATED_STREAM_H
#define TESTS_EMULATED_STREAM_H

#include <stddef.h>

typedef struct emulated_stream {
    int card;
    /* Has that done, with a copy of the payload, when somebody waits for the card. */
    void (*later)(struct emulated_stream *stream, void (*work)(void *payload), const void *payload, size_t size);
    /* memory.h */
    int (*owner)(const void *at);
    void (*enter)(void);
    void (*leave)(void);
} emulated_stream;

#endif
