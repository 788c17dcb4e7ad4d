/* What a card holds of a network whose master copy is elsewhere: another card, or, where cores train it too or other
 * ranks whose cards are not connected, the host's memory. The values go there before the first shard that reads them,
 * and a shard's gradient goes to the master copy behind it; sums, updates and what goes to other ranks are made in the
 * master copy. */
#pragma once

#include "model/network.h"

typedef struct ls_replica {
    const ls_turn *turn;
    float *weights, *state;
    float *gradient;             /* of the shard at hand; NULL before a trainer asked for it */
    uint64_t changes, published; /* of the network's values that these are */
} ls_replica;

/* One for each core of the network's that needs it, once the parameters' shapes are known. */
ls_status ls_replicas_make(ls_network *network);
ls_status ls_replicas_take_gradients(ls_network *network);
void ls_replicas_release(ls_network *network);

/* NULL where the core computes in the network's master copy. */
ls_replica *ls_replica_of(const ls_network *network, const ls_turn *turn);

/* The rest by whoever has the core's turn. */

/* The current weights and state, where the core computes: those in the master copy, or its replica's. */
void ls_replica_bind(ls_network *network, const ls_turn *turn, ls_bindings *bindings);
/* The same for training, which reads no state but what is frozen: the rest need not be as the host has it. */
void ls_replica_bind_training(const ls_network *network, const ls_turn *turn, ls_bindings *bindings);

/* Hands in the shard's gradient's way to the master copy's memory. */
void ls_replica_bring_to_master(const ls_replica *replica, const ls_network *network, const float *from,
                                float *gradient);
