#include "parallel/engine.h"

#include "base/cores.h"
#include "comm/tree.h"

enum { SPINS = 4000 };

void ls_core_enter(ls_core *core)
{
    pthread_mutex_lock(&core->lock);
    unsigned ticket = core->next++;
    while (core->serving != ticket)
        pthread_cond_wait(&core->turn, &core->lock);
    pthread_mutex_unlock(&core->lock);
}

void ls_core_leave(ls_core *core)
{
    pthread_mutex_lock(&core->lock);
    core->serving++;
    if (core->next != core->serving)
        pthread_cond_broadcast(&core->turn);
    pthread_mutex_unlock(&core->lock);
}

int ls_spin(const ls_engine *engine, const atomic_int *flag)
{
    for (int i = 0; !engine->crowded && i < SPINS; i++) {
        if (atomic_load_explicit(flag, memory_order_acquire))
            return 1;
#if defined __x86_64__
        __builtin_ia32_pause();
#endif
    }
    return atomic_load_explicit(flag, memory_order_acquire);
}

static void *worker_main(void *argument)
{
    ls_worker *worker = argument;
    ls_engine *engine = worker->engine;
    ls_pin_to_core(worker->core->number);
    ls_set_arithmetic();
    pthread_mutex_lock(&engine->lock);
    for (;;) {
        while (!engine->stopping && worker->seen == engine->handed_in)
            pthread_cond_wait(&engine->submitted, &engine->lock);
        if (worker->seen == engine->handed_in)
            break;
        ls_job *job = engine->queue[worker->seen % LS_QUEUE];
        pthread_mutex_unlock(&engine->lock);
        job->work(job, worker);
        pthread_mutex_lock(&engine->lock);
        ls_job **slot = &engine->queue[worker->seen++ % LS_QUEUE];
        if (--job->left == 0) {
            *slot = NULL;
            pthread_cond_broadcast(&engine->finished);
        }
    }
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}

static ls_core *core_for(ls_engine *engine, int number)
{
    for (int i = 0; i < engine->n_cores; i++)
        if (engine->cores[i].number == number)
            return &engine->cores[i];
    ls_core *core = &engine->cores[engine->n_cores++];
    core->number = number;
    pthread_mutex_init(&core->lock, NULL);
    pthread_cond_init(&core->turn, NULL);
    return core;
}

static ls_status start_workers(ls_engine *engine, const ls_devices *devices)
{
    int cores = ls_core_count();
    engine->cores = ls_alloc(engine->context, (size_t)devices->n, sizeof *engine->cores, "the list of cores");
    engine->workers = ls_alloc(engine->context, (size_t)devices->n, sizeof *engine->workers, "the list of workers");
    if (!engine->cores || !engine->workers)
        return LS_OUT_OF_MEMORY;
    engine->crowded = devices->n > cores;
    for (int i = 0; i < devices->n; i++) {
        ls_core *core = core_for(engine, devices->at[i].index % cores);
        core->devices++;
        engine->crowded |= core->devices > 1;
    }
    for (int i = 0; i < devices->n; i++) {
        ls_worker *worker = &engine->workers[i];
        *worker = (ls_worker){.engine = engine, .device = devices->at[i]};
        worker->core = core_for(engine, devices->at[i].index % cores);
        if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0)
            return ls_raise(engine->context, LS_OUT_OF_MEMORY,
                            "no thread for cpu:%d; the system's limit on threads is reached", devices->at[i].index);
        worker->started = true;
        engine->n_workers++;
    }
    return LS_OK;
}

ls_engine *ls_engine_new(ls_context *context, const ls_devices *devices)
{
    ls_engine *engine = ls_alloc(context, 1, sizeof *engine, "the workers");
    if (!engine)
        return NULL;
    engine->context = context;
    pthread_mutex_init(&engine->lock, NULL);
    pthread_cond_init(&engine->submitted, NULL);
    pthread_cond_init(&engine->finished, NULL);
    if (start_workers(engine, devices) == LS_OK)
        return engine;
    ls_engine_free(engine);
    return NULL;
}

void ls_engine_free(ls_engine *engine)
{
    if (!engine)
        return;
    pthread_mutex_lock(&engine->lock);
    engine->stopping = true;
    pthread_cond_broadcast(&engine->submitted);
    pthread_mutex_unlock(&engine->lock);
    for (int i = 0; i < engine->n_workers; i++)
        pthread_join(engine->workers[i].thread, NULL);
    for (int i = 0; i < engine->n_cores; i++) {
        ls_core *core = &engine->cores[i];
        ls_release(engine->context, core->arena);
        ls_release(engine->context, core->scratch);
        ls_release(engine->context, core->sums);
        pthread_cond_destroy(&core->turn);
        pthread_mutex_destroy(&core->lock);
    }
    pthread_cond_destroy(&engine->finished);
    pthread_cond_destroy(&engine->submitted);
    pthread_mutex_destroy(&engine->lock);
    ls_release(engine->context, engine->cores);
    ls_release(engine->context, engine->workers);
    ls_release(engine->context, engine);
}

/* Replaces a block by a larger one; the content need not survive. */
static ls_status enlarge(ls_context *context, void **block, size_t bytes)
{
    ls_release(context, *block);
    *block = ls_alloc(context, bytes, 1, "a core's arena");
    return *block ? LS_OK : LS_OUT_OF_MEMORY;
}

ls_status ls_engine_reserve(ls_engine *engine, const ls_plan *plan)
{
    size_t floats = plan->arena_floats > engine->arena_floats ? plan->arena_floats : engine->arena_floats;
    size_t bytes = plan->scratch_bytes > engine->scratch_bytes ? plan->scratch_bytes : engine->scratch_bytes;
    for (int i = 0; i < engine->n_cores; i++) {
        ls_core *core = &engine->cores[i];
        void *arena = core->arena, *scratch = core->scratch;
        ls_status status = LS_OK;
        if (!arena || floats > engine->arena_floats)
            status = enlarge(engine->context, &arena, floats * sizeof(float));
        core->arena = arena;
        if (status == LS_OK && (!scratch || bytes > engine->scratch_bytes))
            status = enlarge(engine->context, &scratch, bytes);
        core->scratch = scratch;
        if (status == LS_OK && !core->sums)
            core->sums = ls_alloc(engine->context, 2 * LS_TREE_LEVELS * LS_TREE_BLOCK, sizeof(float), "a core's sums");
        if (status != LS_OK || !core->sums)
            return LS_OUT_OF_MEMORY;
    }
    engine->arena_floats = floats;
    engine->scratch_bytes = bytes;
    return LS_OK;
}

void ls_engine_submit(ls_engine *engine, ls_job *job)
{
    pthread_mutex_lock(&engine->lock);
    ls_job **slot = &engine->queue[engine->handed_in % LS_QUEUE];
    while (*slot)
        pthread_cond_wait(&engine->finished, &engine->lock);
    *slot = job;
    job->left = engine->n_workers;
    engine->handed_in++;
    pthread_cond_broadcast(&engine->submitted);
    pthread_mutex_unlock(&engine->lock);
}

void ls_engine_wait_job(ls_engine *engine, ls_job *job)
{
    pthread_mutex_lock(&engine->lock);
    while (job->left > 0)
        pthread_cond_wait(&engine->finished, &engine->lock);
    pthread_mutex_unlock(&engine->lock);
}

void ls_engine_wait(ls_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    for (int i = 0; i < LS_QUEUE; i++)
        while (engine->queue[i])
            pthread_cond_wait(&engine->finished, &engine->lock);
    pthread_mutex_unlock(&engine->lock);
}
