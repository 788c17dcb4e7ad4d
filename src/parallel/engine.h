/* The workers of a list of devices, and the jobs they run. A CPU device is one thread on one core. Devices that share a core take
 * turns by whole pieces of work, and share the core's arena, so that their number costs no memory.
 *
 * Every worker runs every job, in the order handed in; a job's `work` returns when the whole job needs this worker no more. */
#ifndef LS_PARALLEL_ENGINE_H
#define LS_PARALLEL_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "graph/plan.h"

typedef struct ls_core {
    int number;  /* in the affinity mask */
    int devices; /* how many share it */
    pthread_mutex_t lock;
    pthread_cond_t turn;
    unsigned next, serving; /* tickets: turns are taken in the order asked for */
    float *arena;           /* for one shard of the largest plan */
    void *scratch;
    float *sums; /* for ls_tree_sum */
} ls_core;

typedef struct ls_worker {
    struct ls_engine *engine;
    ls_core *core;
    ls_device device;
    pthread_t thread;
    bool started;
    unsigned seen; /* jobs done */
} ls_worker;

typedef struct ls_job {
    void (*work)(struct ls_job *job, ls_worker *worker);
    int left; /* workers that have not returned from it; guarded by the engine's lock */
} ls_job;

enum { LS_QUEUE = 4 };

typedef struct ls_engine {
    ls_context *context;
    ls_core *cores;
    int n_cores;
    ls_worker *workers;
    int n_workers;
    bool crowded; /* more threads than cores: waiting must not spin */
    size_t arena_floats, scratch_bytes;
    pthread_mutex_t lock;
    pthread_cond_t submitted, finished;
    ls_job *queue[LS_QUEUE];
    unsigned handed_in;
    bool stopping;
} ls_engine;

/* NULL with the context's error when threads or memory cannot be had. */
ls_engine *ls_engine_new(ls_context *context, const ls_devices *devices);
void ls_engine_free(ls_engine *engine); /* after the last job */

/* Gives every core room for `plan`. No job may be running. */
ls_status ls_engine_reserve(ls_engine *engine, const ls_plan *plan);

void ls_engine_submit(ls_engine *engine, ls_job *job);
void ls_engine_wait_job(ls_engine *engine,
                        ls_job *job);   /* until that job is done (at once if it was never handed in) */
void ls_engine_wait(ls_engine *engine); /* until all are */

void ls_core_enter(ls_core *core);
void ls_core_leave(ls_core *core);

/* Waits a few microseconds for `flag` to become non-zero, where that is cheaper than sleeping; returns it. */
int ls_spin(const ls_engine *engine, const atomic_int *flag);

#endif
