/* Work handed to devices one by one: each device has a thread that does its tasks in the order handed in. A task says
 * which arrays it reads and writes, and starts when what came before it on other devices is done with them. It is done
 * when its executor has finished what it handed in, so that nobody who waits for a task need know whether it ran on a
 * core or a card. */
#pragma once

#include "exec/sharing.h"
#include "graph/tensor.h"

typedef struct ls_task ls_task;
typedef void ls_task_work(ls_task *task, ls_turn *turn);

enum { LS_IN_FLIGHT = 256 }; /* tasks of one device at most; handing in more waits */

typedef struct ls_stream {
    struct ls_streams *streams;
    struct ls_stream *next_stream;
    ls_device device;
    int number; /* from 1 */
    ls_turn *turn;
    ls_sharing sharing;
    pthread_t thread;
    /* Written under the streams' lock: */
    _Atomic(ls_task *) first;
    ls_task *last;
    _Atomic uint64_t done; /* tasks */
    uint64_t awaited;      /* the first ticket that somebody sleeps for */
    pthread_cond_t handed; /* the thread sleeps for a task */
    uint64_t handed_in;    /* known to the session's thread */
} ls_stream;

typedef struct ls_streams {
    ls_session *session;
    ls_stream *list;
    int n;
    ls_team team; /* the streams */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an awaited task is done */
    ls_task *free;          /* guarded */
    ls_executor *host;      /* of tasks that the caller's thread does; NULL: there was none yet */
    bool stopping;
    _Atomic uint64_t moved; /* bytes copied from one device to another */
} ls_streams;

/* `work` reads what it needs from the fields below it; each kind of task uses those it names. */
/* An array that a task reads, or writes. */
typedef struct ls_holding {
    ls_array *array;
    bool writes;
} ls_holding;

struct ls_task {
    ls_task *next;
    ls_stream *stream; /* NULL: done by the thread that hands it in */
    ls_session *session;
    ls_executor *executor; /* the stream's, or the host's; whoever does the task has its turn */
    ls_task_work *work;
    /* Once the executor has finished: looks at what came of it. `finite` as ls_executor_finish has it. May be NULL. */
    void (*check)(ls_task *task, bool finite);
    void (*finish)(ls_task *task); /* when the task is over, done or dropped; may be NULL */
    ls_mark mark;
    bool dropped; /* it was handed in after a failure and may lack operands */
    ls_mark *waits;
    int n_waits, waits_capacity;
    ls_holding *held; /* until the task is done */
    bool keeps;       /* a task that is dropped or fails leaves what it writes as it was */
    int n_held, held_capacity;
    void *payload; /* of `payload_size` bytes; undefined content */
    size_t payload_size;
};

ls_streams *ls_streams_of(ls_session *session); /* NULL when memory runs out */
void ls_streams_wait(ls_session *session);      /* until every task is done */
void ls_streams_free(ls_session *session);

/* A task for `device` (the host: done at once by the caller), with room for `payload` bytes; NULL after a failure. */
ls_task *ls_task_new(ls_session *session, ls_device device, ls_task_work *work, size_t payload);
void ls_task_reads(ls_task *task, ls_array *array);
void ls_task_writes(ls_task *task, ls_array *array);
void ls_task_hand_in(ls_task *task); /* or drops it when the session has failed */

ls_stream *ls_stream_for(ls_session *session, ls_device device); /* not of the host; NULL after a failure */
