#include "train/clip.h"

#include <math.h>

#include "optim/optimizer.h"
#include "train/updates.h"

static size_t blocks_of(const ls_flat *flat)
{
    return (flat->trainable + LS_SQUARED - 1) / LS_SQUARED;
}

ls_status ls_clip_init(struct ls_trainer *trainer)
{
    const ls_flat *flat = &trainer->network->flat;
    ls_context *context = &trainer->session->context;
    if (!trainer->squares)
        trainer->squares = ls_alloc(context, blocks_of(flat), sizeof(double), "the gradient's norm");
    return trainer->squares ? LS_OK : LS_OUT_OF_MEMORY;
}

static double norm_of(const struct ls_trainer *trainer)
{
    const ls_flat *flat = &trainer->network->flat;
    ls_executor *master = trainer->network->master;
    master->type->compute.square(master, trainer->gradient, flat->trainable, trainer->squares);
    ls_tree_sum_doubles(trainer->squares, (int)blocks_of(flat));
    return sqrt(trainer->squares[0]);
}

/* Numbers [at, end) by one rule. */
static bool update(const struct ls_trainer *trainer, size_t at, size_t end, const ls_update *how)
{
    const ls_network *network = trainer->network;
    const int current = atomic_load(&network->current);
    const ls_terms terms = {.n = 1, .at = {trainer->gradient + at}};
    ls_executor *master = network->master;
    return master->type->compute.update(master, &terms, network->master_weights[1 - current] + at,
                                        network->master_weights[current] + at,
                                        trainer->moments ? trainer->moments + at : NULL, end - at, how);
}

bool ls_clip_update(ls_step_job *step)
{
    struct ls_trainer *trainer = step->trainer;
    ls_network *network = trainer->network;
    const double most = trainer->options.clip_norm, divisor = ls_optimizer_divisor(&trainer->options, step->counted);
    step->ending.norm = norm_of(trainer) / divisor;
    const double shrink = (step->ending.norm + 1e-6) / most;
    bool finite = true;
    for (size_t at = 0, end; at < network->flat.trainable; at = end) {
        ls_update how = *ls_updates_at(step, at, network->flat.trainable, &end);
        if (shrink > 1) /* where it is no number the gradient has one that is none, and so has the update */
            ls_update_divide(&how, (float)(divisor * shrink));
        finite &= update(trainer, at, end, &how);
    }
    ls_executor *master = network->master;
    if (ls_executor_finish(master, &finite) != LS_OK)
        atomic_store(&network->session->broken, true);
    return finite;
}
