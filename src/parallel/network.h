/* A network with values: its parameters as flat vectors, twice, and its plans, on a list of devices.
 *
 * Step k reads copy `current` and writes the other, which becomes current when the whole step is finished and finite. CPU devices
 * of one process share both copies. */
#ifndef LS_PARALLEL_NETWORK_H
#define LS_PARALLEL_NETWORK_H

#include "nn/module.h"
#include "parallel/engine.h"
#include "parallel/program.h"

/* A backward pass that was asked for and not run yet: a part of the next step. */
typedef struct ls_share {
    ls_feed *feed;
    ls_device device;  /* that has to compute it; the host: any of the network's */
    ls_array *summary; /* {loss, correct} of the part */
    ls_tensor *loss;   /* that gets the summary when the part is handed in; held */
    uint64_t changes;  /* of the arrays it reads, when it was asked for */
} ls_share;

typedef struct ls_network {
    ls_session *session; /* first: ls_session_of reads it */
    ls_module *root;
    ls_devices devices;
    ls_init init;
    const ls_backend *backend;
    ls_engine *engine;
    ls_flat flat;
    float *weights[2], *state[2];
    atomic_int current;
    bool defined;    /* the shapes are known, and everything has values */
    ls_shape images; /* dim[0] is -1 */
    int classes;     /* numbers of an output row */
    int shard;       /* images */
    ls_recorded inference, training;
    ls_share *pending;
    int n_pending, pending_capacity;
    uint64_t version;       /* how often the values were changed */
    bool gradient_is_there; /* the trainer has the gradient of the pending parts */
    bool read_by_streams;
    struct ls_trainer *trainer;
    char *summary; /* once asked for */
} ls_network;

/* The network of a root that was initialized; NULL with LS_NOT_INITIALIZED naming `function` otherwise. */
ls_network *ls_network_of(ls_module *net, const char *function);
/* The same, but its shapes must be known too (LS_SHAPE_UNKNOWN). */
ls_network *ls_defined_network_of(ls_module *net, const char *function);

/* Tells an initialized network the shape of its images: the first time it gets its parameters and their values, later the shape
 * must be the same. */
ls_status ls_network_define(ls_network *network, const ls_shape *images, const char *function);

bool ls_network_has(const ls_network *network, ls_device device);

/* Waits for the work in hand, then the vectors may be read and written by the caller's thread. */
ls_status ls_network_settle(ls_network *network);

float *ls_network_values(ls_network *network, const ls_view *view);     /* of the current copy */
void ls_network_bind(const ls_network *network, ls_bindings *bindings); /* the current weights and state */

ls_status ls_network_clear(ls_network *network); /* drops the pending parts */
/* Waits, and makes sure that nothing which was recorded with the values as they are is still to be computed. */
ls_status ls_network_change(ls_network *network, const char *function);
void ls_share_drop(ls_share *part);

/* Refuses what would leave a BatchNorm a single value of each channel. */
ls_status ls_check_rows(const ls_network *network, const ls_plan *plan, int64_t rows, const char *function);

#endif
