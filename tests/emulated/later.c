#include "later.h"

#include <stdlib.h>
#include <string.h>

typedef struct piece {
    struct piece *next;
    void (*work)(void *payload); /* NULL: it only keeps the payload */
    int strand;
    _Alignas(64) unsigned char payload[];
} piece;

struct later {
    piece *first, **end;
    size_t count, done;
    int strand;
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
    p->strand = queue->strand;
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

void later_strand(later *queue, int strand)
{
    queue->strand = strand;
}

size_t later_count(const later *queue)
{
    return queue->count;
}

/* What lies between two pieces that are in no strand: a piece of each strand in turn, the last strand's first. */
static void work_off_strands(piece *from, const piece *end)
{
    piece *next[LS_MOST_STRANDS + 1];
    for (int strand = 1; strand <= LS_MOST_STRANDS; strand++)
        next[strand] = from;
    for (bool left = from != end; left;) {
        left = false;
        for (int strand = LS_MOST_STRANDS; strand > 0; strand--) {
            piece *p = next[strand];
            while (p != end && (p->strand != strand || !p->work))
                p = p->next;
            if (p != end) {
                p->work(p->payload);
                p = p->next;
                left = true;
            }
            next[strand] = p;
        }
    }
}

void later_flush_to(later *queue, size_t count)
{
    size_t number = queue->done;
    piece *from = NULL, *p = queue->first;
    for (; p && number < count; p = p->next, number++)
        if (p->strand > 0) {
            from = from ? from : p;
        } else {
            if (from)
                work_off_strands(from, p);
            from = NULL;
            if (p->work)
                p->work(p->payload);
        }
    if (from)
        work_off_strands(from, p);
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
