/* Turns at an executor: devices that share a core, or a card, take them for whole pieces of work, and share its
 * arena, so that their number costs no memory. */
#pragma once

#include <stdatomic.h>

#include "device/executor.h"
#include "graph/plan.h"
#include "tensor/array.h"

enum { LS_TURNS = 16 };

/* For one shard of a plan, in the executor's memory. */
typedef struct ls_room {
    float *arena;
    void *scratch;
    size_t arena_floats, scratch_bytes;
    bool open;      /* its side stream */
    size_t refused; /* so many bytes there was no memory for */
} ls_room;

typedef struct ls_turn {
    ls_context *context;
    struct ls_turn *next_turn;
    int number; /* ls_executor_number */
    ls_executor *executor;
    ls_executor *host; /* sums of what lies in the host's memory: the same one, or of a card one beside it */
    ls_arrays arrays;  /* of a memory that is not the host's; else none */
    pthread_mutex_t lock;
    pthread_cond_t woken[LS_TURNS]; /* ticket t waits at t mod LS_TURNS, so that mostly the next one alone is woken */
    atomic_uint next, serving; /* tickets: turns are taken in the order asked for; the lock is held to change them */
    /* Used by whoever has the turn; the first room is for the largest plan, and of runs in no side stream, the others
     * are those of the second side stream and on, made where there is a use for them. */
    ls_room rooms[LS_MOST_SIDE_STREAMS];
    int side_streams; /* that may be used */
    uint32_t *index;  /* sample numbers, changes and labels of the shard */
    ls_change *changes;
    int32_t *labels;
    size_t shard_images, shard_labels;
    atomic_size_t scratch_bytes; /* of the first room; looked at by those who would help others, without the turn */
    atomic_bool helped;          /* one of those who share the core would help others with it */
} ls_turn;

/* Where a device computes, made at the first call; NULL after a failure. */
ls_turn *ls_turn_of(ls_session *session, ls_device device);
void ls_turns_free(ls_session *session);

/* The arrays of the memory that a device computes in; NULL after a failure. The first call of a device makes its
 * place. */
ls_arrays *ls_arrays_of(ls_session *session, ls_device device);
/* `n` floats of undefined content there, held once. NULL after a failure. */
ls_array *ls_array_on(ls_session *session, ls_device device, size_t n);

/* Waits for the core's turn, then gives it room for `plan`. */
ls_status ls_turn_reserve(ls_turn *turn, const ls_plan *plan);

/* The side stream for a run of a plan that is one of so many that have nothing to do with each other, with room for it;
 * without it the run has to wait for its turn: 0. By whoever has the turn. */
int ls_turn_side_stream(ls_turn *turn, const ls_plan *plan, int run, int runs);
/* The room of the run that comes next. */
const ls_room *ls_turn_room(const ls_turn *turn);

void ls_turn_enter(ls_turn *turn);
void ls_turn_leave(ls_turn *turn);

/* Whether somebody has the turn or waits for it; asked by those who do neither. */
bool ls_turn_taken(const ls_turn *turn);
