/* The workers of a list of devices, and the jobs they run. A device is one thread: on a CPU that of its core, of a card
 * one that hands work in. Devices that share a core or a card take turns by whole pieces of work (turn.h).
 *
 * Every worker runs every job, in the order handed in; a job's `work` returns when the whole job needs this worker no
 * more, but for what is left to be waited for. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "exec/turn.h"
#include "exec/meter.h"
#include "exec/sharing.h"

/* How fast a device computes shards, see pull.h. */
typedef struct ls_device_pace {
    _Atomic double seconds; /* of a whole shard, of late; 0: none so far */
    int64_t step;           /* whose last shards it leaves to faster ones, */
    double since;           /* and since when */
    bool took;              /* it has computed one since */
} ls_device_pace;

typedef struct ls_worker {
    struct ls_engine *engine;
    ls_turn *turn;
    int place; /* of its core among those of the engine's workers */
    ls_device device;
    pthread_t thread;
    unsigned seen;       /* jobs done, but for `open` */
    struct ls_job *open; /* that its work left to be waited for; the worker's own */
    atomic_bool lost;    /* its device has failed: it does nothing more */
    char failure[400];   /* why, from then on; "" where another device of that card's has said so */
    bool told;           /* that, to the caller */
    ls_device_pace pace;
    ls_meter meter;
    ls_sharing sharing;
} ls_worker;

typedef struct ls_job {
    void (*work)(struct ls_job *job, ls_worker *worker);
    /* Of a job whose work may return before all that it has handed to the worker's executor is known, and then leaves
     * the job as worker->open: looks at what came of it, in its core's turn. False where nothing may go on from there.
     */
    bool (*wait)(struct ls_job *job, ls_worker *worker);
    bool (*is_ready)(struct ls_job *job,
                     ls_worker *worker); /* does of that what need not be waited for: it would not wait */
    bool follows; /* its work waits for what is open, before it leaves itself to be waited for; else that is done before
                   */
    /* guarded by the engine's lock: */
    int left;     /* workers that have not done it */
    bool awaited; /* by a thread */
} ls_job;

enum { LS_QUEUE = 4, LS_KINDS = 2 };

#define LS_MOMENT                                                                                                      \
    5e-5 /* seconds for which a worker waits awake for what others of a job do, and sleeps beside what it has open */

typedef struct ls_engine {
    ls_session *session;
    ls_context *context;
    int n_cores; /* how many different ones the workers have */
    ls_worker *workers;
    int n_workers;
    const ls_backend *backends[LS_KINDS]; /* the workers': one, or the CPUs' and the cards' */
    int n_backends;
    atomic_int n_lost;
    ls_team team; /* the workers */
    pthread_mutex_t lock;
    pthread_cond_t submitted, finished;
    ls_job *queue[LS_QUEUE];
    unsigned handed_in;
    bool stopping;
} ls_engine;

/* NULL with the context's error when threads or memory cannot be had. */
ls_engine *ls_engine_new(ls_session *session, const ls_devices *devices);
void ls_engine_free(ls_engine *engine); /* after the last job */

/* Gives every core room for its own of a computation's plans, when its turn comes. */
ls_status ls_engine_reserve(ls_engine *engine, const ls_plan *newest);

/* The worker's executor has failed. False, and nothing has changed, where there is no other that could go on without
 * it. */
bool ls_engine_lose(ls_worker *worker);

void ls_engine_submit(ls_engine *engine, ls_job *job);
void ls_engine_wait_job(ls_engine *engine,
                        ls_job *job);   /* until that job is done (at once if it was never handed in) */
void ls_engine_wait(ls_engine *engine); /* until all are */

/* Waits for what the worker has open, in its core's turn. False where that was something, and nothing may go on from
 * there. */
bool ls_engine_wait_recorded(ls_worker *worker);

/* Sleeps where the session's options make this worker's device a slow one, without its core's turn, which it must
 * have. */
void ls_slow_down(const ls_worker *worker);
