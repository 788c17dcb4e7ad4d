/* Values of a network to come back to: what its trainer remembers, and what the last update began with. */
#include "train/remember.h"

#include <lockstep_checkpoint.h>
#include <string.h>

#include "base/environment.h"
#include "train/job.h"

float *ls_remembered_new(ls_context *context, const ls_network *network)
{
    return ls_alloc(context, network->flat.parameters + network->flat.state, sizeof(float), "remembered weights");
}

void ls_remembered_put(const ls_network *network, int copy, float *values)
{
    const ls_flat *flat = &network->flat;
    memcpy(values, network->weights[copy], flat->parameters * sizeof *values);
    memcpy(values + flat->parameters, network->state[copy], flat->state * sizeof *values);
}

void ls_remembered_get(ls_network *network, int copy, const float *values)
{
    const ls_flat *flat = &network->flat;
    memcpy(network->weights[copy], values, flat->parameters * sizeof *values);
    memcpy(network->state[copy], values + flat->parameters, flat->state * sizeof *values);
}

void ls_remembered_take(struct ls_trainer *trainer, float *values)
{
    ls_release(&trainer->session->context, trainer->remembered);
    trainer->remembered = values;
}

ls_status ls_trainer_remember(ls_trainer *trainer)
{
    LS_OWN_ENVIRONMENT;
    if (!trainer)
        return LS_BAD_ARGUMENT;
    ls_network *network = ls_defined_network_of(trainer->network->root, "ls_trainer_remember");
    if (!network || ls_network_wait(network) != LS_OK)
        return ls_status_of(trainer->session);
    if (!trainer->remembered && !(trainer->remembered = ls_remembered_new(&trainer->session->context, network)))
        return LS_OUT_OF_MEMORY;
    ls_remembered_put(network, atomic_load(&network->current), trainer->remembered);
    return LS_OK;
}

ls_status ls_trainer_recall(ls_trainer *trainer)
{
    LS_OWN_ENVIRONMENT;
    if (!trainer)
        return LS_BAD_ARGUMENT;
    ls_network *network = trainer->network;
    if (ls_failed(trainer->session))
        return ls_status_of(trainer->session);
    if (!trainer->remembered)
        return ls_raise(&trainer->session->context, LS_STALE,
                        "ls_trainer_recall: nothing was remembered; call ls_trainer_remember first");
    if (ls_network_change(network, "ls_trainer_recall") != LS_OK)
        return ls_status_of(trainer->session);
    const int next = 1 - atomic_load(&network->current);
    ls_remembered_get(network, next, trainer->remembered);
    atomic_store(&network->current, next);
    ls_network_changed(network);
    return LS_OK;
}

ls_status ls_trainer_step_back(ls_trainer *trainer, int64_t *step)
{
    LS_OWN_ENVIRONMENT;
    if (step)
        *step = 0;
    if (!trainer || !step)
        return LS_BAD_ARGUMENT;
    ls_network *network = trainer->network;
    if (ls_network_clear(network) != LS_OK)
        return ls_status_of(trainer->session);
    const int sound = atomic_load(&network->sound), other = 1 - atomic_load(&network->current);
    if (sound == LS_SOUND_NONE)
        return ls_raise(&trainer->session->context, LS_STALE,
                        "ls_trainer_step_back: the values before the last update are not there any more");
    pthread_mutex_lock(&trainer->lock);
    *step = trainer->reported - (sound == LS_SOUND_BEFORE);
    pthread_mutex_unlock(&trainer->lock);
    if (sound == LS_SOUND_CURRENT || ls_network_change(network, "ls_trainer_step_back") != LS_OK)
        return ls_status_of(trainer->session);
    ls_network_get(network, network->weights[other], network->master_weights[other], network->flat.trainable);
    atomic_store(&network->current, other);
    return ls_status_of(trainer->session);
}
