#include "memory.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
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
static int key = -2;            /* -1: the processor has none; -2: not asked yet */
static _Thread_local int depth; /* of this thread's work */

/* The lock is held. */
static void protect(const block *b)
{
    if (key >= 0)
        pkey_mprotect(b->at, b->bytes, PROT_READ | PROT_WRITE, key);
    else
        mprotect(b->at, b->bytes, entered ? PROT_READ | PROT_WRITE : PROT_NONE);
}

static bool has_room(void)
{
    if (n < capacity)
        return true;
    block *more = realloc(blocks, (2 * capacity + 64) * sizeof *more);
    if (!more)
        return false;
    blocks = more;
    capacity = 2 * capacity + 64;
    return true;
}

void *emulated_allocate(int card, size_t bytes)
{
    const size_t page = 4096, rounded = (bytes / page + 1) * page;
    void *at = mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    pthread_mutex_lock(&lock);
    if (key == -2)
        key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    const bool good = has_room();
    if (good) {
        blocks[n] = (block){at, rounded, card};
        protect(&blocks[n++]);
    }
    pthread_mutex_unlock(&lock);
    if (!good)
        munmap(at, rounded);
    return good ? at : NULL;
}

void emulated_release(void *memory)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; memory && i < n; i++)
        if (blocks[i].at == memory) {
            munmap(memory, blocks[i].bytes);
            blocks[i] = blocks[--n];
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
    for (size_t i = 0; i < n && key == -1 && before != (entered > 0); i++)
        protect(&blocks[i]);
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
