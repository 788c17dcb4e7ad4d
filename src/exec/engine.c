#include "exec/engine.h"

#include <stdio.h>
#include <time.h>

#include "base/cores.h"
#include "base/environment.h"
#include "base/thread.h"
#include "base/timer.h"
#include "cluster/cluster.h"

void ls_slow_down(const ls_worker *worker)
{
    const ls_trial *trial = &worker->engine->session->trial;
    if (trial->slow_seconds <= 0 || worker->device.type != LS_CPU || worker->device.index != trial->slow_cpu)
        return;
    struct timespec time = {(time_t)trial->slow_seconds,
                            (long)((trial->slow_seconds - (double)(time_t)trial->slow_seconds) * 1e9)};
    ls_turn_leave(worker->turn); /* others on its core are not slow */
    nanosleep(&time, NULL);
    ls_turn_enter(worker->turn);
}

/* One worker more has done the job. The lock is held. */
static void count_off(ls_engine *engine, const ls_job *done)
{
    for (int i = 0; i < LS_QUEUE; i++)
        if (engine->queue[i] == done && --engine->queue[i]->left == 0) {
            engine->queue[i] = NULL;
            pthread_cond_broadcast(&engine->finished);
            return;
        }
}

bool ls_engine_wait_recorded(ls_worker *worker)
{
    ls_engine *engine = worker->engine;
    ls_job *job = worker->open;
    if (!job)
        return true;
    const bool good = job->wait(job, worker);
    worker->open = NULL;
    pthread_mutex_lock(&engine->lock);
    count_off(engine, job);
    pthread_mutex_unlock(&engine->lock);
    return good;
}

static void wait_in_turn(ls_worker *worker)
{
    if (!worker->open)
        return;
    ls_turn_enter(worker->turn);
    ls_engine_wait_recorded(worker);
    ls_turn_leave(worker->turn);
}

/* Without a job to begin behind it: what is open is waited for once it is done, or somebody waits for it. The lock is
 * held, and let go meanwhile. */
static void look_after_open(ls_worker *worker)
{
    ls_engine *engine = worker->engine;
    bool now = worker->open->awaited;
    pthread_mutex_unlock(&engine->lock);
    ls_turn_enter(worker->turn);
    now = now || worker->open->is_ready(worker->open, worker);
    if (now)
        ls_engine_wait_recorded(worker);
    ls_turn_leave(worker->turn);
    pthread_mutex_lock(&engine->lock);
    if (!now && !worker->open->awaited && worker->seen == engine->handed_in)
        ls_timed_cond_wait(&engine->submitted, &engine->lock, LS_MOMENT);
}

/* False where the job is left open. */
static bool run(ls_worker *worker, ls_job *job)
{
    if (!job->follows)
        wait_in_turn(worker);
    if (!atomic_load(&worker->lost))
        job->work(job, worker);
    if (worker->open == job)
        return false;
    wait_in_turn(worker);
    return true;
}

static void *worker_main(void *argument)
{
    ls_worker *worker = argument;
    ls_engine *engine = worker->engine;
    if (worker->turn->executor->core >= 0)
        ls_pin_to_core(worker->turn->executor->core);
    LS_OWN_ENVIRONMENT;
    pthread_mutex_lock(&engine->lock);
    for (;;) {
        while (!engine->stopping && worker->seen == engine->handed_in)
            if (worker->open)
                look_after_open(worker);
            else
                pthread_cond_wait(&engine->submitted, &engine->lock);
        if (worker->seen == engine->handed_in)
            break;
        ls_job *job = engine->queue[worker->seen % LS_QUEUE];
        pthread_mutex_unlock(&engine->lock);
        const bool done = run(worker, job);
        pthread_mutex_lock(&engine->lock);
        worker->seen++;
        if (done)
            count_off(engine, job);
    }
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}

/* The first device with the same core as the i-th. */
static int first_on_core(const ls_engine *engine, int i)
{
    int first = 0;
    while (engine->workers[first].turn != engine->workers[i].turn)
        first++;
    return first;
}

static void add_backend(ls_engine *engine, const ls_backend *backend)
{
    for (int i = 0; i < engine->n_backends; i++)
        if (engine->backends[i] == backend)
            return;
    engine->backends[engine->n_backends++] = backend;
}

/* Who computes a shard is a matter of time. */
static ls_status refuse_other_model(const ls_worker *worker)
{
    ls_status status = LS_OK;
    for (const ls_worker *first = worker->engine->workers; first < worker && status == LS_OK; first++)
        status = ls_executors_match(first->turn->executor, worker->turn->executor);
    return status;
}

static ls_status start_workers(ls_engine *engine, ls_session *session, const ls_devices *devices)
{
    engine->workers = ls_alloc(engine->context, (size_t)devices->n, sizeof *engine->workers, "the list of workers");
    if (!engine->workers)
        return LS_OUT_OF_MEMORY;
    for (int i = 0; i < devices->n; i++) {
        ls_worker *worker = &engine->workers[i];
        *worker = (ls_worker){.engine = engine,
                              .turn = ls_turn_of(session, devices->at[i]),
                              .device = devices->at[i],
                              .pace = {.step = -1}};
        if (!worker->turn || refuse_other_model(worker) != LS_OK)
            return ls_status_of(session);
        add_backend(engine, worker->turn->executor->backend);
        int first = first_on_core(engine, i);
        worker->place = first < i ? engine->workers[first].place : engine->n_cores++;
        worker->sharing.own = worker;
        ls_sharing_join(&worker->sharing, &engine->team, worker->turn);
    }
    for (int i = 0; i < devices->n; i++) {
        ls_worker *worker = &engine->workers[i];
        ls_meter_start(&worker->meter);
        if (!ls_thread_start(&worker->thread, worker_main, worker))
            return ls_raise(engine->context, LS_OUT_OF_MEMORY,
                            "no thread for %s; the system's limit on threads is reached", worker->turn->executor->name);
        engine->n_workers++;
    }
    return LS_OK;
}

ls_engine *ls_engine_new(ls_session *session, const ls_devices *devices)
{
    ls_context *context = &session->context;
    ls_engine *engine = ls_alloc(context, 1, sizeof *engine, "the workers");
    if (!engine)
        return NULL;
    engine->session = session;
    engine->context = context;
    atomic_store(&engine->team.crowded, session->options.cluster && session->options.cluster->crowded);
    pthread_mutex_init(&engine->lock, NULL);
    ls_timed_cond_init(&engine->submitted);
    pthread_cond_init(&engine->finished, NULL);
    if (start_workers(engine, session, devices) == LS_OK)
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
    pthread_cond_destroy(&engine->finished);
    pthread_cond_destroy(&engine->submitted);
    pthread_mutex_destroy(&engine->lock);
    ls_release(engine->context, engine->workers);
    ls_release(engine->context, engine);
}

ls_status ls_engine_reserve(ls_engine *engine, const ls_plan *newest)
{
    for (int i = 0; i < engine->n_workers; i++) {
        ls_turn *turn = engine->workers[i].turn;
        if (!atomic_load(&engine->workers[i].lost) &&
            ls_turn_reserve(turn, ls_plan_for(newest, turn->executor->backend)) != LS_OK)
            return LS_OUT_OF_MEMORY;
    }
    return LS_OK;
}

bool ls_engine_lose(ls_worker *worker)
{
    ls_engine *engine = worker->engine;
    const ls_executor *executor = worker->turn->executor;
    bool others = false, said = false;
    pthread_mutex_lock(&engine->lock);
    for (const ls_worker *other = engine->workers; other < engine->workers + engine->n_workers; other++) {
        const bool lost = atomic_load(&other->lost);
        others |= !lost && other->turn != worker->turn;
        said |= lost && other->turn == worker->turn;
    }
    if (others) {
        if (!said)
            snprintf(worker->failure, sizeof worker->failure, "%s: %s; the others go on without it", executor->name,
                     executor->message);
        atomic_fetch_add(&engine->n_lost, 1);
        atomic_store(&worker->lost, true);
    }
    pthread_mutex_unlock(&engine->lock);
    return others;
}

void ls_engine_submit(ls_engine *engine, ls_job *job)
{
    pthread_mutex_lock(&engine->lock);
    ls_job **slot = &engine->queue[engine->handed_in % LS_QUEUE];
    while (*slot)
        pthread_cond_wait(&engine->finished, &engine->lock);
    *slot = job;
    job->left = engine->n_workers;
    job->awaited = false;
    engine->handed_in++;
    pthread_cond_broadcast(&engine->submitted);
    pthread_mutex_unlock(&engine->lock);
}

void ls_engine_wait_job(ls_engine *engine, ls_job *job)
{
    pthread_mutex_lock(&engine->lock);
    while (job->left > 0) {
        job->awaited = true;
        pthread_cond_wait(&engine->finished, &engine->lock);
    }
    pthread_mutex_unlock(&engine->lock);
}

void ls_engine_wait(ls_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    for (int i = 0; i < LS_QUEUE; i++)
        while (engine->queue[i]) {
            engine->queue[i]->awaited = true;
            pthread_cond_wait(&engine->finished, &engine->lock);
        }
    pthread_mutex_unlock(&engine->lock);
}
