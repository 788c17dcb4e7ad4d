#include "model/network.h"

#include <string.h>

#include "base/environment.h"
#include "cluster/cluster.h"
#include "exec/stream.h"

void ls_microbatch_drop(ls_microbatch *microbatch)
{
    if (microbatch->feed)
        ls_feed_give(microbatch->feed);
    ls_array_drop(microbatch->summary);
    ls_tensor_drop(microbatch->loss);
    ls_array_drop(microbatch->given);
    *microbatch = (ls_microbatch){.feed = NULL};
}

bool ls_network_master_on_card(const ls_network *network)
{
    return network->master->memory != 0;
}

bool ls_network_gathers(const ls_network *network)
{
    return ls_network_master_on_card(network) && network->n_replicas > 0;
}

bool ls_network_on_cards(const ls_network *network)
{
    const ls_engine *engine = network->engine;
    for (int i = 0; i < engine->n_workers; i++)
        if (engine->workers[i].turn->executor->memory != 0)
            return true;
    return false;
}

bool ls_network_goes_ahead(const ls_network *network)
{
    return ls_network_master_on_card(network) && network->engine->n_workers == 1 &&
           network->master->type->completion.record;
}

ls_executor *ls_network_adder(const ls_network *network, const ls_turn *turn)
{
    return ls_network_master_on_card(network) ? network->master : turn->host;
}

ls_network *ls_network_of(ls_module *net, const char *function)
{
    if (!net || ls_failed(net->session))
        return NULL;
    char path[LS_MODULE_PATH];
    if (!net->network && net->parent)
        ls_raise(&net->session->context, LS_NOT_INITIALIZED,
                 "%s: \"%s\" is a part of another module and has no values of its own; call it with the outermost one",
                 function, ls_module_path(net, path));
    else if (!net->network)
        ls_raise(&net->session->context, LS_NOT_INITIALIZED,
                 "%s: the network has no values yet; call ls_module_initialize first", function);
    return net->network;
}

ls_network *ls_defined_network_of(ls_module *net, const char *function)
{
    ls_network *network = ls_network_of(net, function);
    if (!network || network->defined)
        return network;
    ls_raise(&net->session->context, LS_SHAPE_UNKNOWN,
             "%s: the shapes of the network's parameters are not known before its first images; call the network once, "
             "or set init.shape or init.like",
             function);
    return NULL;
}

bool ls_network_has(const ls_network *network, ls_device device)
{
    for (int d = 0; d < network->devices.n; d++)
        if (ls_same_device(network->devices.at[d], device))
            return true;
    return false;
}

/* A device that shares the executor may be at something else there. */
void ls_network_enter(const ls_network *network)
{
    if (ls_network_master_on_card(network))
        ls_turn_enter(network->engine->workers[0].turn);
}

void ls_network_leave(const ls_network *network)
{
    if (ls_network_master_on_card(network))
        ls_turn_leave(network->engine->workers[0].turn);
}

void ls_network_get(ls_network *network, float *to, const float *from, size_t n)
{
    ls_network_enter(network);
    network->master->type->memory.get(network->master, to, from, n * sizeof *to);
    if (network->master->status != LS_OK)
        ls_network_fail(network, network->master);
    ls_network_leave(network);
}

void ls_network_put(ls_network *network, float *memory, const float *from, size_t n)
{
    ls_network_enter(network);
    network->master->type->memory.put(network->master, memory, from, n * sizeof *memory);
    ls_network_leave(network);
}

const float *ls_network_seen(ls_network *network, const float *memory, size_t n, float **room)
{
    if (!ls_network_master_on_card(network))
        return memory;
    if (!*room)
        *room = ls_alloc(&network->session->context, n, sizeof **room, "a copy of a device's numbers");
    if (*room)
        ls_network_get(network, *room, memory, n);
    return *room;
}

void ls_network_changed(ls_network *network)
{
    network->host_dirty = true;
    atomic_fetch_add(&network->changes, 1);
    atomic_store(&network->sound, LS_SOUND_NONE);
}

void ls_network_turn_over(ls_network *network, bool averaged)
{
    atomic_store(&network->current, 1 - atomic_load(&network->current));
    network->averaged = averaged;
    ls_network_changed(network);
}

void ls_network_publish(ls_network *network)
{
    const int current = atomic_load(&network->current), other = 1 - current;
    const size_t trainable = network->flat.trainable, frozen = network->flat.parameters - trainable;
    const float *weights = network->weights[current], *state = network->state[current];
    if (!network->host_dirty)
        return;
    network->host_dirty = false;
    network->published++;
    memcpy(network->weights[other] + trainable, weights + trainable, frozen * sizeof *weights);
    ls_network_put(network, network->master_weights[current], weights, network->flat.parameters);
    ls_network_put(network, network->master_weights[other] + trainable, weights + trainable, frozen);
    ls_network_put(network, network->master_state[current], state, network->flat.state);
    if (!network->averaged) /* else the network's own are there */
        ls_network_put(network, network->master_state[other], state, network->flat.state);
}

/* The running statistics are moved by the host, which always has them. */
static void fetch(ls_network *network)
{
    int current = atomic_load(&network->current);
    if (!network->host_stale)
        return;
    network->host_stale = false;
    ls_network_get(network, network->weights[current], network->master_weights[current], network->flat.trainable);
}

ls_status ls_network_wait(ls_network *network)
{
    ls_engine_wait(network->engine);
    fetch(network);
    return ls_status_of(network->session);
}

float *ls_network_values(ls_network *network, const ls_view *view)
{
    int current = atomic_load(&network->current);
    return (view->trainable ? network->weights[current] : network->state[current]) + view->offset;
}

bool ls_network_loses(const ls_network *network, ls_worker *worker)
{
    return worker->turn->executor != network->master && ls_engine_lose(worker);
}

void ls_network_fail(const ls_network *network, const ls_executor *executor)
{
    ls_executor_check(executor);
    atomic_store(&network->session->broken, true);
}

const char *ls_module_next_failure(ls_module *net)
{
    LS_OWN_ENVIRONMENT;
    if (!net || !net->network || ls_context_is_parents(&net->session->context))
        return NULL;
    const ls_engine *engine = net->network->engine;
    for (ls_worker *worker = engine->workers; worker < engine->workers + engine->n_workers; worker++)
        if (!worker->told && atomic_load(&worker->lost)) {
            worker->told = true;
            if (*worker->failure)
                return worker->failure;
        }
    return NULL;
}

ls_status ls_network_clear(ls_network *network)
{
    ls_status status = ls_network_wait(network);
    for (int i = 0; i < network->n_pending; i++)
        ls_microbatch_drop(&network->pending[i]);
    network->n_pending = 0;
    return status;
}

ls_status ls_network_own_values(const ls_network *network, const char *function)
{
    if (!network->averaged)
        return LS_OK;
    return ls_raise(&network->session->context, LS_STALE,
                    "%s: the network has averages in place of its values; call ls_trainer_use_average(trainer, false) "
                    "first",
                    function);
}

ls_status ls_network_change(ls_network *network, const char *function)
{
    if (ls_network_own_values(network, function) != LS_OK)
        return LS_STALE;
    if (network->n_pending)
        return ls_raise(
            &network->session->context, LS_STALE,
            "%s: the network has gradients that no update has used; call ls_trainer_step or ls_clear_grad first",
            function);
    network->version++;
    ls_streams_wait(network->session);
    ls_network_wait(network);
    ls_network_changed(network);
    return ls_status_of(network->session);
}

/* To cards that have replicas it is copied from the master copy; one that is alone needs it no sooner than it reads it.
 */
void ls_network_state_moved(ls_network *network, int number)
{
    if (ls_network_gathers(network))
        network->master->type->memory.put(network->master, network->master_state[number], network->state[number],
                                          network->flat.state * sizeof(float));
    else
        atomic_store(&network->state_moved, ls_network_master_on_card(network));
}

ls_program *ls_network_program(ls_trace *trace, ls_wanted wanted, bool has_dy, int images)
{
    const ls_network *network = trace->call->network;
    const ls_engine *engine = network->engine;
    if (!trace->n_arrays || !ls_network_on_cards(network))
        return ls_program_of(trace, wanted, has_dy, images, engine->backends, engine->n_backends);
    ls_raise(&trace->session->context, LS_UNSUPPORTED,
             "a network on GPUs computes with its own parameters alone, not with class_weights, positive_weights or "
             "other tensors of one's own; compute with these apart from it");
    return NULL;
}

/* Images that are left over behind whole runs of so many. */
static int64_t left_over(int64_t rows, int64_t each)
{
    return rows % each ? rows % each : each;
}

ls_status ls_check_rows(const ls_network *network, const ls_plan *plan, int64_t rows, const char *function)
{
    const int shard = network->shard;
    const int64_t shards = (rows + shard - 1) / shard, together = ls_shards_together(network->session, (int)shards);
    const bool good = !plan->by_shard.places || left_over(rows, shard) * plan->by_shard.places >= 2;
    if (good && (!plan->together.places || left_over(rows, together * shard) * plan->together.places >= 2))
        return LS_OK;
    return ls_raise(
        &network->session->context, LS_BAD_SHAPE,
        "%s: a batch of %lld in shards of %d leaves a shard of one image, and BatchNorm %s would see a single "
        "value of each channel (maps of 1 x 1); choose another batch, shard or limit",
        function, (long long)rows, network->shard, good ? plan->together.layer : plan->by_shard.layer);
}

ls_executor *ls_network_card(const ls_network *network)
{
    const ls_engine *engine = network->engine;
    for (int i = 0; i < engine->n_workers; i++)
        if (engine->workers[i].turn->executor->memory == 0)
            return NULL;
    return engine->workers[0].turn->executor;
}

static void release_shards(ls_context *context, ls_pass_room *room)
{
    ls_release(context, room->shards);
    ls_release(context, room->metrics);
    ls_release(context, room->losses);
    room->shards = NULL;
    room->metrics = NULL;
    room->losses = NULL;
    room->capacity = 0;
}

void ls_network_release_pass(ls_network *network)
{
    ls_context *context = &network->session->context;
    ls_pass_room *room = &network->pass_room;
    release_shards(context, room);
    ls_partition_destroy(&room->partition, context);
    ls_release(context, room->begin);
    ls_release(context, room->statistics);
}

ls_status ls_network_reserve_pass(ls_network *network, int shards)
{
    ls_context *context = &network->session->context;
    ls_pass_room *room = &network->pass_room;
    const int ranks = ls_cluster_ranks(network->session->options.cluster);
    const size_t n = (size_t)shards, workers = (size_t)network->engine->n_workers;
    if (!room->begin)
        room->begin = ls_alloc(context, (size_t)ranks + 1, sizeof *room->begin, "the ranks' shards");
    if (!room->statistics)
        room->statistics =
            ls_alloc(context, workers * network->flat.state, sizeof *room->statistics, "a pass's statistics");
    if (shards > room->capacity || !room->shards) {
        release_shards(context, room);
        room->shards = ls_alloc(context, 2 * n, sizeof *room->shards, "a pass's shards");
        room->metrics = ls_alloc(context, n * LS_METRICS, sizeof *room->metrics, "the shards' metrics");
        room->losses = ls_alloc(context, n, sizeof *room->losses, "the shards' losses");
        if (!room->shards || !room->metrics || !room->losses) {
            release_shards(context, room);
            return LS_OUT_OF_MEMORY;
        }
        room->capacity = shards;
    }
    if (!room->begin || !room->statistics)
        return LS_OUT_OF_MEMORY;
    return ls_partition_reserve(&room->partition, context, ranks, shards);
}
