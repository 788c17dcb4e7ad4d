/* A network with values: its parameters as flat vectors, twice, and its plans, on a list of devices.
 *
 * The values, gradients and their sums have a master copy. It lies in the memory of the first device's card where all
 * devices are on cards and no other rank trains the network, or the ranks' cards are connected (comm/link.h), else in
 * the host's. Step k reads copy `current` there and writes the other, which becomes current when the whole step is
 * finished and finite. Where the master copy is on a card, the host has copies of its own: they are brought up to date
 * when somebody looks at them, and sent when somebody changed them. Other cards have replicas (replica.h). */
#pragma once

#include "comm/partition.h"
#include "exec/engine.h"
#include "io/classes.h"
#include "model/program.h"
#include "nn/module.h"

/* The newest values over which the loss of a batch was finite. */
typedef enum ls_sound {
    LS_SOUND_NONE,   /* are not there, or not known */
    LS_SOUND_BEFORE, /* those before the last update, in the copy that is not current */
    LS_SOUND_CURRENT
} ls_sound;

/* A backward pass that was asked for and not run yet: it is run by the next step. */
typedef struct ls_microbatch {
    ls_feed *feed;
    ls_device device;  /* that has to compute it; the host: any of the network's */
    ls_array *summary; /* {loss, correct} of its images */
    ls_tensor *loss;   /* that gets the summary when the step is handed in; held */
    uint64_t changes;  /* of the arrays it reads, when it was asked for */
    ls_array *given;   /* where it begins from a gradient: what the loss gave, which others have computed; else NULL */
} ls_microbatch;

/* Of each shard of a loss {loss, correct}, and behind those of all, as doubles, what it counts. */
static inline size_t ls_given_numbers(int shards)
{
    return (size_t)shards * (LS_METRICS + sizeof(double) / sizeof(float));
}
static inline double *ls_given_counted(float *given, int shards)
{
    return (double *)(void *)(given + (size_t)shards * LS_METRICS);
}

/* Of passes over all shards, kept from one to the next: eager/infer.c. */
typedef struct ls_pass_room {
    int capacity; /* shards */
    ls_partition partition;
    size_t *begin;     /* [ranks + 1] */
    int *shards;       /* [2][capacity] */
    float *metrics;    /* [capacity][LS_METRICS] */
    double *losses;    /* [capacity] */
    float *statistics; /* [workers][state] */
} ls_pass_room;

typedef struct ls_network {
    ls_session *session; /* first: ls_session_of reads it */
    ls_module *root;
    ls_devices devices;
    ls_init init;
    ls_engine *engine;
    ls_executor *master; /* by which the master copy's memory is taken, copied and waited for */
    ls_flat flat;
    float *weights[2], *state[2];               /* the host's */
    float *master_weights[2], *master_state[2]; /* the master copy's: the same ones where that is the host's memory */
    bool host_stale, host_dirty;                /* the host's weights are older than the master copy's; newer */
    bool connected;                             /* the master copy is a card, and connected with the other ranks' */
    bool averaged; /* the current values are averages, and the network's own are the other copy: train/average.c */
    atomic_bool state_moved; /* the master copy's current state is older than the host's */
    struct ls_replica *replicas;
    int n_replicas;
    atomic_ullong changes; /* of the current values, so far */
    uint64_t published;    /* how often the host has sent its values, what is frozen among them */
    atomic_int current;
    atomic_int sound; /* ls_sound */
    bool of_data;     /* data with labels told its shapes */
    bool defined;     /* the shapes are known, and everything has values */
    ls_input_shapes takes;
    int classes;      /* numbers of an output row */
    ls_classes named; /* their names */
    int shard;        /* images */
    ls_recorded inference, training;
    ls_microbatch *pending;
    int n_pending, pending_capacity;
    uint64_t version;       /* how often the values were changed */
    bool gradient_is_there; /* the trainer has the gradient of the pending microbatches */
    struct ls_trainer *trainer;
    int64_t updates; /* that it was handed, 0 without one: chooses what dropout drops */
    /* The trainer's: computes the gradient of the pending microbatches without an update; NULL after a failure. */
    const float *(*gradient)(struct ls_trainer *trainer);
    char *summary; /* once asked for */
    ls_pass_room pass_room;
} ls_network;

/* The network of a root that was initialized; NULL with LS_NOT_INITIALIZED naming `function` otherwise. */
ls_network *ls_network_of(ls_module *net, const char *function);
/* The same, but its shapes must be known too (LS_SHAPE_UNKNOWN). */
ls_network *ls_defined_network_of(ls_module *net, const char *function);

bool ls_network_has(const ls_network *network, ls_device device);

/* Waits for the work in hand, then the vectors may be read and written by the caller's thread. */
ls_status ls_network_wait(ls_network *network);

float *ls_network_values(ls_network *network, const ls_view *view); /* of the current copy, on the host */
/* The host has made the state of that number. */
void ls_network_state_moved(ls_network *network, int number);

/* The first device's card, where all devices are on cards; else NULL. */
ls_executor *ls_network_card(const ls_network *network);
bool ls_network_master_on_card(const ls_network *network); /* the master copy's memory is not the host's */
bool ls_network_gathers(const ls_network *network);        /* and cards beside it bring their gradients there */
bool ls_network_on_cards(const ls_network *network);       /* that of some device is not, wherever the master copy is */
bool ls_network_goes_ahead(
    const ls_network *network); /* one device computes, and can begin a step behind another: train/ending.c */
/* A turn at the master copy where that is a card; in the host's memory none is needed. */
void ls_network_enter(const ls_network *network);
void ls_network_leave(const ls_network *network);
/* That makes sums in the master copy in a core's turn. */
ls_executor *ls_network_adder(const ls_network *network, const ls_turn *turn);
void ls_network_changed(ls_network *network);                  /* on the host there are other values than before */
void ls_network_turn_over(ls_network *network, bool averaged); /* the other copy of the values becomes current */
/* Sends values that were changed on the host, before work that reads them is handed in. A step writes neither frozen
 * parameters nor, where the master copy is on a card, statistics: both copies get them. */
void ls_network_publish(ls_network *network);
/* Numbers in the master copy's memory as the host can read them: themselves, or a copy in *room, made large enough at
 * the first call. Nothing may be in hand. NULL when memory runs out. */
const float *ls_network_seen(ls_network *network, const float *memory, size_t n, float **room);
void ls_network_get(ls_network *network, float *to, const float *from, size_t n); /* the master copy's to the host */
void ls_network_put(ls_network *network, float *memory, const float *from, size_t n);

/* The worker's executor has failed. True: it is lost, and the network goes on without it. False: it holds the values,
 * or there is no other. */
bool ls_network_loses(const ls_network *network, ls_worker *worker);
void ls_network_fail(const ls_network *network, const ls_executor *executor); /* raises that; what follows is dropped */

/* Refuses what only the network's own values are for, while there are averages in their place. */
ls_status ls_network_own_values(const ls_network *network, const char *function);
ls_status ls_network_clear(ls_network *network); /* drops the pending microbatches */
/* Waits, and makes sure that nothing which was recorded with the values as they are is still to be computed. Refuses
 * where they are averages. */
ls_status ls_network_change(ls_network *network, const char *function);
void ls_microbatch_drop(ls_microbatch *microbatch);

/* Room for a pass over so many shards. */
ls_status ls_network_reserve_pass(ls_network *network, int shards);
void ls_network_release_pass(ls_network *network);

/* The program of a trace that calls a network, with plans for all kinds of its devices; see ls_program_of. */
ls_program *ls_network_program(ls_trace *trace, ls_wanted wanted, bool has_dy, int images);

/* Refuses what would leave a BatchNorm a single value of each channel. */
ls_status ls_check_rows(const ls_network *network, const ls_plan *plan, int64_t rows, const char *function);
