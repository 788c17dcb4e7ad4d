/* What a thread that computes offers to those of its team that have nothing to compute: parts of the operation that it
 * is at. A step ends with its last shard, and where there are fewer shards than cores most of them would only wait for
 * it.
 *
 * An operation's parts are numbered, and taken one by one by whoever is free, its owner among them; the owner goes on
 * when all are done. Which core computes a part cannot matter. Helping must pay: an owner that waited for helpers
 * longer than they saved it, because their cores have other programs to run, goes on alone for a while, each time for
 * twice as long. */
#pragma once

#include <stdatomic.h>

#include "exec/turn.h"

typedef struct ls_sharing ls_sharing;

/* Whoever measures what an owner computes: `note` says where a helper, by its `own`, notes its parts of a plan. */
typedef struct ls_measuring {
    void (*note)(const void *by, const ls_plan *plan, void *own, ls_probe *probe);
    const void *by;
} ls_measuring;

/* The threads that help each other, one for each device; nobody leaves before all do. */
typedef struct ls_team {
    ls_sharing *first;
    atomic_int idle, owners; /* members that would help, one of each core, and that compute; without cards */
    atomic_bool crowded;     /* ranks share cores: waiting must not spin, and nobody helps */
} ls_team;

struct ls_sharing {
    ls_helpers helpers; /* first */
    ls_team *team;
    _Atomic(ls_sharing *) next; /* member of the team, in a ring */
    ls_turn *turn;
    void *own;              /* what those who measure know the member by */
    ls_measuring measuring; /* the shard that the owner is at; `note` NULL: nobody measures */
    bool idle;              /* would help: its core's only one */
    /* The serial number of the operation, the next part to take and how many there are: 32, 16 and 16 bits. */
    atomic_uint_fast64_t state;
    atomic_int done;
    atomic_size_t scratch_bytes; /* that a part needs */
    /* Of the operation; they stand still until all of its parts are done. */
    const ls_plan *plan;
    const ls_op_call *call;
    int step;
    /* The owner's account, in seconds: what helpers saved it less what it waited for them, within bounds; for how long
     * it goes on alone next time, and until when it does now, which those who would help look at. */
    double credit, pause;
    _Atomic double resume;
    char padding[64]; /* from the next worker's */
};

/* Makes whoever computes in that turn a member; one thread does so at a time. */
void ls_sharing_join(ls_sharing *sharing, ls_team *team, ls_turn *turn);

/* A member that begins to compute offers its parts from here on, measured by `measuring` (NULL: by nobody);
 * NULL where the team is crowded. */
ls_helpers *ls_sharing_begin(ls_sharing *sharing, const ls_measuring *measuring);
void ls_sharing_end(ls_sharing *sharing);

/* A member without work says that it would help, and that it no longer will. Of those who share a core the first to say
 * so is heard. */
void ls_sharing_enter(ls_sharing *sharing);
void ls_sharing_leave(ls_sharing *sharing);

/* Lets a member without work look for some, for so many seconds, or longer where somebody would offer parts: true when
 * there is a part to take, or `found` says that something else is to be done; false at once where its core has other
 * work, or another to help. Other programs may have the core meanwhile. */
bool ls_sharing_await(const ls_sharing *sharing, double seconds, bool (*found)(void *user), void *user);

/* Whether another has a part to take that this one has the scratch for. */
bool ls_sharing_open(const ls_sharing *sharing);
/* Computes one part of anybody's operation on this member's core, which it has the turn of; false where there is none
 * for it. */
bool ls_sharing_take(ls_sharing *sharing);
