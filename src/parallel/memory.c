/* What a training run will hold, told before it holds it. */
#include "cluster/cluster.h"
#include "data/data.h"
#include "parallel/clip.h"
#include "parallel/step.h"
#include "parallel/trainer.h"

/* A core's room for one shard, as ls_core_reserve makes it. */
static size_t core_bytes(const ls_plan *plan, const ls_network *network)
{
    size_t unit = ls_network_on_cards(network) ? 0 : plan->arena_floats * sizeof(float) + plan->scratch_bytes;
    return unit + (size_t)plan->capacity * (sizeof(uint32_t) + sizeof(ls_change) + 1) + network->home->held;
}

ls_status ls_memory_needed(ls_trainer *trainer, const ls_data *data, int64_t *bytes)
{
    if (!trainer)
        return LS_BAD_ARGUMENT;
    ls_network *network = trainer->network;
    ls_session *session = network->session;
    if (ls_failed(session) || !data || !bytes)
        return data && bytes ? ls_status_of(session)
                             : ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_memory_needed: an argument is NULL");
    int64_t rows = data->rows < data->batch ? data->rows : data->batch;
    int shard = rows < network->shard ? (int)rows : network->shard;
    const ls_plan *plan = ls_trainer_plan(trainer, data, shard);
    if (!plan)
        return ls_status_of(session);
    const ls_flat *flat = &network->flat;
    int ranks = ls_cluster_ranks(session->options.cluster), shards = (int)((rows - 1) / shard + 1);
    int mine = (shards - 1) / ranks + 1;
    bool any_order = session->options.shuffle_pulls != 0;
    size_t gradients = (size_t)ls_trainer_pool(trainer, shards, mine, any_order) + (size_t)trainer->n_moments +
                       ls_clips(trainer) + (ranks > 1); /* other ranks' sums of this rank's pieces are about one more */
    size_t floats = 2 * (flat->trainable + flat->state) +
                    (ls_network_apart(network) ? 0 : gradients * flat->trainable) +
                    LS_DEPTH * (size_t)shards * (flat->state + LS_METRICS);
    *bytes = (int64_t)(floats * sizeof(float) + (size_t)network->engine->n_cores * core_bytes(plan, network));
    return LS_OK;
}
