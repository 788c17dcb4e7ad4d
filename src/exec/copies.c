#include "exec/copies.h"

#include <string.h>

static void copy(ls_task *task, ls_turn *turn)
{
    (void)turn;
    const ls_copying *c = task->payload;
    float *to = c->to->data + c->to_offset;
    const float *from = c->from->data + c->from_offset;
    const ls_executor *its = c->from->pool->executor, *others = c->to->pool->executor; /* NULL: the host's memory */
    ls_executor *executor = task->executor;
    (!its      ? executor->type->memory.put
     : !others ? executor->type->memory.get
               : executor->type->memory.copy)(executor, to, from, c->n * sizeof *to);
    if (!c->within && !ls_same_device(c->from->device, c->to->device))
        task->session->streams->moved += c->n * sizeof *to;
}

static void add(ls_task *task, ls_turn *turn)
{
    (void)turn;
    const ls_copying *c = task->payload;
    float *to = c->to->data + c->to_offset;
    const ls_terms terms = {3, {to, c->from->data + c->from_offset, NULL}};
    task->executor->type->compute.sum(task->executor, &terms, to, c->n);
}

/* The task runs where its result lies; a result on the host is made by the device it comes from, and one in the host's
 * memory by the card it comes from, where alone it can be read. */
static ls_status hand_in(ls_session *session, ls_task_work *work, const ls_copying *c)
{
    bool from_there = c->to->device.type == LS_HOST || (c->from->pool->executor && !c->to->pool->executor);
    ls_task *task = ls_task_new(session, from_there ? c->from->device : c->to->device, work, sizeof *c);
    if (!task)
        return ls_status_of(session);
    memcpy(task->payload, c, sizeof *c);
    ls_task_reads(task, c->from);
    ls_task_writes(task, c->to);
    ls_task_hand_in(task);
    return ls_status_of(session);
}

ls_status ls_copy(ls_session *session, const ls_copying *c)
{
    return hand_in(session, copy, c);
}

/* A loss's number, which the host makes, may be added to one on a card. */
ls_status ls_add_up(ls_session *session, const ls_copying *c)
{
    ls_copying there = *c;
    there.from = ls_numbers_at(session, c->from, &there.from_offset, c->n, c->to->device);
    if (there.from)
        hand_in(session, add, &there);
    ls_array_drop(there.from);
    return ls_status_of(session);
}

ls_array *ls_numbers_at(ls_session *session, ls_array *array, size_t *offset, size_t n, ls_device device)
{
    const ls_arrays *arrays = ls_arrays_of(session, device);
    if (!arrays)
        return NULL;
    if (array->pool == arrays)
        return ls_array_hold(array);
    ls_copying c = {
        .from = array, .to = ls_array_on(session, device, n), .from_offset = *offset, .n = n, .within = true};
    *offset = 0;
    if (c.to && ls_copy(session, &c) == LS_OK)
        return c.to;
    ls_array_drop(c.to);
    return NULL;
}
