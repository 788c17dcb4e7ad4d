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
    size_t count, done;
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
    queue->count++;
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

/* Whatever was kept was kept in front of the work that it is for. */
static void empty_to(later *queue, size_t count)
{
    while (queue->first && queue->done < count) {
        piece *p = queue->first;
        queue->first = p->next;
        queue->done++;
        free(p);
    }
    if (!queue->first)
        queue->end = &queue->first;
}

size_t later_count(const later *queue)
{
    return queue->count;
}

void later_flush_to(later *queue, size_t count)
{
    size_t number = queue->done;
    for (piece *p = queue->first; p && number < count; p = p->next, number++)
        if (p->work)
            p->work(p->payload);
    empty_to(queue, count);
}

void later_flush(later *queue)
{
    later_flush_to(queue, queue->count);
}

void later_free(later *queue)
{
    empty_to(queue, queue->count);
    free(queue);
}
