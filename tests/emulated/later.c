#include "later.h"

#include <stdlib.h>
#include <string.h>

typedef struct piece {
    struct piece *next;
    void (*work)(void *payload); /* NULL: it only keeps the payload */
    _Alignas(64) unsigned char payload[];
} piece;

struct later {
    piece *first, **end;
};

later *later_new(void)
{
    later *queue = calloc(1, sizeof *queue);
    queue->end = &queue->first;
    return queue;
}

static void *add(later *queue, void (*work)(void *payload), const void *payload, size_t size)
{
    piece *p = aligned_alloc(64, (sizeof *p + size + 63) / 64 * 64);
    p->next = NULL;
    p->work = work;
    if (size)
        memcpy(p->payload, payload, size);
    *queue->end = p;
    queue->end = &p->next;
    return p->payload;
}

void later_do(later *queue, void (*work)(void *payload), const void *payload, size_t size)
{
    add(queue, work, payload, size);
}

void *later_keep(later *queue, const void *bytes, size_t size)
{
    return add(queue, NULL, bytes, size);
}

static void empty(later *queue)
{
    while (queue->first) {
        piece *p = queue->first;
        queue->first = p->next;
        free(p);
    }
    queue->end = &queue->first;
}

void later_flush(later *queue)
{
    for (piece *p = queue->first; p; p = p->next)
        if (p->work)
            p->work(p->payload);
    empty(queue);
}

void later_free(later *queue)
{
    empty(queue);
    free(queue);
}
