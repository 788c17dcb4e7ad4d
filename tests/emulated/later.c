#include "later.h"

#include <stdlib.h>
#include <string.h>

typedef struct piece {
    struct piece *next;
    void (*work)(void *payload); /* NULL: it only keeps the payload */
    int side_stream;
    _Alignas(64) unsigned char payload[];
} piece;

struct later {
    piece *first, **end;
    size_t count, done;
    int side_stream;
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
    p->side_stream = queue->side_stream;
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

void later_side_stream(later *queue, int side_stream)
{
    queue->side_stream = side_stream;
}

size_t later_count(const later *queue)
{
    return queue->count;
}

/* What lies between two pieces that are in no side stream: a piece of each side stream in turn, the last side stream's
 * first. */
static void work_off_side_streams(piece *from, const piece *end)
{
    piece *next[LS_MOST_SIDE_STREAMS + 1];
    for (int side_stream = 1; side_stream <= LS_MOST_SIDE_STREAMS; side_stream++)
        next[side_stream] = from;
    for (bool left = from != end; left;) {
        left = false;
        for (int side_stream = LS_MOST_SIDE_STREAMS; side_stream > 0; side_stream--) {
            piece *p = next[side_stream];
            while (p != end && (p->side_stream != side_stream || !p->work))
                p = p->next;
            if (p != end) {
                p->work(p->payload);
                p = p->next;
                left = true;
            }
            next[side_stream] = p;
        }
    }
}

void later_flush_to(later *queue, size_t count)
{
    size_t number = queue->done;
    piece *from = NULL, *p = queue->first;
    for (; p && number < count; p = p->next, number++)
        if (p->side_stream > 0) {
            from = from ? from : p;
        } else {
            if (from)
                work_off_side_streams(from, p);
            from = NULL;
            if (p->work)
                p->work(p->payload);
        }
    if (from)
        work_off_side_streams(from, p);
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
