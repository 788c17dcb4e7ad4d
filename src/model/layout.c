#include "model/layout.h"

#include <string.h>
#include <lockstep_train.h>

#include "base/environment.h"
#include "exec/stream.h"
#include "model/initialize.h"
#include "nn/freezing.h"

/* Where a view was, and whether it was frozen. */
typedef struct place {
    size_t offset;
    bool frozen;
} place;

/* Has the parameters where the new layout has them. False, and nothing has changed, when memory runs out. */
static bool move(ls_network *network, const place was[])
{
    const ls_flat *flat = &network->flat;
    ls_context *context = &network->session->context;
    const int current = atomic_load(&network->current);
    float *values = ls_alloc(context, flat->parameters, sizeof *values, "the weights");
    float *other = values ? ls_alloc(context, flat->parameters, sizeof *other, "the weights") : NULL;
    if (!other) {
        ls_release(context, values);
        return false;
    }
    for (int i = 0; i < flat->n_views; i++) {
        const ls_view *view = &flat->views[i];
        if (view->trainable)
            memcpy(values + view->offset, network->weights[current] + was[i].offset, view->numbers * sizeof *values);
    }
    ls_network_drop_master(network);
    ls_release(context, network->weights[current]);
    ls_release(context, network->weights[1 - current]);
    network->weights[current] = values;
    network->weights[1 - current] = other;
    if (ls_network_take_master(network) != LS_OK)
        ls_network_forget(network);
    return true;
}

static void lay_as_before(ls_flat *flat, const place was[])
{
    for (int i = 0; i < flat->n_views; i++)
        flat->views[i].frozen = was[i].frozen;
    ls_flat_lay(flat);
}

/* Lays the network out by its rules. What was planned and told of it is of the layout before. */
static ls_status lay(ls_network *network)
{
    ls_flat *flat = &network->flat;
    ls_context *context = &network->session->context;
    bool changes;
    place *was = ls_alloc(context, (size_t)flat->n_views, sizeof *was, "a layout");
    ls_status status = was ? ls_network_change(network, "ls_module_freeze") : LS_OUT_OF_MEMORY;
    for (int i = 0; i < flat->n_views && status == LS_OK; i++)
        was[i] = (place){flat->views[i].offset, flat->views[i].frozen};
    if (status == LS_OK)
        status = ls_freezing_mark(network->session, network->root->freezing, flat, &changes);
    if (status == LS_OK && changes) {
        ls_programs_free(network->session, network);
        ls_release(context, network->summary);
        network->summary = NULL;
        ls_flat_lay(flat);
        if (!move(network, was))
            lay_as_before(flat, was);
    }
    ls_release(context, was);
    return ls_status_of(network->session);
}

/* In the middle of a run the optimizer's moments would have to be laid out too, of which some are not there. */
static ls_status check_call(ls_module *net, const ls_network *network, const char *pattern)
{
    ls_context *context = &net->session->context;
    if (ls_failed(net->session))
        return ls_status_of(net->session);
    if (!pattern || !*pattern)
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_module_freeze: the pattern is empty; \"*\" is everything");
    if (network && network->trainer)
        return ls_raise(context, LS_BAD_ARGUMENT,
                        "ls_module_freeze: the network has a trainer, whose moments are those of what it trains; "
                        "freeze before ls_trainer_new, or leave the scope that the trainer was made in");
    return LS_OK;
}

ls_status ls_module_freeze(ls_module *net, const char *pattern, bool frozen)
{
    LS_OWN_ENVIRONMENT;
    if (!net)
        return LS_BAD_ARGUMENT;
    ls_module *root = ls_module_root(net);
    ls_network *network = root->network;
    const ls_freezing *was = root->freezing;
    if (check_call(net, network, pattern) != LS_OK || ls_module_add_freezing(net, pattern, frozen) != LS_OK)
        return ls_status_of(net->session);
    if (network && network->defined && lay(network) != LS_OK)
        root->freezing = was;
    return ls_status_of(net->session);
}

ls_status ls_layout_check(const ls_network *network)
{
    return ls_freezing_check(network->session, network->root->freezing, &network->flat);
}

char *ls_layout_frozen_text(const ls_network *network)
{
    return ls_freezing_text(&network->session->context, network->root->freezing);
}
