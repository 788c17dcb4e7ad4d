/* A network with values: its parameters as flat vectors, twice, and its plans, on a list of devices.
 *
 * Step k reads copy `current` and writes the other, which becomes current when the whole step is finished and finite. CPU devices
 * of one process share both copies. */
#ifndef LS_PARALLEL_NETWORK_H
#define LS_PARALLEL_NETWORK_H

#include "nn/module.h"
#include "parallel/engine.h"

typedef struct ls_network {
    ls_session *session;
    ls_module *root;
    ls_devices devices;
    const ls_backend *backend;
    ls_engine *engine;
    ls_flat flat;
    float *weights[2], *state[2];
    atomic_int current;
    int channels, height, width, classes;
    int shard;      /* images */
    ls_plan *train; /* made at the first step, for the shards it needs */
    ls_plan *evaluate, *predict;
    struct ls_trainer *trainer;
} ls_network;

/* The network of a root that was initialized; NULL with LS_NOT_INITIALIZED naming `function` otherwise. */
ls_network *ls_network_of(ls_module *net, const char *function);

/* NULL unless `data` has images of the network's shape and no label beyond its classes. */
ls_status ls_network_takes(ls_network *network, const ls_data *data, const char *function);

/* A plan for training on shards of up to `images`; made again when a larger one is needed. Waits for earlier work. */
ls_status ls_network_train_plan(ls_network *network, int images);

/* Waits for the work in hand, then the vectors may be read and written by the caller's thread. */
ls_status ls_network_settle(ls_network *network);

float *ls_network_values(ls_network *network, const ls_view *view); /* of the current copy */

#endif
