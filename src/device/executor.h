/* A place that computes, a core of the CPU or a card: its memory, and what can be done there. What an executor is
 * handed happens in the order handed in. A core has done it when the call returns; a card does it later, and the host
 * may look at nothing of it before `finish`. Whoever uses executors is written for the card, and loses nothing on a
 * core. Runs of plans alone may happen beside one another, each in a *side stream*: see `side_stream`.
 *
 * One thread at a time uses an executor. */
#pragma once

#include "base/context.h"
#include "device/backend.h"
#include "device/link.h"

enum { LS_MOST_TERMS = 64, LS_TERMS_DEPTH = 16, LS_MOST_MARKS = 1 << 16, LS_SQUARED = 2048, LS_MOST_SIDE_STREAMS = 4 };

/* A sum of vectors in a fixed order, worked off from the left on a stack that is never deeper than LS_TERMS_DEPTH: an
 * address puts the vector there on it; NULL puts the sum of the two upper ones in their place, the lower one being the
 * left operand. */
typedef struct ls_terms {
    int n;
    const float *at[2 * LS_MOST_TERMS];
} ls_terms;

/* What makes one run of a plan the same as another but for the samples: where everything lies. */
enum { LS_FORM_PLACES = 11 };
typedef struct ls_form {
    uint64_t plan; /* its number */
    int count;     /* images */
    bool passing;  /* what it reads or writes lies elsewhere each time: it is not worth keeping */
    const void *at[LS_FORM_PLACES], *scratch;
} ls_form;

typedef struct ls_executor ls_executor;
/* What an executor can do, in four tables. Its memory: */
typedef struct ls_executor_memory {
    /* Zeroed memory, aligned to 64 bytes; NULL where there is none. These two may be called by any thread at any
     * time. */
    void *(*allocate)(ls_executor *executor, size_t bytes);
    void (*release)(ls_executor *executor, void *memory);
    /* From the host's memory to the executor's and back. What was put may be changed at once; what was gotten is there
     * at once. */
    void (*put)(ls_executor *executor, void *to, const void *from, size_t bytes);
    void (*get)(ls_executor *executor, void *to, const void *from, size_t bytes);
    void (*zero)(ls_executor *executor, void *to, size_t bytes); /* of the executor's memory */

    /* Between the memories of this executor and of another of its type, which has finished what writes or reads there;
     * done in the order handed in. `reach`: that is to be done by the shortest way. Both NULL where there is one
     * memory. */
    void (*copy)(ls_executor *executor, void *to, const void *from, size_t bytes);
    void (*reach)(ls_executor *executor, ls_executor *other);
} ls_executor_memory;

/* What it computes: */
typedef struct ls_executor_compute {
    /* Memory for a run's results: n floats that are in `host` after the next `finish`. Before that the run of a plan
     * that they are of has to come, and nobody may free or use them. */
    float *(*stage_result)(ls_executor *executor, float *host, size_t n);
    /* Begins a run of a plan. True: one of this form was kept, and has been handed in again, with these samples. False:
     * the operations are to be handed in now, with `there` as the samples. `end` ends it in both cases. `begin` is NULL
     * where samples are read as they are, and nothing is kept. */
    bool (*begin)(ls_executor *executor, const ls_form *form, const ls_samples *samples, ls_samples *there);
    void (*end)(ls_executor *executor);
    /* Has a side stream, from 1 to `side_streams`, ready for runs that take so many bytes of memory which are not
     * allocated yet. False where there is not enough of it, or would not be left enough for others; nothing is wrong
     * then. NULL where there are no side streams. */
    bool (*open_side_stream)(ls_executor *executor, int side_stream, size_t bytes);

    /* n floats of the sum. `out` may be one of the vectors. */
    void (*sum)(ls_executor *executor, const ls_terms *terms, float *out, size_t n);
    /* The sum as the gradient of an update, see ls_update; `moments` are those of its first weight, NULL where
     * none are kept. False: a new number is not finite; it may be `finish` that tells. */
    bool (*update)(ls_executor *executor, const ls_terms *terms, float *out, const float *w, float *moments, size_t n,
                   const ls_update *how);

    /* To the host's memory: the squares of LS_SQUARED floats at a time, in double, added one after another, from the
     * first to the last; (n + LS_SQUARED - 1) / LS_SQUARED sums. Waits. */
    void (*square)(ls_executor *executor, const float *x, size_t n, double *sums);
} ls_executor_compute;

/* When that is done: */
typedef struct ls_executor_completion {
    /* Waits until everything is done. False where an update since the last time made a number that is not finite, and
     * `update` has not said so. */
    bool (*finish)(ls_executor *executor);
    /* Ends a piece of work, whose results `wait` waits for, and for nothing that was handed in behind it. *finite
     * becomes what `finish` would have returned, at `wait`, or earlier where the next `record` or `finish` comes first.
     * NULL: work is done when the call returns. */
    void (*record)(ls_executor *executor, bool *finite);
    void (*wait)(ls_executor *executor);
    bool (*is_done)(ls_executor *executor); /* whether `wait` would not wait */
    /* Hands in a mark and returns its number, from 0 behind each `finish`; -1 where there are LS_MOST_MARKS. `reached`,
     * between `finish` and the next mark, says when the executor came to it, by ls_seconds. NULL: work is done when the
     * call returns. */
    int (*mark)(ls_executor *executor);
    double (*reached)(ls_executor *executor, int mark);
} ls_executor_completion;

/* And transfers between executors of several processes: */
typedef struct ls_executor_peers {
    /* Connects executors of several ranks, one of each, whose `identity` differ; each waits for the others. False, and
     * nothing has changed, where that cannot be done, with why. The transfers between their memories come in groups,
     * see link.h, and in each executor in the order handed in, beside its other work. NULL: never. */
    bool (*connect)(ls_executor *executor, const ls_links *links, const ls_link_name *name, int rank, int ranks,
                    char *why, size_t why_size);
    void (*disconnect)(ls_executor *executor,
                       bool good); /* undoes it; `good`: with nothing under way, else that is cut off. Fine without */
    void (*begin_group)(ls_executor *executor);
    void (*send)(ls_executor *executor, int rank, const void *data, size_t bytes);
    void (*receive)(ls_executor *executor, int rank, void *data, size_t bytes);
    void (*end_group)(ls_executor *executor);
    /* Waits for transfers of one that has been connected just now, at most so many seconds. What comes of it is no
     * failure of the executor: NULL, or why they are not done. */
    const char *(*try_group)(ls_executor *executor, double seconds);
    void (*look)(ls_executor *executor); /* fails the executor where a transfer has failed; does not wait */
} ls_executor_peers;

/* All of it. There are two: device/cpu/executor.c has a core's, device/cuda/card.c a card's. */
typedef struct ls_executor_type {
    ls_executor_memory memory;
    ls_executor_compute compute;
    ls_executor_completion completion;
    ls_executor_peers peers;
    void (*close)(ls_executor *executor);
} ls_executor_type;

struct ls_executor {
    const ls_executor_type *type; /* a core's functions or a card's */
    const ls_backend *backend;
    ls_context *context;
    const char *name; /* "cpu:0", "cuda:0" */
    int memory;       /* executors of equal numbers compute in one memory; 0 is the host's */
    int core;         /* that its threads are to be pinned to; -1: none */
    size_t slice;     /* floats that are summed and updated at once, by one thread */
    size_t held;      /* bytes of the host's memory that it takes for itself */
    /* Of the next run, set before its results are staged; 0 again behind it. 0: it happens in its turn, as everything
     * else does. From 1 to `side_streams`: it may happen beside runs of other side streams, with which it must share
     * nothing that either of them writes; what else is handed in happens behind all runs in front of it, and in front
     * of all behind it. */
    int side_stream, side_streams;
    bool plain;                 /* for tests: no run is kept */
    int connected;              /* with those of other ranks, by that number of the cluster's; 0: not */
    unsigned char identity[16]; /* of a card, in all the world; else 0 */
    const char *model;          /* of a card: in other dtypes than float32 others round differently */
    /* Of a connected one (may be NULL): told while all that it still has to do is others' to go on with. */
    void (*waits)(void *user, bool waits);
    void *waits_user;
    struct ls_gpu_trace *gpu_trace;        /* gpu_trace.h; while there is one no run is kept. NULL: nobody measures */
    void (*traced)(ls_executor *executor); /* while there is a trace: the executor has finished */
    ls_status status;                      /* what went wrong there, and stays so */
    const char *message;
};

/* Opened by open.h. */
void ls_executor_close(ls_executor *executor); /* NULL is fine */

/* As ls_alloc, in the executor's memory. */
void *ls_executor_alloc(ls_executor *executor, size_t count, size_t size, const char *what);
void ls_executor_release(ls_executor *executor, void *memory); /* NULL is fine */

/* Waits; false where something went wrong. *finite (may be NULL) becomes false where an update made a number that is
 * not. */
bool ls_executor_await(ls_executor *executor, bool *finite);
ls_status ls_executor_finish(ls_executor *executor, bool *finite); /* the same, and raises what went wrong */
ls_status ls_executor_check(const ls_executor *executor);          /* raises what is known to have gone wrong */

/* Refuses two cards that are not of one model. */
ls_status ls_executors_match(const ls_executor *a, const ls_executor *b);
