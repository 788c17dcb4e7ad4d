#include "parallel/core.h"

#include "graph/tensor.h"

ls_core *ls_core_of(ls_session *session, ls_device device)
{
    const int number = ls_unit_number(device);
    for (ls_core *core = session->cores; core; core = core->next_core)
        if (core->number == number)
            return core;
    ls_core *core = ls_alloc(&session->context, 1, sizeof *core, "a core");
    ls_unit *unit = core ? ls_unit_open(&session->context, &session->options, device) : NULL;
    ls_unit *host = unit && unit->memory ? ls_unit_open(&session->context, &session->options, ls_cpu(0)) : unit;
    if (!host) {
        ls_unit_close(unit);
        ls_release(&session->context, core);
        return NULL;
    }
    *core = (ls_core){
        .context = &session->context, .number = number, .unit = unit, .host = host, .next_core = session->cores};
    ls_arrays_init(&core->arrays, &session->context, unit);
    pthread_mutex_init(&core->lock, NULL);
    for (int i = 0; i < LS_TURNS; i++)
        pthread_cond_init(&core->turn[i], NULL);
    return session->cores = core;
}

void ls_cores_free(ls_session *session)
{
    while (session->cores) {
        ls_core *core = session->cores;
        session->cores = core->next_core;
        ls_arrays_destroy(&core->arrays);
        ls_unit_release(core->unit, core->arena);
        ls_unit_release(core->unit, core->scratch);
        if (core->host != core->unit)
            ls_unit_close(core->host);
        ls_unit_close(core->unit);
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
    return core && core->unit->memory ? &core->arrays : &session->tensors->arrays;
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

/* Replace a block by a larger one, the unit's and the host's; the content need not survive. */
static void *enlarge(ls_core *core, void *block, size_t count, size_t size)
{
    ls_unit_release(core->unit, block);
    return ls_unit_alloc(core->unit, count, size, "an arena");
}

static void *enlarge_host(ls_core *core, void *block, size_t count, size_t size)
{
    ls_release(core->context, block);
    return ls_alloc(core->context, count, size, "a shard's samples");
}

static bool has_room(const ls_core *core, const ls_plan *plan)
{
    return core->arena && plan->arena_floats <= core->arena_floats && core->scratch &&
           plan->scratch_bytes <= core->scratch_bytes && (size_t)plan->capacity <= core->shard_images;
}

static ls_status make_room(ls_core *core, const ls_plan *plan)
{
    size_t images = (size_t)plan->capacity;
    if (!core->arena || plan->arena_floats > core->arena_floats) {
        core->arena = enlarge(core, core->arena, plan->arena_floats, sizeof(float));
        core->arena_floats = core->arena ? plan->arena_floats : 0;
    }
    if (!core->scratch || plan->scratch_bytes > core->scratch_bytes) {
        core->scratch = enlarge(core, core->scratch, plan->scratch_bytes, 1);
        core->scratch_bytes = core->scratch ? plan->scratch_bytes : 0;
    }
    if (images > core->shard_images) {
        core->index = enlarge_host(core, core->index, images, sizeof *core->index);
        core->changes = enlarge_host(core, core->changes, images, sizeof *core->changes);
        core->labels = enlarge_host(core, core->labels, images, sizeof *core->labels);
        core->shard_images = core->index && core->changes && core->labels ? images : 0;
    }
    return has_room(core, plan) ? LS_OK : LS_OUT_OF_MEMORY;
}

/* Only the session's caller changes the room, so it may look at it without the core's turn, which a device that is late may have. */
ls_status ls_core_reserve(ls_core *core, const ls_plan *plan)
{
    if (has_room(core, plan))
        return LS_OK;
    ls_core_enter(core);
    ls_status status = make_room(core, plan);
    ls_core_leave(core);
    return status;
}
