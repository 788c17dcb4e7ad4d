/* What a training run will hold, told before it holds it. */
#include "base/environment.h"
#include "cluster/cluster.h"
#include "data/data.h"
#include "train/attempts.h"
#include "train/cohort.h"
#include "train/job.h"
#include "train/trainer.h"

/* The cores' room for one shard each, as ls_turn_reserve makes it; a card's own memory is not the host's. */
static size_t cores_bytes(const ls_plan *newest, const ls_engine *engine)
{
    size_t bytes = 0;
    for (int i = 0, cores = 0; i < engine->n_workers; i++) {
        const ls_turn *turn = engine->workers[i].turn;
        const ls_plan *plan = ls_plan_for(newest, turn->executor->backend);
        if (engine->workers[i].place < cores)
            continue;
        cores++;
        bytes += turn->executor->memory ? 0 : plan->arena_floats * sizeof(float) + plan->scratch_bytes;
        bytes += (size_t)plan->capacity *
                     (sizeof *turn->index + sizeof *turn->changes + (size_t)plan->labels_each * sizeof *turn->labels) +
                 turn->host->held;
    }
    return bytes;
}

ls_status ls_trainer_memory_needed(ls_trainer *trainer, const ls_data *data, int64_t *bytes)
{
    LS_OWN_ENVIRONMENT;
    if (bytes)
        *bytes = 0;
    if (!trainer)
        return LS_BAD_ARGUMENT;
    ls_network *network = trainer->network;
    ls_session *session = network->session;
    if (ls_failed(session) || !data || !bytes)
        return data && bytes
                   ? ls_status_of(session)
                   : ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_trainer_memory_needed: an argument is NULL");
    int64_t rows = data->rows < data->batch ? data->rows : data->batch;
    int shard = ls_shard_images(session, rows);
    const ls_plan *plan = ls_trainer_plan(trainer, data, shard);
    if (!plan)
        return ls_status_of(session);
    const ls_flat *flat = &network->flat;
    int ranks = ls_cluster_ranks(session->options.cluster), shards = (int)((rows - 1) / shard + 1);
    int mine = (shards - 1) / ranks + 1;
    bool any_order = session->trial.shuffle_pulls != 0;
    const int rooms = ls_cohorts_rooms(trainer, plan, shards, mine);
    size_t gradients = (size_t)ls_trainer_pool(trainer, shards, mine, rooms, any_order) + (size_t)trainer->n_moments +
                       ls_clips(trainer) + (ranks > 1); /* other ranks' sums of this rank's pieces are about one more */
    size_t floats = 2 * (flat->parameters + flat->state) + (trainer->options.ema_buffers ? flat->state : 0) +
                    (ls_network_master_on_card(network) ? 0 : gradients * flat->trainable) +
                    LS_DEPTH * (size_t)shards * (flat->state + LS_METRICS) +
                    (size_t)rooms * (plan->sums_floats + ls_attempt_row_floats(network) +
                                     (ls_network_master_on_card(network) ? 0 : plan->room_floats));
    *bytes = (int64_t)(floats * sizeof(float) + cores_bytes(plan, network->engine));
    return LS_OK;
}
