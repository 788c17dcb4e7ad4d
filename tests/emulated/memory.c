#include "memory.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct block {
    unsigned char *at;
    size_t bytes;
    int card;
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *blocks;
static size_t n, capacity;
static int entered;             /* threads that do a card's work */
static int key = -1;            /* -1: the processor has none */
static _Thread_local int depth; /* of this thread's work */

/* All memory lies in one range of addresses, so that one call to the kernel opens or closes it for all threads. */
enum { PAGE = 4096 };
static const size_t range = (size_t)1 << 36;
static unsigned char *begin; /* of the range; NULL: not taken yet */

/* The lock is held. */
static void protect(void *at, size_t bytes)
{
    if (key >= 0)
        pkey_mprotect(at, bytes, PROT_READ | PROT_WRITE, key);
    else
        mprotect(at, bytes, entered ? PROT_READ | PROT_WRITE : PROT_NONE);
}

static bool has_room(void)
{
    if (!begin) {
        void *at = mmap(NULL, range, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED)
            return false;
        begin = at;
        key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
        protect(begin, range);
    }
    if (n < capacity)
        return true;
    block *more = realloc(blocks, (2 * capacity + 64) * sizeof *more);
    if (!more)
        return false;
    blocks = more;
    capacity = 2 * capacity + 64;
    return true;
}

/* The first gap between the blocks, which are in order, that has room. */
void *emulated_allocate(int card, size_t bytes)
{
    const size_t rounded = (bytes / PAGE + 1) * PAGE;
    unsigned char *at = NULL;
    pthread_mutex_lock(&lock);
    if (bytes < range && has_room()) {
        size_t i = 0;
        for (at = begin; i < n && (size_t)(blocks[i].at - at) < rounded; i++)
            at = blocks[i].at + blocks[i].bytes;
        if ((size_t)(begin + range - at) >= rounded) {
            memmove(blocks + i + 1, blocks + i, (n++ - i) * sizeof *blocks);
            blocks[i] = (block){at, rounded, card};
        } else {
            at = NULL;
        }
    }
    pthread_mutex_unlock(&lock);
    return at;
}

/* What lay there is gone, and new memory there is zero. */
void emulated_release(void *memory)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; memory && i < n; i++)
        if (blocks[i].at == memory) {
            madvise(memory, blocks[i].bytes, MADV_DONTNEED);
            memmove(blocks + i, blocks + i + 1, (--n - i) * sizeof *blocks);
            break;
        }
    pthread_mutex_unlock(&lock);
}

int emulated_owner(const void *at)
{
    int card = -1;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n && card < 0; i++)
        if ((uintptr_t)at - (uintptr_t)blocks[i].at < blocks[i].bytes)
            card = blocks[i].card;
    pthread_mutex_unlock(&lock);
    return card;
}

/* Without keys all threads may, as long as one does a card's work. */
static void change(int by)
{
    pthread_mutex_lock(&lock);
    const bool before = entered > 0;
    entered += by;
    if (begin && key == -1 && before != (entered > 0))
        protect(begin, range);
    pthread_mutex_unlock(&lock);
}

void emulated_enter(void)
{
    if (depth++)
        return;
    change(1);
    if (key >= 0)
        pkey_set(key, 0);
}

void emulated_leave(void)
{
    if (--depth)
        return;
    if (key >= 0)
        pkey_set(key, PKEY_DISABLE_ACCESS);
    change(-1);
}
