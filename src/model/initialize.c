/* A network gets its devices, its shapes and its first values, and in the end is freed. */
#include "model/initialize.h"

#include <stdio.h>
#include <lockstep_cluster.h>
#include <lockstep_lifetime.h>
#include <lockstep_weights.h>

#include "base/environment.h"
#include "base/number.h"
#include "data/data.h"
#include "device/devices.h"
#include "exec/stream.h"
#include "model/classes.h"
#include "model/replica.h"
#include "nn/freezing.h"
#include "nn/init.h"

void ls_network_drop_master(ls_network *network)
{
    ls_replicas_release(network);
    for (int i = 0; i < 2; i++) { /* without a master copy there are none */
        if (network->master_weights[i] != network->weights[i])
            ls_executor_release(network->master, network->master_weights[i]);
        if (network->master_state[i] != network->state[i])
            ls_executor_release(network->master, network->master_state[i]);
        network->master_weights[i] = network->master_state[i] = NULL;
    }
}

static void release_values(ls_network *network)
{
    ls_context *context = &network->session->context;
    ls_network_drop_master(network);
    for (int i = 0; i < 2; i++) {
        ls_release(context, network->weights[i]);
        ls_release(context, network->state[i]);
        network->weights[i] = network->state[i] = NULL;
    }
}

static void free_network(void *object)
{
    ls_network *network = object;
    ls_session *session = network->session;
    ls_context *context = &session->context;
    if (network->engine)
        ls_engine_wait(network->engine);
    ls_streams_wait(session);
    ls_engine_free(network->engine); /* its cores, and with them the executor, are the session's */
    for (int i = 0; i < network->n_pending; i++)
        ls_microbatch_drop(&network->pending[i]);
    ls_release(context, network->pending);
    ls_programs_free(session, network);
    ls_tensors_forget(session, network);
    ls_recorded_release(&network->inference);
    ls_recorded_release(&network->training);
    release_values(network);
    ls_release(context, network->summary);
    ls_network_release_pass(network);
    ls_classes_free(context, &network->named);
    ls_flat_destroy(&network->flat);
    if (network->root->network == network) {
        network->root->network = NULL;
        network->root->defined = NULL;
    }
    ls_release(context, network);
}

ls_status ls_network_take_master(ls_network *network)
{
    const size_t parameters = network->flat.parameters, state = network->flat.state;
    const bool apart = ls_network_master_on_card(network);
    for (int i = 0; i < 2; i++) {
        network->master_weights[i] =
            apart ? ls_executor_alloc(network->master, parameters, sizeof(float), "the weights") : network->weights[i];
        network->master_state[i] =
            apart ? ls_executor_alloc(network->master, state, sizeof(float), "the running statistics")
                  : network->state[i];
        if (!network->master_weights[i] || !network->master_state[i])
            return LS_OUT_OF_MEMORY;
    }
    return ls_replicas_make(network);
}

static ls_status allocate_values(ls_network *network)
{
    ls_context *context = &network->session->context;
    for (int i = 0; i < 2; i++) {
        network->weights[i] = ls_alloc(context, network->flat.parameters, sizeof(float), "the weights");
        network->state[i] = ls_alloc(context, network->flat.state, sizeof(float), "the running statistics");
        if (!network->weights[i] || !network->state[i])
            return LS_OUT_OF_MEMORY;
    }
    return ls_network_take_master(network);
}

ls_status ls_network_move_master(ls_network *network)
{
    if (ls_network_wait(network) != LS_OK)
        return ls_status_of(network->session);
    ls_streams_wait(network->session);
    ls_replicas_release(network);
    network->master = ls_network_card(network);
    network->connected = true;
    if (!network->defined) /* there are no values yet */
        return LS_OK;
    ls_network_changed(network);
    return ls_network_take_master(network);
}

/* The first numbers are drawn by all devices: pieces of the views, pulled one by one. */
typedef struct drawing {
    ls_job job;
    ls_network *network;
    atomic_int next;
} drawing;

enum { DRAWN_AT_ONCE = 1 << 16 };

/* Draws the piece of that number; false beyond the last. */
static bool draw_piece(ls_network *network, int piece)
{
    for (int i = 0; i < network->flat.n_views; i++) {
        const ls_view *view = &network->flat.views[i];
        int pieces = (int)((view->numbers + DRAWN_AT_ONCE - 1) / DRAWN_AT_ONCE);
        if (piece >= pieces) {
            piece -= pieces;
            continue;
        }
        size_t first = (size_t)piece * DRAWN_AT_ONCE, left = view->numbers - first;
        ls_draw_start(view, &network->init, network->session->options.seed, first,
                      left < DRAWN_AT_ONCE ? left : DRAWN_AT_ONCE, ls_network_values(network, view));
        return true;
    }
    return false;
}

static void draw_pieces(ls_job *job, ls_worker *worker)
{
    drawing *d = (drawing *)job;
    (void)worker;
    while (draw_piece(d->network, atomic_fetch_add(&d->next, 1)))
        ;
}

static void draw(ls_network *network)
{
    drawing d = {.job = {.work = draw_pieces}, .network = network};
    ls_engine_submit(network->engine, &d.job);
    ls_engine_wait_job(network->engine, &d.job);
}

/* Images that did not fit leave nothing behind: the next ones may have another shape. */
void ls_network_forget(ls_network *network)
{
    network->defined = false;
    ls_recorded_release(&network->inference);
    ls_recorded_release(&network->training);
    release_values(network);
    ls_flat_destroy(&network->flat);
    ls_flat_init(&network->flat, &network->session->context);
}

/* Says what does not fit the network, or no network at all. */
static ls_status refuse_shapes(const ls_network *network, const ls_input_shapes *shapes, int bad, const char *function)
{
    char is[128], wanted[128] = "(images, channels, height, width) or (images, features)", which[32] = "images are";
    ls_context *context = &network->session->context;
    if (bad == shapes->n)
        return ls_raise(context, LS_BAD_SHAPE, "%s: called with %d input%s, the network takes %d%s", function,
                        shapes->n, shapes->n == 1 ? "" : "s", network->takes.n,
                        network->takes.n > 1 ? ", which ls_module_forward_all and ls_module_infer_all give it" : "");
    ls_shape_text(is, sizeof is, &shapes->at[bad]);
    if (network->defined)
        ls_shape_text(wanted, sizeof wanted, &network->takes.at[bad]);
    if (bad)
        snprintf(which, sizeof which, "input %d is", bad);
    return ls_raise(context, LS_BAD_SHAPE, "%s: %s %s, the network takes %s", function, which, is, wanted);
}

/* The first input that the network does not take: as many as there are where it takes another number; -1 where all
 * fit. */
static int first_that_differs(const ls_network *network, const ls_input_shapes *shapes)
{
    const ls_input_shapes *takes = &network->takes;
    for (int i = 0; i < shapes->n && i < takes->n; i++)
        if (!ls_same_shape(&shapes->at[i], &takes->at[i]))
            return i;
    return shapes->n == takes->n ? -1 : shapes->n;
}

ls_status ls_network_record(ls_network *network, const ls_input_shapes *shapes, const char *function)
{
    ls_session *session = network->session;
    for (int i = 0; i < shapes->n; i++)
        if (shapes->at[i].rank < 2)
            return refuse_shapes(network, shapes, i, function);
    bool changes;
    /* Inference is recorded first: it defines the parameters. */
    if (ls_module_record(network->root, &network->flat, false, shapes, &network->inference) != LS_OK ||
        ls_freezing_mark(session, network->root->freezing, &network->flat, &changes) != LS_OK ||
        ls_flat_close(&network->flat) != LS_OK ||
        ls_module_record(network->root, &network->flat, true, shapes, &network->training) != LS_OK)
        ls_network_forget(network);
    network->takes = *shapes;
    int c, h, w;
    if (network->inference.output)
        network->classes = (int)ls_shape_image(&network->inference.output->shape, &c, &h, &w);
    return ls_status_of(session);
}

ls_status ls_network_fill(ls_network *network)
{
    if (allocate_values(network) != LS_OK) {
        ls_network_forget(network);
        return ls_status_of(network->session);
    }
    network->defined = true;
    draw(network);
    ls_network_changed(network);
    return ls_status_of(network->session);
}

ls_status ls_network_define(ls_network *network, const ls_input_shapes *shapes, const char *function)
{
    const int bad = network->defined ? first_that_differs(network, shapes) : -1;
    if (bad >= 0)
        return refuse_shapes(network, shapes, bad, function);
    if (network->defined)
        return LS_OK;
    ls_status status = ls_network_record(network, shapes, function);
    return status == LS_OK ? ls_network_fill(network) : status;
}

/* Cards alone have their master copy on the first: where cores or other ranks train too, sums are made in the host's
 * memory, until the ranks' cards are connected. */
static void choose_master(ls_network *network)
{
    const ls_options *options = &network->session->options;
    const ls_engine *engine = network->engine;
    ls_executor *card = ls_cluster_ranks(options->cluster) == 1 ? ls_network_card(network) : NULL;
    network->master = card ? card : engine->workers[0].turn->host;
    for (int i = 0; i < engine->n_workers; i++)
        if (engine->workers[i].turn->executor->memory == 0 && options->dtype != LS_F32)
            ls_raise(&network->session->context, LS_UNSUPPORTED,
                     "ls_module_initialize: %s computes in f32; other dtypes are for GPUs",
                     ls_device_str(network->session, engine->workers[i].device));
}

static ls_network *build(ls_module *root, ls_devices devices)
{
    ls_session *session = root->session;
    ls_network *network = ls_alloc(&session->context, 1, sizeof *network, "a network");
    if (!network)
        return NULL;
    network->session = session;
    network->root = root;
    network->devices = devices;
    network->shard = session->options.shard;
    ls_flat_init(&network->flat, &session->context);
    network->engine = ls_engine_new(session, &devices);
    if (network->engine)
        choose_master(network);
    return ls_own(session, network, free_network);
}

static const char *wrong_init(const ls_init *init)
{
    bool sizes = init->shape.rank >= 0 && init->shape.rank <= LS_MAX_RANK;
    for (int i = 1; sizes && i < init->shape.rank; i++)
        sizes = init->shape.dim[i] > 0;
    if (!sizes)
        return "init.shape has a size that is not above 0, or more than 4 of them";
    if (init->like && init->shape.rank)
        return "init has like and shape, and either tells what is to come; set one of them";
    if ((int)init->kind < LS_NORMAL || (int)init->kind > LS_HE ||
        !(ls_or_usual(init->scale, 1) >= 0 && init->scale < 1e30))
        return "init has no such kind, or a scale that is neither above 0 and below 1e30, nor 0 for the usual one, nor "
               "-1 for zeros";
    return NULL;
}

/* Where `init` tells the shapes of what is to come. */
static ls_status define_at_once(ls_network *network, const ls_init *init)
{
    ls_input_shapes shapes = {1, {init->shape}};
    if (init->like) {
        const ls_images *of = &init->like->of;
        shapes = (ls_input_shapes){1 + of->n_more, {ls_images_shape(of, -1)}};
        for (int i = 0; i < of->n_more; i++)
            shapes.at[1 + i] = of->more[i].shape;
    } else if (!init->shape.rank) {
        return LS_OK;
    }
    for (int i = 0; i < shapes.n; i++)
        shapes.at[i].dim[0] = -1;
    const ls_status status = ls_network_define(network, &shapes, "ls_module_initialize");
    return status == LS_OK && init->like ? ls_network_take_classes(network, init->like) : status;
}

ls_status ls_module_initialize(ls_module *net, ls_devices devices, const ls_init *init)
{
    LS_OWN_ENVIRONMENT;
    if (!net)
        return LS_BAD_ARGUMENT;
    ls_session *session = net->session;
    ls_context *context = &session->context;
    if (ls_failed(session))
        return ls_status_of(session);
    ls_init how = init ? *init : (ls_init){.kind = LS_NORMAL};
    const char *wrong = wrong_init(&how);
    char path[LS_MODULE_PATH];
    if (net->parent)
        return ls_raise(
            context, LS_BAD_ARGUMENT,
            "ls_module_initialize: \"%s\" is a part of another module; initialize the outermost one, which has the "
            "values",
            ls_module_path(net, path));
    if (devices.n < 1 || devices.n > LS_MAX_DEVICES)
        wrong = "the list of devices is empty";
    else if (net->network && !how.force)
        wrong = "the network has values already; set init.force to draw them again";
    if (wrong)
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_module_initialize: %s", wrong);
    for (int d = 0; d < devices.n; d++)
        if (devices.at[d].type == LS_HOST)
            return ls_raise(context, LS_BAD_ARGUMENT,
                            "ls_module_initialize: the host is no device that computes; see ls_cpu");
        else if (ls_check_device(session, devices.at[d], "ls_module_initialize") != LS_OK)
            return ls_status_of(session);
    if (net->network)
        ls_engine_wait(net->network->engine);
    ls_network *network = build(net, devices);
    if (!network || ls_failed(session))
        return ls_status_of(session);
    network->init = how;
    network->init.scale = ls_or_usual(how.scale, how.kind == LS_NORMAL ? 0.01 : 0);
    network->of_data = how.like && how.like->of.classes > 0;
    if (define_at_once(network, &how) != LS_OK)
        return ls_status_of(session);
    net->network = network;
    net->defined = &network->defined;
    return LS_OK;
}

ls_status ls_module_end(ls_module *net)
{
    LS_OWN_ENVIRONMENT;
    if (!net || ls_context_is_parents(&net->session->context))
        return LS_BAD_ARGUMENT;
    ls_session *session = net->session;
    if (!net->network)
        return ls_status_of(session);
    ls_wait(session);
    if (!ls_end_owned(session, net->network))
        return ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_module_end: the network has a trainer; ls_end ends it");
    return ls_status_of(session);
}

ls_shape ls_module_images_shape(const ls_module *net)
{
    LS_OWN_ENVIRONMENT;
    return net && net->network && net->network->defined ? net->network->takes.at[0] : (ls_shape){.rank = 0};
}

ls_status ls_wait(ls_session *session)
{
    LS_OWN_ENVIRONMENT;
    if (!session || ls_context_is_parents(&session->context))
        return session ? ls_status_of(session) : LS_BAD_ARGUMENT;
    ls_streams_wait(session);
    for (ls_owned *entry = session->owned; entry; entry = entry->next)
        if (entry->release == free_network && ((ls_network *)entry->object)->engine)
            ls_engine_wait(((ls_network *)entry->object)->engine);
    return ls_status_of(session);
}
