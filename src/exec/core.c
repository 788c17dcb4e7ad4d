#include "exec/core.h"

#include "device/open.h"
#include "graph/tensor.h"

ls_core *ls_core_of(ls_session *session, ls_device device)
{
    const int number = ls_executor_number(device);
    for (ls_core *core = session->cores; core; core = core->next_core)
        if (core->number == number)
            return core;
    ls_core *core = ls_alloc(&session->context, 1, sizeof *core, "a core");
    ls_executor *executor = core ? ls_executor_open(&session->context, &session->options, device) : NULL;
    ls_executor *host =
        executor && executor->memory ? ls_executor_open(&session->context, &session->options, ls_cpu(0)) : executor;
    if (!host) {
        ls_executor_close(executor);
        ls_release(&session->context, core);
        return NULL;
    }
    *core = (ls_core){.context = &session->context,
                      .number = number,
                      .executor = executor,
                      .host = host,
                      .next_core = session->cores};
    const int most = session->options.in_flight;
    core->strands = most && most < executor->strands ? most : executor->strands;
    for (int i = 0; i < core->strands; i++)
        core->rooms[i].refused = SIZE_MAX;
    ls_arrays_init(&core->arrays, &session->context, executor);
    pthread_mutex_init(&core->lock, NULL);
    for (int i = 0; i < LS_TURNS; i++)
        pthread_cond_init(&core->turn[i], NULL);
    return session->cores = core;
}

static void empty(ls_core *core, ls_room *room)
{
    ls_executor_release(core->executor, room->arena);
    ls_executor_release(core->executor, room->scratch);
    room->arena = NULL;
    room->scratch = NULL;
    room->arena_floats = room->scratch_bytes = 0;
}

void ls_cores_free(ls_session *session)
{
    while (session->cores) {
        ls_core *core = session->cores;
        session->cores = core->next_core;
        ls_arrays_destroy(&core->arrays);
        for (int i = 0; i < LS_MOST_STRANDS; i++)
            empty(core, &core->rooms[i]);
        if (core->host != core->executor)
            ls_executor_close(core->host);
        ls_executor_close(core->executor);
        ls_release(core->context, core->index);
        ls_release(core->context, core->changes);
        ls_release(core->context, core->labels);
        for (int i = 0; i < LS_TURNS; i++)
            pthread_cond_destroy(&core->turn[i]);
        pthread_mutex_destroy(&core->lock);
        ls_release(core->context, core);
    }
}

ls_arrays *ls_arrays_of(ls_session *session, ls_device device)
{
    const ls_tensors *tensors = ls_tensors_of(session);
    ls_core *core = tensors && device.type != LS_HOST ? ls_core_of(session, device) : NULL;
    if (!tensors || (device.type != LS_HOST && !core))
        return NULL;
    return core && core->executor->memory ? &core->arrays : &session->tensors->arrays;
}

ls_array *ls_array_on(ls_session *session, ls_device device, size_t n)
{
    ls_arrays *arrays = ls_arrays_of(session, device);
    return arrays ? ls_array_new(arrays, device, n) : NULL;
}

void ls_core_enter(ls_core *core)
{
    pthread_mutex_lock(&core->lock);
    unsigned ticket = atomic_fetch_add(&core->next, 1);
    while (atomic_load(&core->serving) != ticket)
        pthread_cond_wait(&core->turn[ticket % LS_TURNS], &core->lock);
    pthread_mutex_unlock(&core->lock);
}

void ls_core_leave(ls_core *core)
{
    pthread_mutex_lock(&core->lock);
    unsigned ticket = atomic_fetch_add(&core->serving, 1) + 1;
    if (ticket != atomic_load(&core->next))
        pthread_cond_broadcast(&core->turn[ticket % LS_TURNS]);
    pthread_mutex_unlock(&core->lock);
}

bool ls_core_taken(const ls_core *core)
{
    return atomic_load_explicit(&core->next, memory_order_relaxed) !=
           atomic_load_explicit(&core->serving, memory_order_relaxed);
}

/* Replace a block by a larger one, the executor's and the host's; the content need not survive. */
static void *enlarge(ls_core *core, void *block, size_t count, size_t size)
{
    ls_executor_release(core->executor, block);
    return ls_executor_alloc(core->executor, count, size, "an arena");
}

static void *enlarge_host(ls_core *core, void *block, size_t count, size_t size)
{
    ls_release(core->context, block);
    return ls_alloc(core->context, count, size, "a shard's samples");
}

static bool is_room_for(const ls_room *room, const ls_plan *plan)
{
    return room->arena && plan->arena_floats <= room->arena_floats && room->scratch &&
           plan->scratch_bytes <= room->scratch_bytes;
}

static bool has_room(const ls_core *core, const ls_plan *plan)
{
    return is_room_for(&core->rooms[0], plan) && (size_t)plan->capacity <= core->shard_images;
}

static ls_status make_room(ls_core *core, const ls_plan *plan)
{
    ls_room *room = &core->rooms[0];
    size_t images = (size_t)plan->capacity;
    if (!room->arena || plan->arena_floats > room->arena_floats) {
        room->arena = enlarge(core, room->arena, plan->arena_floats, sizeof(float));
        room->arena_floats = room->arena ? plan->arena_floats : 0;
    }
    if (!room->scratch || plan->scratch_bytes > room->scratch_bytes) {
        room->scratch = enlarge(core, room->scratch, plan->scratch_bytes, 1);
        room->scratch_bytes = room->scratch ? plan->scratch_bytes : 0;
        core->scratch_bytes = room->scratch_bytes;
    }
    if (images > core->shard_images) {
        core->index = enlarge_host(core, core->index, images, sizeof *core->index);
        core->changes = enlarge_host(core, core->changes, images, sizeof *core->changes);
        core->labels = enlarge_host(core, core->labels, images, sizeof *core->labels);
        core->shard_images = core->index && core->changes && core->labels ? images : 0;
    }
    return has_room(core, plan) ? LS_OK : LS_OUT_OF_MEMORY;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Opens a strand, and makes its room as large as this plan asks and those before did; the first one's is there. */
static void make_strand(ls_core *core, int number, const ls_plan *plan)
{
    const ls_executor_type *type = core->executor->type;
    ls_room *room = &core->rooms[number];
    const bool there = is_room_for(room, plan);
    const size_t floats = larger(plan->arena_floats, room->arena_floats),
                 scratch = larger(plan->scratch_bytes, room->scratch_bytes),
                 bytes = there ? 0 : floats * sizeof(float) + scratch;
    if (bytes >= room->refused)
        return;
    if (!there)
        empty(core, room);
    room->open = type->open_strand(core->executor, 1 + number, bytes);
    if (room->open && !there) {
        room->arena = type->allocate(core->executor, floats * sizeof(float));
        room->scratch = type->allocate(core->executor, scratch);
        room->arena_floats = floats;
        room->scratch_bytes = scratch;
    }
    if (!room->open || !is_room_for(room, plan))
        room->refused = bytes;
    if (!is_room_for(room, plan))
        empty(core, room);
}

int ls_core_strand(ls_core *core, const ls_plan *plan, int run, int runs)
{
    const int strands = runs < core->strands ? runs : core->strands;
    if (strands < 2 || core->executor->gpu_trace)
        return 0;
    const int number = run % strands;
    const ls_room *room = &core->rooms[number];
    if (!room->open || !is_room_for(room, plan))
        make_strand(core, number, plan);
    return room->open && is_room_for(room, plan) ? 1 + number : 0;
}

const ls_room *ls_core_room(const ls_core *core)
{
    return &core->rooms[core->executor->strand ? core->executor->strand - 1 : 0];
}

/* Only the session's caller changes the first room, so it may look at it without the core's turn, which a device that
 * is late may have. */
ls_status ls_core_reserve(ls_core *core, const ls_plan *plan)
{
    if (has_room(core, plan))
        return LS_OK;
    ls_core_enter(core);
    ls_status status = make_room(core, plan);
    ls_core_leave(core);
    return status;
}
