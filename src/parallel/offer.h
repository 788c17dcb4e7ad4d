/* What a worker that has a shard offers to those that have none: parts of the operation that it is at. A step ends with its last
 * shard, and where there are fewer shards than cores most of them would only wait for it.
 *
 * An operation's parts are numbered, and taken one by one by whoever is free, its owner among them; the owner goes on when all are
 * done. Which core computes a part cannot matter. Helping must pay: an owner that waited for helpers longer than they saved it, because
 * their cores have other programs to run, goes on alone for a while, each time for twice as long. */
#ifndef LS_PARALLEL_OFFER_H
#define LS_PARALLEL_OFFER_H

#include <stdatomic.h>

#include "graph/plan.h"

typedef struct ls_offer {
    ls_helpers helpers; /* first */
    struct ls_engine *engine;
    struct ls_profile *profile; /* of the shard that the worker is at; NULL: nobody measures */
    /* The serial number of the operation, the next part to take and how many there are: 32, 16 and 16 bits. */
    atomic_uint_fast64_t state;
    atomic_int done;
    /* Of the operation; they stand still until all of its parts are done. */
    const ls_plan *plan;
    const ls_op_call *call;
    int step;
    /* The owner's account, in seconds: what helpers saved it less what it waited for them, within bounds; for how long it goes on
     * alone next time, and until when it does now, which those who would help look at. */
    double credit, pause;
    _Atomic double resume;
    char apart[64]; /* from the next worker's */
} ls_offer;

struct ls_worker;

/* A worker that begins a shard offers its parts from here on; NULL where the engine's threads are more than its cores. */
ls_helpers *ls_offer_begin(struct ls_worker *worker, struct ls_profile *profile);
void ls_offer_end(struct ls_worker *worker);

/* A worker without a shard says that it would help, and that it no longer will. */
void ls_offer_enter(struct ls_worker *worker);
void ls_offer_leave(struct ls_worker *worker);

/* Lets a worker without work look for some, for longer where somebody would offer parts: true when there is a part to take, or `found`
 * says that something else is to be done. Other programs may have the core meanwhile. */
bool ls_offer_await(const struct ls_worker *worker, bool (*found)(void *user), void *user);

/* Whether there is a part to take. */
bool ls_offer_open(const struct ls_engine *engine);
/* Computes one part of anybody's operation on this worker's core, which it has the turn of; false where there is none. */
bool ls_offer_take(struct ls_worker *worker);

#endif
