#include "parallel/network.h"

#include <string.h>

#include "data/data.h"
#include "device/cpu/select.h"
#include "nn/init.h"

static void free_network(void *object)
{
    ls_network *network = object;
    ls_context *context = &network->session->context;
    if (network->engine)
        ls_engine_wait(network->engine);
    ls_engine_free(network->engine);
    ls_plan_free(network->train);
    ls_plan_free(network->evaluate);
    ls_plan_free(network->predict);
    for (int i = 0; i < 2; i++) {
        ls_release(context, network->weights[i]);
        ls_release(context, network->state[i]);
    }
    ls_flat_destroy(&network->flat);
    if (network->root->network == network)
        network->root->network = NULL;
    ls_release(context, network);
}

ls_network *ls_network_of(ls_module *net, const char *function)
{
    if (!net || ls_failed(net->session))
        return NULL;
    if (!net->network)
        ls_raise(&net->session->context, LS_NOT_INITIALIZED,
                 "%s: the network has no values yet; call ls_initialize first", function);
    return net->network;
}

ls_status ls_network_takes(ls_network *network, const ls_data *data, const char *function)
{
    ls_context *context = &network->session->context;
    if (!data)
        return ls_raise(context, LS_BAD_ARGUMENT, "%s: data is NULL", function);
    if (data->channels != network->channels || data->height != network->height || data->width != network->width)
        return ls_raise(context, LS_BAD_SHAPE,
                        "%s: images are (%d, %d, %d), the network was initialized for (%d, %d, %d)", function,
                        data->channels, data->height, data->width, network->channels, network->height, network->width);
    if (data->classes > network->classes)
        return ls_raise(context, LS_BAD_SHAPE, "%s: the data has %d classes, the network %d", function, data->classes,
                        network->classes);
    return LS_OK;
}

typedef enum recorded { RECORD_TRAIN, RECORD_EVALUATE, RECORD_PREDICT } recorded;

/* Records, joins, differentiates: the graph of one mode. */
static ls_graph *record(ls_network *network, recorded mode)
{
    ls_graph *graph = ls_graph_new(network->session, &network->flat, mode == RECORD_TRAIN);
    if (!graph)
        return NULL;
    ls_tensor *logits = ls_module_record(network->root, graph, network->channels, network->height, network->width);
    ls_tensor *loss = NULL;
    if (logits) {
        network->classes = logits->c;
        if (mode == RECORD_PREDICT) {
            ls_record_rows(logits);
        } else {
            loss = ls_record_cross_entropy(logits);
            ls_record_metrics(logits, loss);
        }
    }
    if (!network->flat.closed && !ls_failed(network->session))
        ls_flat_close(&network->flat);
    if (!ls_failed(network->session)) {
        ls_graph_fuse(graph);
        if (mode == RECORD_TRAIN)
            ls_graph_differentiate(graph, loss);
    }
    if (!ls_failed(network->session))
        return graph;
    ls_graph_free(graph);
    return NULL;
}

static ls_plan *plan_for(ls_network *network, recorded mode, int images)
{
    ls_graph *graph = record(network, mode);
    ls_plan *plan = graph ? ls_plan_new(graph, network->backend, images) : NULL;
    ls_graph_free(graph);
    if (plan && ls_engine_reserve(network->engine, plan) == LS_OK)
        return plan;
    ls_plan_free(plan);
    return NULL;
}

ls_status ls_network_train_plan(ls_network *network, int images)
{
    ls_plan *held = network->train;
    if (held && held->capacity >= images)
        return LS_OK;
    ls_engine_wait(network->engine);
    ls_plan_free(held);
    network->train = plan_for(network, RECORD_TRAIN, images);
    return network->train ? LS_OK : ls_status_of(network->session);
}

ls_status ls_network_settle(ls_network *network)
{
    ls_engine_wait(network->engine);
    return ls_status_of(network->session);
}

float *ls_network_values(ls_network *network, const ls_view *view)
{
    int current = atomic_load(&network->current);
    return (view->trainable ? network->weights[current] : network->state[current]) + view->offset;
}

static ls_status allocate_values(ls_network *network)
{
    ls_context *context = &network->session->context;
    for (int i = 0; i < 2; i++) {
        network->weights[i] = ls_alloc(context, network->flat.trainable, sizeof(float), "the weights");
        network->state[i] = ls_alloc(context, network->flat.state, sizeof(float), "the running statistics");
        if (!network->weights[i] || !network->state[i])
            return LS_OUT_OF_MEMORY;
    }
    return LS_OK;
}

static void draw(ls_network *network, const ls_init *init)
{
    ls_init how = init ? *init : (ls_init){.kind = LS_NORMAL};
    if (how.kind == LS_NORMAL && how.scale == 0)
        how.scale = 0.01;
    for (int i = 0; i < network->flat.n_views; i++) {
        const ls_view *view = &network->flat.views[i];
        ls_draw_start(view, &how, network->session->options.seed, ls_network_values(network, view));
    }
}

static ls_network *build(ls_module *root, ls_devices devices, const ls_data *like)
{
    ls_session *session = root->session;
    ls_network *network = ls_alloc(&session->context, 1, sizeof *network, "a network");
    if (!network)
        return NULL;
    network->session = session;
    network->root = root;
    network->devices = devices;
    network->channels = like->channels;
    network->height = like->height;
    network->width = like->width;
    network->shard = session->options.shard;
    network->backend = ls_cpu_backend(session->options.isa);
    ls_flat_init(&network->flat, &session->context);
    network->engine = ls_engine_new(&session->context, &devices);
    if (!ls_own(session, network, free_network))
        return NULL;
    /* Inference is recorded first: it defines the parameters, and needs no shard of its own size. */
    int images = network->shard < 64 ? network->shard : 64;
    if (network->engine)
        network->evaluate = plan_for(network, RECORD_EVALUATE, images);
    if (network->evaluate)
        network->predict = plan_for(network, RECORD_PREDICT, images);
    if (network->predict)
        allocate_values(network);
    return network;
}

ls_status ls_initialize(ls_module *net, ls_devices devices, const ls_data *like, const ls_init *init)
{
    if (!net)
        return LS_BAD_ARGUMENT;
    ls_session *session = net->session;
    ls_context *context = &session->context;
    if (ls_failed(session))
        return ls_status_of(session);
    if (!like || devices.n < 1 || devices.n > LS_MAX_DEVICES)
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_initialize: %s",
                        like ? "the list of devices is empty" : "like is NULL");
    if (init && ((int)init->kind < LS_NORMAL || (int)init->kind > LS_HE || !(init->scale >= 0 && init->scale < 1e30)))
        return ls_raise(context, LS_BAD_ARGUMENT,
                        "ls_initialize: init has no such kind, or a scale that is negative or not finite");
    if (net->network && !(init && init->force))
        return ls_raise(context, LS_BAD_ARGUMENT,
                        "ls_initialize: the network has values already; set init.force to draw them again");
    if (net->network)
        ls_engine_wait(net->network->engine);
    ls_network *network = build(net, devices, like);
    if (ls_failed(session))
        return ls_status_of(session);
    draw(network, init);
    net->network = network;
    return LS_OK;
}

ls_status ls_wait(ls_session *session)
{
    if (!session)
        return LS_BAD_ARGUMENT;
    for (ls_owned *entry = session->owned; entry; entry = entry->next)
        if (entry->release == free_network && ((ls_network *)entry->object)->engine)
            ls_engine_wait(((ls_network *)entry->object)->engine);
    return ls_status_of(session);
}
