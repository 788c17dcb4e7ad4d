#include "model/replica.h"

#include "device/gpu_trace.h"

ls_status ls_replicas_make(ls_network *network)
{
    ls_engine *engine = network->engine;
    ls_executor *master = network->master;
    if (!ls_network_on_cards(network))
        return LS_OK;
    network->replicas =
        ls_alloc(&network->session->context, (size_t)engine->n_cores, sizeof *network->replicas, "copies of a network");
    for (int i = 0; i < engine->n_workers && network->replicas; i++) {
        ls_turn *turn = engine->workers[i].turn;
        if (turn->executor->memory == 0 || turn->executor == master || ls_replica_of(network, turn))
            continue;
        if (master->memory)
            master->type->memory.reach(master, turn->executor);
        ls_replica *replica = &network->replicas[network->n_replicas++];
        replica->turn = turn;
        replica->weights = ls_executor_alloc(turn->executor, network->flat.parameters, sizeof(float), "the weights");
        replica->state =
            ls_executor_alloc(turn->executor, network->flat.state, sizeof(float), "the running statistics");
    }
    return ls_status_of(network->session);
}

ls_status ls_replicas_take_gradients(ls_network *network)
{
    for (int i = 0; i < network->n_replicas; i++) {
        ls_replica *replica = &network->replicas[i];
        if (!replica->gradient && replica->turn->executor->status == LS_OK)
            replica->gradient = ls_executor_alloc(replica->turn->executor, network->flat.trainable, sizeof(float),
                                                  "a partial gradient");
    }
    return ls_status_of(network->session);
}

void ls_replicas_release(ls_network *network)
{
    for (int i = 0; i < network->n_replicas; i++) {
        ls_replica *replica = &network->replicas[i];
        ls_executor_release(replica->turn->executor, replica->weights);
        ls_executor_release(replica->turn->executor, replica->state);
        ls_executor_release(replica->turn->executor, replica->gradient);
    }
    ls_release(&network->session->context, network->replicas);
    network->replicas = NULL;
    network->n_replicas = 0;
}

ls_replica *ls_replica_of(const ls_network *network, const ls_turn *turn)
{
    for (int i = 0; i < network->n_replicas; i++)
        if (network->replicas[i].turn == turn)
            return &network->replicas[i];
    return NULL;
}

static void refresh(ls_replica *replica, const ls_network *network)
{
    const uint64_t changes = atomic_load(&network->changes);
    const int current = atomic_load(&network->current);
    ls_executor *executor = replica->turn->executor;
    if (replica->changes == changes)
        return;
    int mark = ls_gpu_trace_mark(executor);
    void (*bring)(ls_executor *, void *, const void *, size_t) =
        ls_network_master_on_card(network) ? executor->type->memory.copy : executor->type->memory.put;
    const size_t numbers =
        replica->published == network->published ? network->flat.trainable : network->flat.parameters;
    bring(executor, replica->weights, network->master_weights[current], numbers * sizeof(float));
    bring(executor, replica->state, network->master_state[current], network->flat.state * sizeof(float));
    ls_gpu_trace_note(executor, mark, LS_SPAN_TO_CARD, -1, NULL);
    replica->changes = changes;
    replica->published = network->published;
}

void ls_replica_bring_to_master(const ls_replica *replica, const ls_network *network, const float *from,
                                float *gradient)
{
    ls_executor *executor = replica->turn->executor;
    int mark = ls_gpu_trace_mark(executor);
    void (*bring)(ls_executor *, void *, const void *, size_t) =
        ls_network_master_on_card(network) ? executor->type->memory.copy : executor->type->memory.get;
    bring(executor, gradient, from, network->flat.trainable * sizeof *gradient);
    ls_gpu_trace_note(executor, mark, LS_SPAN_FROM_CARD, -1, NULL);
}

void ls_replica_bind(ls_network *network, const ls_turn *turn, ls_bindings *bindings)
{
    const int current = atomic_load(&network->current);
    if (atomic_exchange(&network->state_moved, false))
        network->master->type->memory.put(network->master, network->master_state[current], network->state[current],
                                          network->flat.state * sizeof(float));
    ls_replica_bind_training(network, turn, bindings);
}

void ls_replica_bind_training(const ls_network *network, const ls_turn *turn, ls_bindings *bindings)
{
    int current = atomic_load(&network->current);
    ls_replica *replica = ls_replica_of(network, turn);
    if (replica)
        refresh(replica, network);
    bindings->base[LS_IN_WEIGHTS] = replica ? replica->weights : network->master_weights[current];
    bindings->base[LS_IN_STATE] = replica ? replica->state : network->master_state[current];
}
