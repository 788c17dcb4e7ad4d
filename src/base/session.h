/* A session: its context, its options and all that was made from it. Rooms hang their objects here and get them freed
 * at ls_close, the youngest first. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include <lockstep_trial.h>

#include "base/context.h"
#include "base/names.h"

typedef struct ls_owned {
    void *object;
    const void *of; /* another object that must outlive it, or NULL */
    void (*release)(void *object);
    struct ls_owned *next;
} ls_owned;

struct ls_session {
    ls_context context;
    ls_options options; /* defaults filled in; `trial` is copied: */
    ls_trial trial;
    int place, sharers; /* this process among the ranks of its host, and how many they are */
    ls_names names;
    const char *notice; /* interned */
    int cards;          /* GPUs that were seen when a device was checked last; they are not looked for again */
    ls_owned *owned;    /* from the youngest on */
    ls_owned *kept;     /* plain memory that lives until ls_close */
    struct ls_recording *recording; /* the forward being recorded, NULL between recordings (graph/record.h) */
    struct ls_tensors *tensors;     /* handles, scopes and arrays (graph/tensor.h) */
    struct kept_custom *customs;    /* the user's own operations (graph/record_elementwise.c) */
    struct ls_turn *turns;          /* where devices compute (exec/turn.h) */
    struct ls_streams *streams;     /* what the devices have been handed (exec/stream.h) */
    struct ls_trace *trace;         /* of the computation being handed in (graph/lower.h) */
    struct ls_program *programs;    /* computations met before (model/program.h) */
    uint64_t plans;                 /* made so far: numbers them (graph/plan.h) */
    uint64_t recordings;            /* of modules' forwards, and walks over modules; likewise (nn/module.c) */
    struct ls_feed *feeds;          /* lists of operands that are free again */
    pthread_mutex_t feeds_lock;
    atomic_bool interrupted; /* the pass under way is to end, or the next */
    atomic_bool together;    /* the failure is every rank's */
    atomic_bool broken;      /* work in hand has failed: what follows it is dropped, until the failure is taken back */
    const char *root;        /* for tests: stands before the paths of /proc and of control groups; NULL: nothing */
    double patience;         /* seconds at a shard after which another device may stand in, see train/attempts.h */
};

/* Hands `object` to the session, which frees it with `release`. On failure it is freed at once and NULL returned. */
void *ls_own(ls_session *session, void *object, void (*release)(void *object));
void *ls_own_of(ls_session *session, void *object, const void *of, void (*release)(void *object));
/* The entry of one that was handed over; NULL where it was not, or a younger one needs it. */
const ls_owned *ls_owned_alone(const ls_session *session, const void *object);
/* Frees it, whatever is younger. */
void ls_release_one(ls_session *session, const ls_owned *entry);
/* Frees what was owned after `mark`, an earlier value of session->owned; NULL: everything. */
void ls_release_owned(ls_session *session, const ls_owned *mark);

/* The images of the largest shard of so many rows, at least 1. */
int ls_shard_images(const ls_session *session, int64_t rows);
/* How many of so many shards, from the first on, have their BatchNorm statistics together; 1: each has its own. */
int ls_shards_together(const ls_session *session, int shards);
/* Whether they are for several shards, where there are so many. */
bool ls_statistics_meet(const ls_session *session);

/* Zeroed memory that lives as long as the session, whatever scope is open. */
void *ls_session_alloc(ls_session *session, size_t count, size_t size, const char *what);
void ls_release_kept(ls_session *session);

/* Of the session's names (base/names.h): until ls_close, or until as many have dropped it as have held it. */
const char *ls_intern(ls_session *session, const char *text);
const char *ls_name_hold(ls_session *session, const char *text);
void ls_name_drop(ls_session *session, const char *name);

/* What is freed by the last one who holds it. */
typedef struct ls_counted {
    atomic_int holders;
    void *object;
    void (*release)(void *object);
} ls_counted;

void ls_counted_hold(ls_counted *counted); /* NULL is fine */
void ls_counted_drop(ls_counted *counted); /* from any thread; NULL is fine */
