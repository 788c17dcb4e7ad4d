#include "exec/stream.h"

#include <string.h>

#include "base/cores.h"
#include "base/environment.h"
#include "base/thread.h"
#include "cluster/cluster.h"
#include "device/open.h"

/* Tasks are used again for other work, in no certain order: room for most kinds from the start, so that a loop soon
 * allocates nothing. */
enum { LEAST_PAYLOAD = 2048, LEAST_ROOM = 64 };

static const uint64_t NOBODY = UINT64_MAX;

/* Seconds for which a thread waits awake. */
static const double PATIENCE = 5e-4;

typedef struct point {
    ls_stream *stream;
    uint64_t ticket;
} point;

static void recycle(ls_streams *streams, ls_task *task)
{
    if (task->finish)
        task->finish(task);
    for (int i = 0; i < task->n_held; i++)
        ls_array_drop(task->held[i].array);
    task->n_held = task->n_waits = 0;
    pthread_mutex_lock(&streams->lock);
    task->next = streams->free;
    streams->free = task;
    ls_stream *stream = task->stream;
    if (stream && ++stream->done >= stream->awaited) {
        stream->awaited = NOBODY;
        pthread_cond_broadcast(&streams->changed);
    }
    pthread_mutex_unlock(&streams->lock);
}

static bool is_done(void *user)
{
    const point *p = user;
    return atomic_load(&p->stream->done) >= p->ticket;
}

/* Until the stream's task with that ticket is done; the lock is held. */
static void await(ls_streams *streams, point p)
{
    while (!is_done(&p)) {
        if (p.ticket < p.stream->awaited)
            p.stream->awaited = p.ticket;
        pthread_cond_wait(&streams->changed, &streams->lock);
    }
}

/* Awake at first, as the devices of one step wait for each other for microseconds, and helping others meanwhile. */
static void await_awake(ls_stream *stream, bool (*found)(void *user), void *user)
{
    ls_sharing_enter(&stream->sharing);
    while (ls_sharing_await(&stream->sharing, PATIENCE, found, user) && !found(user)) {
        ls_turn_enter(stream->turn);
        ls_sharing_take(&stream->sharing);
        ls_turn_leave(stream->turn);
    }
    ls_sharing_leave(&stream->sharing);
}

static void await_others(ls_streams *streams, const ls_task *task)
{
    pthread_mutex_lock(&streams->lock);
    for (int i = 0; i < task->n_waits; i++)
        for (ls_stream *stream = streams->list; stream; stream = stream->next_stream) {
            point p = {stream, task->waits[i].ticket};
            if (stream->number != task->waits[i].stream || is_done(&p))
                continue;
            if (task->stream) {
                pthread_mutex_unlock(&streams->lock);
                await_awake(task->stream, is_done, &p);
                pthread_mutex_lock(&streams->lock);
            }
            await(streams, p);
        }
    pthread_mutex_unlock(&streams->lock);
}

/* Nobody may take for numbers what the task should have written. A failure elsewhere meanwhile loses them too: which
 * task raised it is not known here. */
static void lose(ls_task *task)
{
    for (int i = 0; i < task->n_held && !task->keeps; i++)
        if (task->held[i].writes)
            atomic_store(&task->held[i].array->lost, true);
}

static void compute(ls_task *task, ls_turn *turn)
{
    bool finite = true;
    task->work(task, turn);
    if (ls_executor_finish(task->executor, &finite) != LS_OK)
        atomic_store(&task->session->broken, true);
    else if (task->check)
        task->check(task, finite);
}

static void do_task(ls_streams *streams, ls_task *task, ls_turn *turn)
{
    await_others(streams, task);
    if (turn)
        ls_turn_enter(turn);
    if (!task->dropped && !atomic_load(&streams->session->broken))
        compute(task, turn);
    if (task->dropped || atomic_load(&streams->session->broken))
        lose(task);
    if (turn)
        ls_turn_leave(turn);
    recycle(streams, task);
}

static bool has_task(void *user)
{
    ls_stream *stream = user;
    return atomic_load(&stream->first) != NULL;
}

static void *stream_main(void *argument)
{
    ls_stream *stream = argument;
    ls_streams *streams = stream->streams;
    if (stream->turn->executor->core >= 0)
        ls_pin_to_core(stream->turn->executor->core);
    LS_OWN_ENVIRONMENT;
    pthread_mutex_lock(&streams->lock);
    for (;;) {
        if (!stream->first && !streams->stopping) {
            pthread_mutex_unlock(&streams->lock);
            await_awake(stream, has_task, stream);
            pthread_mutex_lock(&streams->lock);
        }
        while (!stream->first && !streams->stopping)
            pthread_cond_wait(&stream->handed, &streams->lock);
        ls_task *task = stream->first;
        if (!task)
            break;
        stream->first = task->next;
        pthread_mutex_unlock(&streams->lock);
        do_task(streams, task, stream->turn);
        pthread_mutex_lock(&streams->lock);
    }
    pthread_mutex_unlock(&streams->lock);
    return NULL;
}

ls_streams *ls_streams_of(ls_session *session)
{
    if (session->streams)
        return session->streams;
    ls_streams *streams = ls_alloc(&session->context, 1, sizeof *streams, "the devices' queues");
    if (!streams)
        return NULL;
    streams->session = session;
    atomic_store(&streams->team.crowded, session->options.cluster && session->options.cluster->crowded);
    pthread_mutex_init(&streams->lock, NULL);
    pthread_cond_init(&streams->changed, NULL);
    return session->streams = streams;
}

void ls_streams_wait(ls_session *session)
{
    ls_streams *streams = session->streams;
    if (!streams)
        return;
    pthread_mutex_lock(&streams->lock);
    for (ls_stream *stream = streams->list; stream; stream = stream->next_stream)
        await(streams, (point){stream, stream->handed_in});
    pthread_mutex_unlock(&streams->lock);
}

void ls_streams_free(ls_session *session)
{
    ls_streams *streams = session->streams;
    if (!streams)
        return;
    ls_context *context = &session->context;
    pthread_mutex_lock(&streams->lock);
    streams->stopping = true;
    for (ls_stream *stream = streams->list; stream; stream = stream->next_stream)
        pthread_cond_signal(&stream->handed);
    pthread_mutex_unlock(&streams->lock);
    for (ls_stream *stream = streams->list; stream; stream = stream->next_stream) /* each looks at the others' */
        pthread_join(stream->thread, NULL);
    while (streams->list) {
        ls_stream *stream = streams->list;
        streams->list = stream->next_stream;
        pthread_cond_destroy(&stream->handed);
        ls_release(context, stream);
    }
    while (streams->free) {
        ls_task *task = streams->free;
        streams->free = task->next;
        ls_release(context, task->waits);
        ls_release(context, task->held);
        ls_release(context, task->payload);
        ls_release(context, task);
    }
    ls_executor_close(streams->host);
    pthread_cond_destroy(&streams->changed);
    pthread_mutex_destroy(&streams->lock);
    ls_release(context, streams);
    session->streams = NULL;
}

/* Copies between cards are to go by the shortest way. */
static void reach_others(const ls_stream *stream)
{
    ls_executor *executor = stream->turn->executor;
    if (!executor->memory)
        return;
    ls_turn_enter(stream->turn);
    for (const ls_stream *other = stream->streams->list; other; other = other->next_stream)
        if (other->turn->executor->memory && other->turn->executor != executor)
            executor->type->memory.reach(executor, other->turn->executor);
    ls_turn_leave(stream->turn);
}

ls_stream *ls_stream_for(ls_session *session, ls_device device)
{
    ls_streams *streams = ls_streams_of(session);
    if (!streams)
        return NULL;
    for (ls_stream *stream = streams->list; stream; stream = stream->next_stream)
        if (ls_same_device(stream->device, device))
            return stream;
    ls_stream *stream = ls_alloc(&session->context, 1, sizeof *stream, "a device's queue");
    ls_turn *turn = stream ? ls_turn_of(session, device) : NULL;
    if (!turn) {
        ls_release(&session->context, stream);
        return NULL;
    }
    *stream =
        (ls_stream){.streams = streams, .device = device, .number = streams->n + 1, .turn = turn, .awaited = NOBODY};
    pthread_cond_init(&stream->handed, NULL);
    pthread_mutex_lock(&streams->lock); /* which the thread waits for */
    if (!ls_thread_start(&stream->thread, stream_main, stream)) {
        pthread_mutex_unlock(&streams->lock);
        ls_raise(&session->context, LS_OUT_OF_MEMORY, "no thread for %s; the system's limit on threads is reached",
                 turn->executor->name);
        pthread_cond_destroy(&stream->handed);
        ls_release(&session->context, stream);
        return NULL;
    }
    ls_sharing_join(&stream->sharing, &streams->team, turn);
    streams->n++;
    stream->next_stream = streams->list;
    streams->list = stream;
    pthread_mutex_unlock(&streams->lock);
    reach_others(stream);
    return stream;
}

/* ---- Tasks ---- */

static ls_task *take_task(ls_streams *streams)
{
    pthread_mutex_lock(&streams->lock);
    ls_task *task = streams->free;
    if (task)
        streams->free = task->next;
    pthread_mutex_unlock(&streams->lock);
    return task ? task : ls_alloc(&streams->session->context, 1, sizeof *task, "a task");
}

static ls_executor *host_executor(ls_streams *streams)
{
    if (!streams->host)
        streams->host = ls_executor_open(&streams->session->context, &streams->session->options, ls_cpu(0));
    return streams->host;
}

ls_task *ls_task_new(ls_session *session, ls_device device, ls_task_work *work, size_t payload)
{
    ls_streams *streams = ls_failed(session) ? NULL : ls_streams_of(session);
    ls_stream *stream = streams && device.type != LS_HOST ? ls_stream_for(session, device) : NULL;
    ls_executor *executor = stream                              ? stream->turn->executor
                            : streams && device.type == LS_HOST ? host_executor(streams)
                                                                : NULL;
    if (!executor)
        return NULL;
    ls_task *task = take_task(streams);
    if (!task)
        return NULL;
    if (payload < LEAST_PAYLOAD)
        payload = LEAST_PAYLOAD;
    if (task->payload_size < payload) {
        ls_release(&session->context, task->payload);
        task->payload = ls_alloc(&session->context, payload, 1, "a task");
        task->payload_size = task->payload ? payload : 0;
    }
    task->next = NULL;
    task->session = session;
    task->executor = executor;
    task->work = work;
    task->check = NULL;
    task->finish = NULL;
    task->keeps = false;
    task->stream = stream;
    task->mark = (ls_mark){stream ? stream->number : 0, stream ? stream->handed_in + 1 : 0};
    if (task->payload_size >= payload)
        return task;
    task->stream = NULL;
    recycle(streams, task);
    return NULL;
}

static void wait_for(ls_task *task, ls_mark mark)
{
    if (!mark.ticket || mark.stream == task->mark.stream)
        return;
    ls_mark *waits = ls_grow(&task->session->context, task->waits, task->n_waits, &task->waits_capacity, LEAST_ROOM,
                             sizeof *waits, "a task");
    if (!waits)
        return;
    task->waits = waits;
    task->waits[task->n_waits++] = mark;
}

static bool hold(ls_task *task, ls_array *array, bool writes)
{
    ls_holding *held = ls_grow(&task->session->context, task->held, task->n_held, &task->held_capacity, LEAST_ROOM,
                               sizeof *held, "a task");
    if (!held)
        return false;
    task->held = held;
    task->held[task->n_held++] = (ls_holding){ls_array_hold(array), writes};
    return true;
}

/* Steps are no tasks: who comes after one waits for it here. */
static void await_step(const ls_task *task, ls_array *array)
{
    if (array->in_step)
        ls_wait(task->session);
    array->in_step = false;
}

void ls_task_reads(ls_task *task, ls_array *array)
{
    await_step(task, array);
    if (!hold(task, array, false))
        return;
    wait_for(task, array->written);
    if (task->stream)
        ls_array_note_read(array, task->mark);
}

void ls_task_writes(ls_task *task, ls_array *array)
{
    await_step(task, array);
    if (!hold(task, array, true))
        return;
    wait_for(task, array->written);
    for (int i = 0; i < array->n_reads; i++)
        wait_for(task, array->reads[i]);
    ls_array_note_write(array, task->mark);
}

void ls_task_hand_in(ls_task *task)
{
    ls_streams *streams = task->session->streams;
    ls_stream *stream = task->stream;
    task->dropped = ls_failed(task->session);
    if (!stream) {
        do_task(streams, task, NULL);
        return;
    }
    stream->handed_in++;
    pthread_mutex_lock(&streams->lock);
    if (stream->handed_in - stream->done > LS_IN_FLIGHT)
        await(streams, (point){stream, stream->handed_in - LS_IN_FLIGHT / 2}); /* not woken for every task */
    if (stream->first)
        stream->last->next = task;
    else
        stream->first = task;
    stream->last = task;
    pthread_cond_signal(&stream->handed);
    pthread_mutex_unlock(&streams->lock);
}
