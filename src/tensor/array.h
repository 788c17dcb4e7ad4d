/* Numbers in C order on one device, shared by counting. Work on an array is handed to its device and done later, so
 * each array knows which piece of work last wrote it and which have read it since: who comes next waits for those.
 *
 * An array lies where its device computes: in the host's memory, or in a card's, which the host cannot look into. */
#pragma once

#include <stdatomic.h>

#include "device/executor.h"

/* A piece of work: the `ticket`-th that was handed to `stream`. Ticket 0: nothing to wait for. */
typedef struct ls_mark {
    int stream;
    uint64_t ticket;
} ls_mark;

typedef struct ls_array {
    struct ls_arrays *pool;
    struct ls_array *next_free;
    atomic_int holders;
    ls_device device;
    int size_class;
    size_t n;         /* floats in use */
    atomic_bool lost; /* what should have written it was dropped, or failed */
    float *data;      /* read by workers when their turn comes: an update may have put other numbers in place */
    /* Known to the session's thread alone: */
    ls_mark written, *reads; /* one for each stream that read it since it was written */
    int n_reads, reads_capacity;
    uint64_t version;            /* changes handed in */
    bool in_step;                /* a step of a network reads or writes it, which no mark tells */
    void (*release)(void *user); /* of numbers that lie in a caller's memory; NULL: in the pool's */
    void *user;
} ls_array;

/* Arrays of one memory that are free again, by size: a training loop takes all of its arrays from here and allocates
 * none. */
typedef struct ls_arrays {
    ls_context *context;
    ls_executor *executor; /* whose memory it is; NULL: the host's */
    pthread_mutex_t lock;
    ls_array *free[48];
    _Atomic uint64_t allocated; /* arrays made anew, for tests */
} ls_arrays;

void ls_arrays_init(ls_arrays *pool, ls_context *context, ls_executor *executor);
void ls_arrays_destroy(ls_arrays *pool); /* every array must be free */

/* `n` floats of undefined content, held once. NULL with the context's error when memory runs out. */
ls_array *ls_array_new(ls_arrays *pool, ls_device device, size_t n);
/* The same over a caller's `n` floats at `data`; `release` is called, from any thread, once nobody holds them. */
ls_array *ls_array_at(ls_arrays *pool, ls_device device, float *data, size_t n, void (*release)(void *user),
                      void *user);
ls_array *ls_array_hold(ls_array *array);

void ls_array_drop(ls_array *array); /* from any thread; NULL is fine */

/* Whether the executor computes in the memory that the array lies in. */
static inline bool ls_array_is_in(const ls_array *array, const ls_executor *executor)
{
    return (array->pool->executor ? array->pool->executor->memory : 0) == executor->memory;
}

/* Notes that `mark` reads or writes the array. */
ls_status ls_array_note_read(ls_array *array, ls_mark mark);
void ls_array_note_write(ls_array *array, ls_mark mark);
