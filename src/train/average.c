/* Averages take the copy of the values that the next step would write, and become current; the network's own stay in
 * the other copy. Nothing writes there until they are current again: what would is refused meanwhile. What that copy
 * held, the values before the last update, comes back then. */
#include <string.h>
#include <lockstep_train.h>

#include "base/environment.h"
#include "cluster/cluster.h"
#include "optim/optimizer.h"
#include "train/gathered.h"
#include "train/job.h"
#include "train/remember.h"
#include "train/trainer.h"

static const char function[] = "ls_trainer_use_average";

/* Those of this rank's pieces, and what is no part of the averages, into the other copy. */
static void fill_other(struct ls_trainer *trainer)
{
    ls_network *network = trainer->network;
    const ls_flat *flat = &network->flat;
    const int current = atomic_load(&network->current), other = 1 - current;
    memcpy(network->weights[other], network->weights[current], flat->parameters * sizeof(float));
    const float *state = ls_trainer_has_average(trainer) ? trainer->average_state : NULL;
    memcpy(network->state[other], state ? state : network->state[current], flat->state * sizeof(float));
    if (ls_trainer_has_average(trainer))
        ls_network_get(network, network->weights[other], trainer->moments + ls_average_at(trainer), flat->trainable);
}

/* Where the loss over them was finite. False without memory. */
static bool put_aside(struct ls_trainer *trainer)
{
    ls_network *network = trainer->network;
    ls_release(&trainer->session->context, trainer->before_update); /* of a use that was refused */
    trainer->before_update = NULL;
    if (atomic_load(&network->sound) != LS_SOUND_BEFORE || ls_network_master_on_card(network))
        return true;
    float *values = ls_remembered_new(&trainer->session->context, network);
    if (!values)
        return false;
    ls_remembered_put(network, 1 - atomic_load(&network->current), values);
    trainer->before_update = values;
    return true;
}

static void take_back(struct ls_trainer *trainer)
{
    ls_network *network = trainer->network;
    if (!trainer->before_update)
        return;
    ls_remembered_get(network, 1 - atomic_load(&network->current), trainer->before_update);
    atomic_store(&network->sound, LS_SOUND_BEFORE);
    ls_release(&trainer->session->context, trainer->before_update);
    trainer->before_update = NULL;
}

static ls_status use(struct ls_trainer *trainer)
{
    ls_network *network = trainer->network;
    if (ls_defined_network_of(network->root, function) && ls_trainer_wait(trainer, function) == LS_OK &&
        put_aside(trainer) && ls_network_change(network, function) == LS_OK)
        fill_other(trainer);
    if (ls_cluster_agree_error(trainer->session) != LS_OK)
        return ls_status_of(trainer->session);
    if (ls_trainer_has_average(trainer) &&
        ls_gathered_average(trainer, network->weights[1 - atomic_load(&network->current)]) != LS_OK)
        return ls_status_of(trainer->session);
    ls_network_turn_over(network, true);
    return LS_OK;
}

static ls_status give_back(struct ls_trainer *trainer)
{
    ls_network *network = trainer->network;
    if (ls_failed(network->session))
        return ls_status_of(network->session);
    network->averaged = false; /* so that it may be changed */
    if (ls_network_change(network, function) == LS_OK) {
        ls_network_turn_over(network, false);
        take_back(trainer);
    } else {
        network->averaged = true;
    }
    return ls_status_of(network->session);
}

ls_status ls_trainer_use_average(ls_trainer *trainer, bool on)
{
    LS_OWN_ENVIRONMENT;
    if (!trainer)
        return LS_BAD_ARGUMENT;
    if (!ls_optimizer_averages(&trainer->options))
        return ls_raise(&trainer->session->context, LS_BAD_ARGUMENT,
                        "%s: the trainer keeps no averages; set ema in its options", function);
    if (on == trainer->network->averaged)
        return LS_OK;
    return on ? use(trainer) : give_back(trainer);
}
