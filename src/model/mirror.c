#include "model/mirror.h"

#include "device/watch.h"

ls_status ls_mirrors_make(ls_network *network)
{
    ls_engine *engine = network->engine;
    ls_unit *home = network->home;
    if (!ls_network_on_cards(network))
        return LS_OK;
    network->mirrors =
        ls_alloc(&network->session->context, (size_t)engine->n_cores, sizeof *network->mirrors, "copies of a network");
    for (int i = 0; i < engine->n_workers && network->mirrors; i++) {
        ls_core *core = engine->workers[i].core;
        if (core->unit->memory == 0 || core->unit == home || ls_mirror_of(network, core))
            continue;
        if (home->memory)
            home->type->reach(home, core->unit);
        ls_mirror *mirror = &network->mirrors[network->n_mirrors++];
        mirror->core = core;
        mirror->weights = ls_unit_alloc(core->unit, network->flat.trainable, sizeof(float), "the weights");
        mirror->state = ls_unit_alloc(core->unit, network->flat.state, sizeof(float), "the running statistics");
    }
    return ls_status_of(network->session);
}

ls_status ls_mirrors_take_gradients(ls_network *network)
{
    for (int i = 0; i < network->n_mirrors; i++) {
        ls_mirror *mirror = &network->mirrors[i];
        if (!mirror->gradient)
            mirror->gradient =
                ls_unit_alloc(mirror->core->unit, network->flat.trainable, sizeof(float), "a partial gradient");
    }
    return ls_status_of(network->session);
}

void ls_mirrors_release(ls_network *network)
{
    for (int i = 0; i < network->n_mirrors; i++) {
        ls_mirror *mirror = &network->mirrors[i];
        ls_unit_release(mirror->core->unit, mirror->weights);
        ls_unit_release(mirror->core->unit, mirror->state);
        ls_unit_release(mirror->core->unit, mirror->gradient);
    }
    ls_release(&network->session->context, network->mirrors);
    network->mirrors = NULL;
    network->n_mirrors = 0;
}

ls_mirror *ls_mirror_of(const ls_network *network, const ls_core *core)
{
    for (int i = 0; i < network->n_mirrors; i++)
        if (network->mirrors[i].core == core)
            return &network->mirrors[i];
    return NULL;
}

static void refresh(ls_mirror *mirror, const ls_network *network)
{
    const uint64_t changes = atomic_load(&network->changes);
    const int current = atomic_load(&network->current);
    ls_unit *unit = mirror->core->unit;
    if (mirror->changes == changes)
        return;
    int mark = ls_watch_mark(unit);
    void (*bring)(ls_unit *, void *, const void *, size_t) =
        ls_network_apart(network) ? unit->type->copy : unit->type->put;
    bring(unit, mirror->weights, network->home_weights[current], network->flat.trainable * sizeof(float));
    bring(unit, mirror->state, network->home_state[current], network->flat.state * sizeof(float));
    ls_watch_note(unit, mark, LS_SPAN_TO_CARD, -1, NULL);
    mirror->changes = changes;
}

ls_status ls_mirror_bring_home(const ls_mirror *mirror, const ls_network *network, float *gradient)
{
    ls_unit *unit = mirror->core->unit;
    int mark = ls_watch_mark(unit);
    void (*bring)(ls_unit *, void *, const void *, size_t) =
        ls_network_apart(network) ? unit->type->copy : unit->type->get;
    bring(unit, gradient, mirror->gradient, network->flat.trainable * sizeof *gradient);
    ls_watch_note(unit, mark, LS_SPAN_FROM_CARD, -1, NULL);
    return ls_unit_finish(unit, NULL);
}

void ls_mirror_bind(ls_network *network, const ls_core *core, ls_bindings *bindings)
{
    const int current = atomic_load(&network->current);
    if (atomic_exchange(&network->state_moved, false))
        network->home->type->put(network->home, network->home_state[current], network->state[current],
                                 network->flat.state * sizeof(float));
    ls_mirror_bind_training(network, core, bindings);
}

void ls_mirror_bind_training(const ls_network *network, const ls_core *core, ls_bindings *bindings)
{
    int current = atomic_load(&network->current);
    ls_mirror *mirror = ls_mirror_of(network, core);
    if (mirror)
        refresh(mirror, network);
    bindings->base[LS_IN_WEIGHTS] = mirror ? mirror->weights : network->home_weights[current];
    bindings->base[LS_IN_STATE] = mirror ? mirror->state : network->home_state[current];
}
