/* What every part of a session shares: the sticky error and the allocation hook. */
#pragma once

#include <lockstep.h>
#include <pthread.h>
#include <sys/types.h>

typedef struct ls_context {
    pid_t process;        /* whose it is */
    pthread_mutex_t lock; /* guards status and message */
    ls_status status;
    char message[1024];
    ls_allocator allocator;
    unsigned long long work;     /* pieces done, see ls_work_done; for the next two alone */
    struct ls_file_list *opened; /* files that are opened for reading are noted there; NULL: nowhere */
} ls_context;

ls_status ls_context_init(ls_context *context, const ls_allocator *allocator);
void ls_context_destroy(ls_context *context);

/* Makes `status` the context's error unless it has one already; returns the one that sticks. Any thread may call it. */
ls_status ls_raise(ls_context *context, ls_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
ls_status ls_context_status(ls_context *context);
/* Makes its error LS_OK again. */
void ls_context_clear(ls_context *context);

/* Whether this process is a child that fork() made since. It has neither the threads nor what they held, so that it
 * must not take a lock, wait or free: to raise and to ask for the status are safe, and give LS_BAD_ARGUMENT. */
bool ls_context_is_parents(const ls_context *context);

/* One piece more is done; and how many there were. From any thread. (No atomic type: C++ reads this too.) */
void ls_count_work(ls_context *context);
unsigned long long ls_work_of(const ls_context *context);

/* A short copy of foreign text that is safe to show: control characters and what is not ASCII become '?'. */
const char *ls_printable(const char *text, char *into, size_t size);

/* `count` items of `size` bytes, zeroed, aligned to 64 bytes; NULL and LS_OUT_OF_MEMORY (with `what` in the message)
 * when there is no memory or the product overflows. A count of zero gives a valid pointer. */
void *ls_alloc(ls_context *context, size_t count, size_t size, const char *what);
/* A list of `used` items of `size` bytes with room for one more: the same one, or one of twice the room (at first
 * `least`) in its place, the old one released. NULL, and the list as it was, when memory runs out. */
void *ls_grow(ls_context *context, void *items, int used, int *capacity, int least, size_t size, const char *what);
void ls_release(ls_context *context, void *memory); /* NULL is fine */
char *ls_copy_string(ls_context *context, const char *text, const char *what);
char *ls_format(ls_context *context, const char *what, const char *format, ...) __attribute__((format(printf, 3, 4)));
