#include "exec/turn.h"

#include "device/open.h"
#include "graph/tensor.h"

ls_turn *ls_turn_of(ls_session *session, ls_device device)
{
    const int number = ls_executor_number(device);
    for (ls_turn *turn = session->turns; turn; turn = turn->next_turn)
        if (turn->number == number)
            return turn;
    ls_turn *turn = ls_alloc(&session->context, 1, sizeof *turn, "a core");
    ls_executor *executor = turn ? ls_executor_open(&session->context, &session->options, device) : NULL;
    ls_executor *host =
        executor && executor->memory ? ls_executor_open(&session->context, &session->options, ls_cpu(0)) : executor;
    if (!host) {
        ls_executor_close(executor);
        ls_release(&session->context, turn);
        return NULL;
    }
    *turn = (ls_turn){.context = &session->context,
                      .number = number,
                      .executor = executor,
                      .host = host,
                      .next_turn = session->turns};
    const int most = session->options.in_flight;
    turn->side_streams = most && most < executor->side_streams ? most : executor->side_streams;
    for (int i = 0; i < turn->side_streams; i++)
        turn->rooms[i].refused = SIZE_MAX;
    ls_arrays_init(&turn->arrays, &session->context, executor);
    pthread_mutex_init(&turn->lock, NULL);
    for (int i = 0; i < LS_TURNS; i++)
        pthread_cond_init(&turn->woken[i], NULL);
    return session->turns = turn;
}

static void empty(ls_turn *turn, ls_room *room)
{
    ls_executor_release(turn->executor, room->arena);
    ls_executor_release(turn->executor, room->scratch);
    room->arena = NULL;
    room->scratch = NULL;
    room->arena_floats = room->scratch_bytes = 0;
}

void ls_turns_free(ls_session *session)
{
    while (session->turns) {
        ls_turn *turn = session->turns;
        session->turns = turn->next_turn;
        ls_arrays_destroy(&turn->arrays);
        for (int i = 0; i < LS_MOST_SIDE_STREAMS; i++)
            empty(turn, &turn->rooms[i]);
        if (turn->host != turn->executor)
            ls_executor_close(turn->host);
        ls_executor_close(turn->executor);
        ls_release(turn->context, turn->index);
        ls_release(turn->context, turn->changes);
        ls_release(turn->context, turn->labels);
        for (int i = 0; i < LS_TURNS; i++)
            pthread_cond_destroy(&turn->woken[i]);
        pthread_mutex_destroy(&turn->lock);
        ls_release(turn->context, turn);
    }
}

ls_arrays *ls_arrays_of(ls_session *session, ls_device device)
{
    const ls_tensors *tensors = ls_tensors_of(session);
    ls_turn *turn = tensors && device.type != LS_HOST ? ls_turn_of(session, device) : NULL;
    if (!tensors || (device.type != LS_HOST && !turn))
        return NULL;
    return turn && turn->executor->memory ? &turn->arrays : &session->tensors->arrays;
}

ls_array *ls_array_on(ls_session *session, ls_device device, size_t n)
{
    ls_arrays *arrays = ls_arrays_of(session, device);
    return arrays ? ls_array_new(arrays, device, n) : NULL;
}

void ls_turn_enter(ls_turn *turn)
{
    pthread_mutex_lock(&turn->lock);
    unsigned ticket = atomic_fetch_add(&turn->next, 1);
    while (atomic_load(&turn->serving) != ticket)
        pthread_cond_wait(&turn->woken[ticket % LS_TURNS], &turn->lock);
    pthread_mutex_unlock(&turn->lock);
}

void ls_turn_leave(ls_turn *turn)
{
    pthread_mutex_lock(&turn->lock);
    unsigned ticket = atomic_fetch_add(&turn->serving, 1) + 1;
    if (ticket != atomic_load(&turn->next))
        pthread_cond_broadcast(&turn->woken[ticket % LS_TURNS]);
    pthread_mutex_unlock(&turn->lock);
}

bool ls_turn_taken(const ls_turn *turn)
{
    return atomic_load_explicit(&turn->next, memory_order_relaxed) !=
           atomic_load_explicit(&turn->serving, memory_order_relaxed);
}

/* Replace a block by a larger one, the executor's and the host's; the content need not survive. */
static void *enlarge(ls_turn *turn, void *block, size_t count, size_t size)
{
    ls_executor_release(turn->executor, block);
    return ls_executor_alloc(turn->executor, count, size, "an arena");
}

static void *enlarge_host(ls_turn *turn, void *block, size_t count, size_t size)
{
    ls_release(turn->context, block);
    return ls_alloc(turn->context, count, size, "a shard's samples");
}

static bool is_room_for(const ls_room *room, const ls_plan *plan)
{
    return room->arena && plan->arena_floats <= room->arena_floats && room->scratch &&
           plan->scratch_bytes <= room->scratch_bytes;
}

static size_t labels_of(const ls_plan *plan)
{
    return (size_t)plan->capacity * (size_t)plan->labels_each;
}

static bool has_room(const ls_turn *turn, const ls_plan *plan)
{
    return is_room_for(&turn->rooms[0], plan) && (size_t)plan->capacity <= turn->shard_images &&
           labels_of(plan) <= turn->shard_labels;
}

static ls_status make_room(ls_turn *turn, const ls_plan *plan)
{
    ls_room *room = &turn->rooms[0];
    size_t images = (size_t)plan->capacity;
    if (!room->arena || plan->arena_floats > room->arena_floats) {
        room->arena = enlarge(turn, room->arena, plan->arena_floats, sizeof(float));
        room->arena_floats = room->arena ? plan->arena_floats : 0;
    }
    if (!room->scratch || plan->scratch_bytes > room->scratch_bytes) {
        room->scratch = enlarge(turn, room->scratch, plan->scratch_bytes, 1);
        room->scratch_bytes = room->scratch ? plan->scratch_bytes : 0;
        turn->scratch_bytes = room->scratch_bytes;
    }
    if (images > turn->shard_images) {
        turn->index = enlarge_host(turn, turn->index, images, sizeof *turn->index);
        turn->changes = enlarge_host(turn, turn->changes, images, sizeof *turn->changes);
        turn->shard_images = turn->index && turn->changes ? images : 0;
    }
    if (labels_of(plan) > turn->shard_labels) {
        turn->labels = enlarge_host(turn, turn->labels, labels_of(plan), sizeof *turn->labels);
        turn->shard_labels = turn->labels ? labels_of(plan) : 0;
    }
    return has_room(turn, plan) ? LS_OK : LS_OUT_OF_MEMORY;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Opens a side stream, and makes its room as large as this plan asks and those before did; the first one's is there. */
static void make_side_stream(ls_turn *turn, int number, const ls_plan *plan)
{
    const ls_executor_type *type = turn->executor->type;
    ls_room *room = &turn->rooms[number];
    const bool there = is_room_for(room, plan);
    const size_t floats = larger(plan->arena_floats, room->arena_floats),
                 scratch = larger(plan->scratch_bytes, room->scratch_bytes),
                 bytes = there ? 0 : floats * sizeof(float) + scratch;
    if (bytes >= room->refused)
        return;
    if (!there)
        empty(turn, room);
    room->open = type->compute.open_side_stream(turn->executor, 1 + number, bytes);
    if (room->open && !there) {
        room->arena = type->memory.allocate(turn->executor, floats * sizeof(float));
        room->scratch = type->memory.allocate(turn->executor, scratch);
        room->arena_floats = floats;
        room->scratch_bytes = scratch;
    }
    if (!room->open || !is_room_for(room, plan))
        room->refused = bytes;
    if (!is_room_for(room, plan))
        empty(turn, room);
}

int ls_turn_side_stream(ls_turn *turn, const ls_plan *plan, int run, int runs)
{
    const int side_streams = runs < turn->side_streams ? runs : turn->side_streams;
    if (side_streams < 2 || turn->executor->gpu_trace)
        return 0;
    const int number = run % side_streams;
    const ls_room *room = &turn->rooms[number];
    if (!room->open || !is_room_for(room, plan))
        make_side_stream(turn, number, plan);
    return room->open && is_room_for(room, plan) ? 1 + number : 0;
}

const ls_room *ls_turn_room(const ls_turn *turn)
{
    return &turn->rooms[turn->executor->side_stream ? turn->executor->side_stream - 1 : 0];
}

/* Only the session's caller changes the first room, so it may look at it without the core's turn, which a device that
 * is late may have. */
ls_status ls_turn_reserve(ls_turn *turn, const ls_plan *plan)
{
    if (has_room(turn, plan))
        return LS_OK;
    ls_turn_enter(turn);
    ls_status status = make_room(turn, plan);
    ls_turn_leave(turn);
    return status;
}
